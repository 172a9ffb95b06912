"""Merges: every cell of both matrices, with each strategy and each way to settle conflicts; outcomes, lineage, rules, refusals."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, Unsupported
from omnigraph.exec.history import by_property, landing, pairs, three_way
from omnigraph.exec.history.conflicts import Conflict, ConflictKind
from omnigraph.exec.history.relation import MergeOutcome
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph, Receipt
from omnigraph.manifest.model import CommitKind
from omnigraph.store.data_files import Shelf
from omnigraph.store.difference import Addresses
from tests.mutations import rows, run, table_row

STRATEGIES = ("entity", "property")
Row = Mapping[str, object]


def content(graph: Graph, branch: str = "main") -> dict[str, object]:
    return {alias: rows(graph, alias, branch=branch) for alias in ("node:Person", "edge:Knows")}


def conflicts_of(graph: Graph, source: str = "work", into: str = "main", **more: object) -> tuple[Conflict, ...]:
    """The conflicts that a merge raises. The target is unchanged, and a dry run finds the same ones."""
    before, head = content(graph, into), graph.commits(into)[0].id
    with pytest.raises(og.MergeConflicts) as caught:
        graph.merge(source, into, **more)  # type: ignore[arg-type]
    assert caught.value.kind is Kind.MERGE_CONFLICTS
    assert (content(graph, into), graph.commits(into)[0].id) == (before, head)
    found = caught.value.facts["conflicts"]
    assert isinstance(found, tuple)
    assert caught.value.facts["count"] == len(found)
    dry = graph.merge(source, into, dry_run=True, **more)  # type: ignore[arg-type]
    assert (dry.outcome, dry.conflicts, dry.commit) == (MergeOutcome.CONFLICTS, found, None)
    return found


def kinds(graph: Graph, source: str, *, on_conflict: str = "fail") -> list[tuple[ConflictKind, str]]:
    """The kinds and types of the conflicts that a merge into main raises."""
    with pytest.raises(og.MergeConflicts) as caught:
        graph.merge(source, on_conflict=on_conflict)
    found = caught.value.facts["conflicts"]
    assert isinstance(found, tuple)
    return [(one.kind, one.type_name) for one in found]


# -- the matrix of rows


class Cell(NamedTuple):
    """One row of the matrix: the entity in the three states, and what a merge makes of it."""

    base: str | None
    theirs: str | None
    ours: str | None
    result: str | None
    conflict: ConflictKind | None = None


ROWS = {
    "MR-01": Cell(None, None, None, None),
    "MR-02": Cell(None, None, "T", "T"),
    "MR-03": Cell(None, "S", None, "S"),
    "MR-04": Cell(None, "X", "X", "X"),
    "MR-05": Cell(None, "S", "T", "T", ConflictKind.DIVERGENT_INSERT),
    "MR-06": Cell("B", "B", "B", "B"),
    "MR-07": Cell("B", "B", "T", "T"),
    "MR-08": Cell("B", "B", None, None),
    "MR-09": Cell("B", "S", "B", "S"),
    "MR-10": Cell("B", "X", "X", "X"),
    "MR-11": Cell("B", "S", "T", "T", ConflictKind.DIVERGENT_UPDATE),
    "MR-12": Cell("B", "S", None, None, ConflictKind.DELETE_VS_UPDATE),
    "MR-13": Cell("B", None, "B", None),
    "MR-14": Cell("B", None, "T", "T", ConflictKind.DELETE_VS_UPDATE),
    "MR-15": Cell("B", None, None, None),
}


def bring(graph: Graph, branch: str, before: str | None, after: str | None) -> None:
    """Write until the branch has that note, also if nothing changes: the branch moves in every cell."""
    run(graph, f'insert Person {{ name: "{branch}" }}', branch=branch)
    if after is None and before is not None:
        run(graph, 'delete Person where name = "x"', branch=branch)
    elif after is not None and after != before:
        run(graph, f'upsert Person {{ name: "x", note: "{after}" }}', branch=branch)


def note_of(graph: Graph, branch: str = "main") -> object:
    found = rows(graph, "node:Person", branch=branch).get("x")
    return None if found is None else found["note"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("on_conflict", ["fail", "ours", "theirs", "resolve"])
@pytest.mark.parametrize("cell", ROWS)
def test_every_cell_of_the_row_matrix(graph: Graph, cell: str, on_conflict: str, strategy: str) -> None:
    """MR-01: An entity that exists nowhere stays away.

    MR-02: An entity that only the target inserted stays.

    MR-03: An entity that only the source inserted is inserted.

    MR-04: An entity that both sides inserted with equal values stays.

    MR-05: An entity that both sides inserted with different values is a divergent insert.

    MR-06: An entity that nobody changed stays.

    MR-07: An entity that only the target changed stays as the target has it.

    MR-08: An entity that only the target deleted stays deleted.

    MR-09: An entity that only the source changed is updated.

    MR-10: An entity that both sides changed to equal values stays.

    MR-11: An entity that both sides changed to different values is a divergent update.

    MR-12: An entity that the source changed and the target deleted is in conflict.

    MR-13: An entity that only the source deleted is deleted.

    MR-14: An entity that the source deleted and the target changed is in conflict.

    MR-15: An entity that both sides deleted stays deleted.
    """
    base, theirs, ours, result, kind = ROWS[cell]
    if base is not None:
        run(graph, f'insert Person {{ name: "x", note: "{base}" }}')
    graph.branches.create("work")
    bring(graph, "work", base, theirs)
    bring(graph, "main", base, ours)
    version = table_row(graph, "node:Person").version
    if kind is not None and on_conflict == "fail":
        (found,) = conflicts_of(graph, strategy=strategy)
        assert (found.kind, found.entity_kind, found.type_name, found.id) == (kind, "node", "Person", "x")
        seen = [None if image is None else image.properties["note"] for image in (found.base, found.ours, found.theirs)]
        assert seen == [base, ours, theirs]
        return
    if kind is None and on_conflict == "resolve":
        with pytest.raises(InvalidInput):
            graph.merge("work", strategy=strategy, resolve={("Person", "x"): "ours"})
        assert table_row(graph, "node:Person").version == version
        return
    if on_conflict == "resolve":
        merged = graph.merge("work", strategy=strategy, resolve={("Person", "x"): "theirs"})
    else:
        merged = graph.merge("work", strategy=strategy, on_conflict=on_conflict)
    assert merged.outcome is MergeOutcome.MERGED
    assert note_of(graph) == (theirs if kind is not None and on_conflict != "ours" else result)
    assert {"work", "main"} <= rows(graph, "node:Person").keys()
    assert table_row(graph, "node:Person").version == version + 1
    assert graph.verify() == []


@pytest.mark.parametrize("on_conflict", ["fail", "ours", "theirs"])
def test_different_properties_of_one_entity(graph: Graph, on_conflict: str) -> None:
    """With the strategy "property" both changes survive. Only a property that both sides changed is in conflict."""
    graph.branches.create("work")
    run(graph, 'update Person set { age: 40, tags: ["s"] } where name = "Alice"', branch="work")
    run(graph, 'update Person set { note: "ours", tags: ["s"] } where name = "Alice"')
    assert [conflict.kind for conflict in conflicts_of(graph)] == [ConflictKind.DIVERGENT_UPDATE]
    run(graph, 'update Person set { age: 50 } where name = "Dan"', branch="work")
    run(graph, 'update Person set { age: 60, note: "d" } where name = "Dan"')
    (found,) = conflicts_of(graph, strategy="property")
    assert (found.id, found.properties) == ("Dan", ("age",))
    if on_conflict == "fail":
        return
    graph.merge("work", strategy="property", on_conflict=on_conflict)
    people = rows(graph, "node:Person")
    assert {name: people["Alice"][name] for name in ("age", "note", "tags")} == {"age": 40, "note": "ours", "tags": ["s"]}
    assert {name: people["Dan"][name] for name in ("age", "note")} == {"age": 50 if on_conflict == "theirs" else 60, "note": "d"}


# -- the matrix of operations

U, F, M = MergeOutcome.ALREADY_UP_TO_DATE, MergeOutcome.FAST_FORWARD, MergeOutcome.MERGED
OPERATIONS: dict[str, tuple[str, ...]] = {
    "noop": (),
    "addNode": ('insert Person { name: "Eve", note: "SIDE" }',),
    "removeNode": ('delete Person where name = "Alice"',),
    "addEdge": ('insert Knows { from: "Alice", to: "Carol" }',),
    "removeEdge": ('delete Knows where from = "Bob"',),
    "setProp": ('update Person set { age: NUMBER } where name = "Alice"',),
    "netZero": ('insert Knows { from: "Alice", to: "Carol" }', 'delete Knows where from = "Alice"'),
}
INSERTS, UPDATES, DELETES, ORPHANS = (
    ConflictKind.DIVERGENT_INSERT,
    ConflictKind.DIVERGENT_UPDATE,
    ConflictKind.DELETE_VS_UPDATE,
    ConflictKind.ORPHAN_EDGE,
)
EXPECTED: dict[str, tuple[MergeOutcome | ConflictKind, ...]] = {
    #              noop addNode removeNode addEdge removeEdge setProp netZero
    "noop": (U, U, U, U, U, U, U),
    "addNode": (F, INSERTS, M, M, M, M, M),
    "removeNode": (F, M, M, ORPHANS, M, DELETES, M),
    "addEdge": (F, M, ORPHANS, M, M, M, M),
    "removeEdge": (F, M, M, M, M, M, M),
    "setProp": (F, M, DELETES, M, M, UPDATES, M),
    "netZero": (F, M, M, M, M, M, M),
}
CELLS = [(theirs, ours, EXPECTED[theirs][at]) for theirs in OPERATIONS for at, ours in enumerate(OPERATIONS)]


def operate(graph: Graph, name: str, *, branch: str, side: int) -> None:
    for text in OPERATIONS[name]:
        run(graph, text.replace("SIDE", branch).replace("NUMBER", str(40 + side)), branch=branch)


def facts(graph: Graph) -> tuple[set[str], object, int]:
    """The names of people, Alice's age, and the number of edges."""
    people = rows(graph, "node:Person")
    return set(people), people.get("Alice", {}).get("age"), len(rows(graph, "edge:Knows"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("theirs", "ours", "expected"), CELLS, ids=[f"{theirs}-{ours}" for theirs, ours, _ in CELLS])
def test_every_cell_of_the_operation_matrix(
    graph: Graph, theirs: str, ours: str, expected: MergeOutcome | ConflictKind, strategy: str
) -> None:
    """M-04: A conflict leaves the target exactly as before, and the count of conflicts is exact.

    M-10: Every pair of operations on two branches has its outcome.

    M-13: After a conflict, the target is as its own operation left it.
    """
    start = facts(graph)
    graph.branches.create("work")
    operate(graph, theirs, branch="work", side=1)
    operate(graph, ours, branch="main", side=2)
    alone, head = facts(graph), graph.commits()[0].id
    if isinstance(expected, ConflictKind):
        (found,) = conflicts_of(graph, strategy=strategy)
        assert found.kind is expected
        assert facts(graph) == alone
        return
    result = graph.merge("work", strategy=strategy)
    assert result.outcome is expected
    if expected is U:
        assert (result.commit, graph.commits()[0].id, facts(graph)) == (None, head, alone)
        return
    assert result.commit is not None
    assert result.commit.parents == (head, graph.commits("work")[0].id)
    assert facts(graph) == joint(start, theirs, ours)
    assert graph.merge("work").outcome is U
    assert graph.verify() == []


def joint(start: tuple[set[str], object, int], *operations: str) -> tuple[set[str], object, int]:
    """The facts after all these operations."""
    names, age, edges = start
    if "removeNode" in operations:
        names, age = names - {"Alice"}, None
    elif "setProp" in operations:
        age = 41 if operations[0] == "setProp" else 42
    if "addNode" in operations:
        names = names | {"Eve"}
    added = sum(operation == "addEdge" for operation in operations)
    return names, age, (0 if "removeEdge" in operations else edges) + added


# -- outcomes and lineage


def test_a_fresh_branch_is_up_to_date(graph: Graph) -> None:
    """M-01: A branch without commits of its own is merged as up to date, without a commit."""
    graph.branches.create("work")
    before = graph.commits()
    assert graph.merge("work").outcome is U
    assert graph.merge("main", "work").outcome is U
    assert graph.commits() == before


def test_commits_have_two_parents_and_the_actor(graph: Graph) -> None:
    """M-02: If the target has not moved, the merge is a fast-forward: one commit with two parents.

    M-03: Otherwise it is a merge with the same parents, and the actor is recorded.
    """
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    head = graph.commits()[0].id
    merged = graph.merge("work", message="from work").commit
    assert merged is not None
    assert merged.parents == (head, graph.commits("work")[0].id)
    assert (merged.kind, merged.actor, merged.message) == (CommitKind.MERGE, "act-maker", "from work")
    assert [commit.id for commit in graph.commits()[:3]] == [merged.id, graph.commits("work")[0].id, head]


def test_two_merges_in_turn(graph: Graph) -> None:
    """M-25: A second merge starts from the commit that the first one merged."""
    graph.branches.create("work")
    for step in range(3):
        run(graph, f'update Person set {{ age: {step} }} where name = "Dan"', branch="work")
        run(graph, f'update Person set {{ age: {100 + step} }} where name = "Carol"')
        assert graph.merge("work").outcome is M
    people = rows(graph, "node:Person")
    assert (people["Dan"]["age"], people["Carol"]["age"]) == (2, 102)
    assert graph.merge("main", "work").outcome is F
    assert content(graph, "work") == content(graph)


def test_a_merge_into_a_branch_forks_its_tables(graph: Graph) -> None:
    """M-24: A merge into a branch leaves main as it is; the tables are forked for the target.

    FF-07: A target that never wrote a table takes the changes on its own version, even if main has moved on.

    FF-08: Branches of branches are merged like all others.
    """
    graph.branches.create("target")
    graph.branches.create("work", from_="target")
    graph.branches.create("deep", from_="work")
    run(graph, 'insert Person { name: "Eve" }', branch="deep")
    run(graph, 'insert Person { name: "Main" }')
    before = content(graph)
    assert graph.merge("deep", "target").outcome is F
    assert content(graph) == before
    assert set(rows(graph, "node:Person", branch="target")) == {"Alice", "Bob", "Carol", "Dan", "Eve"}
    assert table_row(graph, "node:Person", branch="target").owner is not None
    assert table_row(graph, "edge:Knows", branch="target").owner is None
    assert graph.verify() == []


def test_history_survives_the_deletion_of_a_merged_branch(graph: Graph) -> None:
    """M-33: The source can be deleted with the merge. A refused deletion does not undo the merge."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    theirs = graph.commits("work")[0]
    graph.branches.create("child", from_="work")
    kept = graph.merge("work", delete_source=True)
    assert (kept.outcome, kept.branch_deleted) == (F, False)
    assert "child" in str(kept.branch_delete_error)
    graph.branches.delete("child")
    assert graph.merge("work", delete_source=True).branch_deleted is True
    assert graph.branches.list() == ["main"]
    assert theirs in graph.commits()
    assert "Eve" in rows(graph, "node:Person")
    assert og.open(graph.uri).verify() == []


def test_the_base_may_be_on_a_deleted_branch(graph: Graph) -> None:
    """The nearest common commit cannot be read any more, so an older one is the base. Equal changes of both sides are no conflict."""
    graph.branches.create("first")
    graph.branches.create("second")
    run(graph, 'insert Person { name: "Eve" }', branch="first")
    graph.merge("first", "second")
    graph.merge("first", delete_source=True)
    run(graph, 'update Person set { age: 1 } where name = "Dan"', branch="second")
    run(graph, 'update Person set { age: 1 } where name = "Carol"')
    assert graph.merge("second").outcome is M
    people = rows(graph, "node:Person")
    assert (people["Dan"]["age"], people["Carol"]["age"], "Eve" in people) == (1, 1, True)


def test_crossing_merges(graph: Graph) -> None:
    graph.branches.create("a")
    graph.branches.create("b")
    run(graph, 'insert Person { name: "A" }', branch="a")
    run(graph, 'insert Person { name: "B" }', branch="b")
    at_a, at_b = graph.commits("a")[0].id, graph.commits("b")[0].id
    graph.merge("a", "b")
    run(graph, 'insert Person { name: "A2" }', branch="a")
    graph.merge("b", "a")
    run(graph, 'update Person set { age: 1 } where name = "B"', branch="a")
    run(graph, 'update Person set { age: 2 } where name = "A"', branch="b")
    assert graph.merge("a", "b").outcome is M
    assert graph.merge("b", "a").outcome is F
    assert content(graph, "a") == content(graph, "b")
    assert {at_a, at_b} <= {commit.id for commit in graph.commits("a")}


def test_the_source_that_was_read_first_is_merged(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """M-26: If the source moves during the merge, the commit that was read first is merged and is the second parent.

    M-27: If the target moves during the merge, the comparison is made again on the new state; nothing of it is lost.
    """
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    captured = graph.commits("work")[0].id
    other = og.open(graph.uri)
    plan_type = three_way.plan_type
    moved: list[Receipt] = []

    def meanwhile(*arguments: Any, **more: Any) -> object:
        if not moved:
            moved.append(run(other, 'insert Person { name: "Late" }', branch="work"))
            moved.append(run(other, 'update Person set { age: 7 } where name = "Dan"'))
        return plan_type(*arguments, **more)

    monkeypatch.setattr(landing, "plan_type", meanwhile)
    merged = graph.merge("work").commit
    assert merged is not None
    assert moved[1].commit is not None
    assert merged.parents == (moved[1].commit.id, captured)
    people = rows(graph, "node:Person")
    assert (people["Dan"]["age"], "Eve" in people, "Late" in people) == (7, True, False)


# -- net zero


def test_changes_that_cancel_out(graph: Graph) -> None:
    """NZ-01: A source whose changes cancel out is a fast-forward with a commit; the next merge is up to date.

    NZ-02: Such a merge adds one manifest version and moves no table.

    NZ-05: The same holds for a target that owns its tables.
    """
    for target in ("main", "target"):
        if target != "main":
            graph.branches.create(target)
            run(graph, 'update Person set { age: 5 } where name = "Dan"', branch=target)
        graph.branches.create(f"work-{target}", from_=target)
        for step in OPERATIONS["netZero"]:
            run(graph, step, branch=f"work-{target}")
        before = graph.snapshot(target)
        assert graph.merge(f"work-{target}", target).outcome is F
        after = graph.snapshot(target)
        assert (after.tables, after.manifest_version) == (before.tables, before.manifest_version + 1)
        assert graph.merge(f"work-{target}", target).outcome is U
        assert graph.merge(f"work-{target}", target).outcome is U


def test_only_tables_with_a_net_change_are_published(graph: Graph) -> None:
    """NZ-03: The rows that the target changed meanwhile stay.

    NZ-04: Of a table with and a table without a net change, only the first is published.
    """
    graph.branches.create("work")
    for step in (*OPERATIONS["netZero"], 'insert Person { name: "Eve" }'):
        run(graph, step, branch="work")
    run(graph, 'update Person set { age: 5 } where name = "Dan"')
    merged = graph.merge("work").commit
    assert merged is not None
    assert [table.alias for table in merged.tables] == ["node:Person"]
    people = rows(graph, "node:Person")
    assert (people["Dan"]["age"], "Eve" in people) == (5, True)


# -- rules of the schema

RULES = """
node Person {
  name: String @key   mail: String? @unique   age: I32?   first: String?   last: String?
  @range(age, 0..150)   @unique(first, last)
}
edge Boss: Person -> Person @card(0..1) { @unique(src, dst) }
"""


@pytest.mark.parametrize(
    ("theirs", "ours", "kind", "type_name"),
    [
        (
            'update Person set { mail: "m" } where name = "a"',
            'update Person set { mail: "m" } where name = "b"',
            ConflictKind.UNIQUE_VIOLATION,
            "Person",
        ),
        (
            'update Person set { first: "f", last: "l" } where name = "a"',
            'update Person set { first: "f", last: "l" } where name = "b"',
            ConflictKind.UNIQUE_VIOLATION,
            "Person",
        ),
        (
            'insert Boss { from: "a", to: "b" }',
            'insert Boss { from: "a", to: "c" }',
            ConflictKind.CARDINALITY_VIOLATION,
            "Boss",
        ),
        ('delete Person where name = "c"', 'insert Boss { from: "a", to: "c" }', ConflictKind.ORPHAN_EDGE, "Boss"),
    ],
    ids=["unique", "unique pair", "card", "orphan"],
)
def test_the_merged_graph_keeps_the_rules(tmp_path: Path, theirs: str, ours: str, kind: ConflictKind, type_name: str) -> None:
    """M-05: Conflicts between rows come first; only if there are none are the rules of the schema checked.

    M-20: A rule that the merged graph would break is a conflict of its own kind.

    M-21: The rules are checked for every table, also for one that the target takes over unchanged.
    """
    graph = og.init(tmp_path / "r", schema=RULES)
    run(graph, " ".join(f'insert Person {{ name: "{name}" }}' for name in "abcd"))
    graph.branches.create("work")
    run(graph, theirs, branch="work")
    run(graph, ours)
    head = graph.commits()[0].id
    for settle in ("fail", "theirs"):
        assert kinds(graph, "work", on_conflict=settle) == [(kind, type_name)]
    run(graph, 'update Person set { age: 1 } where name = "d"', branch="work")
    run(graph, 'update Person set { age: 2 } where name = "d"')
    assert kinds(graph, "work") == [(ConflictKind.DIVERGENT_UPDATE, "Person")]
    assert head in [commit.id for commit in graph.commits()[1:]]


def test_edges_are_known_by_their_id(tmp_path: Path, graph: Graph) -> None:
    """M-11: Edges that both sides added between the same nodes are both kept, unless the schema forbids it.

    M-12: A value that both sides set is no conflict.
    """
    graph.branches.create("work")
    for branch in ("work", "main"):
        run(graph, 'insert Knows { from: "Alice", to: "Carol" }', branch=branch)
        run(graph, 'update Person set { age: 77 } where name = "Dan"', branch=branch)
    assert graph.merge("work").outcome is M
    assert len(rows(graph, "edge:Knows")) == 3
    strict = og.init(tmp_path / "s", schema=RULES.replace("@card(0..1)", ""))
    run(strict, 'insert Person { name: "a" } insert Person { name: "b" } insert Person { name: "c" }')
    strict.branches.create("work")
    run(strict, 'insert Boss { from: "a", to: "b" }', branch="work")
    run(strict, 'insert Boss { from: "a", to: "c" }')
    assert strict.merge("work").outcome is M
    run(strict, 'insert Boss { from: "b", to: "c" }', branch="work")
    run(strict, 'insert Boss { from: "b", to: "c" }')
    with pytest.raises(og.MergeConflicts):
        strict.merge("work")


def test_blobs_are_carried_over(tmp_path: Path) -> None:
    """M-32: Blobs are merged byte by byte: empty, null and large ones.

    NZ-07: A blob of the same length with other bytes is a change.
    """
    graph = og.init(tmp_path / "b", schema="node Doc { name: String @key  body: Blob?  n: I32? }")

    def put(branch: str, **bodies: str | None) -> None:
        graph.load([{"type": "Doc", "data": {"name": name, "body": body}} for name, body in bodies.items()], branch=branch)

    put("main", a="base64:YWE=", b="base64:", c=None, d="base64:YWE=")
    graph.branches.create("work")
    put("work", a="base64:YWI=", b=None, c="base64:", e=f"base64:{'A' * 400_000}")
    run(graph, 'update Doc set { n: 1 } where name = "d"', branch="work")
    run(graph, 'update Doc set { n: 1 } where name = "d"')
    graph.merge("work", strategy="property")
    assert list(graph.diff("main", "work")) == []
    assert graph.blob("node", "Doc", "e", "body").size == 300_000
    assert graph.verify(deep=True) == []


# -- schemas that differ


def test_a_target_with_a_newer_schema(graph: Graph) -> None:
    """A source with a schema that the target had before is merged: what it does not know is null, and names do not matter."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve", age: 3 }', branch="work")
    run(graph, 'update Person set { age: 31 } where name = "Alice"', branch="work")
    schema = graph.schema.replace("node Person {", 'node Human @rename_from("Person") { mail: String?').replace(
        "Person -> Person", "Human -> Human"
    )
    graph.apply_schema(schema.replace("age: I32?", 'years: I32? @rename_from("age")'))
    run(graph, 'update Human set { mail: "a" } where name = "Alice"')
    assert graph.merge("work", strategy="property").outcome is M
    people = rows(graph, "node:Human")
    assert (people["Eve"]["years"], people["Eve"]["mail"]) == (3, None)
    assert (people["Alice"]["years"], people["Alice"]["mail"]) == (31, "a")
    assert graph.verify() == []


