"""An open graph -> a thread that optimizes its branches when the manifest shows that they need it, and yields to writers.

It looks at the manifest in intervals: how many commits each table had since it was optimized. It opens no table before that number is
reached. Its files are written without a lock, it never waits for one, and what other writers changed meanwhile is left for the next round.
It works for at most a tenth of the time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Never, Self

from omnigraph.errors import InvalidInput, Kind, LimitError, NotFound, OmniGraphError, Unsupported
from omnigraph.exec.engine import Engine
from omnigraph.exec.upkeep.automatic import UPKEEP_ACTOR
from omnigraph.exec.upkeep.optimize import Bounds, Optimized, OptimizeProgress, optimize
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, TableId
from omnigraph.manifest.registry import list_branches
from omnigraph.store.leaving import under_way

REST: Final = 9
"""After each round it rests so many times as long as the round took."""

log = logging.getLogger(__name__)

AliveEngine = Callable[[], Engine | None]
"""The engine of a graph, or None when the graph is closed or nothing refers to it any more."""


class _Stopped(Exception):
    """`stop` was called during a round."""


class Keeper:
    """Optimizes the branches of a graph from time to time, on a thread of its own, between `start` and `stop` or in a `with` block."""

    def __init__(self, engine: AliveEngine, branches: Sequence[BranchName] | None, *, every_seconds: float, after_commits: int) -> None:
        if not 0 < every_seconds <= threading.TIMEOUT_MAX or after_commits < 1:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"every_seconds must be positive, at most {threading.TIMEOUT_MAX:.0f}, and after_commits at least 1, "
                f"not {every_seconds} and {after_commits}",
            )
        self._engine: Final = engine
        self._branches: Final = branches
        self._every_seconds: Final = every_seconds
        self._after_commits: Final = after_commits
        self._tried: Final[dict[str, int]] = {}
        self._stop: Final = threading.Event()
        self._thread: threading.Thread | None = None
        self.optimized: list[Optimized] = []
        """What it did: one entry for each commit that it made, the newest last."""
        self.last_error: OmniGraphError | None = None
        """Why the last round did less than it should have, or None."""

    def __repr__(self) -> str:
        return f"Keeper({'running' if self.running else 'stopped'}, {counted(len(self.optimized), 'commit')})"

    def __reduce__(self) -> Never:
        raise Unsupported(Kind.UNSUPPORTED, "a keeper is a thread of its process; send the graph, and let the other process have its own")

    @property
    def running(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> Self:
        """Start the thread. A second call has no effect while it runs."""
        if not self.running:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="omnigraph-keeper", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Ask the thread to end, and wait for it. It ends between two tables; what it had not committed is not committed."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            if (engine := self._engine()) is None:
                return
            begun = time.monotonic()
            with under_way(stop=self._stop.set):
                self.tidy(engine)
            del engine  # between two rounds the keeper does not keep the graph alive
            wait = max(self._every_seconds, REST * (time.monotonic() - begun))

    def tidy(self, engine: Engine) -> None:
        """Do one round: every branch that needs it is optimized, unless a writer holds it or waits for it."""
        self.last_error = None
        try:
            branches = self._branches if self._branches is not None else (MAIN, *list_branches(engine.root.objects))
            for branch in branches:
                self._tidy_branch(engine, branch)
        except _Stopped:
            log.debug("the keeper was stopped during a round")
        except OmniGraphError as error:
            self._note(error, "branches")

    def _tidy_branch(self, engine: Engine, branch: BranchName) -> None:
        try:
            due = self._due(engine, branch)
            if not due or engine.manifest.locks.busy(branch):
                return
            bounds = Bounds(tables=due, holds_lock=False)
            done = optimize(engine, branch=branch, actor=UPKEEP_ACTOR, on_progress=self._go_on, bounds=bounds, timeout_seconds=0)
            if done.commit is not None:
                self.optimized.append(done)
            rows = engine.snapshot(branch).state.tables
            self._tried.update({rows[id_].ref.home: rows[id_].version for id_ in due if id_ in rows})
        except OmniGraphError as error:
            self._note(error, branch)

    def _due(self, engine: Engine, branch: BranchName) -> frozenset[TableId]:
        snapshot = engine.snapshot(branch)
        owned = [row for row in snapshot.state.tables.values() if not row.dropped and row.owner == snapshot.branch.native]
        since = {row.id: row.version - max(row.tidied, self._tried.get(row.ref.home, 1)) for row in owned}
        return frozenset(id_ for id_, commits in since.items() if commits >= self._after_commits)

    def _go_on(self, _: OptimizeProgress) -> None:
        if self._stop.is_set():
            raise _Stopped

    def _note(self, error: OmniGraphError, where: str) -> None:
        if isinstance(error, LimitError) and error.kind is Kind.LOCK_TIMEOUT:
            return  # a writer came first: the next round tries again
        if isinstance(error, NotFound) and error.kind is Kind.BRANCH_NOT_FOUND and self._branches is None:
            return  # deleted meanwhile
        log.warning("the keeper could not tidy %s: %s", where, error)
        self.last_error = error
