"""The current process -> nothing, or an error if it was forked from a process that already used the engine.

Lance's threads do not survive a fork, and a forked child keeps its parent's file locks after the parent releases them. Both fail
silently. So the first use records the process id, and a use under another process id is refused.
"""

from __future__ import annotations

import os

from omnigraph.errors import Kind, Unsupported

_owner: int | None = None


def refuse_forked_child() -> None:
    """Raises Unsupported if this process was forked from one that already used the engine."""
    global _owner
    pid = os.getpid()
    if _owner is None:
        _owner = pid
    if _owner != pid:
        raise Unsupported(
            Kind.FORKED_PROCESS,
            f"this process ({pid}) was forked from {_owner}, which already used omnigraph; a forked child cannot use it safely. "
            'Start children with multiprocessing.get_context("spawn"), or with subprocess.',
            pid=pid,
            parent=_owner,
        )
