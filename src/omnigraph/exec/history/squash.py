"""The private branch of a transaction and its target -> one ordinary commit with all its changes, or none.

A transaction forks a private branch of its target and writes there. In the end the difference between the fork and the newest state of the
private branch is brought into the target like that of a merge, with conflicts and checks. But the commit has one parent, and the history
of the private branch is given up with it. And an entity that another writer changed meanwhile is a conflict even if both changed it to the
same values: of two transactions that raise a number from 5 to 6, one would be lost.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Final

from omnigraph.errors import ConflictError, Kind, OmniGraphError
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.conflicts import Settlement, merge_error
from omnigraph.exec.history.landing import DELETED, INSERTED, UPDATED, Landing
from omnigraph.exec.write.protocol import Prepared, Request, Written, write
from omnigraph.ids import BranchName
from omnigraph.manifest.branches import create_private_branch, delete_branch, new_private_name
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.manifest.registry import PrivateName

log = logging.getLogger(__name__)

_NOTHING: Final = {INSERTED: 0, UPDATED: 0, DELETED: 0}


class Fork:
    """A private branch of a target, as it was created."""

    def __init__(self, engine: Engine, target: BranchName) -> None:
        name = new_private_name()
        self._engine: Final = engine
        self._owned: Final = ExitStack()
        self._owned.enter_context(Locks.of(engine.root.objects).own(name))
        try:
            create_private_branch(engine.manifest, name, from_=target)
            self._base: Final = engine.manifest.snapshot(name)
        except BaseException:
            self._owned.close()
            raise
        self.name: Final = PrivateName(name)

    @property
    def begun_at(self) -> str:
        """The commit of the target that was forked."""
        return self._base.commit

    def squash(self, request: Request) -> Written:
        """Bring all changes into the branch of the request as one commit, or raise `MergeConflicts` and write nothing."""
        theirs = self._engine.manifest.snapshot(BranchName(self.name))
        landing: Landing | None = None

        def prepare(ours: BranchSnapshot) -> Prepared:
            nonlocal landing
            if landing is not None:  # the target moved: nothing will name the files of the first attempt
                landing.discard()
                landing = None
            self._require_same(ours)
            if theirs.commit == self._base.commit:
                return Prepared({}, counts=_NOTHING)
            with self._engine.manifest.reading(theirs, past=False):
                landing = Landing(self._engine, self._base, theirs, ours, Settlement(strict=True))
                if landing.conflicts.count:
                    raise merge_error(landing.conflicts, branch=request.branch)
                return Prepared(landing.changes(), counts=landing.counts)

        return write(self._engine, request, prepare)

    def _require_same(self, ours: BranchSnapshot) -> None:
        if ours.branch.native != self._base.branch.parent_native:
            raise ConflictError(
                Kind.BRANCH_REPLACED,
                f"branch {ours.branch.name!r} was deleted and created again during the transaction; nothing was written",
                branch=ours.branch.name,
            )

    def drop(self) -> None:
        """Delete the private branch. If that fails, it costs space only."""
        try:
            delete_branch(self._engine.manifest, self.name)
        except OmniGraphError as error:
            log.info("the private branch %s of a transaction was not removed; it costs space only: %s", self.name, error)
        self._engine.manifest.forget(BranchName(self.name))
        self._owned.close()
