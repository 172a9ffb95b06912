"""A process that writes without a pause keeps its lock for a few writes, while others wait. Two sets of locks stand for two processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import flocks, kept_lock
from omnigraph.manifest.flocks import Flocks
from omnigraph.manifest.locks import Locks
from omnigraph.store.objects import open_objects

DEV = BranchName("dev")
LONG = 3600.0


class Writer:
    """Another process that waits for the writer lock of main, or for the exclusive lock."""

    def __init__(self, locks: Locks, *, exclusive: bool = False) -> None:
        self.got = threading.Event()
        self._locks = locks
        self._exclusive = exclusive
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._locks.exclusive() if self._exclusive else self._locks.writer(MAIN):
            self.got.set()

    def join(self) -> None:
        self._thread.join(20)
        assert self.got.is_set()


@pytest.fixture
def ours(tmp_path: Path) -> Locks:
    return Locks(open_objects(str(tmp_path)), ttl_seconds=1)


@pytest.fixture
def theirs(tmp_path: Path) -> Locks:
    return Locks(open_objects(str(tmp_path)), ttl_seconds=1)


@pytest.fixture(autouse=True)
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause is too long and no turn is over, unless a test says so."""
    monkeypatch.setattr(kept_lock, "PAUSE_SECONDS", LONG)
    monkeypatch.setattr(flocks, "TURN_SECONDS", LONG)


@contextmanager
def writing(locks: Locks) -> Iterator[None]:
    locks.keeps(MAIN)
    with locks.writer(MAIN):
        yield


def until_waiting(locks: Locks) -> None:
    """Wait until another process waits for the lock that this thread holds, and is past the turnstile."""
    process_locks = locks._process_locks
    assert isinstance(process_locks, Flocks)
    while not process_locks._others_wait(MAIN):
        threading.Event().wait(0.001)


@contextmanager
def kept(ours: Locks, theirs: Locks) -> Iterator[Writer]:
    """We have written twice without a pause, and another process waits."""
    with writing(ours):
        pass
    with writing(ours):
        other = Writer(theirs)
        until_waiting(ours)
    assert ours.keeps(MAIN)
    yield other
    other.join()


def test_the_next_write_goes_on_before_those_who_wait(ours: Locks, theirs: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept(ours, theirs) as other:
        for _ in range(3):
            with writing(ours):
                assert not other.got.is_set()
            assert not other.got.is_set()
        monkeypatch.setattr(flocks, "TURN_SECONDS", 0.0)
        with writing(ours):
            pass


def test_a_kept_lock_is_released_if_no_write_comes(ours: Locks, theirs: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept(ours, theirs) as other:
        monkeypatch.setattr(kept_lock, "PAUSE_SECONDS", 0.01)
        with ours.writer(MAIN):
            assert not other.got.is_set()
    assert not ours.keeps(MAIN)


def test_a_turn_ends(ours: Locks, theirs: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flocks, "TURN_SECONDS", 0.0)
    with writing(ours):
        pass
    with writing(ours):
        other = Writer(theirs)
        until_waiting(ours)
    other.join()


def test_a_process_that_paused_keeps_nothing(ours: Locks, theirs: Locks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lock, "PAUSE_SECONDS", -1.0)
    with writing(ours):
        pass
    with writing(ours):
        other = Writer(theirs)
        until_waiting(ours)
    assert not ours.keeps(MAIN)
    other.join()


def test_a_write_that_failed_keeps_nothing(ours: Locks, theirs: Locks) -> None:
    with writing(ours):
        pass

    def fail() -> None:
        with writing(ours):
            others.append(Writer(theirs))
            until_waiting(ours)
            raise KeyError

    others: list[Writer] = []
    with pytest.raises(KeyError):
        fail()
    others[0].join()


def test_nothing_is_kept_if_nobody_waits(ours: Locks, theirs: Locks) -> None:
    for _ in range(3):
        with writing(ours):
            pass
    assert not ours.keeps(MAIN)
    with theirs.writer(MAIN, timeout_seconds=0):
        pass


def test_nothing_is_kept_from_a_process_that_waits_for_the_whole_graph(ours: Locks, theirs: Locks) -> None:
    with writing(ours):
        pass
    with writing(ours):
        other = Writer(theirs, exclusive=True)
        while not ours.busy(MAIN):
            threading.Event().wait(0.001)
    other.join()


@pytest.mark.parametrize("next_lock", ["exclusive", "dev"])
def test_another_lock_of_this_process_releases_the_kept_one(ours: Locks, theirs: Locks, next_lock: str) -> None:
    with kept(ours, theirs), ours.exclusive() if next_lock == "exclusive" else ours.writer(DEV):
        pass
