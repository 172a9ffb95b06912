"""The rules of integrity in plain words, one row at a time: what the evaluator is compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple, TypeAlias

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.exec.problems import ProblemCode

Row: TypeAlias = Mapping[str, Any]
Told: TypeAlias = tuple[ProblemCode, str, int | None, str]


class Change(NamedTuple):
    """What happens to one type."""

    added: Sequence[Row] = ()
    deleted: frozenset[str] = frozenset()
    whole: bool = False
    replaces: bool = True


class World(NamedTuple):
    """Rows that are there, and what happens to them."""

    catalog: Catalog
    rows: Mapping[str, Sequence[Row]]
    changes: Mapping[str, Change]

    def change(self, entity: EntityType) -> Change:
        return self.changes.get(entity.name, Change())

    def kept(self, entity: EntityType) -> list[Row]:
        """Committed rows that remain as they are."""
        change = self.change(entity)
        gone = change.deleted | {row["id"] for row in change.added if change.replaces}
        return [] if change.whole else [row for row in self.rows.get(entity.name, ()) if row["id"] not in gone]

    def final(self, entity: EntityType) -> list[Row]:
        return [*self.kept(entity), *self.change(entity).added]

    def lost(self, entity: EntityType) -> set[str]:
        """Ids that are not there any more; in an overwrite, all that are not in it."""
        change = self.change(entity)
        return set(change.deleted) if not change.whole else _All() - {row["id"] for row in change.added}


class _All(set[str]):
    """Everything, less what is taken away."""

    def __init__(self, but: frozenset[str] = frozenset()) -> None:
        self._but = but

    def __contains__(self, item: object) -> bool:
        return item not in self._but

    def __sub__(self, other: Any) -> _All:
        return _All(self._but | frozenset(other))


def problems(world: World) -> Counter[Told]:
    """Every problem with its code, type, row and the words up to who holds a value."""
    entities: tuple[EntityType, ...] = (*world.catalog.nodes, *world.catalog.edges)
    found: Counter[Told] = Counter()
    for entity in entities:
        name = f"{entity.kind}:{entity.name}"
        for code, row, words in (*_ids(world, entity), *_uniques(world, entity)):
            found[code, name, row, words] += 1
    for edge in world.catalog.edges:
        for code, end, words in (*_ends(world, edge), *_cardinality(world, edge)):
            found[code, f"edge:{edge.name}", end, words] += 1
    return found


def _ids(world: World, entity: EntityType) -> Iterator[tuple[ProblemCode, int, str]]:
    change = world.change(entity)
    seen: set[str] = set()
    there = {row["id"] for row in world.rows.get(entity.name, ())} if not change.whole else set()
    for at, row in enumerate(change.added):
        if row["id"] in seen:
            key = entity.key if isinstance(entity, NodeType) else None
            words = f"@unique violation on {entity.name}.{key.columns[0]}: value '{row['id']}'" if key else "twice"
            yield ProblemCode.DUPLICATE_ID, at, words
        if not change.replaces and row["id"] in there:
            yield ProblemCode.KEY_CONFLICT, at, f"{entity.kind} type '{entity.name}' already has this id: '{row['id']}'"
        seen.add(row["id"])


def _uniques(world: World, entity: EntityType) -> Iterator[tuple[ProblemCode, int, str]]:
    change = world.change(entity)
    for unique in entity.uniques:
        first: dict[tuple[object, ...], str] = {}
        kept = {_tuple(row, unique.columns): row["id"] for row in world.kept(entity)}
        for at, row in enumerate(change.added):
            value = _tuple(row, unique.columns)
            if None in value:
                continue
            holder = first.setdefault(value, row["id"])
            if holder != row["id"] or kept.get(value, row["id"]) != row["id"]:
                shown = [_shown(row[name]) for name in unique.columns]
                named = unique.columns[0] if len(shown) == 1 else f"({', '.join(unique.columns)})"
                words = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
                yield ProblemCode.UNIQUE, at, f"@unique violation on {entity.name}.{named}: value '{words}'"


def _tuple(row: Row, columns: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[name] for name in columns)


def _shown(value: object) -> str:
    if isinstance(value, date):
        return str((value - date(1970, 1, 1)).days)
    return str(value + 0.0).removesuffix(".0") if isinstance(value, float) else str(value)


def _ends(world: World, edge: EdgeType) -> Iterator[tuple[ProblemCode, int | None, str]]:
    for column, name in (("src", edge.source), ("dst", edge.target)):
        node = world.catalog.node(name)
        assert node is not None
        there = {row["id"] for row in world.final(node)}
        numbered = [*((None, row) for row in world.kept(edge)), *enumerate(world.change(edge).added)]
        for at, row in numbered:
            if row[column] not in there:
                yield ProblemCode.ENDPOINT, at, f"{column} '{row[column]}' not found in {name}"


def _cardinality(world: World, edge: EdgeType) -> Iterator[tuple[ProblemCode, int | None, str]]:
    node = world.catalog.node(edge.source)
    assert node is not None
    change = world.change(edge)
    kept = {row["id"] for row in world.kept(edge)}
    gone = {row["src"] for row in world.rows.get(edge.name, ()) if row["id"] not in kept}
    last = {row["src"]: at for at, row in enumerate(change.added)}
    low, high = edge.cardinality.low, edge.cardinality.high
    for source in gone | set(last):
        count = sum(row["src"] == source for row in world.final(edge))
        bound = f"min {low}" if count < low else f"max {high}" if high is not None and count > high else None
        if bound is not None and source not in world.lost(node):
            words = f"@card violation on edge {edge.name}: source '{source}' has {count} edge{'' if count == 1 else 's'} ({bound})"
            yield ProblemCode.CARDINALITY, last.get(source), words
