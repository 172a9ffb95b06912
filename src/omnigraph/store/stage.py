"""A table and a change -> written files and a staged transaction, which `commit` applies by moving HEAD by exactly one version.

Staging never moves HEAD. Only `commit` does (and `advance`, its first half), on the handle on which the change was staged: a
transaction staged on one branch and committed on another succeeds and leaves the table unreadable. Every transaction is **fenced**:
it lists fragment 0 of its base as updated, so that any two changes from one base conflict. Otherwise Lance would rebase the second
onto the first, and a staged upsert no longer has the filter that protects new keys.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol
from uuid import uuid4

import lance
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, Outcome
from omnigraph.faults import Fault, reach
from omnigraph.grid import counted
from omnigraph.store.arrays import Column, joined, whole
from omnigraph.store.blobs import blob_names, blobs_last, stored
from omnigraph.store.deletions import remember_deleted
from omnigraph.store.durable import NewFile, settle, settle_visible, version_file
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.fold import SMALL_ROWS, fold, foldable, light
from omnigraph.store.intact import Access, by_index
from omnigraph.store.keys import addresses_of, remember
from omnigraph.store.membership import LIMIT_BYTES, KeySet, matching
from omnigraph.store.process import refuse_forked_child
from omnigraph.store.root import Root
from omnigraph.store.tables import ADDRESS, KEY, Table, TableRef, at_home, one_of, open_dataset, uuid_in_doubt
from omnigraph.store.take import blob_files

IN_LIST = 1_000
"""Up to this many keys are looked up by an IN list, which can use an index. Past it, a scan of the key column is cheaper."""


BATCH_ROWS = 65_536
"""How many rows of a key column are looked up together."""


class Keys(Protocol):
    """Keys in memory or in files. They can be read repeatedly."""

    @property
    def rows(self) -> int: ...

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Batches with these columns. Callers pass only `KEY`."""
        ...


class HeldKeys(msgspec.Struct, frozen=True):
    """Keys in a column in memory."""

    column: Column

    @property
    def rows(self) -> int:
        return len(self.column)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return iter(pa.table([self.column], names=list(columns)).to_batches())


