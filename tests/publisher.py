"""A real process that publishes: `python -m tests.publisher URI BRANCH NAME COUNT [OPTIONS]`. Prints each commit it was told of.

With COUNT 0 it goes on until it is killed. It prints `begin` before it asks for the lock, `publish` when it has it, and
then the commit that was acknowledged.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from omnigraph.ids import BranchName
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from tests.graphs import reopen

ROOT = Path(__file__).resolve().parent.parent


def main(uri: str, branch: str, name: str, count: str, options: str = "{}") -> None:
    manifest = reopen(uri, storage_options=json.loads(options))
    on = BranchName(branch)
    print("ready", flush=True)
    for n in itertools.count() if count == "0" else range(int(count)):
        print("begin", flush=True)
        with hold(manifest, on) as grant:
            print("publish", flush=True)
            commit = publish(
                manifest, Publication(CommitKind.LOAD, message=f"{name}-{n}", expect=Preconditions(epoch=grant.epoch)), branch=on
            ).commit
        print(f"{commit.id} {commit.message}", flush=True)


def start(uri: str, branch: str, name: str, count: int, *, options: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.publisher", uri, branch, name, str(count), json.dumps(dict(options or {}))]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def acknowledged(output: str) -> list[str]:
    """The commit ids a publisher was told of, from what it printed."""
    return [line.split()[0] for line in output.splitlines() if " " in line]


if __name__ == "__main__":
    main(*sys.argv[1:])
