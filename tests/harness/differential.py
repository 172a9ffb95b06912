"""Seeds -> random graphs and queries, asked of the engine on every route and of brute force, and where the two disagree.

`python -m tests.harness.differential --seeds 10 --first 500` runs ten seeds from 500 on; `--seeds 1 --first 42
--query 17` replays one query of one seed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import msgspec

from omnigraph.errors import InvalidInput, LanguageError
from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE
from omnigraph.exec.compiled import QueryCall
from omnigraph.exec.query import query as run_query
from omnigraph.exec.read.watch import Watch
from omnigraph.graph import Graph
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.lang import Source
from omnigraph.plan.ops import Route
from tests.harness.agree import disagreement, row_text
from tests.harness.brute import Answer, Data, answer, write_lines
from tests.harness.engine import Table
from tests.harness.landing import apply, land
from tests.harness.random.graphs import RandomGraph, random_graph
from tests.harness.random.kinds import kinds_of
from tests.harness.random.queries import RandomQuery, random_query
from tests.harness.random.searches import can_search
from tests.harness.shrink import Case, catalog_of, shrunk

QUERIES: Final = 120
"""How many a graph is asked."""
WITHOUT_SEARCH: Final = 100
"""The first of them have no search, the others have."""
ROUTES: Final = (None, *Route)
"""None is the planner's own choice, through the front door."""
NOW_MS: Final = 1_790_000_000_000
"""What brute force takes `now()` for. No random time lies between this and the real now."""
BRANCH: Final = "side"


class Stage(NamedTuple):
    """A moment in a graph's life at which it is asked: where to look, and what is there."""

    name: str
    data: Data
    branch: str = MAIN
    at: str | None = None


STAGES: Final = ("loaded", "indexed", "changed", "optimized", "branch", "optimized branch", "past", "cleaned", "kept")


class Failure(msgspec.Struct, frozen=True):
    """One query that one route answered wrongly. `actual` is None when it failed instead."""

    graph: RandomGraph
    number: int
    stage: str
    data: Data
    route: Route | None
    query: RandomQuery
    reason: str
    actual: Table | None


class Report(msgspec.Struct, frozen=True):
    """What a seed came to."""

    seed: int
    queries: int
    with_rows: int
    kinds: Counter[str]
    failures: tuple[Failure, ...]


def check_seed(seed: int, folder: Path, *, only: int | None = None) -> Report:
    """Make a graph, lead it through its stages, and ask each time; at most one failure a query is told."""
    graph = random_graph(seed)
    numbers = [number for number in range(QUERIES) if only is None or number == only]
    kinds: Counter[str] = Counter()
    failures: list[Failure] = []
    with_rows = 0
    for stage, real in stages(graph, folder):
        for number in numbers:
            if STAGES[number % len(STAGES)] != stage.name:
                continue
            searching = number >= WITHOUT_SEARCH and can_search(graph.catalog)
            query = random_query(Random(f"query {seed} {number}"), graph.catalog, stage.data, now_ms=NOW_MS, searching=searching)
            kinds.update(kinds_of(query.text, query.params, graph.catalog, now_ms=NOW_MS))
            with_rows += bool(query.expected.rows)
            for route in ROUTES:
                found = compared(real, query, stage, route)
                if found is not None:
                    failures.append(Failure(graph, number, stage.name, stage.data, route, query, *found))
                    break
    return Report(seed, len(numbers), with_rows, kinds, tuple(failures))


def stages(graph: RandomGraph, folder: Path) -> Iterator[tuple[Stage, Graph]]:
    """The life of a graph: loaded, indexed, changed since, optimized, the same on a branch with changes of its own, looked back at, and
    cleaned.
    """
    real = land(folder, graph.schema, graph.first)
    yield Stage("loaded", graph.first), real
    loaded = real.snapshot().commit_id
    real.ensure_indices()
    yield Stage("indexed", graph.first), real
    for edit in graph.edits:
        apply(real, edit)
    yield Stage("changed", graph.now), real
    real.optimize()
    yield Stage("optimized", graph.now), real
    real.branches.create(BRANCH)
    for edit in graph.branch_edits:
        apply(real, edit, branch=BRANCH)
    yield Stage("branch", graph.branch, branch=BRANCH), real
    real.optimize(BRANCH)
    yield Stage("optimized branch", graph.branch, branch=BRANCH), real
    yield Stage("past", graph.first, at=loaded), real
    real.tags.create("loaded", at=loaded)
    real.cleanup(keep=1)
    yield Stage("cleaned", graph.branch, branch=BRANCH), real
    yield Stage("kept", graph.first, at=loaded), real


def compared(real: Graph, query: RandomQuery, stage: Stage, route: Route | None) -> tuple[str, Table | None] | None:
    """Nothing, or what is wrong with the engine's answer."""
    try:
        actual = asked(real, query, stage, route)
    except Exception:  # noqa: BLE001 - any failure of a valid read is a finding
        return traceback.format_exc(limit=-6), None
    reason = disagreement(query.expected, actual)
    return None if reason is None else (reason, actual)


