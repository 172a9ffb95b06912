"""A graph's URI -> the context of every storage call: canonical URI, options, byte objects, one shared Lance session."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from lance.lance import _Session as Session

from omnigraph.errors import InvalidInput, Kind
from omnigraph.store.checked import CheckedFiles, Sums
from omnigraph.store.checksums import FileSum, NewChecksums
from omnigraph.store.damage import IndexDamage
from omnigraph.store.file_memory import FileMemory
from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.objects import Objects, open_objects
from omnigraph.store.process import refuse_forked_child

FSYNC_ENVIRONMENT: Final = "OMNIGRAPH_FSYNC"
SIDE_BY_SIDE: Final = 4
"""How many small writes and flushes run concurrently. A journaling file system combines four flushes (1.2 ms; one by one 4.7 ms)."""

METADATA_BYTES: Final = 256 << 20
"""How much of versions and file footers Lance keeps. Each commit adds some 17 KB; without a limit of ours it keeps a gibibyte."""
INDEX_BYTES: Final = 6 << 30
"""How much of indexes Lance keeps, if it is no more than a quarter of the memory of the machine."""


def _index_bytes() -> int:
    return min(INDEX_BYTES, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)


class Root:
    """The location of one graph. Handles opened through one root share one session, with its caches and I/O counters."""

    def __init__(self, objects: Objects, *, storage_options: Mapping[str, str] | None = None) -> None:
        refuse_forked_child()
        self.objects: Final = objects
        self.uri: Final = objects.uri
        self.is_local: Final = objects.is_local
        self.storage_options: Final = dict(storage_options or {})
        self.session: Final = Session(index_cache_size_bytes=_index_bytes(), metadata_cache_size_bytes=METADATA_BYTES)
        self.flushed: Final[set[str]] = set()
        """Directories whose path is flushed. `durable.py` flushes the ancestors of a new directory once."""
        self.index_damage: Final[dict[str, IndexDamage | None]] = {}
        """The damage of each checked index, by uuid. None for an intact index. See `intact.py`."""
        self.index_sizes: Final[set[str]] = set()
        """The indexes whose files have the right sizes, by uuid."""
        self.checksums: Final = NewChecksums()
        """Checksums of files that no commit records yet. See `checksums.py`."""
        self.checked: Final = CheckedFiles(self.uri)
        """The files that were compared with their recorded checksums. See `checked.py`."""
        self.recorded: Callable[[Any], Sums] | None = None
        """Finds the checksums of the files of a version of a table, a `TableRef`. The manifest sets it: it knows the commits."""
        self.given: Final[dict[str, FileSum]] = {}
        """Checksums for a process that does not read the manifest: a task of a cluster gets them with its work."""
        self.memory: Final = FileMemory()
        self.pool: Final = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="omnigraph-io")
        self.sync: Final = objects.is_local and os.environ.get(FSYNC_ENVIRONMENT, "on").lower() != "off"

    def sums_of(self, ref: Any) -> Sums:
        """The checksums that commits recorded for the files of a version, a `TableRef`, and maybe for others. Empty on an object store."""
        if not self.is_local:
            return {}
        return self.recorded(ref) if self.recorded is not None else self.given

    def of(self, path: str) -> str:
        """The full URI of a path inside the graph."""
        return f"{self.uri}/{path}"

    def is_there(self) -> bool:
        """Whether the directory of the graph exists. Always true on an object store."""
        return not self.is_local or os.path.isdir(self.uri)

    def remove_if_empty(self, path: str = "") -> None:
        """Removes a directory if it is empty."""
        if self.is_local:
            with suppress(OSError):
                os.rmdir(os.path.join(self.uri, path) if path else self.uri)


def open_root(uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> Root:
    """The root for a graph's URI. Writes nothing, and does not check whether there is a graph."""
    refuse_forked_child()
    options = dict(storage_options or {})
    root = Root(open_objects(os.fspath(uri), storage_options=options), storage_options=options)
    if root.is_local:
        _check_path(root.uri)
    return root


def _check_path(path: str) -> None:
    """Refuses a path that cannot be that of a directory. Lance tries one with a name that is too long again and again, for two seconds."""
    try:
        status = os.stat(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise wrap_os_error(error, doing="look for", path=path) from error
        return
    if not stat.S_ISDIR(status.st_mode):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{path} is a file; a graph needs a directory", path=path)
