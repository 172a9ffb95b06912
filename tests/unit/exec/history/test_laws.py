"""Laws of differences, merges, reverts and transactions, on random histories with several branches and crossing merges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.exec.history.relation import MergeOutcome
from omnigraph.graph import Graph
from omnigraph.ids import BranchName, CommitId
from omnigraph.manifest import lineage
from tests.mutations import run
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }\nedge Knows: Person -> Person { since: I32? }"
BRANCHES = ("main", "a", "b")
NAMES = "pqrs"
Person = tuple[int | None, str | None]
Model = dict[str, Person]

WAYS = [(way, strategy) for way in ("fail", "ours", "theirs") for strategy in ("entity", "property")]

branches = st.sampled_from(BRANCHES)
values = st.tuples(st.none() | st.integers(0, 2), st.sampled_from([None, "", "x"]))
writes = st.tuples(st.just("put"), branches, st.sampled_from(NAMES), values) | st.tuples(
    st.just("delete"), branches, st.sampled_from(NAMES), st.none()
)
merges = st.tuples(st.just("merge"), branches, branches, st.sampled_from(WAYS))


def new_graph(factory: pytest.TempPathFactory) -> Graph:
    return og.init(factory.mktemp("law") / "g", schema=SCHEMA)


def put(graph: Graph, name: str, person: Person, branch: str) -> None:
    text = "($n: String, $a: I32?, $t: String?) upsert Person { name: $n, age: $a, note: $t }"
    run(graph, text, {"n": name, "a": person[0], "t": person[1]}, branch=branch)


def model_of(graph: Graph, branch: str) -> Model:
    rows = graph.query("match { $p: Person } return { $p.name as name, $p.age as age, $p.note as note }", branch=branch).rows
    return {row["name"]: (row["age"], row["note"]) for row in rows}


def content(graph: Graph, branch: str) -> list[str]:
    return list(graph.export(branch))


class Conflicted(Exception):
    """The naive merge found a conflict."""


def naive_merge(bases: list[Model], theirs: Model, ours: Model, way: str, strategy: str) -> Model:
    """A three-way merge of dicts. Of several bases, each that finds a change on one side only votes for that side."""
    merged: Model = {}
    for name in {*theirs, *ours}.union(*bases):
        their, our = theirs.get(name), ours.get(name)
        votes = {"ours" if base.get(name) == their else "theirs" for base in bases if base.get(name) in (their, our)}
        old = bases[0].get(name)
        if their == our or votes == {"ours"}:
            result = our
        elif votes == {"theirs"}:
            result = their
        elif strategy == "property" and not votes and old is not None and their is not None and our is not None:
            result = (
                naive_value(old[0], their[0], our[0], way),
                naive_value(old[1], their[1], our[1], way),
            )
        elif way == "fail":
            raise Conflicted
        else:
            result = our if way == "ours" else their
        if result is not None:
            merged[name] = result
    return merged


def naive_value(old: object, their: object, our: object, way: str) -> Any:
    if their in (old, our):
        return our
    if our == old:
        return their
    if way == "fail":
        raise Conflicted
    return our if way == "ours" else their


class World:
    """A graph with three branches, and a dict for every commit."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self.graph = new_graph(factory)
        put(self.graph, "p", (1, None), "main")
        for branch in BRANCHES[1:]:
            self.graph.branches.create(branch)
        self.models: dict[str, Model] = {self.head("main"): {"p": (1, None)}}

    def head(self, branch: str) -> str:
        return self.graph.commits(branch, limit=1)[0].id

    def model(self, branch: str) -> Model:
        return self.models[self.head(branch)]

    def write(self, what: str, branch: str, name: str, person: Person | None) -> None:
        model = dict(self.model(branch))
        if person is not None:
            put(self.graph, name, person, branch)
            model[name] = person
        else:
            run(self.graph, f'delete Person where name = "{name}"', branch=branch)
            model.pop(name, None)
        self.models[self.head(branch)] = model

    def merge(self, source: str, into: str, way: str, strategy: str) -> None:
        manifest, before = self.graph.engine.manifest, self.head(into)
        commits = {**manifest.history(BranchName(source)), **manifest.history(BranchName(into))}
        bases = lineage.merge_bases(commits, CommitId(before), CommitId(self.head(source)))
        theirs, ours = self.model(source), self.model(into)
        try:
            expected = naive_merge([self.models[base] for base in bases], theirs, ours, way, strategy)
        except Conflicted:
            with pytest.raises(og.MergeConflicts) as caught:
                self.graph.merge(source, into, on_conflict=way, strategy=strategy)
            assert self.head(into) == before
            assert tuple(self.graph.merge_conflicts(source, into, on_conflict=way, strategy=strategy)) == caught.value.facts["conflicts"]
            return
        assert list(self.graph.merge_conflicts(source, into, on_conflict=way, strategy=strategy)) == []
        outcome = self.graph.merge(source, into, on_conflict=way, strategy=strategy).outcome
        assert (outcome is MergeOutcome.ALREADY_UP_TO_DATE) == (self.head(into) == before)
        self.models[self.head(into)] = expected
        assert model_of(self.graph, into) == expected


