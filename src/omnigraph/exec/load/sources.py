"""A path, several paths, a file, bytes, lines or records -> decompressed streams of bytes with a name, and their length if known."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import IO, Final, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.load.compressed import decompressed
from omnigraph.exec.load.parts import BOM, CHUNK_BYTES, FilePart, existing_file, open_file, read_part
from omnigraph.exec.load.tablefiles import TablePart, table_format

Records: TypeAlias = (
    str
    | os.PathLike[str]
    | FilePart
    | bytes
    | bytearray
    | memoryview
    | IO[bytes]
    | IO[str]
    | Iterable[str]
    | Iterable[bytes]
    | Iterable[Mapping[str, object]]
    | Sequence[str | os.PathLike[str]]
)
"""Records in the order of a file. A `str` is a path; text is bytes or an iterable of lines. A list of paths is several files."""

STREAM: Final = "__arrow_c_stream__"
"""The method of tables of other libraries: pandas, polars, DuckDB."""

_RECORDS_PER_CHUNK: Final = 4096
_END: Final = object()
_COMPRESSION: Final = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_ONE_TYPE: Final = {b"PAR1": "Parquet", b"ARROW1": "Arrow"}


class Stream:
    """Bytes of one source, read once. `position` and `total_bytes` count bytes before decompression."""

    def __init__(
        self,
        name: str,
        pieces: Iterator[bytes],
        *,
        total_bytes: int | None = None,
        counts_records: bool = False,
        part: FilePart | None = None,
    ) -> None:
        self.name = name
        self.first_line = 1 if part is None else part.first_line
        self.begins: Final = part is None or part.start == 0
        """The stream starts at the beginning of the file, so the first bytes may identify compression or UTF-16."""
        self._cut: Final = part is not None
        self.total_bytes = total_bytes
        self.counts_records = counts_records
        """Each line of the stream encodes one record of the caller. Problems name the record, not the line."""
        self.position = 0
        self._pieces = pieces

    def chunks(self) -> Iterator[bytes]:
        """The text in chunks of any size, without a byte order mark. Raises the errors of `decompressed` for compressed input."""
        pieces = self._counted() if self._cut else _rechunk(self._counted())
        if not self.begins:
            return pieces
        first = next(pieces, b"")
        _refuse_one_type(self.name, first)
        codec = next((codec for magic, codec in _COMPRESSION.items() if first.startswith(magic)), None)
        joined = chain([first], pieces)
        return _without_mark(joined if codec is None else decompressed(self.name, joined, codec, piece_bytes=CHUNK_BYTES))

    def _counted(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.position += len(piece)
            yield piece


def open_stream(data: Records) -> Stream:
    """Open `data` as a stream. Raises `NotFound` or `InvalidInput` if it cannot be read at all."""
    if isinstance(data, str | os.PathLike):
        return _open_path(os.fspath(data))
    if isinstance(data, FilePart):
        return Stream(data.name, read_part(data), total_bytes=data.end - data.start, part=data)
    if isinstance(data, bytes | bytearray | memoryview):
        whole = bytes(data)
        return Stream("<bytes>", _sliced(whole), total_bytes=len(whole))
    if hasattr(data, "read"):
        return Stream(_name_of(data), _read(data.read), total_bytes=None)
    if hasattr(data, STREAM):
        message = f"a {type(data).__name__} has the rows of one type; name the type: {{'Product': table}}"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message)
    if isinstance(data, Iterable):
        return _open_items(iter(data))
    raise InvalidInput(
        Kind.INVALID_ARGUMENT, f"cannot load from {type(data).__name__}; give a path, bytes, a file, lines, records or tables"
    )


def rereadable(data: object) -> bool:
    """True if the same rows can be read from `data` again. Open files and iterators can be read only once."""
    if isinstance(data, str | os.PathLike | FilePart | TablePart | bytes | bytearray | memoryview | pa.Table | pa.RecordBatch):
        return True
    if isinstance(data, Mapping):
        return all(map(rereadable, data.values()))
    return isinstance(data, list | tuple) or (hasattr(data, STREAM) and isinstance(data, Sized))  # a frame has a length, a stream has none


def paths_of(data: Records) -> list[str] | None:
    """The paths that `data` names: one, or those of a list or tuple. None if it is no path. A text that begins with `{` is a line."""
    if isinstance(data, str | os.PathLike):
        return [os.fspath(data)]
    if not isinstance(data, list | tuple) or not data:
        return None
    paths = [os.fspath(item) for item in data if isinstance(item, str | os.PathLike)]
    first = paths[0].removeprefix("\ufeff").lstrip() if paths else ""
    return paths if len(paths) == len(data) and first and not first.startswith("{") else None


def refuse_tables(paths: Iterable[str], catalog: Catalog) -> None:
    """Refuse a file that has the rows of one type and does not say of which."""
    for path in paths:
        if (format_ := table_format(path)) is not None:
            type_ = _type_of(path, catalog)
            message = (
                f"'{path}' is a {format_} file, which has the rows of one type; name the type: "
                f"{{'{type_}': '{path}'}} in Python, {type_}={path} on the command line"
            )
            raise InvalidInput(Kind.INVALID_ARGUMENT, message, path=path)


def _type_of(path: str, catalog: Catalog) -> str:
    """The type that the name of a file resembles, or a placeholder."""
    from difflib import get_close_matches  # slow to import, and needed only for an error

    names = {entity.name.lower(): entity.name for entity in catalog.entities}
    close = get_close_matches(Path(path).name.partition(".")[0].lower(), names, n=1)
    return names[close[0]] if close else "TYPE"


def _open_path(path: str) -> Stream:
    found = existing_file(path)
    file = open_file(path)
    size = found.stat().st_size if found.is_file() else None
    return Stream(path, _until_end(file), total_bytes=size)


def _until_end(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        yield from _read(file.read)


def _read(read: Callable[[int], bytes | str]) -> Iterator[bytes]:
    while piece := read(CHUNK_BYTES):
        yield _encoded(piece)


def _encoded(piece: bytes | str) -> bytes:
    # A lone surrogate has no UTF-8 form. Encoded like this it is refused with its line and column, as in a file.
    return piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece


def _without_mark(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes without a byte order mark at their beginning."""
    yield next(pieces, b"").removeprefix(BOM)
    yield from pieces


