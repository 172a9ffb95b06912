"""The Arrow columns of a read -> rows of plain values, Arrow, pandas or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]
"""A row by column name. If two columns have the same name, the last one is used."""

PART_ROWS: Final = 16_384
"""The number of rows that are converted to Python values together."""

_FIRST_DAY: Final = -719_162
"""0001-01-01 in days since 1970. A date before it, or after `_LAST_DAY`, has no text form and is shown as a number."""
_LAST_DAY: Final = 2_932_896
_DAY_MS: Final = 86_400_000


class Result:
    """The result of a query, and the commit it was read from. It is complete and immutable."""

    def __init__(self, table: pa.Table, *, query_name: str, branch: str, commit_id: str) -> None:
        self._table: Final = table
        self.query_name: Final = query_name
        self.branch: Final = branch
        self.commit_id: Final = commit_id

    def __repr__(self) -> str:
        return f"Result({self.query_name!r}, {self.row_count} rows: {', '.join(self.columns)})"

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self._table.column_names)

    @property
    def row_count(self) -> int:
        return int(self._table.num_rows)

    @cached_property
    def rows(self) -> list[Row]:
        """All rows as JSON-compatible values: dates are texts, a whole node is its id."""
        return list(self)

    def tuples(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows as tuples. Columns with the same name stay separate."""
        for part in self._parts():
            yield from zip(*map(shown, part.columns), strict=True)

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows as in `rows`, without holding all of them."""
        names = self.columns
        return (dict(zip(names, values, strict=True)) for values in self.tuples())

    def __len__(self) -> int:
        return self.row_count

    def to_arrow(self) -> pa.Table:
        """Return the typed columns: dates as `date32`, times as `date64`, vectors as fixed-size lists."""
        return self._table

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas has no types of its own
        return self._table.to_pandas()

    def to_json(self) -> str:
        """Return the rows as a JSON array of objects."""
        names, parts = self.columns, list[str]()
        for part in self._parts():
            rows = [dict(zip(names, values, strict=True)) for values in zip(*map(shown, part.columns), strict=True)]
            parts.append(json.dumps(rows, ensure_ascii=False, separators=(",", ":"))[1:-1])
        return f"[{','.join(parts)}]"

    def _parts(self) -> Iterator[pa.Table]:
        """Yield the rows in parts: as Python values they take ten times the memory that they take in Arrow."""
        if self._table.num_columns:
            yield from (self._table.slice(start, PART_ROWS) for start in range(0, self._table.num_rows, PART_ROWS))


def shown(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column in the form in which results are shown."""
    type_ = column.type
    if pa.types.is_floating(type_):
        return _floats(column)
    if pa.types.is_date32(type_):
        return _dates(column)
    if pa.types.is_date64(type_):
        return _times(column)
    if pa.types.is_fixed_size_list(type_):
        return _vectors(column)
    if pa.types.is_list(type_):
        return _lists(column)
    return list(column.to_pylist())


def _floats(column: pa.ChunkedArray) -> list[Any]:
    values = column.to_pylist()
    if pc.all(pc.is_finite(column), min_count=0).as_py():
        return list(values)
    return [value if value is None or value - value == 0.0 else _spell(value) for value in values]


def _spell(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def _dates(column: pa.ChunkedArray) -> list[Any]:
    days = column.cast(pa.int32())
    return _texts(days, pc.cast(days.cast(pa.int32()).cast(pa.date32()), pa.string()), low=_FIRST_DAY, high=_LAST_DAY)


def _times(column: pa.ChunkedArray) -> list[Any]:
    milliseconds = column.cast(pa.int64())
    inside = pc.and_(pc.greater_equal(milliseconds, _FIRST_DAY * _DAY_MS), pc.less(milliseconds, (_LAST_DAY + 1) * _DAY_MS))
    safe = pc.if_else(inside, milliseconds, pa.scalar(0, pa.int64()))
    texts = pc.strftime(safe.cast(pa.timestamp("ms")), format="%Y-%m-%dT%H:%M:%SZ")
    return _texts(milliseconds, texts, low=_FIRST_DAY * _DAY_MS, high=(_LAST_DAY + 1) * _DAY_MS - 1)


def _texts(numbers: pa.ChunkedArray, texts: pa.ChunkedArray, *, low: int, high: int) -> list[Any]:
    """Return the texts, with the plain number in place of values outside the calendar."""
    outside = pc.or_(pc.less(numbers, low), pc.greater(numbers, high))
    if not pc.any(outside, min_count=0).as_py():
        return list(texts.to_pylist())
    return [
        text if not far else number for text, number, far in zip(texts.to_pylist(), numbers.to_pylist(), outside.to_pylist(), strict=True)
    ]


def _vectors(column: pa.ChunkedArray) -> list[Any]:
    """Return vectors as lists. Elements that are not finite become null."""
    rows: list[Any] = []
    for chunk in column.chunks:
        items = chunk.flatten() if not chunk.null_count else pc.list_flatten(chunk)
        items = pc.if_else(pc.is_finite(items), items, pa.scalar(None, items.type))
        width = chunk.type.list_size
        rows += _regroup(items.to_pylist(), [width] * len(chunk), chunk.is_valid().to_pylist())
    return rows


def _lists(column: pa.ChunkedArray) -> list[Any]:
    rows: list[Any] = []
    for chunk in column.chunks:
        items = shown(pa.chunked_array([pc.list_flatten(chunk)]))
        rows += _regroup(items, pc.list_value_length(chunk).fill_null(0).to_pylist(), chunk.is_valid().to_pylist())
    return rows


def _regroup(items: list[Any], lengths: list[int], valid: list[bool]) -> list[Any]:
    rows: list[Any] = []
    at = 0
    for length, present in zip(lengths, valid, strict=True):
        rows.append(items[at : at + length] if present else None)
        at += length if present else 0
    return rows
