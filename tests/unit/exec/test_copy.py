"""A copy shows what its source shows, on every branch, and is a graph of its own; half a copy is no graph."""

from __future__ import annotations

import base64
import os
import shutil
import signal
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, Kind, NotFound
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.manifest import lineage
from omnigraph.manifest.model import CommitKind
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.crasher import crash
from tests.mutations import run

SCHEMA = """
node Person { name: String @key  born: I32?  at: DateTime? }
node Script { code: String @key  body: Blob? }
edge Knows: Person -> Person { since: Date? }
"""
LARGE = "base64:" + base64.b64encode(os.urandom(100_000)).decode()


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def source(tmp_path: Path) -> Graph:
    """Three branches, one made from another, at different moments of main; each wrote something, and main went on."""
    graph = og.init(tmp_path / "source", schema=SCHEMA, actor="act-ada")
    run(graph, 'insert Person { name: "Ada", born: 1815 } insert Person { name: "Ben" } insert Knows { from: "Ada", to: "Ben" }')
    for code, body in (("large", LARGE), ("empty", "base64:"), ("none", None)):
        run(graph, "($c: String, $b: Blob?) insert Script { code: $c, body: $b }", {"c": code, "b": body})
    graph.branches.create("early")
    run(graph, 'update Person set { born: 1816 } where name = "Ada"')
    graph.branches.create("idle")
    run(graph, 'insert Person { name: "Eve" }', branch="early")
    graph.branches.create("early-late", from_="early")
    run(graph, 'delete Script where code = "large"', branch="early-late")
    run(graph, 'insert Person { name: "Zoe", at: now() }')
    return graph


def shown(graph: Graph) -> dict[str, list[str]]:
    return {branch: list(graph.export(branch)) for branch in graph.branches.list()}


def test_a_copy_shows_the_same_on_every_branch(source: Graph, tmp_path: Path) -> None:
    copy = source.copy_to(tmp_path / "copy")
    assert shown(copy) == shown(source)
    assert copy.verify() == []
    assert copy.schema == source.schema
    assert copy.info().graph_id != source.info().graph_id
    assert shown(og.open(tmp_path / "copy")) == shown(source)


def test_a_copy_needs_its_source_no_more(source: Graph, tmp_path: Path) -> None:
    """Blobs in files of their own included; and both go on by themselves."""
    before = shown(source)
    source.copy_to(tmp_path / "copy")
    run(source, 'delete Person where name = "Ada"')
    shutil.rmtree(tmp_path / "source")
    copy = og.open(tmp_path / "copy")
    assert shown(copy) == before
    for branch in copy.branches.list():
        run(copy, 'insert Person { name: "New" } insert Knows { from: "New", to: "Ada" }', branch=branch)
    assert copy.blob("node", "Script", "large", "body").size == 100_000
    assert copy.verify() == []


def test_one_branch_becomes_the_main_of_its_copy(source: Graph, tmp_path: Path) -> None:
    copy = source.copy_to(tmp_path / "copy", branch="early-late")
    assert copy.branches.list() == ["main"]
    assert list(copy.export()) == list(source.export("early-late"))
    assert copy.verify() == []
    (commit,) = copy.commits()
    assert commit.kind is CommitKind.GENESIS
    assert commit.actor == "act-ada"
    assert commit.message is not None
    for fact in (source.uri, source.info().graph_id, "'early-late'", source.snapshot("early-late").commit_id):
        assert fact in commit.message


def test_the_points_where_branches_were_made_are_copied(source: Graph, tmp_path: Path) -> None:
    """Else a merge in the copy would take what main did since for a change of the branch."""
    copy = source.copy_to(tmp_path / "copy")
    for branch in ("early", "idle", "early-late"):
        states = []
        for graph in (source, copy):
            manifest = graph.engine.manifest
            history = {**manifest.history(), **manifest.history(BranchName(branch))}
            base = lineage.merge_base(history, manifest.snapshot().commit, manifest.snapshot(BranchName(branch)).commit)
            states.append(list(graph.export(at=base)))
        assert states[0] == states[1], branch
    assert [commit.kind for commit in copy.commits()] == [CommitKind.COPY, CommitKind.COPY, CommitKind.GENESIS]


def test_tables_that_branches_share_are_shared_in_the_copy(source: Graph, tmp_path: Path) -> None:
    copy = source.copy_to(tmp_path / "copy")

    def forked(graph: Graph, branch: str) -> set[str]:
        return {table.type_name for table in graph.snapshot(branch).tables if table.native_branch is not None}

    assert {branch: forked(copy, branch) for branch in copy.branches.list()} == {
        branch: forked(source, branch) for branch in source.branches.list()
    }


