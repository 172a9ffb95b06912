"""The path of a Parquet or CSV file -> its columns and its rows in slices, or parts that many readers can read in parallel.

A slice is a run of adjacent row groups of a Parquet file, a piece of a large row group, or a block of a CSV file. Parts are cut between
runs. So a part is read in the same slices as the whole file, and a full report ends after the same slice.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.load.compressed import PieceFile, decompressed
from omnigraph.exec.load.parts import PART_BYTES, existing_file, open_file

SLICE_ROWS: Final = 1 << 18
_COMPRESSED_BYTES: Final = 1 << 16
_CSV_BYTES: Final = 1 << 20
_CODECS: Final = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}
_FORMATS: Final = {".parquet": "Parquet", ".csv": "CSV"}
_RECORDS: Final = frozenset({".ndjson", ".jsonl", ".json"})
_UNREADABLE: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""`UnicodeDecodeError` is raised when column names are converted to Python strings."""


class TablePart(msgspec.Struct, frozen=True):
    """The row groups `[start, end)` of a Parquet file; `end` None means the last. A part of a CSV file is always the whole file, because
    a quoted newline can be recognized only if all text before it was read.

    `first_record` is the number of the first row, from 1. `name` is the caller's name of the file, `size` its size when it was cut.
    """

    path: str
    name: str
    size: int | None = None
    start: int = 0
    end: int | None = None
    first_record: int = 1
    slice_rows: int = SLICE_ROWS


class OpenTable(NamedTuple):
    """A table to read: its name, columns and rows, and whether its values are text to be parsed by type."""

    source: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    text: bool = False
    first_record: int = 1


class _RowGroups(NamedTuple):
    """Row groups that are read together, and their number of rows."""

    groups: range
    rows: int


def open_table(file: str | TablePart) -> OpenTable:
    """Open a whole file, or a part of one."""
    part = file if isinstance(file, TablePart) else TablePart(file, file)
    suffix = _suffix(part)
    try:
        if part.size is not None and os.path.getsize(part.path) != part.size:
            raise InvalidInput(Kind.VALIDATION, f"'{part.name}' was changed after the load began; nothing was written", path=part.name)
        return _open_parquet(part) if suffix == ".parquet" else _open_csv(part)
    except _UNREADABLE as error:
        raise _unreadable(part, error) from error


def table_parts(path: str, *, part_bytes: int = PART_BYTES, slice_rows: int = SLICE_ROWS) -> list[TablePart]:
    """Cut a file into parts: a Parquet file into runs of row groups of about `part_bytes`; a CSV file is one part."""
    whole = TablePart(path, path, slice_rows=slice_rows)
    suffix = _suffix(whole)
    found = Path(path)
    if not found.is_file():
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"'{path}' is not a regular file, so it cannot be read in parallel", path=path)
    whole = msgspec.structs.replace(whole, path=str(found.absolute()), size=found.stat().st_size)
    if suffix != ".parquet":
        return [whole]
    try:
        with pq.ParquetFile(path) as file:
            return list(_cut(whole, file.metadata, part_bytes))
    except _UNREADABLE as error:
        raise _unreadable(whole, error) from error


def table_format(path: str) -> str | None:
    """The name of the format of a table file, by its suffixes, or None for another file."""
    known = _known_suffix(path)
    return None if known is None else _FORMATS[known]


def table_bytes(path: str) -> Iterator[bytes]:
    """The bytes of a table file, after decompression."""
    existing_file(path)
    return _contents(TablePart(path, path))


def _known_suffix(path: str) -> str | None:
    suffixes = {suffix.lower() for suffix in Path(path).suffixes}
    return next((known for known in _FORMATS if known in suffixes), None)


def _suffix(part: TablePart) -> str:
    existing_file(part.path, name=part.name)
    if (known := _known_suffix(part.path)) is not None:
        return known
    lines = not _RECORDS.isdisjoint(suffix.lower() for suffix in Path(part.path).suffixes)
    instead = "the records of a file of NDJSON name their types: give it without one" if lines else "give a .parquet or .csv file"
    message = f"'{part.name}' is not a table that can be loaded; {instead}"
    raise InvalidInput(Kind.INVALID_ARGUMENT, message, path=part.name)


