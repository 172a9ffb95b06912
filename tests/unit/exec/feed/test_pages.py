"""One commit -> pages of its changes: every change once, in order, whatever the limits; and tokens that fit one page only."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import ChangeCursorRejected, ConflictError, InvalidInput, Kind, NotFound, ResourceLimitExceeded
from omnigraph.exec.feed.pages import MOST_CHANGES, MOST_PAGE_BYTES, CommitPage
from omnigraph.exec.feed.tokens import LONGEST_TOKEN
from omnigraph.exec.history.changes import EntityChange
from omnigraph.graph import Graph
from tests.mutations import run
from tests.samples import sample
from tests.unit.exec.feed.conftest import SCHEMA

FILES = "node File { name: String @key  body: Blob? }"


def pages(graph: Graph, commit: str, **arguments: Any) -> Iterator[CommitPage]:
    page = graph.changes.commit(commit, **arguments)
    yield page
    while page.next_page is not None:
        page = graph.changes.commit(commit, page=page.next_page, **arguments)
        yield page


def changes(graph: Graph, commit: str, **arguments: Any) -> list[EntityChange]:
    return [change for page in pages(graph, commit, **arguments) for change in page.changes]


def people(graph: Graph, *names: str) -> str:
    found = graph.load([{"type": "Person", "data": {"name": name}} for name in names]).commit
    assert found is not None
    return str(found.id)


@settings(max_examples=sample(8, whole=100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=st.integers(1, 12), seed=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), max_size=8))
def test_pages_have_every_change_once_in_order(tmp_path_factory: pytest.TempPathFactory, limit: int, seed: list[str]) -> None:
    """Whatever the limit, the pages of a commit put together are its changes in their order (D-10)."""
    graph = og.init(tmp_path_factory.mktemp("p") / "g", schema=SCHEMA)
    people(graph, "a", "b", "c")
    names = [name for name in dict.fromkeys(seed) if name not in ("a", "b", "c")]
    with graph.transaction() as transaction:
        transaction.mutate('query q() { delete Person where name = "b" }')
        transaction.mutate('query q() { update Person set { age: 1 } where name = "c" }')
        transaction.load([{"type": "Person", "data": {"name": name}} for name in names])
        transaction.load([{"type": "Film", "data": {"slug": f"film-{at}"}} for at in range(4)])
        transaction.load([{"edge": "Knows", "from": "a", "to": "c", "data": {"id": "k"}}])
    commit = graph.commits()[0].id
    whole = list(graph.commit_changes(commit))
    assert changes(graph, commit, limit=limit) == whole
    assert changes(graph, commit, limit_bytes=limit * 50) == whole
    assert [len(page.changes) for page in pages(graph, commit, limit=limit)][:-1] == [limit] * ((len(whole) - 1) // limit)
    only = {"kinds": ["node"], "ops": ["insert", "delete"]}
    assert changes(graph, commit, limit=limit, **only) == list(graph.commit_changes(commit, **only))


def test_a_token_belongs_to_one_commit_one_filter_and_one_graph(graph: Graph, tmp_path: Path) -> None:
    """D-15: A page token is refused for another commit, filter or graph, and if it is damaged or no token at all."""
    first, second = people(graph, "a", "b"), people(graph, "c", "d")
    token = graph.changes.commit(first, limit=1).next_page
    assert token is not None
    other = og.init(tmp_path / "other", schema=SCHEMA)
    foreign = other.changes.commit(people(other, "a", "b"), limit=1).next_page
    cursor = graph.changes.poll().cursor
    body = bytearray(base64.urlsafe_b64decode(token + "=="))
    body[20] ^= 1
    damaged = base64.urlsafe_b64encode(bytes(body)).decode()
    for wrong, reason in (
        ("", "malformed"),
        ("no token", "malformed"),
        ("é", "malformed"),
        (damaged, "malformed"),
        (token[:-4], "malformed"),
        ("A" * 5_000, "malformed"),
        (7, "malformed"),
        (foreign, "graph"),
        (cursor, "kind"),
    ):
        with pytest.raises(ChangeCursorRejected) as caught:
            graph.changes.commit(first, page=wrong)  # type: ignore[arg-type]
        assert (caught.value.kind, caught.value.facts["reason"]) == (Kind.CHANGE_CURSOR_REJECTED, reason), wrong
        assert caught.value.message.startswith("change cursor rejected: ")
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.changes.commit(second, page=token)
    assert caught.value.facts["reason"] == "commit"
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.changes.commit(first, page=token, kinds=["node"])
    assert caught.value.facts["reason"] == "filter"
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.changes.poll(page=token)
    assert caught.value.facts["reason"] == "kind"
    (rest,) = og.open(graph.uri, mode="r").changes.commit(first, page=token).changes
    assert rest.id == "b"


def test_long_ids_have_short_tokens(graph: Graph) -> None:
    """D-16: A token has at most 4,096 characters, also after an id of any length, and the next page goes on exactly there."""
    names = [f"{'long' * 4_000}{at}" for at in range(4)] + [f"{'ä' * 200}{at}" for at in range(3)] + ["x" * 256, "x" * 257]
    commit = people(graph, *names)
    found = list(pages(graph, commit, limit=1))
    assert [page.changes[0].id for page in found] == sorted(names, key=str.encode)
    assert all(len(page.next_page) <= LONGEST_TOKEN for page in found if page.next_page is not None)


def test_limits_of_a_page(graph: Graph) -> None:
    """D-22: A page has at most 1,000 changes unless asked otherwise, and a poll at most 128 commits; there is a limit for both."""
    commit = people(graph, *(f"p{at:04}" for at in range(1_001)))
    assert [len(page.changes) for page in pages(graph, commit)] == [1_000, 1]
    wrong: list[dict[str, Any]] = [{"limit": 0}, {"limit": -1}, {"limit": True}, {"limit": 1.5}, {"limit_bytes": 0}]
    for arguments in wrong:
        with pytest.raises(InvalidInput):
            graph.changes.commit(commit, **arguments)
    too_much: list[dict[str, Any]] = [{"limit": MOST_CHANGES + 1}, {"limit_bytes": MOST_PAGE_BYTES + 1}]
    for arguments in too_much:
        with pytest.raises(ResourceLimitExceeded) as caught:
            graph.changes.commit(commit, **arguments)
        assert caught.value.facts["limit"] in (MOST_CHANGES, MOST_PAGE_BYTES)
    with pytest.raises(ResourceLimitExceeded) as caught:
        graph.changes.poll(max_commits=513)
    assert caught.value.facts == {"resource": "change_feed_commits_per_poll", "limit": 512, "actual": 513}
    with pytest.raises(InvalidInput):
        graph.changes.poll(max_commits=0)


def test_a_change_that_is_larger_than_a_page_is_alone(tmp_path: Path) -> None:
    """D-23: A change that is larger than the budget of a page is on a page of its own."""
    graph = og.init(tmp_path / "f", schema=FILES)
    sizes = {"a": 10, "b": 5_000, "c": 5_000, "d": 10, "e": 10}
    records = [
        {"type": "File", "data": {"name": name, "body": f"base64:{base64.b64encode(b'x' * size).decode()}"}} for name, size in sizes.items()
    ]
    commit = graph.load(records).commit
    assert commit is not None
    assert [[change.id for change in page.changes] for page in pages(graph, commit.id, limit_bytes=1_000)] == [
        ["a"],
        ["b"],
        ["c"],
        ["d", "e"],
    ]


def test_commits_without_changes_to_show(graph: Graph) -> None:
    """The first commit, a schema boundary and an unknown commit are refused as `commit_changes` refuses them (D-13)."""
    with pytest.raises(ConflictError) as caught:
        graph.changes.commit(graph.commits()[-1].id)
    assert caught.value.kind is Kind.PARENTLESS_COMMIT
    people(graph, "a")
    dropped = graph.apply_schema(SCHEMA.replace("note: String?", "")).commit
    assert dropped is not None
    with pytest.raises(ConflictError) as caught:
        graph.changes.commit(dropped.id)
    assert caught.value.kind is Kind.SCHEMA_BOUNDARY
    assert graph.changes.commit(dropped.id, types=["Film"]).changes == ()
    with pytest.raises(NotFound):
        graph.changes.commit("01AAAAAAAAAAAAAAAAAAAAAAAA")
    with pytest.raises(InvalidInput):
        graph.changes.commit(dropped.id, types=["Films"])
    run(graph, 'update Person set { age: 3 } where name = "a"')
    graph.ensure_indices()
    assert graph.changes.commit(graph.commits()[0].id).changes == ()