# -- refusals


def test_a_taken_place_is_refused_and_left_alone(source: Graph, tmp_path: Path) -> None:
    other = og.init(tmp_path / "taken", schema="node A { x: I32? }")
    with pytest.raises(ConflictError) as caught:
        source.copy_to(tmp_path / "taken")
    assert caught.value.kind is Kind.ALREADY_INITIALIZED
    assert other.verify() == []
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(InvalidInput) as refused:
        source.copy_to(tmp_path / "full")
    assert refused.value.kind is Kind.NOT_EMPTY
    assert os.listdir(tmp_path / "full") == ["thesis.txt"]


@pytest.mark.parametrize("inside", ["", "nodes", "backup"])
def test_a_place_inside_the_source_is_refused(source: Graph, tmp_path: Path, inside: str) -> None:
    with pytest.raises(InvalidInput, match="is inside the graph to copy"):
        source.copy_to(tmp_path / "source" / inside)
    assert source.verify() == []


def test_an_unknown_branch_is_refused_before_anything_is_made(source: Graph, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        source.copy_to(tmp_path / "copy", branch="nope")
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    "point", [Fault.INIT_BETWEEN_TABLES, Fault.STAGE_AFTER_COMMIT, Fault.INIT_AFTER_MANIFEST, Fault.BRANCH_AFTER_CREATE]
)
def test_a_copy_that_fails_leaves_nothing(source: Graph, tmp_path: Path, point: Fault) -> None:
    before = shown(source)
    failure = og.StorageError(Kind.STORAGE_FULL, "the disk is full")
    with armed(point, failure=failure), pytest.raises(og.StorageError):
        source.copy_to(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert shown(source) == before
    assert shown(source.copy_to(tmp_path / "copy")) == before


POINTS = [
    *(Fault.INIT_BETWEEN_TABLES, Fault.STAGE_BEFORE_COMMIT, Fault.INIT_BEFORE_MANIFEST, Fault.INIT_AFTER_MANIFEST),
    *(Fault.BRANCH_AFTER_CREATE, Fault.PUBLISH_AFTER_SYNC),
]


@pytest.mark.parametrize("point", POINTS)
def test_a_copy_that_is_killed_is_no_graph(source: Graph, tmp_path: Path, point: Fault) -> None:
    """Whatever lies there: opening it, and making a graph there, is refused; the source does not mind."""
    killed = crash(f"copy {tmp_path / 'copy'}", source.uri, point)
    assert killed.returncode == -signal.SIGKILL, killed.said
    with pytest.raises(NotFound) as caught:
        og.open(tmp_path / "copy")
    assert caught.value.kind is Kind.NOT_A_GRAPH
    with pytest.raises(og.OmniGraphError):
        og.init(tmp_path / "copy", schema=SCHEMA)
    with pytest.raises(og.OmniGraphError):
        source.copy_to(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy")
    assert shown(source.copy_to(tmp_path / "copy")) == shown(source)
    assert source.verify() == []


def test_branches_with_schemas_of_their_own_are_copied(source: Graph, tmp_path: Path) -> None:
    """Types and properties that one branch added, renamed and dropped; and main's schema, which moved on, too."""
    changed = (
        SCHEMA.replace("born: I32?", 'year: I32? @rename_from("born")').replace("  at: DateTime?", "  extra: Blob?")
        + "node Tag { t: String @key }\n"
    )
    source.apply_schema(changed, branch="early")
    run(source, '($b: Blob) insert Tag { t: "x" } insert Person { name: "Fay", year: 7, extra: $b }', {"b": LARGE}, branch="early")
    source.branches.create("earlier", from_="early")
    source.apply_schema(SCHEMA.replace("edge Knows", "edge Met").replace("since: Date?", ""))
    run(source, 'insert Met { from: "Ada", to: "Ada" }')
    copy = source.copy_to(tmp_path / "copy")
    assert shown(copy) == shown(source)
    assert copy.verify() == []
    assert copy.schema == source.schema
    assert (tmp_path / "copy" / "_schema.pg").read_text() == source.schema
    run(copy, 'insert Tag { t: "y" }', branch="earlier")
    assert copy.verify() == []


def test_a_copy_tells_how_far_it_is(source: Graph, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    source.copy_to(tmp_path / "told", branch="main", on_progress=lambda progress: told.append((progress.where, progress.rows)))
    assert told
    assert dict(told) == {f"{table.kind}:{table.type_name}": table.rows for table in source.snapshot().tables if table.rows}
