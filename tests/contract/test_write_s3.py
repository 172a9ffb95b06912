"""The write protocol on a real S3 server: killed, overtaken in its sleep, left without answers; the graph is before or after."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from omnigraph.errors import Kind, OmniGraphError, StorageError
from omnigraph.faults import Fault
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.read import Manifest
from tests.crash.matrix import ALIASES, WRITERS, Point, Writer, audits, check, content, images, points, prepare, run, whole
from tests.crasher import TTL_SECONDS, asleep, crash
from tests.graphs import PERSON, make
from tests.s3 import CountingProxy, Request, S3Server
from tests.writes import upsert

pytestmark = pytest.mark.s3

BY_NAME = {writer.name: writer for writer in WRITERS}
TWO_TABLES = BY_NAME["two tables, main"]
FIRST_TOUCH = BY_NAME["two tables, first touch"]
SCHEMA = BY_NAME["schema, first touch"]
INDEXES = BY_NAME["indexes of two tables, main"]
KILLS = [
    (TWO_TABLES, Fault.WRITE_BEFORE_ARM),
    (TWO_TABLES, Fault.WRITE_BETWEEN_TABLES),
    (FIRST_TOUCH, Fault.WRITE_AFTER_REF),
    (FIRST_TOUCH, Fault.WRITE_COMMITTED),
    (TWO_TABLES, Fault.PUBLISH_AFTER_COMMIT),
    (SCHEMA, Fault.WRITE_AFTER_CREATE),
    (SCHEMA, Fault.WRITE_BETWEEN_TABLES),
    (SCHEMA, Fault.WRITE_COMMITTED),
    (INDEXES, Fault.WRITE_BETWEEN_TABLES),
    (INDEXES, Fault.WRITE_COMMITTED),
]


@contextmanager
def short_leases(manifest: Manifest) -> Iterator[None]:
    """Keep the graph's locks, and so the ttl they were first asked for."""
    locks = Locks.of(manifest.root.objects, ttl_seconds=TTL_SECONDS)
    yield
    del locks


@pytest.fixture(params=[TWO_TABLES, FIRST_TOUCH], ids=lambda writer: writer.name)
def writer(request: pytest.FixtureRequest) -> Writer:
    found: Writer = request.param
    return found


def doing(writer: Writer) -> str:
    return f"matrix {WRITERS.index(writer)}"


def reached(writer: Writer, fault: Fault) -> Point:
    return next(point for point in points(writer) if point.fault is fault)


@pytest.mark.parametrize(("writer", "fault"), KILLS, ids=lambda value: getattr(value, "name", str(value)))
def test_a_killed_writer_is_outlived_and_its_write_resolved(s3_server: S3Server, s3_uri: str, writer: Writer, fault: Fault) -> None:
    """RT-01, RT-04, RT-06, RT-09, RT-14, F-07: the next writer waits for the lease to end, and resolves what it finds."""
    options = s3_server.storage_options
    manifest = make(s3_uri, *ALIASES, storage_options=options)
    point = reached(writer, fault)
    with short_leases(manifest):
        prepare(manifest, writer)
        done = crash(doing(writer), s3_uri, fault, options=options)
        assert done.returncode == -signal.SIGKILL, done.said
        check(manifest, writer, lands=point.lands, resolved=point.resolved)


class Overtaken(NamedTuple):
    """A writer asleep at `fault` while another writes: does its write land, and what is it told when it wakes?"""

    fault: Fault
    lands: bool
    told: str


OVERTAKEN = [
    Overtaken(Fault.WRITE_BEFORE_ARM, lands=False, told="recovery_required"),
    Overtaken(Fault.WRITE_ARMED, lands=False, told="expected_version_mismatch"),
    Overtaken(Fault.WRITE_BETWEEN_TABLES, lands=False, told="expected_version_mismatch"),
    Overtaken(Fault.WRITE_COMMITTED, lands=True, told="done"),
    Overtaken(Fault.PUBLISH_BEFORE_COMMIT, lands=True, told="done"),
    Overtaken(Fault.WRITE_PUBLISHED, lands=True, told="done"),
]

AROUND_THE_EFFECTS = (Fault.WRITE_BEFORE_ARM, Fault.WRITE_ARMED, Fault.WRITE_BETWEEN_TABLES, Fault.WRITE_COMMITTED)


@pytest.mark.parametrize("case", OVERTAKEN, ids=lambda case: case.fault.value)
def test_a_writer_overtaken_in_its_sleep_damages_nothing(s3_server: S3Server, s3_uri: str, case: Overtaken) -> None:
    """C-09, REC-16: its successor resolved its intent; awake, it can neither commit nor publish, and hears what became of it."""
    options = s3_server.storage_options
    manifest = make(s3_uri, *ALIASES, storage_options=options)
    expected = images(TWO_TABLES)
    shown = dict(expected.after if case.lands else expected.before)
    with short_leases(manifest):
        prepare(manifest, TWO_TABLES)
        with asleep(doing(TWO_TABLES), s3_uri, case.fault, options=options) as sleeper:
            upsert(manifest, "meanwhile")
            assert sleeper.wake() == case.told
        assert content(manifest, MAIN) == {**shown, PERSON: shown[PERSON] | {"meanwhile"}}
        upsert(manifest, "next")
        assert content(manifest, MAIN) == {**shown, PERSON: shown[PERSON] | {"meanwhile", "next"}}
        whole(manifest, TWO_TABLES)
        chain = manifest.commits()
        assert [commit.parents for commit in chain] == [*((parent.id,) for parent in chain[1:]), ()]