WIDER = """
node Person { name: String @key  age: I32?  tags: [String]?  note: String?  mail: String?  scores: [F64]? }
edge Knows: Person -> Person { since: I32?  weight: F64? }
node City { name: String @key  photo: Blob? }
edge LivesIn: Person -> City
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("into", ["main", "target"])
def test_a_source_with_a_wider_schema(graph: Graph, strategy: str, into: str) -> None:
    """A schema that only adds to that of the target is taken over, with the rows of both sides, in one commit."""
    graph.ensure_indices()
    for branch in ("target", "work"):
        graph.branches.create(branch)
    graph.apply_schema(WIDER, "work")
    run(graph, 'update Person set { mail: "a", scores: [1.5] } where name = "Alice"', branch="work")
    run(graph, 'insert Person { name: "Eve", mail: "e" } insert City { name: "Rome" }', branch="work")
    run(graph, 'insert LivesIn { from: "Alice", to: "Rome" }', branch="work")
    run(graph, 'delete Person where name = "Bob"', branch="work")
    run(graph, 'update Person set { age: 7 } where name = "Dan"', branch=into)
    run(graph, 'insert Person { name: "New" }', branch=into)
    run(graph, 'delete Person where name = "Carol"', branch=into)
    run(graph, 'update Person set { note: "n" } where name = "Alice"', branch=into)
    if strategy == "entity":
        assert [found.id for found in conflicts_of(graph, "work", into)] == ["Alice"]
    merged = graph.merge("work", into, strategy=strategy, on_conflict="theirs")
    assert merged.commit is not None
    assert {table.alias for table in merged.commit.tables} == {"node:Person", "edge:Knows", "node:City", "edge:LivesIn"}
    people = rows(graph, "node:Person", branch=into)
    assert set(people) == {"Alice", "Dan", "Eve", "New"}
    assert (people["Alice"]["mail"], people["Alice"]["scores"], people["Alice"]["note"]) == (
        "a",
        [1.5],
        "n" if strategy == "property" else None,
    )
    assert (people["Dan"]["age"], people["Dan"]["mail"], people["Eve"]["mail"]) == (7, None, "e")
    assert graph.schema_of(into) == graph.schema_of("work")
    assert graph.merge("work", into).outcome is U
    found = graph.query('match { $p: Person { name: "Alice" }  $p livesIn $c } return { $c.name as city }', branch=into).rows
    assert found == [{"city": "Rome"}]
    run(graph, 'insert City { name: "Oslo" } insert LivesIn { from: "Dan", to: "Oslo" }', branch=into)
    run(graph, 'update Person set { mail: "d" } where name = "Dan"', branch=into)
    graph.branches.delete("work")
    assert og.open(graph.uri).verify(deep=True) == []
    earlier = graph.commits(into)[3].id
    assert len(graph.query("match { $p: Person } return { $p.name as name }", branch=into, at=earlier).rows) == 4
    assert {row["city"] for row in graph.query("match { $p: Person  $p livesIn $c } return { $c.name as city }", branch=into)} == {
        "Rome",
        "Oslo",
    }


THEIR_SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  note: String? }
// about
edge Knows: Person -> Person { since: I32?  weight: F64? }
node City { name: String @key  photo: Blob? }
edge LivesIn: Person -> City
"""
OUR_SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  note: String?  mail: String? }
edge Knows: Person -> Person { since: I32? }
node Aunt { name: String @key }
edge AuntOf: Aunt -> Person  // the last line
"""
JOINT_SCHEMA = """
node Person { name: String @key  age: I32?  tags: [String]?  note: String?  mail: String? }
edge Knows: Person -> Person { since: I32?  weight: F64? }
node Aunt { name: String @key }
edge AuntOf: Aunt -> Person  // the last line
node City { name: String @key  photo: Blob? }
edge LivesIn: Person -> City
"""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("into", ["main", "target"])
def test_schemas_to_which_both_sides_added(graph: Graph, strategy: str, into: str) -> None:
    """What each side added to the schema is in that of the merge, with the rows of both, in one commit."""
    for branch in ("target", "work"):
        graph.branches.create(branch)
    graph.apply_schema(THEIR_SCHEMA, "work")
    graph.apply_schema(OUR_SCHEMA, into)
    run(graph, 'insert City { name: "Rome" } insert LivesIn { from: "Alice", to: "Rome" }', branch="work")
    run(graph, 'update Knows set { weight: 1.5 } where from = "Bob"', branch="work")
    run(graph, 'update Person set { age: 31 } where name = "Alice"', branch="work")
    run(graph, 'insert Aunt { name: "Fay" } insert AuntOf { from: "Fay", to: "Carol" }', branch=into)
    run(graph, 'insert Knows { from: "Dan", to: "Alice", since: 7 }', branch=into)
    run(graph, 'update Person set { mail: "d" } where name = "Dan"', branch=into)
    run(graph, 'update Person set { mail: "a" } where name = "Alice"', branch=into)
    if strategy == "entity":
        assert [found.id for found in conflicts_of(graph, "work", into)] == ["Alice"]
    merged = graph.merge("work", into, strategy=strategy, on_conflict="theirs")
    assert (merged.outcome, merged.commit is not None) == (M, True)
    assert graph.schema_of(into) == JOINT_SCHEMA
    assert not graph.apply_schema(JOINT_SCHEMA, into).applied
    assert graph.merge("work", into).outcome is U
    people = rows(graph, "node:Person", branch=into)
    assert (people["Alice"]["age"], people["Alice"]["mail"], people["Dan"]["mail"]) == (31, "a" if strategy == "property" else None, "d")
    assert {(row["since"], row["weight"]) for row in rows(graph, "edge:Knows", branch=into).values()} == {(None, 1.5), (7, None)}
    asked = "match { $a: Aunt  $a auntOf $p  $q knows $p  $r: Person  $r livesIn $c } return { $a.name as aunt, $c.name as city }"
    assert graph.query(asked, branch=into).rows == [{"aunt": "Fay", "city": "Rome"}]
    run(graph, 'insert LivesIn { from: "Dan", to: "Rome" } insert AuntOf { from: "Fay", to: "Dan" }', branch=into)
    run(graph, 'update Person set { mail: "c" } where name = "Carol"', branch=into)
    assert graph.merge(into, "work").outcome is F
    assert (graph.schema_of("work"), list(graph.diff(into, "work"))) == (JOINT_SCHEMA, [])
    run(graph, 'update Person set { mail: "w", age: 1 } where name = "Carol"', branch="work")
    assert graph.merge("work", into, delete_source=True).branch_deleted
    assert og.open(graph.uri).verify(deep=True) == []


WORK_EXTENDED = """
node Person {
  name: String @key
  age: I32? tags: [String]? note: String?  // as before
  mail: String? @index photo: Blob?
}
edge Knows: Person -> Person { since: I32?  weight: F64? }
"""
INTO_EXTENDED = """
node Person {
  name: String @key
  age: I32? tags: [String]? note: String?
  scores: [F64]?
  alias: String?  // the last line
}
edge Knows: Person -> Person { since: I32?  kind: enum(close, far)?  }
"""
BOTH_EXTENDED = """
node Person {
  name: String @key
  age: I32? tags: [String]? note: String?
  scores: [F64]?
  alias: String?  // the last line
  mail: String? @index
  photo: Blob?
}
edge Knows: Person -> Person { since: I32?  kind: enum(close, far)?  weight: F64? }
"""


@pytest.mark.parametrize("in_files", [False, True], ids=["in memory", "in files"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("into", ["main", "target"])
def test_types_to_which_both_sides_added_properties(
    graph: Graph, strategy: str, into: str, in_files: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of the target gets the columns, the rows that come and those that go in one transaction, its indexes stay, and every
    value is in its column.
    """
    if in_files:
        monkeypatch.setattr(landing, "HELD_BYTES", 1)
    graph.apply_schema(graph.schema.replace("age: I32?", "age: I32?  gone: String?"))
    graph.apply_schema(graph.schema.replace("gone: String?", ""))  # so that columns are not numbered without gaps
    graph.ensure_indices()
    for branch in ("target", "work"):
        graph.branches.create(branch)
    graph.apply_schema(WORK_EXTENDED, "work")
    graph.apply_schema(INTO_EXTENDED, into)
    photo = 'query q($b: Blob) { update Person set { mail: "a", age: 31, photo: $b } where name = "Alice" }'
    graph.mutate(photo, params={"b": "base64:AAEC"}, branch="work")
    run(graph, 'delete Person where name = "Bob"', branch="work")
    run(graph, 'insert Person { name: "New", mail: "n", note: "x" }', branch="work")
    run(graph, 'insert Knows { from: "Dan", to: "Carol", weight: 1.5 }', branch="work")
    run(graph, 'update Person set { alias: "al", scores: [1.5] } where name = "Alice"', branch=into)
    run(graph, 'update Person set { alias: "da" } where name = "Dan"', branch=into)
    run(graph, 'insert Knows { from: "Dan", to: "Alice", kind: "far" }', branch=into)
    old = graph.commits(into)[0]
    before = content(graph, into)
    if strategy == "entity":
        assert [found.id for found in conflicts_of(graph, "work", into)] == ["Alice"]
    merged = graph.merge("work", into, strategy=strategy, on_conflict="theirs")
    assert merged.commit is not None
    assert (merged.outcome, merged.commit.parents[0]) == (M, old.id)
    assert graph.schema_of(into) == BOTH_EXTENDED
    assert not graph.apply_schema(BOTH_EXTENDED, into).applied
    people = rows(graph, "node:Person", branch=into)
    ours = ("al", [1.5]) if strategy == "property" else (None, None)
    assert set(people) == {"Alice", "Carol", "Dan", "New"}
    assert [people["Alice"][name] for name in ("age", "mail", "alias", "scores")] == [31, "a", *ours]
    assert graph.blob("node", "Person", "Alice", "photo", branch=into).read() == bytes([0, 1, 2])
    assert [people["Dan"][name] for name in ("alias", "mail", "photo")] == ["da", None, None]
    assert [people["New"][name] for name in ("note", "mail", "alias", "scores")] == ["x", "n", None, None]
    ends = {(row["src"], row["dst"]): (row["kind"], row["weight"]) for row in rows(graph, "edge:Knows", branch=into).values()}
    assert (ends["Dan", "Carol"], ends["Dan", "Alice"]) == ((None, 1.5), ("far", None))
    assert content_at(graph, into, old.id) == before
    for name in ("Alice", "New", "Carol", "Bob"):  # by the index that the target had
        found = graph.query("match { $p: Person { name: $n } } return { $p.name as name }", params={"n": name}, branch=into).rows
        assert found == ([{"name": name}] if name != "Bob" else [])
    assert graph.merge("work", into).outcome is U
    graph.ensure_indices(into)
    assert graph.query('match { $p: Person { mail: "n" } } return { $p.name as name }', branch=into).rows == [{"name": "New"}]
    assert graph.merge(into, "work").outcome is F
    assert (graph.schema_of("work"), list(graph.diff(into, "work"))) == (BOTH_EXTENDED, [])
    graph.optimize(into)
    assert og.open(graph.uri).verify(deep=True) == []


