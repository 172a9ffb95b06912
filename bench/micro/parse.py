"""Parse, check and plan of 100 queries, and of one ordinary query alone: milliseconds, warm.

`python -m bench.micro parse [--beside PATH]`. With `--beside` another checkout is measured in turn, each time in new processes, and
their CPU times are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from bench.child import compiled
from bench.report import Timing, save, show, timed
from omnigraph.catalog import build_catalog
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_queries, parse_schema
from omnigraph.lang.query import Query
from omnigraph.plan.check import check_read
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.statistics import statistics_of
from omnigraph.plan.typed import TypedRead

HERE = Path(__file__).resolve().parent.parent.parent
SCHEMA = """
node Person { name: String @key  age: I32? @index  city: String?  born: Date?  bio: String? @index }
node Film { title: String @key  year: I32? @index  rating: F64?  tags: [String]?  plot: Vector(4)? @index }
node Studio { name: String @key  country: String? }
edge ActedIn: Person -> Film { role: String? }
edge Directed: Person -> Film
edge Knows: Person -> Person { since: Date? }
edge MadeBy: Film -> Studio
"""

BODIES = (
    "match { $p: Person { name: $n } } return { $p.name $p.age }",
    "match { $p: Person $p.age > 30 } return { $p.name } order { $p.age desc } limit 10",
    "match { $p: Person { name: $n } $p actedIn $f } return { $f.title $f.year } order { $f.year }",
    "match { $p: Person { name: $n } $p knows $q $q actedIn $f $f.rating >= 7.5 } return { $q.name $f.title } limit 20",
    "match { $p: Person { name: $n } $p knows{1,3} $q not { $q actedIn $_ } } return { $q.name }",
    'match { $f: Film $f madeBy $s $s.country = "FR" } return { $s.name count($f) as films } order { films desc }',
    'match { $f: Film $f.title starts_with "The" $d directed $f } return { $d.name $f.title }',
    "match { $p: Person $q: Person $p.city = $q.city $p.name != $q.name } return { $p.name $q.name } limit 5",
    'match { $f: Film $f.tags contains "noir" $p $r:actedIn $f } return { $p.name $r.role $f.title }',
    "match { $f: Film } return { $f.title } order { nearest($f.plot, [0.1, 0.2, 0.3, 0.4]) } limit 10",
)
COPIES = 10
ORDINARY = 3


def text() -> str:
    return "\n".join(f"query q{copy}_{at}($n: String) {{\n  {body}\n}}" for copy in range(COPIES) for at, body in enumerate(BODIES))


def measured() -> list[Timing]:
    catalog = build_catalog(parse_schema(SCHEMA), mint=new_hex16)
    rows_of = {type_.id: 100_000 for type_ in (*catalog.nodes, *catalog.edges)}
    indexed = {type_.id: frozenset({"id", "src", "dst"}) for type_ in (*catalog.nodes, *catalog.edges)}
    known = statistics_of(catalog, rows_of, indexed=indexed)
    source = text()
    queries = parse_queries(source).queries
    typed = [check_read(query, catalog) for query in queries]
    ordinary = f"query q($n: String) {{\n  {BODIES[ORDINARY]}\n}}"

    def planned(read: TypedRead) -> object:
        return plan_read(read, bind_parameters(read.parameters, {"n": "Ada"}), now_ms=0, statistics=known)

    def each(work: Callable[[Query], object]) -> Callable[[], object]:
        return lambda: [work(query) for query in queries]

    return [
        timed(f"parse {len(queries)} queries ({len(source.splitlines())} lines)", lambda: parse_queries(source), runs=30),
        timed(f"check {len(queries)} queries", each(lambda query: check_read(query, catalog)), runs=30),
        timed(f"plan {len(queries)} queries", lambda: [planned(read) for read in typed], runs=30),
        timed("plan one ordinary query (two hops, filter, limit)", lambda: planned(typed[ORDINARY]), runs=300),
        timed("parse, check and plan it", lambda: planned(check_read(parse_queries(ordinary).queries[0], catalog)), runs=300),
    ]


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.micro parse", description=__doc__)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args(arguments)
    if chosen.beside is not None:
        _compare(chosen.beside.resolve(), rounds=chosen.rounds)
        return
    rows = measured()
    show("the compiler, warm, median", rows)
    print("\n  target: plan of one ordinary query under 1 ms")
    save("micro-parse", {"timings": [row._asdict() for row in rows]})


def _compare(other: Path, *, rounds: int) -> None:
    runs: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for tree in (HERE, other):
            for name, cpu_ms in _cpu_in(tree).items():
                runs.setdefault(name, {}).setdefault(tree.name, []).append(cpu_ms)
    print(f"CPU ms, medians in {rounds} processes each: {HERE.name}, {other.name}, ratios of the least and of the medians")
    for name, (ours, theirs) in ((name, tuple(by_tree.values())) for name, by_tree in runs.items()):
        shown = " ".join(" ".join(f"{cpu_ms:7.3f}" for cpu_ms in each) + "  " for each in (ours, theirs))
        print(f"  {name:52s} {shown}{min(ours) / min(theirs):6.2f}{median(ours) / median(theirs):6.2f}")
    save("micro-parse-beside", {"beside": other.name, "cpu_ms": runs})


def _cpu_in(tree: Path) -> dict[str, float]:
    """Return the median CPU time of each measurement, with the package of another checkout and this benchmark."""
    environment = {**compiled(), "PYTHONPATH": str(tree / "src")}
    done = subprocess.run([sys.executable, "-m", "bench.micro.parse"], env=environment, cwd=HERE, stdout=subprocess.PIPE, check=True)
    return {row["name"]: row["cpu_ms"] for row in json.loads(done.stdout)}


if __name__ == "__main__":
    print(json.dumps([row._asdict() for row in measured()]))