@pytest.mark.parametrize("case", [case for case in OVERTAKEN if case.fault in AROUND_THE_EFFECTS], ids=lambda case: case.fault.value)
def test_an_indexer_overtaken_in_its_sleep_damages_nothing(s3_server: S3Server, s3_uri: str, case: Overtaken) -> None:
    """RT-52: no fence holds an index; still it is never committed over rows that came while it slept."""
    options = s3_server.storage_options
    manifest = make(s3_uri, *ALIASES, storage_options=options)
    expected = images(INDEXES)
    shown = dict(expected.after if case.lands else expected.before)
    with short_leases(manifest):
        prepare(manifest, INDEXES)
        with asleep(doing(INDEXES), s3_uri, case.fault, options=options) as sleeper:
            upsert(manifest, "meanwhile")
            assert sleeper.wake() == case.told
        upsert(manifest, "next")
        assert content(manifest, MAIN) == {**shown, PERSON: shown[PERSON] | {"meanwhile", "next"}}
        whole(manifest, INDEXES)


def test_a_first_touch_overtaken_in_its_sleep_leaves_the_branch_alone(s3_server: S3Server, s3_uri: str) -> None:
    """RT-13: it makes its native branch after the fact, which nothing names."""
    options = s3_server.storage_options
    manifest = make(s3_uri, *ALIASES, storage_options=options)
    with short_leases(manifest):
        prepare(manifest, FIRST_TOUCH)
        with asleep(doing(FIRST_TOUCH), s3_uri, Fault.WRITE_BEFORE_REF, options=options) as sleeper:
            upsert(manifest, "meanwhile", branch=FIRST_TOUCH.branch)
            assert sleeper.wake() == "fenced"
        upsert(manifest, "next", branch=FIRST_TOUCH.branch)
        before = images(FIRST_TOUCH).before
        assert content(manifest, FIRST_TOUCH.branch) == {**before, PERSON: before[PERSON] | {"meanwhile", "next"}}
        whole(manifest, FIRST_TOUCH)


# -- answers that never come


class Step(NamedTuple):
    """A step of the protocol, known by the request that takes it."""

    name: str
    kinds: tuple[str, ...]
    part: str

    def takes(self, request: Request) -> bool:
        return request.kind in self.kinds and self.part in request.target


STEPS = (
    Step("arm", ("put",), f"/{intents.DIRECTORY}/"),
    Step("table commit", ("put", "copy"), "/nodes/"),
    Step("publish", ("put", "copy"), "/__manifest/_versions/"),
    Step("disarm", ("delete",), ""),  # its path is in the body; nothing else is deleted in a write
)
ARM, _, _, DISARM = STEPS
LOST_FOR_GOOD = 4
"""More answers than the client's one retry asks for."""


def impatient(proxy: CountingProxy) -> dict[str, str]:
    return {**proxy.storage_options, "client_max_retries": "1", "client_retry_timeout": "5"}


@pytest.mark.parametrize("losses", [1, LOST_FOR_GOOD])
@pytest.mark.parametrize("instead", [None, 500], ids=["broken", "refused"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_lost_answer_is_a_receipt_or_a_typed_error(
    s3_server: S3Server, s3_proxy: CountingProxy, s3_uri: str, step: Step, instead: int | None, losses: int
) -> None:
    """F-01, F-02, RT-02, RT-09, RT-10: the graph is before or after, the caller was not told the opposite, the next write works."""
    manifest = make(s3_uri, *ALIASES, storage_options=impatient(s3_proxy))
    prepare(manifest, TWO_TABLES)
    before, after, _ = images(TWO_TABLES)
    s3_proxy.lose_answers(*[instead] * losses, of=step.takes)
    receipt = True
    try:
        run(manifest, TWO_TABLES)
    except OmniGraphError:
        receipt = False
    assert s3_proxy.still_to_lose < losses, "no such request was made"
    s3_proxy.lose_answers()
    found = content(manifest, MAIN)
    assert found in ([after] if receipt else [before, after])
    upsert(manifest, "next")
    landed = dict(after if "new" in content(manifest, MAIN)[PERSON] else before)
    assert content(manifest, MAIN) == {**landed, PERSON: landed[PERSON] | {"next"}}
    assert audits(manifest, TWO_TABLES) <= 1
    whole(manifest, TWO_TABLES)


def test_an_intent_that_cannot_be_written_ends_the_write_with_nothing_to_undo(s3_proxy: CountingProxy, s3_uri: str) -> None:
    """F-01, RT-02: refused, not applied; the same handle then writes as if nothing had been."""
    manifest = make(s3_uri, *ALIASES, storage_options=impatient(s3_proxy))
    prepare(manifest, TWO_TABLES)
    s3_proxy.refuse_writes(403, of=ARM.takes)
    with pytest.raises(StorageError) as caught:
        run(manifest, TWO_TABLES)
    assert caught.value.kind is Kind.STORAGE_PERMISSION
    assert intents.pending(manifest.root.objects) == []
    check(manifest, TWO_TABLES, lands=False, resolved=False)


def test_an_intent_that_cannot_be_removed_does_not_fail_the_write(s3_proxy: CountingProxy, s3_uri: str) -> None:
    """RT-10: A write whose intent cannot be removed returns its receipt; the next write removes the intent without a record.

    Also F-02.
    """
    manifest = make(s3_uri, *ALIASES, storage_options=impatient(s3_proxy))
    prepare(manifest, TWO_TABLES)
    s3_proxy.refuse_writes(403, of=DISARM.takes)
    run(manifest, TWO_TABLES)
    assert len(intents.pending(manifest.root.objects)) == 1
    check(manifest, TWO_TABLES, lands=True, resolved=False)
