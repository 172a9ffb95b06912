"""Rows of `__manifest` -> immutable facts and one small state, replaced as a whole by a compare-and-swap.

A ledger is a Lance dataset of rows keyed by `object_id`. Its newest fragment is the **state**: all mutable rows. All older fragments
are **facts**: rows that never change. A swap removes the state fragment that it was based on and adds a new one. So of two swaps from
one base exactly one succeeds, as version base + 1. The manifest package defines the meaning of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final

import lance
import pyarrow as pa
import pyarrow.compute as pc
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.store.durable import NewFile, settle, settle_visible, version_file
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.floor import read_floor
from omnigraph.store.fold import SMALL_ROWS, fold
from omnigraph.store.process import refuse_forked_child
from omnigraph.store.root import Root
from omnigraph.store.tables import FILE_FORMAT, PRIMARY_KEY, Table, TableRef, at_home, open_dataset, open_newest, uuid_in_doubt

COMPRESSED: Final = {
    b"lance-encoding:compression": b"zstd",
    b"lance-encoding:structural-encoding": b"miniblock",
    b"lance-encoding:minichunk-size": b"32768",
}
"""How Lance stores the bodies: many together in blocks of 32 KB, each compressed. They are alike, and Lance would store each by itself, in
more than twice the bytes. Like the key, it is set at creation. A graph that was created without it is written as before.
"""

ROWS: Final = pa.schema(
    [
        # The key is marked at creation (C-01), because Lance does not allow it to be set later (P-17).
        pa.field("object_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("born", pa.int64(), nullable=False),
        pa.field("body", pa.string(), nullable=False, metadata=COMPRESSED),
    ]
)


PER_SWAP: Final = 2
"""The most fragments that one swap adds: facts and the state."""
FEW_FACTS: Final = 1_024
"""A fragment with at most so many facts is read whole and once, in 0.7 to 1.5 ms and four reads. A filter costs as much each time."""


class SwapLost(ConflictError):
    """Another swap from the same base won. Nothing was changed. Read the new state and retry."""


class Ledger:
    """A ledger at one version of one native branch. Immutable: a swap returns the next one."""

    def __init__(self, root: Root, ref: TableRef, dataset: Any) -> None:
        self._root = root
        self._dataset = dataset
        self.ref: Final = ref

    @property
    def version(self) -> int:
        return self.ref.version

    # -- reading

    @property
    def metadata(self) -> dict[bytes, bytes]:
        """The metadata written at creation."""
        try:
            return dict(self._dataset.schema.metadata or {})
        except raised_by_lance() as error:
            raise self.as_table().failed(error, doing="read the stamps of") from error

    def state(self) -> pa.Table:
        """The mutable rows: all of the newest fragment, from which no row is ever deleted."""
        return self._taken(self._fragments()[-1])

    def find(self, object_id: str) -> pa.Table:
        """The fact with this id: one row or none. Looks into small fragments first, the newest of them first."""
        small, large = _by_size(self._facts_since(0))
        for fragment in reversed(small):
            if len(found := self._find_in(fragment, object_id)):
                return found
        return self._read(large, f"object_id = {_quoted(object_id)}")

    def find_early(self, object_id: str) -> pa.Table:
        """The same for a fact that was probably written long ago, such as a schema: the oldest fragments first."""
        each = (self._find_in(fragment, object_id) for fragment in self._facts_since(0))
        return next((found for found in each if len(found)), ROWS.empty_table())

    def _find_in(self, fragment: Any, object_id: str) -> pa.Table:
        if fragment.physical_rows > FEW_FACTS:
            return self._read([fragment], f"object_id = {_quoted(object_id)}")
        rows = self._all(fragment)
        return rows.filter(pc.equal(rows.column("object_id"), object_id))

    def facts(self, prefix: str, *, since: int = 0, until: int | None = None) -> pa.Table:
        """All facts whose id starts with `prefix` and that were written at version `since` or later, up to version `until`."""
        upto = "" if until is None else f" AND born <= {until}"
        return self._facts(f"{_starting(prefix)} AND born >= {since}{upto}")

    def held_facts(self, prefix: str) -> pa.Table:
        """All facts whose id starts with `prefix`. Small fragments that this process wrote or read before come from memory, so this is
        not for a check of what is stored.
        """
        held: list[pa.Table] = []
        unread: list[Any] = []
        large: list[Any] = []
        for fragment in self._fragments()[:-1]:
            if (rows := self._root.memory.rows(fragment.metadata, fields=())) is not None:
                held.append(rows)
            else:
                (unread if fragment.metadata.physical_rows < SMALL_ROWS else large).append(fragment)
        every = pa.concat_tables([ROWS.empty_table(), *held, self._keep(unread)])
        found = every.filter(pc.starts_with(every.column("object_id"), prefix))
        return pa.concat_tables([found, self._read(large, _starting(prefix))]) if large else found

    def recent(self, prefix: str, *, since: int) -> pa.Table:
        """The same as `facts`, for the newest: small fragments are read as a whole, which takes fewer reads than a filter."""
        small, large = _by_size(self._facts_since(since))
        rows = pa.concat_tables([self._read(large, f"{_starting(prefix)} AND born >= {since}"), *map(self._all, small)])
        wanted = pc.and_(pc.starts_with(rows.column("object_id"), prefix), pc.greater_equal(rows.column("born"), since))
        return rows.filter(wanted)

    def _facts_since(self, since: int) -> list[Any]:
        """The fragments, oldest first, that may have facts written at version `since` or later.

        Each version adds at most PER_SWAP fragments and numbers them upwards, so older fragments are known by their numbers.
        """
        *facts, state = self._fragments()
        before = state.fragment_id - PER_SWAP * (self.version - since + 1)
        return [fragment for fragment in facts if fragment.fragment_id > before]

    def _all(self, fragment: Any) -> pa.Table:
        """All rows of a small fragment. They stay in memory: branches share fragments, and a fact may be looked for again."""
        if (known := self._root.memory.rows(fragment.metadata, fields=())) is not None:
            return known
        rows = self._taken(fragment)
        self._root.memory.keep_rows(fragment.metadata, rows, fields=())
        return rows

    def _taken(self, fragment: Any) -> pa.Table:
        try:
            return fragment.take(list(range(fragment.physical_rows)), columns=ROWS.names)  # a scan would be planned, for twice the time
        except raised_by_lance() as error:
            raise self.as_table().failed(error, doing="read") from error

    def noted_versions(self) -> dict[str, int]:
        """The checksums of version files of tables that the swap to this version noted."""
        try:
            # On a handle of its own: Lance locks a handle while it reads a transaction, and other threads use this one.
            properties = open_dataset(self._root, self.ref).read_transaction(self.version).transaction_properties or {}
        except raised_by_lance() as error:
            raise self.as_table().failed(error, doing="read") from error
        return {path: int(value) for path, value in properties.items() if value.isdigit()}

    def newest_version(self) -> int:
        """The newest version on this branch, by any writer. Costs one probe."""
        return self.as_table().head()

    def at(self, version: int) -> Ledger:
        """The same branch at another version."""
        if version == self.version:
            return self
        return ledger_at(self._root, self.ref.at(version))

    def keep(self, version: int) -> None:
        """Checks and flushes a version that another writer committed, before anything depends on it. Ignores a removed version."""
        path = f"{self.ref.home}/{version_file(version)}"
        if self._root.objects.exists(path):
            settle_visible(self._root, [path])

    def as_table(self) -> Table:
        """The same handle as a table, for operations on any table, such as native branches."""
        return Table(self._root, self.ref, self._dataset, sums={})  # each of its rows has a checksum

    def _facts(self, where: str) -> pa.Table:
        return self._read(self._fragments()[:-1], where)

    def _fragments(self) -> list[Any]:
        """The fragments of the version, of which there is at least one."""
        try:
            found = list(self._dataset.get_fragments())
        except raised_by_lance() as error:
            raise self.as_table().failed(error, doing="read") from error
        if not found:
            raise StorageError(Kind.CORRUPT, f"{self.ref.home} has no state at version {self.version}; restore it from a backup")
        return found

    def _read(self, fragments: Sequence[Any], where: str | None = None) -> pa.Table:
        if not fragments:
            return ROWS.empty_table()
        try:
            return self._dataset.scanner(fragments=fragments, filter=where).to_table()
        except raised_by_lance() as error:
            raise self.as_table().failed(error, doing="read") from error

    def _rows_of(self, fragments: Sequence[Any]) -> pa.Table:
        """All rows of a few small fragments. Those that this process wrote are still in memory."""
        known = [self._root.memory.rows(fragment.metadata, fields=()) for fragment in fragments]
        held = [rows for rows in known if rows is not None]
        return pa.concat_tables(held) if len(held) == len(known) else self._read(fragments)

    def _keep(self, fragments: Sequence[Any]) -> pa.Table:
        """Reads all rows of these fragments, and keeps them in memory."""
        read, at = self._read(fragments), 0
        for fragment in fragments:
            count = fragment.metadata.physical_rows
            self._root.memory.keep_rows(fragment.metadata, read.slice(at, count), fields=())
            at += count
        return read

    # -- the one way to change it

    def swap(self, state: pa.Table, facts: pa.Table, *, uuid: str, versions: Mapping[str, int] | None = None) -> Ledger:
        """Replaces the state and adds facts in one commit, as exactly this version + 1. Raises SwapLost if another swap came first."""
        return self.draft(state, facts).swap(uuid=uuid, versions=versions)

    def draft(self, state: pa.Table, facts: pa.Table) -> Draft:
        """Begins to write the files of a swap, on other threads. Neither readers nor other writers see them.

        Folds small fact fragments into the new one, so that the number of fragments grows with the logarithm of the history.
        """
        refuse_forked_child()
        _refuse_stateless(state)
        fragments = self._dataset.get_fragments()
        folding = fold(fragments[:-1], incoming=len(facts))
        if folding:
            facts = pa.concat_tables([self._rows_of(folding), facts])
        reach(Fault.PUBLISH_BEFORE_WRITE)
        # The state is last: fragment ids follow this order, and the newest fragment is the state.
        parts = [self._root.pool.submit(self._write, rows) for rows in (facts, state) if len(rows)]
        return Draft(self, parts, removed=[fragment.fragment_id for fragment in (*folding, fragments[-1])])

    def _write(self, rows: pa.Table) -> list[Any]:
        written = list(write_fragments(rows, self._dataset, max_rows_per_file=len(rows)))  # one fragment: PER_SWAP
        if len(written) == 1 and len(rows) < SMALL_ROWS:  # a later swap may fold it
            self._root.memory.keep_rows(written[0], rows, fields=())
        return written

    def _swap(self, written: Sequence[Any], *, removed: list[int], uuid: str, versions: Mapping[str, int]) -> Ledger:
        change = LanceOperation.Update(removed_fragment_ids=removed, updated_fragments=[], new_fragments=list(written))
        reach(Fault.PUBLISH_BEFORE_COMMIT)
        moved = self._commit(lance.Transaction(self.version, change, uuid=uuid, transaction_properties=_noted(versions)), written)
        reach(Fault.PUBLISH_AFTER_COMMIT)
        settle_visible(self._root, [f"{self.ref.home}/{version_file(moved.version)}"])
        self._refuse_removed_number(moved.version, written)
        reach(Fault.PUBLISH_AFTER_SYNC)
        return Ledger(self._root, self.ref.at(moved.version), moved)

    def fence_off(self, *, uuid: str, versions: Mapping[str, int]) -> Ledger:
        """Commits the same rows again, as exactly this version + 1. Every swap from an earlier version fails from then on, for good.

        Lance finds conflicting commits in the versions since the base of a swap. Where those were removed it finds none, and a swap by
        a process that was paused would be added to the newest version. This commit conflicts with all of them, and it stays.
        """
        moved = self._commit(
            lance.Transaction(self.version, LanceOperation.Restore(self.version), uuid=uuid, transaction_properties=_noted(versions)), ()
        )
        settle_visible(self._root, [f"{self.ref.home}/{version_file(moved.version)}"])
        return Ledger(self._root, self.ref.at(moved.version), moved)

    def _refuse_removed_number(self, version: int, written: Sequence[Any]) -> None:
        """Raises SwapLost if this version has a number that was removed, so that it is not visible (G-06).

        Only on an object store: on a disk a paused process keeps its lock, and nothing is removed until it is done or has ended.
        """
        if not self._root.is_local and version < read_floor(self._root.objects, self.ref.path, branch=self.ref.branch):
            self._root.objects.delete(f"{self.ref.home}/{version_file(version)}")
            raise self._lost(written)

    def _commit(self, transaction: Any, written: Sequence[Any]) -> Any:
        try:
            # No retries by Lance (C-03): it would rebase the commit past our checks.
            moved = at_home(self._root, self.ref.path, LanceDataset.commit(self._dataset, transaction, max_retries=0))
        except CommitConflictError as error:
            raise self._lost(written) from error
        except raised_by_lance() as error:
            return self._after_doubt(error, transaction, written)
        if moved.version != self.version + 1:
            home = self.ref.home
            raise OmniGraphError(Kind.CORRUPT, f"a swap of {home} landed at version {moved.version}, not {self.version + 1}", path=home)
        return moved

    def _after_doubt(self, error: BaseException, transaction: Any, written: Sequence[Any]) -> Any:
        """Resolves a commit whose response was lost: the uuid of the next version identifies its writer (REC-34)."""
        following = self.ref.at(self.version + 1)
        landed = uuid_in_doubt(self._root, following, error)
        if landed == transaction.uuid:
            return open_dataset(self._root, following)
        if landed is not None:
            raise self._lost(written) from error
        # A local call is over when it returns. A request to a server may still arrive.
        outcome = Outcome.DID_NOT_HAPPEN if self._root.is_local else Outcome.UNKNOWN
        if outcome is Outcome.DID_NOT_HAPPEN:
            self._discard(written)
        raise lance_error(error, doing="commit to", path=self._root.of(self.ref.home), outcome=outcome) from error

    def _lost(self, written: Sequence[Any]) -> SwapLost:
        self._discard(written)
        return SwapLost(Kind.CONTENTION, f"another publisher moved {self.ref.home} past version {self.version}")

    def _discard(self, written: Sequence[Any]) -> None:
        """Removes the files of an attempt that certainly failed. No version names them."""
        _discard(self._root, self.ref.home, written)


class Draft:
    """The files of a swap that is not committed: the new facts and the new state. End it with `swap` or `discard`."""

    def __init__(self, base: Ledger, parts: Sequence[Future[Any]], *, removed: list[int]) -> None:
        self.base: Final = base
        self._parts: Final = parts
        self._removed: Final = removed
        self._are_settled = False
        self._is_ended = False

    def settle_with(self, visible: Sequence[str]) -> None:
        """Checks and flushes the files together with files that are visible already, such as the versions of tables."""
        settle_visible(self.base._root, visible, beside=_new_files(self.base.ref.home, self._written()))
        self._are_settled = True

    def swap(self, *, uuid: str, versions: Mapping[str, int] | None = None) -> Ledger:
        """Commits the files as version base + 1. Raises SwapLost if another swap came first.

        `versions` are the checksums of version files of tables. They are noted in the commit itself: its rows are written before them.
        """
        written = self._written()
        if not self._are_settled:
            try:
                settle(self.base._root, _new_files(self.base.ref.home, written))
            except StorageError:
                self.discard()
                raise
        self._is_ended = True  # from here on a version may name the files
        return self.base._swap(written, removed=self._removed, uuid=uuid, versions=versions or {})

    def discard(self) -> None:
        """Removes the files, unless `swap` was called: it removes them itself, if it is certain that no version names them."""
        wait(self._parts)
        for part in self._parts:
            if not self._is_ended and part.exception() is None:
                self.base._discard(part.result())
        self._is_ended = True

    def _written(self) -> list[Any]:
        wait(self._parts)
        try:
            return [fragment for part in self._parts for fragment in part.result()]
        except raised_by_lance() as error:
            self.discard()
            raise self.base.as_table().failed(error, doing="write to") from error


def create_ledger(root: Root, path: str, *, state: pa.Table, facts: pa.Table, stamps: dict[bytes, bytes], uuid: str) -> Ledger:
    """Creates a ledger in one commit. Of several concurrent creators exactly one succeeds; the others get SwapLost."""
    _refuse_stateless(state)
    schema = ROWS.with_metadata(stamps)
    options = root.storage_options or None
    written: list[Any] = []
    sent = False
    try:
        for rows in (facts, state):
            written += write_fragments(
                rows.cast(schema), root.of(path), schema=schema, data_storage_version=FILE_FORMAT, storage_options=options
            )
        settle(root, _new_files(path, written))
        sent = True
        birth = lance.Transaction(0, LanceOperation.Overwrite(schema, written), uuid=uuid)
        # Only max_retries=0 makes creation exclusive. With retries, the loser commits version 2 over the winner's rows.
        LanceDataset.commit(root.of(path), birth, max_retries=0, storage_options=options, enable_stable_row_ids=False)
    except StorageError:  # a file is incomplete or was not flushed; no version names the files
        _discard(root, path, written)
        raise
    except raised_by_lance() as error:
        _settle_birth(root, TableRef(path, None, 1), error, written, uuid=uuid, sent=sent)
    settle_visible(root, [f"{path}/{version_file(1)}"])
    ref = TableRef(path, None, 1)
    return Ledger(root, ref, open_dataset(root, ref))


def _refuse_stateless(state: pa.Table) -> None:
    # The newest fragment is the state. Without a new one, the newest facts would be taken for the state.
    if not len(state):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "the state of a ledger needs at least one row")


def _settle_birth(root: Root, first: TableRef, error: BaseException, written: Sequence[Any], *, uuid: str, sent: bool) -> None:
    """Resolves a creation that failed or whose response was lost (RT-66). Returns if this process created the ledger, else raises."""
    landed = uuid_in_doubt(root, first, error)
    if landed == uuid:
        return
    if landed is None and sent and not root.is_local:
        # The request may still arrive. Its version would name these files.
        raise lance_error(error, doing="create", path=root.of(first.path), outcome=Outcome.UNKNOWN) from error
    _discard(root, first.path, written)
    if landed is not None:
        raise SwapLost(
            Kind.ALREADY_INITIALIZED, f"{root.of(first.path)} was created by another process at the same time; open it instead"
        ) from error
    raise lance_error(error, doing="create", path=root.of(first.path)) from error


def open_ledger(root: Root, path: str, *, branch: str | None) -> Ledger:
    """The ledger at its newest version."""
    dataset = open_newest(root, path, branch=branch)
    return Ledger(root, TableRef(path, branch, dataset.version), dataset)


def ledger_at(root: Root, ref: TableRef) -> Ledger:
    """The ledger at exactly that version."""
    return Ledger(root, ref, open_dataset(root, ref))


def _discard(root: Root, home: str, written: Sequence[Any]) -> None:
    with suppress(StorageError):  # an orphaned file is harmless; the caller needs the error of the write, not of its cleanup
        for file in _new_files(home, written):
            root.objects.delete(file.path)


def _new_files(home: str, fragments: Sequence[Any]) -> list[NewFile]:
    return [NewFile(f"{home}/data/{file.path}", file.file_size_bytes) for fragment in fragments for file in fragment.files]


def _by_size(fragments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The fragments with few rows, and the others."""
    small = [fragment for fragment in fragments if fragment.physical_rows <= FEW_FACTS]
    return small, [fragment for fragment in fragments if fragment.physical_rows > FEW_FACTS]


def _noted(versions: Mapping[str, int]) -> dict[str, str] | None:
    return {path: str(value) for path, value in versions.items()} or None


def _starting(prefix: str) -> str:
    return f"starts_with(object_id, {_quoted(prefix)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
