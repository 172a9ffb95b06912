"""Commits by the beginning of their ids, branches of the past, tags, and the graph of commits."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound, OmniGraphError, PreconditionFailed
from omnigraph.graph import Graph
from omnigraph.store.durable import version_file
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run

SCHEMA = "node Person { name: String @key  born: I32? }\nedge Knows: Person -> Person"
ALL = "query q() { match { $p: Person } return { $p.name as name } order { name } }"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Three commits on main after its first, one on a branch."""
    made = og.init(tmp_path / "g", schema=SCHEMA, actor="act-maker")
    for name in ("Ada", "Ben", "Cy"):
        add(made, name)
    made.branches.create("work")
    add(made, "Dan", branch="work")
    return made


def add(graph: Graph, name: str, *, branch: str = "main") -> str:
    """One commit, and its id."""
    text = "query q($name: String) { insert Person { name: $name } }"
    made = graph.mutate(text, params={"name": name}, branch=branch, message=f"add {name}").commit
    assert made is not None
    return made.id


def names(graph: Graph, **where: object) -> list[str]:
    return [row["name"] for row in graph.query(ALL, **where).rows]  # type: ignore[arg-type]  # branch and at, as each test needs


def shared(one: str, other: str) -> str:
    return "".join(left for left, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True)))


def shortest(graph: Graph, commit: str) -> str:
    """The shortest beginning of an id that no other commit shares."""
    others = {one.id for branch in graph.branches.list() for one in graph.commits(branch)} - {commit}
    return commit[: 1 + max(len(shared(commit, other)) for other in others)]


# -- commits by the beginning of their ids


def test_a_commit_is_named_by_the_beginning_of_its_id_wherever_one_is_named(graph: Graph) -> None:
    """T-10: A commit can be named by any beginning of its id that no other commit of the graph shares."""
    for branch in ("main", "work"):
        for commit in graph.commits(branch):
            prefix = shortest(graph, commit.id)
            assert graph.commit(prefix) == graph.commit(prefix.lower()) == commit
            assert graph.snapshot(at=prefix) == graph.snapshot(at=commit.id)
            assert list(graph.export(at=prefix)) == list(graph.export(at=commit.id))
            assert names(graph, at=prefix) == names(graph, at=commit.id)
    head = graph.commits()[0].id
    run(graph, 'insert Person { name: "Eve" }', if_commit=shortest(graph, head))
    with pytest.raises(PreconditionFailed):
        run(graph, 'insert Person { name: "Flo" }', if_commit=shortest(graph, head))


def test_beginnings_of_ids_name_commits_of_differences_branches_tags_feeds_and_reverts(graph: Graph) -> None:
    """The rest of T-10."""
    last, before = (commit.id for commit in graph.commits()[:2])
    new, old = shortest(graph, last), shortest(graph, before)
    assert list(graph.diff(old, new)) == list(graph.diff(before, last)) == list(graph.commit_changes(new))
    assert graph.changes.commit(new).changes == graph.changes.commit(last).changes
    assert graph.changes.poll(start=f"after:{old}").blocks == graph.changes.poll(start=f"after:{before}").blocks
    assert graph.explain(ALL, at=old) == graph.explain(ALL, at=before)
    assert graph.tags.create("old", at=old).commit_id == before
    graph.branches.create("past", at=old)
    assert graph.snapshot("past").commit_id == before
    assert graph.revert(new).reverted == last
    assert names(graph) == names(graph, at=before)
    both = shared(last, before)
    refused: list[Callable[[], object]] = [
        lambda: graph.diff(both, "main"),
        lambda: graph.commit_changes(both),
        lambda: graph.changes.commit(both),
        lambda: graph.changes.poll(start=f"after:{both}"),
        lambda: graph.explain(ALL, at=both),
        lambda: graph.export(at=both),
        lambda: graph.snapshot(at=both),
        lambda: graph.tags.create("new", at=both),
        lambda: graph.branches.create("new", at=both),
        lambda: graph.revert(both),
        lambda: run(graph, 'insert Person { name: "Flo" }', if_commit=both),
    ]
    now = graph.snapshot()
    for attempt in refused:
        with pytest.raises(InvalidInput) as caught:
            attempt()
        assert caught.value.kind is Kind.AMBIGUOUS_COMMIT
    assert (graph.snapshot(), graph.branches.list(), [tag.name for tag in graph.tags.list()]) == (now, ["main", "past", "work"], ["old"])


