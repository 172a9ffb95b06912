"""A graph's URI -> its byte objects: small files with conditional writes, with one interface on a disk, in memory and on S3."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.local import LocalObjects, probe_directory
from omnigraph.store.paths import First, Names, canonical_uri, is_local

__all__ = ["First", "Objects", "canonical_uri", "open_objects", "probe_local", "wrap_os_error"]


class Objects(Protocol):
    """Named bytes below one root. Names are relative and '/'-separated. A directory exists only while it holds an object.

    A token identifies a version of an object. Its only use is as an argument of `put_if_match`. With `sync`, a write on a disk also
    flushes the bytes and the directories. Object stores always do that.
    """

    uri: str
    is_local: bool

    def get(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        """Returns the whole object. Raises NotFound if it is missing."""

    def get_if_exists(self, path: str, *, limit_bytes: int | None = None) -> bytes | None:
        """Returns the whole object in one request, or None if it is missing. Refuses one larger than `limit_bytes` unread (A-09)."""

    def get_versioned(self, path: str) -> tuple[bytes, str] | None:
        """Returns the object and the token of exactly these bytes, or None if it is missing."""

    def put(self, path: str, data: bytes, *, sync: bool = False, first: First | None = None) -> str:
        """Creates or replaces the object atomically: no reader sees a part of it (A-01). Returns its token.

        `first` runs before the object becomes visible. If it raises, the object is not written.
        """

    def put_if_absent(self, path: str, data: bytes, *, sync: bool = False) -> str | None:
        """Creates the object and returns its token. Returns None if it exists; of concurrent callers exactly one creates it (A-02)."""

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        """Replaces the object and returns the new token. Returns None if the object has changed or is missing (A-03)."""

    def exists(self, path: str) -> bool:
        """Whether there is an object of this name, or at least one below it (A-04)."""

    def size(self, path: str) -> int | None:
        """Returns the size of the object in bytes, without reading it, or None if it is missing."""

    def list(self, prefix: str, *, limit: int | None = None) -> Names:
        """The direct children of `prefix` ("" is the root), sorted. Directories end in "/". More than `limit` are refused (A-05, A-10)."""

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """The size in bytes of every object below `prefix`, at any depth. Costs one listing; no object is read."""

    def written(self, prefix: str) -> Mapping[str, datetime]:
        """The time of the last write of every object below `prefix`, at any depth, by the clock of the store. Costs one listing."""

    def delete(self, path: str) -> None:
        """Deletes the object if it exists (A-06)."""

    def delete_prefix(self, prefix: str) -> None:
        """Deletes all objects below `prefix`. An object written meanwhile may remain (A-06)."""

    def discard_staged(self, prefix: str) -> None:
        """Removes what killed processes had staged of direct children of `prefix`, which no listing shows. Object stores stage nothing."""

    def rename(self, source: str, target: str) -> None:
        """Moves an object and replaces `target`. On an object store, a crash may leave both (A-07)."""


def open_objects(uri: str, *, storage_options: Mapping[str, str] | None = None) -> Objects:
    """The objects at `uri`. Makes no storage call. A root that does not exist is empty."""
    canonical = canonical_uri(uri)
    if is_local(canonical):
        return LocalObjects(canonical)
    from omnigraph.store.remote import open_remote  # obstore is imported only if needed

    return open_remote(canonical, storage_options=storage_options or {})


def probe_local(objects: Objects) -> None:
    """Refuses a directory on a file system that cannot hold a graph. Other stores need no probe."""
    if objects.is_local:
        probe_directory(objects.uri)
