"""The façade: making, opening, looking at, verifying and sharing a graph, and what it says to wrong arguments."""

from __future__ import annotations

import os
import pydoc
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, LanguageError, NotFound, OmniGraphError, Unsupported
from omnigraph.exec.upkeep.verify import Finding, Severity
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import OperationId
from omnigraph.manifest import intents
from omnigraph.manifest.model import CommitKind, Resolution
from omnigraph.manifest.publish import Publication, publish
from omnigraph.manifest.registry import DIRECTORY as BRANCHES
from omnigraph.store import stage
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import edges, fill, manifest_of, rows, run, table, table_row

SCHEMA = "node Person { name: String @key  born: I32? }\nedge Knows: Person -> Person"
PERSON = "node:Person"
KNOWS = "edge:Knows"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=SCHEMA, actor="act-maker")
    run(made, 'insert Person { name: "Ada" } insert Person { name: "Ben" } insert Knows { from: "Ada", to: "Ben" }')
    return made


def die(graph: Graph, point: Fault, name: str, *, branch: str = "main") -> None:
    with armed(point), pytest.raises(SimulatedCrash):
        run(graph, f'insert Person {{ name: "{name}" }} insert Knows {{ from: "{name}", to: "Ada" }}', branch=branch)


def every_byte(folder: Path) -> dict[str, tuple[str, int]]:
    """Path -> content and time of change, of every file and folder."""
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        content = "" if path.is_dir() else sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = (content, path.stat().st_mtime_ns)
    return found


def refusal(attempt: Callable[[], object]) -> OmniGraphError:
    with pytest.raises(OmniGraphError) as caught:
        attempt()
    return caught.value


# -- making


def test_a_new_graph_has_its_schema_its_tables_and_one_commit(tmp_path: Path) -> None:
    """L-01"""
    graph = og.init(tmp_path / "g", schema=SCHEMA, actor="act-maker")
    (genesis,) = graph.commits()
    assert (genesis.kind, genesis.actor, genesis.parents) == (CommitKind.GENESIS, "act-maker", ())
    assert graph.schema == SCHEMA
    assert (tmp_path / "g" / "_schema.pg").read_text() == SCHEMA
    assert graph.info().tables == {PERSON: 0, KNOWS: 0}
    assert (graph.mode, graph.actor, repr(graph)) == ("rw", "act-maker", f"Graph({graph.uri!r}, mode='rw')")
    assert graph.verify() == []


@pytest.mark.parametrize(
    ("schema", "kind", "position"),
    [
        ("node Person {\n  name: Strin }", Kind.SYNTAX, (2, 9)),
        ("node Person { name: String }\nedge Knows: Person -> Ghost", Kind.SCHEMA, (2, 23)),
        ("node Person { name: String? @key }", Kind.SCHEMA, (1, 15)),
    ],
)
def test_a_bad_schema_is_refused_at_its_place_and_nothing_is_made(
    tmp_path: Path, schema: str, kind: Kind, position: tuple[int, int]
) -> None:
    error = refusal(lambda: og.init(tmp_path / "g", schema=schema))
    assert isinstance(error, LanguageError)
    assert (error.kind, error.position) == (kind, position)
    assert str(error).startswith(f"schema.pg:{position[0]}:{position[1]}: ")
    assert not (tmp_path / "g").exists()


def test_a_graph_is_not_made_over_another(graph: Graph, tmp_path: Path) -> None:
    """L-02"""
    before = every_byte(tmp_path / "g")
    error = refusal(lambda: og.init(tmp_path / "g", schema="node Other { a: I32 }"))
    assert (type(error), error.kind) == (ConflictError, Kind.ALREADY_INITIALIZED)
    assert every_byte(tmp_path / "g") == before


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert refusal(lambda: og.init(tmp_path, schema=SCHEMA)).kind is Kind.NOT_EMPTY
    assert os.listdir(tmp_path) == ["notes.txt"]


# -- opening


def test_what_is_not_a_graph_is_not_opened(tmp_path: Path) -> None:
    for mode in ("r", "rw"):
        error = refusal(lambda: og.open(tmp_path / "nothing", mode=mode))  # noqa: B023  # called at once
        assert (type(error), error.kind) == (NotFound, Kind.NOT_A_GRAPH)
    assert os.listdir(tmp_path) == []


