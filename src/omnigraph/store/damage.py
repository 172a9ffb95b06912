"""A table's version file -> descriptions of its index files, and of damage found in them."""

from __future__ import annotations

from typing import Final

import msgspec

_SCALAR: Final = frozenset({"BTree", "Bitmap"})
"""The kinds that filters and keyed writes use."""


class IndexFiles(msgspec.Struct, frozen=True):
    """One segment of an index, as the version file describes it: the directory of its files and their total size."""

    name: str
    column: str
    kind: str
    uuid: str
    directory: str
    size_bytes: int | None
    fragments: frozenset[int]
    """The ids of the fragments it covers. Some may have been removed since."""

    @property
    def is_scalar(self) -> bool:
        return self.kind in _SCALAR

    @property
    def is_vector(self) -> bool:
        return self.kind.startswith("IVF_")

    @property
    def is_text(self) -> bool:
        return self.kind == "Inverted"


class IndexDamage(msgspec.Struct, frozen=True):
    """An index that cannot be used, and the reason. `hidden`: its files have the right sizes, so a size check does not find the damage."""

    index: IndexFiles
    reason: str
    hidden: bool = False

    @property
    def remedy(self) -> str:
        return f"{'`omnigraph repair --confirm`' if self.hidden else '`ensure_indices`'} rebuilds it"
