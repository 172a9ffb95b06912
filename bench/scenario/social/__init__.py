"""A hundred thousand people and two million edges -> the costs of loads and queries in omnigraph, kuzu, duckdb and lancedb.

`python -m bench.scenario social [--people N] [--edges N]`. All engines are measured in one run, after their results are
compared. The floor is the same traversals over plain arrays in memory, without ids, types, branches or files.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from bench.child import cost_of
from bench.report import interleaved, save
from bench.scenario.social.cold import cold
from bench.scenario.social.data import Network, network
from bench.scenario.social.engines import Duck, Engine, Floor, Kuzu, LanceTables, Ours
from bench.scenario.social.language import IGRAPH, Asked, measure_reads, measure_updates
from bench.scenario.social.search import LANCE, measure_searches

PEOPLE = 100_000
EDGES = 2_000_000
SEEDS = 1_000
RUNS = {"one_hop": 200, "two_hops": 200, "paths": 5, "within": 3, "report": 9}
OURS, FLOOR = "omnigraph", "numpy floor"
ENGINES: dict[str, Any] = {OURS: Ours, "kuzu": Kuzu, "duckdb": Duck, "lancedb": LanceTables}
ASKED = (OURS, "kuzu", "duckdb")
Facts = dict[str, dict[str, float]]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario social", description=__doc__)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--only", nargs="*", default=list(ENGINES), choices=list(ENGINES))
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["OMNIGRAPH_CACHE"] = str(folder / "cache")
        net = network(folder, people=chosen.people, edges=chosen.edges)
        facts: Facts = {engine: _loaded(engine, folder, net) for engine in chosen.only}
        facts |= {FLOOR: {}, IGRAPH: {}}
        _measure_traversals(facts, chosen.only, folder, net)
        _measure_language(facts, [engine for engine in chosen.only if engine in ASKED], folder, net)
        for engine, timings in measure_searches(folder, net).items():
            facts[engine] = facts.get(engine, {}) | timings
    _show(facts)
    versions = {engine: _version(engine) for engine in facts}
    save("scenario-social", {"people": chosen.people, "edges": chosen.edges, "versions": versions, "engines": facts})


def _measure_traversals(facts: Facts, engines: list[str], folder: Path, net: Network) -> None:
    opened: dict[str, Engine] = {engine: ENGINES[engine](folder / engine) for engine in engines}
    opened[FLOOR] = Floor(net)
    _agree(opened, net)
    print("all engines agree", flush=True)
    for question, work in _questions(net).items():
        works = {engine: work(opened[engine]) for engine in opened}
        timings = interleaved(works, runs=RUNS[question], warm=_warm(question), at_once=_at_once(question))
        for engine, timing in timings.items():
            facts[engine] |= {f"{question}_ms": timing.median_ms, f"{question}_cpu_ms": timing.cpu_ms}
        shown = {engine: (round(timing.median_ms, 2), round(timing.cpu_ms, 2)) for engine, timing in timings.items()}
        print(question, shown, "ms, CPU ms", flush=True)
    if OURS in opened:
        facts[OURS] |= cold(folder / OURS, net.names[0].as_py())
    for one in opened.values():
        if isinstance(one, Kuzu | Duck):  # what a reader holds open keeps a writer away
            one.close()


def _measure_language(facts: Facts, engines: list[str], folder: Path, net: Network) -> None:
    for measured, writes in ((measure_reads, False), (measure_updates, True)):
        asked: dict[str, Asked] = {engine: ENGINES[engine](folder / engine, writes=writes) for engine in engines}
        for engine, timings in measured(asked, net).items():
            facts[engine] |= timings
        for one in asked.values():
            one.close()


def _loaded(engine: str, folder: Path, net: Network) -> dict[str, float]:
    kind = ENGINES[engine]
    place = str(folder / engine)
    load = cost_of(f"{engine} load", kind.load, place, str(net.people), str(net.knows))
    facts = {"load_s": load.wall_seconds, "load_cpu_s": load.cpu_seconds, "load_peak_mb": load.peak_mb}
    if hasattr(kind, "index"):
        index = cost_of(f"{engine} index", kind.index, place)
        facts |= {"index_s": index.wall_seconds}
    return facts | {"disk_mb": _bytes(folder / engine) / 1e6}


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _agree(opened: dict[str, Engine], net: Network) -> None:
    """Check that all engines return the same results. This also warms them up."""
    names = net.names.take(np.random.default_rng(3).integers(0, len(net.names), 20)).to_pylist()
    for question in ("one_hop", "two_hops"):
        for name in names:
            answers = {engine: getattr(one, question)(name) for engine, one in opened.items()}
            assert all(answer == answers[FLOOR] for answer in answers.values()), f"{question} of {name} differs: {answers.keys()}"
    seeds = names[:5]
    works: tuple[Callable[[Engine], Any], ...] = (
        lambda one: one.paths(seeds),
        lambda one: one.within(sorted(set(seeds))),
        lambda one: one.report(),
    )
    for work in works:
        answers = {engine: work(one) for engine, one in opened.items()}
        assert all(answer == answers[FLOOR] for answer in answers.values()), f"answers differ: {answers}"


def _questions(net: Network) -> dict[str, Callable[[Engine], Callable[[], object]]]:
    chance = np.random.default_rng(5)
    some = net.names.take(chance.integers(0, len(net.names), 500)).to_pylist()
    seeds = net.names.take(chance.choice(len(net.names), min(SEEDS, len(net.names)), replace=False)).to_pylist()

    def each(ask: Callable[[Engine, str], object]) -> Callable[[Engine], Callable[[], object]]:
        def work(one: Engine) -> Callable[[], object]:
            names: Iterator[str] = cycle(some)  # the same people in the same order for all engines
            return lambda: ask(one, next(names))

        return work

    return {
        "one_hop": each(lambda one, name: one.one_hop(name)),
        "two_hops": each(lambda one, name: one.two_hops(name)),
        "paths": lambda one: lambda: one.paths(seeds),
        "within": lambda one: lambda: one.within(seeds),
        "report": lambda one: one.report,
    }


def _warm(question: str) -> int:
    return 30 if RUNS[question] > 100 else 1


def _at_once(question: str) -> int:
    return 20 if RUNS[question] > 100 else 1


ROWS = (
    ("load", "load_s", "s"),
    ("load, CPU", "load_cpu_s", "s"),
    ("build indexes", "index_s", "s"),
    ("on disk", "disk_mb", "MB"),
    ("1 hop by key", "one_hop_ms", "ms"),
    ("within 2 hops by key", "two_hops_ms", "ms"),
    ("2-hop paths of 1,000, counted", "paths_ms", "ms"),
    ("within 2 hops of 1,000, counted", "within_ms", "ms"),
    ("filter, expand, aggregate", "report_ms", "ms"),
    ("filter with or and in, all people", "conditions_ms", "ms"),
    ("optional match, aggregated", "optional_ms", "ms"),
    ("count distinct, all edges", "distinct_ms", "ms"),
    ("count distinct by group, all edges", "distinct_by_group_ms", "ms"),
    ("shortest paths of 100 pairs", "shortest_ms", "ms"),
    ("match-driven update of 10k rows", "update_ms", "ms"),
    ("10 nearest of all, exact", "vector_exact_ms", "ms"),
    ("10 nearest of all, by index", "vector_indexed_ms", "ms"),
    ("  share of the 10 nearest found", "recall", ""),
    ("  build the index", "index_vec_s", "s"),
    ("10 best texts, words in memory", "text_scan_ms", "ms"),
    ("10 best texts, by index", "text_indexed_ms", "ms"),
    ("  build the index", "index_bio_s", "s"),
    ("neighbours by key", "hop_ms", "ms"),
    ("10 best of both among neighbours", "hybrid_ms", "ms"),
    ("  CPU beside hop + vector + text alone", "hybrid_of_parts", ""),
    ("new process: python -c 'import lance'", "lance_alone_ms", "ms"),
    ("  2 hops on the command line, in all", "command_ms", "ms"),
    ("  2 hops in Python, after that import", "cold_ms", "ms"),
    ("  2 hops in Python, again", "warm_ms", "ms"),
)


def _show(facts: Facts) -> None:
    """Print the table. Of what takes milliseconds, CPU time stands in parentheses where it was measured."""
    print(f"\n{'':40s}" + "".join(f"{engine:>20s}" for engine in facts))
    print(f"{'  version':40s}" + "".join(f"{_version(engine):>20s}" for engine in facts))
    for label, key, unit in ROWS:
        print(f"  {label:38s}" + "".join(f"{_cell(facts[engine], key, unit):>20s}" for engine in facts))


def _cell(facts: dict[str, float], key: str, unit: str) -> str:
    if key not in facts:
        return "-"
    cpu = facts.get(f"{key.removesuffix('_ms')}_cpu_ms")
    return f"{facts[key]:.2f}{'' if cpu is None else f' ({cpu:.2f})'} {unit}"


def _version(engine: str) -> str:
    return version({LANCE: "pylance", FLOOR: "numpy"}.get(engine, engine))