# -- Parquet


def _open_parquet(part: TablePart) -> OpenTable:
    file = pq.ParquetFile(part.path)
    end = part.end if part.end is not None else file.num_row_groups
    return OpenTable(part.name, file.schema_arrow, _guarded(part, _parquet_slices(file, part, end)), first_record=part.first_record)


def _parquet_slices(file: pq.ParquetFile, part: TablePart, end: int) -> Iterator[pa.RecordBatch]:
    for run in _runs(file.metadata, part.start, end, part.slice_rows):
        yield from file.iter_batches(batch_size=part.slice_rows, row_groups=list(run.groups))


def _runs(metadata: pq.FileMetaData, start: int, end: int, slice_rows: int) -> Iterator[_RowGroups]:
    """Combine small row groups up to the rows of a slice. Starting at any run gives the same following runs."""
    first, rows = start, 0
    for group in range(start, end):
        more = metadata.row_group(group).num_rows
        if group > first and rows + more > slice_rows:
            yield _RowGroups(range(first, group), rows)
            first, rows = group, 0
        rows += more
    if first < end:
        yield _RowGroups(range(first, end), rows)


def _cut(whole: TablePart, metadata: pq.FileMetaData, part_bytes: int) -> Iterator[TablePart]:
    """Row groups record their uncompressed size. Their share of the file is estimated from it."""
    assert whole.size is not None
    sizes = [metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups)]
    enough = part_bytes * sum(sizes) / max(whole.size, 1)
    start, end, held, record, rows = 0, 0, 0, 1, 0
    for run in _runs(metadata, 0, metadata.num_row_groups, whole.slice_rows):
        size = sum(sizes[group] for group in run.groups)
        if end > start and held + size > enough:
            yield msgspec.structs.replace(whole, start=start, end=end, first_record=record)
            start, held, record, rows = end, 0, record + rows, 0
        end, held, rows = run.groups.stop, held + size, rows + run.rows
    yield msgspec.structs.replace(whole, start=start, end=end, first_record=record)


# -- CSV


def _open_csv(part: TablePart) -> OpenTable:
    parse = pv.ParseOptions(newlines_in_values=True)
    with pv.open_csv(_csv_text(part), parse_options=parse) as first:
        names = first.schema.names
    convert = pv.ConvertOptions(
        column_types={name: pa.string() for name in names},
        strings_can_be_null=True,
        null_values=[""],
        quoted_strings_can_be_null=False,  # `""` is an empty text, and an empty cell is null
    )
    reader = pv.open_csv(_csv_text(part), parse_options=parse, convert_options=convert)
    return OpenTable(part.name, reader.schema, _guarded(part, iter(reader)), text=True)


def _csv_text(part: TablePart) -> str | pa.PythonFile:
    """The input for pyarrow."""
    return part.path if _codec(part) is None else pa.PythonFile(PieceFile(_contents(part)), "r")


def _contents(part: TablePart) -> Iterator[bytes]:
    """The bytes of a file. A file with the suffix of a compression is decompressed, within the expansion limit."""
    pieces = iter(partial(open_file(part.path, name=part.name).read, _COMPRESSED_BYTES), b"")
    codec = _codec(part)
    return pieces if codec is None else decompressed(part.name, pieces, codec, piece_bytes=_CSV_BYTES)


def _codec(part: TablePart) -> str | None:
    return _CODECS.get(Path(part.path).suffix.lower())


# -- errors


def _guarded(part: TablePart, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from batches
    except _UNREADABLE as error:
        raise _unreadable(part, error) from error


def _unreadable(part: TablePart, error: Exception) -> InvalidInput:
    why = "it is not UTF-8; save it as UTF-8" if "invalid UTF8" in str(error) else f"cannot be read: {error}"
    return InvalidInput(Kind.VALIDATION, f"{part.name}: {why}; nothing was written", source=part.name)
