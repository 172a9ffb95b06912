"""A table -> the indexes it has and what they cover; with the ones it lacks, all of them staged in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import lance
import msgspec
from lance import LanceOperation
from lance.dataset import Index

from omnigraph.errors import InvalidInput, Kind
from omnigraph.ids import new_ulid
from omnigraph.store.durable import NewFile
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.stage import Counts, Staged
from omnigraph.store.tables import Table, TableRef

_UNTRAINABLE: Final = "KMeans cannot train"
"""What Lance says when its sample of a column holds no vector that has a direction."""


class IndexKind(StrEnum):
    """The kinds of Lance index we build."""

    BTREE = "BTREE"
    BITMAP = "BITMAP"
    INVERTED = "INVERTED"
    VECTOR = "IVF_SQ"


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
    except raised_by_lance() as error:
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


class Segment(msgspec.Struct, frozen=True):
    """An index whose files are written and which nobody can see: where, from which version, and over which data files."""

    ref: TableRef
    name: str
    index: Any
    covers: Mapping[int, tuple[str, ...]]

    @property
    def files(self) -> Iterator[NewFile]:
        folder = f"{self.ref.home}/_indices/{self.index.uuid}"
        return (NewFile(f"{folder}/{file.path}", file.size_bytes) for file in self.index.files)


def write_index(table: Table, spec: IndexSpec) -> Segment | None:
    """Write the files of one index. None when a vector index finds nothing in the column that it could learn from."""
    if spec.column not in table.schema.names:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{table.ref.path} has no column {spec.column!r} to index", column=spec.column)
    covers = _data_files(table)
    try:
        index = table.dataset.create_index_uncommitted(
            spec.column, spec.kind.value, name=spec.name, replace=True, fragment_ids=list(covers), **spec.options
        )
        if spec.kind is IndexKind.INVERTED:
            # Without this step every full-text query on the table fails: the segment's token file is still in parts.
            index = table.dataset.merge_existing_index_segments([index])
    except TypeError as error:
        wrong = f"a column of type {table.schema.field(spec.column).type} cannot have a {spec.kind} index"
        raise InvalidInput(Kind.INVALID_ARGUMENT, wrong, column=spec.column) from error
    except RuntimeError as error:
        if spec.kind is IndexKind.VECTOR and _UNTRAINABLE in str(error):
            return None
        raise table.failed(error, doing=f"build index {spec.name} on") from error
    except raised_by_lance() as error:
        raise table.failed(error, doing=f"build index {spec.name} on") from error
    return Segment(table.ref, spec.name, index, covers)


def fits(segment: Segment, table: Table) -> bool:
    """Whether an index written at an earlier version still says the truth at this one.

    Rows deleted since are left out by whoever reads, rows added or rewritten since lie in other fragments and are scanned.
    A fragment is the same while its data files are. An index of which nothing is left (an overwrite, a compaction) is of no use.
    """
    if (segment.ref.path, segment.ref.branch) != (table.ref.path, table.ref.branch):
        return False
    now = _data_files(table)
    left = segment.covers.keys() & now.keys()
    return all(now[fragment] == segment.covers[fragment] for fragment in left) and (bool(left) or not now)


def build(table: Table, specs: Sequence[IndexSpec], *, ready: Sequence[Segment] = (), uuid: str | None = None) -> Staged | None:
    """Stage every index of `specs`: one transaction, one version. None when there is nothing to build.

    An index of the same kind that a column has already is replaced.
    `ready` are indexes of these names whose files are written already; those that no longer fit are written again.
    """
    replaced = _replaced(table, specs)
    written = {segment.name: segment for segment in ready if fits(segment, table)}
    found = [written[spec.name] if spec.name in written else write_index(table, spec) for spec in specs]
    segments = [segment for segment in found if segment is not None]
    if not segments:
        return None
    gone = [old for segment in segments for old in replaced[segment.name]]
    operation = LanceOperation.CreateIndex([segment.index for segment in segments], gone)
    transaction = lance.Transaction(table.ref.version, operation, uuid=uuid or new_ulid())
    return Staged(table, transaction, Counts(), tuple(file for segment in segments for file in segment.files))


def _replaced(table: Table, specs: Sequence[IndexSpec]) -> dict[str, list[Any]]:
    """By the name of each spec, the segments that it makes superfluous. A name that another index has is refused."""
    described = table.dataset.describe_indices()
    old: dict[str, list[Any]] = {}
    for spec in specs:
        same = [index for index in described if (index.field_names[0], _kind(index.index_type)) == (spec.column, spec.kind)]
        if spec.name in old or spec.name in {index.name for index in described} - {index.name for index in same}:
            raise InvalidInput(Kind.INVALID_ARGUMENT, f"{table.ref.path} has an index {spec.name!r} already", index=spec.name)
        old[spec.name] = [segment for index in same for segment in _segments(index)]
    return old


def _segments(index: Any) -> Iterator[Any]:
    for part in index.segments:
        version = part.dataset_version_at_last_update
        yield Index(part.uuid, index.name, list(index.fields), version, part.fragment_ids, part.index_version, base_id=part.base_id)


def _data_files(table: Table) -> dict[int, tuple[str, ...]]:
    return {fragment.fragment_id: tuple(file.path for file in fragment.metadata.files) for fragment in table.dataset.get_fragments()}
