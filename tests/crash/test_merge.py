"""Merges, reverts and the ends of transactions that die at every boundary.

The target is before or after, with its lineage, and a retry merges the rest.
"""

from __future__ import annotations

import functools
import json
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import Kind, OmniGraphError, RecoveryRequired, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import intents
from tests.crash.matrix import Point, Writer, points
from tests.crasher import crash, rows_through_files
from tests.mutations import table_row
from tests.samples import every_other

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
WIDER = f"{SCHEMA}\nnode Town {{ name: String @key }}".replace("age: I32?", "age: I32?  mail: String?")
OTHER = f"{SCHEMA}\nnode Aunt {{ name: String @key }}"
SOURCE = "source"
TARGET = "target"
STATEMENTS = (
    'delete Person where name = "b"',
    'update Person set { age: 2 } where name = "a"',
    'insert Person { name: "d" }',
)


class MergeCase(NamedTuple):
    """One merge of `source`: where to, whether the target moved, and how many tables it commits and forks."""

    name: str
    into: str
    tables: int
    first_touches: int = 0
    moved: bool = True
    net_zero: bool = False
    reverts: bool = False
    transacts: bool = False
    widens: bool = False
    both_widen: bool = False
    both_extend: bool = False
    """Both sides added properties to both types, whose tables get the columns and then the rows."""
    in_files: bool = False
    """The rows of the target go over the wider table of the source through data files, like many rows."""

    @property
    def writer(self) -> Writer:
        branch = BranchName(TARGET) if self.into == TARGET else MAIN
        return Writer(self.name, branch, dict, self.tables, self.first_touches, commits=2 if self.both_extend else 1)

    @property
    def doing(self) -> str:
        if self.transacts:
            return f"land {self.into} {json.dumps(STATEMENTS)}"
        return "revert" if self.reverts else f"{'merge-in-files' if self.in_files else 'merge'} {SOURCE} into {self.into}"

    @property
    def merges(self) -> bool:
        return not (self.reverts or self.transacts)


CASES = (
    MergeCase("merge, three-way, main", MAIN, 2),
    MergeCase("merge, fast-forward, main", MAIN, 2, moved=False),
    MergeCase("merge, fast-forward, first touch", TARGET, 2, 2, moved=False),
    MergeCase("merge, net zero, main", MAIN, 0, net_zero=True),
    MergeCase("merge, wider schema, main", MAIN, 1, 1, widens=True),
    MergeCase("merge, wider schema, files, main", MAIN, 1, 1, widens=True, in_files=True),
    MergeCase("merge, joint schema, first touch", TARGET, 2, 2, both_widen=True),
    MergeCase("merge, joint types, main", MAIN, 2, both_extend=True),
    MergeCase("merge, joint types, first touch", TARGET, 2, 2, moved=False, both_extend=True),
    MergeCase("revert, main", MAIN, 2, reverts=True),
    MergeCase("transaction, main", MAIN, 2, transacts=True),
    MergeCase("transaction, first touch", TARGET, 2, 2, transacts=True),
)
CELLS = [pytest.param(case, point, id=f"{case.name}-{point.fault}:{point.nth}") for case in CASES for point in points(case.writer)]


def make(folder: Path, case: MergeCase) -> Graph:
    graph = og.init(folder, schema=SCHEMA, actor="act-merger")
    change(graph, 'insert Person { name: "a", age: 1 } insert Person { name: "b" } insert Person { name: "c" }')
    change(graph, 'insert Knows { from: "a", to: "b" } insert Knows { from: "b", to: "c" }')
    for branch in (TARGET, SOURCE):
        graph.branches.create(branch)
    if case.widens or case.both_widen:
        graph.apply_schema(WIDER, SOURCE)
        change(graph, 'insert Town { name: "t" }', SOURCE)
    if case.both_widen:
        graph.apply_schema(OTHER, case.into)
        change(graph, 'insert Aunt { name: "u" }', case.into)
    if case.both_extend:
        graph.apply_schema(f"{SCHEMA.replace('age: I32?', 'age: I32?  mail: String?')} {{ since: I32? }}", SOURCE)
        graph.apply_schema(f"{SCHEMA.replace('age: I32?', 'age: I32?  note: String?')} {{ weight: F64? }}")
        graph.branches.delete(TARGET)
        graph.branches.create(TARGET)  # it inherits the tables with their columns
    if case.net_zero:
        change(graph, 'insert Person { name: "n" }', SOURCE)
        change(graph, 'delete Person where name = "n"', SOURCE)
    elif case.reverts:
        change(graph, STATEMENTS[0])
    elif case.merges:
        for text in STATEMENTS[1:] if case.widens else STATEMENTS:
            change(graph, text, SOURCE)
    if case.moved and case.merges:
        change(graph, 'insert Person { name: "m" }', case.into)
    if case.in_files:
        change(graph, 'update Person set { age: 5 } where name = "c"', case.into)
    return graph


