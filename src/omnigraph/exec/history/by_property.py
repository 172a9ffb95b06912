"""ChangedEntities that both sides changed -> rows with the changed properties of both, and the properties that both changed differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.exec.embedding import embed_targets
from omnigraph.exec.history.compare import any_differing, differing
from omnigraph.exec.history.conflicts import Choice
from omnigraph.exec.history.pairs import ABSENT, PartSize, Side, matched_columns
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
    """The target takes over the schema of theirs."""

    @property
    def entity(self) -> EntityType:
        """The type as the target declares it after the merge."""
        entity = self.theirs.entity if self.adopts else self.ours.entity
        assert entity is not None
        return entity


class ChangedEntities(NamedTuple):
    """ChangedEntities that theirs changed, by ascending id, with the address of each row in the three states."""

    ids: pa.Array
    base: Addresses
    theirs: Addresses
    ours: Addresses

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, places: Places) -> ChangedEntities:
        return ChangedEntities(self.ids.take(pa.array(places)), self.base[places], self.theirs[places], self.ours[places])

    def at(self, kept: Mask) -> ChangedEntities:
        return self if kept.all() else ChangedEntities(self.ids.filter(pa.array(kept)), self.base[kept], self.theirs[kept], self.ours[kept])


def fitted_to(entity: EntityType, side: Side, rows: pa.Table) -> pa.Table:
    """Rows of one side with the columns of the target, matched by the identity of their property. What is missing is null."""
    columns = [of(rows) for of, _ in matched_columns(side, Side(entity, None))]
    return pa.table(columns, schema=table_schema(entity))


class Blend(NamedTuple):
    """The result for some entities: which have a merged row and what it is, which are in conflict, and over which properties."""

    rows: pa.Table
    merged: Mask
    conflict: Mask
    clashes: Mapping[int, tuple[str, ...]]


def unblended(sides: Sides, entities: ChangedEntities) -> Blend:
    """Every entity is in conflict as a whole."""
    count = len(entities)
    return Blend(table_schema(sides.entity).empty_table(), np.zeros(count, np.bool_), np.ones(count, np.bool_), {})


def blended(sides: Sides, entities: ChangedEntities, choices: Choices, split: Mask) -> Blend:
    """Merge the entities that both sides updated. Inserts, deletes and those in `split` are in conflict as a whole.

    A choice decides the properties that both sides changed; all others keep the change of either side.
    """
    updated = ~split
    for addresses in (entities.base, entities.theirs, entities.ours):
        updated &= addresses != ABSENT
    merged, conflict = np.zeros(len(entities), np.bool_), ~updated
    parts = [table_schema(sides.entity).empty_table()]
    clashes: dict[int, tuple[str, ...]] = {}
    places = np.flatnonzero(updated)
    size, at = PartSize(*sides[:3]), 0
    while at < len(places):
        some = places[at : at + size.rows]
        at += len(some)
        part = _blend(sides, entities.take(some), choices[some], size)
        merged[some], conflict[some] = part.merged, part.conflict
        clashes |= {int(some[place]): names for place, names in part.clashes.items()}
        parts.append(part.rows)
    return Blend(pa.concat_tables(parts), merged, conflict, clashes)


def _blend(sides: Sides, entities: ChangedEntities, choices: Choices, size: PartSize) -> Blend:
    entity = sides.entity
    read = zip(sides[:3], (entities.base, entities.theirs, entities.ours), strict=True)
    base, theirs, ours = (fitted_to(entity, side, side.read(addresses)) for side, addresses in read)
    size.learn(base, theirs, ours)
    conflict, names = np.zeros(len(entities), np.bool_), list[tuple[str, Mask]]()
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
        names.append((name, clash))
        columns.append(_chosen(taken, incoming, present))
    rows = pa.table(columns, schema=ours.schema)
    merged = ~(conflict & (choices == Choice.FAIL)) & any_differing(zip(rows.columns, ours.columns, strict=True), len(entities))
    clashes = {place: tuple(name for name, clash in names if clash[place]) for place in np.flatnonzero(conflict).tolist()}
    return Blend(rows.filter(pa.array(merged)), merged, conflict, clashes)


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
