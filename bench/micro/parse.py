"""Parse, check and plan of 100 queries, and one ordinary query alone: milliseconds, warm."""

from __future__ import annotations

from collections.abc import Callable

from bench.report import Timing, save, show, timed
from omnigraph.catalog import build_catalog
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_queries, parse_schema
from omnigraph.lang.query import Query
from omnigraph.plan.check import check_read
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.statistics import statistics_of

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


def main() -> None:
    catalog = build_catalog(parse_schema(SCHEMA), mint=new_hex16)
    rows_of = {type_.id: 100_000 for type_ in (*catalog.nodes, *catalog.edges)}
    indexed = {type_.id: frozenset({"id", "src", "dst"}) for type_ in (*catalog.nodes, *catalog.edges)}
    statistics = statistics_of(catalog, rows_of, indexed=indexed)
    source = text()
    queries = parse_queries(source).queries
    typed = [check_read(query, catalog) for query in queries]

    def planned(at: int) -> object:
        bound = bind_parameters(typed[at].parameters, {"n": "Ada"})
        return plan_read(typed[at], bound, now_ms=0, statistics=statistics)

    def each(work: Callable[[Query], object]) -> Callable[[], object]:
        return lambda: [work(query) for query in queries]

    rows: list[Timing] = [
        timed(f"parse {len(queries)} queries ({len(source.splitlines())} lines)", lambda: parse_queries(source), runs=30),
        timed(f"check {len(queries)} queries", each(lambda query: check_read(query, catalog)), runs=30),
        timed(f"plan {len(queries)} queries", lambda: [planned(at) for at in range(len(queries))], runs=30),
        timed("plan one ordinary query (two hops, filter, limit)", lambda: planned(ORDINARY), runs=300),
    ]
    show("the compiler, warm, median", rows)
    print("\n  target: plan of one ordinary query under 1 ms")
    save("micro-parse", {"timings": [row._asdict() for row in rows]})
