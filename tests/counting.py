"""Objects and ledgers -> counts of the storage calls made through them, for cost tests."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from omnigraph.store.ledger import Ledger
from omnigraph.store.objects import First, Objects
from omnigraph.store.paths import Names


def reads_of(ledger: Ledger) -> int:
    """The reads of all handles that share the session of the ledger's root, since the last call."""
    return int(ledger.as_table().dataset.io_stats_incremental().read_iops)


class CountingObjects:
    """`calls` counts the calls of each kind: get, put, list, delete, exists, size, rename. Failed calls count too."""

    def __init__(self, inner: Objects) -> None:
        self.uri = inner.uri
        self.is_local = inner.is_local
        self.calls: Final[Counter[str]] = Counter()
        self._inner: Final = inner
        self._guard: Final = threading.Lock()

    def get(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        self._count("get")
        return self._inner.get(path, limit_bytes=limit_bytes)

    def get_if_exists(self, path: str, *, limit_bytes: int | None = None) -> bytes | None:
        self._count("get")
        return self._inner.get_if_exists(path, limit_bytes=limit_bytes)

    def get_versioned(self, path: str) -> tuple[bytes, str] | None:
        self._count("get")
        return self._inner.get_versioned(path)

    def put(self, path: str, data: bytes, *, sync: bool = False, first: First | None = None) -> str:
        self._count("put")
        return self._inner.put(path, data, sync=sync, first=first)

    def put_if_absent(self, path: str, data: bytes, *, sync: bool = False) -> str | None:
        self._count("put")
        return self._inner.put_if_absent(path, data, sync=sync)

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        self._count("put")
        return self._inner.put_if_match(path, data, token, sync=sync)

    def exists(self, path: str) -> bool:
        self._count("exists")
        return self._inner.exists(path)

    def size(self, path: str) -> int | None:
        self._count("size")
        return self._inner.size(path)

    def list(self, prefix: str, *, limit: int | None = None) -> Names:
        self._count("list")
        return self._inner.list(prefix, limit=limit)

    def sizes(self, prefix: str) -> Mapping[str, int]:
        self._count("list")
        return self._inner.sizes(prefix)

    def written(self, prefix: str) -> Mapping[str, datetime]:
        self._count("list")
        return self._inner.written(prefix)

    def delete(self, path: str) -> None:
        self._count("delete")
        self._inner.delete(path)

    def delete_prefix(self, prefix: str) -> None:
        self._count("delete")
        self._inner.delete_prefix(prefix)

    def discard_staged(self, prefix: str) -> None:
        self._count("list")
        self._inner.discard_staged(prefix)

    def rename(self, source: str, target: str) -> None:
        self._count("rename")
        self._inner.rename(source, target)

    def _count(self, kind: str) -> None:
        # An increment of a Counter is a read and a write. Without the lock, two threads could lose one.
        with self._guard:
            self.calls[kind] += 1
