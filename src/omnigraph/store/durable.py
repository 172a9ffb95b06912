"""Files a commit has made -> fsynced, with every folder that gained an entry. Local paths only; object stores are durable by themselves.

Lance never calls fsync: a commit survives the death of the process, not of the machine. Ours should survive both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Final

from omnigraph.errors import Outcome
from omnigraph.store.objects import wrap_os_error
from omnigraph.store.root import Root

_NEWEST: Final = 2**64 - 1


def version_file(version: int) -> str:
    """The file that holds a Lance version: names count down, so that a listing shows the newest first."""
    return f"_versions/{_NEWEST - version:020d}.manifest"


def sync(root: Root, dataset: str, files: Iterable[str]) -> None:
    """Flush `files` (relative to `dataset`), the folders that hold them, and once the way from there to the graph's root."""
    if not root.sync:
        return
    paths = [path for file in files for path in (f"{dataset}/{file}", *_blobs(root, f"{dataset}/{file}"))]
    folders: set[str] = set()
    for path in paths:
        holder, *above = (str(parent) for parent in PurePosixPath(path).parents)
        folders.add(holder)
        if holder not in root.flushed:
            folders.update(above)
    if "." not in root.flushed:
        folders.update(_above(root))
    # In no order: until all of them are down nothing has been acknowledged that rests on any of them.
    for _ in root.pool.map(lambda path: _fsync(root, path), [*paths, *folders]):
        pass
    root.flushed.update(folders)


def sync_folder(root: Root, folder: str) -> None:
    """Flush a folder that lost an entry."""
    if root.sync:
        _fsync(root, folder)


def _above(root: Root) -> Iterator[str]:
    """The folders above the graph that its birth may have made, too: those in which we may make anything."""
    return takewhile(lambda folder: os.access(folder, os.R_OK | os.W_OK), map(str, PurePosixPath(root.uri).parents))


def _blobs(root: Root, path: str) -> list[str]:
    """Large blobs lie in files of their own, in a folder named like the data file that points to them."""
    folder = path.removesuffix(".lance")
    try:
        return [f"{folder}/{name}" for name in os.listdir(os.path.join(root.uri, folder))]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _fsync(root: Root, path: str) -> None:
    full = os.path.join(root.uri, path)
    try:
        descriptor = os.open(full, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # The bytes are there for every other process; only the machine's own death could still take them.
        raise wrap_os_error(error, doing="flush", path=full, outcome=Outcome.UNKNOWN) from error
