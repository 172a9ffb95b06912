"""Input -> what a reader makes of it, as plain values that tests can compare."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog
from omnigraph.exec.load.batches import Batch, Data, read_batches
from omnigraph.exec.problems import Problem, Report
from tests.unit.catalog.schemas import CINEMA, catalog_of

ALL_TYPES = """
node Every {
  key: String @key
  text: String?  flag: Bool?  small: I32?  big: I64?  count: U32?  huge: U64?  half: F32?  real: F64?
  day: Date?  at: DateTime?  kind: enum(a, b)?  body: Blob?  vec: Vector(2)?
  texts: [String]?  smalls: [I32]?  reals: [F64]?  days: [Date]?  times: [DateTime]?  flags: [Bool]?
}
node Loose { type: String?  data: String?  n: I32? }
node Must { n: I32  vec: Vector(2)  body: Blob  days: [Date]  at: DateTime }
node Take { n: F32 @key }
node Cut { name: String  ver: U32  @key(ver, name) }
node Day { d: Date @key }
edge Link: Every -> Every { weight: F32?  since: Date?  data: String? }
edge Bare: Every -> Loose
"""


@cache
def cinema() -> Catalog:
    return catalog_of(CINEMA)


@cache
def all_types() -> Catalog:
    return catalog_of(ALL_TYPES)


def text(*records: Any) -> bytes:
    """Records, or lines as they are, as a file holds them."""
    return b"".join((record if isinstance(record, str) else json.dumps(record)).encode() + b"\n" for record in records)


def read(data: Data, catalog: Catalog, *, limit: int = 100) -> tuple[list[Batch], list[Problem]]:
    report = Report(limit)
    return list(read_batches(data, catalog, report)), report.problems


def rows(data: Data, catalog: Catalog) -> dict[str, list[dict[str, Any]]]:
    """The rows by type, with times in full; fails on any problem."""
    batches, problems = read(data, catalog)
    assert problems == []
    found: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        found.setdefault(batch.entity.name, []).extend(plain(batch.rows))
    return found


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as dicts. Times are milliseconds, which pyarrow would cut down to days."""
    columns = {}
    for field in table.schema:
        column = table.column(field.name)
        if pa.types.is_date64(field.type):
            column = column.cast(pa.int64())
        elif pa.types.is_list(field.type) and pa.types.is_date64(field.type.value_type):
            column = column.cast(pa.list_(pa.int64()))
        column.validate(full=True)
        columns[field.name] = column.to_pylist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def messages(data: Data, catalog: Catalog) -> list[str]:
    return [problem.message for problem in read(data, catalog)[1]]
