"""Fragments of a table -> the few small fragments that the next write rewrites as one, so that their number stays logarithmic.

Every small commit leaves a small fragment, and each fragment slows down reads and keyed writes. So a write that finds enough
fragments of one size rewrites them as one, inside its own transaction. This needs no second commit, no lock and no recovery.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow.compute as pc

from omnigraph.store.tables import Table

FOLD: Final = 3
"""How many fragments of one size are folded into one, together with the rows of the write. Each costs up to six reads."""

SMALL_BLOB_BYTES: Final = 1_048_576
"""Fragments whose blobs together exceed this many bytes are not folded: a small write would become a large one."""

SMALL_ROWS: Final = 4_096
"""Fragments of this many rows or more are not folded: a small write would become a large one."""


def fold(fragments: Sequence[Any], *, incoming: int) -> Sequence[Any]:
    """Returns three fragments of the smallest size class that has three. Returns none if the write adds no rows.

    Size classes are powers of four. One fold for each write bounds its cost, growing sizes keep the number of fragments small, and
    each row is rewritten only a few times.
    """
    if not incoming:
        return ()
    by_size: dict[int, list[Any]] = {}
    for fragment in fragments:
        by_size.setdefault(_size(fragment.metadata.physical_rows), []).append(fragment)
    full = (group for _, group in sorted(by_size.items()) if len(group) >= FOLD)
    return next(full, [])[:FOLD]


def foldable(table: Table, *, touched: set[int]) -> list[Any]:
    """The small fragments that a write may rewrite. Excludes those that the write itself changes, and those that an index covers,
    because the index would not cover the rewritten rows.
    """
    fixed = touched.union(*(index.fragments for index in table.indexes))
    free = (fragment for fragment in table.dataset.get_fragments() if fragment.fragment_id not in fixed)
    return [fragment for fragment in free if fragment.metadata.physical_rows < SMALL_ROWS]


def light(table: Table, fragments: Sequence[Any], blobs: Sequence[str]) -> bool:
    """Whether the blobs of these fragments are small enough to rewrite. Reads their descriptors, and no blob."""
    if not blobs:
        return True
    table.checks.columns(blobs, fragments=[fragment.fragment_id for fragment in fragments])
    described = table.dataset.scanner(columns=list(blobs), fragments=list(fragments), blob_handling="blobs_descriptions").to_table()
    sizes = (pc.sum(pc.struct_field(described.column(name), "size")).as_py() or 0 for name in blobs)
    return sum(sizes) <= SMALL_BLOB_BYTES


def _size(rows: int) -> int:
    return (max(rows, 1).bit_length() - 1) // 2
