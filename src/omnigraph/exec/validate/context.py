"""A change of several types -> the questions that all integrity checks ask about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import ID
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.exec.validate.arrays import among, joined_texts
from omnigraph.exec.validate.delta import Added, Committed, Delta
from omnigraph.exec.validate.keys import KeyPartition, parts
from omnigraph.ids import TypeId
from omnigraph.store.arrays import Mask, Places
from omnigraph.store.membership import Members, matching


class IntegrityContext(msgspec.Struct, frozen=True):
    """The change of every touched type, and the committed rows. Up to `limit` problems are reported in full; all are counted."""

    catalog: Catalog
    committed: Committed
    deltas: Mapping[TypeId, Delta]
    budget_bytes: int
    limit: int

    def of(self, entity: EntityType) -> Delta:
        """The change of a type. It is empty for an untouched type."""
        return self.deltas.get(entity.id) or Delta(entity)

    def parts(self, *sizes: tuple[Added | None, Sequence[str]]) -> tuple[KeyPartition, ...]:
        return parts(sizes, budget_bytes=self.budget_bytes)

    def remaining(self, delta: Delta) -> int:
        """An upper bound for the number of committed rows that remain: 0 for an overwrite, else all of them."""
        return 0 if delta.whole else self.committed.rows(delta.entity)


def not_remaining(delta: Delta, ids: pa.Array) -> Mask:
    """Which of these committed rows do not remain: they are deleted, replaced or overwritten."""
    if delta.whole:
        return np.ones(len(ids), np.bool_)
    gone = among(ids, delta.deleted)
    return gone if delta.minted or not delta.replaces else gone | among(ids, added_among(delta, ids))


def added_among(delta: Delta, ids: pa.Array) -> pa.Array:
    """The ids of this array that the change adds. Reads the added rows once."""
    if delta.added is None or not len(ids):
        return pa.array([], pa.string())
    return joined_texts(batch.column(ID) for batch in matching(Members(ids), delta.added.read([ID]), on=ID))


def ids_at(delta: Delta, rows: Places) -> list[str | None]:
    """The ids of some added rows, in the order of their numbers. None for minted ids, which the caller does not know."""
    if delta.added is None or delta.minted or not len(rows):
        return [None] * len(rows)
    ids: list[str | None] = []
    before = 0
    for batch in delta.added.read([ID]):
        mine = rows[(rows >= before) & (rows < before + batch.num_rows)] - before
        ids += batch.column(ID).take(pa.array(mine)).to_pylist()
        before += batch.num_rows
    return ids
