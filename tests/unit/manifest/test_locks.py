"""Locks inside one process: the fair queue, the lock files' edges, and leases on a store in memory."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path

import msgspec
import pytest

from omnigraph.errors import ConflictError, InvalidInput, Kind, LimitError, OmniGraphError, Outcome, StorageError, Unsupported
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.claims import RETIRED_BYTES, Lease
from omnigraph.manifest.fair_lock import Deadline, FairLock, name_of
from omnigraph.manifest.locks import Grant, Locks
from omnigraph.store.objects import Objects, open_objects

DEV = BranchName("dev")
TTL = 0.5
LEASE = "__lease/main.json"
_places = count()


def until(condition: Callable[[], bool], *, seconds: float = 20) -> None:
    """Wait for something that must come; the bound only turns a hang into a failure."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


def in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@contextmanager
def held_elsewhere(lock: Callable[[], AbstractContextManager[Grant]]) -> Iterator[None]:
    """Another thread of this process holds the lock."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock():
            inside.set()
            leave.wait()

    thread = in_thread(hold)
    assert inside.wait(20)
    try:
        yield
    finally:
        leave.set()
        thread.join()


@pytest.fixture
def local(tmp_path: Path) -> Locks:
    return Locks.of(open_objects(str(tmp_path)))


@pytest.fixture
def memory() -> Objects:
    return open_objects(f"memory://locks-{os.getpid()}-{next(_places)}")


@pytest.fixture(params=["local", "memory"])
def locks(request: pytest.FixtureRequest, tmp_path: Path, memory: Objects) -> Locks:
    return Locks.of(open_objects(str(tmp_path))) if request.param == "local" else Locks.of(memory, ttl_seconds=TTL)


# The queue of one process


def waiting(lock: FairLock) -> int:
    return len(lock._queue)


def test_turns_are_served_in_the_order_they_came() -> None:
    lock, order = FairLock(), []
    deadline = Deadline("a test", seconds=20)

    def take(number: int) -> None:
        with lock.turn(shared=False, deadline=deadline, where="here"):
            order.append(number)

    with lock.turn(shared=False, deadline=deadline, where="here"):
        threads = []
        for number in range(8):
            threads.append(in_thread(lambda number=number: take(number)))  # type: ignore[misc]  # a default binds the number
            until(lambda number=number: waiting(lock) == number + 2)  # type: ignore[misc]  # likewise
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_shared_turns_run_together_but_do_not_pass_an_exclusive_one_that_waits() -> None:
    lock, order, together = FairLock(), [], threading.Barrier(2)
    deadline = Deadline("a test", seconds=20)

    def take(name: str, shared: bool) -> None:
        with lock.turn(shared=shared, deadline=deadline, where="here"):
            if name != "writer":
                together.wait(20)
            order.append(name)

    threads = [in_thread(lambda: take("first", True))]
    until(lambda: waiting(lock) == 1)
    threads.append(in_thread(lambda: take("writer", False)))
    until(lambda: waiting(lock) == 2)
    late = [in_thread(lambda: take("late", True)), in_thread(lambda: take("late", True))]
    until(lambda: waiting(lock) == 4)
    assert order == []  # the late ones would have met at the barrier with the first
    together.wait(20)
    for thread in threads + late:
        thread.join()
    assert order == ["first", "writer", "late", "late"]


def test_a_turn_that_gives_up_lets_those_behind_it_pass() -> None:
    lock, passed = FairLock(), threading.Event()
    deadline = Deadline("a test", seconds=20)

    def give_up() -> None:
        with pytest.raises(LimitError), lock.turn(shared=False, deadline=Deadline("a test", seconds=0.05), where="here"):
            pass

    def pass_by() -> None:
        with lock.turn(shared=True, deadline=deadline, where="here"):
            passed.set()

    with lock.turn(shared=True, deadline=deadline, where="here"):
        impatient = in_thread(give_up)
        until(lambda: waiting(lock) == 2)
        in_thread(pass_by)
        assert passed.wait(20)
        impatient.join()


# What every holder can rely on, on files and on leases


def test_one_writer_per_branch_and_others_beside_it(locks: Locks) -> None:
    with held_elsewhere(lambda: locks.writer(MAIN)):
        with locks.writer(DEV, timeout_seconds=0):
            pass
        with pytest.raises(LimitError) as refused, locks.writer(MAIN, timeout_seconds=0):
            pass
    assert refused.value.kind is Kind.LOCK_TIMEOUT
    with locks.writer(MAIN, timeout_seconds=0):
        pass


def test_exclusive_excludes_every_writer_and_is_excluded_by_any(locks: Locks) -> None:
    with held_elsewhere(locks.exclusive), pytest.raises(LimitError), locks.writer(DEV, timeout_seconds=0):
        pass
    with held_elsewhere(lambda: locks.writer(DEV)), pytest.raises(LimitError), locks.exclusive(timeout_seconds=0):
        pass
    with locks.exclusive(timeout_seconds=0):
        pass


def test_timeout_names_the_branch_the_lock_and_the_wait(local: Locks, tmp_path: Path) -> None:
    with (
        held_elsewhere(lambda: local.writer(BranchName("feature/x"))),
        pytest.raises(LimitError) as refused,
        local.writer(BranchName("feature/x"), timeout_seconds=0.02),
    ):
        pass
    assert "feature/x" in refused.value.message
    assert refused.value.facts["path"] == str(tmp_path.resolve() / "__locks" / "feature=2Fx")
    assert 0.02 <= float(str(refused.value.facts["waited_seconds"])) < 20


@pytest.mark.parametrize("second", ["same branch", "other branch", "exclusive"])
@pytest.mark.parametrize("first", ["writer", "exclusive"])
def test_asking_again_in_the_same_thread_is_refused_at_once(locks: Locks, first: str, second: str) -> None:
    asked: dict[str, Callable[[], AbstractContextManager[Grant]]] = {
        "same branch": lambda: locks.writer(MAIN),
        "other branch": lambda: locks.writer(DEV),
        "exclusive": locks.exclusive,
    }
    with locks.writer(MAIN) if first == "writer" else locks.exclusive():
        with pytest.raises(Unsupported, match="re-entrant"), asked[second]():
            pass
        assert locks._root.is_mine()  # and what was held stays held
    with locks.exclusive(timeout_seconds=0):
        pass


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit])
def test_everything_is_released_whatever_ends_the_block(locks: Locks, failure: type[BaseException]) -> None:
    for lock in (locks.writer(MAIN), locks.exclusive()):
        with pytest.raises(failure), lock:
            raise failure
    with locks.exclusive(timeout_seconds=0):
        pass


def test_interrupt_while_waiting_in_the_queue_leaves_nothing_held(locks: Locks) -> None:
    main_thread = threading.main_thread().ident
    assert main_thread == threading.get_ident()

    def interrupt() -> None:
        until(lambda: waiting(locks._root) == 2)
        signal.pthread_kill(main_thread, signal.SIGINT)

    with held_elsewhere(lambda: locks.writer(MAIN)):
        in_thread(interrupt)
        with pytest.raises(KeyboardInterrupt), locks.exclusive():
            pass
        with locks.writer(DEV, timeout_seconds=0):
            pass
    with locks.exclusive(timeout_seconds=0):
        pass


def take_once(locks: Locks) -> None:
    with locks.writer(MAIN):
        pass


def test_busy_tells_a_newcomer_of_holders_and_a_holder_of_waiters(locks: Locks) -> None:
    assert not locks.busy(MAIN)
    with held_elsewhere(lambda: locks.writer(MAIN)):
        assert locks.busy(MAIN)
        assert not locks.busy(DEV)
    with locks.writer(MAIN):
        assert not locks.busy(MAIN)
        waiter = in_thread(lambda: take_once(locks))
        until(lambda: locks.busy(MAIN))
    waiter.join()
    with held_elsewhere(locks.exclusive):
        assert locks.busy(MAIN)


def test_forgetting_a_branch_needs_the_exclusive_lock(locks: Locks) -> None:
    with locks.writer(MAIN), pytest.raises(Unsupported):
        locks.forget(DEV)
    with locks.writer(MAIN), pytest.raises(Unsupported):
        locks.begin(DEV, epoch=1)
    with locks.exclusive():
        locks.forget(DEV)  # never locked: nothing to do
        locks.forget(MAIN)
    with locks.writer(MAIN, timeout_seconds=0):
        pass


# One set of locks per place


def test_all_spellings_of_a_folder_share_one_set_of_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-20: All spellings of a graph's path share one set of locks."""
    (tmp_path / "graph").mkdir()
    (tmp_path / "link").symlink_to("graph")
    monkeypatch.chdir(tmp_path)
    spellings = ["graph", "./graph/", "link", str(tmp_path / "graph"), str(tmp_path / "link"), f"file://{tmp_path}/graph"]
    locks = [Locks.of(open_objects(uri)) for uri in spellings]
    assert len({id(each) for each in locks}) == 1


