"""Rows without their ids, and the ids that records brought -> every row's id: derived from its key, kept, or minted."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import derive_ids
from omnigraph.catalog.model import EntityType, NodeType
from omnigraph.exec.load.ulids import mint
from omnigraph.store.arrays import whole


class Identified(msgspec.Struct, frozen=True):
    """Ids of all rows, whether every one was minted here, and the rows (from 0) whose record said another id."""

    ids: pa.Array
    minted: bool
    wrong: pa.Array


def identify(entity: EntityType, given: pa.Array, properties: pa.Table) -> Identified:
    """The ids of rows; `given` is null where a record brought none."""
    none = pa.array([], pa.int64())
    if isinstance(entity, NodeType) and entity.key is not None:
        derived = whole(derive_ids(entity.key, properties))
        if given.null_count == len(given):
            return Identified(derived, minted=False, wrong=none)
        differs = pc.fill_null(pc.not_equal(given, derived), fill_value=False)
        return Identified(derived, minted=False, wrong=pc.indices_nonzero(differs).cast(pa.int64()))
    if not given.null_count:
        return Identified(given, minted=False, wrong=none)
    fresh = mint(given.null_count)
    if given.null_count == len(given):
        return Identified(fresh, minted=True, wrong=none)
    missing = given.is_null()
    places = np.cumsum(missing.to_numpy(zero_copy_only=False)) - 1
    return Identified(pc.if_else(missing, fresh.take(pa.array(np.maximum(places, 0))), given), minted=False, wrong=none)
