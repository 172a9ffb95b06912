"""(path, native branch, version) -> the table at exactly that version, for scans with or without an overlay of pending rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

import lance
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.debug import list_transactions
from lance.file import LanceFileReader
from lance.query import MatchQuery

from omnigraph.errors import InvalidInput, Kind, Outcome, StorageError
from omnigraph.ids import new_ulid
from omnigraph.lru import Lru
from omnigraph.store.arrays import Column, joined
from omnigraph.store.bases import home, rebased
from omnigraph.store.blobs import blob_names, plain, plain_schema, stored_schema
from omnigraph.store.checked import Sums, TableChecks, fragments_of
from omnigraph.store.damage import IndexFiles
from omnigraph.store.durable import (
    find_newest,
    forget_newest,
    is_newest,
    is_torn,
    lost_version,
    numbered_versions,
    settle_visible,
    version_file,
)
from omnigraph.store.failure import lance_error, missing_table, raised_by_lance, reclaimed
from omnigraph.store.intact import Access, by_index, by_search_index, files_of, index_files, mentions, passed_by, without_index
from omnigraph.store.membership import Members, others
from omnigraph.store.posting_lists import PostingList
from omnigraph.store.process import refuse_forked_child
from omnigraph.store.root import Root
from omnigraph.store.word_lists import TEXTS, WordLists, open_lists

KEY: Final = "id"
ADDRESS: Final = "_rowaddr"
PLACE: Final = "__place"
PRIMARY_KEY: Final = {b"lance-schema:unenforced-primary-key": b"true"}
FILE_FORMAT: Final = "2.2"
HANDLES: Final = 64
"""How many tables stay open. A handle takes a few kilobytes; opening one again costs one or two reads."""

_REFINED: Final = re.compile(r"refine_filter=(.*)")
"""The part of a filter that no index answers, at the end of a line of a plan. `--` if there is none."""
_ONE_OF: Final = re.compile(r"\(?`(\w+)` IN \('(?:[^']|'')*'(?:, '(?:[^']|'')*')*\)\)?")
"""A filter that is nothing but `one_of`. Whether an index answers it does not depend on its texts."""
_FEW_TEXTS: Final = 3
"""DataFusion makes comparisons of a list of up to three texts."""
_NO_SUMS: Final[Sums] = {}
_RENDERED_OPERATION: Final = re.compile(r"\boperation: (\w+)")
_RENDERED_UUID: Final = re.compile(r'\buuid: "([^"]+)"')

Where: TypeAlias = "str | pc.Expression"
"""A filter: SQL text or a pyarrow expression."""


class TableRef(msgspec.Struct, frozen=True, cache_hash=True):
    """One version of one table. Two native branches can use the same version number, so the branch is part of the reference."""

    path: str
    branch: str | None
    version: int

    @property
    def home(self) -> str:
        return home(self.path, self.branch)

    def at(self, version: int) -> TableRef:
        return TableRef(self.path, self.branch, version)


class Overlay(msgspec.Struct, frozen=True, dict=True):
    """The pending changes of a writer: rows to insert or replace, and ids to delete."""

    rows: pa.Table | None = None
    deleted: Column | None = None

    @cached_property
    def shadowed(self) -> Members:
        """The ids of committed rows that the overlay hides (Y-03)."""
        parts = [part for part in (self.rows.column(KEY) if self.rows is not None else None, self.deleted) if part is not None]
        return Members(joined((part.cast(pa.string()) for part in parts), pa.string()))


class WordIndexRows(NamedTuple):
    """The addresses (numpy uint64) of the rows that a full-text index found, and the fragments that it covers."""

    addresses: Any
    covered: frozenset[int]


class WordIndexScores(NamedTuple):
    """The addresses (numpy uint64) of the rows that a full-text index found, and Lance's scores of them (numpy float64)."""

    addresses: Any
    scores: Any


class WordIndexCounts(NamedTuple):
    """The addresses (numpy uint64) of the texts in a full-text index with the number of their words, and the fragments that it covers.

    Rows that were deleted since are among them. The lists of its words name texts in this order; None if their format is not known.
    """

    addresses: Any
    counts: Any
    covered: frozenset[int]
    lists: WordLists | None


