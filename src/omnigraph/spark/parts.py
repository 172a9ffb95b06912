"""A table at one version -> groups of its fragments, each the work of one task."""

from __future__ import annotations

from typing import Final

import msgspec

from omnigraph.store.fragments import fragments
from omnigraph.store.tables import Table

PART_ROWS: Final = 131_072
"""Small fragments are read together up to about this many rows; a larger one is a task of its own."""


class FragmentGroup(msgspec.Struct, frozen=True):
    """Some fragments of a table, in their order."""

    ids: tuple[int, ...]
    rows: int


def groups(table: Table, *, part_rows: int = PART_ROWS) -> list[FragmentGroup]:
    """Neighbouring fragments together. A table without rows is one group without fragments."""
    found: list[FragmentGroup] = []
    for part in fragments(table):
        live = part.rows - (part.deletions[2] if part.deletions is not None else 0)
        if found and found[-1].rows + live <= part_rows:
            found[-1] = FragmentGroup((*found[-1].ids, part.id), found[-1].rows + live)
        else:
            found.append(FragmentGroup((part.id,), live))
    return found or [FragmentGroup((), 0)]
