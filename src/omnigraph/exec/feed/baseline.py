"""The head of a branch -> its rows as lines of NDJSON, and the cursor after them, once all were read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Never

from omnigraph.errors import InvalidInput, Kind, Unsupported
from omnigraph.exec.engine import Engine
from omnigraph.exec.feed.poll import baseline_cursor
from omnigraph.exec.history.diff import ChangeFilter, check_types
from omnigraph.exec.history.export import export_lines
from omnigraph.ids import BranchName
from omnigraph.store.leaving import waited_for_steps


class Baseline:
    """The rows of a branch at its newest commit, to be read once, and the cursor of the feed after that commit (D-25)."""

    def __init__(self, engine: Engine, branch: BranchName, wanted: ChangeFilter) -> None:
        snapshot = engine.snapshot(branch)
        catalog = engine.catalog(snapshot)
        check_types(wanted, catalog)
        self._cursor: Final = baseline_cursor(engine.manifest, snapshot, wanted)
        self._begun = self._done = False
        self.commit_id: Final = str(snapshot.commit)
        """The commit that the rows are of."""
        rows = export_lines(engine.tables, snapshot, catalog, types=wanted.types, kinds=wanted.kinds)

        def lines() -> Iterator[str]:
            with engine.reading(snapshot):
                yield from rows

        self._lines: Final = waited_for_steps(lines())

    def __reduce__(self) -> Never:
        raise Unsupported(Kind.UNSUPPORTED, "a baseline is read once, by the process that asked for it; send the graph")

    def __iter__(self) -> Iterator[str]:
        """Yield the rows as `Graph.export` does. Raises InvalidInput the second time: rows that were yielded before would be missing."""
        if self._begun:
            raise InvalidInput(Kind.BASELINE_NOT_READ, "a baseline is read once, and this one was read, or a part of it; take another one")
        self._begun = True
        yield from self._lines
        self._done = True

    @property
    def cursor(self) -> str:
        """The cursor. Raises InvalidInput before the last line was read: a copy that lacks rows must not go on from here."""
        if not self._done:
            raise InvalidInput(Kind.BASELINE_NOT_READ, "a baseline has a cursor when all its lines were read")
        return self._cursor