def test_one_place_has_one_ttl(memory: Objects) -> None:
    locks = Locks.of(memory, ttl_seconds=2)
    assert Locks.of(memory) is locks
    assert Locks.of(memory, ttl_seconds=2) is locks
    with pytest.raises(InvalidInput):
        Locks.of(memory, ttl_seconds=3)


@pytest.mark.parametrize("branch", ["root", "turnstile", "main.wait", "a/b", "a=2Fb", "..", "Ünï", "x" * 250, "x" * 251, "main"])
def test_lock_names_are_safe_and_distinct(branch: str) -> None:
    name = name_of(BranchName(branch))
    assert name.isascii()
    assert not set(name) & set("./\\ %")
    assert len(name) < 200
    others = {"root", "turnstile", *(name_of(BranchName(each)) for each in ("=72oot", "a/b/", "a=2F", "x" * 252, "dev"))}
    assert name not in others
    assert branch != "main" or name == "main"


# Lock files


def test_a_folder_that_cannot_be_written_is_named_with_a_way_out(tmp_path: Path) -> None:
    if os.geteuid() == 0:  # root may write anywhere, except where the kernel itself says no
        folder = Path("/sys/kernel")
    else:
        folder = tmp_path
        folder.chmod(0o555)
    with pytest.raises(StorageError) as refused, Locks.of(open_objects(str(folder))).writer(MAIN):
        pass
    assert refused.value.kind is Kind.STORAGE_PERMISSION
    assert refused.value.outcome is Outcome.DID_NOT_HAPPEN
    assert str(folder) in refused.value.message
    assert "read-only" in refused.value.message


