"""Locks between real processes, on a disk and on S3: exclusion, fairness, and what is left when a holder dies or sleeps."""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from omnigraph.errors import Kind, LimitError
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.claims import Lease
from omnigraph.manifest.locks import Locks
from omnigraph.store.objects import Objects, open_objects
from tests.forks import Forked
from tests.s3 import CountingProxy, S3Server

TTL = 1.5
PATIENCE = 60.0
"""Only turns a hang into a failure."""


class Other:
    """Another process, told what to do and asked what came of it."""

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self.process = Forked("tests.contract.locks_child", uri, json.dumps(options), str(TTL))
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            self._answers.put(line.strip())
        self._answers.put("dead")

    def tell(self, *words: object) -> None:
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        return self._answers.get(timeout=PATIENCE)

    def has_said_nothing(self) -> bool:
        return self._answers.empty()

    def ask(self, *words: object) -> str:
        self.tell(*words)
        return self.hear()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Place:
    """Somewhere to keep a graph, and processes that use it.

    There is no graph in it, so nobody ever publishes an epoch: on S3 every holder is told that it owes one (`True`).
    """

    def __init__(self, uri: str, options: dict[str, str]) -> None:
        self.uri, self.options = uri, options
        self.objects: Objects = open_objects(uri, storage_options=options)
        self.locks = Locks.of(self.objects, ttl_seconds=TTL)
        self._others: list[Other] = []

    def start(self, count: int) -> list[Other]:
        others = [Other(self.uri, self.options) for _ in range(count)]
        self._others += others
        assert [other.hear() for other in others] == ["ready"] * count
        return others

    def end(self) -> None:
        for other in self._others:
            other.end()

    def lease(self, name: str) -> Lease | None:
        found = self.objects.get_versioned(f"__lease/{name}.json")
        return None if found is None else msgspec.json.decode(found[0], type=Lease)

    def is_live(self, name: str) -> bool:
        lease = self.lease(name)
        return lease is not None and not lease.released


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Place]:
    place = Place(str(tmp_path / "graph"), {})
    yield place
    place.end()


@pytest.fixture
def s3(s3_server: S3Server, s3_uri: str) -> Iterator[Place]:
    place = Place(s3_uri, s3_server.storage_options)
    yield place
    place.end()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


# Exclusion


def count_together(place: Place, tmp_path: Path, *, processes: int, times: int) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    others = place.start(processes)
    for other in others:
        other.tell("count", MAIN, counter, times)
    assert [other.hear() for other in others] == ["counted"] * processes
    assert int(counter.read_text()) == processes * times


def test_eight_processes_count_without_losing_one(disk: Place, tmp_path: Path) -> None:
    count_together(disk, tmp_path, processes=8, times=25)


@pytest.mark.s3
def test_four_processes_count_without_losing_one_on_s3(s3: Place, tmp_path: Path) -> None:
    count_together(s3, tmp_path, processes=4, times=10)
    lease = s3.lease("main")
    assert lease is not None
    assert lease.epoch == 1  # forty hand-overs, and nobody was taken for dead


def test_writers_of_different_branches_hold_at_the_same_time(disk: Place) -> None:
    first, second = disk.start(2)
    assert first.ask("writer", "main", PATIENCE) == "granted 0 False"
    assert second.ask("writer", "dev", PATIENCE) == "granted 0 False"
    assert [each.ask("leave") for each in (first, second)] == ["left", "left"]


@pytest.mark.s3
def test_writers_of_different_branches_hold_at_the_same_time_on_s3(s3: Place) -> None:
    first, second = s3.start(2)
    assert first.ask("writer", "main", PATIENCE) == "granted 1 True"
    assert second.ask("writer", "root", PATIENCE) == "granted 1 True"  # a branch of this name is no one's root
    assert [each.ask("check") for each in (first, second)] == ["ok", "ok"]


def test_exclusive_waits_for_writers_and_keeps_later_ones_out(disk: Place) -> None:
    writer, alone, late = disk.start(3)
    assert writer.ask("writer", "main", PATIENCE) == "granted 0 False"
    assert alone.ask("exclusive", 0) == f"failed {Kind.LOCK_TIMEOUT}"
    alone.tell("exclusive", PATIENCE)
    until(lambda: disk.locks.busy(BranchName("dev")))  # it stands at the turnstile
    assert late.ask("writer", "dev", 0.05) == f"failed {Kind.LOCK_TIMEOUT}"
    late.tell("writer", "dev", PATIENCE)
    assert writer.ask("leave") == "left"
    assert alone.hear() == "granted 0 False"
    assert late.has_said_nothing()
    assert alone.ask("leave") == "left"
    assert late.hear() == "granted 0 False"


