"""A version of a table -> the checksums that commits recorded for its files. A publication -> those that its commit records.

A commit records the checksums of the files that it adds. The version files of its tables do not exist yet when its rows are written: the
version of `__manifest` that it makes notes their checksums, and the next commit records them. So that a reader need not read the whole
history, a commit now and then records the checksums of all files that its branch shows, and the head names it: `Head.summed`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from omnigraph.errors import NotFound, OmniGraphError, StorageError
from omnigraph.ids import CommitId
from omnigraph.lru import Lru
from omnigraph.manifest.model import COMMIT, Commit, State, TableRow, read_checksums
from omnigraph.manifest.registry import Branch, read_branch
from omnigraph.store.checked import Sums
from omnigraph.store.checksums import FileSum, spread
from omnigraph.store.deep import live_sums
from omnigraph.store.durable import version_file
from omnigraph.store.ledger import Ledger, ledger_at
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, Tables

BRANCHES: Final = 256
"""How many branches of a graph stay open."""
STATES: Final = 64
"""How many states of branches are remembered, to find the branch that shows a version of a table."""
LINES: Final = 16
SPAN: Final = 64
"""All checksums are recorded again after this many commits, or after a quarter as many as there are files, whichever is more."""
PART: Final = 4


class _Shown:
    """A state of a branch, and the ledger that it was read from."""

    def __init__(self, branch: Branch, ledger: Ledger, state: State) -> None:
        self.branch: Final = branch
        self.ledger: Final = ledger
        self.state: Final = state

    def has(self, ref: TableRef) -> bool:
        return any(row.ref == ref for row in self.state.tables.values())


class _RecordedSince:
    """The checksums that commits of one branch recorded from one version of `__manifest` on, as far as they were read."""

    def __init__(self, native: str | None, since: int) -> None:
        self.native: Final = native
        self.since: Final = since
        self.until = since - 1
        self.sums: Final[dict[str, FileSum]] = {}


class RecordedChecksums:
    """The checksums that the commits of one graph on a disk recorded. They are read when the first table is opened."""

    def __init__(self, root: Root) -> None:
        self._root: Final = root
        self._tables: Final = Tables(root)
        self._newest: Final = Lru[str | None, _Shown](BRANCHES)
        self._shown: Final = Lru[tuple[str | None, int], _Shown](STATES)
        self._lines: Final = Lru[tuple[str | None, int], _RecordedSince](LINES)
        self._noted: Final = Lru[tuple[str | None, int], Mapping[str, int]](STATES)
        self._mutex: Final = threading.RLock()

    def show(self, branch: Branch, ledger: Ledger, state: State) -> None:
        """Notes that a reader may open the tables of this state."""
        if self._root.is_local:
            shown = self._shown.put((ledger.ref.branch, ledger.version), _Shown(branch, ledger, state))
            if (newest := self._newest.get(ledger.ref.branch)) is None or newest.ledger.version <= ledger.version:
                self._newest.put(ledger.ref.branch, shown)

    def of(self, ref: TableRef) -> Sums:
        """The checksums of the files of a version of a table, and of others."""
        for shown in self._showing(ref):
            with self._forgetting(shown):
                return self._read(shown, shown.state.head.summed)
        every: dict[str, FileSum] = {}  # a version in doubt that recovery or a repair looks at, or one of a state that was forgotten
        for newest in self._newest.values():
            with self._forgetting(newest):
                every |= self._read(newest, 0)
        return every

    def _showing(self, ref: TableRef) -> list[_Shown]:
        known = (*self._newest.values(), *reversed(self._shown.values()))
        return [each for each in known if each.has(ref)]

    @contextmanager
    def _forgetting(self, shown: _Shown) -> Iterator[None]:
        """Read a state. If its branch was deleted since, forget the state and end the block: other branches show the same versions."""
        try:
            yield
        except (StorageError, NotFound):
            branch = shown.branch
            if branch.native is None or read_branch(self._root.objects, branch.name) == branch:
                raise
            with self._mutex:
                if self._newest.get(branch.native) is shown:
                    self._newest.discard(branch.native)
                self._shown.discard((shown.ledger.ref.branch, shown.ledger.version))

    def _read(self, shown: _Shown, since: int) -> dict[str, FileSum]:
        ledger = shown.ledger
        with self._mutex:
            line = self._line(ledger.ref.branch, since)
            if line.until < ledger.version:
                for whole, blocks in read_checksums(ledger.recent(COMMIT, since=line.until + 1)):
                    line.sums.update(spread(whole, blocks))
                line.sums.update(_files(self.noted(shown.branch, ledger)))
                line.until = ledger.version
            return line.sums

    def _line(self, native: str | None, since: int) -> _RecordedSince:
        """The checksums of a branch from a version on. What was read from an earlier version on has them too."""
        earlier = [line for line in self._lines.values() if line.native == native and line.since <= since]
        if not earlier:
            return self._lines.put((native, since), _RecordedSince(native, since))
        return max(earlier, key=lambda line: (line.until, line.since))

    def noted(self, branch: Branch, ledger: Ledger) -> Mapping[str, int]:
        """The checksums of version files that the newest commit of a ledger noted. A branch without commits has those of its parent."""
        if not self._root.is_local:
            return {}
        key = (ledger.ref.branch, ledger.version)
        if (known := self._noted.get(key)) is not None:
            return known
        at = ledger
        while at.version == branch.forked_at and branch.parent is not None:
            at = ledger_at(self._root, TableRef(ledger.ref.path, branch.parent_native, at.version))
            parent = Branch.main() if branch.parent_native is None else read_branch(self._root.objects, branch.parent)
            if parent is None:
                break
            branch = parent
        return self._noted.put(key, at.noted_versions())

    # -- of a commit

    def published(self, branch: Branch, before: Ledger, after: Ledger, state: State, commit: Commit, versions: Mapping[str, int]) -> None:
        """Takes over what this process published, instead of reading it back."""
        if not self._root.is_local:
            return
        self._noted.put((after.ref.branch, after.version), versions)
        with self._mutex:
            if state.head.summed == after.version:  # all that it shows is in this commit, and nothing older is needed
                self._lines.put((after.ref.branch, after.version), _RecordedSince(after.ref.branch, after.version))
            line = self._line(after.ref.branch, state.head.summed)
            if line.until == before.version:
                line.sums.update(spread(commit.checksums, commit.blocks))
                line.sums.update(_files(versions))
                line.until = after.version

    def to_record(self, branch: Branch, ledger: Ledger, state: State, changed: tuple[TableRow, ...], new: Sums) -> dict[str, FileSum]:
        """What the next commit records: the files that it adds, and the version files that the commit before it noted.

        Also the version files of tables that it takes over from another branch.
        """
        if not self._root.is_local:
            return {}
        found = {**_files(self.noted(branch, ledger)), **new}
        for row in changed:
            before = state.tables.get(row.id)
            if before is None or before.ref.home != row.ref.home:
                path = f"{row.ref.home}/{version_file(row.version)}"
                if self._showing(row.ref) and (expected := self.of(row.ref).get(path)) is not None:
                    found[path] = expected
        return found

    def summed(self, state: State, *, merged: CommitId | None, changed: tuple[TableRow, ...]) -> int:
        """The version from which on commits record all files that the branch shows, after a commit that changes these tables.

        The files of a table that comes from another branch were recorded on that branch: its commits are copied into this one, at this
        version, and what is older both branches have.
        """
        taken = [row for row in changed if row.id not in state.tables or state.tables[row.id].ref.home != row.ref.home]
        if merged is None or not taken:
            return state.head.summed
        theirs = [each.state.head.summed for each in self._shown.values() if each.state.head.commit == merged]
        return min([state.head.summed, *(theirs or [0])])

    def all_shown(self, branch: Branch, ledger: Ledger, state: State) -> dict[str, FileSum] | None:
        """The checksums of all files that a branch shows, if it is time to record them together; else None."""
        behind = ledger.version + 1 - state.head.summed
        if not self._root.is_local or behind < SPAN:
            return None
        line = self._line(ledger.ref.branch, state.head.summed)
        if line.until != ledger.version:  # whoever writes to tables has opened one, and has read them
            return None
        if behind * PART < len(line.sums):
            return None
        with suppress(OmniGraphError):  # a damaged table is no reason to fail the writer of another
            shown: dict[str, FileSum] = {}
            for row in (row for row in state.tables.values() if not row.dropped):
                shown |= live_sums(self._tables.open(row.ref))
            return shown
        return None


def _files(versions: Mapping[str, int]) -> dict[str, FileSum]:
    return {path: FileSum(value) for path, value in versions.items()}
