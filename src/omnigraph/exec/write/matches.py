"""A match of a mutation, a snapshot and the changes so far -> for each change, the combinations of variables to apply it for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import EntityType, InterfaceType, NodeType
from omnigraph.errors import Kind, ResourceLimitExceeded
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.aggregate import MERGE_ROWS, Merged
from omnigraph.exec.read.encoding import encoded
from omnigraph.exec.read.rows import Cells, ColumnKey
from omnigraph.exec.read.run import MEMORY_BYTES, stream
from omnigraph.exec.read.table_statistics import statistics_from
from omnigraph.exec.read.view import PendingView, View
from omnigraph.exec.read.watch import Watch
from omnigraph.exec.write.assignment import ONCE, Driving
from omnigraph.exec.write.image import Image
from omnigraph.exec.write.selection import having_ids
from omnigraph.ids import TypeId
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.expr import TYPE
from omnigraph.plan.planner import plan_logical
from omnigraph.plan.touched import matched_types
from omnigraph.plan.typed import PathType
from omnigraph.plan.writes import Change, MatchedChange, MatchedChanges, fields_of_change
from omnigraph.store.arrays import Column, Mask, joined, whole
from omnigraph.store.membership import Members
from omnigraph.store.tables import Table, table_in_memory

_FIXED: Final = (ID, SOURCE, TARGET, TYPE)
"""The columns that no change sets."""


def combinations(
    engine: Engine, statement: MatchedChanges, snapshot: BranchSnapshot, images: Mapping[TypeId, Image]
) -> Iterator[tuple[Change, Driving]]:
    """Run the match once. Yields the changes that have a combination, in order."""
    places = {(field.binding, field.column): at for at, field in enumerate(statement.fields)}
    wanted = [_Combinations(change, places) for change in statement.changes]
    for cells in _rows(engine, statement, snapshot, images):
        for each in wanted:
            each.add(cells)
    for each in wanted:
        if (driving := each.driving()) is not None:
            yield each.change, driving


def _rows(engine: Engine, statement: MatchedChanges, snapshot: BranchSnapshot, images: Mapping[TypeId, Image]) -> Iterator[Cells]:
    catalog = engine.catalog(snapshot)
    types = {entity.id for entity in matched_types(statement.match.variables, statement.match.block, catalog)}
    changed = {type_: image for type_, image in images.items() if type_ in types and image.is_changed}
    view: View = engine.view(snapshot)
    if changed:
        view = PendingView(view, {type_: _held(image) for type_, image in changed.items()})
    edges = types.intersection(edge.id for edge in catalog.edges)
    facts = engine.surveyor.facts(view.tables, types=types, edges=edges, state_of=view.adjacency_state)
    return stream(plan_logical(statement.read, statistics_from(catalog, view.tables, facts)), view, watch=Watch())


def _held(image: Image) -> Table:
    """The rows of a type with the changes so far, in memory. A match reads no blobs."""
    columns = [name for name in image.schema.names if name not in image.blobs]
    return table_in_memory(image.table.root, image.table.scan(columns, overlay=image.overlay).read_all())


def as_they_are(rows: Driving, statement: MatchedChanges, images: Iterable[Image]) -> Driving:
    """The combinations with the properties that their entities have now, after earlier changes of the statement to these tables."""
    columns = dict(rows.columns)
    for slot in {binding for binding, _ in columns}:
        names = [name for binding, name in columns if binding == slot and name not in _FIXED]
        for image in images if names else ():
            mine = _bound_to(image.entity, statement.match.variables[slot].type, rows.count, columns.get((slot, TYPE)))
            if mine.any():
                columns |= {(slot, name): column for name, column in _read_again(image, slot, names, columns, mine).items()}
    return Driving(rows.count, columns)


def _bound_to(entity: EntityType, bound: EntityType | InterfaceType | PathType, count: int, types: Column | None) -> Mask:
    """Which rows bind a variable of the type `bound` to an entity of this type. `types` are those of the entities."""
    if isinstance(bound, InterfaceType) and isinstance(entity, NodeType):
        assert types is not None, "the type of an entity of an interface is part of its identity"
        return np.asarray(pc.fill_null(pc.equal(whole(types), entity.name), fill_value=False), np.bool_)
    return np.full(count, bound == entity)


def _read_again(image: Image, slot: int, names: list[str], columns: Mapping[ColumnKey, Column], mine: Mask) -> dict[str, Column]:
    ids = whole(columns[slot, ID])
    schema = pa.schema([image.schema.field(name) for name in (ID, *names)])
    wanted = pc.unique(ids.filter(pa.array(mine))).drop_null()
    found = pa.Table.from_batches([batch.select(schema.names) for batch in having_ids(image, wanted, names)], schema)
    at = Members(found.column(ID)).find(ids)
    places = pa.array(np.where((at >= 0) & mine, len(ids) + at, np.arange(len(ids))))
    return {name: joined([columns[slot, name], found.column(name)], schema.field(name).type).take(places) for name in names}


class _Combinations:
    """The distinct combinations of the variables that one change uses, with the columns that it reads."""

    def __init__(self, matched: MatchedChange, places: Mapping[ColumnKey, int]) -> None:
        self.change = matched.change
        self._keys = list(dict.fromkeys((field.binding, field.column) for field in (*fields_of_change(matched.change), *matched.identity)))
        self._keys = [key for key in self._keys if key in places]
        self._at = [places[key] for key in self._keys]
        self._identity = [_name(self._keys.index((field.binding, field.column))) for field in matched.identity]
        self._held = Merged(self._distinct, MERGE_ROWS)
        self._met = False

    def add(self, cells: Cells) -> None:
        self._met = True
        if not self._identity:
            return
        self._held.add(pa.table({_name(key): cells.columns[at] for key, at in enumerate(self._at)}))
        if self._held.nbytes > MEMORY_BYTES:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"the rows to change need more than the {MEMORY_BYTES} bytes that a query may hold; narrow the match",
                resource="query memory in bytes",
                limit=MEMORY_BYTES,
                actual=self._held.nbytes,
            )

    def driving(self) -> Driving | None:
        if not self._met:
            return None
        if not self._identity:
            return ONCE
        rows = self._held.table()
        return Driving(len(rows), dict(zip(self._keys, rows.columns, strict=True)))

    def _distinct(self, rows: pa.Table) -> pa.Table:
        """The first row of each combination. The other columns depend on it."""
        places = pa.array(np.arange(len(rows)))
        keys = pa.table({**{name: encoded(rows.column(name)) for name in self._identity}, "place": places})
        first = keys.group_by(self._identity, use_threads=False).aggregate([("place", "min")]).column("place_min")
        return rows if len(first) == len(rows) else rows.take(first)


def _name(at: int) -> str:
    return str(at)
