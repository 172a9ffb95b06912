"""Where a graph lives -> what every storage call needs: canonical URI, options, byte objects, one shared Lance session."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from lance.lance import _Session as Session

from omnigraph.errors import InvalidInput, Kind
from omnigraph.store.damage import IndexDamage
from omnigraph.store.objects import Objects, open_objects
from omnigraph.store.process import refuse_forked_child

FSYNC_ENVIRONMENT: Final = "OMNIGRAPH_FSYNC"
SIDE_BY_SIDE: Final = 4
"""Small writes and flushes under way at once. A journaling file system makes one of four flushes (1.2 ms; in turn 4.7)."""


class Root:
    """One graph's place. Handles opened through one root share one session, and so its caches and its I/O counters."""

    def __init__(self, objects: Objects, *, storage_options: Mapping[str, str] | None = None) -> None:
        refuse_forked_child()
        self.objects: Final = objects
        self.uri: Final = objects.uri
        self.is_local: Final = objects.is_local
        self.storage_options: Final = dict(storage_options or {})
        self.session: Final = Session()
        self.flushed: Final[set[str]] = set()
        """Folders whose own entry is known to be on disk: durable.py flushes the way to a new one once."""
        self.index_damage: Final[dict[str, IndexDamage | None]] = {}
        """By the uuid of an index that was looked at, what is wrong with it; None for nothing (intact.py)."""
        self.pool: Final = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="omnigraph-io")
        self.sync: Final = objects.is_local and os.environ.get(FSYNC_ENVIRONMENT, "on").lower() != "off"

    def of(self, path: str) -> str:
        """The full URI of a path inside the graph."""
        return f"{self.uri}/{path}"

    def is_there(self) -> bool:
        """Is there a folder to hold the graph? An object store needs none."""
        return not self.is_local or os.path.isdir(self.uri)

    def remove_if_empty(self, path: str = "") -> None:
        """Take a folder away that was made for nothing. One that others use is not empty, and stays."""
        if self.is_local:
            with suppress(OSError):
                os.rmdir(os.path.join(self.uri, path) if path else self.uri)


def open_root(uri: str | os.PathLike[str], *, storage_options: Mapping[str, str] | None = None) -> Root:
    """A root for a graph's URI. Touches nothing: whether a graph is there is the manifest's question."""
    refuse_forked_child()
    options = dict(storage_options or {})
    root = Root(open_objects(os.fspath(uri), storage_options=options), storage_options=options)
    if root.is_local and os.path.exists(root.uri) and not os.path.isdir(root.uri):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{root.uri} is a file; a graph is a folder", path=root.uri)
    return root
