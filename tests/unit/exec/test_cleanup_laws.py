"""Laws of cleanup, on random histories with branches, tags, merges, compactions and schema changes: what is kept answers as before."""

from __future__ import annotations

import tempfile
from itertools import takewhile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import Kind, NotFound, OmniGraphError
from omnigraph.exec.upkeep.cleanup import cleanup
from omnigraph.graph import Graph
from omnigraph.manifest.lineage import first_parents
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Firm { name: String @key }"
NAMES = "match { $p: Person } return { $p.name as name, $p.age as age } order { name }"
BRANCHES = ("main", "one", "two")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(BRANCHES), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.sampled_from(BRANCHES), st.integers(0, 5)),
        st.tuples(st.just("firm"), st.sampled_from(BRANCHES), st.integers(0, 2)),
        st.tuples(st.just("branch"), st.sampled_from(BRANCHES[1:]), st.integers(0, 4)),
        st.tuples(st.just("drop"), st.sampled_from(BRANCHES[1:]), st.just(0)),
        st.tuples(st.just("merge"), st.sampled_from(BRANCHES), st.integers(0, 2)),
        st.tuples(st.just("schema"), st.sampled_from(BRANCHES), st.just(0)),
        st.tuples(st.just("tag"), st.sampled_from(BRANCHES), st.integers(0, 2)),
        st.tuples(st.just("index"), st.sampled_from(BRANCHES), st.just(0)),
        st.tuples(st.just("optimize"), st.sampled_from(BRANCHES), st.just(0)),
        st.tuples(st.just("transaction"), st.sampled_from(BRANCHES), st.integers(0, 5)),
        st.tuples(st.just("cleanup"), st.just("main"), st.integers(1, 3)),
    ),
    min_size=8,
    max_size=22,
)


class World:
    """A graph, and what each of its commits showed when it was made."""

    def __init__(self, folder: str) -> None:
        self.graph: Graph = og.init(Path(folder) / "g", schema=SCHEMA)
        self.told: dict[str, list[object]] = {}
        self.turn = 0
        self.note()

    def note(self) -> None:
        for branch in self.graph.branches.list():
            commit = self.graph.snapshot(branch).commit_id
            self.told.setdefault(commit, self.ask(branch=branch))

    def ask(self, *, branch: str = "main", at: str | None = None) -> list[object]:
        return list(self.graph.query(NAMES, branch=branch, at=at).rows)

    def step(self, what: str, branch: str, number: int) -> None:
        graph, there = self.graph, branch in self.graph.branches.list()
        self.turn += 1
        match what:
            case "branch" if not there:
                known = graph.commits()
                graph.branches.create(branch, at=self.readable(known[min(number, len(known) - 1)].id))
            case "drop" if there:
                for tag in graph.tags.list():
                    if tag.branch == branch:
                        graph.tags.delete(tag.name)
                graph.branches.delete(branch)
            case "cleanup":
                self.clean(number)
            case _ if not there:
                return
            case "write":
                graph.mutate(f'query q() {{ upsert Person {{ name: "p{number}", age: {self.turn} }} }}', branch=branch)
            case "delete":
                graph.mutate(f'query q() {{ delete Person where name = "p{number}" }}', branch=branch)
            case "firm":
                graph.load([{"type": "Firm", "data": {"name": f"f{number}"}}], branch=branch)
            case "merge":
                source = BRANCHES[number]
                if source != branch and source in graph.branches.list():
                    graph.merge(source, into=branch, on_conflict="ours")
            case "schema":
                graph.apply_schema(SCHEMA.replace("age: I32?", f"age: I32?  extra{self.turn}: String?"), branch=branch)
            case "tag":
                known = graph.commits(branch)
                if commit := self.readable(known[min(number, len(known) - 1)].id):
                    graph.tags.create(f"tag-{self.turn}", at=commit)
            case "index":
                graph.ensure_indices(branch)
            case "optimize":
                before = self.ask(branch=branch)
                graph.optimize(branch)
                assert self.ask(branch=branch) == before
            case "transaction":
                with graph.transaction(branch) as transaction:
                    transaction.mutate(f'query q() {{ upsert Person {{ name: "t{number}", age: {self.turn} }} }}')

    def readable(self, commit: str) -> str | None:
        try:
            self.graph.snapshot(at=commit)
        except NotFound as error:
            if error.kind is not Kind.VERSION_RECLAIMED:
                raise
            return None
        return commit

    def clean(self, keep: int) -> None:
        graph = self.graph
        heads = {branch: self.ask(branch=branch) for branch in graph.branches.list()}
        before = {commit for commit in self.told if _exists(graph, commit) and self.readable(commit)}
        told = graph.cleanup(keep=keep, dry_run=True)
        done = cleanup(graph.engine, keep=keep, older_than=None)
        assert (told.tables, told.forks) == (done.tables, done.forks)
        assert {branch: self.ask(branch=branch) for branch in graph.branches.list()} == heads
        for tag in graph.tags.list():
            assert self.ask(at=tag.name) == self.told[tag.commit_id]
        for branch in graph.branches.list():
            commits = {commit.id: commit for commit in graph.commits(branch)}
            chain = list(first_parents(commits, graph.commits(branch)[0].id))
            for commit in takewhile(lambda each, name=branch: each.branch == name, chain[:keep]):  # type: ignore[misc]  # a default has no type
                assert commit.id not in before or self.ask(at=commit.id) == self.told[commit.id]
        for id_, shown in self.told.items():  # what can be opened answers as before
            if _exists(graph, id_) and self.readable(id_) is not None:
                assert self.ask(at=id_) == shown
        again = graph.cleanup(keep=keep, dry_run=True)
        assert (again.versions, again.size_bytes, again.forks) == (0, 0, ())
        assert graph.verify() == []


def _exists(graph: Graph, commit: str) -> bool:
    try:
        graph.commit(commit)
    except NotFound:
        return False
    return True


@settings(max_examples=sample(6, whole=60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_what_cleanup_keeps_answers_as_before(steps: list[tuple[str, str, int]]) -> None:
    """T-07: Time travel through merges and after cleanup, within what is kept, gives the same answers; a merge finds its base."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder)
        for what, branch, number in [*steps, ("cleanup", "main", 1), ("merge", "main", 1), ("merge", "main", 2)]:
            try:
                world.step(what, branch, number)
            except OmniGraphError as error:
                # Two branches changed the same, or have different schemas; or the commit to branch from is gone.
                if error.kind not in (Kind.MERGE_CONFLICTS, Kind.SCHEMA, Kind.VALIDATION):
                    raise
            world.note()
        assert world.graph.verify() == []