def test_a_lock_file_removed_under_a_waiter_is_not_taken_for_the_lock(tmp_path: Path) -> None:
    """Two sets of files stand for two processes; the waiter must end up on the file that newcomers find."""
    from omnigraph.manifest.flocks import FileLock

    path = tmp_path / "main"
    ours, theirs = FileLock(str(path)), FileLock(str(path))
    deadline = Deadline("a test", seconds=20)
    got, leave = threading.Event(), threading.Event()

    def wait() -> None:
        with theirs.hold(deadline, shared=False):
            got.set()
            leave.wait()

    with ours.hold(deadline, shared=False):
        thread = in_thread(wait)
        until(lambda: bool(theirs._blocked))
        path.unlink()
    assert got.wait(20)
    with pytest.raises(LimitError), ours.hold(Deadline("a test", seconds=0), shared=False):
        pass
    leave.set()
    thread.join()


def test_waiting_again_and_again_for_a_stuck_lock_costs_one_thread(tmp_path: Path) -> None:
    from omnigraph.manifest.flocks import FileLock

    stuck, waiter = FileLock(str(tmp_path / "main")), FileLock(str(tmp_path / "main"))
    before = threading.active_count()
    with stuck.hold(Deadline("a test", seconds=0), shared=False):
        for _ in range(5):
            with pytest.raises(LimitError), waiter.hold(Deadline("a test", seconds=0.01), shared=False):
                pass
        assert threading.active_count() == before + 1
    until(lambda: threading.active_count() == before)
    with waiter.hold(Deadline("a test", seconds=0), shared=False):
        pass


# Leases


def lease(objects: Objects, path: str = LEASE) -> Lease:
    found = objects.get_versioned(path)
    assert found is not None
    return msgspec.json.decode(found[0], type=Lease)


def leave_dead_holder(objects: Objects, path: str = LEASE, *, epoch: int = 7) -> None:
    """What a machine that lost its power leaves behind."""
    objects.put(path, Lease(holder="dead", epoch=epoch, ttl_seconds=TTL, host="gone", pid=1).to_bytes())


def test_an_ordinary_hand_over_keeps_the_epoch(memory: Objects) -> None:
    locks = Locks.of(memory, ttl_seconds=TTL)
    for first in (True, False, False):
        with locks.writer(MAIN) as grant:
            assert (grant.epoch, grant.took_over) == (1, first)  # a lease that is not there may have been removed from under a holder
            grant.epoch_published()
            assert not lease(memory).released
        assert lease(memory).released


def test_a_released_grant_no_longer_checks(memory: Objects) -> None:
    with Locks.of(memory, ttl_seconds=TTL).writer(MAIN) as grant:
        grant.check()
    with pytest.raises(ConflictError):
        grant.check()


def test_a_dead_holder_is_replaced_under_the_next_epoch_once_its_ttl_was_watched_through(memory: Objects) -> None:
    leave_dead_holder(memory)
    locks = Locks.of(memory, ttl_seconds=TTL)
    with pytest.raises(LimitError) as refused, locks.writer(MAIN, timeout_seconds=0):
        pass
    assert "gone" in refused.value.message
    started = time.monotonic()
    with locks.writer(MAIN) as grant:
        assert (grant.epoch, grant.took_over) == (8, True)
    assert time.monotonic() - started > TTL / 2