class Table:
    """A table at one version, for reads and as the base of a staged change. It is immutable.

    `sums` are the recorded checksums of its files, by default those that the graph finds for the version. What reads rows or an index
    compares them by `checks`, before rows leave this package.
    """

    def __init__(self, root: Root, ref: TableRef, dataset: Any, *, sums: Sums | None = None) -> None:
        self.root: Final = root
        self.ref: Final = ref
        self.dataset: Final = dataset
        self._sums: Final = sums
        self._answered: Final[set[tuple[str, bool]]] = set()
        """The shapes of filters that indexes answer, with the rows outside of their coverage compared. Nothing is left to compare."""

    @cached_property
    def sums(self) -> Sums:
        """The checksums that commits recorded for its files, and for others."""
        return self._sums if self._sums is not None else self.root.sums_of(self.ref)

    @cached_property
    def checks(self) -> TableChecks:
        """The comparisons of its files with their checksums."""
        return TableChecks(self.root.checked, self.sums, self.dataset, path=self.ref.path, branch=self.ref.branch)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as callers see them, with blobs as plain bytes."""
        try:
            return plain_schema(self.dataset.schema)
        except raised_by_lance() as error:
            raise self.failed(error, doing="read the columns of") from error

    @cached_property
    def indexes(self) -> tuple[IndexFiles, ...]:
        """The files of its indexes, from the version file."""
        try:
            return index_files(self.dataset, path=self.ref.path, branch=self.ref.branch)
        except KeyError as error:  # a number in the version file changed
            raise self.failed(error, doing="list the indexes of") from error
        except raised_by_lance() as error:
            raise self.failed(error, doing="list the indexes of") from error

    def count(self, where: Where | None = None) -> int:
        def ask(access: Access) -> int:
            self.check_filter(where, access)
            if access is Access.BY_INDEX:
                return int(self.dataset.count_rows(filter=where))
            return int(self.dataset.scanner(columns=[], filter=where, with_row_address=True, use_scalar_index=False).count_rows())

        try:
            return by_index(self, ask, on=where)
        except raised_by_lance() as error:
            raise self.failed(error, doing="count rows of") from error

    def head(self) -> int:
        """The newest version of this native branch, by any writer. Costs one probe, which on a disk does not grow with the history."""
        if is_newest(self.root, self.ref.home, self.ref.version):
            return self.ref.version
        try:
            return int(self.dataset.latest_version)
        except raised_by_lance() as error:
            raise self.failed(error, doing="probe") from error

    def scan(
        self,
        columns: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        limit: int | None = None,
        addresses: bool = False,
        overlay: Overlay | None = None,
        batch_rows: int | None = None,
        fragments: Sequence[int] | None = None,
    ) -> pa.RecordBatchReader:
        """Reads the rows that match a filter. With an overlay: the committed rows it does not hide, then its own, under the same filter.

        `fragments` restricts the scan to the fragments with these ids, for a caller that reads a table in parts.
        """
        names = list(columns) if columns is not None else self.schema.names
        if overlay is None:
            return self._reader(names, where=where, limit=limit, addresses=addresses, batch_rows=batch_rows, fragments=fragments)
        schema = self._reader(names, where="false", limit=None, addresses=addresses).schema
        return pa.RecordBatchReader.from_batches(schema, _first(self._laid_over(names, schema, where, overlay, addresses=addresses), limit))

    def _reader(
        self,
        names: list[str],
        *,
        where: Where | None,
        limit: int | None,
        addresses: bool,
        batch_rows: int | None = None,
        fragments: Sequence[int] | None = None,
    ) -> pa.RecordBatchReader:
        unproven = not self.checks.are_right(names)

        def ask(access: Access) -> pa.RecordBatchReader:
            self.check_filter(where, access, fragments)
            scanner = self.dataset.scanner(
                columns=names,
                filter=where,
                limit=limit,
                with_row_address=addresses or unproven,  # they say which bytes of the files the rows are from
                batch_size=batch_rows,
                blob_handling="all_binary",
                fragments=None if fragments is None else [self.dataset.get_fragment(part) for part in fragments],
                use_scalar_index=access is Access.BY_INDEX,
            )
            return scanner.to_reader()

        try:
            reader = by_index(self, ask, on=where)
        except raised_by_lance() as error:
            raise self.scan_failed(error, names, fragments) from error
        known, blobs = self.schema, blob_names(reader.schema)
        shown = [field for field in reader.schema if addresses or field.name != ADDRESS]
        schema = pa.schema([known.field(field.name) if field.name in blobs else field for field in shown])
        batches = self._batches(reader, ask, where, names, fragments)
        if unproven:
            batches = self._proven(batches, names, whole=where is None and limit is None and fragments is None)
        return pa.RecordBatchReader.from_batches(schema, (plain(batch.select(schema.names), schema) for batch in batches))

    def _batches(
        self,
        reader: pa.RecordBatchReader,
        ask: Callable[[Access], pa.RecordBatchReader],
        where: Where | None,
        names: Sequence[str],
        fragments: Sequence[int] | None,
    ) -> Iterator[pa.RecordBatch]:
        """The batches of a scan. Converts errors of Lance, which can occur at any batch.

        Lance uses indexes before it returns the first batch. So a scan can restart without indexes up to that point, but not later.
        """
        try:
            try:
                first, rest = _begun(reader)
            except raised_by_lance() as error:
                first, rest = without_index(self, lambda access: _begun(ask(access)), on=where, error=error)
            while first is not None:
                yield first
                first = next(rest, None)
        except raised_by_lance() as error:
            raise self.scan_failed(error, names, fragments) from error

    def _proven(self, batches: Iterator[pa.RecordBatch], names: Sequence[str], *, whole: bool) -> Iterator[pa.RecordBatch]:
        """The batches of a scan, each after its rows were compared with the checksums of their files. `whole`: they are all rows."""
        blobs = [name for name in names if name in blob_names(self.schema)]
        done: set[int] = set()
        for batch in batches:
            places = batch.column(ADDRESS).to_numpy(zero_copy_only=False)
            if whole:
                owners = set(fragments_of(places)) - done
                self.checks.columns(names, fragments=owners)
                done |= owners
            else:
                self.checks.rows(names, places)
            for name in blobs:
                self.checks.blobs(name, places)
            yield batch
        if whole:
            self.checks.columns(names)  # all of it was compared: from now on a lookup in memory says so

    def check_filter(self, where: Where | None, access: Access, fragments: Sequence[int] | None = None) -> None:
        """Compares what Lance reads to find the rows that match a filter, with their deletion files.

        With indexes, these are the fragments that they do not cover, and the columns of conditions that they do not answer.
        """
        self.checks.deletions(fragments)
        names = [name for name in self.schema.names if where is not None and mentions(where, name)]
        if not names or self.checks.are_right(names):
            return
        used = [index for index in self.indexes if index.is_scalar and index.column in names]
        if access is Access.BY_SCAN or not used:
            self.checks.columns(names, fragments=fragments)
            return
        if (shape := _shape(where)) in self._answered:
            return
        plan = self.dataset.scanner(columns=[], filter=where, with_row_address=True).explain_plan()
        left = [] if "ScalarIndexQuery" in plan and len(_REFINED.findall(plan)) == 1 else [str(where)]
        left += [text for text in _REFINED.findall(plan) if text != "--"]
        refined = [name for name in names if any(mentions(text, name) for text in left)]
        self.checks.columns(refined, fragments=fragments)
        covered = frozenset.intersection(*(_covered(index for index in used if index.column == name) for name in {i.column for i in used}))
        every = fragments if fragments is not None else [part.fragment_id for part in self.dataset.get_fragments()]
        self.checks.columns(names, fragments=[part for part in every if part not in covered])
        if shape is not None and fragments is None and not refined:
            self._answered.add(shape)

    def _laid_over(
        self, names: list[str], schema: pa.Schema, where: Where | None, overlay: Overlay, *, addresses: bool
    ) -> Iterator[pa.RecordBatch]:
        # The key is read even if it was not selected: it identifies the hidden rows (Y-05).
        wanted = names if KEY in names else [*names, KEY]
        committed = self._reader(wanted, where=where, limit=None, addresses=addresses)
        yield from (batch.select(schema.names) for batch in others(overlay.shadowed, committed, on=KEY))
        if overlay.rows is not None and len(overlay.rows):
            pending = self._pending(overlay.rows, where).select(names)
            if addresses:  # a pending row has no address yet
                pending = pending.append_column(ADDRESS, pa.nulls(len(pending), pa.uint64()))
            yield from pending.cast(schema).to_batches()

    def _pending(self, rows: pa.Table, where: Where | None) -> pa.Table:
        try:
            return matching(rows.select(self.schema.names).cast(self.schema), where)
        except (KeyError, OSError, ValueError, pa.ArrowException) as error:
            raise self.failed(error, doing="lay pending rows over") from error

    def nearest(self, column: str, query: Sequence[float], count: int, *, where: str | None, probes: int, refine: int) -> pa.Table | None:
        """Finds `refine` times `count` rows that are about the nearest to the query, of those that match the filter, by the index on the
        column, for the caller to compare.

        Returns the column and the addresses of the rows; rows that the index does not cover are included. Returns None if the index
        cannot be used. The index is approximate: `probes` of its parts are searched at least.
        """

        files = [index for index in self.indexes if index.is_vector and index.column == column]

        def ask() -> pa.Table:
            scalar = not passed_by(self.root, self.indexes)
            self.check_filter(where, Access.BY_INDEX if scalar else Access.BY_SCAN)
            covered = _covered(files)
            self.checks.columns(
                [column], fragments=[part.fragment_id for part in self.dataset.get_fragments() if part.fragment_id not in covered]
            )
            # Lance would compare them too, for a factor given to it, and then read the vectors of the best again.
            wanted = {"column": column, "q": pa.array(query, pa.float32()), "k": refine * count, "metric": "cosine"}
            found = self.dataset.scanner(
                columns=[column],
                nearest={**wanted, "minimum_nprobes": probes},
                filter=where,
                prefilter=True,
                with_row_address=True,
                use_scalar_index=scalar,
                disable_scoring_autoprojection=True,
            ).to_table()
            self.checks.rows([column], found.column(ADDRESS).to_numpy())
            return found

        return by_search_index(self, files, ask)

    def having_words(self, column: str, query: str) -> WordIndexRows | None:
        """Finds the rows whose text has a word of the query, by the full-text index on the column. None if the index cannot be used."""
        files = [index for index in self.indexes if index.is_text and index.column == column]

        def ask() -> WordIndexRows:
            scanner = self.dataset.scanner(
                columns=[],
                full_text_query=MatchQuery(query, column),
                fast_search=True,
                with_row_address=True,
                disable_scoring_autoprojection=True,
            )
            return WordIndexRows(scanner.to_table().column(ADDRESS).to_numpy(), _covered(files))

        return by_search_index(self, files, ask)

    def word_scores(self, column: str, word: str) -> WordIndexScores | None:
        """Finds the rows whose text has a word, by the full-text index on the column. None if the index cannot be used."""
        files = [index for index in self.indexes if index.is_text and index.column == column]

        def ask() -> WordIndexScores:
            query = MatchQuery(word, column)
            found = self.dataset.scanner(columns=["_score"], full_text_query=query, fast_search=True, with_row_address=True).to_table()
            return WordIndexScores(found.column(ADDRESS).to_numpy(), found.column("_score").to_numpy().astype(np.float64))

        return by_search_index(self, files, ask)

    def word_counts(self, column: str) -> WordIndexCounts | None:
        """Reads how many words each text has, from the full-text index on the column. None if the index cannot be used."""
        files = [index for index in self.indexes if index.is_text and index.column == column]

        def ask() -> WordIndexCounts:
            sizes = {file: size for index in files for file, size in files_of(self.root, index).items()}
            paths = [file for file in sizes if file.endswith(TEXTS)]
            options = self.root.storage_options
            read = [LanceFileReader(self.root.of(file), storage_options=options).read_all().to_table() for file in paths]
            lists = open_lists(self.root, [(file, len(table)) for file, table in zip(paths, read, strict=True)], sizes)
            rows = [table.column(name).to_numpy() for table in read for name in ("_rowid", "_num_tokens")]
            addresses, counts = (np.concatenate([np.zeros(0, np.uint64), *rows[at::2]]) for at in (0, 1))
            return WordIndexCounts(addresses.astype(np.uint64), counts.astype(np.int64), _covered(files), lists)

        return by_search_index(self, files, ask)

    def listed(self, column: str, lists: WordLists, words: Sequence[str]) -> list[PostingList] | None:
        """Reads which texts have each of these words, from the lists of the full-text index on the column. None if it cannot be used."""
        files = [index for index in self.indexes if index.is_text and index.column == column]
        return by_search_index(self, files, lambda: lists.of(words))

    def addresses(self, where: Where) -> Any:
        """The physical addresses (numpy uint64: fragment << 32 | offset) of matching rows."""
        found = self._reader([], where=where, limit=None, addresses=True).read_all()
        return found.column(ADDRESS).to_numpy()

    def take(self, addresses: Any, columns: Sequence[str]) -> pa.Table:
        """Reads the rows at these addresses (numpy uint64), in that order, with repetitions. No row may be deleted."""
        self.checks.rows(columns, addresses)
        try:
            # Our tables have no stable row ids, so the id of a row is its address.
            return self.dataset._take_rows(pa.array(addresses, pa.uint64()), columns=list(columns))
        except raised_by_lance() as error:
            raise self.failed(error, doing="read rows of") from error

    def scan_failed(self, error: BaseException, names: Sequence[str], fragments: Iterable[int] | None) -> BaseException:
        """The exception to raise in place of an error of Lance in a scan: if a file changed, the error that names it."""
        failure = self.failed(error, doing="scan")
        if isinstance(failure, StorageError):
            self.checks.columns(names, fragments=fragments)
        return failure

    def failed(self, error: BaseException, *, doing: str) -> BaseException:
        """The exception to raise in place of an error of Lance. The handle may be of a version whose files were removed since."""
        if "not found" in str(error).lower() and _is_reclaimed(self.root, self.ref):
            return reclaimed(self.ref.path, branch=self.ref.branch, version=self.ref.version)
        return lance_error(error, doing=doing, path=self.root.of(self.ref.home))


class Tables:
    """The open tables of one graph root. Handles share one session; the least recently used are closed first."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._open: Final = Lru[TableRef, Table](HANDLES)

    def open(self, ref: TableRef) -> Table:
        """Opens the table at exactly that version. Raises NotFound if the version does not exist or was removed."""
        refuse_forked_child()
        if (table := self._open.get(ref)) is not None:
            return table
        sums = self._root.sums_of(ref)
        if (expected := sums.get(path := f"{ref.home}/{version_file(ref.version)}")) is not None:
            self._root.checked.check(path, expected, table=ref.path)
        return self.keep(Table(self._root, ref, open_dataset(self._root, ref), sums=sums))

    def keep(self, table: Table) -> Table:
        """Keeps a handle that a commit returned, so that the next read does not open the table again (K-02)."""
        return self._open.put(table.ref, table)

    def forget(self, refs: Iterable[TableRef]) -> None:
        """Drops handles whose versions were removed. Lance would still read from its caches."""
        for ref in refs:
            self._open.discard(ref)