def test_a_beginning_that_two_commits_share_is_refused_with_both(graph: Graph) -> None:
    """T-11: A beginning that several commits share is `ambiguous_commit`, with the commits."""
    (mine,), old = graph.commits("work")[:1], graph.commits()[0]
    both = shared(mine.id, old.id)
    with pytest.raises(InvalidInput) as caught:
        graph.commit(both)
    assert caught.value.kind is Kind.AMBIGUOUS_COMMIT
    fitting = sorted(one.id for one in graph.commits("work") if one.id.startswith(both))
    assert caught.value.facts["commits"] == fitting[:10]
    assert all(commit in caught.value.message for commit in fitting)


def test_the_error_of_a_short_beginning_lists_ten_commits(graph: Graph) -> None:
    for n in range(10):
        run(graph, f'insert Person {{ name: "p{n}" }}')
    with pytest.raises(InvalidInput) as caught:
        graph.commit("0")
    assert len(caught.value.facts["commits"]) == 10  # type: ignore[arg-type]  # facts are objects
    assert caught.value.facts["count"] == 15
    assert "15 commits" in caught.value.message


# -- branches of the past


def test_a_branch_is_made_from_any_commit_version_or_time(graph: Graph) -> None:
    """B-44: A branch can be made from any commit of any branch, and from a version or a time of a branch."""
    old, older = graph.commits()[1], graph.commits()[2]
    graph.branches.create("by-id", at=old.id)
    graph.branches.create("by-prefix", at=shortest(graph, old.id))
    graph.branches.create("by-version", at=old.manifest_version)
    graph.branches.create("by-time", at=old.created_at)
    graph.branches.create("of-a-branch", at=graph.commits("work")[0].id)
    graph.branches.create("inherited", from_="work", at=older.created_at + timedelta(microseconds=1))
    for branch in ("by-id", "by-prefix", "by-version", "by-time"):
        assert names(graph, branch=branch) == ["Ada", "Ben"]
        assert graph.commits(branch) == graph.commits()[1:]
    assert names(graph, branch="of-a-branch") == ["Ada", "Ben", "Cy", "Dan"]
    assert names(graph, branch="inherited") == ["Ada"]
    before = {branch: names(graph, branch=branch) for branch in graph.branches.list()}
    for branch in graph.branches.list():
        add(graph, f"on {branch}", branch=branch)
    assert {branch: names(graph, branch=branch) for branch in before} == {
        branch: sorted([*held, f"on {branch}"]) for branch, held in before.items()
    }
    assert graph.verify(deep=True) == []
    graph.copy_to(Path(graph.uri).with_name("copy"))
    assert {branch: names(og.open(Path(graph.uri).with_name("copy")), branch=branch) for branch in before} == {
        branch: names(graph, branch=branch) for branch in before
    }


def test_a_branch_of_the_past_keeps_its_parent_and_its_parent_keeps_it(graph: Graph) -> None:
    """A commit of a branch is its history, so the branch cannot be deleted before what was made from it."""
    graph.branches.create("again", at=graph.commits("work")[0].id)
    with pytest.raises(ConflictError) as caught:
        graph.branches.delete("work")
    assert caught.value.kind is Kind.BRANCH_HAS_CHILDREN
    graph.branches.delete("again")
    graph.branches.delete("work")
    assert graph.verify() == []


def test_a_branch_of_a_commit_whose_rows_were_removed_is_refused(graph: Graph) -> None:
    """B-45: A branch of a commit whose data was removed is refused, and nothing is written."""
    old = graph.commits()[1].id
    graph.branches.delete("work")
    graph.apply_schema(SCHEMA.replace("born: I32?", ""), allow_data_loss=True)
    with pytest.raises(NotFound) as caught:
        graph.branches.create("again", at=old)
    assert caught.value.kind is Kind.VERSION_RECLAIMED
    assert graph.branches.list() == ["main"]
    assert graph.verify() == []


