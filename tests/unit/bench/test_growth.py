"""Every public operation is in `bench.growth`, every line of it runs, and growth that is too fast is seen as such."""

from __future__ import annotations

import inspect
import shutil
from itertools import product
from pathlib import Path

import pytest

import omnigraph as og
import omnigraph.spark
from bench.growth import worlds
from bench.growth.__main__ import settled
from bench.growth.fit import Measured, exponent, grows_too_fast, memory_per_byte, memory_ratio
from bench.growth.measure import copies_of, run_on
from bench.growth.operation import Kind, Operation, Place
from bench.growth.operations import OPERATIONS, WITHOUT_GROWTH
from omnigraph.cli.main import cli
from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE
from omnigraph.feed import Changes
from omnigraph.graph import Branches, Graph, Tags
from omnigraph.store.root import FSYNC_ENVIRONMENT

COVERED = {name for operation in OPERATIONS for name in operation.covers}
WITHOUT_SPARK = [operation for operation in OPERATIONS if not operation.one_process]
FEW = 20


def public(prefix: str, type_: type) -> set[str]:
    """The public methods and properties of a class."""
    return {f"{prefix}.{name}" for name, _ in inspect.getmembers(type_) if not name.startswith("_")}


def public_names() -> set[str]:
    return {
        "init",
        "memory",
        "open",
        *public("Graph", Graph),
        *public("branches", Branches),
        *public("tags", Tags),
        *public("changes", Changes),
        *(f"spark.{name}" for name in omnigraph.spark.__all__),
        *(f"omnigraph {verb}" for verb in cli.commands),
    }


def test_every_public_operation_is_measured() -> None:
    """A new method, branch operation, Spark function or command fails here until it has a line or a reason to have none."""
    assert callable(og.init)
    assert callable(og.open)
    assert public_names() - COVERED - set(WITHOUT_GROWTH) == set()


def test_what_is_measured_exists() -> None:
    assert COVERED | set(WITHOUT_GROWTH) <= public_names()
    assert COVERED.isdisjoint(WITHOUT_GROWTH)


def test_names_are_unique() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prepared")


@pytest.mark.parametrize("operation", WITHOUT_SPARK, ids=lambda operation: operation.name)
def test_an_operation_runs(operation: Operation, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    n = min(FEW, operation.base)
    sources = [prepared / f"{need.__name__}-{n}" for need in operation.needs]
    for need, source in zip(operation.needs, sources, strict=True):
        if not source.exists():
            source.mkdir()
            need(source, n)
    places = [Place(tmp_path / str(at) if operation.changes else sources[0], n) for at in range(copies_of(operation))]
    if operation.changes:
        for source, place in product(sources, places):
            shutil.copytree(source, place.folder, dirs_exist_ok=True)
    cpu_seconds, wall_seconds, peak_bytes = run_on(operation, places)
    assert cpu_seconds > 0
    assert wall_seconds > 0
    assert peak_bytes >= 0


def sizes(cost: dict[int, float], *, fixed: float = 0.02) -> list[Measured]:
    return [Measured(n, seconds + fixed, seconds, fixed, 100 * n, 10 * n) for n, seconds in cost.items()]


STEPS = (10_000, 30_000, 90_000, 270_000)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0])
def test_the_exponent_is_that_of_the_part_that_grows(power: float) -> None:
    found = sizes({n: 0.1 * (n / 10_000) ** power for n in STEPS})
    assert exponent(Kind.LINEAR, found) == pytest.approx(power)
    assert grows_too_fast(Kind.LINEAR, found) == (power > 1.15)


def test_sizes_whose_cost_is_mostly_fixed_do_not_count() -> None:
    """0.001 s on top of 0.1 s is noise, not a point of the line."""
    found = sizes({10_000: 0.0001, 30_000: 0.0005, 90_000: 0.3, 270_000: 0.9}, fixed=0.1)
    assert exponent(Kind.LINEAR, found) == pytest.approx(1.0)


def test_sizes_below_one_that_does_not_count_do_not_count_either() -> None:
    """A small size that happened to cost more than the next is noise, and would flatten the line."""
    found = sizes({10_000: 0.05, 30_000: 0.001, 90_000: 0.1, 270_000: 0.9})
    assert exponent(Kind.LINEAR, found) == pytest.approx(2.0)


def test_an_operation_that_costs_nothing_noticeable_has_not_grown() -> None:
    assert exponent(Kind.LINEAR, sizes({n: 1e-8 * n for n in STEPS})) == 0.0


def test_a_flat_operation_may_not_grow() -> None:
    assert not grows_too_fast(Kind.FLAT, sizes(dict.fromkeys(STEPS, 0.03)))
    assert grows_too_fast(Kind.FLAT, sizes({n: 0.03 * (n / 10_000) ** 0.5 for n in STEPS}))


def test_memory_is_a_multiple_of_the_data() -> None:
    found = sizes(dict.fromkeys(STEPS, 1.0))
    assert memory_ratio(found) == pytest.approx(10)
    assert memory_per_byte(found) == pytest.approx(10)


def test_data_has_a_size(tmp_path: Path) -> None:
    worlds.new_people(tmp_path, FEW)
    assert int((tmp_path / worlds.SIZE).read_text()) == worlds.people_rows(FEW).nbytes


def costs(*seconds: float) -> list[Measured]:
    return [Measured(10_000 * 3**at, cost, cost, 0.0, 0, 1) for at, cost in enumerate(seconds)]


@pytest.mark.parametrize(
    ("runs", "measured", "too_fast"),
    [
        pytest.param([costs(0.1, 0.3, 0.9, 2.7)], 1, False, id="a linear operation is measured once"),
        pytest.param([costs(0.1, 0.2, 0.4, 0.9), costs(0.05, 0.2, 0.5, 0.8)], 1, False, id="one below linear too"),
        pytest.param([costs(0.01, 0.02, 0.05, 0.6), costs(0.01, 0.02, 0.06, 0.16)], 2, False, id="a quick one may be noise"),
        pytest.param([costs(0.1, 0.9, 8.1, 73.0)], 1, True, id="a square of seconds is no noise"),
    ],
)
def test_what_noise_explains_is_measured_again(runs: list[list[Measured]], measured: int, too_fast: bool) -> None:
    given = iter(runs)
    found = settled(lambda: next(given), Kind.LINEAR)
    assert len(runs) - len(list(given)) == measured
    assert grows_too_fast(Kind.LINEAR, found) is too_fast
