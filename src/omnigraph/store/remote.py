"""A `memory://` or `s3://` URI -> byte objects, through obstore, which is built on the same Rust library as Lance."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import MemoryStore, S3Store

from omnigraph.errors import Kind, NotFound, ResourceLimitExceeded, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.store.foreign import evidence, never_applied, wrap_obstore_error
from omnigraph.store.paths import RESIDUE, First, Names, check_path, check_prefix, nothing_to_flush, s3_place

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ObjectStore

# Option keys of Lance that obstore does not know: renamed, read as retry settings, or ignored.
_RENAMED: Final = {"request_timeout": "timeout"}
_MAX_RETRIES: Final = "client_max_retries"
_RETRY_TIMEOUT: Final = "client_retry_timeout"
_LANCE_ONLY: Final = frozenset({"download_retry_count"})
_ENDPOINTS: Final = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
# obstore's default of three minutes is too long for an object of a few kilobytes.
_DEFAULT_RETRIES: Final = "6"
_DEFAULT_RETRY_SECONDS: Final = "30"
_PAUSES_SECONDS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
# S3 answers "not found" for an object in a bucket that does not exist. That is a configuration error, not a missing object.
_NO_BUCKET: Final = "NoSuchBucket"

# Global, because `memory://name` names a location: opening it twice in one process must reach the same bytes, as with a directory or a
# bucket. It lives as long as the process.
_memory: Final[dict[str, MemoryStore]] = {}
_memory_guard: Final = threading.Lock()


def open_remote(canonical: str, *, storage_options: Mapping[str, str]) -> RemoteObjects:
    """The objects at a canonical `memory://` or `s3://` URI."""
    if canonical.startswith("memory://"):
        with _memory_guard:
            store = _memory.setdefault(canonical, MemoryStore())
        return RemoteObjects(canonical, store=store, once=store)
    options = {key.lower(): value for key, value in storage_options.items()}
    return RemoteObjects(canonical, store=_s3(canonical, options), once=_s3(canonical, {**options, _MAX_RETRIES: "0"}))


def _s3(canonical: str, options: Mapping[str, str]) -> S3Store:
    bucket, prefix = s3_place(canonical)
    _check_options(canonical, options)
    ours = (_MAX_RETRIES, _RETRY_TIMEOUT, *_LANCE_ONLY)
    config = {_RENAMED.get(key, key): value for key, value in options.items() if key not in ours}
    try:
        return S3Store(
            bucket,
            prefix=prefix or None,
            config=cast("Any", config),
            retry_config={
                "max_retries": int(options.get(_MAX_RETRIES, _DEFAULT_RETRIES)),
                "retry_timeout": timedelta(seconds=int(options.get(_RETRY_TIMEOUT, _DEFAULT_RETRY_SECONDS))),
            },
        )
    except (BaseError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise StorageError(
            Kind.STORAGE_CONFIGURATION, f"cannot reach {canonical} with these storage_options: {reason}", path=canonical
        ) from error


def _check_options(canonical: str, options: Mapping[str, str]) -> None:
    """Refuses settings that obstore accepts but that make its first request panic. Messages do not show values, which may be secret."""
    surroundings = {f"the environment variable {name}": os.environ[name] for name in _ENDPOINTS if name in os.environ}
    for name, value in {**surroundings, **{f"the storage option {key!r}": value for key, value in options.items()}}.items():
        if isinstance(value, str) and not value.isprintable():
            raise _misconfigured(canonical, f"{name} contains a control character")
        if "endpoint" in name.lower() and isinstance(value, str) and not _is_endpoint(value):
            raise _misconfigured(canonical, f"{name} is not the URL of a server; use http://host:port or https://host")


def _is_endpoint(value: str) -> bool:
    try:
        parts = urlsplit(value)
        server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        # A query would break signed requests, and would appear in the message of every failed one.
        return server and not re.search(r"[\s<>\"{}|\\^`?#]", value)
    except ValueError:
        return False


def _misconfigured(canonical: str, reason: str) -> StorageError:
    return StorageError(Kind.STORAGE_CONFIGURATION, f"cannot reach {canonical} with these settings: {reason}", path=canonical)


class RemoteObjects:
    """Objects in an obstore store. A token is an entity tag of the store.

    `once` is the same store without retries, for conditional writes. If a write succeeds but its response is lost, a retry finds the
    object and fails, and the writer would wrongly conclude that another writer created it.
    """

    is_local = False

    def __init__(self, uri: str, *, store: ObjectStore, once: ObjectStore) -> None:
        self.uri = uri
        self._store: Final = store
        self._once: Final = once

    def get(self, path: str, *, limit_bytes: int | None = None) -> bytes:
        data = self.get_if_exists(path, limit_bytes=limit_bytes)
        if data is None:
            raise self._not_found(path)
        return data

    def get_if_exists(self, path: str, *, limit_bytes: int | None = None) -> bytes | None:
        found = self._fetch(path, limit_bytes=limit_bytes)
        return None if found is None else found[0]

    def get_versioned(self, path: str) -> tuple[bytes, str] | None:
        found = self._fetch(path, limit_bytes=None)
        return None if found is None else (found[0], self._token(path, found[1]))

    def put(self, path: str, data: bytes, *, sync: bool = False, first: First | None = None) -> str:
        check_path(path)
        if first is not None:
            first(nothing_to_flush)
        reach(Fault.OBJECT_BEFORE_LINK)
        with self._wrapping("write", path, write=True):
            # Never multipart: control objects are small, and an abandoned multipart upload leaves parts that listings do not show.
            result = obstore.put(self._store, path, data, use_multipart=False)
        reach(Fault.OBJECT_AFTER_LINK)
        return self._token(path, result["e_tag"])

    def put_if_absent(self, path: str, data: bytes, *, sync: bool = False) -> str | None:
        return self._put_conditionally(path, data, "create")

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        return self._put_conditionally(path, data, {"e_tag": token})

    def exists(self, path: str) -> bool:
        check_path(path)
        with self._wrapping("look for", path, write=False):
            try:
                obstore.head(self._store, path)
            except FileNotFoundError:
                return any(len(chunk) > 0 for chunk in obstore.list(self._store, path))
            return True

    def size(self, path: str) -> int | None:
        check_path(path)
        with self._wrapping("look at", path, write=False):
            try:
                return int(obstore.head(self._store, path)["size"])
            except FileNotFoundError:
                return None

    def list(self, prefix: str, *, limit: int | None = None) -> Names:
        inside = check_prefix(prefix)
        with self._wrapping("list", inside, write=False):
            found = obstore.list_with_delimiter(self._store, inside or None)
        names = [entry["path"] for entry in found["objects"] if not entry["path"].endswith(RESIDUE)]
        names += [f"{directory}/" for directory in found["common_prefixes"]]
        if limit is not None and len(names) > limit:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"{self._at(inside)} holds more than {limit} objects",
                resource="objects_listed",
                limit=limit,
                actual=len(names),
            )
        return sorted(names)

    def sizes(self, prefix: str) -> Mapping[str, int]:
        inside = check_path(prefix)
        with self._wrapping("list", inside, write=False):
            found = [entry for chunk in obstore.list(self._store, inside) for entry in chunk]
        return {entry["path"]: entry["size"] for entry in found if not entry["path"].endswith(RESIDUE)}

    def written(self, prefix: str) -> Mapping[str, datetime]:
        inside = check_path(prefix)
        with self._wrapping("list", inside, write=False):
            found = [entry for chunk in obstore.list(self._store, inside) for entry in chunk]
        return {entry["path"]: entry["last_modified"] for entry in found if not entry["path"].endswith(RESIDUE)}

    def delete(self, path: str) -> None:
        check_path(path)
        with self._wrapping("delete", path, write=True):
            obstore.delete(self._store, path)

    def delete_prefix(self, prefix: str) -> None:
        inside = check_path(prefix.removesuffix("/"))
        with self._wrapping("list what to delete below", inside, write=False):
            names = [entry["path"] for chunk in obstore.list(self._store, inside) for entry in chunk]
        with self._wrapping("delete everything below", inside, write=True, many=True):
            if names:
                obstore.delete(self._store, names)

    def discard_staged(self, prefix: str) -> None:
        """Has nothing to do: a put is one request."""

    def rename(self, source: str, target: str) -> None:
        check_path(source)
        check_path(target)
        if source == target:  # a copy onto itself and a delete of the source would lose the object
            if self._fetch(source, limit_bytes=None) is None:
                raise self._not_found(source)
            return
        reach(Fault.OBJECT_BEFORE_LINK)
        with self._wrapping(f"rename {self._at(source)} to", target, write=True):
            try:
                obstore.rename(self._store, source, target)
            except FileNotFoundError as error:
                if evidence(error).code == _NO_BUCKET:
                    raise
                raise self._not_found(source) from error
        reach(Fault.OBJECT_AFTER_LINK)

    def _fetch(self, path: str, *, limit_bytes: int | None) -> tuple[bytes, str | None] | None:
        check_path(path)
        with self._wrapping("read", path, write=False):
            try:
                result = obstore.get(self._store, path)
            except FileNotFoundError as error:
                if evidence(error).code == _NO_BUCKET:
                    raise
                return None
            size = result.meta["size"]
            if limit_bytes is not None and size > limit_bytes:
                raise ResourceLimitExceeded(
                    Kind.RESOURCE_LIMIT,
                    f"{self._at(path)} has {size} bytes, more than the limit of {limit_bytes}",
                    resource="object_bytes",
                    limit=limit_bytes,
                    actual=size,
                )
            return bytes(result.bytes()), result.meta["e_tag"]

    def _put_conditionally(self, path: str, data: bytes, mode: PutMode) -> str | None:
        """Makes one attempt. Retries only if the store certainly changed nothing."""
        check_path(path)
        for pause in (*_PAUSES_SECONDS, None):
            reach(Fault.OBJECT_BEFORE_LINK)
            try:
                result = obstore.put(self._once, path, data, mode=mode, use_multipart=False)
            except (BaseError, OSError) as error:
                found = evidence(error)
                lost = isinstance(error, (AlreadyExistsError, PreconditionError)) and found.status != 409
                if lost and found.code != _NO_BUCKET:
                    return None
                if pause is None or not never_applied(found):
                    raise wrap_obstore_error(error, doing="write", path=self._at(path), write=True) from error
                time.sleep(pause * random.uniform(0.5, 1.5))
                continue
            reach(Fault.OBJECT_AFTER_LINK)
            return self._token(path, result["e_tag"])
        raise AssertionError("the last attempt returns or raises")

    @contextmanager
    def _wrapping(self, doing: str, path: str, *, write: bool, many: bool = False) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise wrap_obstore_error(error, doing=doing, path=self._at(path), write=write, many=many) from error

    def _token(self, path: str, tag: str | None) -> str:
        if tag is None:
            raise StorageError(
                Kind.STORAGE_UNSUPPORTED,
                f"the object store returned no entity tag for {self._at(path)}; use a store that supports conditional writes",
            )
        return tag

    def _not_found(self, path: str) -> NotFound:
        return NotFound(Kind.OBJECT_NOT_FOUND, f"there is no object {self._at(path)}", path=self._at(path))

    def _at(self, path: str) -> str:
        return f"{self.uri}/{path}" if path else self.uri