def content_at(graph: Graph, branch: str, commit: str) -> dict[str, object]:
    """What `content` told of a branch when this was its newest commit."""
    graph.branches.create("then", at=commit)
    found = content(graph, "then")
    graph.branches.delete("then")
    return found


def test_added_properties_alone(graph: Graph) -> None:
    """Where no row changed, the columns come alone. The merge of the same two again, the other way, has them too."""
    graph.branches.create("work")
    graph.apply_schema(WORK_EXTENDED, "work")
    graph.apply_schema(INTO_EXTENDED)
    before = content(graph)
    assert graph.merge("work").commit is not None
    assert graph.schema == BOTH_EXTENDED
    people = rows(graph, "node:Person")
    assert {name: {key: row[key] for key in before["node:Person"][name]} for name, row in people.items()} == before["node:Person"]  # type: ignore[index]
    run(graph, 'update Person set { mail: "m", alias: "a" } where name = "Dan"')
    assert graph.merge("main", "work").outcome is F
    assert rows(graph, "node:Person", branch="work") == rows(graph, "node:Person")
    assert og.open(graph.uri).verify(deep=True) == []


def test_an_edge_type_of_one_side_needs_the_nodes_that_the_other_deletes(graph: Graph) -> None:
    graph.branches.create("work")
    graph.apply_schema(THEIR_SCHEMA, "work")
    graph.apply_schema(OUR_SCHEMA)
    run(graph, 'insert City { name: "Rome" } insert LivesIn { from: "Dan", to: "Rome" }', branch="work")
    run(graph, 'delete Person where name = "Carol"', branch="work")
    run(graph, 'insert Aunt { name: "Fay" } insert AuntOf { from: "Fay", to: "Carol" }')
    run(graph, 'delete Person where name = "Dan"')
    assert kinds(graph, "work") == [(ConflictKind.ORPHAN_EDGE, "AuntOf"), (ConflictKind.ORPHAN_EDGE, "LivesIn")]