def create_table(root: Root, path: str, schema: pa.Schema, *, uuid: str | None = None) -> Table:
    """Creates an empty table at a new path, without stable row ids, with `id` marked as the key.

    This is the only commit without a staged base. It needs no fence: the table is not visible to readers before a publish names it,
    and a path is never used twice.
    """
    keyed = stored_schema(key_annotated(schema))
    uri = root.of(path)
    try:
        birth = lance.Transaction(0, LanceOperation.Overwrite(keyed, []), uuid=uuid or str(uuid4()))
        dataset = LanceDataset.commit(uri, birth, max_retries=0, storage_options=root.storage_options, enable_stable_row_ids=False)
    except raised_by_lance() as error:
        raise lance_error(error, doing="create", path=uri) from error
    ref = TableRef(path, None, dataset.version)
    settle_visible(root, [f"{path}/{version_file(ref.version)}"])
    return Table(root, ref, open_dataset(root, ref), sums=_NO_SUMS)


def open_dataset(root: Root, ref: TableRef) -> Any:
    """The Lance dataset at exactly that version."""
    try:
        return _lance(root, ref.path, ref.branch, ref.version)
    except raised_by_lance() as error:
        if _is_reclaimed(root, ref):
            raise reclaimed(ref.path, branch=ref.branch, version=ref.version) from error
        if not root.objects.exists(f"{ref.home}/{version_file(ref.version)}"):
            raise missing_table(ref.path, branch=ref.branch, version=ref.version) from error
        raise lance_error(error, doing="open", path=root.of(ref.home)) from error


