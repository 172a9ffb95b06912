"""Cleanup: what the policy keeps, what is needed whatever the policy, what is refused, and what is said about commits that are gone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, RecoveryRequired, StorageError, Unsupported
from omnigraph.exec.upkeep.cleanup import Cleanup, CleanupProgress
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.manifest import intents
from omnigraph.manifest.model import Commit, TableRow
from omnigraph.store.reclaim import existing_versions

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Firm { name: String @key }\nedge Knows: Person -> Person"
NAMES = "match { $p: Person } return { $p.name as name } order { name }"
NO_TIME = timedelta(0)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return og.init(tmp_path / "g", schema=SCHEMA)


def add(graph: Graph, name: str, branch: str = "main") -> Commit:
    made = graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch).commit
    assert made is not None
    return made


def add_all(graph: Graph, *names: str, branch: str = "main") -> list[Commit]:
    return [add(graph, name, branch) for name in names]


def names(graph: Graph, branch: str = "main", at: str | int | datetime | None = None) -> list[str]:
    return [row["name"] for row in graph.query(NAMES, branch=branch, at=at).rows]


def row(graph: Graph, alias: str = "node:Person", branch: str = "main") -> TableRow:
    found = graph.engine.snapshot(branch).state.table(alias)
    assert found is not None
    return found


def versions(graph: Graph, alias: str = "node:Person", branch: str = "main") -> list[int]:
    found = row(graph, alias, branch)
    return existing_versions(graph.engine.root, found.path, branch=found.native)


def removed(done: Cleanup, table: str = "node:Person") -> int:
    return next(each.versions for each in done.tables if each.table == table)


def sound(graph: Graph) -> None:
    assert graph.verify(deep=True) == []
    assert og.open(graph.uri).verify() == []


def readable(graph: Graph, commits: list[Commit]) -> list[bool]:
    return [_is_readable(graph, commit) for commit in commits]


def _is_readable(graph: Graph, commit: Commit) -> bool:
    try:
        names(graph, at=commit.id)
    except NotFound as error:
        if error.kind is not Kind.VERSION_RECLAIMED:
            raise
        return False
    return True


class TestPolicy:
    def test_without_a_policy_it_is_refused(self, graph: Graph) -> None:
        """O-12: Cleanup needs a policy; `keep` is exact; more than there is, or an age of zero, removes nothing that is the newest."""
        with pytest.raises(InvalidInput, match=r"`keep`.*`older_than`"):
            graph.cleanup()

    @pytest.mark.parametrize("keep", [0, -1, True, 1.5, "2"])
    def test_a_number_that_is_none_is_refused(self, graph: Graph, keep: int) -> None:
        with pytest.raises(InvalidInput, match="keep"):
            graph.cleanup(keep=keep)

    @pytest.mark.parametrize("older_than", [timedelta(seconds=-1), 7])
    def test_an_age_that_is_none_is_refused(self, graph: Graph, older_than: timedelta) -> None:
        with pytest.raises(InvalidInput, match="older_than"):
            graph.cleanup(older_than=older_than)

    @pytest.mark.parametrize("keep", [1, 2, 4])
    def test_keep_is_exact(self, graph: Graph, keep: int) -> None:
        """`keep` leaves exactly that many versions of a table that every commit changes, and that many readable commits (O-12)."""
        made = add_all(graph, "a", "b", "c", "d", "e")
        done = graph.cleanup(keep=keep)
        assert versions(graph) == list(range(7 - keep, 7))
        assert removed(done) == 6 - keep
        assert readable(graph, made) == [False] * (5 - keep) + [True] * keep
        sound(graph)

    def test_a_table_keeps_what_the_kept_commits_show(self, graph: Graph) -> None:
        """A table that none of the kept commits changed keeps the one version that they show."""
        graph.load([{"type": "Firm", "data": {"name": "f"}}])
        graph.load([{"type": "Firm", "data": {"name": "g"}}])
        add_all(graph, "a", "b", "c")
        graph.cleanup(keep=3)
        assert versions(graph, "node:Firm") == [3]
        assert versions(graph) == [2, 3, 4]

    @pytest.mark.parametrize("keep", [4, 100])
    def test_keep_beyond_the_history_removes_nothing(self, graph: Graph, keep: int) -> None:
        """`keep` of at least the number of commits removes nothing."""
        made = add_all(graph, "a", "b", "c")
        done = graph.cleanup(keep=keep)
        assert (done.versions, done.size_bytes) == (0, 0)
        assert readable(graph, made) == [True, True, True]

    def test_an_age_of_zero_keeps_the_newest(self, graph: Graph) -> None:
        """`older_than` of zero keeps the newest commit."""
        made = add_all(graph, "a", "b", "c")
        graph.cleanup(older_than=NO_TIME)
        assert readable(graph, made) == [False, False, True]
        assert versions(graph) == [4]
        sound(graph)

    def test_what_was_the_newest_within_the_age_is_kept(self, graph: Graph) -> None:
        """Every moment of the last hour can be read: the commit that was the newest an hour ago, too."""
        made = add_all(graph, "a", "b")
        assert graph.cleanup(older_than=timedelta(hours=1)).versions == 0
        between = datetime.now(UTC)
        made.append(add(graph, "c"))
        graph.cleanup(older_than=datetime.now(UTC) - between)
        assert readable(graph, made) == [False, True, True]
        assert names(graph, at=between) == ["a", "b"]

    def test_of_two_policies_each_keeps(self, graph: Graph) -> None:
        made = add_all(graph, "a", "b", "c")
        graph.cleanup(keep=2, older_than=NO_TIME)
        assert readable(graph, made) == [False, True, True]
        graph.cleanup(keep=1, older_than=timedelta(days=1))
        assert readable(graph, made) == [False, True, True]

    def test_it_counts_on_each_branch(self, graph: Graph) -> None:
        add(graph, "a")
        graph.branches.create("work")
        on_main, on_work = add_all(graph, "b", "c"), add_all(graph, "x", "y", "z", branch="work")
        graph.cleanup(keep=2)
        assert readable(graph, on_main) == [True, True]
        assert readable(graph, on_work) == [False, True, True]
        assert names(graph, "work") == ["a", "x", "y", "z"]
        sound(graph)


class TestPreview:
    def test_it_says_what_will_be_removed_and_removes_nothing(self, graph: Graph) -> None:
        made = add_all(graph, "a", "b", "c")
        before = {path: path.read_bytes() for path in Path(graph.uri).rglob("*") if path.is_file()}
        told = og.open(graph.uri, mode="r").cleanup(keep=1, dry_run=True)
        assert {path: path.read_bytes() for path in Path(graph.uri).rglob("*") if path.is_file()} == before
        assert readable(graph, made) == [True, True, True]
        done = graph.cleanup(keep=1)
        assert (told.dry_run, done.dry_run) == (True, False)
        assert told.tables == done.tables
        assert removed(done) == 3
        assert done.size_bytes > 0

    def test_the_disk_gets_what_was_promised(self, graph: Graph) -> None:
        add_all(graph, "a", "b", "c", "d")

        def size() -> int:
            return sum(path.stat().st_size for path in Path(graph.uri).rglob("*") if path.is_file() and "__manifest" not in str(path))

        before = size()
        done = graph.cleanup(keep=1)
        assert before - size() == sum(each.size_bytes for each in done.tables if each.table != "__manifest")

    def test_a_read_only_graph_is_not_cleaned(self, graph: Graph) -> None:
        with pytest.raises(Unsupported):
            og.open(graph.uri, mode="r").cleanup(keep=1)

    def test_progress_names_the_tables(self, graph: Graph) -> None:
        told: list[CleanupProgress] = []
        graph.cleanup(keep=1, on_progress=told.append)
        assert [(each.at, each.of) for each in told] == [(1, 3), (2, 3), (3, 3)]
        assert {each.table for each in told} == {"edge:Knows", "node:Firm", "node:Person"}

    def test_a_second_cleanup_finds_nothing(self, graph: Graph) -> None:
        """Cleanup is idempotent (B-28)."""
        add_all(graph, "a", "b", "c")
        graph.cleanup(keep=1)
        version = graph.snapshot().manifest_version
        again = graph.cleanup(keep=1)
        assert (again.versions, again.size_bytes, again.forks) == (0, 0, ())
        assert graph.snapshot().manifest_version == version


class TestNeeds:
    def test_a_lazy_branch_keeps_the_version_that_it_inherits(self, graph: Graph) -> None:
        """O-13: Cleanup never removes the version of main that a branch without writes inherits; of several the oldest stays, too."""
        made = add_all(graph, "a", "b", "c", "d")
        graph.branches.create("old", at=made[0].id)
        graph.branches.create("newer", at=made[1].id)
        for policy in ({"keep": 1}, {"older_than": NO_TIME}):
            graph.cleanup(**policy)
            assert versions(graph) == [2, 3, 5]
            assert (names(graph, "old"), names(graph, "newer"), names(graph)) == (["a"], ["a", "b"], ["a", "b", "c", "d"])
        add(graph, "x", "old")
        assert names(graph, "old") == ["a", "x"]
        sound(graph)

    def test_a_branch_that_wrote_keeps_what_it_was_made_from(self, graph: Graph) -> None:
        """A merge compares with it."""
        made = add_all(graph, "a", "b")
        graph.branches.create("work", at=made[0].id)
        add(graph, "w", "work")
        graph.mutate('query q() { delete Person where name = "a" }', branch="work")
        add_all(graph, "c", "d")
        graph.cleanup(keep=1)
        assert graph.merge("work").deleted == 1
        assert names(graph) == ["b", "c", "d", "w"]
        sound(graph)

    def test_two_branches_keep_the_base_of_their_next_merge(self, graph: Graph) -> None:
        """After a merge the base is the merged commit of the source, which neither branch shows any more."""
        add_all(graph, "a")
        graph.branches.create("work")
        graph.branches.create("side")
        add_all(graph, "w1", branch="work")
        graph.merge("work")
        graph.merge("work", into="side")
        add_all(graph, "w2", "w3", branch="work")
        graph.mutate('query q() { delete Person where name = "w1" }', branch="work")
        add_all(graph, "m1", "m2")
        graph.cleanup(keep=1)
        assert (graph.merge("work").inserted, names(graph)) == (2, ["a", "m1", "m2", "w2", "w3"])
        assert (graph.merge("main", into="side").inserted, names(graph, "side")) == (4, ["a", "m1", "m2", "w2", "w3"])
        sound(graph)

    def test_a_tag_keeps_its_commit(self, graph: Graph) -> None:
        made = add_all(graph, "a", "b", "c")
        graph.tags.create("v1", at=made[0].id)
        graph.cleanup(keep=1)
        assert readable(graph, made) == [True, False, True]
        assert names(graph, at="v1") == ["a"]
        graph.branches.create("from-tag", at="v1")
        graph.tags.delete("v1")
        sound(graph)
        graph.branches.delete("from-tag")
        graph.cleanup(keep=1)
        assert readable(graph, made) == [False, False, True]
        assert versions(graph) == [4]

    def test_kept_commits_of_a_merge_show_the_tables_of_both_branches(self, graph: Graph) -> None:
        """A merge can replace a table by one of another branch. The commits before it show the native branch that it had."""
        add(graph, "a")
        graph.branches.create("work")
        graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"), branch="work")
        on_work = add_all(graph, "w1", "w2", branch="work")
        on_main = add_all(graph, "b", "c")
        merged = graph.merge("work").commit
        assert merged is not None
        after = add(graph, "d")
        everything = [*on_work, *on_main, merged, after]
        told = {commit.id: names(graph, at=commit.id) for commit in everything}
        graph.cleanup(keep=4)
        for commit in (*on_work, *on_main[:2], merged, after):
            assert names(graph, at=commit.id) == told[commit.id]
        graph.cleanup(keep=2)
        assert readable(graph, everything) == [True, True, False, False, True, True]
        assert names(graph, at=merged.id) == told[merged.id]
        sound(graph)

    def test_a_dropped_type_goes_when_no_kept_commit_shows_it(self, graph: Graph) -> None:
        """A dropped type can be read at older commits until cleanup, which also removes its directory (S-05)."""
        before = add(graph, "a")
        path = Path(graph.uri, row(graph, "node:Firm").path)
        graph.apply_schema("node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person")
        graph.cleanup(keep=2)
        assert path.exists()
        assert graph.query("match { $f: Firm } return { count($f) as n }", at=before.id).rows == [{"n": 0}]
        graph.cleanup(keep=1)
        assert not path.exists()
        sound(graph)
        graph.apply_schema(SCHEMA)
        assert graph.apply_schema(SCHEMA, allow_data_loss=True).applied is False
        sound(graph)

    def test_a_dropped_type_with_its_past_goes_too(self, graph: Graph) -> None:
        graph.load([{"type": "Firm", "data": {"name": "f"}}])
        small = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
        graph.apply_schema(small, allow_data_loss=True)
        graph.cleanup(keep=1)
        assert graph.apply_schema(small, allow_data_loss=True).applied is False
        sound(graph)

    def test_the_graph_goes_on(self, graph: Graph) -> None:
        """O-16: After cleanup the rows are whole, tables are writable, indexes are built."""
        add_all(graph, "a", "b", "c")
        graph.cleanup(keep=1)
        graph.ensure_indices()
        add_all(graph, "d")
        graph.mutate('query q() { update Person set { age: 3 } where name = "a" }')
        graph.cleanup(keep=1)
        assert names(graph) == names(og.open(graph.uri)) == ["a", "b", "c", "d"]
        assert graph.query('match { $p: Person { name: "a" } } return { $p.age as age }').rows == [{"age": 3}]
        sound(graph)


class TestRefusals:
    def test_a_pending_write_refuses_it(self, graph: Graph) -> None:
        """O-14: With an interrupted write, a table that another program changed, or a branch that cannot be read, nothing is removed.
        RT-62: So it is if the write was interrupted just before cleanup took its lock.
        """
        made = add_all(graph, "a", "b", "c")
        with pytest.raises(SimulatedCrash), armed(Fault.WRITE_ARMED):
            add(graph, "d")
        assert intents.pending(graph.engine.root.objects)
        for dry_run in (True, False):
            with pytest.raises(RecoveryRequired, match="refresh"):
                graph.cleanup(keep=1, dry_run=dry_run)
        assert readable(graph, made) == [True, True, True]
        graph.refresh()
        graph.cleanup(keep=1)
        assert readable(graph, made)[:2] == [False, False]

    def test_a_table_that_another_program_changed_refuses_it(self, graph: Graph) -> None:
        """With a table whose newest version no branch shows nothing is removed, not from other tables either."""
        made = add_all(graph, "a", "b", "c")
        lance.dataset(str(Path(graph.uri, row(graph, "node:Firm").path))).delete("false")
        with pytest.raises(StorageError) as refused:
            graph.cleanup(keep=1)
        assert refused.value.kind is Kind.DRIFT
        assert readable(graph, made) == [True, True, True]

    def test_a_branch_that_cannot_be_read_refuses_it(self, graph: Graph) -> None:
        """With a branch that cannot be read nothing is removed: it may need anything."""
        made = add_all(graph, "a", "b", "c")
        graph.branches.create("work", at=made[0].id)
        (Path(graph.uri) / "__branches" / "work.json").write_text("x" * 200)
        with pytest.raises(OmniGraphError):
            og.open(graph.uri, mode="rw").cleanup(keep=1)
        assert versions(graph) == [1, 2, 3, 4]
        assert readable(graph, made) == [True, True, True]

    def test_a_table_that_fails_does_not_stop_the_others(self, graph: Graph) -> None:
        """F-11: If a table cannot be cleaned, the others are, its row has the error, and the next cleanup finishes."""
        for at in range(3):
            graph.load([{"type": "Firm", "data": {"name": f"f{at}"}}, {"type": "Person", "data": {"name": f"p{at}"}}])
        failure = StorageError(Kind.STORAGE, "no disk today")
        with armed(Fault.CLEANUP_BEFORE_TABLE, after=2, failure=failure):
            done = graph.cleanup(keep=1)
        failed = [each.table for each in done.tables if each.error == "no disk today"]
        assert len(failed) == 1
        assert failed[0] in ("node:Firm", "node:Person", "edge:Knows")
        sound(graph)
        assert {each.error for each in graph.cleanup(keep=1).tables} == {None}
        assert (versions(graph), versions(graph, "node:Firm")) == ([4], [4])


class TestGone:
    """What needs a commit that cleanup removed is refused by type and with what to do."""

    @pytest.fixture
    def gone(self, graph: Graph) -> tuple[Graph, Commit]:
        made = add_all(graph, "a", "b", "c")
        graph.branches.create("work")
        add(graph, "w", "work")
        graph.cleanup(keep=1)
        return graph, made[0]

    @pytest.mark.parametrize(
        "ask",
        [
            lambda graph, commit: names(graph, at=commit.id),
            lambda graph, commit: names(graph, at=commit.manifest_version),
            lambda graph, commit: names(graph, at=commit.created_at),
            lambda graph, commit: graph.snapshot(at=commit.id),
            lambda graph, commit: list(graph.diff(commit.id, "main")),
            lambda graph, commit: list(graph.commit_changes(commit.id)),
            lambda graph, commit: list(graph.log("Person", "a")),
            lambda graph, commit: list(graph.export(at=commit.id)),
            lambda graph, commit: graph.branches.create("past", at=commit.id),
            lambda graph, commit: graph.tags.create("past", at=commit.id),
            lambda graph, commit: graph.revert(commit.id),
        ],
    )
    def test_it_is_refused(self, gone: tuple[Graph, Commit], ask: Callable[[Graph, Commit], object]) -> None:
        graph, commit = gone
        for handle in (graph, og.open(graph.uri)):
            with pytest.raises(NotFound, match="newer commit") as refused:
                ask(handle, commit)
            assert refused.value.kind is Kind.VERSION_RECLAIMED

    def test_the_history_still_lists_it(self, gone: tuple[Graph, Commit]) -> None:
        graph, commit = gone
        assert len(graph.commits()) == 4
        assert graph.commit(commit.id) == commit
        assert commit.id in {each.id for each in graph.commit_graph().commits}
        assert next(iter(graph.diff("main", "work"))).id == "w"
