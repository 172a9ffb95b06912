"""The one door: what it lets through, what it refuses, and that every attempt sees the newest state."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from omnigraph.errors import ConflictError, ExpectedVersionMismatch, InvalidInput, Kind, ReadSetChanged
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.ids import CommitId, SchemaHash, TableId, new_commit_id
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.model import CommitKind, SchemaText
from omnigraph.manifest.publish import ATTEMPTS, Preconditions, Publication, draft, publish
from omnigraph.manifest.read import Manifest
from tests.graphs import COMPANY, PERSON, add, ids_in, make, note, reopen, row_of


@pytest.fixture
def graph(tmp_path: Path) -> Manifest:
    return make(tmp_path / "g.omni", PERSON, COMPANY)


def moved(manifest: Manifest, alias: str = PERSON, *, by: int = 1):  # type: ignore[no-untyped-def]
    row = row_of(manifest, alias)
    return msgspec.structs.replace(row, version=row.version + by, rows=row.rows + 1)


def test_a_publish_is_one_version_one_commit_and_the_child_of_the_head(graph: Manifest) -> None:
    """C-10: A commit is the child of the head it was published on, in one manifest version.
    W-45: Commit and table versions become visible in the same step.

    Also INV-1.
    """
    before = graph.snapshot()
    done = publish(graph, Publication(CommitKind.MUTATE, tables=(moved(graph),), actor="ada", message="hello"))
    after = graph.snapshot()
    assert after.version == before.version + 1 == done.commit.manifest_version
    assert after.commit == done.commit.id
    assert done.commit.parents == (before.commit,)
    assert (done.commit.actor, done.commit.message) == ("ada", "hello")
    assert [(change.alias, change.before, change.after) for change in done.commit.tables] == [(PERSON, 1, 2)]


def test_what_is_remembered_equals_what_is_read_back(graph: Manifest) -> None:
    """W-48: What a handle remembers after a publication equals what a fresh open reads."""
    for n in range(7):
        publish(graph, Publication(CommitKind.MUTATE, tables=(moved(graph),), message=str(n)))
    other = reopen(graph.root.uri)
    assert other.snapshot() == graph.snapshot()
    assert other.commits() == graph.commits()


def test_a_stale_handle_publishes_on_top_of_what_others_published(graph: Manifest) -> None:
    """C-11: A stale handle publishes on the newest head, never on a remembered one."""
    other = reopen(graph.root.uri)
    theirs = note(other, "theirs")
    ours = note(graph, "ours")
    assert ours.commit.parents == (theirs.commit.id,)


def test_disjoint_writers_from_one_base_both_land(graph: Manifest) -> None:
    """C-09: two tables, one branch, one chain."""
    other = reopen(graph.root.uri)
    person = Publication(CommitKind.MUTATE, tables=(moved(graph, PERSON),), expect=Preconditions(tables={row_of(graph, PERSON).id: 1}))
    company = Publication(CommitKind.MUTATE, tables=(moved(graph, COMPANY),), expect=Preconditions(tables={row_of(graph, COMPANY).id: 1}))
    first = publish(graph, person)
    second = publish(other, company)
    assert second.commit.parents == (first.commit.id,)
    assert {row.version for row in other.snapshot().state.tables.values()} == {2}


def test_publish_refuses_a_table_that_is_not_where_it_was_expected(graph: Manifest) -> None:
    """C-04: A publication is refused if any expected table version differs; the error has table, expected and actual version."""
    company = row_of(graph, COMPANY)
    publish(graph, Publication(CommitKind.MUTATE, tables=(moved(graph, COMPANY),)))
    version = graph.snapshot().version
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(graph, Publication(CommitKind.MUTATE, tables=(moved(graph),), expect=Preconditions(tables={company.id: company.version})))
    assert caught.value.facts == {"table": company.id, "expected": 1, "actual": 2}
    assert graph.snapshot().version == version


def test_an_unknown_table_is_at_version_zero(graph: Manifest) -> None:
    """C-05: An expectation about an unknown table fails with actual version 0."""
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(graph, Publication(CommitKind.MUTATE, expect=Preconditions(tables={TableId("nowhere"): 3})))
    assert caught.value.facts == {"table": "nowhere", "expected": 3, "actual": 0}


@pytest.mark.parametrize(
    ("expect", "kind"),
    [
        (Preconditions(head=CommitId("01ARZ3NDEKTSV4RRFFQ69G5FAV")), Kind.READ_SET_CHANGED),
        (Preconditions(schema=SchemaHash("another")), Kind.SCHEMA_CHANGED),
    ],
)
def test_publish_refuses_when_the_authority_moved(graph: Manifest, expect: Preconditions, kind: Kind) -> None:
    before = graph.snapshot()
    with pytest.raises(ReadSetChanged) as caught:
        publish(graph, Publication(CommitKind.MUTATE, tables=(moved(graph),), expect=expect))
    assert caught.value.kind is kind
    assert reopen(graph.root.uri).snapshot() == before


def test_publish_refuses_an_overtaken_epoch(graph: Manifest) -> None:
    """A holder that was replaced while it slept finds a newer epoch in head."""
    from omnigraph.manifest.publish import _raise_epoch

    _raise_epoch(graph, graph.snapshot().branch.name, 7)
    with pytest.raises(ConflictError) as caught:
        publish(graph, Publication(CommitKind.MUTATE, expect=Preconditions(epoch=6)))
    assert caught.value.kind is Kind.FENCED
    assert publish(graph, Publication(CommitKind.MUTATE, expect=Preconditions(epoch=7))).commit.parents


def test_publish_refuses_a_branch_of_the_same_name_made_again(graph: Manifest) -> None:
    """C-24: A publication on a branch that was deleted and created again is refused: equal names and versions are no identity."""
    first = create_branch(graph, "work")
    delete_branch(graph, "work")
    second = create_branch(graph, "work")
    assert first.forked_at == second.forked_at
    with pytest.raises(ConflictError) as caught:
        publish(graph, Publication(CommitKind.MUTATE, expect=Preconditions(branch=first)), branch=first.name)
    assert caught.value.kind is Kind.BRANCH_REPLACED
    assert publish(graph, Publication(CommitKind.MUTATE, expect=Preconditions(branch=second)), branch=second.name)


def test_a_published_version_stays_what_it_is(graph: Manifest) -> None:
    """C-08: A published table version never changes: an equal row is accepted, other content or an older version is refused."""
    first = moved(graph)
    publish(graph, Publication(CommitKind.MUTATE, tables=(first,)))
    assert publish(graph, Publication(CommitKind.MUTATE, tables=(first,))).snapshot.state.tables[first.id] == first
    before = graph.snapshot()
    for wrong in (msgspec.structs.replace(first, rows=99), msgspec.structs.replace(first, version=1)):
        with pytest.raises(ExpectedVersionMismatch):
            publish(graph, Publication(CommitKind.MUTATE, tables=(wrong, moved(graph, COMPANY))))
    assert graph.snapshot() == before


def test_a_table_named_twice_in_one_publication_is_refused(graph: Manifest) -> None:
    """C-08"""
    row = moved(graph)
    with pytest.raises(InvalidInput):
        publish(graph, Publication(CommitKind.MUTATE, tables=(row, row)))


def test_a_token_returns_the_first_receipt_and_does_nothing(graph: Manifest) -> None:
    first = note(graph, "once", token="job-1")
    note(graph, "other")
    again = note(reopen(graph.root.uri), "once", token="job-1")
    assert again.repeated
    assert again.commit == first.commit
    assert [commit.message for commit in graph.commits()] == ["other", "once", None]


def test_a_token_is_found_again_whatever_else_was_expected(graph: Manifest) -> None:
    """A retry after an unknown outcome must get its receipt although the head has moved, by itself, meanwhile."""
    base = graph.snapshot()
    publication = Publication(CommitKind.MUTATE, tables=(moved(graph),), expect=Preconditions(head=base.commit), token="job-'2'")
    first = publish(graph, publication)
    assert publish(graph, publication).commit == first.commit


def test_a_commit_is_never_older_than_its_parent(graph: Manifest) -> None:
    future = datetime.now(UTC) + timedelta(hours=2)
    first = publish(graph, Publication(CommitKind.MUTATE, at=future))
    second = note(graph, "later, by a slower clock")
    assert second.commit.created_at >= first.commit.created_at == future


def test_a_minted_commit_id_is_used(graph: Manifest) -> None:
    mine = new_commit_id()
    assert publish(graph, Publication(CommitKind.MUTATE, commit=mine)).commit.id == mine
    assert graph.commit(mine).id == mine


def test_a_schema_lands_with_its_commit_and_is_written_once(graph: Manifest) -> None:
    old, new = graph.snapshot().state.head.schema, SchemaText("node Person { n: I64? m: I64? }", "{}")
    publish(graph, Publication(CommitKind.MUTATE, schema=new))
    assert graph.snapshot().state.head.schema == new.hash
    back = graph.schema(old)
    publish(graph, Publication(CommitKind.MUTATE, schema=back))
    publish(graph, Publication(CommitKind.MUTATE, schema=new))
    fresh = reopen(graph.root.uri)
    assert fresh.schema(new.hash) == new
    assert len(fresh.look()[1].find(f"schema:{new.hash}")) == 1


def test_threads_on_one_handle_all_land_in_one_chain(graph: Manifest) -> None:
    """C-09: eight writers, a chain of eight, each acknowledged once."""
    landed: list[str] = []

    def work(name: str) -> None:
        for n in range(4):
            landed.append(add(graph, f"{name}-{n}").commit.id)

    workers = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    chain = reopen(graph.root.uri).commits()
    assert len(chain) == 33
    assert {commit.id for commit in chain} >= set(landed)
    assert [child.parents for child in chain[:-1]] == [(parent.id,) for parent in chain[1:]]
    assert len(ids_in(graph)) == 32


def test_contention_without_a_lock_is_bounded_and_typed(graph: Manifest) -> None:
    """C-06: A publication that loses every attempt ends with a typed error, and nothing of it is visible."""
    outcomes: list[str] = []
    refused: list[tuple[Kind, object]] = []
    barrier = threading.Barrier(6)

    def work(name: str) -> None:
        mine = reopen(graph.root.uri)
        barrier.wait()
        for n in range(6):
            try:
                note(mine, f"{name}-{n}")
                outcomes.append(f"{name}-{n}")
            except ConflictError as error:
                refused.append((error.kind, error.facts["attempts"]))

    workers = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    chain = reopen(graph.root.uri).commits()
    assert len(outcomes) + len(refused) == 36
    assert set(refused) <= {(Kind.CONTENTION, ATTEMPTS)}
    assert sorted(str(commit.message) for commit in chain[:-1]) == sorted(outcomes)
    assert [child.parents for child in chain[:-1]] == [(parent.id,) for parent in chain[1:]]


def test_a_snapshot_keeps_its_rows_while_others_publish(graph: Manifest) -> None:
    """C-25: A snapshot keeps its rows while other writers publish.

    Also INV-3.
    """
    add(graph, "a")
    held = graph.snapshot()
    add(graph, "b")
    assert graph.snapshot(at=held.version).state == held.state
    assert held.state.tables != graph.snapshot().state.tables


@pytest.mark.parametrize("point", [Fault.PUBLISH_BEFORE_WRITE, Fault.PUBLISH_BEFORE_COMMIT])
def test_a_failure_before_the_swap_changes_nothing(graph: Manifest, point: Fault) -> None:
    before = graph.snapshot()
    with armed(point), pytest.raises(SimulatedCrash):
        note(graph, "never")
    assert reopen(graph.root.uri).snapshot() == before
    assert note(graph, "next").commit.parents == (before.commit,)


@pytest.mark.parametrize("point", [Fault.PUBLISH_AFTER_COMMIT, Fault.PUBLISH_AFTER_SYNC])
def test_a_failure_after_the_swap_has_published(graph: Manifest, point: Fault) -> None:
    before = graph.snapshot()
    with armed(point), pytest.raises(SimulatedCrash):
        note(graph, "landed", token="t")
    assert graph.snapshot().version == before.version + 1
    assert note(graph, "again", token="t").commit.message == "landed"


def test_a_draft_on_a_state_that_has_moved_is_written_again(graph: Manifest) -> None:
    """It lands as the child of what came between, and its first files are removed. A draft that was used is not."""
    files = Path(graph.root.uri) / "__manifest" / "data"
    mine = Publication(CommitKind.MUTATE, message="mine")
    stale = draft(graph, mine)
    stale.rows.settle_with([])  # its files are written
    between = note(graph, "between").commit
    before = len(list(files.iterdir()))
    done = publish(graph, mine, drafted=stale)
    stale.discard()
    assert done.commit.parents == (between.id,)
    assert len(list(files.iterdir())) == before, "two files more, and two less"
    used = draft(graph, mine)
    assert publish(graph, mine, drafted=used).commit == used.commit
    used.discard()
    assert reopen(graph.root.uri).commits()[0] == used.commit
    before = len(list(files.iterdir()))
    draft(graph, mine).discard()
    assert len(list(files.iterdir())) == before
    assert note(graph, "next").commit.parents == (used.commit.id,)