class Counts(msgspec.Struct, frozen=True):
    """How many rows a staged change inserts, updates and deletes."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


class Staged(msgspec.Struct, frozen=True):
    """A change whose files are written but not committed. After a crash, `uuid` identifies its commit.

    `files` are the files that the change names and that are not checked and flushed yet.
    """

    table: Table
    transaction: Any
    counts: Counts
    files: tuple[NewFile, ...]

    @property
    def uuid(self) -> str:
        return str(self.transaction.uuid)


def append(table: Table, rows: pa.Table, *, uuid: str | None = None) -> Staged | None:
    """Stages rows whose keys are known to be new. Returns None if there are no rows."""
    if not len(rows):
        return None
    operation = _adding(table, fitted(table, rows), without=np.empty(0, dtype=np.uint64))
    return _staged(table, operation, Counts(inserted=len(rows)), uuid)


def write_files(table: Table, rows: pa.Table) -> list[Any]:
    """Writes rows as data files in the table's directory. They are not visible to readers until `put_files` names them in a commit.

    The caller ensures that no key occurs twice, because a table may be written in several parts.
    """
    return _write(table, blobs_last(conformed(table, rows))) if len(rows) else []


def put_files(
    table: Table,
    fragments: Sequence[Any],
    *,
    replaced: Keys | None = None,
    whole: bool = False,
    limit_bytes: int = LIMIT_BYTES,
    uuid: str | None = None,
) -> Staged | None:
    """Stages data files written earlier. Removes the rows whose ids are in `replaced`, or with `whole` all existing rows.

    Returns None if nothing would change. Holds up to `limit_bytes` of ids in memory, and more in temporary files.
    """
    if whole:
        return _replace_all(table, list(fragments), uuid)
    if not fragments:
        return None
    rows = sum(fragment.physical_rows for fragment in fragments)
    gone = np.empty(0, np.uint64) if replaced is None else _addresses_of(table, replaced, limit_bytes=limit_bytes)
    touched, removed = hide_rows(table, gone)
    operation = LanceOperation.Update(
        removed_fragment_ids=removed,
        updated_fragments=touched,
        new_fragments=list(fragments),
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=every_field(table),
    )
    counts = Counts(inserted=rows - len(gone), updated=len(gone))
    return _staged(table, _taking_along(table, operation), counts, uuid)


def upsert(table: Table, rows: pa.Table, *, uuid: str | None = None) -> Staged | None:
    """Stages a replacement of rows whose key exists and an insert of the others, in one transaction (W-01). Returns None for no rows."""
    if not len(rows):
        return None
    checked = fitted(table, rows)
    if len(checked) <= IN_LIST:  # a lookup of the keys takes a third of the time of planning a merge
        replaced = _addresses_of(table, HeldKeys(checked.column(KEY)))
        counts = Counts(inserted=len(checked) - len(replaced), updated=len(replaced))
        return _staged(table, _adding(table, checked, without=replaced), counts, uuid)
    operation, stats = _merge(table, checked)
    counts = Counts(inserted=stats["num_inserted_rows"], updated=stats["num_updated_rows"])
    return _staged(table, _taking_along(table, operation), counts, uuid)


def patch(
    table: Table, removed: Any, *, rows: pa.Table | None = None, fragments: Sequence[Any] = (), uuid: str | None = None
) -> Staged | None:
    """Stages the removal of the rows at these addresses and the addition of rows, or of data files written earlier, in one transaction.

    Returns None if nothing would change.
    """
    if rows is not None and len(rows):
        counts = Counts(inserted=len(rows), deleted=len(removed))
        return _staged(table, _adding(table, fitted(table, rows), without=removed), counts, uuid)
    if not fragments:
        return _delete(table, removed, uuid)
    touched, gone = hide_rows(table, removed)
    operation = LanceOperation.Update(
        removed_fragment_ids=gone,
        updated_fragments=touched,
        new_fragments=list(fragments),
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=every_field(table),
    )
    counts = Counts(inserted=sum(fragment.physical_rows for fragment in fragments), deleted=len(removed))
    return _staged(table, _taking_along(table, operation), counts, uuid)


def delete_keys(table: Table, keys: Column, *, uuid: str | None = None) -> Staged | None:
    """Stages a delete of rows by key. Returns None if no key exists: an empty delete must not move HEAD (W-17)."""
    return _delete(table, _addresses_of(table, HeldKeys(keys)), uuid)


def overwrite(table: Table, rows: pa.Table, *, uuid: str | None = None) -> Staged:
    """Stages a replacement of all rows in one transaction, never a delete and an insert (W-31). `rows` may be empty."""
    return _replace_all(table, _write(table, fitted(table, rows)) if len(rows) else [], uuid)


def _replace_all(table: Table, fragments: list[Any], uuid: str | None) -> Staged:
    """Stages a replacement of all fragments. Does not use Lance's overwrite: it renumbers the fields, and then neither files written
    earlier for the table nor the marks on its columns would fit.
    """
    operation = LanceOperation.Update(
        removed_fragment_ids=[fragment.fragment_id for fragment in table.dataset.get_fragments()],
        updated_fragments=[],
        new_fragments=fragments,
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=every_field(table),
    )
    counts = Counts(inserted=sum(fragment.physical_rows for fragment in fragments), deleted=table.count())
    return _staged(table, operation, counts, uuid)


def put_back(table: Table, version: int, *, uuid: str) -> Staged:
    """Stages a new version with the content of an earlier one. Only for recovery, under the branch's lock.

    A restore hides all commits since that version, so the caller must have checked every version between.
    """
    return _staged(table, LanceOperation.Restore(version), Counts(), uuid)


def settle_files(root: Root, staged: Iterable[Staged], *, beside: Callable[[], None] | None = None) -> None:
    """Checks and flushes the files of these changes, and runs another flush at the same time."""
    settle(root, [file for each in staged for file in each.files], beside=beside)


def settled(staged: Staged) -> Staged:
    """The change after `settle_files`: a commit may make it visible."""
    return msgspec.structs.replace(staged, files=())


def commit(staged: Staged) -> Table:
    """Moves HEAD by one version, as `advance` does, and flushes the new version before it returns."""
    moved = advance(staged)
    keep(moved.root, [moved.ref])
    return moved


def keep(root: Root, refs: Sequence[TableRef]) -> None:
    """Checks and flushes the version files of commits, before anything depends on them."""
    settle_visible(root, version_files(refs))


def version_files(refs: Iterable[TableRef]) -> list[str]:
    return [f"{ref.home}/{version_file(ref.version)}" for ref in refs]


def settle_version(table: Table, *, before: Table) -> None:
    """Checks and flushes the files of a version that `before` did not name. Its writer died, and may not have flushed them."""
    settle(table.root, {*_named_files(table), *_new_blobs(table, before=before)} - set(_named_files(before)))


def _named_files(table: Table) -> Iterator[NewFile]:
    """Every file in the table's own directory that its version names. Files that a native branch inherits are in its parent's directory."""
    home = table.ref.home
    own = [fragment.metadata for fragment in table.dataset.get_fragments()]
    for fragment in own:
        yield from (NewFile(f"{home}/data/{file.path}", file.file_size_bytes) for file in fragment.files if file.base_id is None)
        if fragment.deletion_file is not None and fragment.deletion_file.base_id is None:
            yield NewFile(f"{home}/{fragment.deletion_file.path(fragment.id)}")
    for index in table.dataset.describe_indices():
        for uuid in (segment.uuid for segment in index.segments if segment.base_id is None):
            yield from map(NewFile, table.root.objects.list(f"{home}/_indices/{uuid}"))


def advance(staged: Staged) -> Table:
    """Moves HEAD by one version: the result is base + 1 and has the staged uuid. Raises ConflictError if HEAD has moved.

    The new version is visible at HEAD, but not durable before `keep`.
    """
    refuse_forked_child()
    table, base = staged.table, staged.table.ref.version
    settle(table.root, staged.files)
    reach(Fault.STAGE_BEFORE_COMMIT)
    if isinstance(staged.transaction.operation, LanceOperation.CreateIndex) and table.head() != base:
        raise _lost(table)  # an index cannot be fenced: after a concurrent commit, it would move HEAD past the published version
    try:
        moved = at_home(table.root, table.ref.path, LanceDataset.commit(table.dataset, fence(table, staged.transaction), max_retries=0))
    except CommitConflictError as error:
        raise _lost(table) from error
    except raised_by_lance() as error:
        moved = _after_doubt(staged, error)
    reach(Fault.STAGE_AFTER_COMMIT)
    if moved.version != base + 1:
        raise _slipped(staged, moved.version)
    after = Table(table.root, table.ref.at(moved.version), moved, sums=table.sums)
    settle(table.root, _new_blobs(after, before=table))
    return after


def _new_blobs(table: Table, *, before: Table) -> Iterator[NewFile]:
    """The blob files of new fragments. Only the version that names them records their sizes."""
    if blob_names(table.schema):
        known = {fragment.fragment_id for fragment in before.dataset.get_fragments()}
        new = [fragment.fragment_id for fragment in table.dataset.get_fragments() if fragment.fragment_id not in known]
        yield from blob_files(table, new)


def fence(table: Table, transaction: Any) -> Any:
    """The transaction, changed so that it conflicts with every other one from the same base (P-05..P-07)."""
    operation, fragments = transaction.operation, table.dataset.get_fragments()
    if isinstance(operation, (LanceOperation.Overwrite, LanceOperation.Merge, LanceOperation.CreateIndex, LanceOperation.Restore)):
        # The first two conflict by themselves without retries. An index changes no rows. Recovery restores under a lock.
        return transaction
    if not fragments:
        new = operation.fragments if isinstance(operation, LanceOperation.Append) else operation.new_fragments
        return dataclasses.replace(transaction, operation=LanceOperation.Merge(list(new), table.dataset.lance_schema))
    first = fragments[0].metadata
    if isinstance(operation, LanceOperation.Append):
        fenced: Any = dataclasses.replace(_as_update(table, operation), updated_fragments=[first])
    else:
        gone = operation.deleted_fragment_ids if isinstance(operation, LanceOperation.Delete) else operation.removed_fragment_ids
        if first.id in gone or any(f.id == first.id for f in operation.updated_fragments):
            return transaction
        fenced = dataclasses.replace(operation, updated_fragments=[*operation.updated_fragments, first])
    return dataclasses.replace(transaction, operation=fenced)


# -- parts


def _adding(table: Table, rows: pa.Table, *, without: Any) -> Any:
    """The operation that adds these rows and removes those at the addresses `without`. Folds a few small fragments into the fragment
    of the new rows.
    """
    touched, removed = hide_rows(table, without)
    group, folded = _small(table, touched={*removed, *(fragment.id for fragment in touched)})
    parts = [rows] if folded is None else [folded, rows]
    if len(parts) > 1 and not blob_names(table.schema):  # a blob belongs to the file it was written to
        parts = [pa.concat_tables(parts)]
    return LanceOperation.Update(
        removed_fragment_ids=[*removed, *group],
        updated_fragments=touched,
        new_fragments=[fragment for part in parts for fragment in _write(table, part)],
        update_mode="rewrite_rows",
        fields_for_preserving_frag_bitmap=every_field(table),
    )


def _taking_along(table: Table, change: Any) -> Any:
    """An update whose new rows are already written, with a few small fragments folded into one."""
    group, folded = _small(table, touched={*change.removed_fragment_ids, *(fragment.id for fragment in change.updated_fragments)})
    if folded is None:
        return change
    return dataclasses.replace(
        change,
        removed_fragment_ids=[*change.removed_fragment_ids, *group],
        new_fragments=[*change.new_fragments, *_write(table, folded)],
    )


def _small(table: Table, *, touched: set[int]) -> tuple[list[int], pa.Table | None]:
    """The ids of the small fragments to fold, and their rows. None if there are too few, or if their blobs are too large."""
    group = fold(foldable(table, touched=touched), incoming=1)
    if not group:
        return [], None
    try:
        if not light(table, group, blob_names(table.schema)):
            return [], None
        rows = _rows_of(table, group)
    except raised_by_lance() as error:
        raise table.failed(error, doing="fold small fragments of") from error
    return [fragment.fragment_id for fragment in group], rows


def _rows_of(table: Table, group: Sequence[Any]) -> pa.Table:
    """The rows of a few small fragments. Those that this process wrote are still in memory."""
    known = [table.root.memory.rows(fragment.metadata, fields=every_field(table)) for fragment in group]
    held = [rows for rows in known if rows is not None]
    if len(held) == len(known):
        return pa.concat_tables(held)
    table.checks.everything(fragment.fragment_id for fragment in group)
    return stored(table.dataset.scanner(fragments=list(group), blob_handling="all_binary").to_table().cast(table.schema))


def _as_update(table: Table, operation: Any) -> Any:
    """An append as an update, which can also remove fragments. The field list keeps the new fragments out of index coverage. If an
    index counted them as covered, queries would not find their rows.
    """
    return LanceOperation.Update(
        new_fragments=list(operation.fragments), update_mode="rewrite_rows", fields_for_preserving_frag_bitmap=every_field(table)
    )


def every_field(table: Table) -> list[int]:
    return [field.id() for field in table.dataset.lance_schema.fields()]


def _staged(table: Table, operation: Any, counts: Counts, uuid: str | None) -> Staged:
    transaction = lance.Transaction(table.ref.version, operation, uuid=uuid or str(uuid4()))
    return Staged(table, transaction, counts, tuple(new_files(operation, table.ref)))


def _write(table: Table, rows: pa.Table) -> list[Any]:
    try:
        written = write_fragments(rows, table.dataset, mode="append")
    except raised_by_lance() as error:
        raise table.failed(error, doing="write to") from error
    remember(table, written, rows)
    if len(written) == 1 and len(rows) < SMALL_ROWS and not blob_names(rows.schema):  # a later write may fold it
        table.root.memory.keep_rows(written[0], rows, fields=every_field(table))
    return list(written)


def _merge(table: Table, rows: pa.Table) -> tuple[Any, dict[str, int]]:
    def ask(access: Access) -> Any:
        table.checks.columns([KEY])
        builder = table.dataset.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
        return builder.use_index(access is Access.BY_INDEX).execute_uncommitted(rows)

    try:
        transaction, stats = by_index(table, ask, on=KEY)
    except raised_by_lance() as error:
        raise table.failed(error, doing="upsert into") from error
    return transaction.operation, stats


def _delete(table: Table, addresses: Any, uuid: str | None) -> Staged | None:
    if not len(addresses):
        return None
    touched, gone = hide_rows(table, addresses)
    operation = LanceOperation.Delete(touched, gone, "")
    return _staged(table, operation, Counts(deleted=len(addresses)), uuid)


def hide_rows(table: Table, addresses: Any) -> tuple[list[Any], list[int]]:
    """Removes the rows at `addresses`. Returns the fragments with a new deletion file, and the ids of those without rows left."""
    touched: list[Any] = []
    gone: list[int] = []
    ascending = np.sort(addresses)
    owners = ascending >> np.uint64(32)
    for part in np.split(ascending, np.flatnonzero(np.diff(owners)) + 1) if len(ascending) else ():
        owner = int(part[0] >> np.uint64(32))
        table.checks.deletions([owner])  # the new file has the rows of the old one too
        offsets = part & np.uint64(0xFFFFFFFF)
        try:
            fragment = table.dataset.get_fragment(owner)
            left = fragment.delete_rows(offsets.tolist())
        except raised_by_lance() as error:
            raise table.failed(error, doing="delete from") from error
        if left is None:
            gone.append(owner)
        else:
            touched.append(left)
            remember_deleted(table, fragment.metadata, left, offsets)
    return touched, gone


def _addresses_of(table: Table, keys: Keys, *, limit_bytes: int = LIMIT_BYTES) -> Any:
    """The addresses of the rows with these keys, in no particular order."""
    if not keys.rows:
        return np.empty(0, np.uint64)
    values = (_keys(table, batch.column(KEY)) for batch in keys.read([KEY]))
    if keys.rows <= IN_LIST:
        few = whole(joined(values, table.schema.field(KEY).type))
        return found if (found := addresses_of(table, few)) is not None else table.addresses(one_of(KEY, few))
    known = KeySet.of(values, limit_bytes=limit_bytes)
    rows = matching(known, table.scan([KEY], addresses=True, batch_rows=BATCH_ROWS), on=KEY)
    return np.concatenate([np.empty(0, np.uint64), *(batch.column(ADDRESS).to_numpy() for batch in rows)])


def _keys(table: Table, keys: Column) -> Column:
    """The keys, cast to the type of the table's key column."""
    try:
        return keys.cast(table.schema.field(KEY).type)
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"the keys do not have the key type of {table.ref.path}: {error}") from error


