"""URIs of blobs outside the graph -> their bytes, if the graph's settings allow the place. The bytes become the graph's own.

Without settings every URI is refused, and the place that it names is not accessed (W-40). A write reads each place once, before it takes
a lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, ResourceLimitExceeded, Unsupported, redacted
from omnigraph.exec.problems import ProblemCode
from omnigraph.grid import counted
from omnigraph.store.objects import Objects, canonical_uri, open_objects
from omnigraph.store.paths import is_local, s3_place

ENVIRONMENT: Final = "OMNIGRAPH_EXTERNAL_BLOBS"
"""The variable with the allowed bases, separated by commas, for graphs that are opened without their own."""
URI_LIMIT_BYTES: Final = 64 << 10
MAX_CELLS: Final = 8_192
"""How many properties of one write may be given as URIs."""
MAX_BYTES: Final = 256 << 20
"""How many bytes one write may read from outside, for all these properties together."""

_SHOWN_CHARACTERS: Final = 120


class _Place(msgspec.Struct, frozen=True):
    """An object below a base. Every spelling of its URI gives the same place."""

    base: str
    path: str


class BlobPolicy(msgspec.Struct, frozen=True):
    """The bases below which external blobs may be read, in canonical form, and the options of their storage. By default there are none."""

    bases: tuple[str, ...] = ()
    storage_options: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"BlobPolicy({self.bases!r})"  # the options may hold secrets

    def place(self, uri: str) -> _Place:
        """Return the place that a URI names. Raises InvalidInput or ResourceLimitExceeded if it may not be read."""
        if (size := len(uri.encode(errors="surrogatepass"))) > URI_LIMIT_BYTES:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"the blob URI has {size} bytes; the limit is {URI_LIMIT_BYTES}; pass the bytes as base64:... instead",
                resource="blob_uri_bytes",
                limit=URI_LIMIT_BYTES,
                actual=size,
            )
        if not self.bases:
            raise _refused(uri, f"no base is allowed (external_blobs, {ENVIRONMENT}); pass the bytes as base64:... instead")
        if "://" not in uri and not os.path.isabs(uri) and not uri.startswith("file:"):
            raise _refused(uri, "it is neither an absolute path nor a URI with a scheme")
        try:
            canonical = canonical_uri(uri)
        except (InvalidInput, Unsupported) as error:
            raise _refused(uri, "it is no directory entry, file:// or s3:// URI without '#', '?', '//' or dot segments") from error
        within = [place for base in self.bases if (place := _below(base, canonical)) is not None]
        if not within:
            raise _refused(uri, "it is below none of the allowed bases")
        return within[0]


def checked_bases(bases: Collection[str]) -> tuple[str, ...]:
    """The bases in canonical form. Each is an absolute directory, or `s3://bucket/prefix`."""
    if isinstance(bases, str):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"external_blobs takes a list of bases, not the text {bases!r}")
    return tuple(map(_base, bases))


def bases_in(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The bases that the environment allows."""
    return checked_bases([part for text in environment.get(ENVIRONMENT, "").split(",") if (part := text.strip())])


