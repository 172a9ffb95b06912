"""Dicts beside a real graph: mutations, branches, deaths and failures at every point of a write, two handles. Equal after every step."""

from __future__ import annotations

import operator
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, StorageError
from omnigraph.exec.problems import Problem
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.manifest import intents
from omnigraph.store.root import open_root
from omnigraph.store.tables import Tables
from tests.mutations import by_id, run, table_row
from tests.samples import sample

SCHEMA = """
node Person { name: String @key  born: I32? }
node Film { slug: String @key  at: DateTime }
edge Knows: Person -> Person { since: DateTime? }
edge Likes: Person -> Film
"""
MAIN = "main"
OPERATORS = {"=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

UNARMED = (Fault.WRITE_PREPARED, Fault.WRITE_BEFORE_ARM, Fault.OBJECT_BEFORE_LINK)
"""A death here leaves nothing to resolve."""
HALF_WAY = (
    *(Fault.WRITE_ARMED, Fault.WRITE_BEFORE_REF, Fault.WRITE_AFTER_REF, Fault.PUBLISH_BEFORE_WRITE),
    *(Fault.STAGE_BEFORE_COMMIT, Fault.WRITE_BETWEEN_TABLES),
)
"""A death here is undone."""
COMMITTED = (Fault.WRITE_COMMITTED, Fault.PUBLISH_BEFORE_COMMIT)
"""A death here is finished by whoever comes next."""
PUBLISHED = (Fault.PUBLISH_AFTER_COMMIT, Fault.PUBLISH_AFTER_SYNC)
"""A death here has written."""
FAILING = (*UNARMED, *HALF_WAY, Fault.STAGE_AFTER_COMMIT, *COMMITTED, *PUBLISHED)
DYING = (*FAILING, Fault.WRITE_PUBLISHED)
RECOVERING = (Fault.RECOVER_BEFORE_RESTORE, Fault.RECOVER_AFTER_RESTORE, Fault.RECOVER_BEFORE_PUBLISH, Fault.RECOVER_AFTER_PUBLISH)


class World:
    """What one branch holds: nodes by id, edges by their ends, as often as they are there."""

    def __init__(self) -> None:
        self.people: dict[str, int | None] = {}
        self.films: set[str] = set()
        self.knows: Counter[tuple[str, str]] = Counter()
        self.likes: Counter[tuple[str, str]] = Counter()

    def drop(self, edges: Counter[tuple[str, str]], gone: Callable[[tuple[str, str]], bool]) -> int:
        return sum(edges.pop(ends) for ends in list(edges) if gone(ends))


class Missing(Exception):
    """An edge has an end that is not there."""


class Statement(NamedTuple):
    """One statement, and what it does to a world: how many nodes and edges it counts."""

    text: str
    apply: Callable[[World], tuple[int, int]]


def insert_person(name: str, born: int | None) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        world.people[name] = born
        return 1, 0

    return Statement(f'insert Person {{ name: "{name}"{"" if born is None else f", born: {born}"} }}', apply)


def insert_film(slug: str) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        world.films.add(slug)
        return 1, 0

    return Statement(f'insert Film {{ slug: "{slug}", at: now() }}', apply)


def insert_edge(source: str, target: str) -> Statement:
    name, type_ = ("Likes", "Film") if target in FILMS else ("Knows", "Person")

    def apply(world: World) -> tuple[int, int]:
        missing = [f"src '{source}' not found in Person"] if source not in world.people else []
        if target not in (world.films if type_ == "Film" else world.people):
            missing.append(f"dst '{target}' not found in {type_}")
        if missing:
            raise Missing(*missing)
        (world.likes if type_ == "Film" else world.knows)[source, target] += 1
        return 0, 1

    return Statement(f'insert {name} {{ from: "{source}", to: "{target}" }}', apply)


def update_people(compare: str, value: int, new: int) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        matched = _born(world, compare, value)
        world.people.update(dict.fromkeys(matched, new))
        return len(matched), 0

    return Statement(f"update Person set {{ born: {new} }} where born {compare} {value}", apply)


def upsert_person(name: str, value: int) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        world.people[name] = (_or(world.people.get(name), value) + 1) % 4
        return 1, 0

    return Statement(f'upsert Person {{ name: "{name}", born: (coalesce(born, {value}) + 1) % 4 }}', apply)


def turn_people(compare: str, value: int, by: int) -> Statement:
    """An update that computes its values, under a condition that storage cannot evaluate."""

    def apply(world: World) -> tuple[int, int]:
        matched = {
            name for name, born in world.people.items() if (born is not None and OPERATORS[compare]((born + 1) % 4, value)) or name == "Ada"
        }
        for name in matched:
            born = world.people[name]
            world.people[name] = None if born is None else (born + by) % 4
        return len(matched), 0

    where = f'(born + 1) % 4 {compare} {value} or name = "Ada"'
    return Statement(f"update Person set {{ born: (born + {by}) % 4 }} where {where}", apply)


def update_known(compare: str, value: int, new: int) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        matched = _known(world, compare, value)
        world.people.update(dict.fromkeys(matched, new))
        return len(matched), 0

    return Statement(f"match {{ $p: Person  $p knows $q  $p.born {compare} {value} }} update $q set {{ born: {new} }}", apply)


def like_films(compare: str, value: int) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        pairs = [(name, slug) for name in _born(world, compare, value) for slug in world.films]
        world.likes.update(pairs)
        return 0, len(pairs)

    return Statement(f"match {{ $p: Person  $f: Film  $p.born {compare} {value} }} insert Likes {{ from: $p, to: $f }}", apply)


def delete_known(compare: str, value: int) -> Statement:
    match_ = f"match {{ $p: Person  $p knows $q  $p.born {compare} {value} }}"
    return Statement(f"{match_} delete $q", lambda world: _delete(world, _known(world, compare, value)))


def delete_people(compare: str, value: int) -> Statement:
    return Statement(f"delete Person where born {compare} {value}", lambda world: _delete(world, _born(world, compare, value)))


def delete_person(name: str) -> Statement:
    return Statement(f'delete Person where name = "{name}"', lambda world: _delete(world, {name} & world.people.keys()))


def delete_film(slug: str) -> Statement:
    def apply(world: World) -> tuple[int, int]:
        gone = {slug} & world.films
        world.films -= gone
        return len(gone), world.drop(world.likes, lambda ends: ends[1] in gone)

    return Statement(f'delete Film where slug = "{slug}"', apply)


def delete_knows(end: str, name: str) -> Statement:
    at = 0 if end == "from" else 1
    return Statement(f'delete Knows where {end} = "{name}"', lambda world: (0, world.drop(world.knows, lambda ends: ends[at] == name)))


def _born(world: World, compare: str, value: int) -> set[str]:
    return {name for name, born in world.people.items() if born is not None and OPERATORS[compare](born, value)}


def _known(world: World, compare: str, value: int) -> set[str]:
    """Whom somebody knows who was born then."""
    matched = _born(world, compare, value)
    return {target for (source, target), count in world.knows.items() if count and source in matched and target in world.people}


def _or(born: int | None, value: int) -> int:
    return value if born is None else born


def _delete(world: World, gone: set[str]) -> tuple[int, int]:
    for name in gone:
        del world.people[name]
    edges = world.drop(world.likes, lambda ends: ends[0] in gone) + world.drop(world.knows, lambda ends: bool(gone & set(ends)))
    return len(gone), edges


PEOPLE = ["Ada", "Ben", "it's"]
FILMS = ["heat", "dune"]
person, born, compare = st.sampled_from(PEOPLE), st.integers(0, 3), st.sampled_from(sorted(OPERATORS))
WRITES = st.one_of(
    st.builds(insert_person, person, st.none() | born),
    st.builds(insert_film, st.sampled_from(FILMS)),
    st.builds(insert_edge, person, st.sampled_from([*PEOPLE, *FILMS])),
    st.builds(update_people, compare, born, born),
    st.builds(upsert_person, person, born),
    st.builds(turn_people, compare, born, born),
    st.builds(update_known, compare, born, born),
    st.builds(like_films, compare, born),
)
DELETES = st.one_of(
    st.builds(delete_person, person),
    st.builds(delete_people, compare, born),
    st.builds(delete_known, compare, born),
    st.builds(delete_film, st.sampled_from(FILMS)),
    st.builds(delete_knows, st.sampled_from(["from", "to"]), person),
)


def matches_last(statements: list[Statement]) -> list[Statement]:
    """A change after a match belongs to the match, so the other statements come first."""
    return sorted(statements, key=lambda statement: statement.text.startswith("match"))


MUTATION = (
    st.lists(WRITES, min_size=1, max_size=4) | st.lists(WRITES, min_size=2, max_size=5) | st.lists(DELETES, min_size=1, max_size=2)
).map(matches_last)
WHICH = st.integers(0, 1)
BRANCH = st.integers(0, 3)


def told(error: InvalidInput) -> set[str]:
    """What a refusal says: it may tell of every record that is wrong, not only of the first."""
    problems: tuple[Problem, ...] = error.facts["problems"]  # type: ignore[assignment]
    assert problems
    return {problem.message for problem in problems}


class Planned(NamedTuple):
    """A mutation, what it should say, and the world it should leave; or the reasons why it must be refused."""

    text: str
    after: World
    counts: tuple[int, int]
    refusals: frozenset[str] | set[str] = frozenset()


class GraphMachine(RuleBasedStateMachine):
    """`waiting`: branches where a dead writer left an intent, and the world that resolving it leads to (None: it is undone)."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.handles: list[Graph] = [og.init(self.folder / "g", schema=SCHEMA), og.open(self.folder / "g")]
        self.tables = Tables(open_root(self.folder / "g"))
        self.worlds: dict[str, World] = {MAIN: World()}
        self.parents: dict[str, str] = {}
        self.waiting: dict[str, World | None] = {}

    def teardown(self) -> None:
        """Whatever happened: once everything is resolved, the graph is sound."""
        self.open_again(0)
        self.the_graph_holds_what_the_model_holds()
        assert self.handles[0].verify() == []
        shutil.rmtree(self.folder)

    def branch(self, at: int) -> str:
        live = sorted(self.worlds)
        return live[at % len(live)]

    def plan(self, branch: str, statements: list[Statement]) -> Planned:
        world = deepcopy(self.worlds[branch])
        text = " ".join(statement.text for statement in statements)
        nodes = edges = 0
        refusals: set[str] = set()
        for statement in statements:
            try:
                counted = statement.apply(world)
            except Missing as missing:
                refusals |= set(missing.args)
                continue
            nodes, edges = nodes + counted[0], edges + counted[1]
        return Planned(text, self.worlds[branch], (0, 0), refusals) if refusals else Planned(text, world, (nodes, edges))

    def resolved(self, branch: str) -> None:
        """Somebody came by who heals."""
        if (after := self.waiting.pop(branch, None)) is not None:
            self.worlds[branch] = after

    @rule(at=BRANCH, which=WHICH, statements=MUTATION)
    def mutate(self, at: int, which: int, statements: list[Statement]) -> None:
        branch = self.branch(at)
        self.resolved(branch)
        planned = self.plan(branch, statements)
        if planned.refusals:
            with pytest.raises(InvalidInput) as caught:
                run(self.handles[which], planned.text, branch=branch)
            assert told(caught.value) <= planned.refusals
            return
        receipt = run(self.handles[which], planned.text, branch=branch)
        assert (receipt.affected_nodes, receipt.affected_edges) == planned.counts
        assert (receipt.commit is None) == (planned.counts == (0, 0))
        self.worlds[branch] = planned.after

    @rule(at=BRANCH, which=WHICH, statements=MUTATION, point=st.sampled_from(DYING))
    def mutate_and_die(self, at: int, which: int, statements: list[Statement], point: Fault) -> None:
        branch = self.branch(at)
        self.refresh(which)
        planned = self.plan(branch, statements)
        try:
            with armed(point):
                run(self.handles[which], planned.text, branch=branch)
        except InvalidInput as error:
            assert told(error) <= planned.refusals  # noqa: PT017  # the law is which error comes when
            return
        except SimulatedCrash:
            self.died(branch, point, planned)
            return
        self.worlds[branch] = planned.after  # it did not come by that point

    def died(self, branch: str, point: Fault, planned: Planned) -> None:
        left = intents.pending(self.handles[0].engine.manifest.root.objects)
        if point in UNARMED:
            assert left == []
            return
        (intent,) = left
        if point in PUBLISHED or point is Fault.WRITE_PUBLISHED:
            self.worlds[branch] = self.waiting[branch] = planned.after
        else:
            forward = point in COMMITTED or (point is Fault.STAGE_AFTER_COMMIT and len(intent.tables) == 1)
            self.waiting[branch] = planned.after if forward else None

    @rule(at=BRANCH, which=WHICH, statements=MUTATION, point=st.sampled_from(FAILING))
    def mutate_and_fail(self, at: int, which: int, statements: list[Statement], point: Fault) -> None:
        """A failure that is no death is settled before the caller hears of it: it happened, or it did not."""
        branch = self.branch(at)
        self.refresh(which)
        planned = self.plan(branch, statements)
        failure = StorageError(Kind.STORAGE, "the disk said no")
        try:
            with armed(point, failure=failure):
                receipt = run(self.handles[which], planned.text, branch=branch)
        except InvalidInput as error:
            assert told(error) <= planned.refusals  # noqa: PT017  # the law is which error comes when
        except StorageError as error:
            assert error is failure  # noqa: PT017
            assert point not in (*COMMITTED, *PUBLISHED), "what was committed to every table is finished, not undone"
        else:
            assert (receipt.affected_nodes, receipt.affected_edges) == planned.counts
            self.worlds[branch] = planned.after
        assert intents.pending(self.handles[0].engine.manifest.root.objects) == []

    @rule(which=WHICH)
    def refresh(self, which: int) -> None:
        self.handles[which].refresh()
        for branch in list(self.waiting):
            self.resolved(branch)

    @precondition(lambda self: self.waiting)
    @rule(which=WHICH, point=st.sampled_from(RECOVERING))
    def recover_and_die(self, which: int, point: Fault) -> None:
        try:
            with armed(point):
                self.handles[which].refresh()
        except SimulatedCrash:
            (branch,) = self.waiting
            if point is Fault.RECOVER_AFTER_PUBLISH and (after := self.waiting[branch]) is not None:
                self.worlds[branch] = after
            return
        for branch in list(self.waiting):
            self.resolved(branch)

    @rule(which=WHICH)
    def open_again(self, which: int) -> None:
        self.handles[which] = og.open(self.folder / "g")
        for branch in list(self.waiting):
            self.resolved(branch)

    @rule(name=st.sampled_from(["a", "b", "c/d"]), at=BRANCH, which=WHICH)
    def create_branch(self, name: str, at: int, which: int) -> None:
        from_ = self.branch(at)
        if name in self.worlds:
            with pytest.raises(ConflictError):
                self.handles[which].branches.create(name, from_=from_)
            return
        self.handles[which].branches.create(name, from_=from_)
        self.worlds[name] = deepcopy(self.worlds[from_])
        self.parents[name] = from_

    @precondition(lambda self: len(self.worlds) > 1)
    @rule(at=BRANCH, which=WHICH)
    def delete_branch(self, at: int, which: int) -> None:
        branch = self.branch(at)
        if branch == MAIN or branch in self.parents.values():
            with pytest.raises((ConflictError, InvalidInput)):
                self.handles[which].branches.delete(branch)
            return
        self.handles[which].branches.delete(branch)
        del self.worlds[branch], self.parents[branch]
        self.waiting.pop(branch, None)  # what a dead writer left there goes with it

    @invariant()
    def the_graph_holds_what_the_model_holds(self) -> None:
        assert self.handles[0].branches.list() == [MAIN, *sorted(set(self.worlds) - {MAIN})]
        for branch, world in self.worlds.items():
            snapshot = self.handles[0].snapshot(branch)
            assert self.handles[1].snapshot(branch) == snapshot
            people = self.rows(branch, "node:Person")
            assert {id_: row["born"] for id_, row in people.items()} == world.people
            assert self.rows(branch, "node:Film").keys() == world.films
            assert self.ends(branch, "edge:Knows") == world.knows
            assert self.ends(branch, "edge:Likes") == world.likes

    def rows(self, branch: str, alias: str) -> dict[str, dict[str, object]]:
        row = table_row(self.handles[0], alias, branch=branch)
        found = by_id(self.tables.open(row.ref).scan().read_all())
        assert len(found) == row.rows
        return found

    def ends(self, branch: str, alias: str) -> Counter[tuple[object, object]]:
        return Counter((row["src"], row["dst"]) for row in self.rows(branch, alias).values())


GraphMachine.TestCase.settings = settings(
    max_examples=sample(12, whole=200),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestGraph = GraphMachine.TestCase