@pytest.mark.parametrize(
    ("theirs", "ours", "reason"),
    [
        ("note: String?  mail: String?", "note: String?  mail: String?", "both added a property Person.mail"),
        (
            "note: String? @index  mail: String?",
            "note: String?  phone: String?",
            "both changed the declaration of node:Person, and not only",
        ),
        ("note: String? }\nnode Town { name: String @key", "note: String? }\nnode Town { slug: String @key", "both added a type node:Town"),
        ("note: String?  mail: String?", 'text: String? @rename_from("note")', "more than types and properties was added"),
        ("note: String? }\nnode Town { name: String @key", "", "more than types and properties was added"),
    ],
)
def test_additions_that_have_no_joint_schema(graph: Graph, theirs: str, ours: str, reason: str) -> None:
    graph.branches.create("work")
    schema, before = graph.schema, graph.commits()[0].id
    graph.apply_schema(schema.replace("note: String?", theirs), "work")
    graph.apply_schema(schema.replace("note: String?", ours))
    (found,) = conflicts_of(graph)
    assert (found.kind, reason in found.message) == (ConflictKind.SCHEMA_CONFLICT, True)
    assert graph.commits()[1].id == before


def test_a_new_edge_needs_its_nodes(graph: Graph) -> None:
    """The rows of types that the target does not have are checked like all others."""
    graph.branches.create("work")
    graph.apply_schema(WIDER, "work")
    run(graph, 'insert City { name: "Rome" } insert LivesIn { from: "Dan", to: "Rome" }', branch="work")
    run(graph, 'delete Person where name = "Dan"')
    assert kinds(graph, "work") == [(ConflictKind.ORPHAN_EDGE, "LivesIn")]