def test_a_branch_of_no_moment_is_refused(graph: Graph) -> None:
    early = datetime(2020, 1, 1, tzinfo=UTC)
    for at, kind in (
        ("nope", Kind.COMMIT_NOT_FOUND),
        ("0", Kind.AMBIGUOUS_COMMIT),
        (early, Kind.COMMIT_NOT_FOUND),
        (99, Kind.VERSION_NOT_FOUND),
    ):
        with pytest.raises(OmniGraphError) as caught:
            graph.branches.create("new", at=at)
        assert caught.value.kind is kind
    assert graph.branches.list() == ["main", "work"]


# -- tags


def test_a_tag_stands_wherever_a_commit_does(graph: Graph) -> None:
    """G-21: A tag names a commit, and stands wherever a commit id does."""
    old = graph.commits()[1]
    made = graph.tags.create("v1.0", at=old.id, message="the first")
    assert (made.name, made.commit_id, made.branch, made.actor, made.message) == ("v1.0", old.id, "main", "act-maker", "the first")
    newest = graph.tags.create("team/newest")
    assert newest.commit_id == graph.commits()[0].id
    assert graph.tags.create("of-work", branch="work").branch == "work"
    assert graph.tags.create("again", at="v1.0").commit_id == old.id
    assert [tag.name for tag in graph.tags.list()] == ["again", "of-work", "team/newest", "v1.0"]
    add(graph, "Zoe")
    assert og.open(graph.uri, mode="r").tags.list() == graph.tags.list()
    assert graph.commit("v1.0") == old
    assert names(graph, at="v1.0") == ["Ada", "Ben"]
    assert names(graph, at="of-work") == ["Ada", "Ben", "Cy", "Dan"]
    assert list(graph.export(at="team/newest")) == list(graph.export(at=newest.commit_id))
    graph.branches.create("retry", at="v1.0")
    assert names(graph, branch="retry") == ["Ada", "Ben"]
    with pytest.raises(PreconditionFailed):
        run(graph, 'insert Person { name: "Flo" }', if_commit="v1.0")
    assert graph.verify(deep=True) == []


def test_tags_and_beginnings_of_ids_name_the_sides_of_a_difference(graph: Graph) -> None:
    graph.tags.create("v1", at=graph.commits()[1].id)
    old = shortest(graph, graph.commits()[2].id)
    assert [change.id for change in graph.diff("v1", "work")] == ["Cy", "Dan"]
    assert [change.id for change in graph.diff(old, "v1")] == ["Ben"]
    assert [change.id for change in graph.commit_changes("v1")] == ["Ben"]
    graph.revert("v1")
    assert names(graph) == ["Ada", "Cy"]


def test_a_tag_of_a_merged_branch_holds_the_branch_and_not_the_merge(graph: Graph) -> None:
    """G-29: A merge that should delete its source keeps one with tags, and says why."""
    graph.tags.create("v1", branch="work")
    merged = graph.merge("work", delete_source=True)
    assert merged.branch_deleted is False
    assert "v1" in (merged.branch_delete_error or "")
    assert names(graph) == names(graph, at="v1") == ["Ada", "Ben", "Cy", "Dan"]
    found = graph.commit_graph()
    assert len(found.commits[0].parents) == 2
    assert graph.verify() == []


def test_a_deleted_tag_is_gone_and_its_name_free(graph: Graph) -> None:
    first = graph.tags.create("v1")
    graph.tags.delete("v1")
    assert graph.tags.list() == []
    with pytest.raises(NotFound) as caught:
        graph.snapshot(at="v1")
    assert caught.value.kind is Kind.COMMIT_NOT_FOUND
    add(graph, "Zoe")
    assert graph.tags.create("v1").commit_id != first.commit_id