def own_handle(table: Table) -> Table:
    """The same version with a handle of its own, for a call during which Lance refuses every other use of the handle."""
    return Table(table.root, table.ref, open_dataset(table.root, table.ref), sums=table.sums)


def require_version(root: Root, ref: TableRef) -> None:
    """Raises NotFound if a version does not exist. Opens nothing."""
    if not root.objects.exists(f"{ref.home}/{version_file(ref.version)}"):
        raise reclaimed(ref.path, branch=ref.branch, version=ref.version)


def _covered(files: Iterable[IndexFiles]) -> frozenset[int]:
    return frozenset().union(*(index.fragments for index in files))


def _is_reclaimed(root: Root, ref: TableRef) -> bool:
    """Whether this version is missing and a newer one exists. Numbers in file names count down, so the first file is the newest."""
    if ref.version < 1 or root.objects.exists(f"{ref.home}/{version_file(ref.version)}"):
        return False
    files = [name for name in root.objects.list(f"{ref.home}/_versions") if name.endswith(".manifest")]
    return bool(files) and files[0] < f"{ref.home}/{version_file(ref.version)}"


class TornHead(StorageError):
    """The file of the newest version of a table is incomplete or lost. The fact `version` holds its number."""


def open_newest(root: Root, path: str, *, branch: str | None) -> Any:
    """The Lance dataset at HEAD."""
    directory = home(path, branch)
    if (version := find_newest(root, directory)) is not None:
        with suppress(*raised_by_lance()):  # removed meanwhile, or incomplete: Lance finds the newest version in a listing
            return _lance(root, path, branch, version)
    if (lost := lost_version(root, directory)) is not None and (left := _newest(root, directory)) is not None and left < lost:
        file = root.of(f"{directory}/{version_file(lost)}")
        gone = f"{file} is missing, and no interrupted write explains it: the newest version is lost. Restore it from a backup"
        raise TornHead(Kind.CORRUPT, gone, path=file, version=left + 1)
    try:
        return _lance(root, path, branch, None)
    except raised_by_lance() as error:
        if not root.objects.exists(f"{directory}/_versions"):
            raise missing_table(path, branch=branch, version=None) from error
        if (version := torn_head(root, path, branch=branch)) is not None:
            file = root.of(f"{directory}/{version_file(version)}")
            torn = f"{file} is incomplete, and no interrupted write explains it; restore it from a backup"
            raise TornHead(Kind.CORRUPT, torn, path=file, version=version) from error
        raise lance_error(error, doing="open", path=root.of(directory)) from error


