"""Blob texts -> bytes, or an error; and one blob of a snapshot -> its size, its tag and any part of its bytes."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.arguments import checked_methods
from omnigraph.catalog.layout import ID
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.catalog.types import scalar_of
from omnigraph.errors import InvalidInput, Kind, NotFound, ResourceLimitExceeded, Unsupported
from omnigraph.exec.problems import ProblemCode
from omnigraph.grid import counted
from omnigraph.ids import content_hash
from omnigraph.lang.tree import Scalar
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.tables import ADDRESS, Table, Tables, Where, one_of
from omnigraph.store.take import blob_file, blob_sizes, read_blob

BASE64: Final = "base64:"
"""The prefix of a text that contains the bytes of a blob."""

MAX_CARRIED_BYTES: Final = 256 * 1024 * 1024
"""The limit on blob bytes in rows whose other properties one statement changes."""

_ETAG_LENGTH: Final = 32


ReadScope = Callable[[], AbstractContextManager[None]]
"""Returns the context manager for reading a snapshot, which reports if the branch was deleted meanwhile."""


@checked_methods()
class Blob:
    """One blob of a snapshot. Later writes do not change its bytes (B-23)."""

    def __init__(self, table: Table, column: str, address: int, *, size: int, reading: ReadScope) -> None:
        self._reading = reading
        self._table = table
        self._column = column
        self._address = address
        self.size: Final = size
        # The name of the data file is unique, so the tag changes whenever the bytes may have changed.
        owner = f"{table.root.of(table.ref.path)}:{blob_file(table, column, address)}:{column}:{address & 0xFFFFFFFF}:{size}"
        self.etag: Final = content_hash(owner.encode())[:_ETAG_LENGTH]

    def __repr__(self) -> str:
        return f"Blob(size={self.size}, etag={self.etag!r})"

    def __reduce__(self) -> Never:
        what = "a blob is read through the graph that it came from; send its bytes, or the graph and the id"
        raise Unsupported(Kind.UNSUPPORTED, what)

    def read(self, start: int = 0, end: int | None = None) -> bytes:
        """Read the bytes from `start` up to, but not including, `end`, both clipped to the size of the blob. No other bytes are read."""
        stop = self.size if end is None else min(end, self.size)
        if start < 0 or (end is not None and end < start):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"bytes {start} to {end} are not a valid range of a blob", start=start, end=end)
        if start > self.size or (start == self.size and self.size and end != start):
            raise InvalidInput(
                Kind.BLOB_RANGE, f"the blob has {counted(self.size, 'byte')}; byte {start} is out of range", start=start, size=self.size
            )
        with self._reading():
            return read_blob(self._table, self._column, self._address, start=start, length=stop - start)


def find_blob(
    tables: Tables, snapshot: BranchSnapshot, catalog: Catalog, *, kind: str, type_: str, id_: str, property_: str, reading: ReadScope
) -> Blob:
    """Return the blob of one property of one node or edge."""
    entity = _entity(catalog, kind, type_)
    if property_ not in blob_properties(entity):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{type_} has no Blob property '{property_}'", type=type_, property=property_)
    table = tables.open(snapshot.table_of(entity.id, name=entity.name).ref)
    found = blob_sizes(table, [property_], where=one_of(ID, pa.array([id_], pa.string())))
    what = f"{kind} {type_} '{id_}'"
    if not len(found):
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"there is no {what} on branch {snapshot.branch.name!r}", type=type_, id=id_)
    size = found.column(property_)[0].as_py()
    if size is None:
        raise NotFound(Kind.OBJECT_NOT_FOUND, f"property '{property_}' of {what} is null", type=type_, id=id_, property=property_)
    return Blob(table, property_, found.column(ADDRESS)[0].as_py(), size=size, reading=reading)


def _entity(catalog: Catalog, kind: str, type_: str) -> EntityType:
    if kind not in ("node", "edge"):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"a blob belongs to a 'node' or an 'edge', not to {kind!r}")
    entity = catalog.node(type_) if kind == "node" else catalog.edge_named(type_)
    if entity is None:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"unknown {kind} type '{type_}'", type=type_)
    return entity


def blob_properties(entity: EntityType) -> list[str]:
    """Return the Blob properties of a type."""
    return [property_.name for property_ in entity.properties if scalar_of(property_.type) is Scalar.BLOB]


# -- blobs in writes


def is_external(text: str) -> bool:
    """Return whether a text is the URI of a blob instead of its bytes."""
    return not text.startswith(BASE64)


def decode_base64(text: str) -> bytes:
    """Decode `base64:<text>`: standard alphabet, padded, nothing else. Raises ValueError."""
    return binascii.a2b_base64(text[len(BASE64) :], strict_mode=True)


def decode_blob(text: str) -> bytes:
    """Decode a `base64:` text. An empty text after the colon is an empty blob."""
    try:
        return decode_base64(text)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(Kind.VALIDATION, f"invalid base64 blob data: {error}", code=ProblemCode.BLOB.value) from error


def charge_carried(table: Table, blobs: Sequence[str], wheres: Iterable[Where | None], *, limit_bytes: int = MAX_CARRIED_BYTES) -> None:
    """Refuse to copy more blob bytes than one write may hold (W-37). Only the sizes are read, not the blobs.

    The rows are those for which one of the filters holds; no row is in two of them.
    """
    if not blobs:
        return
    sizes = (blob_sizes(table, blobs, where=where) for where in wheres)
    carried = sum(pc.sum(part.column(name)).as_py() or 0 for part in sizes for name in blobs)
    if carried > limit_bytes:
        raise ResourceLimitExceeded(
            Kind.RESOURCE_LIMIT,
            f"the rows to change contain {carried} bytes of blobs; the limit for one statement is {limit_bytes}; change fewer rows at once",
            resource="carried_blob_bytes",
            limit=limit_bytes,
            actual=carried,
        )
