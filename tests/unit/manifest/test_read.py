"""Looking: now and then, by commit, version and time; one snapshot, whoever writes meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from omnigraph.errors import InvalidInput, Kind, NotFound
from omnigraph.ids import MAIN, BranchName, CommitId
from omnigraph.manifest import lineage, read, recorded
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.model import CommitKind
from omnigraph.manifest.publish import Publication, publish
from omnigraph.manifest.read import WINDOW, Manifest
from tests.graphs import add, ids_in, make, note, reopen

WORK = BranchName("work")


@pytest.fixture
def graph(tmp_path: Path) -> Manifest:
    return make(tmp_path / "g")


def test_every_past_commit_is_readable_as_it_was(graph: Manifest) -> None:
    """T-02: Every past commit can be read as it was, by commit, by version and by time."""
    done = [add(graph, name) for name in "abc"]
    for n, published in enumerate(done, start=1):
        by_commit = graph.snapshot(at=published.commit.id)
        assert by_commit.state == published.snapshot.state
        assert graph.snapshot(at=published.commit.manifest_version) == by_commit
        assert graph.snapshot(at=published.commit.created_at) == by_commit
        assert [row.rows for row in by_commit.state.tables.values()] == [n]


def test_a_moment_between_two_commits_shows_the_earlier(graph: Manifest) -> None:
    first = publish(graph, Publication(CommitKind.LOAD, at=datetime.now(UTC) + timedelta(hours=1)))
    publish(graph, Publication(CommitKind.LOAD, at=datetime.now(UTC) + timedelta(hours=3)))
    assert graph.snapshot(at=datetime.now(UTC) + timedelta(hours=2)).commit == first.commit.id


@pytest.mark.parametrize("version", [0, -1, 99])
def test_a_version_that_never_was_is_not_found(graph: Manifest, version: int) -> None:
    """T-03: A version that never existed is not found."""
    with pytest.raises(NotFound) as caught:
        graph.snapshot(at=version)
    assert caught.value.kind is Kind.VERSION_NOT_FOUND


@pytest.mark.parametrize("commit", ["", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "' OR 1=1 --'", "01ARZ3NDEKTSV4RRFFQ69G5F'%"])
def test_a_commit_that_never_was_is_not_found(graph: Manifest, commit: str) -> None:
    for look in (lambda: graph.commit(CommitId(commit)), lambda: graph.snapshot(at=CommitId(commit))):
        with pytest.raises(NotFound) as caught:
            look()
        assert caught.value.kind is Kind.COMMIT_NOT_FOUND


def test_a_moment_before_the_graph_or_without_a_zone_is_refused(graph: Manifest) -> None:
    with pytest.raises(NotFound):
        graph.snapshot(at=datetime(1999, 1, 1, tzinfo=UTC))
    with pytest.raises(InvalidInput):
        graph.snapshot(at=datetime(2050, 1, 1))
    with pytest.raises(InvalidInput):
        graph.snapshot(at=True)


def test_branch_and_main_have_histories_of_their_own(graph: Manifest) -> None:
    """T-04: A branch and main have separate histories."""
    create_branch(graph, "work")
    on_branch = note(graph, "branch", branch=WORK)
    on_main = note(graph, "main")
    assert on_branch.commit.manifest_version == on_main.commit.manifest_version
    assert graph.snapshot(WORK, at=2).commit == on_branch.commit.id
    assert graph.snapshot(at=2).commit == on_main.commit.id
    assert graph.snapshot(at=on_branch.commit.id).branch.name == WORK, "a commit names its branch"
    assert graph.commit(on_branch.commit.id) == on_branch.commit


def test_a_commit_of_a_deleted_branch_says_so(graph: Manifest) -> None:
    """T-06: Reading a version that was removed, or went with its branch, is `historical_version_reclaimed`."""
    create_branch(graph, "work")
    theirs = note(graph, "theirs", branch=WORK)
    publish(graph, Publication(CommitKind.MERGE, merged=theirs.commit.id, copied=(theirs.commit,)))
    assert graph.snapshot(at=theirs.commit.id).version == theirs.commit.manifest_version
    delete_branch(graph, "work")
    assert graph.commit(theirs.commit.id) == theirs.commit
    for made_again in (False, True):
        if made_again:
            create_branch(graph, "work")
        with pytest.raises(NotFound) as caught:
            graph.snapshot(at=theirs.commit.id)
        assert caught.value.kind is Kind.VERSION_RECLAIMED


def test_history_with_a_merge_knows_its_base_and_lists_both_sides(graph: Manifest) -> None:
    base = note(graph, "base").commit
    create_branch(graph, "work")
    theirs = note(graph, "theirs", branch=WORK).commit
    ours = note(graph, "ours").commit
    merged = publish(graph, Publication(CommitKind.MERGE, merged=theirs.id, copied=(theirs,))).commit
    history = reopen(graph.root.uri).history()
    assert lineage.merge_base(history, ours.id, theirs.id) == base.id
    assert merged.parents == (ours.id, theirs.id)
    assert [commit.message for commit in graph.commits(limit=4)] == [None, "ours", "theirs", "base"]
    assert theirs.id in lineage.distances(history, merged.id)


def test_a_listing_longer_than_its_window_reads_on(graph: Manifest) -> None:
    for n in range(WINDOW + 5):
        note(graph, str(n))
    whole = graph.commits()
    assert len(whole) == WINDOW + 6
    for limit in (0, 1, WINDOW - 1, WINDOW, WINDOW + 3, 10 * WINDOW):
        assert graph.commits(limit=limit) == whole[:limit]


def test_handles_follow_each_other_without_being_told(graph: Manifest) -> None:
    """C-26: A read on an open handle sees the commits of other handles without a refresh."""
    other = reopen(graph.root.uri)
    add(graph, "a")
    assert ids_in(other) == {"a"}
    add(other, "b")
    assert ids_in(graph) == {"a", "b"}
    assert other.snapshot(MAIN) == graph.snapshot(MAIN)


def test_few_branches_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lives long meets any number of branches, and its memory does not grow with them."""
    for module in (read, recorded):
        monkeypatch.setattr(module, "BRANCHES", 3)
    graph = make(tmp_path / "g")
    heads = {MAIN: add(graph, "a").commit.id}
    for name in (BranchName(f"b{at}") for at in range(8)):
        create_branch(graph, name)
        heads[name] = note(graph, name, branch=name).commit.id
    for name in (*heads, *reversed(heads)):
        assert graph.snapshot(name).commit == heads[name]
        assert ids_in(graph, branch=name) == {"a"}
    assert (len(graph._cache), len(graph.recorded._newest)) == (3, 3)
    assert [note(graph, "again", branch=name).commit.parents[0] for name in heads] == list(heads.values())
