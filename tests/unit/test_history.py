"""Commits by the beginning of their ids, branches of the past, tags, and the graph of commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound, OmniGraphError, PreconditionFailed
from omnigraph.graph import Graph
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