def asked(real: Graph, query: RandomQuery, stage: Stage, route: Route | None) -> Table:
    """The engine's answer: through the front door, or with every link followed one way."""
    if route is None:
        result = real.query(query.text, params=query.params, branch=stage.branch, at=stage.at)
    else:
        snapshot = real.engine.manifest.snapshot(BranchName(stage.branch), at=None if stage.at is None else CommitId(stage.at))
        ask = QueryCall(Source(query.text, "query.gq"), None, query.params, NOW_MS)
        result = run_query(real.engine, ask, snapshot, watch=Watch(), route=route)
    return Table(result.columns, tuple(result.tuples()))


# smaller


def smaller(failure: Failure, *, seconds: float) -> Failure | None:
    """The same failure on fewer rows and with a shorter query; None when it does not show without the graph's history."""
    whole = Case(failure.graph.schema, failure.data, failure.query.text, failure.query.params)
    for stage in ("loaded", "indexed"):
        if _again(whole, failure, stage) is not None:
            small = shrunk(whole, partial(_still_fails, failure, stage), seconds=seconds)
            return _again(small, failure, stage)
    return None


def _still_fails(failure: Failure, stage: str, case: Case) -> bool:
    return _again(case, failure, stage) is not None


def _again(case: Case, failure: Failure, stage: str) -> Failure | None:
    """How a case fails in a graph that was made for it, if it does."""
    catalog = catalog_of(case.schema)
    try:
        expected = answer(case.text, case.params, catalog=catalog, data=case.data, now_ms=NOW_MS)
    except (LanguageError, InvalidInput):
        return None
    query = RandomQuery(case.text, case.params, expected)
    with tempfile.TemporaryDirectory() as folder:
        real = land(Path(folder) / "graph", case.schema, case.data)
        if stage == "indexed":
            real.ensure_indices()
        found = compared(real, query, Stage(stage, case.data), failure.route)
    if found is None or (found[1] is None) != (failure.actual is None):
        return None
    graph = msgspec.structs.replace(failure.graph, schema=case.schema, catalog=catalog)
    return Failure(graph, failure.number, stage, case.data, failure.route, query, *found)


# telling


def told(failure: Failure) -> str:
    """Everything that is needed to see it again."""
    lines = [
        f"seed {failure.graph.seed}, query {failure.number}, stage {failure.stage}, route {failure.route or 'automatic'}",
        f"again: python -m tests.harness.differential --seeds 1 --first {failure.graph.seed} --query {failure.number}",
        case_text(failure.graph.schema, write_lines(failure.data, failure.graph.catalog), failure.query, failure.actual),
        f"--- difference\n{failure.reason}",
    ]
    return "\n".join(lines)


def told_small(failure: Failure, *, seconds: float) -> str:
    """The failure as small as it gets, or whole."""
    found = smaller(failure, seconds=seconds)
    if found is None:
        return f"{told(failure)}\n(it does not show in a graph without this one's history)"
    return f"{told(found)}\n(made smaller; at first it was stage {failure.stage})"


def case_text(schema: str, data: str, query: RandomQuery, actual: Table | None) -> str:
    expected = query.expected
    promised = "ordered" if expected.ordered else "unordered" if len(expected.classes) < 2 else "ordered, ties in any order"
    return "\n".join(
        [
            f"--- schema\n{schema}",
            f"--- data\n{data}",
            f"--- query\n{query.text}",
            f"--- params\n{msgspec.json.encode(query.params).decode()}",
            f"--- expected, {promised}{_cut(expected)}",
            _table_text(expected.columns, [row for class_ in expected.classes for row in class_]),
            "--- actual",
            "none" if actual is None else _table_text(actual.columns, actual.rows),
        ]
    )


def _cut(expected: Answer) -> str:
    skip = f", {expected.skip} skipped" if expected.skip else ""
    return skip + ("" if expected.limit is None else f", cut to {expected.limit}")


def _table_text(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "\n".join([" | ".join(columns), *map(row_text, rows)])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="how many graphs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--query", type=int, help="only this query of each graph")
    parser.add_argument("--shrink", type=float, default=20.0, metavar="SECONDS", help="how long to look for a smaller case of a failure")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    reports: list[Report] = []
    for seed in range(options.first, options.first + options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            os.environ[CACHE] = f"{folder}/cache"  # what is derived from a graph goes when the graph goes
            reports.append(check_seed(seed, Path(folder) / "graph", only=options.query))
        for failure in reports[-1].failures:
            print(f"{told_small(failure, seconds=options.shrink)}\n", flush=True)
    print(summary(reports), f"{time.monotonic() - began:.0f} s")
    return 1 if any(report.failures for report in reports) else 0


def summary(reports: Sequence[Report]) -> str:
    queries = sum(report.queries for report in reports)
    with_rows = sum(report.with_rows for report in reports)
    failures = sum(len(report.failures) for report in reports)
    return f"{len(reports)} graphs, {queries} queries on {len(ROUTES)} routes, {with_rows} with rows, {failures} answered wrongly"


if __name__ == "__main__":
    sys.exit(main())