def fitted(table: Table, rows: pa.Table, *, schema: pa.Schema | None = None) -> pa.Table:
    """The rows as the table stores them, or will store them with other columns. Refuses missing and repeated keys."""
    ready = conformed(table, rows, schema=schema)
    _refuse_bad_keys(ready)
    return ready


def conformed(table: Table, rows: pa.Table, *, schema: pa.Schema | None = None) -> pa.Table:
    """The rows as the table stores them: with its columns and types, or those of `schema`, and with bytes as blobs."""
    wanted = table.schema if schema is None else schema
    if missing := [name for name in wanted.names if name not in rows.schema.names]:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"rows for {table.ref.path} lack the columns {', '.join(missing)}", columns=missing)
    if len(set(rows.schema.names)) < len(rows.schema.names):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"rows for {table.ref.path} have two columns with the same name", columns=rows.schema.names
        )
    try:
        return stored(rows.select(wanted.names).cast(wanted))
    except (pa.ArrowException, ValueError) as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"rows do not fit the columns of {table.ref.path}: {error}") from error


def _refuse_bad_keys(rows: pa.Table) -> None:
    # Lance silently inserts a row for every null key, and both rows of two equal new keys.
    keys = rows.column(KEY)
    if keys.null_count:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{KEY!r} is null in {counted(keys.null_count, 'row')}")
    if len(rows) > 1 and len(rows) != (distinct := pc.count_distinct(keys).as_py()):
        times = pc.value_counts(keys)
        twice = times.filter(pc.greater(times.field("counts"), 1)).field("values")[0]
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{len(rows)} rows have only {distinct} distinct ids; {twice} is repeated", id=twice.as_py()
        )


