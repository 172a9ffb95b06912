"""Branches: names, one visible step to be and one to be gone, and nothing shared between two of one name."""

from __future__ import annotations

import threading
from pathlib import Path

import msgspec
import pytest

from omnigraph.errors import ConflictError, FormatError, InvalidInput, Kind, NotFound, OmniGraphError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Publication, publish
from omnigraph.manifest.read import PATH, Manifest
from omnigraph.manifest.registry import list_branches, object_of
from omnigraph.store import stage
from omnigraph.store.refs import create_ref, fresh_ref, has_ref
from omnigraph.store.tables import Tables
from tests.graphs import PERSON, add, ids_in, make, note, people, reopen, row_of

WORK = BranchName("work")


@pytest.fixture
def graph(tmp_path: Path) -> Manifest:
    manifest = make(tmp_path / "my graph.omni")
    add(manifest, "a", "b")
    return manifest


def fork(manifest: Manifest, branch: BranchName, *ids: str) -> str:
    """A first touch of a table on a branch, as the write protocol will do it."""
    row = row_of(manifest, branch=branch)
    native = fresh_ref(branch)
    forked = create_ref(Tables(manifest.root).open(row.ref), native)
    staged = stage.upsert(forked, people(*ids))
    assert staged is not None
    table = stage.commit(staged)
    owner = manifest.snapshot(branch).branch.native
    rows = row.rows + staged.counts.inserted
    after = msgspec.structs.replace(row, native=native, owner=owner, version=table.ref.version, rows=rows)
    publish(manifest, Publication(CommitKind.MUTATE, tables=(after,)), branch=branch)
    return native


def test_a_new_branch_sees_what_its_parent_sees_and_copies_nothing(graph: Manifest) -> None:
    """B-01: A new branch shows what its parent shows. Creating it copies nothing, moves no table and makes no commit."""
    main = graph.snapshot()
    create_branch(graph, "work")
    branch = graph.snapshot(WORK)
    assert branch.state == main.state
    assert branch.version == main.version
    assert graph.commits(WORK) == graph.commits()
    assert graph.snapshot() == main


def test_branches_move_apart(graph: Manifest) -> None:
    """B-02: A write on a branch does not change main, and a write on main does not reach the branch.

    Also B-13.
    """
    create_branch(graph, "work")
    fork(graph, WORK, "c")
    add(graph, "d")
    assert ids_in(graph, branch=WORK) == {"a", "b", "c"}
    assert ids_in(graph) == {"a", "b", "d"}
    assert len(graph.commits(WORK)) == len(graph.commits()) == 3


def test_a_branch_of_a_branch_sees_its_parent(graph: Manifest) -> None:
    """B-14: A branch of a branch reads its parent's fork until it writes itself."""
    create_branch(graph, "work")
    native = fork(graph, WORK, "c")
    create_branch(graph, "deeper", from_=WORK)
    assert ids_in(graph, branch=BranchName("deeper")) == {"a", "b", "c"}
    assert row_of(graph, branch=BranchName("deeper")).native == native


@pytest.mark.parametrize(
    "name", ["", "main/", "/a", "a//b", "a/../b", ".", "a b", "ä", "a\\b", "a*", "x" * 121, "a\n", "a?b", "a%2Fb", "..", "~a", "@" * 84]
)
def test_a_bad_name_is_refused_before_anything_is_made(graph: Manifest, name: str) -> None:
    """B-17: An invalid branch name is refused before anything is created."""
    before = sorted(str(p) for p in Path(graph.root.uri).rglob("*"))
    with pytest.raises(InvalidInput) as caught:
        create_branch(graph, name)
    assert caught.value.kind is Kind.INVALID_BRANCH_NAME
    assert sorted(str(p) for p in Path(graph.root.uri).rglob("*")) == before


