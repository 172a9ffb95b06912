"""A finished write -> its tables tidied by the same process, if many small commits were made since the last time; else nothing.

Small commits leave small fragments outside the indexes. A write folds a few of them into its own, so that their number grows with the
logarithm of the commits, or, where they are too large to fold, with the commits. After a number of commits the writer rewrites the small
ones and extends the indexes, in a commit of its own, so that reads and writes cost the same however long the history is. Large fragments
and large segments of indexes stay, so the work is bounded; while another writer waits, it is left to that one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from omnigraph.errors import OmniGraphError
from omnigraph.ids import BranchName, TableId
from omnigraph.manifest.model import Commit, CommitKind, TableRow
from omnigraph.manifest.registry import is_private
from omnigraph.store.fragments import fragments
from omnigraph.store.tables import Table

if TYPE_CHECKING:
    from omnigraph.exec.engine import Engine

MOST_FRAGMENTS: Final = 64
"""A table may have this many small fragments outside its indexes, and this many commits since it was tidied."""
SMALL_ROWS: Final = 16_384
"""Larger fragments are left to `optimize`: a small write must not become a large one."""
UPKEEP_ACTOR: Final = "omnigraph:upkeep"

log = logging.getLogger(__name__)


def small_uncovered(table: Table) -> int:
    """How many small fragments an index of the table does not cover. Without an index, all of them. No storage is read.

    Indexes on vectors do not count: they leave small fragments uncovered, which are scanned as fast.
    """
    small = [part.id for part in fragments(table) if part.rows < SMALL_ROWS]
    covered: dict[str, frozenset[int]] = {}
    for index in table.indexes:
        if not index.is_vector:
            covered[index.name] = covered.get(index.name, frozenset()) | index.fragments
    return sum(not covered or any(part not in parts for parts in covered.values()) for part in small)


class AutomaticUpkeep:
    """Tidies tables after the writes of one open graph. Safe to use from many threads."""

    def __init__(self) -> None:
        self._tried: Final[dict[str, int]] = {}
        """The version of the last attempt on each line of a table: one that had nothing to do is not repeated at once."""

    def __call__(self, engine: Engine, commit: Commit) -> None:
        """Tidy the tables of a commit that need it. Never fails: the write that it follows has succeeded."""
        if commit.kind is CommitKind.OPTIMIZE or is_private(commit.branch):
            return
        try:
            due = self._due(engine, commit)
            if due and not engine.manifest.locks.busy(commit.branch):
                self._tidy(engine, commit.branch, due)
        except OmniGraphError as error:
            log.info("the tables of branch %s were not tidied after a write: %s", commit.branch, error)

    def _due(self, engine: Engine, commit: Commit) -> frozenset[TableId]:
        snapshot = engine.manifest.last_read(commit.branch)
        if snapshot is None:
            return frozenset()
        rows = [snapshot.state.tables[change.id] for change in commit.tables if change.id in snapshot.state.tables]
        owned = [row for row in rows if not row.dropped and row.owner == snapshot.branch.native]
        return frozenset(row.id for row in owned if self._is_due(engine, row))

    def _is_due(self, engine: Engine, row: TableRow) -> bool:
        tried = self._tried.get(row.ref.home, 0)
        if row.version - max(row.tidied, tried) > MOST_FRAGMENTS:
            return small_uncovered(engine.tables.open(row.ref)) > 1
        return not tried and small_uncovered(engine.tables.open(row.ref)) > MOST_FRAGMENTS

    def _tidy(self, engine: Engine, branch: BranchName, due: frozenset[TableId]) -> None:
        from omnigraph.exec.upkeep.optimize import Bounds, optimize

        bounds = Bounds(fragment_rows=SMALL_ROWS, tables=due, builds_missing=False)
        optimize(engine, branch=branch, actor=UPKEEP_ACTOR, bounds=bounds, timeout_seconds=0)
        rows = engine.snapshot(branch).state.tables
        self._tried.update({rows[id_].ref.home: rows[id_].version for id_ in due if id_ in rows})