@settings(max_examples=sample(25, whole=300), deadline=None)
@given(steps=st.lists(writes | merges, min_size=4, max_size=14))
def test_a_merge_is_that_of_dicts(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str, Any]]) -> None:
    world = World(tmp_path_factory)
    for what, branch, other, more in steps:
        if what != "merge":
            world.write(what, branch, other, more)
        elif branch != other:
            world.merge(branch, other, *more)
    for branch in BRANCHES:
        assert model_of(world.graph, branch) == world.model(branch)
        world.graph.branches.create(f"fresh-{branch}", from_=branch)
        assert world.graph.merge(f"fresh-{branch}", branch).outcome is MergeOutcome.ALREADY_UP_TO_DATE
        assert world.graph.merge(branch, f"fresh-{branch}").outcome is MergeOutcome.ALREADY_UP_TO_DATE
    assert world.graph.verify() == []


def replay(graph: Graph, changes: Iterable[og.EntityChange], branch: str) -> None:
    """Do what a diff says, by loads and deletes: edges go first and come last."""
    lines: list[dict[str, object]] = []
    gone: list[og.EntityChange] = []
    for change in changes:
        if change.after is None:
            gone.append(change)
        elif change.after.endpoints is None:
            lines.append({"type": change.type_name, "data": {"id": change.id, **change.after.properties}})
        else:
            ends = {"from": change.after.endpoints.from_, "to": change.after.endpoints.to}
            lines.append({"edge": change.type_name, **ends, "data": {"id": change.id, **change.after.properties}})
    for change in reversed(gone):
        run(graph, f'delete {change.type_name} where id = "{change.id}"', branch=branch)
    if lines:
        graph.load(lines, branch=branch)


ends = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))


@settings(max_examples=sample(10, whole=100), deadline=None)
@given(steps=st.lists(writes, max_size=8), edges=st.lists(ends, max_size=3))
def test_a_replayed_diff_gives_the_other_side(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str, Any]], edges: list[tuple[str, str]]
) -> None:
    world = World(tmp_path_factory)
    graph = world.graph
    for step in steps:
        world.write(*step)
    for source, target in edges:
        if {source, target} <= world.model("a").keys():
            run(graph, f'insert Knows {{ from: "{source}", to: "{target}" }}', branch="a")
    replay(graph, list(graph.diff("b", "a")), "b")
    assert list(graph.diff("b", "a")) == []
    assert content(graph, "b") == content(graph, "a")


@settings(max_examples=sample(10, whole=100), deadline=None)
@given(steps=st.lists(writes, min_size=1, max_size=6))
def test_a_revert_restores_the_parent(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str, Any]]) -> None:
    graph = new_graph(tmp_path_factory)
    put(graph, "p", (1, None), "main")
    for what, _, name, person in steps:
        before, head = content(graph, "main"), graph.commits(limit=1)[0].id
        if what == "put":
            put(graph, name, person, "main")
        else:
            run(graph, f'delete Person where name = "{name}"')
        newest = graph.commits(limit=1)[0].id
        if newest == head:
            continue
        graph.revert(newest)
        assert content(graph, "main") == before
    assert graph.verify() == []


