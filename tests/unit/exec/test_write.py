"""The write protocol: what it lands, what it refuses, and that a retry, a race or a stale handle ends in one right chain."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from omnigraph.errors import InvalidInput, Kind, NotFound, PreconditionFailed, StorageError
from omnigraph.exec.engine import Engine
from omnigraph.exec.write.protocol import Change, Prepared, Request, Upsert, write
from omnigraph.ids import BranchName, CommitId
from omnigraph.manifest import intents
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.read import BranchSnapshot, Manifest
from omnigraph.store import stage
from omnigraph.store.tables import Tables
from tests.graphs import COMPANY, PERSON, ids_in, make, note, people, reopen, row_of
from tests.writes import both, delete, put, upsert

WORK = BranchName("work")


@pytest.fixture
def graph(tmp_path: Path) -> Manifest:
    return make(tmp_path / "g", PERSON, COMPANY)


def test_a_write_is_one_commit_whatever_it_touches(graph: Manifest) -> None:
    """W-09: A write adds one version to each table it changes and one to the manifest.

    Also W-25, W-44.
    """
    before = graph.snapshot()
    written = put(graph, both("a"), actor="ada")
    after = graph.snapshot()
    assert after.version == before.version + 1
    assert written.commit is not None
    assert (written.commit.id, written.commit.actor) == (after.commit, "ada")
    assert [(change.before, change.after) for change in written.commit.tables] == [(1, 2), (1, 2)]
    assert written.counts == {"changes": 2}
    assert intents.pending(graph.root.objects) == []


def test_a_write_with_nothing_to_do_makes_no_commit(graph: Manifest) -> None:
    """W-17, W-24: no commit, no version, no intent."""
    before = graph.snapshot()
    assert put(graph, {PERSON: delete("nobody")}).commit is None
    assert put(graph, {}).commit is None
    assert graph.snapshot() == before
    assert not graph.root.objects.exists(intents.DIRECTORY)


def test_a_first_touch_forks_only_the_table_it_touches(graph: Manifest) -> None:
    """B-03: The first write of a branch to a table forks that table only.

    Also B-02, B-13.
    """
    put(graph, both("a"))
    create_branch(graph, "work")
    upsert(graph, "later")
    upsert(graph, "b", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"a", "b"}
    assert ids_in(graph) == {"a", "later"}
    assert row_of(graph, PERSON, branch=WORK).owner == graph.snapshot(WORK).branch.native
    assert row_of(graph, COMPANY, branch=WORK) == row_of(graph, COMPANY)
    upsert(graph, "c", branch=WORK)
    assert ids_in(graph, branch=WORK) == {"a", "b", "c"}


def test_a_branch_of_a_branch_forks_from_it(graph: Manifest) -> None:
    """B-14"""
    upsert(graph, "a")
    create_branch(graph, "work")
    upsert(graph, "b", branch=WORK)
    create_branch(graph, "deep", from_=WORK)
    upsert(graph, "c", branch=BranchName("deep"))
    assert ids_in(graph, branch=BranchName("deep")) == {"a", "b", "c"}
    assert ids_in(graph, branch=WORK) == {"a", "b"}


def test_if_commit_is_checked_and_never_retried(graph: Manifest) -> None:
    """C-18: `if_commit` is compared with the head and never retried; the error has both ids. It holds for a write of nothing too."""
    base = graph.snapshot().commit
    upsert(graph, "a")
    head = graph.snapshot().commit
    attempts: tuple[dict[str, Change], ...] = ({PERSON: Upsert(people("b"))}, {PERSON: delete("nobody")})
    for changes in attempts:
        with pytest.raises(PreconditionFailed) as caught:
            put(graph, changes, if_commit=base)
        assert caught.value.facts == {"branch": "main", "expected": base, "actual": head}
    assert put(graph, {PERSON: Upsert(people("b"))}, if_commit=head).commit is not None
    with pytest.raises(PreconditionFailed):
        put(graph, {PERSON: Upsert(people("c"))}, if_commit=CommitId("nonsense"))


def test_a_token_returns_the_first_receipt_and_writes_nothing(graph: Manifest) -> None:
    first = upsert(graph, "a", token="job")
    before = graph.snapshot()
    again = upsert(reopen(graph.root.uri), "b", token="job")
    assert again.commit == first.commit
    assert again.counts == first.counts == {"changes": 1}
    assert graph.snapshot() == before
    assert ids_in(graph) == {"a"}


def test_a_token_is_asked_for_before_anything_is_judged_by_what_the_first_call_changed(graph: Manifest) -> None:
    """A retry of a conditional write meets a head that its own first call moved; it gets its receipt all the same."""
    base = graph.snapshot().commit
    first = put(graph, {PERSON: Upsert(people("a"))}, token="job", if_commit=base)
    again = put(graph, {PERSON: Upsert(people("a"))}, token="job", if_commit=base)
    assert again == first

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        raise InvalidInput(Kind.VALIDATION, "what it needed is gone by now")

    assert write(Engine(graph), Request(CommitKind.MUTATE, token="job"), prepare).commit == first.commit


def test_a_write_that_was_overtaken_prepares_again(graph: Manifest) -> None:
    """The preparation runs once more, under the lock, on what the other left; nothing was shown to the caller yet."""
    seen: list[int] = []
    other = reopen(graph.root.uri)

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        seen.append(snapshot.version)
        if len(seen) == 1:
            upsert(other, "theirs")
        return Prepared({row_of(graph).id: Upsert(people("ours"))})

    write(Engine(graph), Request(CommitKind.MUTATE), prepare)
    assert seen == [1, 2]
    assert ids_in(graph) == {"theirs", "ours"}


def test_a_stale_handle_writes_on_top(graph: Manifest) -> None:
    """C-11"""
    other = reopen(graph.root.uri)
    first = upsert(other, "a").commit
    second = upsert(graph, "b").commit
    assert first is not None
    assert second is not None
    assert second.parents == (first.id,)


def test_a_preparation_that_fails_leaves_nothing(graph: Manifest) -> None:
    """RT-01: no intent, no version, and the next write works at once."""
    before = graph.snapshot()

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        raise InvalidInput(Kind.VALIDATION, "bad row")

    with pytest.raises(InvalidInput):
        write(Engine(graph), Request(CommitKind.MUTATE), prepare)
    assert graph.snapshot() == before
    assert upsert(graph, "a").commit is not None


def test_a_table_moved_by_hand_is_refused_before_anything_is_armed(graph: Manifest) -> None:
    """W-52: A table that was changed outside the graph is refused by every writer; the message names `verify` and `copy`."""
    upsert(graph, "a")
    staged = stage.append(Tables(graph.root).open(row_of(graph).ref), people("smuggled"))
    assert staged is not None
    stage.commit(staged)
    with pytest.raises(StorageError) as caught:
        upsert(graph, "b")
    assert caught.value.kind is Kind.DRIFT
    assert "`omnigraph verify`" in caught.value.message
    assert "`omnigraph copy`" in caught.value.message
    assert intents.pending(graph.root.objects) == []
    assert ids_in(graph) == {"a"}
    put(graph, {COMPANY: Upsert(people("c"))})


def test_an_unknown_branch_is_not_found(graph: Manifest) -> None:
    with pytest.raises(NotFound):
        upsert(graph, "a", branch=BranchName("nope"))


def test_threads_all_land(graph: Manifest) -> None:
    """B-12: Concurrent writers of one branch all land, first writes of the branch included.

    Also C-09.
    """
    create_branch(graph, "work")

    def work(name: str) -> None:
        for n in range(3):
            upsert(graph, f"{name}-{n}", branch=WORK if name.startswith("w") else graph.snapshot().branch.name)

    workers = [threading.Thread(target=work, args=(f"{kind}{n}",)) for kind in "mw" for n in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(ids_in(graph)) == len(ids_in(graph, branch=WORK)) == 9
    assert len(graph.commits()) == len(graph.commits(WORK)) == 10


def test_a_lineage_only_commit(graph: Manifest) -> None:
    """W-26: an empty load is still one commit."""
    request = Request(CommitKind.LOAD)
    written = write(Engine(graph), request, lambda _: Prepared({}, commits_empty=True))
    assert written.commit is not None
    assert graph.snapshot().commit == written.commit.id
    note(graph, "next")


def test_a_preparation_whose_snapshot_was_removed_is_repeated_under_the_lock(graph: Manifest) -> None:
    """Others committed, and cleanup removed what was being read: the writer reads what is there now."""
    tried: list[CommitId] = []

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        tried.append(snapshot.commit)
        if len(tried) == 1:
            note(graph, "meanwhile")
            raise NotFound(Kind.VERSION_RECLAIMED, "removed")
        return Prepared({row_of(graph).id: Upsert(people("a"))}, counts={})

    written = write(Engine(graph), Request(CommitKind.MUTATE), prepare)
    assert written.commit is not None
    assert written.commit.parents == (tried[1],)
    assert tried[0] != tried[1]
    assert ids_in(graph) == {"a"}
