"""Fragments of a table -> the few small ones that the next write should take along, so that their number stays logarithmic.

Every small commit leaves a small fragment, and both reads and keyed writes slow down with them. So a write that finds
enough of one size rewrites them as one, inside its own transaction: no second commit, nobody to wait for, nothing to recover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

FOLD: Final = 3
"""How many fragments of one size become one, together with what a write brings. Each costs a fold up to six reads."""

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
    because the rewritten rows would not be covered any more. Tables with blobs keep theirs: a blob is more than its row.
    """
    if any(_is_blob(field) for field in dataset.schema):
        return []
    covered: set[int] = set()
    for index in dataset.describe_indices():
        for segment in index.segments:
            covered |= set(segment.fragment_ids or ())
    return [
        fragment
        for fragment in dataset.get_fragments()
        if fragment.metadata.physical_rows < SMALL_ROWS and fragment.fragment_id not in touched and fragment.fragment_id not in covered
    ]


def _size(rows: int) -> int:
    return (max(rows, 1).bit_length() - 1) // 2


def _is_blob(field: pa.Field) -> bool:
    metadata = field.metadata or {}
    return b"lance-encoding:blob" in metadata or b"blob" in metadata.get(b"ARROW:extension:name", b"") or "blob" in str(field.type)
