"""Checksums: every file that a commit adds has one in the commit, whoever publishes it; rows and small objects have their own."""

from __future__ import annotations

import base64
import zlib
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.exec.upkeep.file_damage import recorded_checksums
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.store.checksums import is_intact, is_recorded, sealed
from tests.mutations import run

SCHEMA = "node Doc { slug: String @key  pages: I32? @index  body: Blob? }\nedge Cites: Doc -> Doc"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    blob = "base64:" + base64.b64encode(bytes(5_000_000)).decode()
    graph.load([{"type": "Doc", "data": {"slug": f"d{n:02d}", "pages": n, **({"body": blob} if n == 3 else {})}} for n in range(50)])
    graph.ensure_indices()
    run(graph, "delete Doc where pages > 40")
    return graph


def check(graph: Graph) -> set[str]:
    """Compares everything that was recorded with what is there. Returns the kinds of file."""
    root = Path(graph.uri)
    recorded = recorded_checksums(graph.engine.manifest.histories(["main", *graph.branches.list()])[0].values())  # type: ignore[list-item]
    there = {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}
    tables = {path for path in there if path.startswith(("nodes/", "edges/")) and is_recorded(path) and "/_versions/" not in path}
    assert tables <= recorded.keys()  # files of a deleted branch are gone
    assert all(zlib.crc32((root / path).read_bytes()) == recorded[path] for path in tables)
    assert graph.verify(deep=True) == []
    return {Path(path).suffix if "_indices" not in path else "index" for path in tables}


def test_every_file_of_a_commit_has_a_checksum(graph: Graph) -> None:
    assert check(graph) == {".lance", ".blob", ".arrow", "index"}


def test_a_first_write_on_a_branch_a_merge_and_a_deleted_branch(graph: Graph) -> None:
    graph.branches.create("work")
    run(graph, 'insert Doc { slug: "new" }', branch="work")
    check(graph)
    graph.branches.merge("work")
    graph.branches.delete("work")
    assert ".lance" in check(graph)


@pytest.mark.parametrize("branch", ["main", "work"])
def test_a_write_that_another_process_finishes(graph: Graph, branch: str) -> None:
    graph.branches.create("work")
    with pytest.raises(SimulatedCrash), armed(Fault.WRITE_COMMITTED):
        run(graph, 'insert Doc { slug: "late" }', branch=branch)
    fresh = og.open(graph.uri)
    assert [one.outcome for one in fresh.recoveries()] == ["rolled_forward"]
    check(fresh)


def test_a_copy(graph: Graph, tmp_path: Path) -> None:
    graph.copy_to(tmp_path / "copy")
    assert og.open(tmp_path / "copy").verify(deep=True) == []


def test_a_changed_byte_of_a_version_file_is_found(graph: Graph) -> None:
    file = min(Path(graph.uri).glob("nodes/*/_versions/*.manifest"))
    whole = file.read_bytes()
    for at in range(0, len(whole), len(whole) // 20):
        data = bytearray(whole)
        data[at] ^= 1
        file.write_bytes(data)
        found = og.open(graph.uri, mode="r").verify(deep=True)
        assert "unreadable_version" in {finding.code for finding in found}


def test_a_sealed_object_is_intact_until_a_byte_changes() -> None:
    body = sealed(b'{"a":1,"b":"x"}', of="place")
    assert body.startswith(b'{"a":1,"b":"x","crc":')
    assert is_intact(body, of="place")
    assert not is_intact(body, of="elsewhere")
    assert is_intact(b'{"a":1}')
    for at in range(len(b'{"a":1,"b":"x"')):
        changed = bytearray(body)
        changed[at] ^= 1
        assert not is_intact(bytes(changed), of="place")


def test_a_lost_newest_version_of_the_graph_is_an_error(graph: Graph) -> None:
    """The version before it would be a silent step back."""
    newest = min((Path(graph.uri) / "__manifest" / "_versions").glob("*.manifest"))
    newest.unlink()
    with pytest.raises(og.StorageError, match="newest version is lost") as caught:
        og.open(graph.uri, mode="r")
    assert caught.value.kind == "corrupt"
    (Path(graph.uri) / "__manifest" / "_versions" / "latest_version_hint.json").unlink()
    assert [finding.code for finding in og.open(graph.uri, mode="r").verify()] == ["uncovered_drift"]