@pytest.mark.parametrize(
    ("attempt", "kind"),
    [
        (lambda graph: graph.tags.create(""), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create(7), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("a b"), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("../x"), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("12"), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("2026-01-31"), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create(graph.commits()[0].id.lower()), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("x" * 121), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("main"), Kind.INVALID_TAG_NAME),
        (lambda graph: graph.tags.create("work"), Kind.BRANCH_EXISTS),
        (lambda graph: graph.tags.create("v1"), Kind.TAG_EXISTS),
        (lambda graph: graph.branches.create("v1"), Kind.TAG_EXISTS),
        (lambda graph: graph.tags.create("v2", at="nope"), Kind.COMMIT_NOT_FOUND),
        (lambda graph: graph.tags.create("v2", at="0"), Kind.AMBIGUOUS_COMMIT),
        (lambda graph: graph.tags.create("v2", at=99), Kind.VERSION_NOT_FOUND),
        (lambda graph: graph.tags.create("v2", at=1.5), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.tags.create("v2", branch="nope"), Kind.BRANCH_NOT_FOUND),
        (lambda graph: graph.tags.delete("v2"), Kind.TAG_NOT_FOUND),
        (lambda graph: graph.tags.delete("a b"), Kind.INVALID_TAG_NAME),
        (lambda graph: og.open(graph.uri, mode="r").tags.create("v2"), Kind.READ_ONLY),
        (lambda graph: og.open(graph.uri, mode="r").tags.delete("v1"), Kind.READ_ONLY),
    ],
)
def test_a_wrong_tag_is_refused_by_kind_and_changes_nothing(graph: Graph, attempt: Callable[[Graph], object], kind: Kind) -> None:
    tags = [graph.tags.create("v1")]
    with pytest.raises(OmniGraphError) as caught:
        attempt(graph)
    assert caught.value.kind is kind
    assert graph.tags.list() == tags
    assert graph.branches.list() == ["main", "work"]
    assert os.listdir(Path(graph.uri) / "__tags") == ["v1.json"]


def test_a_branch_cannot_be_deleted_before_the_tags_of_its_commits(graph: Graph) -> None:
    """G-22: A branch whose commits have tags is not deleted; tags of what it inherited do not hold it."""
    graph.branches.create("idle")
    graph.tags.create("inherited", branch="idle")
    graph.tags.create("own", branch="work")
    with pytest.raises(ConflictError) as caught:
        graph.branches.delete("work")
    assert caught.value.kind is Kind.BRANCH_HAS_TAGS
    assert caught.value.facts["tags"] == ["own"]
    assert names(graph, at="own") == ["Ada", "Ben", "Cy", "Dan"]
    graph.branches.delete("idle")
    graph.tags.delete("own")
    graph.branches.delete("work")
    assert names(graph, at="inherited") == ["Ada", "Ben", "Cy"]
    assert graph.verify() == []


def test_a_tag_keeps_what_a_schema_change_gives_up(graph: Graph) -> None:
    """G-23: As long as a tag names a commit, no version that the commit shows is removed; afterwards it is."""
    graph.branches.delete("work")
    run(graph, 'update Person set { born: 1815 } where name = "Ada"')
    graph.tags.create("before")
    kept, other = list(graph.export(at="before")), graph.commits()[1].id
    graph.apply_schema(SCHEMA.replace("born: I32?", ""), allow_data_loss=True)
    assert list(graph.export(at="before")) == kept
    with pytest.raises(NotFound):
        list(graph.export(at=other))
    with pytest.raises(NotFound) as caught:
        graph.tags.create("too-late", at=other)
    assert caught.value.kind is Kind.VERSION_RECLAIMED
    assert graph.verify(deep=True) == []
    named = graph.commit("before").id
    graph.tags.delete("before")
    graph.apply_schema(graph.schema, allow_data_loss=True)
    with pytest.raises(NotFound):
        list(graph.export(at=named))


def test_a_tag_whose_commit_is_gone_is_a_finding(graph: Graph) -> None:
    graph.tags.create("v1", at=graph.commits()[1].id)
    row = graph.snapshot(at="v1").tables[1]
    os.unlink(Path(graph.uri) / row.path / version_file(row.version))
    assert "tag v1" in [finding.where for finding in graph.verify()]


