"""Recovery: forward, back, or not at all; whoever comes next; exactly one audit record, however often it is interrupted."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from omnigraph.errors import FormatError, Kind, OmniGraphError, Outcome, RecoveryRequired
from omnigraph.exec.write.protocol import Upsert
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import MAIN, BranchName, OperationId
from omnigraph.manifest import intents
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.model import Audit, Commit, CommitKind, Resolution
from omnigraph.manifest.publish import Publication, publish
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.recover import IDLE_SECONDS, abandoned, heal
from omnigraph.store import stage
from omnigraph.store.durable import FlushFailed
from omnigraph.store.objects import open_objects
from omnigraph.store.refs import has_ref, native_refs
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, Tables, open_newest
from tests.counting import CountingObjects
from tests.graphs import COMPANY, PERSON, ids_in, make, people, reopen, row_of
from tests.writes import both, put, upsert

WORK = BranchName("work")
RECOVERING = (Fault.RECOVER_BEFORE_RESTORE, Fault.RECOVER_AFTER_RESTORE, Fault.RECOVER_BEFORE_PUBLISH, Fault.RECOVER_AFTER_PUBLISH)


@pytest.fixture
def graph(tmp_path: Path) -> Manifest:
    manifest = make(tmp_path / "g", PERSON, COMPANY)
    put(manifest, both("old"))
    return manifest


def die(manifest: Manifest, point: Fault, *, nth: int = 1, branch: BranchName = MAIN) -> None:
    with armed(point, after=nth), pytest.raises(SimulatedCrash):
        put(manifest, both("new"), branch=branch, actor="act-dead")


def mend(manifest: Manifest, branch: BranchName = MAIN) -> list[Audit]:
    return heal(manifest, Tables(manifest.root), branch, timeout_seconds=10)


def resolutions(manifest: Manifest, branch: BranchName = MAIN) -> list[Commit]:
    return [commit for commit in manifest.commits(branch) if commit.audit is not None]


def head(manifest: Manifest, alias: str) -> int:
    row = row_of(manifest, alias)
    return int(open_newest(manifest.root, row.path, branch=row.native).version)


class Finishing(CountingObjects):
    """Real objects. After `begins`, whoever has read an intent is delayed, and its writer finishes meanwhile."""

    begins = float("inf")

    def get_if_exists(self, path: str, *, limit_bytes: int | None = None) -> bytes | None:
        body = super().get_if_exists(path, limit_bytes=limit_bytes)
        if path.startswith(intents.DIRECTORY) and time.monotonic() > self.begins:
            time.sleep(IDLE_SECONDS)
            self.delete(path)
        return body


def test_a_writer_that_finishes_between_two_looks_at_it_has_abandoned_nothing(graph: Manifest) -> None:
    """The intent is seen, then its writer removes it and releases the lock. A free lock is no sign then that the writer died (O-11)."""
    die(graph, Fault.WRITE_COMMITTED)
    objects = Finishing(open_objects(graph.root.uri))
    watching = open_graph(Root(objects))
    assert abandoned(watching) is not None
    objects.begins = time.monotonic() + IDLE_SECONDS / 2
    assert abandoned(watching) is None


def test_forward_keeps_the_writers_commit_author_and_time(graph: Manifest) -> None:
    """REC-08: A write that is finished later keeps its own commit id, actor and time; the record names who finished it."""
    die(graph, Fault.WRITE_COMMITTED)
    (intent,) = intents.pending(graph.root.objects)
    (audit,) = mend(graph)
    (commit,) = resolutions(graph)
    assert (commit.id, commit.actor, commit.created_at, commit.kind) == (intent.commit, "act-dead", intent.at, CommitKind.MUTATE)
    assert (audit.outcome, audit.by, audit.operation) == (Resolution.ROLLED_FORWARD, "omnigraph:recovery", intent.operation)
    assert ids_in(graph) == {"old", "new"}


def test_back_restores_every_table_and_publishes_what_is_head(graph: Manifest) -> None:
    """REC-05: A rollback restores every table of the write and publishes the restored versions, so HEAD and graph agree.
    REC-06: The record of a rollback names for each table the version found and the version restored.
    REC-09: A second recovery of a resolved write changes nothing.
    """
    versions = {alias: row_of(graph, alias).version for alias in (PERSON, COMPANY)}
    die(graph, Fault.WRITE_BETWEEN_TABLES)
    (audit,) = mend(graph)
    assert audit.outcome is Resolution.ROLLED_BACK
    assert {change.alias: (change.before, change.after) for change in audit.tables} == {
        PERSON: (versions[PERSON] + 1, versions[PERSON] + 2),
        COMPANY: (versions[COMPANY], versions[COMPANY] + 1),
    }
    for alias in (PERSON, COMPANY):
        assert head(graph, alias) == row_of(graph, alias).version
        assert ids_in(graph, alias=alias) == {"old"}
    assert resolutions(graph)[0].kind is CommitKind.RECOVERY
    assert mend(graph) == [], "REC-09: once more changes nothing"


@pytest.mark.parametrize("point", RECOVERING)
@pytest.mark.parametrize("death", [Fault.WRITE_BETWEEN_TABLES, Fault.WRITE_COMMITTED, Fault.WRITE_ARMED])
@pytest.mark.parametrize("branch", [MAIN, WORK])
def test_a_recovery_that_dies_is_finished_by_the_next(graph: Manifest, point: Fault, death: Fault, branch: BranchName) -> None:
    """REC-29: A recovery that dies is finished by the next one, which recognizes a restore already made.
    REC-30: An interrupted recovery keeps its decision, and there is one record.

    Also RT-68.
    """
    if branch == WORK:
        create_branch(graph, WORK)
    die(graph, death, branch=branch)
    forward = death is Fault.WRITE_COMMITTED
    if not (forward and point in (Fault.RECOVER_BEFORE_RESTORE, Fault.RECOVER_AFTER_RESTORE)):
        with armed(point), pytest.raises(SimulatedCrash):
            mend(graph, branch)
        if point is not Fault.RECOVER_AFTER_PUBLISH:
            with armed(point), pytest.raises(SimulatedCrash):
                mend(reopen(graph.root.uri), branch)
    mend(graph, branch)
    assert len(resolutions(graph, branch)) == 1
    assert intents.pending(graph.root.objects) == []
    assert ids_in(graph, branch=branch) == ({"old", "new"} if forward else {"old"})
    put(graph, both("next"), branch=branch)
    if branch == MAIN:
        assert head(graph, PERSON) == row_of(graph, PERSON).version <= 6


@pytest.mark.parametrize("point", [Fault.WRITE_ARMED, Fault.WRITE_BEFORE_REF, Fault.WRITE_AFTER_REF, Fault.STAGE_AFTER_COMMIT])
def test_a_first_touch_rolled_back_leaves_no_ref(graph: Manifest, point: Fault) -> None:
    """RT-13..RT-15: the branch inherits as before."""
    create_branch(graph, WORK)
    die(graph, point, branch=WORK)
    (intent,) = intents.pending(graph.root.objects)
    mend(graph, WORK)
    for table in intent.tables:
        assert not has_ref(graph.root, table.before.path, str(table.native))
    assert row_of(graph, branch=WORK).owner is None
    assert ids_in(graph, branch=WORK) == {"old"}


def test_a_foreign_commit_on_top_of_ours_is_not_touched(graph: Manifest) -> None:
    """REC-27: A foreign commit on top of an interrupted one is left alone: the intent stays and writes to that branch are refused."""
    create_branch(graph, WORK)
    die(graph, Fault.WRITE_COMMITTED)
    row = row_of(graph, PERSON)
    ref = row.ref.at(row.version + 1)
    foreign = stage.append(Table(graph.root, ref, open_newest(graph.root, row.path, branch=None)), people("foreign"))
    assert foreign is not None
    stage.commit(foreign)
    for attempt in (lambda: mend(graph), lambda: upsert(graph, "next")):
        with pytest.raises(RecoveryRequired) as caught:
            attempt()
        assert row.path in caught.value.message
        assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
    assert len(intents.pending(graph.root.objects)) == 1
    assert head(graph, PERSON) == row.version + 2
    upsert(graph, "elsewhere", branch=WORK)  # REC-19


def test_a_foreign_commit_in_our_place_is_not_taken_for_ours(graph: Manifest) -> None:
    """REC-34: A version belongs to a write if it has the uuid that the write minted; its number proves nothing."""
    with armed(Fault.WRITE_ARMED), pytest.raises(SimulatedCrash):
        upsert(graph, "new")
    row = row_of(graph, PERSON)
    foreign = stage.append(Tables(graph.root).open(row.ref), people("foreign"))
    assert foreign is not None
    stage.commit(foreign)
    with pytest.raises(RecoveryRequired):
        mend(graph)
    assert ids_in(graph) == {"old"}
    assert head(graph, PERSON) == row.version + 1


def test_a_disjoint_winner_is_kept_and_the_rollback_is_its_child(graph: Manifest) -> None:
    """REC-28: A commit that moved the head past an interrupted write is kept, and the rollback is its child."""
    die(graph, Fault.WRITE_COMMITTED)
    winner = publish(graph, Publication(CommitKind.LOAD, message="winner")).commit
    (audit,) = mend(graph)
    assert audit.outcome is Resolution.ROLLED_BACK
    (undone,) = resolutions(graph)
    assert undone.parents == (winner.id,)
    assert ids_in(graph) == {"old"}


def test_an_intent_of_a_deleted_branch_is_discarded_with_one_record(graph: Manifest) -> None:
    """REC-14: An intent of a deleted branch is discarded with one record, also when the name is in use again.
    RT-61: The intent of a writer that died before its branch was deleted is discarded by a later write.
    RT-69: A discard that is interrupted is finished by the next one, with one record.
    """
    create_branch(graph, WORK)
    die(graph, Fault.WRITE_COMMITTED, branch=WORK)
    delete_branch(graph, WORK)
    create_branch(graph, WORK)
    with armed(Fault.RECOVER_AFTER_PUBLISH), pytest.raises(SimulatedCrash):
        mend(graph, WORK)
    mend(graph, WORK)
    (record,) = resolutions(graph, MAIN)
    assert record.audit is not None
    assert record.audit.outcome is Resolution.DISCARDED
    assert resolutions(graph, WORK) == []
    assert intents.pending(graph.root.objects) == []
    assert [native_refs(graph.root, row_of(graph, alias).path) for alias in (PERSON, COMPANY)] == [[], []]
    upsert(graph, "fresh", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"old", "fresh"}


def test_an_intent_on_another_branch_is_not_ours(graph: Manifest) -> None:
    """REC-19: An intent of one branch does not stop the writers of another."""
    create_branch(graph, WORK)
    die(graph, Fault.WRITE_COMMITTED, branch=WORK)
    upsert(graph, "on main")
    assert len(intents.pending(graph.root.objects)) == 1
    upsert(graph, "on work", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"old", "new", "on work"}


@pytest.mark.parametrize(("body", "kind"), [(b"{", Kind.CORRUPT), (b"{}", Kind.CORRUPT), (b'{"format": 99}', Kind.FORMAT_NEWER)])
def test_an_unreadable_intent_refuses_writes_and_is_named(graph: Manifest, body: bytes, kind: Kind) -> None:
    """REC-25: An intent that cannot be read refuses writes, is named in the error and is kept.

    Also F-05.
    """
    path = intents.path_of(OperationId("01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    graph.root.objects.put(path, body)
    with pytest.raises(FormatError) as caught:
        upsert(graph, "a")
    assert caught.value.kind is kind
    assert path in caught.value.message
    assert graph.root.objects.exists(path)
    assert ids_in(graph) == {"old"}
    graph.root.objects.delete(path)
    upsert(graph, "a")


def test_leftovers_of_interrupted_puts_are_ignored(graph: Manifest) -> None:
    with armed(Fault.OBJECT_BEFORE_LINK), pytest.raises(SimulatedCrash):
        put(graph, both("new"))
    assert intents.pending(graph.root.objects) == []
    assert upsert(graph, "a").commit is not None


def test_head_behind_the_graph_is_said_aloud(graph: Manifest, tmp_path: Path) -> None:
    """REC-04: A table whose HEAD is behind the graph is an error that names it; nothing is restored or published."""
    die(graph, Fault.WRITE_ARMED)
    row = row_of(graph, PERSON)
    versions = tmp_path / "g" / row.path / "_versions"
    newest = min(versions.glob("*.manifest"))
    newest.rename(tmp_path / "aside")
    with pytest.raises(OmniGraphError) as caught:
        mend(reopen(graph.root.uri))
    assert caught.value.kind is Kind.CORRUPT
    assert row.path in caught.value.message


@pytest.mark.parametrize("worse", [MemoryError(), RuntimeError("strange")], ids=["memory", "runtime"])
def test_whatever_keeps_a_writer_from_resolving_its_intent_is_told_by_an_error_of_ours(graph: Manifest, worse: Exception) -> None:
    """RT-02: the intent stays, the caller hears of it, and the next write resolves it."""
    create_branch(graph, WORK)
    misfit = Upsert(people("new").drop_columns(["n"]))  # on a first touch rows meet their columns only after the intent is armed
    with armed(Fault.RECOVER_BEFORE_RESTORE, failure=worse), pytest.raises(RecoveryRequired) as told:
        put(graph, {PERSON: misfit}, branch=WORK)
    assert told.value.outcome is Outcome.UNKNOWN
    assert "lack the columns n" in told.value.message
    assert (str(worse) or type(worse).__name__) in told.value.message
    assert intents.pending(graph.root.objects)
    upsert(graph, "next", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"old", "next"}
    assert intents.pending(graph.root.objects) == []


@pytest.mark.parametrize("worse", [MemoryError(), RuntimeError("strange")], ids=["memory", "runtime"])
@pytest.mark.parametrize("point", [Fault.RECOVER_FOUND, Fault.RECOVER_BEFORE_RESTORE, Fault.RECOVER_AFTER_PUBLISH], ids=lambda at: at.value)
def test_a_recovery_that_runs_out_of_memory_raises_an_error_of_ours(graph: Manifest, point: Fault, worse: Exception) -> None:
    """The write of a dead process is resolved by another one: what fails there did not happen to the caller's own write."""
    die(graph, Fault.WRITE_BETWEEN_TABLES)
    for attempt in (lambda: mend(graph), lambda: upsert(graph, "next")):
        with armed(point, failure=worse), pytest.raises(RecoveryRequired) as caught:
            attempt()
        assert caught.value.outcome is Outcome.DID_NOT_HAPPEN
        assert (str(worse) or type(worse).__name__) in caught.value.message
        if point is Fault.RECOVER_AFTER_PUBLISH:
            break  # it was undone; only its intent is left
    upsert(graph, "next")
    assert ids_in(graph) == {"old", "next"}
    assert intents.pending(graph.root.objects) == []


