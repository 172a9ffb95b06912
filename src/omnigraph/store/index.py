"""A table and the indexes it lacks -> all of them staged in one transaction."""

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


def existing(table: Table) -> dict[str, str]:
    """Index name -> column, of the indexes a table has."""
    return {index.name: index.field_names[0] for index in table.dataset.describe_indices()}


def uncovered_rows(table: Table, name: str) -> int:
    """How many rows an index does not cover yet. They are found all the same, by scanning."""
    return int(table.dataset.stats.index_stats(name)["num_unindexed_rows"])


def build(table: Table, specs: Sequence[IndexSpec], *, uuid: str | None = None) -> Staged | None:
    """Stage every index of `specs`: one transaction, one version. None when there is nothing to build."""
    if not specs:
        return None
    taken = set(existing(table))
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
