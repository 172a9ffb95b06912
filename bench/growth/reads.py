"""Reads: scans, filters, order, groups, hops, blocks, joins, and conversions of the result."""

from __future__ import annotations

import pyarrow as pa

from bench.growth import worlds
from bench.growth.operation import Kind, Operation, Place, Preparation

COVERS = ("Graph.query", "omnigraph query")
NAMES = ", ".join(f'"person-{at:08d}"' for at in range(10))
SCAN = "match { $p: Person } return { $p.name, $p.age, $p.city, $p.score }"
FEW = f"match {{ $p: Person  [{NAMES}] contains $p.name  $p knows $q }} return {{ $p.name, $q.name as friend }}"


def _text(body: str) -> str:
    return f"query ask() {{ {body} }}"


def _ask(place: Place, body: str) -> pa.Table:
    return place.graph.query(_text(body)).to_arrow()


def _read(name: str, world: Preparation, body: str, *, base: int = 10_000) -> Operation:
    return Operation(name=name, covers=COVERS, needs=(world,), run=lambda place: _ask(place, body), base=base)


def _flat(name: str, world: Preparation, body: str, *, times: int = 10) -> Operation:
    """A read that returns few rows, on a graph with indexes."""
    return Operation(name=name, covers=COVERS, needs=(world,), run=lambda place: _ask(place, body), kind=Kind.FLAT, times=times)


def _answer(place: Place) -> None:
    place.input = place.graph.query(_text(SCAN))


def _shown(name: str, shape: str) -> Operation:
    def run(place: Place) -> object:
        found = getattr(place.input, shape)
        return found() if callable(found) else found

    return Operation(name=name, covers=COVERS, needs=(worlds.people,), ready=_answer, run=run)


def _explain(place: Place) -> object:
    return place.graph.explain(_text("match { $p: Person  $p knows $q } return { $p.name, count($q) as n } order { n desc }"))


def _past(place: Place) -> None:
    place.input = place.graph.commits()[0].id


OPERATIONS = (
    _read("scan", worlds.people, SCAN, base=30_000),
    _read("filter", worlds.people, 'match { $p: Person  $p.age < 50  $p.city != "city-00000001" } return { $p.name }', base=30_000),
    _read("count", worlds.people, "match { $p: Person } return { count($p) as n }", base=30_000),
    _read("order", worlds.people, "match { $p: Person } return { $p.name, $p.age } order { $p.age desc, $p.name }", base=30_000),
    _read("order, limit", worlds.people, "match { $p: Person } return { $p.name } order { $p.score desc } limit 10", base=30_000),
    _read("group, few", worlds.people, "match { $p: Person } return { $p.city, count($p) as n, avg($p.score) as mean }", base=30_000),
    _read("group, n", worlds.people, "match { $p: Person } return { $p.name, max($p.score) as best }", base=30_000),
    _read("one hop of ten nodes, no indexes", worlds.social, FEW),
    _read("one hop from every node", worlds.social, "match { $p: Person  $p knows $q } return { $p.name, $q.name as friend }"),
    _read("one hop back, with its edge", worlds.social, "match { $q: Person  $p $k:knows $q } return { $q.name, $k.since, $p.age }"),
    _read("two hops, counted by group", worlds.social, "match { $p: Person  $p knows $q  $q knows $r } return { $p.city, count($r) as n }"),
    _read("one to two steps", worlds.social, "match { $p: Person  $p knows{1,2} $q } return { $p.city, count($q) as n }"),
    _read("negation", worlds.social, "match { $p: Person  not { $p knows $_ } } return { $p.name }"),
    _read(
        "optional block", worlds.social, "match { $p: Person  optional { $p knows $q  $q.age < 30 } } return { $p.name, $q.name as friend }"
    ),
    _read(
        "either block",
        worlds.social,
        "match { $p: Person  either { $p knows $q  $q.age < 20 } or { $q knows $p  $q.age < 20 } } return { $p.name }",
    ),
    _read("distinct, few", worlds.social, "match { $p: Person  $p knows $q } return distinct { $p.city, $q.age }"),
    _read("distinct, n", worlds.social, "match { $p: Person  $p knows $q } return distinct { $p.name, $q.age }"),
    _read("distinct values by group", worlds.social, "match { $p: Person  $p knows $q } return { $p.city, count(distinct $q.age) as n }"),
    _read("lists by group", worlds.social, "match { $p: Person  $p knows $q } return { $p.name, collect(distinct $q.city) as cities }"),
    _read("join by value", worlds.accounts, "match { $p: Person  $a: Account  $a.owner = $p.name } return { $p.age, $a.number }"),
    _flat("one of n nodes by key", worlds.indexed_people, 'match { $p: Person { name: "person-00000007" } } return { $p.age }'),
    _flat("one hop of ten nodes", worlds.indexed_social, FEW),
    _flat("limit", worlds.indexed_people, "match { $p: Person } return { $p.name } limit 10"),
    _shown("answer as dicts", "rows"),
    _shown("answer as JSON", "to_json"),
    _shown("answer as pandas", "to_pandas"),
    Operation(
        name="answer as a table, its first rows",
        covers=COVERS,
        needs=(worlds.people,),
        ready=_answer,
        run=lambda place: repr(place.input),
        kind=Kind.FLAT,
        times=10,
    ),
    Operation(
        name="query of the past",
        covers=COVERS,
        needs=(worlds.history,),
        ready=_past,
        run=lambda place: place.graph.query(_text("match { $p: Person } return { $p.age }"), at=place.input).rows,
        kind=Kind.FLAT,
        base=20,
        times=10,
    ),
    Operation(name="explain", covers=("Graph.explain",), needs=(worlds.social,), run=_explain, kind=Kind.FLAT, times=10),
    Operation(
        name="blob",
        covers=("Graph.blob", "omnigraph blob"),
        needs=(worlds.blobs,),
        run=lambda place: place.graph.blob("node", "Script", f"script-{place.turn % place.n:08d}", "body").read(),
        kind=Kind.FLAT,
        base=1_000,
        times=10,
    ),
)
