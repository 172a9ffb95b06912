"""Integrity: the evaluator says what the rules in plain words say, for every mode, in one pass or in many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.findings import Findings
from omnigraph.exec.validate.integrity import Delta, RowsInMemory, check_integrity
from omnigraph.store.tables import matching
from tests.unit.catalog.schemas import catalog_of
from tests.unit.exec.validate.model import Change, Row, Told, World, problems

CATALOG = catalog_of(
    """
node P { k: String @key   u: I32? @unique   a: String?   b: F64?   @unique(a, b) }
node Q { t: String? }
edge K: P -> P @card(0..2) { n: Date? @unique }
edge L: P -> Q @card(2..3) { @unique(src, dst) }
edge M: Q -> Q
"""
)
EVERY: tuple[EntityType, ...] = (*CATALOG.nodes, *CATALOG.edges)
ENTITIES = {entity.name: entity for entity in EVERY}


class InMemory:
    """Committed rows that were never committed; filters are judged by the engine that judges real ones."""

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._tables = {name: table(name, rows.get(name, ())) for name in ENTITIES}
        self.scans: list[tuple[str, str | None]] = []

    def rows(self, entity: EntityType) -> int:
        return len(self._tables[entity.name])

    def scan(self, entity: EntityType, columns: Sequence[str], *, where: str | None = None) -> Iterator[pa.RecordBatch]:
        self.scans.append((entity.name, where))
        return iter(matching(self._tables[entity.name], where).select(list(columns)).to_batches(max_chunksize=3))


def table(name: str, rows: Sequence[Row]) -> pa.Table:
    schema = table_schema(ENTITIES[name])
    return pa.table([pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema)


def deltas(changes: Mapping[str, Change], *, chunk: int = 3) -> list[Delta]:
    """Rows come in several batches, as they do from files."""
    made = []
    for name, change in changes.items():
        rows = table(name, change.added)
        held = RowsInMemory(pa.Table.from_batches(rows.to_batches(max_chunksize=chunk), rows.schema))
        gone = pa.array(sorted(change.deleted), pa.string())
        made.append(Delta(ENTITIES[name], held, gone, whole=change.whole, replaces=change.replaces))
    return made


def judge(world: World, **options: Any) -> Findings:
    return check_integrity(deltas(world.changes), CATALOG, InMemory(world.rows), **options)


def said(findings: Findings) -> Counter[Told]:
    return Counter((one.code, one.type, one.row, _words(one.code, one.message)) for one in findings.found)


def _words(code: ProblemCode, message: str) -> str:
    words = message.split(" held by ")[0]
    return "twice" if code is ProblemCode.DUPLICATE_ID and "held by" not in message else words


# -- random graphs and changes

NODES = st.sampled_from(["a", "b", "c", "d", "it's"])
EDGES = st.sampled_from(["1", "2", "3", "4", "5", "6"])
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "P": {
        "id": NODES,
        "u": st.sampled_from([None, 0, 1, -2]),
        "a": st.sampled_from([None, "x", "x, y"]),
        "b": st.sampled_from([None, 0.0, -0.0, 1.5]),
    },
    "Q": {"id": NODES},
    "K": {"id": EDGES, "src": NODES, "dst": NODES, "n": st.sampled_from([None, date(1979, 5, 25), date(1900, 1, 1)])},
    "L": {"id": EDGES, "src": NODES, "dst": NODES},
    "M": {"id": EDGES, "src": NODES, "dst": NODES},
}
FILLER = 20
"""So many rows beside the others, and the committed ones are no longer asked for one by one."""


def _row(name: str) -> st.SearchStrategy[Row]:
    return st.fixed_dictionaries(FIELDS[name]).map(lambda row: {**row, "k": row["id"]} if name == "P" else row)


def some_rows(name: str, most: int = 6) -> st.SearchStrategy[list[Row]]:
    return st.lists(_row(name), max_size=most)


@st.composite
def sound(draw: st.DrawFn) -> dict[str, list[Row]]:
    """A graph that keeps every rule: random rows, less those that break one."""
    drawn = {name: draw(some_rows(name, 8)) for name in ENTITIES}
    kept = {name: list({row["id"]: row for row in rows}.values()) for name, rows in drawn.items()}
    while True:
        world = World(CATALOG, {}, {name: Change(rows, whole=True) for name, rows in kept.items()})
        found = problems(world)
        if not found:
            return kept
        for name, rows in kept.items():
            wrong = {row for _, type_, row, _ in found if type_.endswith(f":{name}")}
            kept[name] = [row for at, row in enumerate(rows) if at not in wrong]


def filler(name: str, at: int) -> Row:
    ends = {"src": f"f{at}", "dst": f"f{at}"}
    return {"id": f"f{at}", "k": f"f{at}", "u": 100 + at, "a": f"f{at}", "b": 0.5, "n": date(2000, 1, 1 + at), **ends}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    rows = draw(sound())
    mode = draw(st.sampled_from(["append", "merge", "overwrite", "delete", "mixed"]))
    names = draw(st.lists(st.sampled_from(sorted(ENTITIES)), unique=True, min_size=1))
    fill = draw(st.booleans())
    changes: dict[str, Change] = {}
    for name in names:
        added = [] if mode == "delete" else draw(some_rows(name))
        if fill and mode != "delete" and name in ("P", "Q", "M"):
            added += [filler(name, at) for at in range(FILLER)]
        ids = {row["id"] for row in rows[name]} - {row["id"] for row in added}
        deleted = frozenset(draw(st.sets(st.sampled_from(sorted(ids)))) if ids and mode in ("delete", "mixed") else ())
        changes[name] = Change(added, deleted, whole=mode == "overwrite", replaces=mode != "append")
    return World(CATALOG, rows, changes)


law = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


@law
@given(worlds())
def test_the_evaluator_says_what_the_rules_say(world: World) -> None:
    """V-08: An edge whose source or target is missing is refused, in every mode.

    Also V-03, V-04, V-05, V-07, V-10, V-11, V-12, V-13, V-14.
    """
    findings = judge(world, limit=10_000)
    assert said(findings) == problems(world)
    assert findings.more == 0


@law
@given(worlds(), st.integers(40, 200), st.integers(1, 3))
def test_neither_the_budget_nor_the_limit_changes_the_answer(world: World, budget_bytes: int, limit: int) -> None:
    everything = judge(world, limit=10_000)
    assert said(judge(world, limit=10_000, budget_bytes=budget_bytes)) == said(everything)
    first = judge(world, limit=limit, budget_bytes=budget_bytes)
    assert (len(first.found), first.count) == (min(limit, everything.count), everything.count)
    assert not said(first) - said(everything)


@law
@given(worlds())
def test_a_change_that_is_accepted_leaves_a_sound_graph(world: World) -> None:
    """All rows afterwards, judged as if they came anew."""
    if not judge(world):
        after = {name: Change(world.final(entity), whole=True) for name, entity in ENTITIES.items()}
        assert not judge(World(CATALOG, {}, after))
        assert not problems(World(CATALOG, {}, after))