def test_impatient_waiters_notice_a_dead_holder_too(memory: Objects) -> None:
    leave_dead_holder(memory)
    locks = Locks.of(memory, ttl_seconds=TTL)

    def granted() -> bool:
        try:
            with locks.writer(MAIN, timeout_seconds=0):
                return True
        except LimitError:
            return False

    until(granted)


def test_the_next_holder_still_owes_an_epoch_that_nobody_published(memory: Objects) -> None:
    leave_dead_holder(memory)
    locks = Locks.of(memory, ttl_seconds=TTL)
    with pytest.raises(ValueError), locks.writer(MAIN):
        raise ValueError  # failed before it could publish
    with locks.writer(MAIN) as grant:
        assert (grant.epoch, grant.took_over) == (8, True)
        grant.epoch_published()
    with locks.writer(MAIN) as grant:
        assert (grant.epoch, grant.took_over) == (8, False)


def test_a_writer_steps_back_from_a_held_root_and_buries_a_dead_one(memory: Objects) -> None:
    leave_dead_holder(memory, "__lease/root.json")
    locks = Locks.of(memory, ttl_seconds=TTL)
    with pytest.raises(LimitError), locks.writer(MAIN, timeout_seconds=0):
        pass
    assert lease(memory).released
    with locks.writer(MAIN) as grant:
        assert grant.epoch == 1
    with locks.exclusive() as grant:
        assert (grant.epoch, grant.took_over) == (8, True)


def test_exclusive_buries_dead_writers_so_that_they_stay_fenced(memory: Objects) -> None:
    for branch in ("main", "dev", "root"):
        leave_dead_holder(memory, f"__lease/{name_of(BranchName(branch))}.json")
    locks = Locks.of(memory, ttl_seconds=TTL)
    with locks.exclusive():
        assert lease(memory).released
    with locks.writer(BranchName("root"), timeout_seconds=0) as grant:
        assert (grant.epoch, grant.took_over) == (8, True)


def test_a_holder_renews_and_stays(memory: Objects) -> None:
    locks = Locks.of(memory, ttl_seconds=TTL)
    with locks.writer(MAIN) as grant:
        until(lambda: lease(memory).renewals >= 4)
        grant.check()


def test_a_holder_that_was_replaced_is_fenced_and_leaves_its_successor_alone(memory: Objects) -> None:
    with Locks.of(memory, ttl_seconds=TTL).writer(MAIN) as grant:
        leave_dead_holder(memory)
        until(lambda: is_lost(grant))
    assert lease(memory).holder == "dead"
    assert not lease(memory).released


def is_lost(grant: Grant) -> bool:
    try:
        grant.check()
    except ConflictError as error:
        return error.kind is Kind.FENCED
    return False


