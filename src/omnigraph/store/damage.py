"""An index of a table as its version file describes it; and what is known to be wrong with its files."""

from __future__ import annotations

from typing import Final

import msgspec

_SCALAR: Final = frozenset({"BTree", "Bitmap"})
"""The kinds that filters and keyed writes ask."""


class IndexFiles(msgspec.Struct, frozen=True):
    """One segment of an index: where its files lie, and how many bytes they have together, by the table's version file."""

    name: str
    column: str
    kind: str
    uuid: str
    folder: str
    size_bytes: int | None
    fragments: frozenset[int]
    """Those that it covers; some may be gone since."""

    @property
    def is_scalar(self) -> bool:
        return self.kind in _SCALAR


class IndexDamage(msgspec.Struct, frozen=True):
    """An index that cannot be used, and why. `hidden`: its files have the right sizes, so that others do not see it at once."""

    index: IndexFiles
    reason: str
    hidden: bool = False

    @property
    def remedy(self) -> str:
        removed = f"remove the folder {self.index.folder}; " if self.hidden else ""
        return f"{removed}`ensure_indices` builds it anew"