def change(graph: Graph, text: str, branch: str = MAIN) -> None:
    graph.mutate(f"query q() {{ {text} }}", branch=branch)


def begun(graph: Graph, case: MergeCase) -> Callable[[], object]:
    """What is about to change the target. Of a transaction, all statements have run."""
    if case.merges:
        return lambda: graph.merge(SOURCE, case.into)
    if case.reverts:
        return lambda: graph.revert(graph.commits()[0].id)
    transaction = graph.transaction(case.into).__enter__()
    for text in STATEMENTS:
        transaction.mutate(f"query q() {{ {text} }}")
    return lambda: transaction.__exit__(None, None, None)


def shown(graph: Graph, branch: str) -> list[str]:
    """The nodes, and the ends of the edges, whose ids are new in every graph."""
    people = graph.query("match { $p: Person } return { $p.name as name, $p.age as age } order { name }", branch=branch)
    edges = graph.query("match { $p: Person  $p knows $q } return { $p.name as a, $q.name as b } order { a, b }", branch=branch)
    return [str(row) for row in (*people.rows, *edges.rows)]


@functools.cache
def images(case: MergeCase) -> tuple[list[str], list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        graph = make(Path(folder) / "g", case)
        before = shown(graph, case.into)
        begun(graph, case)()
        return before, shown(graph, case.into)


def check(graph: Graph, case: MergeCase, point: Point, heads: tuple[str, str], *, resolved: bool) -> None:
    """The graph is before or after; a merge that landed has both parents, and one that did not can be made again, whole."""
    before, after = images(case)
    others = {branch: shown(graph, branch) for branch in (MAIN, TARGET, SOURCE) if branch != case.into}
    change(graph, 'update Person set { age: 9 } where name = "nobody"', case.into)  # heals, and writes nothing
    assert shown(graph, case.into) == (after if point.lands else before)
    found = og.open(graph.uri)
    assert {branch: shown(found, branch) for branch in others} == others
    newest = next(commit for commit in found.commits(case.into) if commit.kind != "recovery")
    assert (newest.id not in heads) == point.lands
    if point.lands:
        assert newest.parents == (heads if case.merges else heads[:1])
        assert newest.actor == "act-merger"
    assert sum(commit.audit is not None for commit in found.commits(case.into)) == (1 if resolved else 0)
    assert intents.pending(found.engine.root.objects) == []
    assert found.branches.list() == [MAIN, SOURCE, TARGET]
    if case.merges:
        again = found.merge(SOURCE, case.into)
        assert (again.outcome == "already_up_to_date") == point.lands
        assert shown(found, case.into) == after
    assert found.verify() == []


def heads_of(graph: Graph, case: MergeCase) -> tuple[str, str]:
    return graph.commits(case.into)[0].id, graph.commits(SOURCE)[0].id


@pytest.mark.parametrize(("case", "point"), every_other(CELLS))
def test_a_death_in_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: MergeCase, point: Point) -> None:
    """RT-22: A fast-forward that dies after the commit of some tables is undone, and made again whole.
    RT-23: A three-way merge that dies there is undone, and made again whole.
    RT-24: There is no window between parts of one table: its rows are one transaction, however many they are.
    RT-27: A merge that is the first write of its target and dies before the publication is finished, with its native branches.
    RT-28: A merge that dies before or while its native branches are made is undone: the target inherits as before.
    RT-32: A merge whose intent could not be removed has one commit, and its intent is removed without a second.
    RT-33: A table without a net change is not touched, whatever happens to the others.

    RT-26: Tables that the target takes over unchanged are published with those that it changed.

    RT-25: all tables committed, the merge is finished with both parents.
    """
    if case.in_files:
        rows_through_files(monkeypatch.setattr)
    graph = make(tmp_path / "g", case)
    heads, act = heads_of(graph, case), begun(graph, case)
    with armed(point.fault, after=point.nth), pytest.raises(SimulatedCrash):
        act()
    check(graph, case, point, heads, resolved=point.resolved)


