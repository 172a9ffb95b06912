"""One process, one engine: refuse to work in a forked child.

Lance's threads do not survive a fork, and a forked child keeps its parent's file locks after the parent let go. Both
fail silently, so the first use remembers the process, and any use in another one is refused.
"""

from __future__ import annotations

import os

from omnigraph.errors import Kind, Unsupported

_owner: int | None = None


def refuse_forked_child() -> None:
    """Raise when this process was forked from one that already used the engine."""
    global _owner
    pid = os.getpid()
    if _owner is None:
        _owner = pid
    if _owner != pid:
        raise Unsupported(
            Kind.FORKED_PROCESS,
            f"this process ({pid}) was forked from {_owner}, which already used omnigraph; a forked child cannot work safely. "
            'Start children with multiprocessing.get_context("spawn"), or with subprocess.',
            pid=pid,
            parent=_owner,
        )
