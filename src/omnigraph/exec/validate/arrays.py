"""Arrow columns -> positions, distinct values and memberships, computed for all rows at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.store.arrays import Column, Mask, Places, joined, whole
from omnigraph.store.membership import is_in


class DistinctTexts(NamedTuple):
    """Distinct texts. Input text `i` is `texts[places[i]]`, and it first occurs at `first[places[i]]`."""

    texts: pa.Array
    places: Places
    first: Places

    def repeats(self) -> Places:
        """The positions of texts that occur earlier too."""
        if len(self.texts) == len(self.places):
            return np.zeros(0, np.int64)
        repeated = np.ones(len(self.places), np.bool_)
        repeated[self.first] = False
        return np.flatnonzero(repeated)


def distinct(texts: pa.Array) -> DistinctTexts:
    """The distinct values of texts without nulls."""
    encoded = texts.dictionary_encode()
    places = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    # A text gets the next free number when it is first seen.
    seen = np.maximum.accumulate(places) if len(places) else places
    first = np.flatnonzero(np.diff(seen, prepend=-1))
    return DistinctTexts(encoded.dictionary, places, first)


def true_at(mask: Column) -> Places:
    """The positions where a mask is true. Null counts as false."""
    return np.flatnonzero(np.asarray(pc.fill_null(mask, fill_value=False))).astype(np.int64)


def among(texts: Column, keys: Column | None) -> Mask:
    """Which texts are among the keys."""
    return np.zeros(len(texts), np.bool_) if keys is None else is_in(texts, keys)


def joined_texts(columns: Iterable[Column]) -> pa.Array:
    """Concatenate columns of texts into one array."""
    return whole(joined(columns, pa.string()))


def at(texts: pa.Array, places: Places) -> pa.Array:
    """The texts at these positions."""
    return texts.take(pa.array(places))
