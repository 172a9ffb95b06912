"""The Arrow columns of a read -> rows of plain values, Arrow, pandas, polars, JSON, or a table for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, overload

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import InvalidInput, Kind, Unsupported
from omnigraph.grid import cell_text, counted, escaped, fitted, table_lines

Row = dict[str, Any]
"""A row by column name. If two columns have the same name, the last one is used."""

PART_ROWS: Final = 16_384
"""The number of rows that are converted to Python values together."""

_REPR_ROWS: Final = 10
_REPR_WIDTH: Final = 120
_HTML_ROWS: Final = 20
_HTML_CHARACTERS: Final = 200

_FIRST_DAY: Final = -719_162
"""0001-01-01 in days since 1970. A date before it, or after `_LAST_DAY`, has no text form and is shown as a number."""
_LAST_DAY: Final = 2_932_896
_DAY_MS: Final = 86_400_000


class Result:
    """The result of a query, and the commit it was read from. It is complete and immutable.

    A result is a sequence of rows: it has a length, `result[0]` is a row, `result[:10]` a shorter result, and `for row in result` goes
    through the rows. Whatever takes Arrow data (polars, DuckDB, pandas, pyarrow) takes a result as it is.
    """

    def __init__(self, table: pa.Table, *, query_name: str, branch: str, commit_id: str) -> None:
        self._table: Final = table
        self.query_name: Final = query_name
        self.branch: Final = branch
        self.commit_id: Final = commit_id

    def __repr__(self) -> str:
        """Return the first rows as a table."""
        more = self.row_count - _REPR_ROWS
        rows = [list(values) for values in self[:_REPR_ROWS].tuples()]
        table = table_lines(self.columns, rows, width=_REPR_WIDTH) if self.columns else ()
        return "\n".join([self._headline(), *table, *([f"… {counted(more, 'more row')}"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        """Return the first rows as a table of a notebook."""
        more = self.row_count - _HTML_ROWS
        heads = "".join(f"<th>{_html(name)}</th>" for name in self.columns)
        rows = "".join(
            f"<tr>{''.join(f'<td>{_html(cell_text(value))}</td>' for value in values)}</tr>" for values in self[:_HTML_ROWS].tuples()
        )
        left = f"<p>… {counted(more, 'more row')}</p>" if more > 0 else ""
        return f"<table><caption>{_html(self._headline())}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>{left}"

    def _headline(self) -> str:
        via = f" via {self.query_name}" if self.query_name else ""
        return f"{counted(self.row_count, 'row')} from {self.branch}{via}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self._table, self.query_name, self.branch, self.commit_id)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of `return`."""
        return tuple(self._table.column_names)

    @property
    def row_count(self) -> int:
        """The number of rows; also `len(result)`."""
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

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Result: ...
    def __getitem__(self, at: int | slice) -> Row | Result:
        """Return one row, counted from the end if `at` is negative, or the rows of a slice as a result."""
        if isinstance(at, slice):
            start, stop, step = at.indices(self.row_count)
            part = self._table.slice(start, max(stop - start, 0)) if step == 1 else self._table.take(list(range(start, stop, step)))
            return _rebuilt(part, self.query_name, self.branch, self.commit_id)
        if not isinstance(at, int):
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"a row of a result has a number, not {at!r}; a column is `result.to_arrow()[name]`")
        if not -self.row_count <= at < self.row_count:
            raise IndexError(f"the result has {counted(self.row_count, 'row')}; there is no row {at}")
        first = at % self.row_count
        return next(iter(self[first : first + 1]))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the columns to another library, without a copy."""
        return self._table.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """Return the typed columns: dates as `date32`, times as `date64`, vectors as fixed-size lists."""
        return self._table

    def to_pandas(self) -> Any:  # a pandas.DataFrame; pandas has no types of its own
        """Return a frame of pandas, which must be installed. Its integers with nulls are floats."""
        try:
            return self._table.to_pandas()
        except ImportError as error:
            raise _not_installed("pandas") from error

    def to_polars(self) -> Any:  # a polars.DataFrame; polars is no dependency
        """Return a frame of polars, which must be installed."""
        try:
            import polars
        except ImportError as error:
            raise _not_installed("polars") from error
        return polars.from_arrow(self._table)

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


def _rebuilt(table: pa.Table, query_name: str, branch: str, commit_id: str) -> Result:
    return Result(table, query_name=query_name, branch=branch, commit_id=commit_id)


def _not_installed(library: str) -> Unsupported:
    return Unsupported(Kind.UNSUPPORTED, f"{library} is not installed; install it with `pip install {library}`", library=library)


def _html(text: str) -> str:
    import html  # here: its table of entities is large, and only notebooks ask

    return html.escape(fitted(escaped(text), _HTML_CHARACTERS))


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