def test_a_rename_is_not_taken_over(graph: Graph) -> None:
    graph.branches.create("work")
    graph.apply_schema(graph.schema.replace("note: String?", 'text: String? @rename_from("note")'), "work")
    assert kinds(graph, "work") == [(ConflictKind.SCHEMA_CONFLICT, "work")]


def test_schemas_that_cannot_be_merged(graph: Graph) -> None:
    """M-29: Sides that disagree about the identity of a type or property are refused, with nothing written."""
    graph.branches.create("work")
    graph.branches.create("other")
    run(graph, 'insert Person { name: "Eve", note: "n" }', branch="work")
    graph.apply_schema(graph.schema.replace("note: String?", ""))
    (found,) = conflicts_of(graph)
    assert (found.kind, found.type_name, found.properties) == (ConflictKind.SCHEMA_CONFLICT, "Person", ("note",))
    with pytest.raises(og.MergeConflicts, match=r"the target has no property Person\.note.*apply one schema to both branches first"):
        graph.merge("work")
    graph.apply_schema("node Thing { name: String @key }", branch="other")
    with pytest.raises(og.MergeConflicts, match="'other' and 'main' have different schemas"):
        graph.merge("other")
    assert kinds(graph, "other") == [(ConflictKind.SCHEMA_CONFLICT, "other")]


