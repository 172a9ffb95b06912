"""What verification finds of damaged files, plainly and with `deep`, and that it finds nothing in sound ones."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import omnigraph as og
from omnigraph.exec.upkeep.verify import VerifyProgress
from omnigraph.graph import Graph
from omnigraph.ids import CommitId, new_commit_id
from omnigraph.manifest.model import State, fact_rows, now, state_rows
from omnigraph.store.deep import untrue_index
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run

SCHEMA = """
node Doc { slug: String @key  pages: I32? @index  score: F64? @index  day: Date? @index  at: DateTime? @index  kind: enum(a, b)? @index
           tags: [String]?  place: Vector(4)?  ok: Bool? @index  body: Blob?  gone: String? }
edge Cites: Doc -> Doc { note: String? @index }
"""


def _blob(size: int) -> str:
    return "base64:" + base64.b64encode(os.urandom(size)).decode()


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Every kind of value and of file: rows written, changed and deleted, columns renamed and dropped, forks of forks, indexes."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    docs = [
        {
            "slug": f"d{n:03d}", "pages": n if n % 3 else None, "score": n / 7, "day": "2026-01-02", "at": "2026-01-02T03:04:05Z",
            "kind": "ab"[n % 2], "tags": ["x", "y"][: n % 3], "place": [1.0, 0.0, 0.5, n], "ok": bool(n % 2), "gone": "x",
        }
        for n in range(200)
    ]  # fmt: skip
    docs[1]["body"], docs[2]["body"], docs[3]["body"], docs[4]["body"] = _blob(10), _blob(0), _blob(100_000), _blob(5_000_000)
    edges = [{"edge": "Cites", "from": f"d{n:03d}", "to": f"d{(n * 3) % 200:03d}", "data": {"note": f"n{n}"}} for n in range(200)]
    graph.load([*({"type": "Doc", "data": doc} for doc in docs), *edges])
    graph.ensure_indices()
    run(graph, "delete Doc where pages > 180")
    graph.branches.create("one")
    run(graph, "update Doc set { pages: 7 } where pages < 20", branch="one")
    graph.branches.create("two", from_="one")
    run(graph, 'delete Doc where slug = "d050"', branch="two")
    run(graph, 'insert Doc { slug: "two", score: 0.5 }', branch="two")
    graph.apply_schema(SCHEMA.replace("  gone: String?", "").replace("note: String?", 'words: String? @rename_from("note")'), branch="two")
    graph.ensure_indices("two")
    return graph


def codes(graph: Graph, *, deep: bool) -> set[str]:
    return {finding.code for finding in og.open(graph.uri, mode="r").verify(deep=deep)}


def test_a_sound_graph_has_no_findings(graph: Graph) -> None:
    seen: list[VerifyProgress] = []
    assert graph.verify(deep=True, on_progress=seen.append) == graph.verify() == []
    assert [progress.at for progress in seen] == list(range(1, len(seen) + 1))
    assert {progress.of for progress in seen} == {len(seen)}
    assert len(seen) > 6  # the tables of three branches, and their earlier versions
    assert seen[0].where.startswith("main:")


def largest(graph: Graph, pattern: str) -> Path:
    return max((file for file in Path(graph.uri).glob(pattern) if file.is_file()), key=lambda file: file.stat().st_size)


def newest(graph: Graph, pattern: str) -> Path:
    """Deletion files are replaced; the last one written is in use."""
    return max(Path(graph.uri).glob(pattern), key=lambda file: file.stat().st_mtime_ns)


def _remove(file: Path) -> None:
    file.unlink()


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 100)


def _flip(file: Path, *, at: float) -> None:
    data = bytearray(file.read_bytes())
    data[int((len(data) - 1) * at)] ^= 0x10
    file.write_bytes(data)


DAMAGES: dict[str, tuple[str, Callable[[Path], None], str, bool]] = {
    "data_removed": ("nodes/*/data/*.lance", _remove, "missing_file", True),
    "data_cut": ("nodes/*/data/*.lance", _cut, "wrong_size", True),
    "edges_cut": ("edges/*/data/*.lance", _cut, "wrong_size", True),
    "deletions_removed": ("nodes/*/_deletions/*", _remove, "missing_file", True),
    "deletions_of_a_fork_removed": ("nodes/*/tree/*/_deletions/*", _remove, "missing_file", True),
    "ledger_removed": ("__manifest/tree/*/data/*.lance", _remove, "missing_file", True),
    "large_blob_removed": ("nodes/*/data/*/*.blob", _remove, "missing_file", True),
    "large_blob_cut": ("nodes/*/data/*/*.blob", _cut, "wrong_size", True),
    "data_layout_flipped": ("edges/*/data/*.lance", lambda file: _flip(file, at=1.0), "wrong_checksum", False),
    "a_value_flipped": ("nodes/*/data/*.lance", lambda file: _flip(file, at=0.3), "wrong_checksum", True),
    "deletions_flipped": ("nodes/*/_deletions/*", lambda file: _flip(file, at=0.5), "wrong_checksum", True),
    "large_blob_flipped": ("nodes/*/data/*/*.blob", lambda file: _flip(file, at=0.5), "wrong_checksum", False),
    "full_text_index_flipped": ("nodes/*/_indices/*/part_0_tokens.lance", lambda file: _flip(file, at=1.0), "damaged_index", True),
    "b_tree_pages_flipped": ("nodes/*/_indices/*/page_lookup.lance", lambda file: _flip(file, at=0.5), "damaged_index", True),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_found(graph: Graph, damage: str) -> None:
    pattern, harm, code, plainly = DAMAGES[damage]
    file = newest(graph, pattern) if "_deletions" in pattern else largest(graph, pattern)
    harm(file)
    assert code in codes(graph, deep=True)
    assert (code in codes(graph, deep=False)) is plainly
    named = [finding for finding in og.open(graph.uri, mode="r").verify(deep=True) if finding.code == code]
    owner = file if "_indices" not in str(file) else file.parent
    (finding,) = [finding for finding in named if finding.path == str(owner.relative_to(graph.uri))]
    assert owner.name in finding.message
    assert finding.commits or damage == "ledger_removed"  # whose commits are in the file
    assert "restore it" in finding.remedy or "omnigraph repair" in finding.remedy


def test_a_damaged_retention_floor_hides_no_other_damage(graph: Graph) -> None:
    """It says what a cleanup removed. Without it that is not known, and everything that exists is looked at."""
    for pages in range(3):
        run(graph, f'update Doc set {{ pages: {pages} }} where slug = "d007"')
    graph.cleanup(keep=2)
    assert codes(graph, deep=False) == set()
    floor = Path(graph.uri, "__manifest/_floor.json")
    sound = floor.read_bytes()
    largest(graph, "nodes/*/data/*/*.blob").unlink()
    for damaged in (b"", sound[:10], sound.replace(b'"version":', b'"version":9')):
        floor.write_bytes(damaged)
        assert codes(graph, deep=False) == {"corrupt", "missing_file"}
        (finding,) = [finding for finding in og.open(graph.uri, mode="r").verify() if finding.code == "corrupt"]
        assert (finding.path, finding.branches) == ("__manifest/_floor.json", ("main",))
    floor.unlink()  # as the finding says
    graph.cleanup(keep=1)
    assert floor.exists()
    assert codes(graph, deep=False) == {"missing_file"}


def test_a_lost_retention_floor_is_told_from_lost_versions(graph: Graph) -> None:
    """Every cleanup that forgets commits leaves a version of `__manifest` as only cleanup makes. So it is known that there was a floor."""
    branches = graph.branches.list()
    for branch in branches:
        for pages in range(4):
            run(graph, f'update Doc set {{ pages: {pages} }} where slug = "d007"', branch=branch)
    for keep in (3, 2):
        graph.cleanup(keep=keep)
    run(graph, 'update Doc set { pages: 9 } where slug = "d007"')
    assert og.open(graph.uri).verify(deep=True) == []
    floors = sorted(Path(graph.uri, "__manifest").rglob("_floor.json"))
    assert len(floors) == len(branches)
    for floor in floors:
        floor.unlink()
    found = og.open(graph.uri, mode="r").verify(deep=True)
    assert {finding.path for finding in found} == {str(floor.relative_to(graph.uri)) for floor in floors}
    assert {(finding.code, finding.branches) for finding in found} == {("missing_file", (branch,)) for branch in branches}
    assert all("a cleanup" in finding.message and "omnigraph cleanup" in finding.remedy for finding in found)
    for branch in branches:
        run(graph, 'update Doc set { pages: 10 } where slug = "d007"', branch=branch)
    graph.cleanup(keep=2)
    assert og.open(graph.uri).verify(deep=True) == []


def test_lost_versions_of_the_history_are_no_lost_floor(graph: Graph) -> None:
    """No cleanup ran: each version that is gone is a finding of its own."""
    versions = sorted(Path(graph.uri, "__manifest", "_versions").glob("*.manifest"))  # the newest first
    for version in versions[1:3]:
        version.unlink()
    found = og.open(graph.uri, mode="r").verify()
    assert {finding.path for finding in found} == {str(version.relative_to(graph.uri)) for version in versions[1:3]}


BLOBS = {"several in one file": 100_000, "each in its own file": 5_000_000}


@pytest.mark.parametrize(
    "change", ['delete Doc where slug = "d2"', 'update Doc set { pages: 7 } where slug = "d2"', 'delete Doc where slug != "d0"']
)
@pytest.mark.parametrize("size", BLOBS.values(), ids=BLOBS)
def test_rows_with_blobs_that_were_deleted_are_no_damage(tmp_path: Path, size: int, change: str) -> None:
    """The blob of a deleted row stays at the end of its file, on a branch too, where another one made the file."""
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key  pages: I32?  body: Blob? }")
    graph.branches.create("before")
    for branch in "before", "main":
        graph.load([{"type": "Doc", "data": {"slug": f"d{n}", "body": _blob(size)}} for n in range(3)], branch=branch)
    graph.branches.create("after")
    for branch in graph.branches.list():
        run(graph, change, branch=branch)
    assert graph.verify() == graph.verify(deep=True) == []
    assert all(graph.repair(branch).is_sound for branch in graph.branches.list())
    graph.cleanup(keep=1)
    assert graph.verify(deep=True) == []


@pytest.mark.parametrize("size", BLOBS.values(), ids=BLOBS)
def test_a_lost_blob_of_a_row_that_only_earlier_commits_show_is_found(tmp_path: Path, size: int) -> None:
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key  pages: I32?  body: Blob? }")
    graph.load([{"type": "Doc", "data": {"slug": f"d{n}", "body": _blob(size)}} for n in range(3)])
    run(graph, 'delete Doc where slug = "d2"')
    max(Path(graph.uri).glob("nodes/*/data/*/*.blob")).unlink()
    assert codes(graph, deep=False) == codes(graph, deep=True) == {"missing_file"}


def _b_tree_of_pages(graph: Graph) -> Path:
    row = graph.engine.manifest.snapshot().state.table("node:Doc")
    assert row is not None
    (index,) = [index for index in graph.engine.tables.open(row.ref).indexes if index.column == "pages"]
    return Path(graph.uri) / index.directory / "page_data.lance"


def test_a_b_tree_that_says_something_else_than_the_rows_is_found_and_built_anew(tmp_path: Path) -> None:
    """The file has its size and decodes. Without its checksum, as on an object store, only a comparison with the rows can tell."""
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key  pages: I32? @index }")
    graph.load([{"type": "Doc", "data": {"slug": f"d{n}", "pages": n * 977 + 11}} for n in range(500)])
    graph.ensure_indices()
    file = _b_tree_of_pages(graph)
    whole = file.read_bytes()
    found = 0
    for at in range(100, len(whole) - 400, len(whole) // 12):
        data = bytearray(whole)
        data[at] ^= 0x04
        file.write_bytes(data)
        found += _is_untrue(graph)
        assert codes(graph, deep=True) == {"damaged_index"}
    assert found >= 3
    fresh = og.open(graph.uri)
    (finding,) = fresh.verify(deep=True)
    assert "omnigraph repair --confirm" in finding.remedy
    fresh.repair(confirm=True)
    assert not _is_untrue(graph)
    assert [(left.severity.value, left.branches) for left in og.open(graph.uri).verify(deep=True)] == [("warning", ())]


def _is_untrue(graph: Graph) -> bool:
    fresh = og.open(graph.uri, mode="r")
    row = fresh.engine.manifest.snapshot().state.table("node:Doc")
    assert row is not None
    table = fresh.engine.tables.open(row.ref)
    return any(untrue_index(table, index) is not None for index in table.indexes if index.column == "pages")


def test_who_found_an_index_wrong_can_build_it_anew_at_once(graph: Graph) -> None:
    _flip(largest(graph, "nodes/*/_indices/*/page_lookup.lance"), at=0.5)
    opened = og.open(graph.uri)
    assert {finding.code for finding in opened.verify(deep=True)} == {"damaged_index"}
    for branch in opened.branches.list():
        opened.ensure_indices(branch)
    left = opened.verify(deep=True)  # earlier commits still show the damaged index, and are read by scans
    assert {(finding.severity.value, finding.branches) for finding in left} == {("warning", ())}


def test_an_old_version_that_cannot_be_read_is_found(graph: Graph) -> None:
    oldest = max(Path(graph.uri).glob("nodes/*/_versions/*.manifest"))
    os.truncate(oldest, 10)
    assert codes(graph, deep=False) == codes(graph, deep=True) == {"unreadable_version"}


# -- history


@pytest.mark.parametrize("flaw", ["its own parent", "a parent that is not there", "no parent"])
def test_a_broken_history_is_found(tmp_path: Path, flaw: str) -> None:
    graph = og.init(tmp_path / "g", schema="node P { k: String @key }")
    run(graph, 'insert P { k: "x" }')
    _, ledger, state = graph.engine.manifest.look()
    last = graph.commits(limit=1)[0]
    mine = new_commit_id()
    parents = {"its own parent": (mine,), "a parent that is not there": (CommitId("01ARZ3NDEKTSV4RRFFQ69G5FAV"),), "no parent": ()}[flaw]
    commit = msgspec.structs.replace(
        last, id=mine, parents=parents, manifest_version=ledger.version + 1, created_at=now(), tables=(), token=None
    )
    head = msgspec.structs.replace(state.head, commit=mine)
    born = ledger.version + 1
    ledger.swap(state_rows(State(head, state.tables), born=born), fact_rows(commit, [], born=born), uuid=new_commit_id())
    assert codes(graph, deep=False) == {"broken_history"}
