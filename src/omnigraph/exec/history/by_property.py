"""Entities that both sides changed -> rows with the changed properties of both, and the properties that both changed differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.exec.embedding import embed_targets
from omnigraph.exec.history.compare import any_differing, differing
from omnigraph.exec.history.conflicts import Choice
from omnigraph.exec.history.pairs import ABSENT, PART_BYTES, PartSize, Side, matched_columns
from omnigraph.store.arrays import Column, Mask, Places, whole
from omnigraph.store.difference import Addresses

Choices = npt.NDArray[Any]
"""The choice of the caller for each entity, as text."""


class Sides(NamedTuple):
    """One type in the three states."""

    base: Side
    theirs: Side
    ours: Side
    adopts: bool = False
    """The target takes over the declaration of theirs."""

    @property
    def entity(self) -> EntityType:
        """The type as the target declares it after the merge."""
        entity = self.theirs.entity if self.adopts else self.ours.entity
        assert entity is not None
        return entity


class ChangedEntities(NamedTuple):
    """Entities that theirs changed, by ascending id, with the address of each row in the three states."""

    ids: pa.Array
    base: Addresses
    theirs: Addresses
    ours: Addresses
    held: pa.Table | None = None
    """The rows of theirs, if they were few enough to be read with their ids. A row that does not exist has only nulls."""

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, places: Places) -> ChangedEntities:
        held = None if self.held is None else self.held.take(pa.array(places))
        return ChangedEntities(self.ids.take(pa.array(places)), self.base[places], self.theirs[places], self.ours[places], held)

    def at(self, kept: Mask) -> ChangedEntities:
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def parts(self, size: PartSize) -> Iterator[tuple[Places, ChangedEntities]]:
        """All entities in parts of that size, which may change between two of them, each with its places."""
        at = 0
        while at < len(self):
            places = np.arange(at, min(at + size.rows, len(self)))
            at += len(places)
            yield places, self.take(places)


def fitted_to(entity: EntityType, side: Side, rows: pa.Table) -> pa.Table:
    """Rows of one side with the columns of the target, matched by the identity of their property. What is missing is null."""
    columns = [of(rows) for of, _ in matched_columns(side, Side(entity, None))]
    return pa.table(columns, schema=table_schema(entity))


class MergedRows(msgspec.Struct, frozen=True):
    """Entities of which the changed properties of both sides are merged, and how the caller chose where both changed one differently.

    Their rows are made of the three states whenever they are needed, unless they are few.
    """

    sides: Sides
    entities: ChangedEntities
    choices: Choices
    held: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.entities)

    def parts(self) -> Iterator[pa.Table]:
        """The rows, with the columns of the target, in parts."""
        if self.held is not None:
            yield self.held
            return
        size = PartSize(*self.sides[:3])
        for places, some in self.entities.parts(size):
            yield _merged(self.sides, some, self.choices[places], size).rows


class Blend(NamedTuple):
    """The result for some entities: which have a merged row, which are in conflict, and the merged rows."""

    merged: Mask
    conflict: Mask
    rows: MergedRows


def unblended(sides: Sides, entities: ChangedEntities) -> Blend:
    """Every entity is in conflict as a whole."""
    count = len(entities)
    nothing = MergedRows(sides, entities.take(np.empty(0, np.int64)), np.empty(0, object))
    return Blend(np.zeros(count, np.bool_), np.ones(count, np.bool_), nothing)


def blended(sides: Sides, entities: ChangedEntities, choices: Choices, split: Mask) -> Blend:
    """Merge the entities that both sides updated. Inserts, deletes and those in `split` are in conflict as a whole.

    A choice decides the properties that both sides changed; all others keep the change of either side. Of many entities only the
    decisions are held.
    """
    updated = np.flatnonzero(_updated(entities, split))
    merged, conflict = np.zeros(len(entities), np.bool_), np.ones(len(entities), np.bool_)
    held: list[pa.Table] | None = [table_schema(sides.entity).empty_table()]
    size = PartSize(*sides[:3])
    for places, some in entities.take(updated).parts(size):
        part = _merged(sides, some, choices[updated[places]], size)
        merged[updated[places]], conflict[updated[places]] = part.merged, part.conflict
        if held is not None:
            held = [*held, part.rows] if sum(rows.nbytes for rows in held) + part.rows.nbytes <= PART_BYTES else None
    rows = None if held is None else pa.concat_tables(held)
    return Blend(merged, conflict, MergedRows(sides, entities.at(merged), choices[merged], rows))


def clashing(sides: Sides, entities: ChangedEntities, split: Mask) -> list[tuple[str, ...]]:
    """The properties that both sides changed differently, for each entity; none if it is in conflict as a whole."""
    names: list[tuple[str, ...]] = [()] * len(entities)
    updated = np.flatnonzero(_updated(entities, split))
    if len(updated):
        open_ = np.full(len(updated), Choice.FAIL.value, object)
        clashes = _merged(sides, entities.take(updated), open_, PartSize(*sides[:3])).clashes
        for at, place in enumerate(updated.tolist()):
            names[place] = tuple(name for name, clash in clashes if clash[at])
    return names


def _updated(entities: ChangedEntities, split: Mask) -> Mask:
    """Which entities exist in all three states, and can be merged by property."""
    updated = ~split
    for addresses in (entities.base, entities.theirs, entities.ours):
        updated &= addresses != ABSENT
    return updated


class _MergedPart(NamedTuple):
    """Some entities: which have a merged row, which are in conflict, the merged rows, and where each property is in conflict."""

    merged: Mask
    conflict: Mask
    rows: pa.Table
    clashes: list[tuple[str, Mask]]


def _merged(sides: Sides, entities: ChangedEntities, choices: Choices, size: PartSize) -> _MergedPart:
    entity = sides.entity
    read = (
        sides.base.read(entities.base),
        sides.theirs.read(entities.theirs) if entities.held is None else entities.held,
        sides.ours.read(entities.ours),
    )
    base, theirs, ours = (fitted_to(entity, side, rows) for side, rows in zip(sides[:3], read, strict=True))
    size.learn(base, theirs, ours)
    conflict, clashes = np.zeros(len(entities), np.bool_), list[tuple[str, Mask]]()
    columns: list[Column] = []
    known = _known_to(sides.theirs, entity)
    texts = {target.name: target.source for target in embed_targets(entity)}

    def changes(name: str) -> _Changes:
        earlier, incoming, present = base.column(name), theirs.column(name), ours.column(name)
        by_theirs = differing(earlier, incoming) if name in known else np.zeros(len(entities), np.bool_)
        return _Changes(by_theirs, differing(earlier, present), differing(incoming, present))

    for name in ours.schema.names:
        incoming, present = theirs.column(name), ours.column(name)
        if name in texts:
            clash, taken = _embedded(changes(texts[name]), changes(name), incoming, present, choices)
        else:
            clash, taken = _property(changes(name), choices)
        conflict |= clash
        clashes.append((name, clash))
        columns.append(_chosen(taken, incoming, present))
    rows = pa.table(columns, schema=ours.schema)
    merged = ~(conflict & (choices == Choice.FAIL)) & any_differing(zip(rows.columns, ours.columns, strict=True), len(entities))
    return _MergedPart(merged, conflict, rows.filter(pa.array(merged)), clashes)


class _Changes(NamedTuple):
    """Where a property was changed by each side, and where the two differ now."""

    by_theirs: Mask
    by_ours: Mask
    apart: Mask


def _property(changes: _Changes, choices: Choices) -> tuple[Mask, Mask]:
    """Where both sides changed a property differently, and where the value of theirs is taken."""
    clash = changes.by_theirs & changes.by_ours & changes.apart
    return clash, changes.by_theirs & (~clash | (choices == Choice.THEIRS))


def _embedded(text: _Changes, vector: _Changes, incoming: Column, present: Column, choices: Choices) -> tuple[Mask, Mask]:
    """The same for a vector that is embedded from a text: it comes from the side whose text is taken, so that both belong together.

    If both sides have the same new text, and one has not embedded it, the vector of the other is taken.
    """
    text_clash, text_taken = _property(text, choices)
    moved = (text.by_theirs ^ text.by_ours) | text_clash
    clash, taken = _property(vector, choices)
    there, here = (whole(column).is_valid().to_numpy(zero_copy_only=False) for column in (incoming, present))
    one_lacks_it = ~moved & text.by_theirs & (there ^ here)
    taken = np.where(moved, text_taken, np.where(one_lacks_it, there, taken))
    return clash & ~moved & ~one_lacks_it, taken


def _known_to(side: Side, entity: EntityType) -> frozenset[str]:
    """The columns of the target that a side has too. It cannot have changed the others."""
    return frozenset(str(there.name) for here, there in matched_columns(side, Side(entity, None)) if here.name is not None)


def _chosen(mask: Mask, yes: Column, no: Column) -> pa.Array:
    """The values of one column where the mask is true, and of the other elsewhere. For every type, lists included."""
    both = pa.concat_arrays([whole(yes), whole(no)])
    rows = np.arange(len(mask))
    return both.take(pa.array(np.where(mask, rows, rows + len(mask))))
