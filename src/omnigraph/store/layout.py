"""An open file of Lance -> where its columns and its metadata are: the bytes that a read of some columns and rows needs.

Lance shows where the buffers of a page are, but not which rows the page has, so its metadata is decoded here. The layout is only used to
decide which checksums to compare. A file that this release cannot decode is compared as a whole.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from omnigraph.store.protobuf import fields, numbers

_FOOTER: Final = struct.Struct("<QQQIIHH4s")
"""The positions of the metadata, of the table of the columns' metadata and of that of the global buffers; the number of global buffers and
of columns; the version; the magic number."""
_ENTRY: Final = struct.Struct("<QQ")
_MAGIC: Final = b"LANC"

# Field numbers of `ColumnMetadata` and its `Page` in Lance's file2.proto.
_PAGES: Final = 2
_COLUMN_OFFSETS: Final = 3
_COLUMN_SIZES: Final = 4
_PAGE_OFFSETS: Final = 1
_PAGE_SIZES: Final = 2
_PAGE_ROWS: Final = 3
_PAGE_ENCODING: Final = 4
_LAYOUT: Final = (2, 1, 2)
"""The way from a page's encoding to its `PageLayout`: the direct one, its bytes, and the value of an `Any`."""
_FULL_ZIP: Final = 3
_BITS_OF_REPETITION: Final = 1
_BITS_OF_DEFINITION: Final = 2
_BITS_OF_VALUE: Final = 3

Extent = tuple[int, int]
"""The first byte, and the one after the last."""


class Page(NamedTuple):
    """Some rows of a column, and where their bytes are."""

    first: int
    rows: int
    extents: tuple[Extent, ...]
    stride: int = 0
    """If not zero: the last extent has so many bytes for each row, one after another. Vectors and other wide values of one size do."""

    def of(self, first: int, last: int) -> Iterator[Extent]:
        """The bytes for those of the rows from `first` to `last` that are in the page."""
        if not self.stride:
            yield from self.extents
            return
        yield from self.extents[:-1]
        start = self.extents[-1][0]
        low, high = max(first - self.first, 0), min(last - self.first, self.rows - 1)
        yield start + low * self.stride, start + (high + 1) * self.stride


class FileLayout(NamedTuple):
    """Where the parts of a file are."""

    metadata: tuple[Extent, ...]
    """What every read of the file needs."""
    columns: tuple[tuple[Page, ...], ...]
    """The pages of each column. Buffers of the whole column are with each page."""

    def extents(self, column: int, first: int, last: int) -> Iterator[Extent]:
        """The bytes of a column for the rows from `first` to `last`."""
        for page in self.columns[column]:
            if page.first <= last and first < page.first + page.rows:
                yield from page.of(first, last)


def layout_of(descriptor: int, size: int) -> FileLayout:
    """The layout of an open file. Raises ValueError if it is not as expected."""
    tail = os.pread(descriptor, _FOOTER.size, max(0, size - _FOOTER.size))
    if len(tail) < _FOOTER.size or not tail.endswith(_MAGIC):
        raise ValueError("the file does not end as a file of Lance")
    start, columns_at, buffers_at, buffers, columns, *_ = _FOOTER.unpack(tail)
    if not start <= min(columns_at, buffers_at) <= size:
        raise ValueError("the parts of the file are not in order")
    metadata = os.pread(descriptor, size - start, start)

    def table(at: int, count: int) -> list[Extent]:
        found = (_ENTRY.unpack_from(metadata, at - start + _ENTRY.size * n) for n in range(count))
        return [(position, position + length) for position, length in found]

    try:
        described = [metadata[first - start : last - start] for first, last in table(columns_at, columns)]
        pages = tuple(tuple(_pages(message)) for message in described)
        return FileLayout(((start, size), *table(buffers_at, buffers)), pages)
    except (struct.error, IndexError) as error:
        raise ValueError(f"the metadata of the file cannot be decoded: {error}") from error


def _pages(message: bytes) -> Iterator[Page]:
    found = list(fields(message))
    whole = _extents([each for field in found if field.number == _COLUMN_OFFSETS for each in numbers(field)],
                     [each for field in found if field.number == _COLUMN_SIZES for each in numbers(field)])  # fmt: skip
    first = 0
    for page in (list(fields(field.body)) for field in found if field.number == _PAGES):
        offsets = [each for field in page if field.number == _PAGE_OFFSETS for each in numbers(field)]
        sizes = [each for field in page if field.number == _PAGE_SIZES for each in numbers(field)]
        rows = sum(field.value for field in page if field.number == _PAGE_ROWS)
        encoding = b"".join(field.body for field in page if field.number == _PAGE_ENCODING)
        yield Page(first, rows, (*whole, *_extents(offsets, sizes)), _stride(encoding, rows, sizes))
        first += rows


def _stride(encoding: bytes, rows: int, sizes: list[int]) -> int:
    """The bytes of each row of a page, if its one buffer is nothing but rows of one size; else 0."""
    for number in _LAYOUT:
        encoding = b"".join(field.body for field in fields(encoding) if field.number == number)
    zipped = [field.body for field in fields(encoding) if field.number == _FULL_ZIP]
    if not zipped or len(sizes) != 1 or not rows:
        return 0
    bits = {field.number: field.value for field in fields(zipped[0])}
    value, control = bits.get(_BITS_OF_VALUE, 0), bits.get(_BITS_OF_DEFINITION, 0)
    if not value or value % 8 or bits.get(_BITS_OF_REPETITION, 0):  # a list has any number of items
        return 0
    stride = value // 8 + (control + 7) // 8
    return stride if rows * stride == sizes[0] else 0


def _extents(offsets: list[int], sizes: list[int]) -> tuple[Extent, ...]:
    return tuple((offset, offset + size) for offset, size in zip(offsets, sizes, strict=True) if size)
