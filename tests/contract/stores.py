"""The stores that the objects contract is run on, and the second processes that share them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from omnigraph.store.objects import Objects, open_objects

_REPOSITORY = Path(__file__).parents[2]


class Place(NamedTuple):
    """Where a store is: all that another process needs to open it too."""

    uri: str
    options: dict[str, str]

    def open(self) -> Objects:
        return open_objects(self.uri, storage_options=self.options)


def start_child(
    role: str, place: Place, *, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None, **task: Any
) -> subprocess.Popen[str]:
    """Another Python process on the same store: a new interpreter, never a fork of this one."""
    arguments = json.dumps({"uri": place.uri, "options": place.options, **task})
    return subprocess.Popen(
        [*prefix, sys.executable, "-m", "tests.contract.objects_child", role, arguments],
        cwd=_REPOSITORY,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(child: subprocess.Popen[str]) -> Any:
    """What the child reports at its end."""
    out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    return json.loads(out.splitlines()[-1])


def run_child(role: str, place: Place, *, prefix: Sequence[str] = (), **task: Any) -> Any:
    return finish(start_child(role, place, prefix=prefix, **task))


def run_together(children: Sequence[subprocess.Popen[str]]) -> list[Any]:
    """Let children started with `wait=True` go at the same moment, and gather their reports."""
    release(children)
    return [finish(child) for child in children]


def release(children: Sequence[subprocess.Popen[str]]) -> None:
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
