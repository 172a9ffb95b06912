"""A real process that does one thing to a graph: `OMNIGRAPH_FAULT=... python -m tests.crasher DOING URI [OPTIONS]`.

It says `done`, or the kind of the error it got.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import omnigraph as og
from omnigraph import faults
from omnigraph.errors import OmniGraphError
from omnigraph.exec.history import landing, pairs
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.recover import heal
from omnigraph.manifest.tagging import create_tag, delete_tag
from omnigraph.store.tables import Tables
from tests.crash.matrix import WRITERS, run
from tests.forks import Forked
from tests.graphs import COMPANY, PERSON, add, make, reopen

ROOT = Path(__file__).resolve().parent.parent


TTL_SECONDS = 2.0
"""How long a lease of the process outlives it: short, so that a successor need not wait long; long enough for a busy machine."""


def main(doing: str, uri: str, options: str = "{}") -> None:
    storage = json.loads(options)
    if doing == "init":
        make(uri, PERSON, COMPANY, storage_options=storage)
    else:
        manifest = reopen(uri, storage_options=storage)
        locks = Locks.of(manifest.root.objects, ttl_seconds=TTL_SECONDS)
        try:
            do(manifest, *doing.split(maxsplit=1))
        except OmniGraphError as error:
            print(error.kind.value, flush=True)
            print(error.message, file=sys.stderr, flush=True)
            raise SystemExit(1) from error
        del locks  # kept until here: a graph whose locks nobody holds forgets their ttl
    print("done", flush=True)


def do(manifest: Manifest, verb: str, what: str = "") -> None:
    match verb:
        case "write":
            add(manifest, "new", token="the-write")
        case "create":
            name, _, parent = what.partition(" from ")
            create_branch(manifest, name, from_=BranchName(parent or MAIN))
        case "tag":
            name, _, branch = what.partition(" of ")
            create_tag(manifest, name, branch=BranchName(branch or MAIN))
        case "untag":
            delete_tag(manifest, what)
        case "delete":
            delete_branch(manifest, BranchName(what))
        case "copy":
            target, _, branch = what.partition(" branch ")
            og.open(manifest.root.uri, mode="r", storage_options=manifest.root.storage_options).copy_to(target, branch=branch or None)
        case "forget":
            og.open(manifest.root.uri, storage_options=manifest.root.storage_options).branches.delete(what)
        case "matrix":
            run(manifest, WRITERS[int(what)])
        case "mutate":
            og.open(manifest.root.uri, storage_options=manifest.root.storage_options).mutate(what)
        case "on":
            branch, _, text = what.partition(" ")
            og.open(manifest.root.uri, storage_options=manifest.root.storage_options).mutate(text, branch=branch)
        case "load":
            og.open(manifest.root.uri, storage_options=manifest.root.storage_options).load(**json.loads(what))
        case "apply" | "purge":
            og.open(manifest.root.uri, storage_options=manifest.root.storage_options).apply_schema(what, allow_data_loss=verb == "purge")
        case "merge" | "merge-in-files":
            source, _, into = what.partition(" into ")
            if verb == "merge-in-files":
                rows_through_files(setattr)
            _graph(manifest).merge(source, into)
        case "revert":
            graph = _graph(manifest)
            graph.revert(graph.commits()[0].id)
        case "transact":
            branch, _, texts = what.partition(" ")
            with _graph(manifest).transaction(branch) as transaction:
                _run(transaction, texts)
        case "land":
            branch, _, texts = what.partition(" ")
            with ExitStack() as block, _disarmed():
                _run(block.enter_context(_graph(manifest).transaction(branch)), texts)
        case "cleanup":
            done = _graph(manifest).cleanup(keep=int(what))
            if errors := [table.error for table in done.tables if table.error is not None]:
                raise SystemExit("\n".join(errors))
        case "repair":
            _graph(manifest).repair(confirm=True)
        case "heal":
            heal(manifest, Tables(manifest.root), BranchName(what), timeout_seconds=60)
        case _:
            raise SystemExit(f"unknown: {verb}")


def _graph(manifest: Manifest) -> og.Graph:
    return og.open(manifest.root.uri, actor="act-merger", storage_options=manifest.root.storage_options)


def rows_through_files(assign: Callable[[ModuleType, str, int], None]) -> None:
    """Make a merge of a few rows go through data files, as one of many rows does."""
    for module, name in ((landing, "HELD_BYTES"), (pairs, "FIRST_ROWS"), (pairs, "MOST_ROWS")):
        assign(module, name, 1)


def _run(transaction: og.Transaction, texts: str) -> None:
    for text in json.loads(texts):
        transaction.mutate(f"query q() {{ {text} }}")


@contextmanager
def _disarmed() -> Iterator[None]:
    """No fault acts inside this block."""
    held, faults._armed = faults._armed, None
    try:
        yield
    finally:
        faults._armed = held


class Died(NamedTuple):
    """How a process ended, and what it had said."""

    returncode: int | None
    said: str


def crash(doing: str, uri: str, point: Fault, *, nth: int = 1, options: Mapping[str, str] | None = None) -> Died:
    """Do it in a process that is killed when it reaches `point` for the `nth` time."""
    with _begun(doing, uri, f"{point.value}=kill:{nth}", options) as process:
        said = "".join(process.communicate())
        return Died(process.returncode, said)


def elsewhere(doing: str, uri: str) -> None:
    """Do it in another process, undisturbed."""
    with _begun(doing, uri, "", None) as process:
        _, errors = process.communicate()
        assert process.returncode == 0, errors


def _begun(doing: str, uri: str, fault: str, options: Mapping[str, str] | None) -> Forked:
    return Forked("tests.crasher", doing, uri, json.dumps(dict(options or {})), environment={**os.environ, ENVIRONMENT: fault})


def command(doing: str, uri: str, options: Mapping[str, str] | None) -> list[str]:
    return [sys.executable, "-m", "tests.crasher", doing, uri, json.dumps(dict(options or {}))]


class Sleeper:
    """A process that has reached a point and sleeps there."""

    def __init__(self, process: Forked) -> None:
        self._process = process

    def wake(self) -> str:
        """Let it go on to its end; what it said last."""
        self._process.send_signal(signal.SIGCONT)
        said, _ = self._process.communicate()
        return said.strip()

    def errors(self) -> str:
        return self._process.errors()

    def interrupt(self) -> int | None:
        """Press Ctrl-C and let it go on: the interrupt is the first thing it meets. Its exit code.

        Sent to the main thread: what is sent to a sleeping process goes to whichever of its threads wakes first, and the main
        one may be done by the time that one has told it.
        """
        if ctypes.CDLL(None, use_errno=True).tgkill(self._process.pid, self._process.pid, signal.SIGINT) != 0:
            raise OSError(ctypes.get_errno(), "tgkill failed")
        self.wake()
        return self._process.returncode


@contextmanager
def asleep(doing: str, uri: str, point: Fault, *, nth: int = 1, options: Mapping[str, str] | None = None) -> Iterator[Sleeper]:
    """Do it in a process that falls asleep (SIGSTOP) when it reaches `point` for the `nth` time."""
    with _begun(doing, uri, f"{point.value}=stop:{nth}", options) as process:
        process.until_stopped()
        yield Sleeper(process)


if __name__ == "__main__":
    main(*sys.argv[1:])