def _sliced(whole: bytes) -> Iterator[bytes]:
    for start in range(0, len(whole), CHUNK_BYTES):
        yield whole[start : start + CHUNK_BYTES]


def _rechunk(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of one size. Every block has a fixed cost, so small pieces would be slow."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            yield from _sliced(held[0] if len(held) == 1 else b"".join(held))
            held, size = [], 0
    if held:
        yield b"".join(held)


def _name_of(file: object) -> str:
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else "<stream>"


def _open_items(items: Iterator[object]) -> Stream:
    first = next(items, _END)
    if first is _END:
        return Stream("<records>", iter(()))
    rest = chain([first], items)
    match first:
        case Mapping():
            return Stream("<records>", _encode_records(rest), counts_records=True)
        case str():
            return Stream("<lines>", _lines(rest))
        case bytes() | bytearray() | memoryview():
            return Stream("<chunks>", _as_bytes(rest))
        case _:
            message = f"cannot load from an iterable of {type(first).__name__}; give lines of text, chunks of bytes or records as dicts"
            raise InvalidInput(Kind.INVALID_ARGUMENT, message)


def _mixed(item: object) -> InvalidInput:
    return InvalidInput(
        Kind.INVALID_ARGUMENT, f"the input mixes kinds of items: it has a {type(item).__name__} after items of another type"
    )


def _as_bytes(items: Iterator[object]) -> Iterator[bytes]:
    """Chunks of a stream, cut anywhere. Only newlines end lines."""
    for item in items:
        if not isinstance(item, bytes | bytearray | memoryview):
            raise _mixed(item)
        yield bytes(item)


def _lines(items: Iterator[object]) -> Iterator[bytes]:
    """One line per item. A newline is added if it is missing."""
    for group in _grouped(items):
        lines = []
        for item in group:
            if not isinstance(item, str):
                raise _mixed(item)
            lines.append(item if item.endswith("\n") else f"{item}\n")
        yield _encoded("".join(lines))


def _encode_records(items: Iterator[object]) -> Iterator[bytes]:
    """Encode records as JSON lines, so that the same rules apply as to a file. Types that JSON lacks get the form they have in a file."""
    encoder = json.JSONEncoder(default=_plain)
    number = 0
    for group in _grouped(items):
        lines = []
        for record in group:
            number += 1
            if not isinstance(record, Mapping):
                raise _mixed(record)
            try:
                lines.append(encoder.encode(record))
            except (TypeError, ValueError) as error:
                raise InvalidInput(Kind.VALIDATION, f"record {number} cannot be loaded: {error}", record=number) from error
            except RecursionError as error:
                message = f"record {number} cannot be loaded: {_too_deep(encoder, record)} is nested too deeply"
                raise InvalidInput(Kind.VALIDATION, message, record=number) from error
        yield ("\n".join(lines) + "\n").encode()


def _too_deep(encoder: json.JSONEncoder, record: Mapping[str, object]) -> str:
    """The name of the property or member that is nested too deeply, or "it" for the whole record."""
    data = record.get("data")
    for name, value in (*(data.items() if isinstance(data, Mapping) else ()), *record.items()):
        try:
            encoder.encode(value)
        except RecursionError:
            return repr(name)
        except (TypeError, ValueError):
            continue
    return "it"


def _plain(value: object) -> object:
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes() | bytearray() | memoryview():
            return "base64:" + b64encode(value).decode()
        case np.ndarray():
            return value.tolist()
        case np.generic():
            return value.item()
        case Mapping():
            return dict(value)
        case tuple() | list():
            return list(value)
        case _:
            raise TypeError(f"a value of type {type(value).__name__} cannot be encoded as JSON")


def _grouped(items: Iterator[object]) -> Iterator[list[object]]:
    group: list[object] = []
    for item in items:
        group.append(item)
        if len(group) == _RECORDS_PER_CHUNK:
            yield group
            group = []
    if group:
        yield group


def _refuse_one_type(name: str, first: bytes) -> None:
    kind = next((kind for magic, kind in _ONE_TYPE.items() if first.startswith(magic)), None)
    if kind is not None:
        message = f"{name} is a {kind} file, which has the rows of one type; give a mapping of type names to files"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, source=name)
