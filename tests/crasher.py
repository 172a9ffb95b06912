"""A real process that does one thing to a graph: `OMNIGRAPH_FAULT=... python -m tests.crasher DOING URI [OPTIONS]`.

It says `done`, or the kind of the error it got.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import omnigraph as og
from omnigraph import faults
from omnigraph.errors import OmniGraphError
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.recover import heal
from omnigraph.store.tables import Tables
from tests.crash.matrix import WRITERS, run
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
        case "delete":
            delete_branch(manifest, BranchName(what))
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
        case "heal":
            heal(manifest, Tables(manifest.root), BranchName(what), timeout_seconds=60)
        case _:
            raise SystemExit(f"unknown: {verb}")


NURSERY = get_context("forkserver")
"""Forks processes that have imported everything and done nothing yet: hundreds are killed, and importing Lance takes most of a second."""
NURSERY.set_forkserver_preload(["tests.crasher", "tests.crash.powercut"])


PATIENCE_SECONDS = 120


class Died(NamedTuple):
    """How a process ended, and what it had said."""

    returncode: int | None
    said: str


def crash(doing: str, uri: str, point: Fault, *, nth: int = 1, options: Mapping[str, str] | None = None) -> Died:
    """Do it in a process that is killed when it reaches `point` for the `nth` time."""
    with _begun(doing, uri, f"{point.value}=kill:{nth}", options) as (process, out, err):
        process.join(PATIENCE_SECONDS)
        return Died(process.exitcode, out.read_text() + err.read_text())


def elsewhere(doing: str, uri: str) -> None:
    """Do it in another process, undisturbed."""
    with _begun(doing, uri, "", None) as (process, _, err):
        process.join(PATIENCE_SECONDS)
        assert process.exitcode == 0, err.read_text()


@contextmanager
def _begun(doing: str, uri: str, fault: str, options: Mapping[str, str] | None) -> Iterator[tuple[BaseProcess, Path, Path]]:
    """A process that does it, and the files of its output and its errors. It ends with the block, if not before."""
    with TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        out.touch()
        err.touch()
        environment = {**os.environ, ENVIRONMENT: fault}
        process = NURSERY.Process(target=_alone, args=(environment, (out, err), doing, uri, json.dumps(dict(options or {}))))
        process.start()
        try:
            yield process, out, err
        finally:
            process.kill()
            process.join()


def _alone(environment: dict[str, str], streams: tuple[Path, Path], *arguments: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    faults._armed = faults._from_environment()  # read when the module was imported, long ago
    for number, stream in enumerate(streams, start=1):
        with stream.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), number)
    try:
        main(*arguments)
    except KeyboardInterrupt:  # die of it, as an interpreter does that was not forked
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def is_stopped(pid: int) -> bool:
    """Do all its threads stand still? One that waits for the disk comes to a halt after that."""
    try:
        states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(states) and all(state == "T" for state in states)


def command(doing: str, uri: str, options: Mapping[str, str] | None) -> list[str]:
    return [sys.executable, "-m", "tests.crasher", doing, uri, json.dumps(dict(options or {}))]


class Sleeper:
    """A process that has reached a point and sleeps there."""

    def __init__(self, process: BaseProcess, out: Path) -> None:
        self._process = process
        self._out = out

    def wake(self) -> str:
        """Let it go on to its end; what it said last."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)
        self._process.join(PATIENCE_SECONDS)
        assert self._process.exitcode is not None, "it does not end"
        return self._out.read_text().strip()

    def interrupt(self) -> int | None:
        """Press Ctrl-C and let it go on: the interrupt is the first thing it meets. Its exit code.

        Sent to the main thread: what is sent to a sleeping process goes to whichever of its threads wakes first, and the main
        one may be done by the time that one has told it.
        """
        if ctypes.CDLL(None, use_errno=True).tgkill(self._process.pid, self._process.pid, signal.SIGINT) != 0:
            raise OSError(ctypes.get_errno(), "tgkill failed")
        self.wake()
        return self._process.exitcode


@contextmanager
def asleep(doing: str, uri: str, point: Fault, *, nth: int = 1, options: Mapping[str, str] | None = None) -> Iterator[Sleeper]:
    """Do it in a process that falls asleep (SIGSTOP) when it reaches `point` for the `nth` time."""
    with _begun(doing, uri, f"{point.value}=stop:{nth}", options) as (process, out, _):
        assert process.pid is not None
        until = time.monotonic() + PATIENCE_SECONDS
        while not is_stopped(process.pid):
            assert process.exitcode is None, f"{point} was not reached"
            assert time.monotonic() < until, f"it neither ends nor reaches {point}"
            process.join(0.005)
        yield Sleeper(process, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
