"""An open file that Lance wrote -> is it whole? Told by how files of its kind end, or by the sizes that their first bytes state.

Lance writes under a temporary name and renames. A last write that failed goes unnoticed there, and a power cut can leave a
name without its bytes. Neither leaves a file that passes here.
"""

from __future__ import annotations

import os
from typing import Final

VERSION_SUFFIX: Final = ".manifest"

_MAGIC: Final = b"LANC"
_ENDINGS: Final = {".lance": _MAGIC, ".idx": _MAGIC, ".arrow": b"ARROW1"}
_BITMAP_SUFFIX: Final = ".bin"
_BITMAP_COOKIE: Final = 12346
_SPARSE_ROWS: Final = 4096
_DENSE_BYTES: Final = 8192
_FOOTER: Final = 16


def is_whole(descriptor: int, name: str, size: int) -> bool:
    """Is all of the file there? Of a kind without a mark (a blob, a text) only that it is not empty can be told."""
    suffix = os.path.splitext(name)[1]
    if suffix == VERSION_SUFFIX:
        return _is_whole_version(descriptor, size)
    if suffix == _BITMAP_SUFFIX:
        return _is_whole_bitmap(descriptor, size)
    ending = _ENDINGS.get(suffix)
    if ending is None:
        return size > 0
    return size >= len(ending) and os.pread(descriptor, len(ending), size - len(ending)) == ending


def _is_whole_version(descriptor: int, size: int) -> bool:
    """The last 16 bytes are the position of a message (8), two format numbers (2 each) and a mark (4). The message starts with
    its length (4) and must reach exactly to that footer.
    """
    footer = os.pread(descriptor, _FOOTER, max(0, size - _FOOTER))
    if len(footer) < _FOOTER or not footer.endswith(_MAGIC):
        return False
    position = int.from_bytes(footer[:8], "little")
    length = os.pread(descriptor, 4, position) if position < size else b""
    return len(length) == 4 and position + 4 + int.from_bytes(length, "little") + _FOOTER == size


def _is_whole_bitmap(descriptor: int, size: int) -> bool:
    """Deletions of many rows: a roaring bitmap. It states how many rows each of its containers has, and so its size."""
    head = os.pread(descriptor, 8, 0)
    if len(head) < 8 or int.from_bytes(head[:4], "little") != _BITMAP_COOKIE:
        return False
    containers = int.from_bytes(head[4:], "little")
    header = os.pread(descriptor, 4 * containers, 8) if containers <= size else b""
    if len(header) < 4 * containers:
        return False
    rows = (int.from_bytes(header[at + 2 : at + 4], "little") + 1 for at in range(0, len(header), 4))
    return size == 8 + 8 * containers + sum(2 * each if each <= _SPARSE_ROWS else _DENSE_BYTES for each in rows)