def test_a_damaged_tag_object_is_named(graph: Graph) -> None:
    graph.tags.create("v1")
    (Path(graph.uri) / "__tags/v1.json").write_bytes(b"{")
    for attempt in (graph.tags.list, lambda: graph.commit("v1")):
        with pytest.raises(OmniGraphError) as caught:
            attempt()
        assert caught.value.kind is Kind.CORRUPT
        assert "__tags/v1.json" in caught.value.message
    assert "tag v1" in [finding.where for finding in graph.verify()]


def test_of_several_creators_of_one_tag_exactly_one_wins(graph: Graph) -> None:
    """G-24: Of several processes or threads that create one tag, one succeeds."""

    def create(n: int) -> str:
        try:
            return og.open(graph.uri).tags.create("v1", message=str(n)).message or ""
        except ConflictError as error:
            return error.kind

    with ThreadPoolExecutor(6) as pool:
        heard = list(pool.map(create, range(6)))
    assert heard.count(Kind.TAG_EXISTS) == 5
    assert graph.tags.list()[0].message in heard


def test_tags_move_with_the_graph(graph: Graph, tmp_path: Path) -> None:
    graph.tags.create("v1", branch="work")
    there = og.open(Path(graph.uri).rename(tmp_path / "there"))
    assert names(there, at="v1") == ["Ada", "Ben", "Cy", "Dan"]


# -- the graph of commits


def test_the_commit_graph_has_every_commit_of_every_branch_once(graph: Graph) -> None:
    """G-27: The commit graph has each commit of the branches once, children before parents, with heads and tags."""
    graph.branches.create("deep", from_="work")
    add(graph, "Eve", branch="deep")
    graph.branches.create("past", at=graph.commits()[2].id)
    add(graph, "Flo", branch="past")
    graph.tags.create("v1", branch="work")
    found = graph.commit_graph()
    ids = [commit.id for commit in found.commits]
    assert sorted(ids) == sorted({commit.id for branch in graph.branches.list() for commit in graph.commits(branch)})
    assert all(ids.index(commit.id) < ids.index(parent) for commit in found.commits for parent in commit.parents)
    assert found.heads == {branch: graph.commits(branch)[0].id for branch in graph.branches.list()}
    assert found.tags == {"v1": graph.commits("work")[0].id}
    assert [graph.commit(one[: found.id_length]).id for one in ids] == ids
    assert found.id_length >= 8
    assert graph.commit_graph(["deep"]).commits == tuple(graph.commits("deep"))
    assert graph.commit_graph(["main", "deep"]).tags == {"v1": graph.commits("work")[0].id}
    assert graph.commit_graph(["main"]).tags == {}
    assert graph.commit_graph(limit=2).commits == found.commits[:2]
    assert graph.commit_graph(limit=0).commits == ()


def test_wrong_arguments_of_the_commit_graph_are_refused(graph: Graph) -> None:
    attempts: list[tuple[Callable[[], object], Kind]] = [
        (lambda: graph.commit_graph(["nope"]), Kind.BRANCH_NOT_FOUND),
        (lambda: graph.commit_graph("main"), Kind.INVALID_ARGUMENT),
        (lambda: graph.commit_graph(limit=-1), Kind.INVALID_ARGUMENT),
    ]
    for attempt, kind in attempts:
        with pytest.raises(OmniGraphError) as caught:
            attempt()
        assert caught.value.kind is kind


def test_every_write_stores_its_message(tmp_path: Path) -> None:
    """G-28: Every write that makes a commit stores the message that it was given."""
    graph = og.init(tmp_path / "g", schema=SCHEMA, message="born")
    graph.load([{"type": "Person", "data": {"name": "Ada"}}], message="loaded")
    graph.apply_schema(SCHEMA.replace("I32?", "I32? @index"), message="changed")
    graph.ensure_indices(message="indexed")
    assert [commit.message for commit in graph.commits()] == ["indexed", "changed", "loaded", "born"]