@pytest.mark.s3
def test_exclusive_waits_for_writers_and_keeps_later_ones_out_on_s3(s3: Place) -> None:
    writer, alone, late = s3.start(3)
    assert writer.ask("writer", "main", PATIENCE) == "granted 1 True"
    alone.tell("exclusive", PATIENCE)
    until(lambda: s3.is_live("root"))
    assert late.ask("writer", "dev", 0.05) == f"failed {Kind.LOCK_TIMEOUT}"
    assert not s3.is_live("dev")
    assert alone.has_said_nothing()
    assert writer.ask("leave") == "left"
    assert alone.hear() == "granted 1 True"
    late.tell("writer", "dev", PATIENCE)
    assert alone.ask("check") == "ok"
    assert late.has_said_nothing()
    assert alone.ask("leave") == "left"
    assert late.hear() == "granted 1 True"


def test_exclusive_is_not_starved_by_writers_that_never_pause(disk: Place, tmp_path: Path) -> None:
    writers = 6
    turns = tmp_path / "turns"
    turns.touch()
    others = disk.start(writers)
    for number, other in enumerate(others):
        assert other.ask("stream", f"branch-{number}", turns) == "streaming"
    until(lambda: turns.stat().st_size > 5 * writers)
    for _ in range(3):
        before = turns.stat().st_size
        with disk.locks.exclusive():
            during = turns.stat().st_size
        # Those who were inside finish; those who stood at the turnstile with us may go first. Without it: thousands.
        assert during - before <= 6 * writers
    assert all(other.has_said_nothing() for other in others)


