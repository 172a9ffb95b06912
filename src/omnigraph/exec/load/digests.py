"""The data of a load with a token -> a digest, by which a token that is used again for other data is noticed.

Files are hashed after decompression: a gzip file has the time of its compression in it, and a retry may compress again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping

import pyarrow as pa

from omnigraph.exec.load.batches import Data
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.sources import open_stream, paths_of, rereadable
from omnigraph.exec.load.tablefiles import table_bytes
from omnigraph.exec.write.tokens import digest_of


def load_digest(data: Data, mode: LoadMode) -> str | None:
    """Return the digest of a load. None for open files and iterators: their data can be read only once, and is needed for the load."""
    if not rereadable(data):
        return None
    if isinstance(data, Mapping):
        return digest_of(mode, *(part for name, table in sorted(data.items()) for part in (name, _hash(_table_bytes(table)))))
    if (paths := paths_of(data)) is not None:
        return digest_of(mode, *(_hash(open_stream(path).chunks()) for path in paths))
    return digest_of(mode, _hash(open_stream(data).chunks()))


def _hash(pieces: Iterator[bytes]) -> bytes:
    hashed = hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
    return hashed.digest()


def _table_bytes(table: object) -> Iterator[bytes]:
    """Yield a table in the form of an Arrow stream, and the bytes of a file."""
    if isinstance(table, str | os.PathLike):
        yield from table_bytes(os.fspath(table))
        return
    reader = pa.RecordBatchReader.from_stream(table) if not isinstance(table, pa.RecordBatch) else iter([table])
    for batch in reader:
        yield batch.schema.serialize().to_pybytes()
        yield batch.serialize().to_pybytes()
