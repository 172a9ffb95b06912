"""Processes forked from one that has imported everything and done nothing yet: importing Lance takes most of a second.

The fork server has never used Lance, which does not survive a fork. Where the start or the end of an interpreter is tested, or
something is put around the process, it is started by `subprocess`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Final, Self, TypeAlias
from weakref import finalize

from omnigraph import faults

ROOT: Final = Path(__file__).resolve().parent.parent
NURSERY: Final = get_context("forkserver")
NURSERY.set_forkserver_preload(
    [
        *("tests.crasher", "tests.publisher", "tests.crash.feed_child", "tests.crash.fork_child"),
        *("tests.crash.powercut", "tests.crash.storm_child"),
        *("tests.contract.fencing_child", "tests.contract.locks_child", "tests.contract.objects_child", "tests.guard.substrate"),
    ]
)
PATIENCE_SECONDS: Final = 120.0
_Connection: TypeAlias = "Connection[Any, Any]"


class Forked:
    """`python -m MODULE ARGUMENTS`, forked: it calls `main` of the module. Has the members of `subprocess.Popen` that tests use."""

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        (their_input, our_input), (our_output, their_output) = NURSERY.Pipe(duplex=False), NURSERY.Pipe(duplex=False)
        self._errors = NamedTemporaryFile()  # noqa: SIM115  # a pipe that nobody reads could hold up the process
        given = dict(os.environ if environment is None else environment)
        self._process = NURSERY.Process(target=_run, args=(their_input, their_output, self._errors.name, given, module, arguments))
        self._process.start()
        assert self._process.pid is not None
        self.pid: Final = self._process.pid
        self.stdin: Final = open(os.dup(our_input.fileno()), "w")  # noqa: SIM115
        self.stdout: Final = open(os.dup(our_output.fileno()))  # noqa: SIM115
        for end in (their_input, our_input, our_output, their_output):
            end.close()
        self._close = finalize(self, _close, self.stdin, self.stdout, self._errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """It ends with the block, if not before."""
        self.kill()
        self.wait()
        self._close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float = PATIENCE_SECONDS) -> int:
        self._process.join(timeout)
        assert self._process.exitcode is not None, "it does not end"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, text: str = "", timeout: float = PATIENCE_SECONDS) -> tuple[str, str]:
        """Send the text and wait for the end: what it printed since, and all its errors."""
        watch = threading.Timer(timeout, self.kill)
        watch.start()
        with suppress(BrokenPipeError):
            self.stdin.write(text)
        _close(self.stdin)
        printed = self.stdout.read()
        self.wait(timeout)
        watch.cancel()
        return printed, self.errors()

    def errors(self) -> str:
        return Path(self._errors.name).read_text()

    def until_stopped(self) -> None:
        """Until all of it stands still, as at a fault point."""
        until = time.monotonic() + PATIENCE_SECONDS
        while not is_stopped(self.pid):
            assert self._process.exitcode is None, f"it has ended: {self.errors()}"
            assert time.monotonic() < until, "it neither stops nor ends"
            self._process.join(0.005)


def _close(*files: IO[Any]) -> None:
    for file in files:
        with suppress(BrokenPipeError):  # what it was sent last, it did not live to read
            file.close()


def _run(
    stdin: Connection[Any, Any],
    stdout: Connection[Any, Any],
    errors: str,
    environment: dict[str, str],
    module: str,
    arguments: tuple[str, ...],
) -> None:
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    faults._armed = faults._from_environment()  # read when the module was imported, long ago
    os.dup2(stdin.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    with open(errors, "ab") as file:
        os.dup2(file.fileno(), 2)
    stdin.close()
    stdout.close()
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    try:
        import_module(module).main(*arguments)
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
