"""A graph's URI -> its byte objects: small files with conditional writes, the same on a disk, in memory and on S3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.local import LocalObjects, probe_folder
from omnigraph.store.paths import Names, canonical_uri, is_local

__all__ = ["Objects", "canonical_uri", "open_objects", "probe_local", "wrap_os_error"]


class Objects(Protocol):
    """Named bytes below one root. Names are relative and '/'-separated; a folder exists only while it holds an object.

    A token names a version of an object; the only thing to do with one is to hand it to `put_if_match`.
    `sync` asks a disk for more than a name that others see: bytes and folders are fsynced. Object stores always do that.
    """

    uri: str
    is_local: bool

    def get(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        """The whole object, or NotFound."""

    def get_if_exists(self, path: str, *, limit_bytes: int | None = None) -> bytes | None:
        """The whole object in one request, or None when there is none. Larger than `limit_bytes` is refused unread (A-09)."""

    def get_versioned(self, path: str) -> tuple[bytes, str] | None:
        """The object and the token of exactly these bytes."""

    def put(self, path: str, data: bytes, *, sync: bool = False) -> str:
        """Create or replace, at once: no reader sees a part (A-01)."""

    def put_if_absent(self, path: str, data: bytes, *, sync: bool = False) -> str | None:
        """A token for the one claimant who created it, None for all others (A-02)."""

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        """The new token; None when the object has moved on or is gone (A-03)."""

    def exists(self, path: str) -> bool:
        """Is there an object of this name, or at least one below it (A-04)?"""

    def size(self, path: str) -> int | None:
        """How many bytes the object has; None when there is none. It is not read."""

    def list(self, prefix: str, *, limit: int | None = None) -> Names:
        """Direct children of `prefix` ("" is the root), sorted; folders end in "/". More than `limit` is refused (A-05, A-10)."""

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """Every object below `prefix`, at any depth, with how many bytes it has. One listing; nothing is read."""

    def delete(self, path: str) -> None:
        """Afterwards it is gone, whether or not it was there (A-06)."""

    def delete_prefix(self, prefix: str) -> None:
        """Afterwards everything below `prefix` is gone. An object written meanwhile may survive (A-06)."""

    def rename(self, source: str, target: str) -> None:
        """Move one object, replacing `target`. On an object store a crash may leave both (A-07)."""


def open_objects(uri: str, *, storage_options: Mapping[str, str] | None = None) -> Objects:
    """The objects at `uri`. Touches nothing: a root that is not there yet is an empty one."""
    canonical = canonical_uri(uri)
    if is_local(canonical):
        return LocalObjects(canonical)
    from omnigraph.store.remote import open_remote  # obstore is loaded only where it is needed

    return open_remote(canonical, storage_options=storage_options or {})


def probe_local(objects: Objects) -> None:
    """Refuse a folder on a file system that cannot hold a graph. Other stores have nothing to probe."""
    if objects.is_local:
        probe_folder(objects.uri)
