"""A branch name -> one safe file or object name for its lock."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from omnigraph.ids import BranchName, content_hash

ROOT: Final = "root"
TURNSTILE: Final = "turnstile"

_LONGEST: Final = 160
_PLAIN: Final = re.compile(rb"[A-Za-z0-9_-]")


@lru_cache(maxsize=1024)
def name_of(branch: BranchName) -> str:
    """`feature/x` -> `feature=2Fx`. Never holds a dot or a slash, and is never `root` or `turnstile`."""
    raw = branch.encode()
    first = 1 if branch in (ROOT, TURNSTILE) else 0  # their first letter is written as a number
    name = "".join(chr(byte) if at >= first and _PLAIN.match(raw, at) else f"={byte:02X}" for at, byte in enumerate(raw))
    # File systems end a name at 255 bytes. A shortened one holds "==", which no other name does.
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}=={content_hash(raw)[:32]}"