def test_a_writer_is_not_starved_by_a_process_that_never_pauses(disk: Place, tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    turns.touch()
    streaming, waiter = disk.start(2)
    assert streaming.ask("stream", "main", turns) == "streaming"
    for _ in range(3):
        turns.write_bytes(b"")
        until(lambda: turns.stat().st_size > 5)
        assert waiter.ask("writer", "main", PATIENCE).startswith("granted")
        assert waiter.ask("leave") == "left"


@pytest.mark.s3
def test_a_writer_is_not_starved_by_a_process_that_never_pauses_on_s3(s3: Place, tmp_path: Path) -> None:
    turns = tmp_path / "turns"
    turns.touch()
    streaming, waiter = s3.start(2)
    assert streaming.ask("stream", "main", turns) == "streaming"
    until(lambda: turns.stat().st_size > 5)
    waiter.tell("writer", "main", PATIENCE)
    until(lambda: ((lease := s3.lease("main")) is not None and bool(lease.queue)) or not waiter.has_said_nothing())
    before = turns.stat().st_size
    assert waiter.hear() == "granted 1 True"
    assert turns.stat().st_size - before <= 2  # the turn that was running, and none that began after we stood in line


@pytest.mark.s3
def test_those_who_wait_in_line_and_die_hold_nobody_up_for_long_on_s3(s3: Place) -> None:
    holder, dying, heir = s3.start(3)
    assert holder.ask("writer", "main", PATIENCE) == "granted 1 True"
    for number, other in enumerate((dying, heir), start=1):
        other.tell("writer", "main", PATIENCE)
        until(lambda number=number: (lease := s3.lease("main")) is not None and len(lease.queue) == number)  # type: ignore[misc]  # a default binds it
    dying.send(signal.SIGKILL)
    assert holder.ask("leave") == "left"
    assert heir.hear() == "granted 1 True"


@pytest.mark.s3
def test_an_uncontended_writer_costs_three_requests_on_s3(s3_uri: str, s3_proxy: CountingProxy) -> None:
    locks = Locks.of(open_objects(s3_uri, storage_options=s3_proxy.storage_options))
    with locks.writer(MAIN):
        pass
    s3_proxy.reset()
    for _ in range(5):
        with locks.writer(MAIN):
            pass
    assert s3_proxy.counts == {"put": 10, "get": 5}


@pytest.mark.parametrize("where", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
def test_busy_sees_holders_and_waiters_in_other_processes(where: str, request: pytest.FixtureRequest) -> None:
    place: Place = request.getfixturevalue(where)
    holder, waiter = place.start(2)
    assert holder.ask("busy", "main") == "False"
    assert holder.ask("writer", "main", PATIENCE).startswith("granted")
    assert waiter.ask("busy", "main") == "True"
    assert waiter.ask("busy", "dev") == "False"
    assert holder.ask("busy", "main") == "False"
    waiter.tell("writer", "main", PATIENCE)
    until(lambda: holder.ask("busy", "main") == "True")
    assert holder.ask("leave") == "left"
    assert waiter.hear().startswith("granted")


# Death, sleep and impatience


def test_a_killed_holder_frees_its_locks_at_once(disk: Place) -> None:
    dying, heir, alone = disk.start(3)
    assert dying.ask("writer", "main", PATIENCE) == "granted 0 False"
    heir.tell("writer", "main", PATIENCE)
    until(lambda: disk.locks.busy(MAIN))
    dying.send(signal.SIGKILL)
    assert heir.hear() == "granted 0 False"
    alone.tell("exclusive", PATIENCE)
    heir.send(signal.SIGKILL)
    assert alone.hear() == "granted 0 False"


def test_a_process_killed_between_writes_that_follow_each_other_frees_its_lock(disk: Place, tmp_path: Path) -> None:
    """It keeps the lock for its next write while another process waits. The kernel releases it."""
    turns = tmp_path / "turns"
    turns.touch()
    streaming, waiter, other = disk.start(3)
    assert streaming.ask("stream", "main", turns) == "streaming"
    until(lambda: turns.stat().st_size > 5)
    waiter.tell("writer", "main", PATIENCE)
    streaming.send(signal.SIGKILL)
    assert waiter.hear() == "granted 0 False"
    assert waiter.ask("leave") == "left"
    assert other.ask("exclusive", 0) == "granted 0 False"


@pytest.mark.s3
def test_a_killed_holder_is_replaced_after_its_ttl_on_s3(s3: Place) -> None:
    dying, heir = s3.start(2)
    assert dying.ask("writer", "main", PATIENCE) == "granted 1 True"
    assert heir.ask("writer", "main", 0) == f"failed {Kind.LOCK_TIMEOUT}"
    dying.send(signal.SIGKILL)
    assert heir.ask("writer", "main", PATIENCE) == "granted 2 True"
    assert heir.ask("leave") == "left"


@pytest.mark.s3
def test_a_killed_exclusive_holder_is_replaced_by_a_waiting_writer_on_s3(s3: Place) -> None:
    dying, heir = s3.start(2)
    assert dying.ask("exclusive", PATIENCE) == "granted 1 True"
    dying.send(signal.SIGKILL)
    assert heir.ask("writer", "main", PATIENCE) == "granted 1 True"
    assert heir.ask("leave") == "left"
    assert heir.ask("exclusive", PATIENCE) == "granted 2 True"


@pytest.mark.s3
def test_a_sleeping_holder_that_was_replaced_is_fenced_when_it_wakes_on_s3(s3: Place) -> None:
    sleeper, heir = s3.start(2)
    assert sleeper.ask("writer", "main", PATIENCE) == "granted 1 True"
    assert sleeper.ask("check") == "ok"
    sleeper.send(signal.SIGSTOP)
    assert heir.ask("writer", "main", PATIENCE) == "granted 2 True"
    sleeper.send(signal.SIGCONT)
    assert sleeper.ask("check") == f"failed {Kind.FENCED}"
    assert sleeper.ask("leave") == "left"
    assert heir.ask("check") == "ok"
    assert s3.is_live("main")  # the sleeper's leaving did not take the heir's lease away


@pytest.mark.s3
def test_a_holder_that_lives_keeps_its_lease_beyond_the_ttl_on_s3(s3: Place) -> None:
    holder, waiter = s3.start(2)
    assert holder.ask("writer", "main", PATIENCE) == "granted 1 True"
    waiter.tell("writer", "main", PATIENCE)
    until(lambda: (lease := s3.lease("main")) is not None and lease.renewals >= 4)
    assert waiter.has_said_nothing()
    assert holder.ask("check") == "ok"
    assert holder.ask("leave") == "left"
    assert waiter.hear() == "granted 1 True"


@pytest.mark.parametrize("where", ["disk", pytest.param("s3", marks=pytest.mark.s3)])
@pytest.mark.parametrize("order", [("writer", "main"), ("exclusive",)])
def test_an_interrupt_or_a_timeout_while_waiting_leaves_nothing_held(
    where: str, order: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(where)
    (waiter,) = place.start(1)
    with place.locks.writer(MAIN):
        assert waiter.ask(*order, 0.1) == f"failed {Kind.LOCK_TIMEOUT}"
        assert waiter.ask("aloud", *order, PATIENCE) == "asking"
        if where == "s3" and order == ("exclusive",):
            until(lambda: place.is_live("root"))
        else:
            until(lambda: place.locks.busy(MAIN))  # it is seen to wait
        waiter.send(signal.SIGINT)
        assert waiter.hear() == "failed interrupted"
    with place.locks.exclusive(timeout_seconds=PATIENCE):
        pass
    if where == "s3":
        assert not place.is_live("root")
        assert not place.is_live("main")
        assert not place.locks.busy(MAIN)


def test_a_forked_child_may_not_lock_and_does_not_keep_its_parents_locks(disk: Place) -> None:
    parent, heir = disk.start(2)
    assert parent.ask("writer", "main", PATIENCE) == "granted 0 False"
    child, outcome = parent.ask("fork").split()
    try:
        assert outcome == Kind.FORKED_PROCESS
        assert heir.ask("writer", "main", 0) == f"failed {Kind.LOCK_TIMEOUT}"  # the child closed its own copies, not ours
        parent.end()
        assert heir.ask("writer", "main", PATIENCE) == "granted 0 False"
    finally:
        os.kill(int(child), signal.SIGKILL)


def test_a_waiter_that_gave_up_does_not_take_the_lock_later(disk: Place) -> None:
    holder, impatient, heir = disk.start(3)
    assert holder.ask("writer", "main", PATIENCE) == "granted 0 False"
    assert impatient.ask("writer", "main", 0.05) == f"failed {Kind.LOCK_TIMEOUT}"
    assert holder.ask("leave") == "left"
    assert heir.ask("writer", "main", PATIENCE) == "granted 0 False"
    with pytest.raises(LimitError), disk.locks.writer(MAIN, timeout_seconds=0):
        pass
