"""Pieces of typed rows, as read and before ids are assigned -> one piece per type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.ids import TypeId


class Piece(msgspec.Struct, frozen=True):
    """Rows in the columns of their table, and flags, with their line numbers. `id` is null if the record has no id."""

    entity: EntityType
    lines: npt.NDArray[np.int64]
    rows: pa.Table


_FLAG: Final = "left_out:"


def left_out(property_: str) -> str:
    """The name of the column that flags the rows whose records leave a property out. No property has such a name."""
    return f"{_FLAG}{property_}"


def is_flag(column: str) -> bool:
    return column.startswith(_FLAG)


def with_flags(rows: pa.Table, flags: Mapping[str, pa.Array]) -> pa.Table:
    """The rows with a flag for each of these properties, by name, that some record leaves out. Only a load that keeps values asks."""
    for name, flag in flags.items():
        if pc.any(flag).as_py():
            rows = rows.append_column(left_out(name), flag)
    return rows


def piece_schema(entity: EntityType) -> pa.Schema:
    """The schema of a piece's rows: the schema of the table, but with a nullable id."""
    schema = table_schema(entity)
    return schema.set(schema.get_field_index(ID), pa.field(ID, pa.string()))


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Merge pieces into one per type, with rows in line order. Types are in the order of their first piece."""
    by_type: dict[TypeId, list[Piece]] = {}
    for piece in pieces:
        by_type.setdefault(piece.entity.id, []).append(piece)
    return [parts[0] if len(parts) == 1 else _in_order(parts) for parts in by_type.values()]


def together(parts: Sequence[pa.Table]) -> pa.Table:
    """All rows. A flag that a part does not have is null in its rows."""
    same = all(part.schema == parts[0].schema for part in parts[1:])
    return pa.concat_tables(parts) if same else pa.concat_tables(parts, promote_options="default")


def _in_order(parts: list[Piece]) -> Piece:
    lines = np.concatenate([part.lines for part in parts])
    rows = together([part.rows for part in parts])
    if np.all(lines[1:] > lines[:-1]):
        return Piece(parts[0].entity, lines, rows)
    order = np.argsort(lines, kind="stable")
    return Piece(parts[0].entity, lines[order], rows.take(pa.array(order)))
