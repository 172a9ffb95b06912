"""Hops from every node, at several sizes -> CPU and wall seconds, beside joins of the same tables in duckdb.

`python -m bench.scenario hops [--nodes N ...]`. Every node has two edges. There are three queries: one hop from every node, two hops
counted by group, and the nodes without an edge. Each runs with an empty cache (the adjacency is built), in a new reader with the
cache filled, and again. duckdb reads the same rows as Arrow tables in memory. The results are compared first. Each is the median of
five runs, which take turns.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph as og
from bench.report import save

NODES = (37_000, 111_000, 333_000, 1_000_000)
DEGREE = 2
TEAMS = 100
RUNS = 5
KEYS = ("first", "mapped", "again", "duckdb")
SCHEMA = """
node Person { name: String @key  team: String }
edge Knows: Person -> Person
"""


class Question(NamedTuple):
    """The same query in both languages."""

    ours: str
    duck: str


QUESTIONS = {
    "one hop from every node": Question(
        "query q() { match { $p: Person  $p knows $q } return { $p.name as a, $q.name as b } }",
        "SELECT p.name AS a, q.name AS b FROM knows k JOIN person p ON p.name = k.src JOIN person q ON q.name = k.dst",
    ),
    "two hops, counted by group": Question(
        "query q() { match { $p: Person  $p knows $q  $q knows $r } return { $p.team as a, count($r) as b } }",
        "SELECT p.team AS a, count(*) AS b FROM person p JOIN knows k ON k.src = p.name JOIN knows l ON l.src = k.dst GROUP BY p.team",
    ),
    "nodes without an edge": Question(
        "query q() { match { $p: Person  not { $p knows $_ } } return { $p.name as a } }",
        "SELECT p.name AS a FROM person p ANTI JOIN knows k ON k.src = p.name",
    ),
}


class Seconds(NamedTuple):
    """The cost of one run."""

    cpu: float
    wall: float


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario hops", description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=list(NODES))
    chosen = parser.parse_args(arguments)
    facts: dict[str, dict[str, dict[str, Seconds]]] = {question: {} for question in QUESTIONS}
    with tempfile.TemporaryDirectory() as name:
        for nodes in chosen.nodes:
            for question, timings in _measured(Path(name) / str(nodes), nodes).items():
                facts[question][str(nodes)] = timings
    _show(facts)
    save("scenario-hops", {"degree": DEGREE, "questions": {key: _plain(value) for key, value in facts.items()}})


def _measured(folder: Path, nodes: int) -> dict[str, dict[str, Seconds]]:
    import duckdb

    people, knows = _tables(nodes)
    og.init(folder, schema=SCHEMA).load({"Person": people, "Knows": knows.rename_columns(["from", "to"])}, mode="append")
    connection = duckdb.connect()
    connection.register("person", people)
    connection.register("knows", knows)
    found = {}
    for question, (ours, duck) in QUESTIONS.items():
        cache = folder / "cache"
        os.environ["OMNIGRAPH_CACHE"] = str(cache)
        joined: Callable[[], pa.Table] = lambda text=duck: connection.sql(text).to_arrow_table()  # type: ignore[misc]  # noqa: E731
        _agree(question, _asked(og.open(folder), ours), joined())
        runs: dict[str, list[Seconds]] = {key: [] for key in KEYS}
        for _ in range(RUNS):  # in turn, so that other load on the machine affects all equally
            shutil.rmtree(cache)
            graph = og.open(folder)
            for name, work in (
                ("first", partial(_asked, graph, ours)),
                ("duckdb", joined),
                ("mapped", partial(_asked, og.open(folder), ours)),
                ("again", partial(_asked, graph, ours)),
            ):
                runs[name].append(_timed(work))
        found[question] = {name: sorted(some)[RUNS // 2] for name, some in runs.items()}
        shutil.rmtree(cache)
    return found


def _tables(nodes: int) -> tuple[pa.Table, pa.Table]:
    """Return the people and the edges. No edges are parallel, so pairs and edges have equal counts."""
    chance = np.random.default_rng(7)
    names = _labels("person-", np.arange(nodes), 8)
    drawn = np.sort(chance.integers(0, nodes * nodes, 2 * DEGREE * nodes))
    drawn = chance.permutation(drawn[np.append(True, drawn[1:] != drawn[:-1])])[: DEGREE * nodes]
    people = pa.table({"name": names, "team": _labels("team-", chance.integers(0, TEAMS, nodes), 3)})
    return people, pa.table({"src": names.take(pa.array(drawn // nodes)), "dst": names.take(pa.array(drawn % nodes))})


def _labels(prefix: str, numbers: Any, width: int) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=width, padding="0"), "")


def _asked(graph: og.Graph, text: str) -> pa.Table:
    return graph.query(text).to_arrow()


def _timed(work: Callable[[], pa.Table]) -> Seconds:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


def _agree(question: str, ours: pa.Table, theirs: pa.Table) -> None:
    keys = [(name, "ascending") for name in ours.column_names]
    mine, other = ours.sort_by(keys), theirs.cast(ours.schema).sort_by(keys)
    assert mine.equals(other), f"{question}: the answers differ"


def _show(facts: dict[str, dict[str, dict[str, Seconds]]]) -> None:
    heads = "".join(f"{head:>16s}" for head in ("first run", "cache filled", "again", "duckdb"))
    print(f"\n{'CPU seconds (wall)':30s}{'nodes':>10s}{heads}  first/duckdb  again/duckdb")
    for question, sizes in facts.items():
        for nodes, timings in sizes.items():
            cells = "".join(f"{f'{timings[key].cpu:.3f} ({timings[key].wall:.3f})':>16s}" for key in KEYS)
            first, again = (timings[key].cpu / timings["duckdb"].cpu for key in ("first", "again"))
            print(f"{question:30s}{nodes:>10s}{cells}{first:14.2f}{again:14.2f}")
        if len(sizes) > 1:
            cells = "".join(f"{f'n^{_growth(sizes, key):.2f}':>16s}" for key in KEYS)
            print(f"{'':30s}{'growth':>10s}{cells}")


def _growth(sizes: dict[str, dict[str, Seconds]], key: str) -> float:
    """The slope of CPU over size in a log-log fit."""
    nodes = [math.log(int(nodes)) for nodes in sizes]
    seconds = [math.log(max(timings[key].cpu, 1e-6)) for timings in sizes.values()]
    return float(np.polyfit(nodes, seconds, 1)[0])


def _plain(sizes: dict[str, dict[str, Seconds]]) -> dict[str, dict[str, dict[str, float]]]:
    return {nodes: {key: one._asdict() for key, one in timings.items()} for nodes, timings in sizes.items()}