def torn_head(root: Root, path: str, *, branch: str | None) -> int | None:
    """The newest version, if its file is incomplete: a power failure came before its flush, or the disk was full. Else None."""
    directory = home(path, branch)
    version = _newest(root, directory) if root.is_local else None
    return version if version is not None and is_torn(root, f"{directory}/{version_file(version)}") else None


def _newest(root: Root, directory: str) -> int | None:
    return max(numbered_versions(root.objects.list(f"{directory}/_versions")), default=None)


def discard_torn_head(root: Root, path: str, *, branch: str | None, after: int) -> None:
    """Removes incomplete versions newer than `after`, from the newest down. Their commits did not happen.

    The caller must hold the branch's lock. Lance creates a version file as a link to a complete file, so the file of a running
    writer is never incomplete.
    """
    if lost_version(root, home(path, branch)) is not None:
        forget_newest(root, home(path, branch))
    while (version := torn_head(root, path, branch=branch)) is not None and version > after:
        forget_newest(root, home(path, branch))
        root.objects.delete(f"{home(path, branch)}/{version_file(version)}")


def table_at_head(root: Root, path: str, *, branch: str | None) -> Table:
    """A table at its newest version, published or not, for recovery and maintenance."""
    dataset = open_newest(root, path, branch=branch)
    return Table(root, TableRef(path, branch, dataset.version), dataset)