def new_files(operation: Any, ref: TableRef) -> Iterator[NewFile]:
    """The data and deletion files that a transaction adds to its base."""
    yield from new_data_files(ref.home, [*getattr(operation, "new_fragments", ()), *getattr(operation, "fragments", ())])
    for fragment in getattr(operation, "updated_fragments", ()):
        deletions = fragment.deletion_file
        if deletions is not None and deletions.base_id is None and deletions.read_version == ref.version:
            yield NewFile(f"{ref.home}/{deletions.path(fragment.id)}")


def new_data_files(home: str, fragments: Iterable[Any]) -> Iterator[NewFile]:
    """The data files of fragments written in `home`."""
    return (NewFile(f"{home}/data/{file.path}", file.file_size_bytes) for fragment in fragments for file in fragment.files)


def _after_doubt(staged: Staged, error: BaseException) -> Any:
    """Resolves a commit whose response was lost: the uuid of the next version identifies its writer."""
    table, ref = staged.table, staged.table.ref
    landed = uuid_in_doubt(table.root, ref.at(ref.version + 1), error)
    if landed == staged.uuid:
        return open_dataset(table.root, ref.at(ref.version + 1))
    if landed is not None:
        raise _lost(table) from error
    outcome = Outcome.DID_NOT_HAPPEN if table.root.is_local else Outcome.UNKNOWN
    raise lance_error(error, doing="commit to", path=table.root.of(ref.home), outcome=outcome) from error


def _lost(table: Table) -> ConflictError:
    return ConflictError(
        Kind.VERSION_MISMATCH,
        f"{table.ref.path} moved past version {table.ref.version} while a change was prepared; prepare it again",
        table=table.ref.path,
        expected=table.ref.version,
    )


def _slipped(staged: Staged, version: int) -> OmniGraphError:
    """The error for a commit that the fence does not stop, such as an index or a compaction by another program."""
    ref = staged.table.ref
    return OmniGraphError(
        Kind.DRIFT,
        f"a change of {ref.path} staged on version {ref.version} was committed as version {version}: "
        "another program commits to the table directly; stop it, then run `omnigraph verify`",
        table=ref.path,
        expected=ref.version + 1,
        actual=version,
        uuid=staged.uuid,
    )
