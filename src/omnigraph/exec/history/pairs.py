"""One type in two snapshots -> its rows that may differ, paired by id in ascending order, and read in parts of bounded size.

Only ids and addresses are held for all rows. Rows that both snapshots share are neither read nor held.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, identity_columns, table_schema
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import NotFound
from omnigraph.exec.blobs import blob_properties
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.compare import any_differing
from omnigraph.ids import BranchName, TypeId
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.arrays import Column, Mask, Places, joined, whole
from omnigraph.store.difference import Addresses, KnownOrigins, RowsApart, StoredRows, rows_apart, stored_rows
from omnigraph.store.fragments import scan_fragments
from omnigraph.store.membership import Members
from omnigraph.store.origins import Origins
from omnigraph.store.tables import ADDRESS, Table
from omnigraph.store.take import take

PART_BYTES: Final = 16 * 1024 * 1024
"""The approximate size of the rows of one side that are held at once."""
FIRST_ROWS: Final = 1_024
MOST_ROWS: Final = 65_536
BLOB_ROWS: Final = 16
"""How many rows are read at once if they contain blobs, whose sizes are not known before."""

ABSENT: Final = np.uint64(2**64 - 1)
"""The address of a row that does not exist."""


class Side(NamedTuple):
    """One type in one snapshot: its declaration and its table. Both are None if the snapshot has no such type."""

    entity: EntityType | None
    table: Table | None
    origins: KnownOrigins = dict
    """The origins of rewritten fragments that the branch of the snapshot knows."""

    @property
    def stored(self) -> list[str]:
        """The columns of the declaration that the table has: a declaration of the merged state may have more."""
        assert self.entity is not None
        assert self.table is not None
        here = set(self.table.schema.names)
        return [name for name in table_schema(self.entity).names if name in here]

    def declared(self, rows: pa.Table) -> pa.Table:
        """Stored rows with all columns of the declaration. Those that the table does not have are null."""
        assert self.entity is not None
        wanted = table_schema(self.entity)
        if rows.schema.names == wanted.names:
            return rows
        columns = [rows.column(field.name) if field.name in rows.schema.names else pa.nulls(len(rows), field.type) for field in wanted]
        return pa.table(columns, names=wanted.names)

    def read(self, addresses: Addresses) -> pa.Table:
        """The rows at these addresses. A row that does not exist has only nulls."""
        assert self.entity is not None
        there = addresses != ABSENT
        if self.table is None or not there.any():
            return _nulls(self.entity, len(addresses))
        found = self.declared(take(self.table, addresses[there], self.stored))
        if there.all():
            return found
        return found.take(pa.array(np.cumsum(there) - 1, mask=~there))


class RowPairs(NamedTuple):
    """Entities by ascending id, each with its row before and its row after. At least one of the two exists."""

    ids: pa.Array
    before: Addresses
    after: Addresses
    held_before: pa.Table | None = None
    """The rows before, if they were few enough to be read with their ids. A row that does not exist has only nulls."""
    held_after: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        held = (rows.nbytes for rows in (self.held_before, self.held_after) if rows is not None)
        return int(self.ids.nbytes + self.before.nbytes + self.after.nbytes + sum(held))

    def at(self, kept: Mask) -> RowPairs:
        return self if kept.all() else self.take(np.flatnonzero(kept))

    def take(self, places: Places) -> RowPairs:
        held = (None if rows is None else rows.take(pa.array(places)) for rows in (self.held_before, self.held_after))
        return RowPairs(self.ids.take(pa.array(places)), self.before[places], self.after[places], *held)

    def slice(self, start: int, stop: int) -> RowPairs:
        held = (None if rows is None else rows.slice(start, stop - start) for rows in (self.held_before, self.held_after))
        return RowPairs(self.ids.slice(start, stop - start), self.before[start:stop], self.after[start:stop], *held)


class PartOfRows(NamedTuple):
    """Some pairs, with the rows of both sides. A row that does not exist has only nulls."""

    pairs: RowPairs
    before: pa.Table
    after: pa.Table


def side_of(engine: Engine, snapshot: BranchSnapshot, type_id: TypeId) -> Side:
    entity = engine.catalog(snapshot).by_id(type_id)
    if entity is None or (row := snapshot.state.table_of(type_id)) is None:
        return Side(None, None)
    return Side(entity, engine.tables.open(row.ref), cache(lambda: _origins(engine, snapshot.branch.name)))


def _origins(engine: Engine, branch: BranchName) -> Origins:
    try:
        return engine.manifest.origins(branch)
    except NotFound:  # the branch was deleted since; rows are then compared by their values
        return {}


def origins_of(one: Side, other: Side) -> KnownOrigins:
    """What both sides know."""
    return lambda: {**one.origins(), **other.origins()}


def shared_types(*catalogs: Catalog) -> list[TypeId]:
    """The types of all catalogs, each once: nodes before edges, then by identity (D-10)."""
    nodes = {entity.id for catalog in catalogs for entity in catalog.nodes}
    return [*sorted(nodes), *sorted({entity.id for catalog in catalogs for entity in catalog.edges})]


def same_version(before: Side, after: Side) -> bool:
    """Whether both snapshots show one version of one table."""
    return before.table is not None and after.table is not None and before.table.ref == after.table.ref


def candidates(before: Side, after: Side) -> RowPairs:
    """The entities whose stored rows are not the same. Their values may be the same all the same."""
    if same_version(before, after):
        return paired(_NONE, _NONE)
    gone, come = rows_apart(before.table, after.table, origins=origins_of(before, after))
    return paired(_found(before, gone), _found(after, come))


class _FoundRows(NamedTuple):
    """Ids and addresses of some rows of one side, and the rows themselves if they are few."""

    stored: StoredRows
    rows: pa.Table | None = None


_NONE: Final = _FoundRows(StoredRows(pa.array([], pa.string()), np.empty(0, np.uint64)))


def _found(side: Side, apart: RowsApart) -> _FoundRows:
    live = sum(part.rows - (part.deletions[2] if part.deletions is not None else 0) for part in apart.fragments)
    if side.entity is None or side.table is None or not 0 < live + len(apart.single) <= PartSize(side).rows:
        return _FoundRows(stored_rows(side.table, apart))
    # A few rows, as an update leaves them: reading their ids takes as long as reading the rows.
    parts = [side.read(apart.single)] if len(apart.single) else []
    addresses = [apart.single]
    if apart.fragments and blob_properties(side.entity):  # a scan does not read blobs
        stored = stored_rows(side.table, RowsApart(apart.fragments, apart.single[:0]))
        parts.append(side.read(stored.addresses))
        addresses.append(stored.addresses)
    elif apart.fragments:
        scanned = pa.Table.from_batches(scan_fragments(side.table, apart.fragments, side.stored))
        parts.append(side.declared(scanned.select(side.stored)))
        addresses.append(scanned.column(ADDRESS).to_numpy())
    rows = pa.concat_tables(parts)
    return _FoundRows(StoredRows(whole(rows.column(ID)), np.concatenate(addresses)), rows)


def paired(before: _FoundRows, after: _FoundRows) -> RowPairs:
    """Match rows by id."""
    every = pc.unique(whole(joined([before.stored.ids, after.stored.ids], pa.string())))
    ids = every.take(pc.sort_indices(every))
    known = Members(ids)
    places: list[Addresses] = []
    held: list[pa.Table | None] = []
    for stored, rows in (before, after):
        found = known.find(stored.ids)
        place = np.full(len(ids), ABSENT)
        place[found] = stored.addresses
        places.append(place)
        if rows is not None:
            order = np.zeros(len(ids), np.int64)
            order[found] = np.arange(len(found))
            rows = rows.take(pa.array(order, mask=place == ABSENT))
        held.append(rows)
    return RowPairs(ids, *places, *held)


def changed_parts(before: Side, after: Side, pairs: RowPairs, *, first_rows: int | None = None) -> Iterator[PartOfRows]:
    """The pairs whose rows differ, with the rows, in order. `first_rows` is as in `parts`."""
    columns = matched_columns(before, after)
    for part in parts(before, after, pairs, first_rows=first_rows):
        both = (part.pairs.before != ABSENT) & (part.pairs.after != ABSENT)
        kept = ~both | any_differing(((old(part.before), new(part.after)) for old, new in columns), len(part.pairs))
        if kept.all():
            yield part
        elif kept.any():
            mask = pa.array(kept)
            yield PartOfRows(part.pairs.at(kept), part.before.filter(mask), part.after.filter(mask))


def changed(before: Side, after: Side, pairs: RowPairs) -> RowPairs:
    """The pairs whose rows differ, without the rows. A row that only one side has is not read."""
    kept = (pairs.before == ABSENT) != (pairs.after == ABSENT)
    both = np.flatnonzero((pairs.before != ABSENT) & (pairs.after != ABSENT))
    kept[both] = differing_rows(before, after, pairs.take(both))
    return pairs.at(kept)


def differing_rows(before: Side, after: Side, pairs: RowPairs) -> Mask:
    """Which pairs differ. Both rows of each pair exist."""
    columns = matched_columns(before, after)
    found = [
        any_differing(((old(part.before), new(part.after)) for old, new in columns), len(part.pairs))
        for part in parts(before, after, pairs)
    ]
    return np.concatenate([np.empty(0, np.bool_), *found])


def parts(before: Side, after: Side, pairs: RowPairs, *, first_rows: int | None = None) -> Iterator[PartOfRows]:
    """All pairs with their rows, in parts. If a side has no such type, its rows are nulls of the other's type.

    A caller that may need no more than a few rows bounds the first part by `first_rows`.
    """
    known = before.entity or after.entity
    assert known is not None
    old, new = Side(before.entity or known, before.table), Side(after.entity or known, after.table)
    size, at = PartSize(old, new, first_rows=first_rows), 0
    while at < len(pairs):
        some = pairs.slice(at, at + size.rows)
        at += len(some)
        part = PartOfRows(
            some,
            old.read(some.before) if some.held_before is None else some.held_before,
            new.read(some.after) if some.held_after is None else some.held_after,
        )
        size.learn(part.before, part.after)
        yield part


class PartSize:
    """How many rows are read at once: few at first, until their size is known."""

    def __init__(self, *sides: Side, first_rows: int | None = None) -> None:
        self._with_blobs = any(side.entity is not None and blob_properties(side.entity) for side in sides)
        usual = BLOB_ROWS if self._with_blobs else FIRST_ROWS
        self.rows = usual if first_rows is None else min(usual, first_rows)

    def learn(self, *tables: pa.Table) -> None:
        """Choose the next size by rows that were read."""
        if not self._with_blobs:
            size = max(1, *(table.nbytes for table in tables)) if tables else 1
            self.rows = max(1, min(MOST_ROWS, PART_BYTES * len(tables[0]) // size))


def read_parts(side: Side, addresses: Addresses) -> Iterator[pa.Table]:
    """The rows at these addresses, all of which exist, in order, in parts."""
    size, at = PartSize(side), 0
    while at < len(addresses):
        part = side.read(addresses[at : at + size.rows])
        at += len(part)
        size.learn(part)
        yield part


class ColumnOf(NamedTuple):
    """A column of one side, or nulls of that type if the side does not have it."""

    name: str | None
    type: pa.DataType

    def __call__(self, rows: pa.Table) -> Column:
        return rows.column(self.name) if self.name is not None else pa.nulls(len(rows), self.type)


def matched_columns(before: Side, after: Side) -> list[tuple[ColumnOf, ColumnOf]]:
    """The columns of `after` and their counterparts, matched by the identity of the property: names can change.

    A property that only `before` has was dropped with the schema. That is no change of a row.
    """
    known = before.entity or after.entity
    assert known is not None
    old, new = _columns(before.entity or known), _columns(after.entity or known)
    return [(ColumnOf(old[key].name if key in old else None, field.type), ColumnOf(field.name, field.type)) for key, field in new.items()]


def _columns(entity: EntityType) -> dict[str, pa.Field]:
    schema = table_schema(entity)
    keys = [*identity_columns(entity), *(property_.id for property_ in entity.properties)]
    return dict(zip(keys, schema, strict=True))


def _nulls(entity: EntityType, rows: int) -> pa.Table:
    fields = [field.with_nullable(nullable=True) for field in table_schema(entity)]
    return pa.table([pa.nulls(rows, field.type) for field in fields], schema=pa.schema(fields))
