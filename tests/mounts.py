"""A small or frozen file system for one child process, where the machine lets us have one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def private_mount(folder: Path, options: str) -> tuple[str, ...] | None:
    """A command prefix that runs a program with a tmpfs over `folder`, seen by that program alone; None where that is not allowed."""
    unshare = ["unshare", "--mount", *(["--user", "--map-root-user"] if os.geteuid() else [])]
    prefix = (*unshare, "sh", "-c", 'mount -t tmpfs -o "$1" tmpfs "$2" && shift 2 && exec "$@"', "sh", options, str(folder))
    try:
        tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return prefix if tried.returncode == 0 else None