@pytest.mark.parametrize("name", ["__run__7", "agent:42@host", "v1.0", "a/b/c", "x" * 120, "/".join("a" * 60), "root", "turnstile"])
def test_ordinary_names_work_end_to_end(graph: Manifest, name: str) -> None:
    """B-17: a name such as `__run__*` is ordinary."""
    branch = create_branch(graph, name).name
    note(graph, "hello", branch=branch)
    assert reopen(graph.root.uri).commits(branch)[0].message == "hello"
    assert list_branches(graph.root.objects) == [name]
    delete_branch(graph, name)
    assert list_branches(graph.root.objects) == []


@pytest.mark.parametrize(("live", "new"), [("a", "a/b"), ("a/b", "a"), ("a/b", "a/b/c"), ("main", "main/x")])
def test_a_name_that_is_a_folder_of_another_is_refused(graph: Manifest, live: str, new: str) -> None:
    """B-18: A branch name that is a path prefix of a live branch, or lies below one, is refused."""
    if live != MAIN:
        create_branch(graph, live)
    with pytest.raises(InvalidInput) as caught:
        create_branch(graph, new)
    assert caught.value.kind is Kind.BRANCH_NAME_OVERLAPS
    assert caught.value.facts["branch"] == live


def test_similar_names_do_not_overlap(graph: Manifest) -> None:
    for name in ("a", "ab", "a.b", "a-b"):
        create_branch(graph, name)
    delete_branch(graph, "a")
    assert list_branches(graph.root.objects) == ["a-b", "a.b", "ab"]
    assert ids_in(graph, branch=BranchName("a.b")) == {"a", "b"}


def test_a_taken_name_is_refused(graph: Manifest) -> None:
    create_branch(graph, "work")
    for name in ("work", "main"):
        with pytest.raises(ConflictError) as caught:
            create_branch(graph, name)
        assert caught.value.kind is Kind.BRANCH_EXISTS


def test_an_unknown_branch_is_not_found_and_a_near_one_suggested(graph: Manifest) -> None:
    create_branch(graph, "feature/login")
    with pytest.raises(NotFound) as caught:
        graph.snapshot(BranchName("feature/logim"))
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND
    assert "did you mean 'feature/login'" in caught.value.message
    with pytest.raises(NotFound):
        create_branch(graph, "x", from_=BranchName("nope"))
    with pytest.raises(NotFound):
        delete_branch(graph, "nope")


def test_delete_removes_the_branch_and_the_forks_that_only_it_showed(graph: Manifest) -> None:
    """B-16: Deleting a branch removes it and the forks that only it shows. A branch with children is refused."""
    branch = create_branch(graph, "work")
    native = fork(graph, WORK, "c")
    path = row_of(graph).path
    delete_branch(graph, "work")
    assert list_branches(graph.root.objects) == []
    assert not has_ref(graph.root, path, native)
    assert not has_ref(graph.root, PATH, str(branch.native))
    assert not graph.root.objects.exists(f"{path}/tree/{native}")
    assert ids_in(graph) == {"a", "b"}


def test_main_cannot_be_deleted(graph: Manifest) -> None:
    with pytest.raises(InvalidInput):
        delete_branch(graph, "main")


def test_a_branch_with_children_cannot_be_deleted_before_them(graph: Manifest) -> None:
    """B-16: and the children are named."""
    create_branch(graph, "work")
    fork(graph, WORK, "c")
    create_branch(graph, "deeper", from_=WORK)
    with pytest.raises(ConflictError) as caught:
        delete_branch(graph, "work")
    assert caught.value.kind is Kind.BRANCH_HAS_CHILDREN
    assert caught.value.facts["children"] == ["deeper"]
    assert ids_in(graph, branch=BranchName("deeper")) == {"a", "b", "c"}
    delete_branch(graph, "deeper")
    delete_branch(graph, "work")


def test_a_branch_made_again_shares_nothing_with_the_old_one(graph: Manifest) -> None:
    """B-10: A branch created again under an old name shares no rows, handles or head with the old one.

    Also INV-7, B-21.
    """
    create_branch(graph, "work")
    other = reopen(graph.root.uri)
    fork(graph, WORK, "old")
    old = other.snapshot(WORK)
    delete_branch(graph, "work")
    add(graph, "new")
    create_branch(graph, "work")
    assert ids_in(other, branch=WORK) == {"a", "b", "new"}
    assert other.snapshot(WORK).commit == graph.snapshot().commit
    with pytest.raises(NotFound) as caught:
        other.snapshot(WORK, at=old.commit)  # B-22
    assert caught.value.kind in (Kind.COMMIT_NOT_FOUND, Kind.VERSION_RECLAIMED)