def _lance(root: Root, path: str, branch: str | None, version: int | None) -> Any:
    uri = root.of(home(path, branch))
    dataset = lance.dataset(uri, version=version, session=root.session, storage_options=root.storage_options or None)
    return at_home(root, path, dataset)


def at_home(root: Root, path: str, dataset: Any) -> Any:
    """The open dataset, reading the files that it inherits from other lines of the table where the graph is now.

    Every handle comes through here: its version may have been written when the graph was elsewhere. Nothing is written; a commit on
    the handle returned records the present paths.
    """

    def place(name: str | None) -> str:
        return root.of(home(path, name))

    if all(base.path == place(base.name) for base in dataset.base_paths().values()):
        return dataset
    message = rebased(dataset._ds.serialized_manifest(), place)
    return LanceDataset(dataset.uri, session=root.session, storage_options=root.storage_options or None, serialized_manifest=message)


def committed_uuid(root: Root, ref: TableRef) -> str | None:
    """The uuid of the transaction that made a version (P-13). Returns None if the version is missing or incomplete."""
    file = f"{ref.home}/{version_file(ref.version)}"
    if not root.objects.exists(file) or is_torn(root, file):
        return None
    dataset = open_dataset(root, ref)
    try:
        return str(dataset.read_transaction(ref.version).uuid)
    except TypeError:  # pylance cannot represent a compaction that updated an index
        (rendered,) = list_transactions(dataset, 1)
        return str(_RENDERED_UUID.search(rendered)[1])  # type: ignore[index]  # Rust prints every field of a transaction
    except raised_by_lance() as error:
        raise lance_error(error, doing="read", path=root.of(ref.home)) from error


