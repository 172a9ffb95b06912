"""A table -> the groups of fragments that are better stored as few, the same rows in new files, and the transaction that swaps them.

Rewriting moves rows and changes none. The new files are written before any lock is taken, and no version names them. Their fragments
have ids above all others of the table, chosen here, so that indexes can be built on them before the commit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

import lance
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from omnigraph.errors import StorageError
from omnigraph.store.blobs import blob_names, stored
from omnigraph.store.difference import deleted_rows
from omnigraph.store.durable import NewFile
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.fragments import Fragment, fragments
from omnigraph.store.origins import RowOrigin, old_fragment, origins_of
from omnigraph.store.stage import Counts, Staged, every_field, new_data_files
from omnigraph.store.tables import Table, at_home, own_handle

TARGET_ROWS: Final = 1_048_576
"""A rewritten fragment has about this many rows, or about `TARGET_BYTES`, whichever it reaches first."""
TARGET_BYTES: Final = 1 << 30
GROWTH: Final = 4
"""Fragments are rewritten together only if each is at most this many times as large as all smaller ones together. So each row is
rewritten a logarithmic number of times, however often a growing table is compacted.
"""
MANY_DELETED: Final = 10
"""A fragment is rewritten without its deleted rows if they are more than one in this many."""
ID_GAP: Final = 1_024
"""How many fragments other writers may add to the table while it is rewritten, before the new ids would be in their way."""
_SMALL_FILE_BYTES: Final = 1 << 20
_BATCH_BYTES: Final = 16 << 20
_BATCH_ROWS: Final = 8_192

Group = tuple[Fragment, ...]
"""Fragments to store as one, or, if they are large, as a few."""


class Rewrite(msgspec.Struct, frozen=True):
    """The rows of some fragments, in new files that no version names. `new` is the metadata of their fragments, with ids."""

    old: Group
    new: tuple[Any, ...]
    files: tuple[NewFile, ...]
    origins: tuple[RowOrigin, ...] = ()
    """Which rows the new fragments hold, for comparisons with versions that have the old ones."""


def live_rows(fragment: Fragment) -> int:
    return fragment.rows - (fragment.deletions[2] if fragment.deletions is not None else 0)


def groups_to_rewrite(table: Table, *, most_rows: int | None = None) -> list[Group]:
    """The groups of fragments to rewrite: small ones, and those with many deleted rows. Fragments with more than `most_rows` rows, or
    as large by their bytes, stay.

    The result of a rewrite is not rewritten again, unless the table changes.
    """
    found = [part for part in fragments(table) if most_rows is None or part.rows <= most_rows]
    fullness = _fullness(table, found)
    if most_rows is not None:  # bytes are bounded in the same proportion
        found = [part for part in found if fullness[part.id] <= most_rows / TARGET_ROWS]
    worn = {part.id for part in found if (part.rows - live_rows(part)) * MANY_DELETED > part.rows}
    small = sorted((part for part in found if fullness[part.id] < 0.5), key=lambda part: (fullness[part.id], part.id))
    groups: list[list[Fragment]] = []
    total = 0.0
    for part in small:
        if groups and fullness[part.id] <= GROWTH * total:
            groups[-1].append(part)
        else:
            groups.append([part])
            total = 0.0
        total += fullness[part.id]
    known = {part.id for part in small}
    groups += [[part] for part in found if part.id in worn and part.id not in known]
    chosen = (group for group in groups if len(group) > 1 or group[0].id in worn)
    return sorted((tuple(sorted(group, key=lambda part: part.id)) for group in chosen), key=lambda group: group[0].id)


def _fullness(table: Table, found: Sequence[Fragment]) -> dict[int, float]:
    """How full each fragment is: 1 is the size that a rewrite aims at."""
    blobs = _blob_bytes(table, found)
    return {part.id: max(live_rows(part) / TARGET_ROWS, (_file_bytes(table, part) + blobs[part.id]) / TARGET_BYTES) for part in found}


def _file_bytes(table: Table, part: Fragment) -> float:
    """The bytes of large data files that its live rows take. Most of a small file is its header, which a rewrite does not multiply."""
    sizes = [file.file_size_bytes or 0 for file in table.dataset.get_fragment(part.id).metadata.files]
    return sum(size for size in sizes if size > _SMALL_FILE_BYTES) * live_rows(part) / max(part.rows, 1)


def _blob_bytes(table: Table, found: Sequence[Fragment]) -> dict[int, int]:
    """The bytes of the blobs of each fragment. Reads their descriptors, and no blob."""
    names = blob_names(table.schema)
    if not names:
        return dict.fromkeys((part.id for part in found), 0)
    try:
        return {part.id: _described(table, part, names) for part in found}
    except raised_by_lance() as error:
        raise table.failed(error, doing="read blob sizes of") from error


def _described(table: Table, part: Fragment, names: Sequence[str]) -> int:
    table.checks.columns(names, fragments=[part.id])
    scanner = table.dataset.scanner(
        columns=list(names), fragments=[table.dataset.get_fragment(part.id)], blob_handling="blobs_descriptions"
    )
    described = scanner.to_table()
    return sum(pc.sum(pc.struct_field(described.column(name), "size")).as_py() or 0 for name in names)


def first_free_id(table: Table) -> int:
    """An id for a new fragment, far enough above those of the table that other writers do not reach it soon.

    An index also lists fragments that are gone. It would count a new fragment with the id of one of them as its own.
    """
    used = [part.id for part in fragments(table)] + [part for index in table.indexes for part in index.fragments]
    return max(used, default=-1) + 1 + ID_GAP


def rewrite(table: Table, group: Group, *, first_id: int) -> Rewrite:
    """Writes the rows of these fragments, without the deleted ones, to new files."""
    rows = sum(map(live_rows, group))
    if not rows:
        return Rewrite(group, (), ())
    blobs = sum(_blob_bytes(table, group).values())
    pieces = max(1, int(max(rows / TARGET_ROWS, (sum(_file_bytes(table, part) for part in group) + blobs) / TARGET_BYTES)))
    table.checks.everything(part.id for part in group)
    try:
        scanner = table.dataset.scanner(
            fragments=[table.dataset.get_fragment(part.id) for part in group],
            blob_handling="all_binary",
            batch_size=max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(blobs, 1))),
            scan_in_order=True,  # the origins rely on it
        )
        schema = stored(table.schema.empty_table()).schema
        reader = pa.RecordBatchReader.from_batches(schema, _stored_batches(table, scanner.to_reader()))
        written = write_fragments(reader, table.dataset, mode="append", max_rows_per_file=-(-rows // pieces))
    except raised_by_lance() as error:
        raise table.failed(error, doing="rewrite fragments of") from error
    new = tuple(dataclasses.replace(fragment, id=first_id + at) for at, fragment in enumerate(written))
    origins = origins_of([old_fragment(part, deleted_rows(table, part)) for part in group], new)
    return Rewrite(group, new, tuple(new_data_files(table.ref.home, new)), origins)


def _stored_batches(table: Table, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        yield from stored(pa.Table.from_batches([batch]).cast(table.schema)).to_batches()


def still_fits(table: Table, rewrites: Collection[Rewrite]) -> bool:
    """Whether the rewritten fragments are those of this version, with the same rows deleted, and the new ids are free."""
    here = {part.id: part for part in fragments(table)}
    unchanged = all(here.get(part.id) == part for each in rewrites for part in each.old)
    taken = max((*here, *(part for index in table.indexes for part in index.fragments)), default=-1)
    return unchanged and all(part.id > taken for each in rewrites for part in each.new)


def stage_rewrites(table: Table, rewrites: Sequence[Rewrite], *, uuid: str | None = None) -> Staged:
    """Stages the swap of the rewritten fragments for the new ones, in one transaction."""
    operation = LanceOperation.Update(
        removed_fragment_ids=[part.id for each in rewrites for part in each.old],
        updated_fragments=[],
        new_fragments=[part for each in rewrites for part in each.new],
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=every_field(table),
    )
    transaction = lance.Transaction(table.ref.version, operation, uuid=uuid or str(uuid4()))
    return Staged(table, transaction, Counts(), tuple(file for each in rewrites for file in each.files))


@contextmanager
def preview(table: Table, rewrites: Sequence[Rewrite]) -> Iterator[Table]:
    """The table as it will be after the swap, to build indexes on. It has a version file that no reader finds, removed at the end."""
    if not rewrites:
        yield own_handle(table)
        return
    staged = stage_rewrites(table, rewrites)
    try:
        dataset = at_home(table.root, table.ref.path, LanceDataset.commit(table.dataset, staged.transaction, detached=True))
    except raised_by_lance() as error:
        raise table.failed(error, doing="rewrite fragments of") from error
    try:
        yield Table(table.root, table.ref, dataset, sums=table.sums)
    finally:
        with suppress(StorageError):  # a file that no reader finds is harmless
            for file in (f"_versions/d{dataset.version}.manifest", f"_transactions/{table.ref.version}-{staged.uuid}.txn"):
                table.root.objects.delete(f"{table.ref.home}/{file}")


def files_after(table: Table, rewrites: Collection[Rewrite]) -> Mapping[int, tuple[str, ...]]:
    """The data files of each fragment after the swap."""
    gone = {part.id for each in rewrites for part in each.old}
    kept = {part.id: part.files for part in fragments(table) if part.id not in gone}
    return kept | {part.id: tuple(file.path for file in part.files) for each in rewrites for part in each.new}


def rows_after(table: Table, rewrites: Collection[Rewrite]) -> Mapping[int, int]:
    """The live rows of each fragment after the swap."""
    gone = {part.id for each in rewrites for part in each.old}
    kept = {part.id: live_rows(part) for part in fragments(table) if part.id not in gone}
    return kept | {part.id: part.physical_rows for each in rewrites for part in each.new}
