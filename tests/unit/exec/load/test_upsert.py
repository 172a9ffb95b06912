"""A load that keeps what its records leave out, and edges that are found by their ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, StorageError
from omnigraph.exec.load.load import Load, LocalIntake, run_load
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.write.protocol import Request
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.model import CommitKind
from tests.loads import SOURCES, Records, ndjson, shown

SCHEMA = """
node Person {
  name: String @key
  born: I32
  email: String? @unique
  mood: enum(glad, sad)?
  tags: [String]?
  place: Vector(2)?
  photo: Blob?
}
node Note { text: String  stars: I32? }
edge Knows: Person -> Person { since: I32?  note: String? }
edge Married: Person -> Person @card(0..1) { since: I32  note: String?  @unique(src, dst) }
"""
FIRST: Records = (
    {"type": "Person", "data": {"name": "Ada", "born": 1815, "email": "ada@x", "mood": "glad", "tags": ["a"], "place": [1, 2]}},
    {"type": "Person", "data": {"name": "Ben", "born": 1790, "photo": "base64:cmVlbA=="}},
    {"type": "Note", "data": {"id": "n1", "text": "hello", "stars": 3}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1", "since": 1840, "note": "x"}},
    {"edge": "Married", "from": "Ada", "to": "Ben", "data": {"id": "m1", "since": 1835, "note": "y"}},
)


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=SCHEMA)
    made.load(ndjson(*FIRST), mode="append")
    return made


def row(graph: Graph, alias: str, id_: str, branch: str = "main") -> dict[str, Any]:
    (found,) = (row for row in shown(graph, branch)[alias] if row["id"] == id_)
    return found


def files_of(graph: Graph) -> set[str]:
    """Every data file of the graph, named or not, and every patch."""
    found = [*Path(graph.uri).rglob("*.lance"), *Path(graph.uri).rglob("*.patch")]
    return {str(path) for path in found if "__manifest" not in str(path)}


# -- what is kept


@pytest.mark.parametrize("source", SOURCES)
def test_an_upsert_keeps_what_is_left_out(graph: Graph, tmp_path: Path, source: str) -> None:
    """L2-31: In a table, what has no column is left out."""
    before = shown(graph)
    records = (
        {"type": "Person", "data": {"name": "Ada", "mood": "sad"}},
        {"type": "Note", "data": {"id": "n1", "stars": 4}},
        {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1", "since": 1841}},
        {"edge": "Married", "from": "Ada", "to": "Ben", "data": {"note": "z"}},
    )
    receipt = graph.load(SOURCES[source](records, tmp_path), "upsert")
    assert (receipt.total, receipt.edges_without_id, receipt.mode) == (4, 0, LoadMode.UPSERT)
    assert row(graph, "node:Person", "Ada") == {**before["node:Person"][0], "mood": "sad"}
    assert row(graph, "node:Person", "Ben") == before["node:Person"][1]
    assert row(graph, "node:Note", "n1") == {"id": "n1", "text": "hello", "stars": 4}
    assert row(graph, "edge:Knows", "k1") == {"id": "k1", "src": "Ada", "dst": "Ben", "since": 1841, "note": "x"}
    assert shown(graph)["edge:Married"] == [{"id": "m1", "src": "Ada", "dst": "Ben", "since": 1835, "note": "z"}]


def test_null_is_written_and_other_types_of_values_are_kept(graph: Graph) -> None:
    """L2-31: null is a value."""
    graph.load(ndjson({"type": "Person", "data": {"name": "Ada", "email": None, "tags": None}}), "upsert")
    found = row(graph, "node:Person", "Ada")
    assert (found["email"], found["tags"], found["place"], found["mood"]) == (None, None, [1.0, 2.0], "glad")
    graph.load({"Person": pa.table({"name": ["Ada"], "mood": pa.array([None], pa.string())})}, "upsert")
    assert row(graph, "node:Person", "Ada") == {**found, "mood": None}


def test_rows_that_are_new_and_rows_that_are_there_come_in_one_load(graph: Graph) -> None:
    records = [{"type": "Person", "data": {"name": name, "born": 1900 + at}} for at, name in enumerate(("Cyd", "Ben", "Dee", "Ada"))]
    graph.load(ndjson(*records), "upsert")
    assert {found["id"]: found["born"] for found in shown(graph)["node:Person"]} == {"Ada": 1903, "Ben": 1901, "Cyd": 1900, "Dee": 1902}
    assert (row(graph, "node:Person", "Ada")["email"], row(graph, "node:Person", "Ben")["photo"]) == ("ada@x", b"reel")


def test_blobs_are_kept_a_few_at_a_time(graph: Graph) -> None:
    """Their sizes are read first (W-37)."""
    names = [f"p{at}" for at in range(4)]
    photos = pa.array([bytes([at]) * (30 << 20) for at in range(3)] + [None], pa.large_binary())
    graph.load({"Person": pa.table({"name": names, "born": [1] * 4, "photo": photos})}, "merge")
    graph.load({"Person": pa.table({"name": names[::-1], "born": [2] * 4})}, "upsert")
    for at, name in enumerate(names):
        found = row(graph, "node:Person", name)
        assert found["born"] == 2
        assert found["photo"] == photos[at].as_py(), name


def test_an_upsert_is_the_first_touch_of_a_branch(graph: Graph) -> None:
    graph.branches.create("work")
    graph.load(ndjson({"type": "Person", "data": {"name": "Ada", "mood": "sad"}}), "upsert", branch="work")
    assert row(graph, "node:Person", "Ada", "work") == {**row(graph, "node:Person", "Ada"), "mood": "sad"}


# -- what is refused


def problems(graph: Graph, *records: Any, mode: str = "upsert") -> list[tuple[ProblemCode, int | None, str]]:
    files, before = files_of(graph), shown(graph)
    with pytest.raises(InvalidInput) as caught:
        graph.load(ndjson(*records), mode)
    assert (files_of(graph), shown(graph)) == (files, before), "nothing stays"
    found = caught.value.facts["problems"]
    assert isinstance(found, tuple)
    return [(problem.code, problem.line, problem.message) for problem in found]


def test_a_new_row_needs_what_is_required(graph: Graph) -> None:
    """L2-31: What is required may be left out only where a row has it."""
    lacks = "non-nullable property '{}' is left out, and there is no {} that has it"
    assert problems(
        graph,
        {"type": "Person", "data": {"name": "Ada", "mood": "sad"}},
        {"type": "Person", "data": {"name": "Cyd", "mood": "sad"}},
        {"type": "Note", "data": {"stars": 1}},
    ) == [(ProblemCode.REQUIRED, 2, lacks.format("born", "node"))]
    assert problems(graph, {"type": "Note", "data": {"stars": 1}}) == [(ProblemCode.REQUIRED, 1, lacks.format("text", "node"))]
    assert problems(graph, {"edge": "Married", "from": "Ben", "to": "Ada"}) == [(ProblemCode.REQUIRED, 1, lacks.format("since", "edge"))]


def test_a_key_and_a_required_null_are_refused_when_they_are_read(graph: Graph) -> None:
    found = problems(graph, {"type": "Person", "data": {"born": 1}}, {"type": "Person", "data": {"name": "Ada", "born": None}})
    assert [(code, line) for code, line, _ in found] == [(ProblemCode.REQUIRED, 1), (ProblemCode.REQUIRED, 2)]
    with pytest.raises(InvalidInput, match="no column for the non-nullable property 'name'"):
        graph.load({"Person": pa.table({"born": [1]})}, "upsert")


def test_an_id_twice_is_refused_as_such(graph: Graph) -> None:
    twice = {"type": "Person", "data": {"name": "Ada", "mood": "sad"}}
    assert [(code, line) for code, line, _ in problems(graph, twice, twice)] == [(ProblemCode.DUPLICATE_ID, 2)]
    married = {"edge": "Married", "from": "Ada", "to": "Ben", "data": {"since": 1}}
    for mode in ("merge", "upsert"):
        assert {code for code, _, _ in problems(graph, married, married, mode=mode)} == {ProblemCode.UNIQUE, ProblemCode.CARDINALITY}


def test_kept_values_count_for_the_rules_of_the_type(graph: Graph) -> None:
    """What is unique is checked on the rows as the load leaves them."""
    found = problems(graph, {"type": "Person", "data": {"name": "Ben", "email": "ada@x"}})
    assert [code for code, _, _ in found] == [ProblemCode.UNIQUE]
    graph.load(
        ndjson(
            {"type": "Person", "data": {"name": "Ben", "email": "ada@x"}},
            {"type": "Person", "data": {"name": "Ada", "email": "new@x"}},
        ),
        "upsert",
    )
    found = problems(graph, {"type": "Person", "data": {"name": "Ada", "mood": "angry"}})
    assert [code for code, _, _ in found] == [ProblemCode.ENUM]


# -- edges without an id


def test_merge_and_upsert_say_how_many_edges_have_no_id(graph: Graph) -> None:
    """L2-30: Such an edge is new each time, unless its ends name it."""
    records = ndjson(
        {"edge": "Knows", "from": "Ada", "to": "Ben"},
        {"edge": "Knows", "from": "Ben", "to": "Ada"},
        {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "k1"}},
        {"edge": "Married", "from": "Ada", "to": "Ben", "data": {"since": 1}},
        {"type": "Note", "data": {"text": "x"}},
    )
    assert [graph.load(records, mode, dry_run=True).edges_without_id for mode in ("merge", "upsert")] == [2, 2]
    first = graph.load(records, "merge", token="once")
    assert (first.edges_without_id, first.total) == (2, 5)
    assert graph.load(records, "merge", token="once") == first, "the receipt of a retry"
    assert graph.load(records, "upsert").edges_without_id == 2
    assert len(shown(graph)["edge:Knows"]) == 5
    assert len(shown(graph)["edge:Married"]) == 1
    assert graph.load(ndjson({"edge": "Knows", "from": "Ada", "to": "Ben"}), "append").edges_without_id == 0


def test_merge_replaces_the_edge_with_the_same_ends_and_keeps_its_id(graph: Graph) -> None:
    """L2-30."""
    graph.load(ndjson({"edge": "Married", "from": "Ada", "to": "Ben", "data": {"since": 1836}}), "merge")
    assert shown(graph)["edge:Married"] == [{"id": "m1", "src": "Ada", "dst": "Ben", "since": 1836, "note": None}]
    with pytest.raises(InvalidInput, match="@unique violation"):
        graph.load(ndjson({"edge": "Married", "from": "Ada", "to": "Ben", "data": {"since": 1836}}), "append")


# -- other writers, resources


def load_of(graph: Graph, data: Any, mode: LoadMode = LoadMode.UPSERT, **options: Any) -> Load:
    return Load(graph.engine, LocalIntake(data), mode, write=True, **options)


@pytest.mark.parametrize("branch", [MAIN, BranchName("work")])
def test_what_another_writer_changed_meanwhile_is_kept(graph: Graph, branch: BranchName) -> None:
    """C-12: A load that another writer overtook is prepared again by itself. An upsert keeps what that writer wrote."""
    if branch != MAIN:
        graph.branches.create(branch)
    data = iter(
        [{"type": "Person", "data": {"name": "Ada", "mood": "sad"}}, {"edge": "Married", "from": "Ben", "to": "Ada", "data": {"note": "n"}}]
    )
    load = load_of(graph, data)
    graph.load(ndjson({"edge": "Married", "from": "Ben", "to": "Ada", "data": {"id": "m9", "since": 1900}}), "append", branch=branch)
    load.prepare(graph.engine.manifest.snapshot(branch))
    first = files_of(graph)
    graph.mutate('update Person set { born: 1816 } where name = "Ada"', branch=branch)
    graph.mutate("update Married set { since: 1901 } where since = 1900", branch=branch)
    assert run_load(graph.engine, Request(CommitKind.LOAD, branch=branch), load).commit is not None
    found = row(graph, "node:Person", "Ada", branch)
    assert (found["born"], found["mood"], found["email"]) == (1816, "sad", "ada@x")
    assert row(graph, "edge:Married", "m9", branch) == {"id": "m9", "src": "Ben", "dst": "Ada", "since": 1901, "note": "n"}
    assert not [path for path in files_of(graph) if path.endswith(".patch")]
    assert first - files_of(graph), "the rows that were completed too early are gone"


def test_a_dry_run_writes_nothing_and_says_the_same(graph: Graph) -> None:
    files = files_of(graph)
    reader = og.open(graph.uri, mode="r")
    receipt = reader.load(ndjson({"type": "Person", "data": {"name": "Ada", "mood": "sad"}}), "upsert", dry_run=True)
    assert (receipt.nodes, receipt.commit) == ({"Person": 1}, None)
    with pytest.raises(InvalidInput, match="'born' is left out"):
        reader.load(ndjson({"type": "Person", "data": {"name": "Cyd"}}), "upsert", dry_run=True)
    assert files_of(graph) == files


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("count", [10, 3_000])
def test_many_rows_are_found_with_little_memory(tmp_path: Path, count: int, indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that do not fit the limit are kept in files, as are the patches; both are gone afterwards."""
    graph = og.init(
        tmp_path / "g",
        schema="node Item { name: String @key  note: I32?  other: I32? }  edge Near: Item -> Item { n: I32?  m: I32?  @unique(src, dst) }",
    )
    ids = [f"{at:026}" for at in range(9_000)]
    graph.load({"Item": pa.table({"name": ids[:6_000], "note": [1] * 6_000, "other": range(6_000)})}, "append")
    near = {"from": ids[:5_999], "to": ids[1:6_000]}
    graph.load({"Near": pa.table({**near, "n": range(5_999), "m": [1] * 5_999})}, "append")
    if indexed:
        graph.ensure_indices()
    some = ids[6_000 - count // 2 : 6_000 + count // 2][::-1]
    request = Request(CommitKind.LOAD, branch=MAIN)
    data = {"Item": pa.table({"name": some, "note": [2] * count})}
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(StorageError, match="temporary directory"):
        run_load(graph.engine, request, load_of(graph, data, key_bytes=50_000))
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    run_load(graph.engine, request, load_of(graph, data, key_bytes=50_000))
    edges = {"from": ids[:count], "to": ids[1 : count + 1], "m": [2] * count}
    run_load(graph.engine, request, load_of(graph, {"Near": pa.table(edges)}, key_bytes=50_000))
    assert not list(temporary.iterdir()), "temporary files are gone"
    items = {found["id"]: (found["note"], found["other"]) for found in shown(graph)["node:Item"]}
    changed = set(some)
    assert items == {
        id_: (2 if id_ in changed else 1, at if at < 6_000 else None) for at, id_ in enumerate(ids) if at < 6_000 or id_ in changed
    }
    found = {(edge["src"], edge["dst"]): (edge["n"], edge["m"]) for edge in shown(graph)["edge:Near"]}
    assert found == {(ids[at], ids[at + 1]): (at, 2 if at < count else 1) for at in range(5_999)}
    assert [finding.code for finding in graph.verify() if finding.severity == "error"] == []


def test_an_upsert_that_dies_leaves_no_patches_in_the_graph(graph: Graph) -> None:
    with armed(Fault.WRITE_PREPARED), pytest.raises(SimulatedCrash):
        graph.load(ndjson({"type": "Person", "data": {"name": "Ada", "mood": "sad"}}), "upsert")
    assert not [path for path in files_of(graph) if path.endswith(".patch")]