@settings(max_examples=sample(10, whole=100), deadline=None)
@given(steps=st.lists(writes, max_size=5), meanwhile=st.lists(writes, max_size=2))
def test_a_transaction_equals_its_steps_on_a_branch_and_a_squash(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str, Any]], meanwhile: list[tuple[str, str, str, Any]]
) -> None:
    """The squash is a merge without its second parent: the same rows, numbers and conflicts, and one commit.

    But an entity that both changed to the same values is a conflict of a transaction, and none of a merge.
    """
    graph = new_graph(tmp_path_factory)
    put(graph, "p", (1, None), "main")
    start = graph.commits(limit=1)[0].id
    graph.branches.create("by-hand")
    transaction = graph.transaction().__enter__()
    for _, _, name, person in steps:
        text, params = statement(name, person)
        graph.mutate(text, params=params, branch="by-hand")
        transaction.mutate(text, params=params)
    for _, _, name, person in meanwhile:
        text, params = statement(name, person)
        graph.mutate(text, params=params)
    graph.branches.create("merged")
    head, before = graph.commits(limit=1)[0].id, content(graph, "main")
    plan = graph.merge("by-hand", "merged", dry_run=True)
    by_hand, here = ({change.id: change.after for change in graph.diff(start, branch)} for branch in ("by-hand", "main"))
    alike = {id_ for id_, after in by_hand.items() if after is not None and after == here.get(id_)}
    if plan.conflict_count or alike:
        with pytest.raises(og.MergeConflicts) as caught:
            transaction.__exit__(None, None, None)
        found: Any = caught.value.facts["conflicts"]
        assert tuple(one for one in found if one.kind != "concurrent_change") == plan.conflicts
        assert {one.id for one in found if one.kind == "concurrent_change"} == alike
        assert content(graph, "main") == before
    else:
        transaction.__exit__(None, None, None)
        receipt = transaction.receipt
        assert receipt is not None
        assert (receipt.inserted, receipt.updated, receipt.deleted) == (plan.inserted, plan.updated, plan.deleted)
        assert (receipt.commit is None) == (content(graph, "main") == before)
        assert receipt.commit is None or receipt.commit.parents == (head,)
        graph.merge("by-hand", "merged")
        assert content(graph, "main") == content(graph, "merged")
    assert graph.branches.list() == ["main", "by-hand", "merged"]
    assert graph.verify() == []


def statement(name: str, person: Person | None) -> tuple[str, dict[str, object]]:
    if person is None:
        return "query q($n: String) { delete Person where name = $n }", {"n": name}
    text = "query q($n: String, $a: I32?, $t: String?) { upsert Person { name: $n, age: $a, note: $t } }"
    return text, {"n": name, "a": person[0], "t": person[1]}


@settings(max_examples=sample(10, whole=100), deadline=None)
@given(
    left=st.lists(st.tuples(st.sampled_from("pq"), values), max_size=4),
    right=st.lists(st.tuples(st.sampled_from("rs"), values), max_size=4),
)
def test_disjoint_changes_commute(
    tmp_path_factory: pytest.TempPathFactory, left: list[tuple[str, Person]], right: list[tuple[str, Person]]
) -> None:
    world = World(tmp_path_factory)
    graph = world.graph
    for branch, changes in (("a", left), ("b", right)):
        for name, person in changes:
            world.write("put", branch, name, person)
    for first, second in (("a", "b"), ("b", "a")):
        target = f"{first}-{second}"
        graph.branches.create(target)
        assert graph.merge(target).outcome is MergeOutcome.ALREADY_UP_TO_DATE, "a fresh branch has nothing to merge"
        for source in (first, second):
            graph.merge(source, target)
        assert model_of(graph, target) == {**world.model("main"), **world.model("a"), **_changed(world, "b")}
    assert content(graph, "a-b") == content(graph, "b-a")


def _changed(world: World, branch: str) -> Mapping[str, Person]:
    base = world.model("main")
    return {name: person for name, person in world.model(branch).items() if base.get(name) != person}
