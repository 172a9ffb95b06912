"""Rows of `__manifest` -> immutable facts and one small state, replaced as a whole by a compare-and-swap.

A ledger is a Lance dataset of rows keyed by `object_id`. Its newest fragment is the **state**: all mutable rows. All older fragments
are **facts**: rows that never change. A swap removes the state fragment that it was based on and adds a new one. So of two swaps from
one base exactly one succeeds, as version base + 1. The manifest package defines the meaning of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.commit import CommitConflictError
from lance.fragment import write_fragments

from omnigraph.errors import ConflictError, InvalidInput, Kind, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.store.durable import NewFile, settle, settle_visible, version_file
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.fold import fold
from omnigraph.store.process import refuse_forked_child
from omnigraph.store.root import Root
from omnigraph.store.tables import FILE_FORMAT, PRIMARY_KEY, Table, TableRef, open_dataset, open_newest, uuid_in_doubt

ROWS: Final = pa.schema(
    [
        # The key is marked at creation (C-01), because Lance does not allow it to be set later (P-17).
        pa.field("object_id", pa.string(), nullable=False, metadata=PRIMARY_KEY),
        pa.field("born", pa.int64(), nullable=False),
        pa.field("body", pa.string(), nullable=False),
    ]
)


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
        return dict(self._dataset.schema.metadata or {})

    def state(self) -> pa.Table:
        """The mutable rows: all of the newest fragment."""
        return self._read(self._dataset.get_fragments()[-1:])

    def find(self, object_id: str) -> pa.Table:
        """The fact with this id: one row or none."""
        return self._facts(f"object_id = {_quoted(object_id)}")

    def facts(self, prefix: str, *, since: int = 0) -> pa.Table:
        """All facts whose id starts with `prefix` and that were written at version `since` or later."""
        return self._facts(f"starts_with(object_id, {_quoted(prefix)}) AND born >= {since}")

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
        return Table(self._root, self.ref, self._dataset)

    def _facts(self, where: str) -> pa.Table:
        return self._read(self._dataset.get_fragments()[:-1], where)

    def _read(self, fragments: Sequence[Any], where: str | None = None) -> pa.Table:
        if not fragments:
            return ROWS.empty_table()
        try:
            return self._dataset.scanner(fragments=fragments, filter=where).to_table()
        except raised_by_lance() as error:
            raise self.as_table().failed(error, doing="read") from error

    # -- the one way to change it

    def swap(self, state: pa.Table, facts: pa.Table, *, uuid: str) -> Ledger:
        """Replaces the state and adds facts in one commit, as exactly this version + 1. Raises SwapLost if another swap came first.

        Folds small fact fragments into the new one, so that the number of fragments grows with the logarithm of the history.
        """
        refuse_forked_child()
        _refuse_stateless(state)
        fragments = self._dataset.get_fragments()
        folding = fold(fragments[:-1], incoming=len(facts))
        if folding:
            facts = pa.concat_tables([self._read(folding), facts])
        reach(Fault.PUBLISH_BEFORE_WRITE)
        written = self._write(facts, state)
        removed = [f.fragment_id for f in (*folding, fragments[-1])]
        change = LanceOperation.Update(removed_fragment_ids=removed, updated_fragments=[], new_fragments=written)
        reach(Fault.PUBLISH_BEFORE_COMMIT)
        moved = self._commit(lance.Transaction(self.version, change, uuid=uuid), written)
        reach(Fault.PUBLISH_AFTER_COMMIT)
        settle_visible(self._root, [f"{self.ref.home}/{version_file(moved.version)}"])
        reach(Fault.PUBLISH_AFTER_SYNC)
        return Ledger(self._root, self.ref.at(moved.version), moved)

    def _write(self, facts: pa.Table, state: pa.Table) -> list[Any]:
        """Writes both fragments concurrently. The state is last: fragment ids follow this order, and the newest is the state."""
        beside = [self._root.pool.submit(write_fragments, facts, self._dataset)] if len(facts) else []
        attempts: list[Callable[[], Any]] = [partial(write_fragments, state, self._dataset), *(attempt.result for attempt in beside)]
        written: list[Any] = []
        failed: BaseException | None = None
        for attempt in attempts:
            try:
                written[:0] = attempt()
            except raised_by_lance() as error:
                failed = error
        if failed is not None:
            self._discard(written)
            raise self.as_table().failed(failed, doing="write to") from failed
        try:
            settle(self._root, _new_files(self.ref.home, written))
        except StorageError:
            self._discard(written)
            raise
        return written

    def _commit(self, transaction: Any, written: Sequence[Any]) -> Any:
        try:
            # No retries by Lance (C-03): it would rebase the commit past our checks.
            moved = LanceDataset.commit(self._dataset, transaction, max_retries=0)
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


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
