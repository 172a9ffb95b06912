"""A mutation's text, its parameters and data -> the data afterwards and what was counted, statement by statement.

A change is applied to every combination of the variables it uses, all of them seeing the data as it was before the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, assert_never

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.errors import InvalidInput, KeyConflict, Kind
from omnigraph.ids import new_ulid
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import (
    AliasRef,
    Assignment,
    Change,
    Condition,
    Delete,
    DeleteBound,
    Insert,
    Insertion,
    MatchedChanges,
    Mutation,
    PropertyRef,
    Update,
    UpdateBound,
    Variable,
)
from omnigraph.lang.tree import Name, Syntax
from omnigraph.plan.check import check_mutation
from omnigraph.plan.expr import Value
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.values import stored
from tests.harness.brute.bound import Bound, Entity
from tests.harness.brute.data import Data, Row, id_of
from tests.harness.brute.match import Matcher, typed_parameters
from tests.harness.brute.validate import validate
from tests.harness.brute.values import Typed

OWN: Final = "."
"""The name under which the row that a change is about is bound: no variable can have it."""
_ENDS: Final = {"from": "src", "to": "dst"}

Place: TypeAlias = tuple[EntityType, str]
"""An entity: its type and its id."""


class Changed(NamedTuple):
    """The data after a mutation, and what it counted. Nothing is committed where nothing was found."""

    data: Data
    nodes: int
    edges: int

    @property
    def committed(self) -> bool:
        return bool(self.nodes or self.edges)


def change(
    source: str, params: object, *, catalog: Catalog, data: Data, name: str | None = None, now_ms: int = 0, steps: int | None = None
) -> Changed:
    """What a mutation does, or its refusal: then nothing happened. `steps` as for a read."""
    query = select_query(parse_queries(source), name)
    with located(Source(source, "query")):
        checked = check_mutation(query, catalog)
    parameters = typed_parameters(checked.parameters, bind_parameters(checked.parameters, params))
    assert isinstance(query.body, Mutation)
    return _Run(catalog, data, parameters, now_ms, steps).run(query.body)


class _Run:
    """The data while a mutation runs: each statement sees what those before it did."""

    def __init__(self, catalog: Catalog, data: Data, parameters: Mapping[str, Typed], now_ms: int, steps: int | None) -> None:
        self._catalog = catalog
        self._before = data
        self._parameters = parameters
        self._now_ms = now_ms
        self._steps = steps
        self._nodes = {name: {str(row["id"]): row for row in rows} for name, rows in data.nodes.items()}
        self._edges = {name: {str(row["id"]): row for row in rows} for name, rows in data.edges.items()}
        self._counted = {"node": 0, "edge": 0}
        self._reader = self._matcher()

    def run(self, mutation: Mutation) -> Changed:
        for statement in mutation.statements:
            if isinstance(statement, MatchedChanges):
                rows = list(self._matcher().rows(statement.match, {}))
                for each in statement.changes:
                    self._change(each, [self._again(row) for row in rows])
            else:
                self._change(statement, [{}])
        after = self._data()
        validate(self._catalog, self._before, after)
        return Changed(after, self._counted["node"], self._counted["edge"])

    def _data(self) -> Data:
        return Data(
            {name: list(rows.values()) for name, rows in self._nodes.items()},
            {name: list(rows.values()) for name, rows in self._edges.items()},
        )

    def _matcher(self) -> Matcher:
        return Matcher(self._catalog, self._data(), self._parameters, now_ms=self._now_ms, steps=self._steps)

    def _table(self, entity: EntityType) -> dict[str, Row]:
        return self._nodes[entity.name] if isinstance(entity, NodeType) else self._edges[entity.name]

    def _again(self, row: Bound) -> Bound:
        """A row of a match as its entities are now: a change sees what was before it, and no more. What was deleted stays as it was."""
        return {name: self._now(entity) if isinstance(entity, Entity) else entity for name, entity in row.items()}

    def _now(self, entity: Entity) -> Entity:
        if entity.id is None or not isinstance(entity.type, NodeType | EdgeType):
            return entity
        return entity._replace(row=self._table(entity.type).get(entity.id, entity.row))

    def _change(self, each: Change, rows: Sequence[Bound]) -> None:
        self._reader = self._matcher()
        match each:
            case Insert():
                self._put(self._inserted(each, rows))
            case Update() | UpdateBound():
                self._put(self._updated(each, rows))
            case Delete() | DeleteBound():
                for place in dict.fromkeys(self._found(each, rows)):
                    self._remove(*place)
            case _:
                assert_never(each)

    # what comes and changes

    def _put(self, rows: Iterator[tuple[EntityType, Row]]) -> None:
        """All rows at once. Two that are one entity must be equal."""
        puts: dict[tuple[str, str], tuple[EntityType, Row]] = {}
        for entity, row in rows:
            key = (entity.kind.value, f"{entity.name} {row['id']}")
            if key in puts and puts[key][1] != row:
                raise InvalidInput(Kind.AMBIGUOUS_UPDATE, f"{entity.name} '{row['id']}' is set to different values")
            puts[key] = (entity, row)
        for entity, row in puts.values():
            self._table(entity)[str(row["id"])] = row
            self._counted[entity.kind.value] += 1

    def _inserted(self, insert: Insert, rows: Sequence[Bound]) -> Iterator[tuple[EntityType, Row]]:
        entity = self._entity(insert.type_name)
        made: dict[tuple[Value, Value], str] = {}
        for row in _combinations(insert, rows, self._parameters):
            identity = self._values(entity, insert.assignments, row, only=_identity(entity))
            id_ = self._identified(entity, identity, insert.insertion, made)
            old = self._table(entity).get(id_)
            if old is not None and insert.insertion is Insertion.CREATE:
                raise KeyConflict(Kind.KEY_CONFLICT, f"{entity.kind} type '{entity.name}' already has this id: '{id_}'")
            given = self._values(entity, insert.assignments, {**row, OWN: Entity(entity, entity, old)})
            kept = old if old is not None and insert.insertion is Insertion.UPSERT else _empty(entity)
            yield entity, {**kept, **identity, **given, "id": id_}

    def _identified(self, entity: EntityType, identity: Row, insertion: Insertion, made: dict[tuple[Value, Value], str]) -> str:
        """The id that is given or spelled by the key; or that of the edge with these ends, if there can be only one."""
        if isinstance(entity, NodeType) and entity.key is not None:
            return id_of(entity, identity)
        if identity.get("id") is not None:
            return str(identity["id"])
        if isinstance(entity, EdgeType) and insertion is Insertion.UPSERT and unique_ends(entity):
            ends = (identity["src"], identity["dst"])
            found = next((id_ for id_, row in self._edges[entity.name].items() if (row["src"], row["dst"]) == ends), None)
            return found if found is not None else made.setdefault(ends, new_ulid())
        return new_ulid()

    def _updated(self, update: Update | UpdateBound, rows: Sequence[Bound]) -> Iterator[tuple[EntityType, Row]]:
        for row in _combinations(update, rows, self._parameters):
            for entity, old in self._targets(update, row):
                own = {**row, OWN: Entity(entity, entity, old)}
                yield entity, {**old, **self._values(entity, update.assignments, own)}

    def _values(self, entity: EntityType, assignments: Sequence[Assignment], row: Bound, *, only: Sequence[str] | None = None) -> Row:
        """The assigned values as columns hold them."""
        values: Row = {}
        for assignment in assignments:
            name = assignment.property.text
            if only is None or name in only:
                value = self._reader.value(_own(assignment.value), row).value
                property_ = entity.property(name)
                values[_ENDS.get(name, name)] = value if property_ is None else stored(value, property_.type)
        return values

    # what is found and goes

    def _targets(self, update: Update | UpdateBound, row: Bound) -> Iterator[tuple[EntityType, Row]]:
        if isinstance(update, Update):
            entity = self._entity(update.type_name)
            yield from ((entity, found) for found in self._where(entity, update.where, row))
            return
        target = row[update.variable.name]
        assert isinstance(target, Entity)
        if target.row is not None:
            assert isinstance(target.type, NodeType | EdgeType)
            yield target.type, target.row

    def _where(self, entity: EntityType, condition: Condition, row: Bound) -> list[Row]:
        rewritten = _own(condition)
        return [
            found
            for found in self._table(entity).values()
            if self._reader.truth(rewritten, {**row, OWN: Entity(entity, entity, found)}) is True
        ]

    def _found(self, delete: Delete | DeleteBound, rows: Sequence[Bound]) -> list[Place]:
        if isinstance(delete, Delete):
            entity = self._entity(delete.type_name)
            combinations = _combinations(delete, rows, self._parameters)
            return [(entity, str(found["id"])) for row in combinations for found in self._where(entity, delete.where, row)]
        targets = [row[variable.name] for row in rows for variable in delete.variables]
        return [
            (target.type, target.id)
            for target in targets
            if isinstance(target, Entity) and target.id is not None and isinstance(target.type, NodeType | EdgeType)
        ]

    def _remove(self, entity: EntityType, id_: str) -> None:
        """A node goes with all of its edges. What is gone is not counted again."""
        if self._table(entity).pop(id_, None) is None:
            return
        self._counted[entity.kind.value] += 1
        if not isinstance(entity, NodeType):
            return
        for edge in self._catalog.edges_of(entity.name):
            for row in list(self._edges[edge.name].values()):
                at_source = edge.source == entity.name and row["src"] == id_
                if at_source or (edge.target == entity.name and row["dst"] == id_):
                    self._remove(edge, str(row["id"]))

    def _entity(self, name: Name) -> EntityType:
        """A node first, then an edge."""
        entity = self._catalog.node(name.text) or self._catalog.edge_named(name.text)
        assert entity is not None
        return entity


def unique_ends(edge: EdgeType) -> bool:
    return any(set(unique.columns) == {"src", "dst"} for unique in edge.uniques)


def _identity(entity: EntityType) -> tuple[str, ...]:
    if isinstance(entity, EdgeType):
        return ("id", "from", "to")
    return ("id",) if entity.key is None else entity.key.columns


def _empty(entity: EntityType) -> Row:
    return {property_.name: None for property_ in entity.properties}


def _combinations(change_: Change, rows: Sequence[Bound], parameters: Mapping[str, Typed]) -> list[Bound]:
    """The distinct combinations of the variables that a change uses. One that uses none is made once."""
    used = sorted(set(_variables(change_, parameters)))
    found: dict[tuple[object, ...], Bound] = {}
    for row in rows:
        part = {name: row[name] for name in used if name in row}
        key = tuple((entity.type.name, entity.id) if isinstance(entity, Entity) else entity for entity in part.values())
        found.setdefault(key, part)
    return list(found.values())


def _variables(value: object, parameters: Mapping[str, Typed]) -> Iterator[str]:
    match value:
        case PropertyRef(variable=variable):
            yield variable.name
        case Variable(name=name):
            if name not in parameters:
                yield name
        case UpdateBound(variable=variable, assignments=assignments):
            yield variable.name
            yield from _variables(assignments, parameters)
        case tuple():
            for item in value:
                yield from _variables(item, parameters)
        case Syntax():
            for field in value.__struct_fields__:
                yield from _variables(getattr(value, field), parameters)
        case _:
            return


def _own(value: Any) -> Any:
    """A tree in which every bare word is a property of the row itself."""
    match value:
        case AliasRef(name=name):
            return PropertyRef(Variable(OWN), Name(name))
        case tuple():
            return tuple(map(_own, value))
        case Syntax():
            return msgspec.structs.replace(value, **{field: _own(getattr(value, field)) for field in value.__struct_fields__})
        case _:
            return value
