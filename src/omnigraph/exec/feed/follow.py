"""A position of a caller -> the pages of one poll after another, with a wait for new commits between them.

A wait looks at the head of the branch and at nothing else: one probe, and for a named branch one small object. The time between two looks
doubles up to a second, and is short again after a commit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from msgspec import structs

from omnigraph.exec.engine import Engine
from omnigraph.exec.feed.pages import ChangePage
from omnigraph.exec.feed.poll import FeedRequest, Poll
from omnigraph.exec.read.watch import Cancellation
from omnigraph.store.leaving import waited_for, waited_for_steps

SHORTEST_WAIT_SECONDS: Final = 0.02
LONGEST_WAIT_SECONDS: Final = 1.0


def follow(engine: Engine, request: FeedRequest, *, wait_seconds: float | None, cancellation: Cancellation | None) -> Iterator[ChangePage]:
    """All pages from the position on, the first even if it is empty. Ends when cancelled, or without a new commit in `wait_seconds`."""
    stop = cancellation if cancellation is not None else Cancellation()
    while True:
        poll = waited_for(Poll)(engine, request)
        page: ChangePage | None = None
        for page in waited_for_steps(poll.pages()):
            yield page
            if stop.cancelled:
                return
        assert page is not None, "a poll has a page"
        request = structs.replace(request, cursor=page.cursor, start=None, page=None)
        if page.caught_up and not _moved(engine, poll, wait_seconds, stop):
            return


def _moved(engine: Engine, poll: Poll, wait_seconds: float | None, stop: Cancellation) -> bool:
    """Wait until the branch has another head. Returns False if it was cancelled, or had none in time."""
    until = None if wait_seconds is None else time.monotonic() + wait_seconds
    pause = SHORTEST_WAIT_SECONDS
    look = waited_for(engine.manifest.look)  # the process may exit between two looks
    while True:
        branch, _, state = look(poll.branch.name)
        if (branch, state.head.commit) != (poll.branch, poll.head):
            return True
        left = pause if until is None else min(pause, until - time.monotonic())
        if left <= 0 or stop.wait(left):
            return False
        pause = min(2 * pause, LONGEST_WAIT_SECONDS)
