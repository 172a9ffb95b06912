"""A table -> its indexes and their coverage. A table and index specifications -> one staged transaction that builds them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from omnigraph.store.tables import Table, TableRef, own_handle

GROWTH: Final = 4
"""A new segment replaces those of at most this many times its rows."""

_UNTRAINABLE: Final = "KMeans cannot train"
"""Lance's message if its sample of a column has no nonzero vector."""


class LanceIndexKind(StrEnum):
    """The kinds of Lance index we build."""

    BTREE = "BTREE"
    BITMAP = "BITMAP"
    INVERTED = "INVERTED"
    VECTOR = "IVF_SQ"


class IndexSpec(msgspec.Struct, frozen=True):
    """An index to build: column, kind, name, and the options of the kind."""

    column: str
    kind: LanceIndexKind
    name: str
    options: Mapping[str, Any] = {}


class BuiltIndex(msgspec.Struct, frozen=True):
    """An index of a table. Queries scan the rows that it does not cover.

    `column` is the current name of the column. `kind` is None for a kind that we do not build.
    """

    name: str
    column: str
    kind: LanceIndexKind | None
    covered_rows: int
    uncovered_rows: int


def existing(table: Table) -> tuple[BuiltIndex, ...]:
    """The indexes of a table, sorted by name. They come from the open version; no storage is read."""
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


def _kind(described: str) -> LanceIndexKind | None:
    if described.startswith("IVF_"):
        return LanceIndexKind.VECTOR
    return {"BTree": LanceIndexKind.BTREE, "Bitmap": LanceIndexKind.BITMAP, "Inverted": LanceIndexKind.INVERTED}.get(described)


class Segment(msgspec.Struct, frozen=True):
    """An index whose files are written but not committed: the table version it was built from, and the data files it covers."""

    ref: TableRef
    name: str
    index: Any
    covers: Mapping[int, tuple[str, ...]]

    @property
    def files(self) -> Iterator[NewFile]:
        directory = f"{self.ref.home}/_indices/{self.index.uuid}"
        return (NewFile(f"{directory}/{file.path}", file.size_bytes) for file in self.index.files)


def write_index(table: Table, spec: IndexSpec, *, fragments: Collection[int] | None = None) -> Segment | None:
    """Writes the files of one index over the whole table, or over some fragments. Returns None for a vector index on a column that has
    no vectors to train on. No other thread may use the handle meanwhile: see `own_handle`.
    """
    if spec.column not in table.schema.names:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{table.ref.path} has no column {spec.column!r} to index", column=spec.column)
    covers = {part: files for part, files in _data_files(table).items() if fragments is None or part in fragments}
    table.checks.columns([spec.column], fragments=covers)
    try:
        index = table.dataset.create_index_uncommitted(
            spec.column, spec.kind.value, name=spec.name, replace=True, fragment_ids=list(covers), **spec.options
        )
        if spec.kind is LanceIndexKind.INVERTED:
            # Without this step, every full-text query on the table fails, because the token file of the segment is still in parts.
            index = table.dataset.merge_existing_index_segments([index])
    except TypeError as error:
        message = f"a column of type {table.schema.field(spec.column).type} cannot have a {spec.kind} index"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, column=spec.column) from error
    except RuntimeError as error:
        if spec.kind is LanceIndexKind.VECTOR and _UNTRAINABLE in str(error):
            return None
        raise table.failed(error, doing=f"build index {spec.name} on") from error
    except raised_by_lance() as error:
        raise table.failed(error, doing=f"build index {spec.name} on") from error
    return Segment(table.ref, spec.name, index, covers)


def fits(segment: Segment, table: Table) -> bool:
    """Whether an index written at an earlier version is correct at this one.

    Readers skip rows deleted since. Rows added or rewritten since are in other fragments, which readers scan. A fragment is unchanged
    if its data files are. An index whose fragments are all gone (after an overwrite or a compaction) does not fit.
    """
    if (segment.ref.path, segment.ref.branch) != (table.ref.path, table.ref.branch):
        return False
    now = _data_files(table)
    left = segment.covers.keys() & now.keys()
    return all(now[fragment] == segment.covers[fragment] for fragment in left) and (bool(left) or not now)


