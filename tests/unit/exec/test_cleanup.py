"""Cleanup: what the policy keeps, what is needed whatever the policy, what is refused, and what is said about commits that are gone."""

from __future__ import annotations

import os
import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, RecoveryRequired, StorageError, Unsupported
from omnigraph.exec.history.squash import Fork
from omnigraph.exec.upkeep.cleanup import Cleanup, CleanupProgress
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest import intents
from omnigraph.manifest.model import Commit, TableRow
from omnigraph.manifest.registry import all_branches
from omnigraph.store.reclaim import existing_versions
from omnigraph.store.refs import forked_from, native_refs

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


def _sizes(home: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in home.rglob("*") if path.is_file()}


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

    def test_an_age_before_all_time_keeps_everything(self, graph: Graph) -> None:
        made = add_all(graph, "a", "b", "c")
        assert removed(graph.cleanup(older_than=timedelta.max)) == 0
        assert readable(graph, made) == [True] * 3

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

    @pytest.mark.parametrize("removal", ["cleanup", "hard drop"])
    def test_a_branch_keeps_what_it_was_made_from_when_that_is_no_merge_base_any_more(self, graph: Graph, removal: str) -> None:
        """A merge moves the base of the next one, and no native branch was made from a table that the first commit of the branch dropped.

        That commit is still kept, and compared with what the branch was made from.
        """
        made = graph.load([{"type": "Firm", "data": {"name": "f"}}]).commit
        assert made is not None
        graph.branches.create("work")
        small = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
        for branch in ("work", "main"):
            graph.apply_schema(small, branch=branch, allow_data_loss=removal == "hard drop")
        add(graph, "a")
        graph.merge("main", into="work")
        if removal == "cleanup":
            add_all(graph, "b", "c")
            graph.cleanup(keep=2)
        else:
            graph.apply_schema(small.replace("  age: I32?", ""), allow_data_loss=True)
        fresh = og.open(graph.uri)
        assert fresh.query("match { $f: Firm } return { $f.name as name }", branch="work", at=made.id).rows == [{"name": "f"}]
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

    def test_what_is_being_read_stays(self, graph: Graph) -> None:
        """O-17: Cleanup keeps what a running export, or any other read, shows, now or in the past, until it has ended."""
        made = add_all(graph, "a", "b", "c")
        reader = og.open(graph.uri, mode="r")
        past, now = reader.export(at=made[0].id), reader.export()
        first = [next(past), next(now)]
        changes = graph.diff(made[1].id, "main")
        inserted = next(changes)
        add_all(graph, "d")
        told = og.open(graph.uri, mode="r").cleanup(keep=1, dry_run=True)
        assert graph.cleanup(keep=1).tables == told.tables
        assert readable(graph, made) == [True, True, True]
        assert len([*first[:1], *past]) == 1
        assert len([*first[1:], *now]) == 3
        assert [inserted.id, *(change.id for change in changes)] == ["c"]
        graph.cleanup(keep=1)
        assert readable(graph, made) == [False, False, False]
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
        """O-14: With an interrupted write, a table that another program changed, or a branch that cannot be read, nothing is removed."""
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