def test_history_before_the_fork_is_readable_through_the_branch(graph: Manifest) -> None:
    """B-22: Commits from before a fork can be read through the branch."""
    genesis = graph.commits()[-1]
    create_branch(graph, "work")
    note(graph, "on the branch", branch=WORK)
    assert graph.snapshot(WORK, at=genesis.id).version == 1
    assert graph.snapshot(WORK, at=1).state == graph.snapshot(at=1).state


def test_writers_on_a_deleted_branch_are_refused(graph: Manifest) -> None:
    create_branch(graph, "work")
    stale = reopen(graph.root.uri)
    stale.snapshot(WORK)
    delete_branch(graph, "work")
    with pytest.raises(NotFound) as caught:
        note(stale, "lost?", branch=WORK)
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND


def test_an_interrupted_create_leaves_no_branch_and_blocks_nobody(graph: Manifest) -> None:
    """RT-59: An interrupted branch create leaves no branch, and the name can be used."""
    with armed(Fault.BRANCH_AFTER_CREATE), pytest.raises(SimulatedCrash):
        create_branch(graph, "work")
    assert list_branches(graph.root.objects) == []
    create_branch(graph, "work")
    assert ids_in(graph, branch=WORK) == {"a", "b"}


def test_an_interrupted_delete_has_deleted(graph: Manifest) -> None:
    """RT-60: An interrupted branch delete has deleted: files may be left over, and the name can be used."""
    branch = create_branch(graph, "work")
    native = fork(graph, WORK, "c")
    with armed(Fault.BRANCH_AFTER_DELETE), pytest.raises(SimulatedCrash):
        delete_branch(graph, "work")
    assert list_branches(graph.root.objects) == []
    assert has_ref(graph.root, PATH, str(branch.native))
    create_branch(graph, "work")
    assert ids_in(graph, branch=WORK) == {"a", "b"}
    assert row_of(graph, branch=WORK).native != native


def test_an_interrupted_delete_that_did_not_reach_the_object_changed_nothing(graph: Manifest) -> None:
    create_branch(graph, "work")
    with armed(Fault.BRANCH_BEFORE_DELETE), pytest.raises(SimulatedCrash):
        delete_branch(graph, "work")
    assert ids_in(graph, branch=WORK) == {"a", "b"}


def test_of_many_creators_of_one_name_one_wins(graph: Manifest) -> None:
    won: list[int] = []
    lost: list[Kind] = []

    def work(n: int) -> None:
        try:
            create_branch(reopen(graph.root.uri), "work")
            won.append(n)
        except OmniGraphError as error:
            lost.append(error.kind)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(won) == 1
    assert lost == [Kind.BRANCH_EXISTS] * 5


def test_a_moved_graph_with_only_main_opens_and_can_branch(graph: Manifest, tmp_path: Path) -> None:
    new = tmp_path / "elsewhere"
    Path(graph.root.uri).rename(new)
    moved = reopen(new)
    assert ids_in(moved) == {"a", "b"}
    create_branch(moved, "work")
    assert ids_in(reopen(new), branch=WORK) == {"a", "b"}


def test_a_damaged_branch_object_is_named(graph: Manifest) -> None:
    create_branch(graph, "work")
    graph.root.objects.put(object_of(WORK), b"{")
    with pytest.raises(FormatError) as caught:
        graph.snapshot(WORK)
    assert caught.value.kind is Kind.CORRUPT
    assert "__branches/work.json" in caught.value.message


def test_person_alias_is_a_table(graph: Manifest) -> None:
    assert graph.snapshot().state.table("node:Nobody") is None
    assert row_of(graph, PERSON).rows == 2
