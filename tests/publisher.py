"""A process that publishes: `main(URI, BRANCH, NAME, COUNT, [OPTIONS])`. Prints each commit it was told of.

With COUNT 0 it goes on until it is killed. It prints `begin` before it asks for the lock, `publish` when it has it, and
then the commit that was acknowledged.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping

from omnigraph.ids import BranchName
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from tests.forks import Forked
from tests.graphs import reopen


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


def start(uri: str, branch: str, name: str, count: int, *, options: Mapping[str, str] | None = None) -> Forked:
    return Forked("tests.publisher", uri, branch, name, str(count), json.dumps(dict(options or {})))


def acknowledged(output: str) -> list[str]:
    """The commit ids a publisher was told of, from what it printed."""
    return [line.split()[0] for line in output.splitlines() if " " in line]
