"""An operation and a size -> its cost in a process of its own. Its input is prepared in another process."""

from __future__ import annotations

import gc
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Final

from bench.child import cost_of, tree_cpu_seconds, tree_memory_bytes
from bench.growth import worlds
from bench.growth.fit import Measured
from bench.growth.operation import Operation, Place, Preparation
from bench.growth.operations import find
from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE

SMALL: Final = "small"
RESET_PEAK: Final = "5"
"""The value that resets the peak of resident memory in /proc/self/clear_refs."""


# -- in the driving process


def measure(operation: Operation, sizes: Sequence[int], folder: Path, *, one_process: bool = False) -> list[Measured]:
    """Measure an operation at some sizes. `folder` keeps the prepared input for the next operation."""
    groups = [sizes] if one_process or operation.one_process else [[n] for n in sizes]
    _prepare(folder, operation.needs, [small_of(operation), *sizes])
    found: list[Measured] = []
    for group in groups:
        work = folder / "work"
        _lay_out(operation, folder, work / SMALL, small_of(operation), copies=2)
        for n in group:
            _lay_out(operation, folder, work / str(n), n, copies=copies_of(operation))
        try:
            cost = cost_of(operation.name, measure_here, operation.name, str(work), *map(str, group))
        finally:
            shutil.rmtree(work)
        found += [Measured(*size) for size in cost.result]
    return found


def small_of(operation: Operation) -> int:
    """Return the size at which the fixed cost is measured."""
    return max(1, operation.base // 100)


def copies_of(operation: Operation) -> int:
    return operation.times if operation.changes and not operation.repeatable else 1


def _lay_out(operation: Operation, folder: Path, to: Path, n: int, *, copies: int) -> None:
    """Create directories 0, 1, ... with the input of an operation. The input is copied if the operation changes it."""
    prepared = [_place_of(folder, preparation, n) for preparation in operation.needs]
    to.mkdir(parents=True)
    if not operation.changes and len(prepared) == 1:
        for at in range(copies):
            (to / str(at)).symlink_to(prepared[0])
        return
    for at in range(copies):
        for source in prepared:
            shutil.copytree(source, to / str(at), dirs_exist_ok=True)
        (to / str(at) / worlds.SIZE).write_text(str(sum(map(_data_bytes, prepared))))


def _prepare(folder: Path, needs: Iterable[Preparation], sizes: Iterable[int]) -> None:
    """Prepare all missing input in one process."""
    places = [_place_of(folder, preparation, n) for preparation, n in product(needs, sizes)]
    if missing := [place for place in places if not place.exists()]:
        cost_of(f"the preparation of {missing[0].name}", prepare_here, *map(str, missing))


def _place_of(folder: Path, preparation: Preparation, n: int) -> Path:
    return folder / f"{preparation.__name__}-{n}"


def _data_bytes(folder: Path) -> int:
    file = folder / worlds.SIZE
    return int(file.read_text()) if file.exists() else 0


# -- in the measured process


def prepare_here(*places: str) -> None:
    for place in map(Path, places):
        preparation, _, n = place.name.rpartition("-")
        place.mkdir()
        getattr(worlds, preparation)(place, int(n))


def measure_here(name: str, work: str, *sizes: str) -> list[Measured]:
    """Measure all sizes, smallest first. A first run, on few rows, loads modules. A second one measures the fixed cost."""
    operation, folder = find(name), Path(work)
    os.environ[CACHE] = str(folder / "cache")
    small = small_of(operation)
    run_on(operation, [Place((folder / SMALL / "0").resolve(), small)])
    fixed, _, _ = run_on(operation, [Place((folder / SMALL / "1").resolve(), small)])
    found = []
    for n in map(int, sizes):
        places = [Place((folder / str(n) / str(at)).resolve(), n) for at in range(copies_of(operation))]
        cpu, wall, peak = run_on(operation, places)
        found.append(Measured(n, cpu, wall, fixed, peak, _data_bytes(places[0].folder)))
    return found


def run_on(operation: Operation, places: Sequence[Place]) -> tuple[float, float, int]:
    """Return the CPU seconds, the seconds and the peak bytes of all runs of an operation."""
    for place in places:
        operation.ready(place)
    return _watched(lambda: _run_all(operation, places))


def _run_all(operation: Operation, places: Sequence[Place]) -> None:
    for turn in range(operation.times):
        place = places[turn % len(places)]
        place.turn = turn
        operation.run(place)


def _watched(work: Callable[[], object]) -> tuple[float, float, int]:
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK)
    below, held = _largest_child_bytes(), tree_memory_bytes("VmRSS")
    began, cpu = time.monotonic(), tree_cpu_seconds()
    work()
    spent, took = tree_cpu_seconds() - cpu, time.monotonic() - began
    peak = max(tree_memory_bytes("VmHWM") - held, _largest_child_bytes() - below, 0)
    return spent, took, peak


def _largest_child_bytes() -> int:
    """Return the peak memory of the largest ended child: a command runs as a child."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def operations_like(operations: Iterable[Operation], pattern: str | None) -> list[Operation]:
    from re import IGNORECASE, search

    return [operation for operation in operations if pattern is None or search(pattern, operation.name, IGNORECASE)]