def operation_of(root: Root, ref: TableRef) -> str:
    """The name of the operation that made a version, as Lance calls it: `Append`, `Rewrite`."""
    dataset = open_dataset(root, ref)
    try:
        (rendered,) = list_transactions(dataset, 1)
    except raised_by_lance() as error:
        raise lance_error(error, doing="read", path=root.of(ref.home)) from error
    return str(_RENDERED_OPERATION.search(rendered)[1])  # type: ignore[index]  # Rust prints every field of a transaction


def uuid_in_doubt(root: Root, ref: TableRef, error: BaseException) -> str | None:
    """`committed_uuid`, after `error` lost the response of a commit. If this also fails, raises `error` with an unknown outcome."""
    try:
        return committed_uuid(root, ref)
    except StorageError as blind:
        raise lance_error(error, doing="commit to", path=root.of(ref.home), outcome=Outcome.UNKNOWN) from blind


def key_annotated(schema: pa.Schema) -> pa.Schema:
    """The schema with exactly its `id` column marked as Lance's unenforced primary key."""
    if KEY not in schema.names:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"a table needs a column {KEY!r}; this schema has {', '.join(schema.names)}")
    fields = []
    for field in schema:
        metadata = {k: v for k, v in (field.metadata or {}).items() if k not in PRIMARY_KEY}
        if field.name == KEY:
            field = pa.field(KEY, field.type, nullable=False)
            metadata |= PRIMARY_KEY
        fields.append(field.with_metadata(metadata))
    return pa.schema(fields, metadata=schema.metadata)


def table_in_memory(root: Root, rows: pa.Table) -> Table:
    """Rows as a table that no other process sees, and that lasts as long as its handle. Blobs are not supported."""
    try:
        dataset = _in_memory(rows)
    except raised_by_lance() as error:
        raise lance_error(error, doing="hold pending rows of", path=root.uri) from error
    return Table(root, TableRef(dataset.uri, None, dataset.version), dataset, sums=_NO_SUMS)


def _in_memory(rows: pa.Table) -> Any:
    return lance.write_dataset(rows, f"memory://{new_ulid()}")


def matching(rows: pa.Table, where: Where | None) -> pa.Table:
    """The pending rows that match a filter. Lance evaluates it, as it does for committed rows, so that both have the same semantics."""
    if where is None:
        return rows
    if not (blobs := blob_names(rows.schema)):
        return _in_memory(rows).to_table(columns=rows.schema.names, filter=where)
    # Filters do not use blobs. So the filter runs without the blob columns, and selects rows by position.
    others = rows.select([name for name in rows.schema.names if name not in blobs])
    placed = others.append_column(PLACE, pa.array(range(len(rows)), pa.int64()))
    return rows.take(matching(placed, where).column(PLACE))


def one_of(column: str, values: pa.Array) -> str:
    """An SQL filter for rows whose `column` is one of these texts. Ignores nulls in `values`.

    Not a pyarrow expression: those reach Lance through Substrait, which refuses every table with a `date64` column.
    """
    quoted = pc.replace_substring(values.cast(pa.string()).drop_null(), pattern="'", replacement="''")
    if not len(quoted):
        return "false"
    listed = pc.binary_join(pa.ListArray.from_arrays([0, len(quoted)], quoted), "', '")
    return f"`{column}` IN ('{listed[0].as_py()}')"


def _shape(where: Where | None) -> tuple[str, bool] | None:
    """The column of a filter that is nothing but `one_of`, and whether it has few texts; None for other filters."""
    found = _ONE_OF.fullmatch(where) if isinstance(where, str) else None
    return None if found is None else (found[1], str(where).count("', '") < _FEW_TEXTS)


def _begun(reader: pa.RecordBatchReader) -> tuple[pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """Reads the first batch. Returns it, or None, and an iterator over the others."""
    batches = iter(reader)
    return next(batches, None), batches


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)
