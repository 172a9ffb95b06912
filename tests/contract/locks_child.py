"""Another process that locks: reads orders from its input, one per line, and answers each on one line."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from omnigraph.errors import OmniGraphError
from omnigraph.ids import BranchName
from omnigraph.manifest.locks import Grant, Locks
from omnigraph.store.objects import open_objects


def main(uri: str, options: str, ttl_seconds: str) -> None:
    locks = Locks.of(open_objects(uri, storage_options=json.loads(options)), ttl_seconds=float(ttl_seconds))
    held = ExitStack()
    grant = Grant()
    answer("ready")
    for line in sys.stdin:
        try:
            order, *words = line.split()
            if order == "aloud":
                answer("asking")
                order, *words = words
            match order:
                case "writer":
                    grant = held.enter_context(locks.writer(BranchName(words[0]), timeout_seconds=float(words[1])))
                    answer("granted", grant.epoch, grant.took_over)
                case "exclusive":
                    grant = held.enter_context(locks.exclusive(timeout_seconds=float(words[0])))
                    answer("granted", grant.epoch, grant.took_over)
                case "check":
                    grant.check()
                    answer("ok")
                case "busy":
                    answer(locks.busy(BranchName(words[0])))
                case "leave":
                    held.close()
                    answer("left")
                case "count":
                    count_up(locks, BranchName(words[0]), Path(words[1]), int(words[2]))
                    answer("counted")
                case "stream":
                    stream(locks, BranchName(words[0]), words[1])
                case "fork":
                    answer(fork_child(locks))
        except (OmniGraphError, KeyboardInterrupt) as error:
            answer("failed", error.kind if isinstance(error, OmniGraphError) else "interrupted")


def answer(*words: object) -> None:
    print(*words, flush=True)


def count_up(locks: Locks, branch: BranchName, counter: Path, times: int) -> None:
    for _ in range(times):
        locks.keeps(branch)  # as a write does: on a disk, a process keeps its lock for a few turns
        with locks.writer(branch):
            counter.write_text(str(int(counter.read_text()) + 1))  # loses counts unless we are alone


def stream(locks: Locks, branch: BranchName, turns: str) -> None:
    """Write until killed, or left alone: one byte a turn, and no pause between turns."""
    file = os.open(turns, os.O_WRONLY | os.O_APPEND)
    parent = os.getppid()
    answer("streaming")
    while os.getppid() == parent:
        locks.keeps(branch)
        with locks.writer(branch):
            os.write(file, b".")
            time.sleep(0.005)  # a turn lasts as long as a small write


def fork_child(locks: Locks) -> str:
    """Fork; the child reports whether it may lock, then lives on until it is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with locks.writer(BranchName("other")):
                os.write(writing, b"granted")
        except OmniGraphError as error:
            os.write(writing, error.kind.value.encode())
        signal.alarm(120)  # in case nobody is left to kill it
        while True:
            signal.pause()
    return f"{child} {os.read(reading, 100).decode()}"
