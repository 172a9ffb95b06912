"""Rows and the explicit ids of their records -> the id of every row: derived from its key, explicit, or minted."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import derive_ids
from omnigraph.catalog.model import EntityType, NodeType
from omnigraph.exec.write.ulids import mint
from omnigraph.store.arrays import whole


class RowIds(msgspec.Struct, frozen=True):
    """The ids of all rows, how many were minted here, and the rows (from 0) whose explicit id differs from the derived one."""

    ids: pa.Array
    minted: int
    wrong: pa.Array


def identify(entity: EntityType, given: pa.Array, properties: pa.Table, *, by_ends: bool) -> RowIds:
    """The ids of rows. `given` is null where a record has no explicit id, and stays null if such an edge is found by its ends."""
    none = pa.array([], pa.int64())
    if isinstance(entity, NodeType) and entity.key is not None:
        derived = whole(derive_ids(entity.key, properties))
        if given.null_count == len(given):
            return RowIds(derived, minted=0, wrong=none)
        differs = pc.fill_null(pc.not_equal(given, derived), fill_value=False)
        return RowIds(derived, minted=0, wrong=pc.indices_nonzero(differs).cast(pa.int64()))
    if by_ends or not given.null_count:
        return RowIds(given, minted=0, wrong=none)
    fresh = mint(given.null_count)
    if given.null_count == len(given):
        return RowIds(fresh, minted=len(fresh), wrong=none)
    missing = given.is_null()
    places = np.cumsum(missing.to_numpy(zero_copy_only=False)) - 1
    return RowIds(pc.if_else(missing, fresh.take(pa.array(np.maximum(places, 0))), given), minted=len(fresh), wrong=none)
