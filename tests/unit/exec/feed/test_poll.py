"""A branch and a cursor -> the commits after it: each once, whole, in order, and a typed refusal where there is no answer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ChangeCursorRejected, ChangeFeedGap, ConflictError, InvalidInput, Kind, NotFound
from omnigraph.exec.feed.pages import page_limits
from omnigraph.exec.feed.poll import FeedRequest, Poll
from omnigraph.exec.history.diff import change_filter
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.store.durable import version_file
from tests.feeds import brief, every_page, stitched
from tests.mutations import run, table
from tests.unit.exec.feed.conftest import SCHEMA


def add(graph: Graph, *names: str, branch: str = "main") -> str:
    found = graph.load([{"type": "Person", "data": {"name": name}} for name in names], branch=branch).commit
    assert found is not None
    return str(found.id)


def inserts(*names: str) -> list[tuple[str, str]]:
    return [("insert", name) for name in names]


def reason(graph: Graph, **arguments: Any) -> object:
    """Why a poll refuses its cursor."""
    with pytest.raises(ChangeCursorRejected) as caught:
        graph.changes.poll(**arguments)
    assert caught.value.message.startswith("change cursor rejected: ")
    return caught.value.facts["reason"]


def test_start_positions(graph: Graph) -> None:
    """D-17: A feed begins now, which is the default, at the beginning with the inherited history, or after a commit of the chain."""
    first, second = add(graph, "a"), add(graph, "b")
    graph.branches.create("work")
    third = add(graph, "c", branch="work")
    off = add(graph, "d")
    defaults: list[dict[str, Any]] = [{}, {"start": "now"}]
    for arguments in defaults:
        now = graph.changes.poll(**arguments)
        assert (now.blocks, now.next_page, now.caught_up) == ((), None, True)
        assert now.cursor is not None
    page = graph.changes.poll(start="beginning", branch="work")
    assert brief(page.blocks) == [inserts("a"), inserts("b"), inserts("c")]
    assert [(block.cause.id, block.cause.branch) for block in page.blocks] == [(first, "main"), (second, "main"), (third, "work")]
    assert brief(graph.changes.poll(start=f"after:{first}", branch="work").blocks) == [inserts("b"), inserts("c")]
    assert brief(graph.changes.poll(start=f"after:{third[:-1].lower()}", branch="work").blocks) == []
    assert brief(graph.changes.poll(start=f"after:{second}").blocks) == [inserts("d")]
    for wrong in ("", "then", "after", f"after:{off}"):
        with pytest.raises(InvalidInput):
            graph.changes.poll(start=wrong, branch="work")
    with pytest.raises(NotFound):
        graph.changes.poll(start="after:01AAAAAAAAAAAAAAAAAAAAAAAA")
    cursor = now.cursor
    for together in ({"cursor": cursor, "start": "now"}, {"cursor": cursor, "page": "x"}, {"start": "now", "page": "x"}):
        with pytest.raises(InvalidInput) as caught:
            graph.changes.poll(**together)
        assert caught.value.kind is Kind.INVALID_ARGUMENT


def test_a_cursor_is_at_whole_commits_and_a_poll_ends_at_its_cut(graph: Graph) -> None:
    """D-18: A poll shows the commits up to the head that it saw. A page that ends inside a commit has a page token, and no cursor."""
    start = graph.changes.poll().cursor
    add(graph, "a", "b", "c")
    add(graph, "d")
    first = graph.changes.poll(start, limit=2)
    assert (brief(first.blocks), first.cursor, first.caught_up) == ([inserts("a", "b")], None, False)
    add(graph, "later")
    second = graph.changes.poll(page=first.next_page, limit=2)
    assert brief(second.blocks) == [inserts("c"), inserts("d")], "the rest, up to the cut of the first page"
    assert (second.next_page, second.caught_up) == (None, True)
    assert first.blocks[0].cause == second.blocks[0].cause
    third = graph.changes.poll(second.cursor)
    assert (brief(third.blocks), third.caught_up) == ([inserts("later")], True)
    # a page that is full at the end of a commit ends there
    exact = graph.changes.poll(start, limit=3)
    assert (brief(exact.blocks), exact.next_page, exact.caught_up) == ([inserts("a", "b", "c")], None, False)
    assert brief(graph.changes.poll(exact.cursor).blocks) == [inserts("d"), inserts("later")]
    one = graph.changes.poll(start, max_commits=1)
    assert (len(one.blocks), one.caught_up) == (1, False)
    # a commit that does not fit on the rest of a page, not even in part, begins the next one
    tight = graph.changes.poll(exact.cursor, limit_bytes=1)
    assert (brief(tight.blocks), tight.next_page is None) == ([inserts("d")], True)


def test_however_it_is_cut_a_feed_is_the_same(graph: Graph) -> None:
    start = graph.changes.poll().cursor
    add(graph, *(f"p{at}" for at in range(7)))
    run(graph, 'delete Person where name = "p3"')
    graph.ensure_indices()
    run(graph, 'insert Knows { from: "p1", to: "p2" }')
    whole = graph.changes.poll(start).blocks
    assert [len(block.changes) for block in whole] == [7, 1, 0, 1]
    for limit in (1, 2, 3, 7):
        for commits in (1, 2, 128):
            assert tuple(stitched(every_page(graph, cursor=start, limit=limit, max_commits=commits))) == whole
    assert tuple(stitched(every_page(graph, cursor=start, limit_bytes=300))) == whole
    assert tuple(stitched(graph.changes.follow(start, limit=2, wait=0))) == whole


def test_a_merge_is_one_block(graph: Graph) -> None:
    """D-19: A merge commit is its difference from its first parent, and the cause names the merged one.

    D-08: What the target changed itself is not reported again.
    """
    add(graph, "a")
    graph.branches.create("work")
    start = graph.changes.poll().cursor
    add(graph, "ours")
    theirs = add(graph, "theirs", branch="work")
    add(graph, "both", branch="work")
    graph.merge("work", delete_source=True)
    page = graph.changes.poll(start)
    assert brief(page.blocks) == [inserts("ours"), inserts("both", "theirs")]
    merged = page.blocks[1].cause
    assert merged.parents[0] == page.blocks[0].cause.id
    assert merged.parents[1] == graph.commit(merged.parents[1]).id
    assert theirs not in [block.cause.id for block in page.blocks]
    # a branch that main was merged into: main's commits arrive as one block
    graph.branches.create("late")
    begun = graph.changes.poll(branch="late").cursor
    add(graph, "x")
    add(graph, "y")
    add(graph, "z", branch="late")
    graph.merge("main", "late")
    assert brief(graph.changes.poll(begun, branch="late").blocks) == [inserts("z"), inserts("x", "y")]


def test_a_cursor_belongs_to_one_branch_one_filter_and_one_graph(graph: Graph, tmp_path: Path) -> None:
    """D-20: A cursor is refused for another branch, filter or graph, and for a branch that was deleted and created again."""
    add(graph, "a", "b")
    graph.branches.create("work")
    main, work = graph.changes.poll().cursor, graph.changes.poll(branch="work").cursor
    page = graph.changes.poll(start="beginning", limit=1).next_page
    filtered = graph.changes.poll(types=["Person"], ops=["insert"]).cursor
    assert reason(graph, cursor=work) == "branch"
    assert reason(graph, cursor=main, branch="work") == "branch"
    assert reason(graph, cursor=main, types=["Person"]) == "filter"
    assert reason(graph, cursor=filtered) == "filter"
    assert graph.changes.poll(filtered, types=["Person"], ops=["insert"]).caught_up
    assert reason(graph, cursor=page) == "kind"
    assert reason(graph, page=main) == "kind"
    assert reason(graph, cursor="rubbish") == "malformed"
    assert reason(og.init(tmp_path / "other", schema=SCHEMA), cursor=main) == "graph"
    assert reason(graph.copy_to(tmp_path / "copy"), cursor=main) == "graph"
    graph.branches.delete("work")
    with pytest.raises(NotFound) as caught:
        graph.changes.poll(work, branch="work")
    assert caught.value.kind is Kind.BRANCH_NOT_FOUND
    graph.branches.create("work")
    for handle in (graph, og.open(graph.uri, mode="r")):
        assert reason(handle, cursor=work, branch="work") == "incarnation"
    with pytest.raises(InvalidInput):
        graph.changes.poll(branch="~private")


def test_a_graph_that_went_back_refuses_cursors_of_its_future(graph: Graph, tmp_path: Path) -> None:
    """A graph that was restored from an older copy of its files, and then went another way, has another history."""
    add(graph, "a")
    shutil.copytree(graph.uri, tmp_path / "backup")
    add(graph, "b")
    future = graph.changes.poll().cursor
    page = graph.changes.poll(start="beginning", limit=1, max_commits=9)
    assert page.cursor is not None
    restored = og.open(tmp_path / "backup")
    assert reason(restored, cursor=future) == "history"
    assert restored.changes.poll(page.cursor).caught_up
    add(restored, "c")
    add(restored, "d")
    assert reason(restored, cursor=future) == "history"


def test_any_handle_can_go_on(graph: Graph) -> None:
    """D-21: The caller has the cursor, and any handle of any process can go on from it, any number of times.

    D-26: A handle that polled before sees the commits of other handles.
    """
    reader = og.open(graph.uri, mode="r")
    cursor = reader.changes.poll().cursor
    for name in ("a", "b"):
        add(graph, name)
        for handle in (reader, graph, og.open(graph.uri, mode="r"), reader):
            page = handle.changes.poll(cursor)
            assert brief(page.blocks) == [inserts(name)]
        cursor = page.cursor
    assert reader.changes.poll(cursor).blocks == ()


def test_a_filtered_feed_has_a_block_for_every_commit(graph: Graph) -> None:
    """Filters apply to changes, not to commits (D-03)."""
    start: dict[str, Any] = {"types": ["Person"], "ops": ["delete"]}
    cursor = graph.changes.poll(**start).cursor
    add(graph, "a")
    run(graph, 'delete Person where name = "a"')
    graph.load([{"type": "Film", "data": {"slug": "alien"}}])
    assert brief(graph.changes.poll(cursor, **start).blocks) == [[], [("delete", "a")], []]
    with pytest.raises(InvalidInput):
        graph.changes.poll(types=["Persons"])


RENAMED = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {').replace("Person -> Person", "Human -> Human")


def test_schema_changes_in_a_feed(graph: Graph) -> None:
    """A schema change that drops nothing is a block with the new schema. One that drops values is refused, as is one that moves a
    type into or out of the filter (D-13)."""
    start, named = graph.changes.poll().cursor, graph.changes.poll(types=["Person"]).cursor
    add(graph, "a")
    graph.apply_schema(RENAMED)
    run(graph, 'update Human set { age: 1 } where name = "a"')
    page = graph.changes.poll(start)
    assert [(brief([block])[0], block.schema is not None) for block in page.blocks] == [
        (inserts("a"), False),
        ([], True),
        ([("update", "a")], False),
    ]
    assert page.blocks[1].schema == RENAMED
    before = graph.changes.poll(named, types=["Person"])
    assert (brief(before.blocks), before.caught_up) == ([inserts("a")], False), "up to the commit that cannot be shown"
    for _ in range(2):
        with pytest.raises(ConflictError) as caught:
            graph.changes.poll(before.cursor, types=["Person"])
        assert caught.value.kind is Kind.SCHEMA_BOUNDARY
    boundary = graph.apply_schema(RENAMED.replace("note: String?", "")).commit
    assert boundary is not None
    with pytest.raises(ConflictError) as caught:
        graph.changes.poll(page.cursor)
    assert (caught.value.kind, caught.value.facts["commit"]) == (Kind.SCHEMA_BOUNDARY, boundary.id)
    assert brief(graph.changes.poll(start="beginning", types=["Film"]).blocks) == [[], [], [], []]


def test_the_first_commit_of_a_copy_is_refused(graph: Graph, tmp_path: Path) -> None:
    """A feed from the beginning would lack the rows that a copy was made with (D-13)."""
    add(graph, "a")
    copy = graph.copy_to(tmp_path / "copy")
    with pytest.raises(ConflictError) as caught:
        copy.changes.poll(start="beginning")
    assert caught.value.kind is Kind.PARENTLESS_COMMIT
    cursor = copy.changes.poll().cursor
    add(copy, "b")
    assert brief(copy.changes.poll(cursor).blocks) == [inserts("b")]


def test_a_gap_is_reported_with_the_first_commit_that_cannot_be_read(graph: Graph) -> None:
    """D-24: If the history after a cursor was removed, the error says which commit is the first unreadable one, and has the cursor."""
    start = graph.changes.poll().cursor
    add(graph, "a")
    gone = add(graph, "b")
    unreadable = add(graph, "c")
    last = add(graph, "d")
    version = graph.commit(gone).manifest_version
    shown = graph.engine.manifest.snapshot(at=version).state.table("node:Person")
    assert shown is not None
    table(graph, "node:Person").dataset.cleanup_old_versions(versions=[shown.version], error_if_tagged_old_versions=False)
    reader = og.open(graph.uri, mode="r")
    page = reader.changes.poll(start)
    assert (brief(page.blocks), page.caught_up) == ([inserts("a")], False), "up to the first unreadable commit"
    with pytest.raises(ChangeFeedGap) as caught:
        reader.changes.poll(page.cursor)
    assert (caught.value.kind, caught.value.facts) == (Kind.CHANGE_FEED_GAP, {"commit": gone, "cursor": page.cursor})
    assert reader.changes.poll(start=f"after:{last}").caught_up
    with pytest.raises(ChangeFeedGap) as caught:  # its parent is gone
        reader.changes.poll(start=f"after:{gone}")
    assert caught.value.facts["commit"] == unreadable
    assert brief(reader.changes.poll(start=f"after:{unreadable}").blocks) == [inserts("d")]
    with pytest.raises(ChangeFeedGap) as caught:
        reader.changes.commit(gone)
    assert caught.value.facts == {"commit": gone, "cursor": None}
    assert reader.changes.commit(gone, types=["Film"]).changes == (), "a table that is not asked for is not missed"


def test_a_removed_version_of_the_manifest_is_a_gap(graph: Graph) -> None:
    first, second = add(graph, "a"), add(graph, "b")
    cursor = graph.changes.poll(start=f"after:{first}", max_commits=1).cursor
    third = add(graph, "c")
    version = graph.commit(second).manifest_version
    Path(graph.uri, "__manifest", version_file(version)).unlink()
    with pytest.raises(ChangeFeedGap) as caught:
        og.open(graph.uri, mode="r").changes.poll(cursor)
    assert caught.value.facts["commit"] == third


def test_a_branch_that_is_replaced_during_a_poll_is_refused(graph: Graph) -> None:
    """D-27: If the branch is deleted after the poll saw its head, the poll refuses, whether or not there is a new one of its name."""
    graph.branches.create("work")
    for again in (False, True):
        cursor = graph.changes.poll(branch="work").cursor
        add(graph, "a", branch="work")
        page = _begun(graph, cursor)
        graph.branches.delete("work")
        if again:
            graph.branches.create("work")
            add(graph, "b", branch="work")
            with pytest.raises(ChangeCursorRejected) as rejected:
                next(page)
            assert rejected.value.facts["reason"] == "incarnation"
        else:
            with pytest.raises(NotFound) as caught:
                next(page)
            assert caught.value.kind is Kind.BRANCH_NOT_FOUND
            graph.branches.create("work")


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "replaced"])
def test_a_page_whose_rows_were_read_before_the_branch_was_replaced_is_refused(graph: Graph, again: bool) -> None:
    """D-27: no read fails, because nothing more is read: the page that is ready is checked against the branch before it is given out."""
    graph.branches.create("work")
    cursor = graph.changes.poll(branch="work").cursor
    add(graph, "a", "b", branch="work")
    pages = _begun(graph, cursor, limit=1)
    assert brief(next(pages).blocks) == [inserts("a")]
    graph.branches.delete("work")
    if again:
        graph.branches.create("work")
        add(graph, "a", "b", branch="work")
    with pytest.raises(ChangeCursorRejected if again else NotFound) as caught:
        next(pages)
    assert caught.value.kind is (Kind.CHANGE_CURSOR_REJECTED if again else Kind.BRANCH_NOT_FOUND)


def _begun(graph: Graph, cursor: str | None, limit: int = 1_000) -> Any:
    """The pages of a poll that has seen the head and read nothing yet."""
    engine = og.open(graph.uri, mode="r").engine
    wanted, limits = change_filter(None, None, None), page_limits(changes=limit)
    return Poll(engine, FeedRequest(branch=BranchName("work"), wanted=wanted, limits=limits, cursor=cursor)).pages()


def test_transactions_are_commits_like_others(graph: Graph) -> None:
    """The private branch of a transaction is never in a feed: its changes come with the commit of the transaction."""
    cursor = graph.changes.poll().cursor
    with graph.transaction() as transaction:
        transaction.mutate('query q() { insert Person { name: "a" } }')
        assert graph.changes.poll(cursor).blocks == ()
        transaction.mutate('query q() { insert Person { name: "b" } }')
    page = graph.changes.poll(cursor)
    assert brief(page.blocks) == [inserts("a", "b")]
    assert page.blocks[0].cause.branch == "main"
    assert len(page.blocks[0].cause.parents) == 1


def test_a_feed_of_a_branch_of_a_branch(graph: Graph) -> None:
    """The inherited history comes from every parent up to the version that the child was created from."""
    add(graph, "a")
    graph.branches.create("one")
    add(graph, "b", branch="one")
    add(graph, "main-only")
    past = graph.snapshot("one").commit_id
    add(graph, "one-only", branch="one")
    graph.branches.create("two", at=past)
    add(graph, "c", branch="two")
    for limit in (1, 1_000):
        blocks = stitched(every_page(graph, start="beginning", branch="two", max_commits=1, limit=limit))
        assert brief(blocks) == [inserts("a"), inserts("b"), inserts("c")]
    assert [block.cause.branch for block in blocks] == ["main", "one", "two"]


def test_rows_after_an_overwrite(graph: Graph) -> None:
    """An overwrite with the same rows is an empty block; only rows that differ are changes (D-06)."""
    add(graph, "a", "b")
    cursor = graph.changes.poll().cursor
    graph.load(list(graph.export()), mode="overwrite")
    run(graph, 'update Person set { age: 1 } where name = "b"')
    assert brief(graph.changes.poll(cursor, limit=1).blocks) == [[], [("update", "b")]]


def test_cleanup_leaves_a_gap_and_the_feed_after_it(graph: Graph) -> None:
    """What `cleanup` removed is a gap; commits that it kept are shown, and a reader that is caught up notices nothing (D-24)."""
    start = graph.changes.poll().cursor
    first = add(graph, "a")
    for name in "bcd":
        add(graph, name)
    graph.branches.create("work")
    kept, inherited = graph.changes.poll().cursor, graph.changes.poll(branch="work").cursor
    for name in "ef":
        add(graph, name)
    graph.cleanup(keep=3)
    add(graph, "work", branch="work")
    for handle in (graph, og.open(graph.uri, mode="r")):
        with pytest.raises(ChangeFeedGap) as caught:
            handle.changes.poll(start)
        assert caught.value.facts == {"commit": first, "cursor": start}
        with pytest.raises(ChangeFeedGap) as caught:
            handle.changes.poll(start="beginning")
        assert caught.value.facts == {"commit": graph.commits()[-1].id, "cursor": None}
        assert brief(handle.changes.poll(kept).blocks) == [inserts("e"), inserts("f")]
        assert brief(handle.changes.poll(inherited, branch="work").blocks) == [inserts("work")]