# -- refusals


def test_wrong_arguments_write_nothing(graph: Graph) -> None:
    """B-20: A branch is not merged into itself. Unknown branches, words and choices are refused, with nothing written."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    before = graph.snapshot()
    wrong: list[tuple[type[OmniGraphError], str, str, dict[str, object]]] = [
        (InvalidInput, "work", "work", {}),
        (NotFound, "wrok", "main", {}),
        (NotFound, "work", "mian", {}),
        (InvalidInput, "work", "main", {"strategy": "line"}),
        (InvalidInput, "work", "main", {"on_conflict": "mine"}),
        (InvalidInput, "work", "main", {"resolve": {("Person", "Eve"): "ours"}}),
        (InvalidInput, "work", "main", {"resolve": {("Person", "Eve"): "both"}}),
        (InvalidInput, "work", "main", {"resolve": {"Eve": "ours"}}),
    ]
    for kind, source, into, more in wrong:
        for dry_run in (False, True):
            with pytest.raises(kind):
                graph.merge(source, into, dry_run=dry_run, **more)  # type: ignore[arg-type]
    assert graph.snapshot() == before
    reader = og.open(graph.uri, mode="r")
    with pytest.raises(Unsupported):
        reader.merge("work")
    assert reader.merge("work", dry_run=True).inserted == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_and_an_edge_of_one_name_are_settled_each_by_itself(graph: Graph, strategy: str) -> None:
    """A node type and an edge type may have the same name, and their entities the same id. A choice never settles both."""
    graph.apply_schema(graph.schema + "\nnode Knows { name: String @key  since: I32? }")

    def put(branch: str, since: int) -> None:
        node, edge = {"type": "Knows", "data": {"name": "x", "since": since}}, {"id": "x", "since": since}
        graph.load([node, {"edge": "Knows", "from": "Alice", "to": "Dan", "data": edge}], branch=branch)

    put("main", 0)
    graph.branches.create("work")
    put("work", 1)
    put("main", 2)
    before = graph.snapshot()
    wrong: list[tuple[dict[tuple[str, ...], str], str]] = [
        ({("Knows", "x"): "theirs"}, r"Knows 'x' is a node and an edge, .* as in \('node', 'Knows', 'x'\)"),
        ({("edge", "Knows", "x"): "theirs", ("Knows", "x"): "ours"}, "named twice"),
        ({("Edge", "Knows", "x"): "theirs"}, "'node' or 'edge', not 'Edge'"),
        ({("edge", "Person", "x"): "theirs"}, "edge Person 'x' is settled by the caller, but is not in conflict"),
    ]
    for resolve, said in wrong:
        with pytest.raises(InvalidInput, match=said):
            graph.merge("work", strategy=strategy, resolve=resolve)
    assert [one.entity_kind for one in conflicts_of(graph, strategy=strategy, resolve={("node", "Knows", "x"): "ours"})] == ["edge"]
    assert graph.snapshot() == before
    graph.merge("work", strategy=strategy, resolve={("node", "Knows", "x"): "ours", ("edge", "Knows", "x"): "theirs"})
    assert (rows(graph, "node:Knows")["x"]["since"], rows(graph, "edge:Knows")["x"]["since"]) == (2, 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_of_many_conflicts_are_told_in_parts(graph: Graph, monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    """Of 5,000 conflicts the error has the first 1,000 and the number; all are told by id, and can be settled one by one (M-04)."""
    graph.load(people(range(5_000), age=0))
    graph.branches.create("work")
    graph.load(people(range(5_000), age=1, note="t"), branch="work")
    graph.load(people(range(5_000), age=2))
    read: list[int] = []
    side_read = pairs.Side.read

    def watched(side: pairs.Side, addresses: Addresses) -> pa.Table:
        read.append(len(addresses))
        return side_read(side, addresses)

    monkeypatch.setattr(pairs.Side, "read", watched)
    monkeypatch.setattr(pairs, "MOST_ROWS", 1_000)
    with pytest.raises(og.MergeConflicts) as caught:
        graph.merge("work", strategy=strategy)
    first = caught.value.facts["conflicts"]
    assert isinstance(first, tuple)
    assert (len(first), caught.value.facts["count"]) == (1_000, 5_000)
    every = graph.merge_conflicts("work", strategy=strategy)
    assert next(every) == first[0]
    read.clear()
    told = [first[0], *every]
    assert max(read) <= 1_024, "no more rows are read at once, however many conflicts are left"
    assert tuple(told[:1_000]) == first
    assert [one.id for one in told] == [f"p{at:05}" for at in range(5_000)]
    assert {one.properties for one in told} == {("age",) if strategy == "property" else ()}
    assert {(one.base.properties["age"], one.ours.properties["age"], one.theirs.properties["age"]) for one in told} == {(0, 2, 1)}
    choices = {(one.type_name, str(one.id)): ("ours", "theirs")[at % 2] for at, one in enumerate(told)}
    half = dict(list(choices.items())[:2_500])
    assert [one.id for one in graph.merge_conflicts("work", strategy=strategy, resolve=half)] == [one.id for one in told[2_500:]]
    assert list(graph.merge_conflicts("work", strategy=strategy, resolve=choices)) == []
    merged = graph.merge("work", strategy=strategy, resolve=choices)
    assert merged.updated == (5_000 if strategy == "property" else 2_500)
    found = rows(graph, "node:Person")
    assert [found[f"p{at:05}"]["age"] for at in range(5_000)] == [2, 1] * 2_500
    assert found["p00000"]["note"] == ("t" if strategy == "property" else None)


def test_conflicts_that_are_told_are_those_of_the_merge(graph: Graph) -> None:
    """Rules that break are told too, and what cannot be merged at all is refused at once."""
    graph.branches.create("work")
    assert list(graph.merge_conflicts("work")) == []
    run(graph, 'insert Knows { from: "Alice", to: "Dan" }', branch="work")
    run(graph, 'delete Person where name = "Dan"')
    assert tuple(graph.merge_conflicts("work")) == conflicts_of(graph)
    head = graph.commits()[0].id
    with pytest.raises(NotFound):
        graph.merge_conflicts("nowhere")
    with pytest.raises(InvalidInput):
        graph.merge_conflicts("main")
    with pytest.raises(InvalidInput):
        graph.merge_conflicts("work", strategy="all")
    with pytest.raises(InvalidInput):
        graph.merge_conflicts("work", resolve={("Person", "Dan"): "ours"})
    reader = og.open(graph.uri, mode="r")
    assert tuple(reader.merge_conflicts("work")) == conflicts_of(graph)
    assert graph.commits()[0].id == head


def test_all_broken_rules_are_told(graph: Graph) -> None:
    """An error describes the first ones; `merge_conflicts` describes all."""
    graph.branches.create("work")
    graph.load([{"edge": "Knows", "from": "Alice", "to": "Dan", "data": {"id": f"k{at}"}} for at in range(1_200)], branch="work")
    run(graph, 'delete Person where name = "Dan"')
    dry = graph.merge("work", dry_run=True)
    assert (dry.conflict_count, len(dry.conflicts)) == (1_200, 1_000)
    told = tuple(graph.merge_conflicts("work"))
    assert told[:1_000] == dry.conflicts
    assert {(one.kind, one.id) for one in told} == {(ConflictKind.ORPHAN_EDGE, f"k{at}") for at in range(1_200)}
    assert len(told) == 1_200


def test_a_dry_run_writes_nothing(graph: Graph) -> None:
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" }', branch="work")
    run(graph, 'update Person set { age: 1 } where name = "Dan"', branch="work")
    run(graph, 'delete Person where name = "Bob"', branch="work")
    run(graph, 'insert Person { name: "New" }')
    before = graph.snapshot()
    dry = graph.merge("work", dry_run=True)
    assert (dry.outcome, dry.inserted, dry.updated, dry.deleted, dry.commit) == (M, 1, 1, 2, None)
    assert graph.snapshot() == before
    done = graph.branches.merge("work")
    assert (done.outcome, done.inserted, done.updated, done.deleted) == (M, 1, 1, 2)


def test_many_rows_go_through_files(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """FF-01: The target has exactly the rows of the source afterwards, however many there are.

    FF-09: Rows are read, checked and written in parts of bounded size.
    """
    monkeypatch.setattr(landing, "HELD_BYTES", 10_000)
    for branch in ("target", "work"):
        graph.branches.create(branch)
    many = [{"type": "Person", "data": {"name": f"p{at:05}", "age": at, "note": "x" * 50}} for at in range(3_000)]
    graph.load(many, branch="work")
    run(graph, 'delete Person where name = "Bob"', branch="work")
    for target in ("main", "target"):
        assert graph.merge("work", target).inserted == 3_000
        assert list(graph.diff("work", target)) == []
        assert table_row(graph, "node:Person", branch=target).rows == 3_003
    assert graph.verify(deep=True) == []


def people(values: Iterable[int], **properties: object) -> list[dict[str, object]]:
    return [{"type": "Person", "data": {"name": f"p{at:05}", **properties}} for at in values]


class Watched:
    """How many rows each call of `_merged` made, and how many of its results were alive at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.most_alive = 0
        alive: list[weakref.ref[pa.Table]] = []
        merged = by_property._merged

        def watched(*arguments: Any) -> Any:
            part = merged(*arguments)
            self.sizes.append(len(part.rows))
            alive.append(weakref.ref(part.rows))
            self.most_alive = max(self.most_alive, sum(one() is not None for one in alive))
            return part

        monkeypatch.setattr(by_property, "_merged", watched)