def build(table: Table, specs: Sequence[IndexSpec], *, ready: Sequence[Segment] = (), uuid: str | None = None) -> Staged | None:
    """Stages every index of `specs` in one transaction. Returns None if there is nothing to build.

    Replaces an existing index of the same kind on the same column. `ready` holds indexes of these names whose files are already
    written; those that no longer fit are written again.
    """
    replaced = _replaced(table, specs)
    written = {segment.name: segment for segment in ready if fits(segment, table)}
    apart = own_handle(table) if any(spec.name not in written for spec in specs) else table
    found = [written[spec.name] if spec.name in written else write_index(apart, spec) for spec in specs]
    segments = [segment for segment in found if segment is not None]
    if not segments:
        return None
    gone = [old for segment in segments for old in replaced[segment.name]]
    operation = LanceOperation.CreateIndex([segment.index for segment in segments], gone)
    transaction = lance.Transaction(table.ref.version, operation, uuid=uuid or new_ulid())
    return Staged(table, transaction, Counts(), tuple(file for segment in segments for file in segment.files))


def _replaced(table: Table, specs: Sequence[IndexSpec]) -> dict[str, list[Any]]:
    """The segments that each spec replaces, by the name of the spec. Refuses a name that another index has."""
    described = table.dataset.describe_indices()
    old: dict[str, list[Any]] = {}
    for spec in specs:
        same = [index for index in described if (index.field_names[0], _kind(index.index_type)) == (spec.column, spec.kind)]
        if spec.name in old or spec.name in {index.name for index in described} - {index.name for index in same}:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT, f"{table.ref.path} already has an index {spec.name!r}; choose another name", index=spec.name
            )
        old[spec.name] = [segment for index in same for segment in _segments(index)]
    return old


class IndexPart(msgspec.Struct, frozen=True):
    """A committed segment of an index. `fragments` are those it was built on; some may be gone since."""

    name: str
    uuid: str
    fragments: frozenset[int]
    index: Any


def parts_of(table: Table) -> tuple[IndexPart, ...]:
    """The segments of every index of a table. They come from the open version; no storage is read."""
    try:
        described = table.dataset.describe_indices()
    except raised_by_lance() as error:
        raise table.failed(error, doing="list the indexes of") from error
    found = (segment for index in described for segment in _segments(index))
    return tuple(IndexPart(each.name, str(each.uuid), frozenset(each.fragment_ids), each) for each in found)


def extension(
    parts: Collection[IndexPart], rows: Mapping[int, int], *, most_rows: int | None = None
) -> tuple[frozenset[int], tuple[IndexPart, ...]]:
    """The fragments that a new segment of an index should cover, and the segments that it replaces. Empty if all rows are covered.
    Segments with more than `most_rows` rows stay.

    `rows` are the live rows of each fragment. A segment is replaced if it is small beside the new one, or if most of its fragments are
    gone. So an index has few segments, and each row is indexed a logarithmic number of times.
    """
    covered = {part.uuid: part.fragments & rows.keys() for part in parts}
    chosen = frozenset(rows.keys() - frozenset().union(*covered.values()))
    if not chosen:
        return chosen, ()
    replaced = []
    for part in sorted(parts, key=lambda part: sum(rows[each] for each in covered[part.uuid])):
        alive = covered[part.uuid]
        count = sum(rows[each] for each in alive)
        if most_rows is not None and count > most_rows:
            continue
        if count <= GROWTH * sum(rows[each] for each in chosen) or 2 * len(alive) < len(part.fragments):
            chosen |= alive
            replaced.append(part)
    return chosen, tuple(replaced)


def stage_segments(table: Table, segments: Sequence[Segment], replaced: Sequence[IndexPart], *, version: int, uuid: str) -> Staged:
    """Stages the addition of written segments and the removal of those they replace, in one transaction on this version."""
    new = [dataclasses.replace(segment.index, dataset_version=version) for segment in segments]
    transaction = lance.Transaction(version, LanceOperation.CreateIndex(new, [part.index for part in replaced]), uuid=uuid)
    return Staged(table, transaction, Counts(), tuple(file for segment in segments for file in segment.files))


def _segments(index: Any) -> Iterator[Any]:
    for part in index.segments:
        version = part.dataset_version_at_last_update
        yield Index(part.uuid, index.name, list(index.fields), version, part.fragment_ids, part.index_version, base_id=part.base_id)


def _data_files(table: Table) -> dict[int, tuple[str, ...]]:
    return {fragment.fragment_id: tuple(file.path for file in fragment.metadata.files) for fragment in table.dataset.get_fragments()}