@pytest.mark.parametrize(("case", "point"), every_other(CELLS, first=1))
def test_a_failure_in_the_process(tmp_path: Path, case: MergeCase, point: Point) -> None:
    """RT-21: A merge whose intent cannot be stored changes nothing, and a retry merges."""
    graph = make(tmp_path / "g", case)
    heads, act = heads_of(graph, case), begun(graph, case)
    failure = StorageError(Kind.STORAGE_UNAVAILABLE, "the store went away for a moment")
    with armed(point.fault, after=point.nth, failure=failure):
        if point.lands and point.fault is not Fault.WRITE_PUBLISHED:
            act()
        else:
            with pytest.raises(OmniGraphError) as caught:
                act()
            assert caught.value is failure
    check(graph, case, point, heads, resolved=point.resolved and point.fault is not Fault.OBJECT_AFTER_LINK)


@pytest.mark.crash
@pytest.mark.parametrize(("case", "point"), CELLS)
def test_a_killed_process(tmp_path: Path, case: MergeCase, point: Point) -> None:
    graph = make(tmp_path / "g", case)
    heads = heads_of(graph, case)
    done = crash(case.doing, graph.uri, point.fault, nth=point.nth)
    assert done.returncode == -signal.SIGKILL, done.said
    check(graph, case, point, heads, resolved=point.resolved)


@pytest.mark.parametrize("disjoint", [True, False], ids=["another table", "the same table"])
def test_a_winner_after_the_effects(tmp_path: Path, disjoint: bool) -> None:
    """RT-30: If the head moved past an interrupted merge on other tables, the merge is undone and the other commit kept."""
    graph = make(tmp_path / "g", CASES[0])
    with armed(Fault.STAGE_AFTER_COMMIT), pytest.raises(SimulatedCrash):
        graph.merge(SOURCE)
    text = 'insert Knows { from: "a", to: "c" }' if disjoint else 'insert Person { name: "w" }'
    change(graph, text)
    assert sum(commit.audit is not None for commit in graph.commits()) == 1
    assert graph.merge(SOURCE).outcome == "merged"
    assert graph.verify() == []


@pytest.mark.parametrize(("point", "nth"), [(Fault.STAGE_AFTER_COMMIT, 2), (Fault.WRITE_COMMITTED, 1)], ids=str)
def test_a_foreign_append_after_the_effects(tmp_path: Path, point: Fault, nth: int) -> None:
    """RT-29: If another program appends to a table of an interrupted merge, nothing is touched: its row stays, and writes are refused.
    RT-31: An interrupted merge whose table has moved on is not published either, although all its tables are committed.
    """
    graph = make(tmp_path / "g", CASES[0])
    before = shown(graph, MAIN)
    with armed(point, after=nth), pytest.raises(SimulatedCrash):
        graph.merge(SOURCE)
    people = Path(graph.uri, table_row(graph, "node:Person").path)
    append(people)
    files = {file: file.read_bytes() for folder in ("nodes", "edges") for file in Path(graph.uri, folder).rglob("*") if file.is_file()}
    for act in (lambda: change(graph, 'insert Person { name: "w" }'), lambda: graph.merge(SOURCE)):
        with pytest.raises(RecoveryRequired):
            act()
    assert {file: file.read_bytes() for file in files} == files
    assert "foreign" in lance.dataset(str(people)).to_table(columns=["id"])["id"].to_pylist()
    assert len(intents.pending(graph.engine.root.objects)) == 1
    assert shown(og.open(graph.uri, mode="r"), MAIN) == before
    change(graph, 'insert Person { name: "w" }', TARGET)


def append(table: Path) -> None:
    rows = lance.dataset(str(table)).to_table(limit=1)
    at = rows.schema.get_field_index("id")
    lance.write_dataset(rows.set_column(at, rows.schema.field(at), pa.array(["foreign"])), str(table), mode="append")