@pytest.mark.parametrize("into", ["main", "target"])
def test_many_rows_merged_by_property_are_made_in_parts(graph: Graph, monkeypatch: pytest.MonkeyPatch, into: str) -> None:
    """Rows with the changes of both sides are made in parts whenever they are needed, and few parts are held at once (FF-09)."""
    monkeypatch.setattr(landing, "HELD_BYTES", 10_000)
    monkeypatch.setattr(by_property, "PART_BYTES", 10_000)
    monkeypatch.setattr(pairs, "FIRST_ROWS", 100)
    monkeypatch.setattr(pairs, "MOST_ROWS", 100)
    graph.load(people(range(3_000), age=0, note="x" * 50))
    for branch in ("target", "work"):
        graph.branches.create(branch)
    graph.load(people(range(3_000), age=1, note="x" * 50), branch="work")
    graph.load(people(range(3_000), age=0, note="y" * 50), branch=into)
    watched = Watched(monkeypatch)
    assert graph.merge("work", into, strategy="property").updated == 3_000
    assert (max(watched.sizes), min(watched.sizes)) == (100, 100)
    assert len(watched.sizes) >= 60, "once to decide, and once or more for the checks and the write"
    assert watched.most_alive <= 4
    found = rows(graph, "node:Person", branch=into)
    assert {(found[f"p{at:05}"]["age"], found[f"p{at:05}"]["note"]) for at in range(3_000)} == {(1, "y" * 50)}
    assert og.open(graph.uri).verify(deep=True) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_rows_of_the_target_go_over_a_wider_table_in_files(graph: Graph, monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    """What the target changed is laid over the wider table of the source in parts, through files (FF-09)."""
    monkeypatch.setattr(landing, "HELD_BYTES", 10_000)
    graph.load(people(range(3_000), age=0))
    graph.branches.create("work")
    graph.apply_schema(WIDER, "work")
    graph.load(people(range(3_000, 3_005), mail="m"), branch="work")
    graph.load(people(range(3_000), age=1, note="y" * 50))
    put: list[int] = []
    put_rows = Shelf.put

    def watched(shelf: Shelf, rows: pa.Table) -> None:
        put.append(len(rows))
        put_rows(shelf, rows)

    monkeypatch.setattr(Shelf, "put", watched)
    merged = graph.merge("work", strategy=strategy)
    assert (merged.outcome, merged.inserted, sum(put)) == (M, 5, 3_000)
    assert len(put) >= 2
    found = rows(graph, "node:Person")
    assert {(found[f"p{at:05}"]["age"], found[f"p{at:05}"]["note"]) for at in range(3_000)} == {(1, "y" * 50)}
    assert [found[f"p{at:05}"]["mail"] for at in (0, 3_000)] == [None, "m"]
    run(graph, 'update Person set { mail: "d" } where name = "p00001"')
    assert og.open(graph.uri).verify(deep=True) == []


def test_an_interrupted_merge_is_finished_with_both_parents(graph: Graph) -> None:
    """RT-25: A merge that stopped before its publication is finished with both parents, and with the commits of the source."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Eve" } insert Knows { from: "Eve", to: "Dan" }', branch="work")
    head, theirs = graph.commits()[0].id, graph.commits("work")[0].id
    with armed(Fault.WRITE_COMMITTED), pytest.raises(SimulatedCrash):
        graph.merge("work", message="m")
    after = og.open(graph.uri)
    (merged, *_) = after.commits()
    assert (merged.parents, merged.kind, merged.message) == ((head, theirs), CommitKind.MERGE, "m")
    assert after.commit(theirs).id == theirs
    assert after.merge("work").outcome is U
    after.branches.delete("work")
    assert theirs in {commit.id for commit in after.commits()}
    assert content(after)["node:Person"].keys() >= {"Eve"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_crossing_merges_that_settled_differently(graph: Graph, strategy: str) -> None:
    """Each side kept its own value when it merged the other. Neither base may decide for one of them."""
    for branch, age in (("a", 1), ("b", 2)):
        graph.branches.create(branch)
        run(graph, f'update Person set {{ age: {age} }} where name = "Dan"', branch=branch)
    heads = {branch: graph.commits(branch)[0].id for branch in ("a", "b")}
    graph.branches.create("c", from_="b")
    graph.merge("a", "b", on_conflict="ours")
    graph.merge("c", "a", on_conflict="ours")
    assert {str(commit.id) for branch in ("a", "b") for commit in graph.commits(branch)} >= set(heads.values())
    (found,) = conflicts_of(graph, "a", "b", strategy=strategy)
    assert (found.kind, found.id) == (ConflictKind.DIVERGENT_UPDATE, "Dan")
    run(graph, 'update Person set { age: 3 } where name = "Carol"', branch="a")
    assert graph.merge("a", "b", strategy=strategy, on_conflict="theirs").updated == 2
    assert rows(graph, "node:Person", branch="b")["Dan"]["age"] == 1
