"""The stores that the objects contract is run on, and the second processes that share them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from omnigraph.store.objects import Objects, open_objects
from tests.forks import ROOT, Forked


class Place(NamedTuple):
    """Where a store is: all that another process needs to open it too."""

    uri: str
    options: dict[str, str]

    def open(self) -> Objects:
        return open_objects(self.uri, storage_options=self.options)


Child = Forked | subprocess.Popen[str]


def start_child(role: str, place: Place, *, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None, **task: Any) -> Child:
    """Another Python process on the same store: never a fork of this one; with a prefix, a new interpreter."""
    arguments = json.dumps({"uri": place.uri, "options": place.options, **task})
    environment = {**os.environ, **(env or {})}
    if not prefix:
        return Forked("tests.contract.objects_child", role, arguments, environment=environment)
    command = [*prefix, sys.executable, "-m", "tests.contract.objects_child", role, arguments]
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(child: Child) -> Any:
    """What the child reports at its end."""
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    return json.loads(out.splitlines()[-1])


def run_child(role: str, place: Place, *, prefix: Sequence[str] = (), **task: Any) -> Any:
    return finish(start_child(role, place, prefix=prefix, **task))


def run_together(children: Sequence[Child]) -> list[Any]:
    """Let children started with `wait=True` go at the same moment, and gather their reports."""
    release(children)
    return [finish(child) for child in children]


def release(children: Sequence[Child]) -> None:
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
