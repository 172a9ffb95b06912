"""A fragment of a table version -> the offsets of its deleted rows, read from the deletion file without a scan.

A deletion file never changes and its name is never used again, so its rows stay in memory. The file that a delete writes has the rows of
the one before it, so it need not be read either.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import NotFound, StorageError
from omnigraph.store.bases import home
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.tables import Table

Offsets = npt.NDArray[np.uint32]

_ARRAY: Final = "array"
_BITMAP: Final = "bitmap"
_PLAIN_COOKIE: Final = 12_346
"""The first word of a roaring bitmap without run containers."""
_SPARSE_ROWS: Final = 4_096
"""Up to this many rows, a container of a roaring bitmap is a list. Past it, it is 65,536 bits."""


class _UnknownForm(Exception):
    """A deletion file does not have the structure that this release knows."""


def deleted_offsets(table: Table, fragment: int) -> Offsets | None:
    """The offsets of the deleted rows of a fragment, ascending. None if only Lance can read the file, or say what is wrong with it."""
    try:
        return _offsets(table, fragment, table.dataset.get_fragment(fragment).metadata.deletion_file)
    except (_UnknownForm, StorageError, NotFound, pa.ArrowException, ValueError, KeyError, *raised_by_lance()):
        return None


def remember_deleted(table: Table, before: Any, after: Any, offsets: npt.NDArray[np.uint64]) -> None:
    """Keeps the rows of the deletion file that was written for a fragment (its metadata before and after) if those of the one before it
    are in memory. `offsets` are the rows that were deleted now.
    """
    held = table.root.memory.deleted
    old = np.empty(0, np.uint32) if before.deletion_file is None else held.get(_path(table, before.id, before.deletion_file))
    if old is not None:
        deleted = np.union1d(old, offsets.astype(np.uint32))
        if len(deleted) == after.deletion_file.num_deleted_rows:
            held.put(_path(table, after.id, after.deletion_file), deleted)


def _offsets(table: Table, fragment: int, file: Any) -> Offsets:
    if file is None:
        return np.empty(0, np.uint32)
    held, path = table.root.memory.deleted, _path(table, fragment, file)
    known: Offsets | None = held.get(path)
    if known is not None:
        return known
    body = table.root.objects.get(path)
    if file.file_type == _ARRAY:
        (column,) = pa.ipc.open_file(pa.py_buffer(body)).read_all().columns
        deleted = np.sort(column.to_numpy().astype(np.uint32))
    elif file.file_type == _BITMAP:
        deleted = _bitmap(bytes(body))
    else:
        raise _UnknownForm
    if len(deleted) != file.num_deleted_rows:
        raise _UnknownForm
    held.put(path, deleted)
    return deleted


def _path(table: Table, fragment: int, file: Any) -> str:
    """The path of a deletion file in the graph. It may be in the directory of the native branch that this one was created from."""
    directory = table.ref.home if file.base_id is None else home(table.ref.path, table.dataset.base_paths()[file.base_id].name)
    return f"{directory}/{file.path(fragment)}"


def _bitmap(body: bytes) -> Offsets:
    """The numbers in a roaring bitmap: a header of keys and sizes, the position of each container, and the containers."""
    cookie, count = np.frombuffer(body, "<u4", 2).tolist()
    if cookie != _PLAIN_COOKIE:
        raise _UnknownForm
    header = np.frombuffer(body, "<u2", 2 * count, 8).reshape(count, 2).astype(np.uint32)
    starts = np.frombuffer(body, "<u4", count, 8 + 4 * count)
    found = [_container(body, int(start), int(size) + 1) | key << np.uint32(16) for (key, size), start in zip(header, starts, strict=True)]
    return np.concatenate([np.empty(0, np.uint32), *found])


def _container(body: bytes, start: int, size: int) -> Any:
    if size <= _SPARSE_ROWS:
        return np.frombuffer(body, "<u2", size, start).astype(np.uint32)
    return np.flatnonzero(np.unpackbits(np.frombuffer(body, np.uint8, 8_192, start), bitorder="little")).astype(np.uint32)
