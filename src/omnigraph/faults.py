"""A fault point that the protocol reaches -> nothing, or the fault a test armed there: an exception, SIGKILL or SIGSTOP.

A test arms a point in its own process with `armed`, or in another process with an environment variable.
`OMNIGRAPH_FAULT="publish.before_commit=kill"` kills the process with SIGKILL at that point. `=stop` suspends it with SIGSTOP until
it receives SIGCONT. `=raise` raises SimulatedCrash. `=kill:3` acts at the third arrival.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, Literal

from omnigraph.errors import InvalidInput, Kind

ENVIRONMENT: Final = "OMNIGRAPH_FAULT"

Action = Literal["raise", "kill", "stop"]
_ACTIONS: Final[dict[str, Action]] = {"raise": "raise", "kill": "kill", "stop": "stop"}


class Fault(StrEnum):
    """Every boundary between two durable effects. Tests use the members, not their values (F-13)."""

    OBJECT_BEFORE_LINK = "object.before_link"
    OBJECT_AFTER_LINK = "object.after_link"
    INIT_BEFORE_TABLES = "init.before_tables"
    INIT_BETWEEN_TABLES = "init.between_tables"
    INIT_BEFORE_MANIFEST = "init.before_manifest"
    INIT_AFTER_MANIFEST = "init.after_manifest"
    STAGE_BEFORE_COMMIT = "stage.before_commit"
    STAGE_AFTER_COMMIT = "stage.after_commit"
    PUBLISH_BEFORE_WRITE = "publish.before_write"
    PUBLISH_BEFORE_COMMIT = "publish.before_commit"
    PUBLISH_AFTER_COMMIT = "publish.after_commit"
    PUBLISH_AFTER_SYNC = "publish.after_sync"
    WRITE_PREPARED = "write.prepared"
    WRITE_BEFORE_ARM = "write.before_arm"
    WRITE_ARMED = "write.armed"
    WRITE_BEFORE_CREATE = "write.before_create"
    WRITE_AFTER_CREATE = "write.after_create"
    WRITE_BEFORE_REF = "write.before_ref"
    WRITE_AFTER_REF = "write.after_ref"
    WRITE_BETWEEN_TABLES = "write.between_tables"
    WRITE_BETWEEN_COMMITS = "write.between_commits"
    WRITE_COMMITTED = "write.committed"
    WRITE_PUBLISHED = "write.published"
    RECLAIM_BEFORE = "reclaim.before"
    RECLAIM_AFTER = "reclaim.after"
    RECOVER_FOUND = "recover.found"
    RECOVER_BEFORE_RESTORE = "recover.before_restore"
    RECOVER_AFTER_RESTORE = "recover.after_restore"
    RECOVER_BEFORE_PUBLISH = "recover.before_publish"
    RECOVER_AFTER_PUBLISH = "recover.after_publish"
    REF_LINKED = "ref.linked"
    REF_CREATED = "ref.created"
    BRANCH_BEFORE_CREATE = "branch.before_create"
    BRANCH_AFTER_CREATE = "branch.after_create"
    BRANCH_BEFORE_DELETE = "branch.before_delete"
    BRANCH_AFTER_DELETE = "branch.after_delete"
    BRANCH_BEFORE_DROP = "branch.before_drop"
    TAG_BEFORE_CREATE = "tag.before_create"
    TAG_AFTER_CREATE = "tag.after_create"
    TAG_BEFORE_DELETE = "tag.before_delete"
    TAG_AFTER_DELETE = "tag.after_delete"
    CLEANUP_BEFORE_LOCK = "cleanup.before_lock"
    CLEANUP_BEFORE_TRANSACTION = "cleanup.before_transaction"
    CLEANUP_AFTER_TRANSACTION = "cleanup.after_transaction"
    CLEANUP_AFTER_FLOOR = "cleanup.after_floor"
    CLEANUP_AFTER_FENCE = "cleanup.after_fence"
    CLEANUP_AFTER_HISTORY = "cleanup.after_history"
    CLEANUP_BEFORE_FORK = "cleanup.before_fork"
    CLEANUP_AFTER_FORK = "cleanup.after_fork"
    CLEANUP_BEFORE_TABLE = "cleanup.before_table"
    CLEANUP_AFTER_VERSIONS = "cleanup.after_versions"
    CLEANUP_AFTER_TABLE = "cleanup.after_table"
    CACHE_BEFORE_RENAME = "cache.before_rename"
    SPARK_TASK_WRITTEN = "spark.task_written"


class SimulatedCrash(BaseException):
    """An armed fault point was reached. A BaseException, so that no `except Exception` cleans up after a simulated crash."""

    def __init__(self, point: Fault) -> None:
        super().__init__(point.value)
        self.point: Final = point


class _Armed:
    __slots__ = ("action", "countdown", "failure", "point")

    def __init__(self, point: Fault, action: Action, countdown: int, failure: Exception | None = None) -> None:
        self.point = point
        self.action = action
        self.countdown = countdown
        self.failure = failure


def _from_environment() -> _Armed | None:
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return None
    point, _, rest = text.partition("=")
    action, _, count = rest.partition(":")
    arrival = int(count) if count.isdecimal() else 0 if count else 1
    if point not in {known.value for known in Fault} or action not in _ACTIONS or arrival == 0:
        wanted = "it takes a fault point and raise, kill or stop, as in publish.before_commit=kill or publish.before_commit=kill:3"
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{ENVIRONMENT} is {text!r}; {wanted}", variable=ENVIRONMENT, value=text)
    return _Armed(Fault(point), _ACTIONS[action], arrival)


_armed: _Armed | None = _from_environment()


def reach(point: Fault) -> None:
    """Marks the arrival of the protocol at `point`. Costs one comparison if no point is armed."""
    if _armed is None or _armed.point is not point:
        return
    _armed.countdown -= 1
    if _armed.countdown != 0:  # a fault acts once: recovery after it passes the same point
        return
    if _armed.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if _armed.action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    raise _armed.failure or SimulatedCrash(point)


@contextmanager
def armed(point: Fault, *, after: int = 1, failure: Exception | None = None) -> Iterator[None]:
    """Inside this block, the `after`-th arrival at `point` raises `failure`, or SimulatedCrash if none is given."""
    global _armed
    before, _armed = _armed, _Armed(point, "raise", after, failure)
    try:
        yield
    finally:
        _armed = before
