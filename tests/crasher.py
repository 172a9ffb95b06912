"""A real process that does one thing to a graph: `OMNIGRAPH_FAULT=... python -m tests.crasher DOING URI [OPTIONS]`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.manifest.branches import create_branch, delete_branch
from tests.graphs import COMPANY, PERSON, add, make, reopen

ROOT = Path(__file__).resolve().parent.parent


def main(doing: str, uri: str, options: str = "{}") -> None:
    storage = json.loads(options)
    match doing:
        case "init":
            make(uri, PERSON, COMPANY, storage_options=storage)
        case "write":
            add(reopen(uri, storage_options=storage), "new", token="the-write")
        case "create branch":
            create_branch(reopen(uri, storage_options=storage), "work")
        case "delete branch":
            delete_branch(reopen(uri, storage_options=storage), "work")
        case _:
            raise SystemExit(f"unknown: {doing}")
    print("done", flush=True)


def crash(
    doing: str, uri: str, point: Fault, *, nth: int = 1, options: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Do it in a process that is killed when it reaches `point` for the `nth` time."""
    environment = {**os.environ, ENVIRONMENT: f"{point.value}=kill:{nth}"}
    command = [sys.executable, "-m", "tests.crasher", doing, uri, json.dumps(dict(options or {}))]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)


if __name__ == "__main__":
    main(*sys.argv[1:])
