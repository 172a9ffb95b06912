"""A table -> the indexes it has and what they cover; with the ones it lacks, all of them staged in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import lance
import msgspec
from lance import LanceOperation

from omnigraph.errors import InvalidInput, Kind
from omnigraph.ids import new_ulid
from omnigraph.store.stage import Counts, Staged
from omnigraph.store.tables import Table


class IndexKind(StrEnum):
    """The kinds of Lance index we build."""

    BTREE = "BTREE"
    BITMAP = "BITMAP"
    INVERTED = "INVERTED"
    VECTOR = "IVF_PQ"


class IndexSpec(msgspec.Struct, frozen=True):
    """One index to build: on which column, of which kind, under which name; `options` are the kind's own."""

    column: str
    kind: IndexKind
    name: str
    options: Mapping[str, Any] = {}


class BuiltIndex(msgspec.Struct, frozen=True):
    """An index that a table has. The rows it does not cover are found all the same, by scanning.

    `column` is what the column is called now. A kind that we do not build is None.
    """

    name: str
    column: str
    kind: IndexKind | None
    covered_rows: int
    uncovered_rows: int


def existing(table: Table) -> tuple[BuiltIndex, ...]:
    """The indexes of a table, by name. All of this stands in the table's version file: an open table needs no read."""
    try:
        described = table.dataset.describe_indices()
        rows = table.count() if described else 0
    except (OSError, ValueError) as error:
        raise table.failed(error, doing="list the indexes of") from error
    found = (
        BuiltIndex(index.name, index.field_names[0], _kind(index.index_type), index.num_rows_indexed, rows - index.num_rows_indexed)
        for index in described
    )
    return tuple(sorted(found, key=lambda index: index.name))


def _kind(described: str) -> IndexKind | None:
    if described.startswith("IVF_"):
        return IndexKind.VECTOR
    return {"BTree": IndexKind.BTREE, "Bitmap": IndexKind.BITMAP, "Inverted": IndexKind.INVERTED}.get(described)


def build(table: Table, specs: Sequence[IndexSpec], *, uuid: str | None = None) -> Staged | None:
    """Stage every index of `specs`: one transaction, one version. None when there is nothing to build."""
    if not specs:
        return None
    taken = {index.name for index in existing(table)}
    for spec in specs:
        if spec.name in taken:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{table.ref.path} has an index {spec.name!r} already", index=spec.name)
        if spec.column not in table.schema.names:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{table.ref.path} has no column {spec.column!r} to index", column=spec.column)
        taken.add(spec.name)
    segments = [_segment(table, spec) for spec in specs]
    operation = LanceOperation.CreateIndex(segments, [])
    transaction = lance.Transaction(table.ref.version, operation, uuid=uuid or new_ulid())
    files = tuple(f"_indices/{segment.uuid}/{file.path}" for segment in segments for file in segment.files)
    return Staged(table, transaction, Counts(), files)


def _segment(table: Table, spec: IndexSpec) -> Any:
    fragments = [fragment.fragment_id for fragment in table.dataset.get_fragments()]
    try:
        segment = table.dataset.create_index_uncommitted(
            spec.column, spec.kind.value, name=spec.name, fragment_ids=fragments, **spec.options
        )
        if spec.kind is IndexKind.INVERTED:
            # Without this step every full-text query on the table fails: the segment's token file is still in parts.
            segment = table.dataset.merge_existing_index_segments([segment])
    except TypeError as error:
        wrong = f"a column of type {table.schema.field(spec.column).type} cannot have a {spec.kind} index"
        raise InvalidInput(Kind.INVALID_ARGUMENT, wrong, column=spec.column) from error
    except (OSError, ValueError) as error:
        raise table.failed(error, doing=f"build index {spec.name} on") from error
    return segment