class TestLeftovers:
    """What nothing shows: forks, tables, private branches, and files that are a week old."""

    def test_the_forks_of_a_branch_that_was_not_deleted_completely(self, graph: Graph) -> None:
        """O-15: Whatever its policy, cleanup removes forks that nothing shows, such as those of an incomplete deletion (RT-60).
        B-25: A native branch is unused if no live branch shows it; those that one shows stay.
        """
        add(graph, "a")
        for name in ("gone", "here"):
            graph.branches.create(name)
            add(graph, name, name)
        graph.branches.create("child", from_="here")
        add(graph, "child", "child")
        path = row(graph).path
        with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no disk today")):
            graph.branches.delete("gone")
        assert {finding.code for finding in graph.verify()} == {"unused_ref"}
        before = set(native_refs(graph.engine.root, path))
        done = graph.cleanup(keep=100)
        assert len(done.forks) == 2
        assert done.size_bytes > 0
        assert {name.partition("-")[0] for name in before - set(native_refs(graph.engine.root, path))} == {"gone"}
        assert names(graph, "child") == ["a", "child", "here"]
        assert graph.cleanup(keep=100).forks == ()
        sound(graph)

    def test_children_go_before_their_parents(self, graph: Graph) -> None:
        """A native branch that another was made from is removed after it (B-28)."""
        add(graph, "a")
        graph.branches.create("one")
        add(graph, "one", "one")
        graph.branches.create("two", from_="one")
        add(graph, "two", "two")
        with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no disk today")):
            graph.branches.delete("two")
        with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no disk today")):
            graph.branches.delete("one")
        done = graph.cleanup(keep=100)
        tables = [Path(fork).name.partition("-")[0] for fork in done.forks if "__manifest" not in fork]
        assert tables == ["two", "one"]
        sound(graph)

    def test_a_fork_stays_while_one_that_was_made_from_it_is_shown(self, graph: Graph) -> None:
        add(graph, "a")
        graph.branches.create("work")
        graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"), branch="work")
        add_all(graph, "w1", "w2", branch="work")
        add(graph, "b")
        graph.merge("work")
        graph.branches.delete("work")
        add(graph, "c")
        graph.cleanup(keep=1)
        assert names(graph) == ["a", "b", "c", "w1", "w2"]
        sound(graph)

    def test_the_version_that_a_fork_was_made_from_stays_when_no_commit_shows_it(self, graph: Graph) -> None:
        """A merge that takes over a new column forks the table of its source. Later merges and an optimize leave it to the fork."""
        add(graph, "a")
        graph.branches.create("work")
        graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"), branch="work")
        add_all(graph, "w1", "w2", branch="work")
        add(graph, "b")
        graph.merge("work")
        origin = forked_from(graph.engine.root, row(graph).path, str(row(graph).native))
        graph.merge("main", into="work")
        graph.optimize("work")
        add_all(graph, "w3", branch="work")
        graph.optimize("work")
        graph.cleanup(keep=1)
        assert origin in versions(graph, branch="work")
        assert (names(graph), names(og.open(graph.uri), "work")) == (["a", "b", "w1", "w2"], ["a", "b", "w1", "w2", "w3"])
        sound(graph)

    def test_a_type_that_was_added_on_a_branch_goes_with_it(self, graph: Graph) -> None:
        """The identity of a table decides: one of a type that was dropped and added again is another table (B-29)."""
        graph.branches.create("work")
        small = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
        graph.apply_schema(small, branch="work")
        graph.apply_schema(SCHEMA, branch="work")
        graph.load([{"type": "Firm", "data": {"name": "new"}}], branch="work")
        old, new = row(graph, "node:Firm").path, row(graph, "node:Firm", "work").path
        graph.cleanup(keep=1)
        assert (Path(graph.uri, old).exists(), Path(graph.uri, new).exists()) == (True, True)
        with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no disk today")):
            graph.branches.delete("work")
        graph.cleanup(keep=1)
        assert (Path(graph.uri, old).exists(), Path(graph.uri, new).exists()) == (True, False)
        sound(graph)

    def test_files_of_dead_writers_are_removed_after_a_week(self, graph: Graph) -> None:
        """Data, deletions, patches of a cluster, detached versions of an optimize, and files for a fork that was never made; not before."""
        add_all(graph, "a", "b")
        table = Path(graph.uri, row(graph).path)
        left = [
            table / "data" / "left.lance",
            table / "_deletions" / "0-1-5.arrow",
            table / "patches" / "left.patch",
            table / "_versions" / "d9855187759425620419.manifest",
            table / "_versions" / "d18446744073709551600.manifest",
            table / "tree" / "never-0123456789abcdef" / "data" / "left.lance",
        ]
        for file in left:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"left")
        assert graph.cleanup(keep=100).size_bytes == 0
        assert all(file.exists() for file in left)
        for file in left:
            os.utime(file, times=(time.time() - 8 * 86_400,) * 2)
        young = table / "tree" / "never-0123456789abcdef" / "data" / "young.lance"
        young.write_bytes(b"young")
        assert graph.cleanup(keep=100, dry_run=True).size_bytes == 20
        assert graph.cleanup(keep=100).size_bytes == 20
        assert [file.exists() for file in left] == [False, False, False, False, False, True]
        os.utime(young, times=(time.time() - 8 * 86_400,) * 2)
        assert graph.cleanup(keep=100).size_bytes == 9
        assert not (table / "tree" / "never-0123456789abcdef").exists()
        sound(graph)

    def test_a_fork_keeps_the_files_of_its_versions_and_of_those_made_from_it_and_no_others(self, tmp_path: Path) -> None:
        """Data, deletions, indexes, blobs and transactions of a native branch; a branch of it needs some of them."""
        graph = og.init(tmp_path / "blobs", schema="node Person { name: String @key  age: I32? @index  face: Blob? }")
        graph.branches.create("work")
        for at in range(6):
            face = "base64:" + b64encode(bytes([at]) * 300_000).decode()
            graph.load([{"type": "Person", "data": {"name": f"p{at % 4}", "age": at, "face": face}}], branch="work", mode="merge")
            if at % 2:
                graph.optimize("work")
            if at == 3:
                graph.branches.create("child", from_="work")
                add(graph, "c", "child")
        graph.mutate('query q() { delete Person where name = "p3" }', branch="work")
        graph.optimize("work")
        shown = {branch: list(graph.export(branch=branch)) for branch in ("work", "child")}
        home = Path(graph.uri, row(graph, branch="work").ref.home)
        before = _sizes(home)
        told, done = graph.cleanup(keep=1, dry_run=True), graph.cleanup(keep=1)
        assert (told.versions, told.size_bytes) == (done.versions, done.size_bytes)
        gone = before.keys() - _sizes(home).keys()
        assert {path.relative_to(home).parts[0] for path in gone} >= {"data", "_deletions", "_indices", "_transactions", "_versions"}
        assert {branch: list(graph.export(branch=branch)) for branch in ("work", "child")} == shown
        assert not any(path.is_dir() and not any(path.iterdir()) for path in (home / "_indices").iterdir())
        sound(graph)
        dataset = lance.dataset(str(home))
        stay = [lance.dataset(str(home), version=each["version"]) for each in dataset.versions()]
        named = {file.path for one in stay for part in one.get_fragments() for file in part.data_files()}
        assert {path.name for path in (home / "data").glob("*.lance")} <= named
        assert {path.name for path in (home / "_indices").iterdir()} <= {
            str(part.uuid) for one in stay for index in one.describe_indices() for part in index.segments
        }

    def test_files_of_dead_writers_to_a_fork_are_removed_after_a_week(self, graph: Graph) -> None:
        graph.branches.create("work")
        add_all(graph, "a", "b", branch="work")
        graph.cleanup(keep=100)  # the version that the fork was made with
        home = Path(graph.uri, row(graph, branch="work").ref.home)
        left = [
            home / "data" / "left.lance",
            home / "data" / "left" / "1.blob",
            home / "_deletions" / "0-1-5.arrow",
            home / "_indices" / "x" / "y",
            home / "_versions" / "d9855187759425620419.manifest",
        ]
        for file in left:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"left")
        assert graph.cleanup(keep=100).size_bytes == 0
        for file in home.rglob("*"):
            if file.is_file():
                os.utime(file, times=(time.time() - 8 * 86_400,) * 2)
        assert graph.cleanup(keep=100, dry_run=True).size_bytes == 20
        assert graph.cleanup(keep=100).size_bytes == 20
        assert not any(file.exists() for file in left)
        assert names(graph, "work") == ["a", "b"]
        sound(graph)

    def test_a_cleanup_that_keeps_more_than_the_one_before_keeps_what_is_left(self, graph: Graph) -> None:
        """Also where a commit of a branch first touched a table: the state before it, which says of which fork it was, is gone."""
        add(graph, "a")
        graph.branches.create("work")
        graph.mutate('query q() { insert Firm { name: "f" } }', branch="work")
        add_all(graph, "b", "c", branch="work")
        graph.cleanup(keep=1)
        assert graph.cleanup(keep=3).versions == 0
        assert graph.cleanup(keep=100, dry_run=True).versions == 0
        assert names(graph, "work") == ["a", "b", "c"]
        sound(graph)

    def test_the_transaction_of_a_living_process_stays(self, graph: Graph) -> None:
        add_all(graph, "a", "b")
        with graph.transaction() as transaction:
            transaction.mutate('query q() { insert Person { name: "t1" } }')
            add(graph, "c")
            assert og.open(graph.uri).cleanup(keep=1).transactions == ()
            transaction.mutate('query q() { insert Person { name: "t2" } }')
        assert names(graph) == ["a", "b", "c", "t1", "t2"]
        assert list((Path(graph.uri) / "__locks").glob("*.owner")) == []
        sound(graph)

    def test_a_transaction_without_an_owner_goes(self, graph: Graph) -> None:
        add_all(graph, "a", "b")
        fork = Fork(graph.engine, MAIN)
        add(graph, "t", fork.name)
        assert graph.cleanup(keep=1, dry_run=True).transactions == ()
        fork._owned.close()
        told = graph.cleanup(keep=100, dry_run=True)
        done = graph.cleanup(keep=100)
        assert told.transactions == done.transactions == (fork.name,)
        assert (told.size_bytes, told.forks) == (done.size_bytes, done.forks)
        assert all_branches(graph.engine.root.objects) == []
        assert native_refs(graph.engine.root, row(graph).path) == []
        sound(graph)