def test_reading_only_writes_no_byte(graph: Graph, tmp_path: Path) -> None:
    """Not even to recover: a dead writer's intent is there, and the last published state is shown."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Cy" }', branch="work")
    die(graph, Fault.WRITE_COMMITTED, "Dead")
    die(graph, Fault.WRITE_ARMED, "Dead", branch="work")
    before = every_byte(tmp_path / "g")
    reader = og.open(tmp_path / "g", mode="r")
    assert set(rows(reader, PERSON)) == {"Ada", "Ben"}
    assert set(rows(reader, PERSON, branch="work")) == {"Ada", "Ben", "Cy"}
    assert (reader.schema, reader.catalog.nodes[0].name, reader.branches.list()) == (SCHEMA, "Person", ["main", "work"])
    assert reader.commit(reader.commits()[0].id) == reader.commits(limit=1)[0]
    assert reader.snapshot(at=1).manifest_version == 1
    assert (reader.recoveries(), reader.info().mode) == ([], "r")
    assert [finding.code for finding in reader.verify()] == ["pending_intent", "pending_intent"]
    for attempt in (
        lambda: run(reader, 'insert Person { name: "Eve" }'),
        lambda: reader.refresh(),
        lambda: reader.branches.create("other"),
        lambda: reader.branches.delete("work"),
    ):
        error = refusal(attempt)
        assert (type(error), error.kind) == (Unsupported, Kind.READ_ONLY)
    assert every_byte(tmp_path / "g") == before


@pytest.mark.parametrize(
    ("point", "outcome"), [(Fault.WRITE_COMMITTED, Resolution.ROLLED_FORWARD), (Fault.WRITE_ARMED, Resolution.ROLLED_BACK)]
)
def test_opening_for_writing_finishes_what_dead_writers_left(graph: Graph, point: Fault, outcome: Resolution) -> None:
    """G-13: A recovery's record is part of the commit that settles the write, one for each, and callers can list them.

    On every branch, once, with a record each.
    """
    graph.branches.create("work")
    for branch in ("main", "work"):
        die(graph, point, "Dead", branch=branch)
    opened = og.open(graph.uri)
    forward = outcome is Resolution.ROLLED_FORWARD
    for branch in ("main", "work"):
        assert ("Dead" in rows(opened, PERSON, branch=branch)) is forward
        assert (("Dead", "Ada") in edges(opened, "Knows", branch=branch)) is forward
    found = opened.recoveries()
    assert {(recovery.branch, recovery.outcome) for recovery in found} == {("main", outcome), ("work", outcome)}
    assert found == sorted(found, key=lambda recovery: (recovery.at, recovery.commit_id), reverse=True)
    audits = [opened.commit(recovery.commit_id).audit for recovery in found]
    assert [audit.operation for audit in audits if audit is not None] == [recovery.operation_id for recovery in found]
    assert (opened.refresh(), opened.verify()) == ([], [])


def test_refresh_says_what_it_resolved(graph: Graph) -> None:
    die(graph, Fault.WRITE_COMMITTED, "Dead")
    (audit,) = graph.refresh()
    assert audit.outcome is Resolution.ROLLED_FORWARD
    assert graph.refresh() == []
    assert "Dead" in rows(graph, PERSON)


def test_an_intent_that_cannot_be_read_stops_writers_not_readers(graph: Graph) -> None:
    """F-05: An unreadable intent stops writers and not readers.

    Also REC-25.
    """
    (Path(graph.uri) / intents.DIRECTORY).mkdir(exist_ok=True)
    (Path(graph.uri) / intents.path_of(OperationId("01ARZ3NDEKTSV4RRFFQ69G5FAV"))).write_bytes(b"{")
    assert refusal(lambda: og.open(graph.uri)).kind is Kind.CORRUPT
    assert set(rows(og.open(graph.uri, mode="r"), PERSON)) == {"Ada", "Ben"}


# -- looking


def test_branches_come_and_go(graph: Graph) -> None:
    """B-16: listed main first; each sees its own writes."""
    assert graph.branches.create("work") == "work"
    assert graph.branches.create("deep/er", from_="work") == "deep/er"
    assert og.open(graph.uri, mode="r").branches.list() == ["main", "deep/er", "work"]
    run(graph, 'insert Person { name: "Cy" }', branch="deep/er")
    assert [set(rows(graph, PERSON, branch=branch)) for branch in ("work", "deep/er")] == [{"Ada", "Ben"}, {"Ada", "Ben", "Cy"}]
    assert refusal(lambda: graph.branches.delete("work")).kind is Kind.BRANCH_HAS_CHILDREN
    graph.branches.delete("deep/er")
    graph.branches.delete("work")
    assert graph.branches.list() == ["main"]
    assert refusal(lambda: graph.snapshot("work")).kind is Kind.BRANCH_NOT_FOUND


def test_every_past_state_can_be_looked_at(graph: Graph) -> None:
    """T-02: by commit, by manifest version, by moment; a commit of a branch is found without its name."""
    old = graph.snapshot()
    run(graph, 'insert Person { name: "Cy" }')
    newest = graph.commits(limit=1)[0]
    for at in (old.commit_id, old.manifest_version, graph.commit(old.commit_id).created_at):
        assert graph.snapshot(at=at) == old
    assert graph.snapshot(at=datetime.now(UTC)).commit_id == newest.id == graph.snapshot().commit_id
    graph.branches.create("work")
    on_branch = run(graph, 'insert Person { name: "Dee" }', branch="work").commit
    assert on_branch is not None
    assert graph.commit(on_branch.id) == on_branch
    assert [commit.id for commit in graph.commits("work")] == [on_branch.id, *(commit.id for commit in graph.commits())]
    assert graph.commits(limit=0) == []


def test_info_counts_what_is_there_and_says_whether_it_flushes(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Cy" }', branch="work")
    info = graph.info()
    assert (info.branches, info.commits, info.tables, info.fsync, info.mode) == (2, 2, {PERSON: 2, KNOWS: 1}, False, "rw")
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "on")
    assert og.open(graph.uri).info().fsync is True
    monkeypatch.delenv(FSYNC_ENVIRONMENT)
    opened = og.open(graph.uri, mode="r").info()
    assert (opened.fsync, opened.graph_id, opened.mode) == (True, info.graph_id, "r")


def test_a_process_that_only_asks_does_not_import_what_writes(graph: Graph) -> None:
    ask = "query all() { match { $p: Person } return { $p.name as name } }"
    program = (
        "import sys, omnigraph as og\n"
        "print(og.open(sys.argv[1], mode='r').query(sys.argv[2]).row_count)\n"
        "print([name for name in ('exec.write', 'exec.load.load', 'manifest.publish') if f'omnigraph.{name}' in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, graph.uri, ask], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["2", "[]"]


def test_a_commit_is_found_on_whatever_branch_it_is(graph: Graph) -> None:
    graph.branches.create("work")
    made = run(graph, 'insert Person { name: "Cid" }', branch="work").commit
    assert made is not None
    names = "query all() { match { $p: Person } return { $p.name as name } }"
    assert {row["name"] for row in graph.query(names, at=made.id)} == {"Ada", "Ben", "Cid"}
    assert graph.snapshot(at=made.id).branch == "work"
    with pytest.raises(NotFound, match="'wrok'"):
        graph.snapshot("wrok", at=made.id)


@pytest.mark.parametrize(
    ("attempt", "kind"),
    [
        (lambda graph: og.open(graph.uri, mode="w"), Kind.INVALID_ARGUMENT),  # type: ignore[arg-type]  # that is the point
        (
            lambda graph: graph.mutate("query a() { delete Person where born = 1 } query b() { delete Person where born = 1 }"),
            Kind.INVALID_ARGUMENT,
        ),
        (lambda graph: graph.mutate("query a() { delete Person where born = 1 }", "b"), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.mutate("query a() { match { $p: Person } return { $p.name } }"), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.mutate("query a($n: String) { delete Person where name = $n }"), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.mutate("query a($n: String) { delete Person where name = $n }", params={"n": 5}), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.mutate("query a() { delete Person where born = 1 }", params=["n"]), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.mutate("query a() { delete Ghost where born = 1 }"), Kind.TYPE),
        (lambda graph: graph.mutate("query a() { delete }"), Kind.SYNTAX),
        (lambda graph: run(graph, "delete Person where born = 1", branch="nope"), Kind.BRANCH_NOT_FOUND),
        (lambda graph: run(graph, "delete Person where born = 1", branch=""), Kind.INVALID_BRANCH_NAME),
        (lambda graph: run(graph, "delete Person where born = 1", if_commit=""), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.snapshot("nope"), Kind.BRANCH_NOT_FOUND),
        (lambda graph: graph.snapshot(3), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.query(None), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.mutate(b"delete"), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.apply_schema(None), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.query("query q() {}", timeout="5"), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.query("query q() {}", cancellation=object()), Kind.INVALID_ARGUMENT),
        (lambda graph: og.Cancellation().wait("a"), Kind.INVALID_ARGUMENT),  # type: ignore[arg-type]
        (lambda graph: graph.snapshot(at="nonsense"), Kind.COMMIT_NOT_FOUND),
        (lambda graph: graph.snapshot(at=0), Kind.VERSION_NOT_FOUND),
        (lambda graph: graph.snapshot(at=99), Kind.VERSION_NOT_FOUND),
        (lambda graph: graph.snapshot(at=True), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.snapshot(at=1.5), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.snapshot(at=datetime(2024, 1, 1)), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.snapshot(at=datetime(2024, 1, 1, tzinfo=UTC)), Kind.COMMIT_NOT_FOUND),
        (lambda graph: graph.commit("nonsense"), Kind.COMMIT_NOT_FOUND),
        (lambda graph: graph.commit("01'"), Kind.COMMIT_NOT_FOUND),
        (lambda graph: graph.commit(""), Kind.COMMIT_NOT_FOUND),
        (lambda graph: graph.commit(7), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.commit("0"), Kind.AMBIGUOUS_COMMIT),
        (lambda graph: graph.snapshot(at="0"), Kind.AMBIGUOUS_COMMIT),
        (lambda graph: run(graph, "delete Person where born = 1", if_commit="0"), Kind.AMBIGUOUS_COMMIT),
        (lambda graph: graph.commits("nope"), Kind.BRANCH_NOT_FOUND),
        (lambda graph: graph.commits(limit=-1), Kind.INVALID_ARGUMENT),
        (lambda graph: graph.branches.create("main"), Kind.BRANCH_EXISTS),
        (lambda graph: graph.branches.create("a//b"), Kind.INVALID_BRANCH_NAME),
        (lambda graph: graph.branches.create("main/x"), Kind.BRANCH_NAME_OVERLAPS),
        (lambda graph: graph.branches.create("new", from_="nope"), Kind.BRANCH_NOT_FOUND),
        (lambda graph: graph.branches.delete("main"), Kind.INVALID_BRANCH_NAME),
        (lambda graph: graph.branches.delete("nope"), Kind.BRANCH_NOT_FOUND),
    ],
)
def test_a_wrong_argument_is_refused_by_kind_and_changes_nothing(graph: Graph, attempt: Callable[[Graph], object], kind: Kind) -> None:
    before = graph.snapshot()
    assert refusal(lambda: attempt(graph)).kind is kind
    assert graph.snapshot() == before
    assert graph.branches.list() == ["main"]


def test_a_query_that_is_wrong_says_where(graph: Graph) -> None:
    """The same name before the place, whichever stage refused it."""
    for text, place in (("query a() {\n  delete }", "query.gq:2:10: "), ("query a() {\n  delete Ghost where a = 1 }", "query.gq:2:10: ")):
        assert str(refusal(lambda: graph.mutate(text))).startswith(place)  # noqa: B023  # called at once


# -- verifying


def findings(graph: Graph) -> list[tuple[Severity, str, str]]:
    return [(finding.severity, finding.code, finding.where) for finding in og.open(graph.uri, mode="r").verify()]


def test_a_sound_graph_has_no_findings(graph: Graph) -> None:
    """A branch that inherits tables whose owner went on is sound; so is one whose parent stood still."""
    graph.branches.create("work")
    graph.branches.create("deep", from_="work")
    run(graph, 'insert Person { name: "Cy" }')
    run(graph, 'delete Person where name = "Ada"', branch="work")
    run(graph, 'insert Person { name: "Dee" }', branch="work")
    assert findings(graph) == []


def test_a_dead_writers_intent_is_a_warning_and_covers_its_tables(graph: Graph) -> None:
    graph.branches.create("work")
    die(graph, Fault.WRITE_COMMITTED, "Dead")
    die(graph, Fault.WRITE_COMMITTED, "Dead", branch="work")
    assert [(severity, code) for severity, code, _ in findings(graph)] == [(Severity.WARNING, "pending_intent")] * 2
    assert all(where.startswith(intents.DIRECTORY) for _, _, where in findings(graph))


def test_verify_finds_an_intent_it_cannot_read(graph: Graph) -> None:
    (Path(graph.uri) / intents.DIRECTORY).mkdir(exist_ok=True)
    (Path(graph.uri) / intents.path_of(OperationId("01ARZ3NDEKTSV4RRFFQ69G5FAV"))).write_bytes(b'{"format": 99}')
    assert findings(graph) == [(Severity.ERROR, "format_newer", intents.DIRECTORY)]


def test_verify_finds_a_table_moved_by_hand(graph: Graph) -> None:
    """W-52: also on a branch that owns it, and there only."""
    graph.branches.create("work")
    run(graph, 'insert Person { name: "Cy" }', branch="work")
    for branch in ("main", "work"):
        at = table(graph, PERSON, branch=branch)
        staged = stage.delete_keys(at, pa.array(["Ada"]))
        assert staged is not None
        stage.commit(staged)
        assert findings(graph)[-1] == (Severity.ERROR, "uncovered_drift", f"{branch}:{PERSON}")
    assert len(findings(graph)) == 2


def test_verify_finds_a_wrong_count(graph: Graph) -> None:
    staged = stage.delete_keys(table(graph, KNOWS), table(graph, KNOWS).scan(["id"]).read_all()["id"])
    assert staged is not None
    wrong = msgspec.structs.replace(table_row(graph, KNOWS), rows=7, version=stage.commit(staged).ref.version)
    publish(manifest_of(graph), Publication(CommitKind.LOAD, tables=(wrong,)))
    (finding,) = graph.verify()
    assert (finding.severity, finding.code, finding.where) == (Severity.ERROR, "row_count", f"main:{KNOWS}")
    assert finding.message == "the table has 0 rows, but the graph records 7"


def test_verify_finds_an_id_that_is_there_twice(graph: Graph) -> None:
    fill(graph, {PERSON: pa.table({"id": ["Ada"], "born": [1], "name": ["Ada"]}, schema=table(graph, PERSON).schema)})
    assert findings(graph) == [(Severity.ERROR, "duplicate_id", f"main:{PERSON}")]


@pytest.mark.parametrize(("source", "target"), [("Ada", "ghost"), ("ghost", "Ada")])
def test_verify_finds_an_edge_without_its_end(graph: Graph, source: str, target: str) -> None:
    fill(graph, {KNOWS: pa.table({"id": ["e"], "src": [source], "dst": [target]}, schema=table(graph, KNOWS).schema)})
    (finding,) = graph.verify()
    assert (finding.code, finding.where) == ("dangling_edge", f"main:{KNOWS}")
    assert "'ghost'" in finding.message


def test_verify_finds_a_version_that_is_gone(graph: Graph) -> None:
    versions = Path(graph.uri) / table_row(graph, KNOWS).path / "_versions"
    min(versions.glob("*.manifest")).unlink()
    assert findings(graph) == [(Severity.ERROR, "missing_file", f"main:{KNOWS}")]


def test_verify_finds_rows_that_are_gone(graph: Graph) -> None:
    """And goes on: what can still be checked is checked."""
    for file in (Path(graph.uri) / table_row(graph, PERSON).path / "data").iterdir():
        file.unlink()
    for _ in range(2):
        fill(graph, {KNOWS: pa.table({"id": ["e"], "src": ["Ada"], "dst": ["Ada"]}, schema=table(graph, KNOWS).schema)})
    found = findings(graph)
    assert {where for _, _, where in found} == {f"main:{PERSON}", f"main:{KNOWS}"}
    assert (Severity.ERROR, "duplicate_id", f"main:{KNOWS}") in found


def test_verify_finds_a_branch_it_cannot_read(graph: Graph) -> None:
    graph.branches.create("work")
    (Path(graph.uri) / BRANCHES / "work.json").write_bytes(b"{")
    assert findings(graph) == [(Severity.ERROR, "corrupt", "work")]


# -- many at once


def test_two_handles_in_threads_lose_nothing_and_verify_beside_them_finds_nothing(graph: Graph) -> None:
    """C-09, C-26: one chain; every reader sees whole commits; a write under way is no finding."""
    handles = [graph, og.open(graph.uri)]
    done = threading.Event()

    def work(handle: Graph, name: str) -> None:
        for n in range(4):
            run(handle, f'insert Person {{ name: "{name}{n}" }} insert Knows {{ from: "{name}{n}", to: "Ada" }}')

    def watch() -> list[Finding]:
        found: list[Finding] = []
        while not done.is_set():
            found.extend(finding for finding in handles[1].verify() if finding.code != "pending_intent")
        return found

    with ThreadPoolExecutor(5) as pool:
        watching = pool.submit(watch)
        try:
            for worker in [pool.submit(work, handles[n % 2], f"t{n}-") for n in range(4)]:
                worker.result()
        finally:
            done.set()
    assert watching.result() == []
    assert len(rows(graph, PERSON)) == len(edges(graph, "Knows")) + 1 == 18
    chain = [handle.commits() for handle in handles]
    assert chain[0] == chain[1]
    assert len(chain[0]) == 18
    assert all(child.parents == (parent.id,) for child, parent in zip(chain[0], chain[0][1:], strict=False))


# -- the module


def test_public_names_are_there() -> None:
    assert og.__all__ == sorted(og.__all__)
    assert all(getattr(og, name) is not None for name in og.__all__)
    assert (og.open.__name__, og.Graph) == ("open", Graph)
    with pytest.raises(AttributeError):
        og.nothing  # noqa: B018


def test_importing_loads_no_engine_until_it_is_asked_for() -> None:
    code = (
        "import sys, omnigraph as og\n"
        "heavy = {'lance', 'pyarrow', 'numpy', 'obstore'}\n"
        "og.InvalidInput\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "og.Graph\n"
        "assert 'lance' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_public_names_are_shown_before_they_are_loaded() -> None:
    code = "import omnigraph as og, sys; print(*dir(og)); assert 'lance' not in sys.modules"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert shown == sorted(og.__all__)
    page = pydoc.plain(pydoc.TextDoc().docmodule(og))
    for line in ("open(uri:", "init(uri:", "memory(*, schema:", "class Graph("):
        assert line in page


def test_parameters_may_stand_in_the_place_of_the_name(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key  born: I32? }")
    assert graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": "Ada"}).affected_nodes == 1
    one = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name as name } }"
    assert graph.query(one, {"n": "Ada"}).rows == graph.query(one, "q", {"n": "Ada"}).rows == [{"name": "Ada"}]
    assert graph.explain(one, {"n": "Ada"}).columns == ("name",)
    with graph.transaction() as transaction:
        transaction.mutate("query q($n: String) { insert Person { name: $n } }", {"n": "Ben"})
        assert transaction.query(one, {"n": "Ben"}).row_count == 1
    with pytest.raises(InvalidInput, match="the name of a query is text, not dict; parameters are given as"):
        graph.query(one, {"n": "Ada"}, {"n": "Ada"})
    with pytest.raises(InvalidInput, match="params takes a mapping of names to values, not list"):
        graph.query(one, "q", ["Ada"])  # type: ignore[arg-type]
    assert str(graph.explain(one, {"n": "Ada"})).startswith("query q -> name\n")


def test_one_type_may_be_named_without_a_list(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key } node City { name: String @key }")
    graph.load([{"type": name, "data": {"name": "x"}} for name in ("Person", "City")])
    assert list(graph.export(types="Person")) == list(graph.export(types=["Person"]))
    with pytest.raises(InvalidInput, match="unknown export type 'Persons'"):
        graph.export(types="Persons")
    commit = graph.commits()[0].id
    assert len(list(graph.commit_changes(commit, types="City", kinds="node", ops="insert"))) == 1


def test_a_time_may_be_text(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key }")
    born = graph.commits()[0].created_at
    graph.mutate('insert Person { name: "Ada" }')
    names = "match { $p: Person } return { $p.name as name }"
    assert graph.query(names, at=born.isoformat()).rows == []
    assert graph.query(names, at=born.replace(tzinfo=None).isoformat()).rows == [], "without a time zone it is UTC"
    assert len(graph.query(names, at="2999-01-31")) == 1
    assert graph.branches.create("then", at=born.isoformat()) == "then"
    assert [change.id for change in graph.diff(born.isoformat(), "main")] == ["Ada"]
    with pytest.raises(InvalidInput, match="'2026-13-31' is no commit id, tag, manifest version or time such as"):
        graph.query(names, at="2026-13-31")
    with pytest.raises(NotFound):
        graph.query(names, at="2001-01-31T12:00:00Z")


def test_reprs_say_what_matters(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Person { name: String @key }", actor="act-ada")
    loaded = graph.load([{"type": "Person", "data": {"name": "Ada"}}], message="the first")
    head = graph.commits()[0]
    assert repr(loaded) == f"LoadReceipt(1 Person into main by merge, commit {head.id})"
    made = f"{head.created_at.isoformat(timespec='seconds')}: 'the first'"
    assert repr(head) == f"Commit({head.id} on main, load by act-ada at {made})"
    assert repr(graph.mutate('delete Person where name = "Zed"')) == "Receipt(0 nodes, 0 edges, no commit)"
    assert repr(graph.snapshot()) == f"Snapshot(main at {head.id}: 1 Person)"
    assert repr(graph.commit_graph()) == "CommitGraph(2 commits, heads main)"
