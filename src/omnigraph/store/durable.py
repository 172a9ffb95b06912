"""Files a commit has made -> fsynced, with every folder that gained an entry. Local paths only; object stores are durable by themselves.

Lance never calls fsync: a commit survives the death of the process, not of the machine. Ours should survive both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
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
    folders: set[str] = set()
    for file in (one for named in files for one in (named, *_blobs(root, dataset, named))):
        _fsync(root, f"{dataset}/{file}")
        holder, *above = (str(parent) for parent in PurePosixPath(dataset, file).parents)
        folders.add(holder)
        if holder not in root.flushed:
            folders.update(above)
    for folder in sorted(folders, key=len, reverse=True):
        _fsync(root, folder)
    root.flushed.update(folders)


def _blobs(root: Root, dataset: str, file: str) -> list[str]:
    """Large blobs lie in files of their own, in a folder named like the data file that points to them."""
    folder = file.removesuffix(".lance")
    try:
        return [f"{folder}/{name}" for name in os.listdir(os.path.join(root.uri, dataset, folder))]
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