class Unreliable:
    """A store whose conditional puts fail as told: before they apply, after it, or by calling a success a loss."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.uri = f"{objects.uri}-unreliable"
        self.mood = "well"
        self.struck = 0
        self.resumed = threading.Event()
        self.reads_fail = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._objects, name)

    def get_versioned(self, path: str) -> tuple[bytes, str] | None:
        """With `reads_fail`, the next read after a put fails, and then all is well again."""
        if self.reads_fail and self.struck:
            self.mood, self.reads_fail = "well", False
            raise StorageError(Kind.STORAGE_UNAVAILABLE, "no answer")
        return self._objects.get_versioned(path)

    def put_if_absent(self, path: str, data: bytes, *, sync: bool = False) -> str | None:
        return self._put(lambda: self._objects.put_if_absent(path, data))

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        return self._put(lambda: self._objects.put_if_match(path, data, token))

    def _put(self, put: Callable[[], str | None]) -> str | None:
        mood = self.mood
        self.struck += mood != "well"
        if mood == "hanging":
            assert self.resumed.wait(20)
        token = put() if mood != "cut off" else None
        if mood in ("cut off", "answer lost"):
            raise StorageError(Kind.STORAGE_UNAVAILABLE, "no answer", outcome=Outcome.UNKNOWN)
        return None if mood == "called a loss" else token


@pytest.fixture
def unreliable(memory: Objects) -> Unreliable:
    return Unreliable(memory)


def locks_on(store: Unreliable) -> Locks:
    return Locks.of(store, ttl_seconds=TTL)  # type: ignore[arg-type]  # the rest of the protocol is delegated


@pytest.mark.parametrize("mood", ["cut off", "hanging"])
def test_a_holder_that_cannot_renew_is_lost_when_its_ttl_is_over(unreliable: Unreliable, mood: str) -> None:
    with locks_on(unreliable).writer(MAIN) as grant:
        unreliable.mood = mood
        until(lambda: is_lost(grant))
        assert unreliable.struck >= 1
        unreliable.resumed.set()


def test_a_release_that_fails_is_not_the_writers_failure(memory: Objects, unreliable: Unreliable) -> None:
    with locks_on(unreliable).writer(MAIN):
        unreliable.mood = "cut off"
    assert not lease(memory).released  # it ends by itself
    unreliable.mood = "well"
    with locks_on(unreliable).writer(MAIN) as grant:
        assert (grant.epoch, grant.took_over) == (2, True)


def test_a_renewal_whose_answer_was_lost_is_recognised(memory: Objects, unreliable: Unreliable) -> None:
    with locks_on(unreliable).writer(MAIN) as grant:
        for mood in ("answer lost", "called a loss"):
            struck, unreliable.mood = unreliable.struck, mood
            until(lambda struck=struck: unreliable.struck > struck)  # type: ignore[misc]  # a default binds the number
            unreliable.mood = "well"
            renewals = lease(memory).renewals
            until(lambda renewals=renewals: lease(memory).renewals > renewals)  # type: ignore[misc]  # likewise
            grant.check()
    assert lease(memory).released


@pytest.mark.parametrize("mood", ["answer lost", "called a loss"])
def test_a_claim_whose_answer_was_wrong_or_lost_is_recognised(memory: Objects, unreliable: Unreliable, mood: str) -> None:
    unreliable.mood = mood
    locks = locks_on(unreliable)
    with locks.writer(MAIN, timeout_seconds=0) as grant:
        unreliable.mood = "well"
        grant.check()
    assert lease(memory).released


def test_a_claim_that_cannot_be_followed_up_is_given_back(memory: Objects, unreliable: Unreliable) -> None:
    unreliable.mood = "answer lost"
    unreliable.reads_fail = True
    with pytest.raises(StorageError), locks_on(unreliable).writer(MAIN):
        pass
    assert lease(memory).released


def test_a_store_that_takes_no_claim_is_reported_and_not_asked_for_ever(unreliable: Unreliable) -> None:
    unreliable.mood = "cut off"
    with pytest.raises(StorageError), locks_on(unreliable).writer(MAIN):
        pass
    assert unreliable.struck == 2


def test_a_lease_that_cannot_be_read_is_named(memory: Objects) -> None:
    memory.put(LEASE, b"{")
    with pytest.raises(OmniGraphError) as refused, Locks.of(memory, ttl_seconds=TTL).writer(MAIN):
        pass
    assert refused.value.kind is Kind.CORRUPT
    assert LEASE in refused.value.message


def test_forgetting_retires_the_lease(memory: Objects) -> None:
    locks = Locks.of(memory, ttl_seconds=TTL)
    with locks.writer(MAIN) as grant:
        grant.epoch_published()
    with locks.exclusive():
        locks.forget(MAIN)
    assert [path for path, size in memory.sizes("__lease").items() if size != RETIRED_BYTES] == ["__lease/root.json"]
    with locks.exclusive(timeout_seconds=0):
        pass
    with locks.writer(MAIN, timeout_seconds=0) as grant:
        assert (grant.epoch, grant.took_over) == (1, True)


def test_a_live_lease_is_not_forgotten(memory: Objects) -> None:
    locks = Locks.of(memory, ttl_seconds=TTL)
    leave_dead_holder(memory)  # not known to be dead yet
    with pytest.raises(LimitError), locks.exclusive(timeout_seconds=0):
        pass
    before = memory.get(LEASE)
    locks._process_locks.forget(MAIN)
    assert memory.get(LEASE) == before


def test_a_new_branch_begins_at_the_epoch_it_inherits(memory: Objects) -> None:
    locks = Locks.of(memory, ttl_seconds=TTL)
    with locks.exclusive():
        locks.begin(DEV, epoch=5)
        locks.begin(MAIN, epoch=0)
    with locks.writer(DEV) as grant:
        assert (grant.epoch, grant.took_over) == (5, False)
    with locks.writer(MAIN) as grant:
        assert (grant.epoch, grant.took_over) == (0, False)
    with locks.exclusive():
        locks.begin(DEV, epoch=3)  # an epoch never goes back
    with locks.writer(DEV) as grant:
        assert (grant.epoch, grant.took_over) == (5, True)