def test_a_write_that_is_undone_after_a_failed_flush_did_not_happen(graph: Manifest) -> None:
    """INV-12: before it was published; the way back is the only one, although all tables were committed."""
    doubt = FlushFailed(Kind.STORAGE, "could not flush it", outcome=Outcome.UNKNOWN, path="x")
    with armed(Fault.WRITE_COMMITTED, failure=doubt), pytest.raises(FlushFailed) as told:
        put(graph, both("new"))
    assert (told.value.outcome, told.value.facts["path"]) == (Outcome.DID_NOT_HAPPEN, "x")
    assert ids_in(graph) == {"old"}
    assert intents.pending(graph.root.objects) == []


def test_a_publish_whose_flush_failed_is_unknown_until_the_next_writer_has_flushed_it(graph: Manifest) -> None:
    """INV-12: no receipt, and the intent stays."""
    doubt = FlushFailed(Kind.STORAGE, "could not flush it", outcome=Outcome.UNKNOWN, path="x")
    with armed(Fault.PUBLISH_AFTER_COMMIT, failure=doubt), pytest.raises(FlushFailed) as told:
        put(graph, both("new"))
    assert told.value.outcome is Outcome.UNKNOWN
    assert len(intents.pending(graph.root.objects)) == 1
    upsert(graph, "next")
    assert ids_in(graph) == {"old", "new", "next"}
    assert intents.pending(graph.root.objects) == []