class ExternalBlobs:
    """The external blobs of one write. Safe to use from the threads that read its input."""

    def __init__(self, policy: Callable[[], BlobPolicy]) -> None:
        """`policy` is called only if there is a URI: wrong settings harm no other write."""
        self._policy: Final = policy
        self._guard: Final = threading.Lock()
        self._known: Final[dict[_Place, bytes]] = {}
        self._wanted: Final[dict[_Place, tuple[str, int]]] = {}
        self._cells = 0
        self._bytes = 0

    @property
    def used(self) -> bool:
        """Whether anything was read from outside."""
        return bool(self._known)

    def read(self, uri: str) -> bytes:
        """The bytes that a URI names, read now. The caller holds no lock."""
        with self._guard:
            place = self._admit(uri, 1)
            if place not in self._known:
                self._known[place] = self._fetch(place, uri, 1)
            else:
                self._charge(len(self._known[place]))
            return self._known[place]

    # -- for a writer whose preparation may hold a lock

    def begin(self) -> None:
        """Begin a preparation. What earlier ones read is kept, and charged again only where it is used again."""
        self._cells = self._bytes = 0
        self._wanted.clear()

    def of(self, uri: str, cells: int) -> bytes | None:
        """The bytes for so many properties, or None if they are not read yet. They are noted then."""
        place = self._admit(uri, cells)
        if (known := self._known.get(place)) is None:
            _, before = self._wanted.get(place, (uri, 0))
            self._wanted[place] = uri, before + cells
            return None
        self._charge(len(known) * cells)
        return known

    @property
    def lacking(self) -> bool:
        """Whether the preparation noted places that are not read yet."""
        return bool(self._wanted)

    def read_noted(self) -> None:
        """Read the places that were noted. The caller holds no lock."""
        for place, (uri, cells) in self._wanted.items():
            self._known[place] = self._fetch(place, uri, cells)
        self._wanted.clear()

    def _admit(self, uri: str, cells: int) -> _Place:
        place = self._policy().place(uri)
        self._cells += cells
        if self._cells > MAX_CELLS:
            raise _too_much("external_blobs", MAX_CELLS, self._cells, f"one write may read {MAX_CELLS} blobs from outside")
        return place

    def _charge(self, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_BYTES:
            what = f"one write may read {MAX_BYTES >> 20} MiB of blobs from outside"
            raise _too_much("external_blob_bytes", MAX_BYTES, self._bytes, what)

    def _fetch(self, place: _Place, uri: str, cells: int) -> bytes:
        """Read one object, whose size is charged before its first byte is read."""
        objects = _objects(place.base, tuple(sorted(self._policy().storage_options.items())))
        try:
            # A pipe or a device would block the write or never end.
            file = not objects.is_local or os.path.isfile(f"{objects.uri}/{place.path}")
            if (size := objects.size(place.path) if file else None) is None:
                raise _unreadable(uri, "there is nothing of that name")
            self._charge(size * cells)
            data = objects.get(place.path)
        except (InvalidInput, NotFound) as error:
            if error.kind is Kind.BLOB_SOURCE:
                raise
            raise _unreadable(uri, "there is nothing of that name") from error
        if len(data) != size:
            raise _unreadable(uri, f"it had {counted(size, 'byte')} and now has {len(data):,}: another process writes it")
        return data


@lru_cache(maxsize=16)
def _objects(base: str, options: tuple[tuple[str, str], ...]) -> Objects:
    return open_objects(base, storage_options=dict(options))


def _base(uri: str) -> str:
    """A base in canonical form. It must be somewhere that blobs can be read from, and need not exist yet."""
    if not isinstance(uri, str) or not ("://" in uri or os.path.isabs(uri) or uri.startswith("file:")):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"a base of external blobs is an absolute directory or s3://bucket/prefix, not {uri!r}")
    canonical = canonical_uri(uri)
    if not is_local(canonical) and not canonical.startswith("s3://"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"external blobs are read from directories and s3://, not from {redacted(uri)!r}")
    return canonical


def _below(base: str, uri: str) -> _Place | None:
    """The place of a canonical URI below a canonical base, or None. Symlinks are resolved, so none leads out of a base."""
    if is_local(base) != is_local(uri):
        return None
    if is_local(base):
        inside = uri.removeprefix(base.rstrip("/") + "/")
        return _Place(base, inside) if inside not in (uri, "") else None
    (bucket, prefix), (other, key) = s3_place(base), s3_place(uri)
    inside = key.removeprefix(f"{prefix}/") if prefix else key
    return _Place(base, inside) if bucket == other and inside and (not prefix or inside != key) else None


def _refused(uri: str, why: str) -> InvalidInput:
    message = f"external blob URI '{_shown(uri)}' is not allowed: {why}"
    return InvalidInput(Kind.BLOB_POLICY, message, uri=redacted(uri), code=ProblemCode.BLOB.value)


def _unreadable(uri: str, why: str) -> InvalidInput:
    message = f"external blob URI '{_shown(uri)}' cannot be read: {why}"
    return InvalidInput(Kind.BLOB_SOURCE, message, uri=redacted(uri), reason=why, code=ProblemCode.BLOB.value)


def _too_much(resource: str, limit: int, actual: int, what: str) -> OmniGraphError:
    return ResourceLimitExceeded(Kind.RESOURCE_LIMIT, f"{what}; write fewer at once", resource=resource, limit=limit, actual=actual)


def _shown(uri: str) -> str:
    clean = redacted(uri)
    return clean if len(clean) <= _SHOWN_CHARACTERS else f"{clean[:_SHOWN_CHARACTERS]}…"
