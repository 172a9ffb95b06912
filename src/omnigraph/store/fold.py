"""Fragments of a table -> the few small ones that the next write should take along, so that their number stays logarithmic.

Every small commit leaves a small fragment, and both reads and keyed writes slow down with them. So a write that finds
enough of one size rewrites them as one, inside its own transaction: no second commit, nobody to wait for, nothing to recover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow.compute as pc

FOLD: Final = 3
"""How many fragments of one size become one, together with what a write brings. Each costs a fold up to six reads."""

SMALL_BLOB_BYTES: Final = 1_048_576
"""Fragments with more bytes of blobs than this, together, are left to `optimize` for the same reason."""

SMALL_ROWS: Final = 4_096
"""Fragments of this many rows are left to `optimize`: taking them along would make a small write a large one."""


def fold(fragments: Sequence[Any], *, incoming: int) -> Sequence[Any]:
    """Three fragments of the smallest size of which there are three; none when the write brings nothing.

    Sizes are powers of four: one fold a write keeps its cost bounded, growing sizes keep the number of fragments small, and
    each row is rewritten a few times in its life.
    """
    if not incoming:
        return ()
    by_size: dict[int, list[Any]] = {}
    for fragment in fragments:
        by_size.setdefault(_size(fragment.metadata.physical_rows), []).append(fragment)
    full = (group for _, group in sorted(by_size.items()) if len(group) >= FOLD)
    return next(full, [])[:FOLD]


def foldable(dataset: Any, *, touched: set[int]) -> list[Any]:
    """The small fragments of a table that a write may rewrite: not those it touches itself, and none that an index covers,
    because the rewritten rows would not be covered any more.
    """
    covered: set[int] = set()
    for index in dataset.describe_indices():
        for segment in index.segments:
            covered |= set(segment.fragment_ids or ())
    return [
        fragment
        for fragment in dataset.get_fragments()
        if fragment.metadata.physical_rows < SMALL_ROWS and fragment.fragment_id not in touched and fragment.fragment_id not in covered
    ]


def light(dataset: Any, fragments: Sequence[Any], blobs: Sequence[str]) -> bool:
    """Are the blobs of these fragments few enough to be rewritten on the way? Told by their descriptors: no blob is read."""
    if not blobs:
        return True
    described = dataset.scanner(columns=list(blobs), fragments=list(fragments), blob_handling="blobs_descriptions").to_table()
    sizes = (pc.sum(pc.struct_field(described.column(name), "size")).as_py() or 0 for name in blobs)
    return sum(sizes) <= SMALL_BLOB_BYTES


def _size(rows: int) -> int:
    return (max(rows, 1).bit_length() - 1) // 2
