"""What a load does to a graph: modes, branches, tokens, and that nothing of a refused one stays."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import ConflictError, InvalidInput, KeyConflict, Kind, OmniGraphError, Unsupported
from omnigraph.exec.load.load import Load, LocalIntake, Progress, Stage
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.write.protocol import Request, write
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.manifest.model import CommitKind
from tests.loads import FIRST, OVER, SCHEMA, SECOND, SOURCES, ndjson, shown

WORK = BranchName("work")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    made = og.init(tmp_path / "g", schema=SCHEMA, actor="act-loader")
    made.load(ndjson(*FIRST), mode="append")
    return made


def files_of(graph: Graph) -> set[str]:
    """Every data file of the graph, named or not."""
    return {str(path) for path in Path(graph.uri).rglob("*.lance") if "__manifest" not in str(path)}


def people(graph: Graph, branch: str = "main") -> list[str]:
    return [row["id"] for row in shown(graph, branch)["node:Person"]]


# -- modes


def test_an_append_adds_rows_in_one_commit(graph: Graph) -> None:
    """W-44: A commit records its actor.

    Also W-27.
    """
    before = graph.snapshot()
    receipt = graph.load(ndjson(*SECOND), mode="append", message="more people")
    assert (receipt.nodes, receipt.edges, receipt.total) == ({"Person": 2}, {"Knows": 1}, 3)
    assert receipt.commit is not None
    assert (receipt.commit.parents, receipt.commit.actor, receipt.commit.message) == ((before.commit_id,), "act-loader", "more people")
    assert people(graph) == ["Ada", "Ben", "Cyd", "Dee"]
    assert graph.verify() == []


def test_an_append_refuses_an_id_that_is_there(graph: Graph) -> None:
    """W-28: An append of an id that exists is refused with type, id and line; nothing moves.

    Also E91.
    """
    before = graph.snapshot()
    with pytest.raises(KeyConflict) as caught:
        graph.load(ndjson(*SECOND, FIRST[0]), mode="append")
    assert caught.value.kind is Kind.KEY_CONFLICT
    assert "node type 'Person' already has this id" in caught.value.message
    assert (caught.value.facts["id"], caught.value.facts["line"]) == ("Ada", 4)
    assert graph.snapshot() == before


def test_a_merge_replaces_whole_rows_and_adds_others(graph: Graph) -> None:
    """W-29: A merge replaces whole rows and adds others; a property that a record leaves out becomes null.

    Also E92.
    """
    for _ in range(3):
        graph.load(ndjson({"type": "Person", "data": {"name": "Ada"}}, SECOND[0]), mode="merge")
    rows = {row["id"]: row for row in shown(graph)["node:Person"]}
    assert (rows["Ada"]["born"], rows["Ada"]["email"], rows["Cyd"]["born"]) == (None, None, 1900)
    assert sorted(rows) == ["Ada", "Ben", "Cyd"]
    assert graph.verify() == []


def test_an_overwrite_replaces_the_types_it_names_and_no_other(graph: Graph) -> None:
    """W-31: An overwrite replaces the types that its input names and no other.

    Also E95.
    """
    graph.load(ndjson(*OVER), mode="overwrite")
    rows = shown(graph)
    assert [row["id"] for row in rows["node:Person"]] == ["Ada", "Ben", "Eve"]
    assert [row["id"] for row in rows["edge:Knows"]] == ["k9"]
    assert [row["id"] for row in rows["node:Note"]] == ["n1"]
    assert graph.verify() == []


def test_an_empty_load_is_a_commit_of_its_own(graph: Graph) -> None:
    """W-26: An empty load is a commit in every mode and changes no table."""
    before = graph.snapshot()
    for mode in LoadMode:
        receipt = graph.load(b"\n\n", mode=mode)
        assert receipt.commit is not None
        assert (receipt.total, receipt.commit.tables) == (0, ())
    assert graph.snapshot().tables == before.tables


def test_a_mode_that_is_none_is_refused(graph: Graph) -> None:
    with pytest.raises(InvalidInput, match="append, merge, upsert, overwrite"):
        graph.load(b"", mode="replace")


# -- sources


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("mode", LoadMode)
def test_every_source_gives_the_same_graph(tmp_path: Path, source: str, mode: LoadMode) -> None:
    graphs = [og.init(tmp_path / name, schema=SCHEMA) for name in ("plain", "other")]
    for graph in graphs:
        graph.load(ndjson(*FIRST), mode="append")
    records = SECOND if mode is LoadMode.APPEND else OVER
    receipts = [
        graphs[0].load(ndjson(*records), mode=mode),
        graphs[1].load(SOURCES[source](records, tmp_path), mode=mode),
    ]
    assert shown(graphs[0]) == shown(graphs[1])
    assert receipts[0].nodes == receipts[1].nodes
    assert receipts[0].edges == receipts[1].edges


# -- refusals


BAD: dict[str, tuple[bytes, ProblemCode, int]] = {
    "not JSON": (b'{"type":"Person"', ProblemCode.JSON, 1),
    "a wrong type": (ndjson(*SECOND, {"type": "Person", "data": {"name": "Q", "born": "1999"}}), ProblemCode.TYPE, 4),
    "an unknown type": (ndjson(SECOND[0], {"type": "Robot", "data": {}}), ProblemCode.UNKNOWN_TYPE, 2),
    "an unknown property": (ndjson({"type": "Person", "data": {"name": "Q", "age": 3}}), ProblemCode.UNKNOWN_FIELD, 1),
    "a missing key": (ndjson(SECOND[0], {"type": "Person", "data": {}}), ProblemCode.REQUIRED, 2),
    "a wrong enum value": (ndjson({"type": "Person", "data": {"name": "Q", "mood": "odd"}}), ProblemCode.ENUM, 1),
    "a number out of range": (ndjson({"type": "Person", "data": {"name": "Q", "born": 1700}}), ProblemCode.RANGE, 1),
    "a key given twice": (ndjson(*SECOND, SECOND[0]), ProblemCode.DUPLICATE_ID, 4),
    "a unique value that is taken": (ndjson({"type": "Person", "data": {"name": "Q", "email": "ada@x"}}), ProblemCode.UNIQUE, 1),
    "an edge to nobody": (ndjson(SECOND[0], {"edge": "Knows", "from": "Cyd", "to": "Zed"}), ProblemCode.ENDPOINT, 2),
    "too many edges": (ndjson(*[{"edge": "Wrote", "from": "Ada", "to": "n1"}] * 3), ProblemCode.CARDINALITY, 3),
}


@pytest.mark.parametrize("what", BAD)
def test_a_load_with_anything_wrong_changes_nothing_and_leaves_nothing(graph: Graph, what: str) -> None:
    """W-11: A refused write changes nothing and leaves no files.

    Also W-32.
    """
    data, code, line = BAD[what]
    before, files, rows = graph.snapshot(), files_of(graph), shown(graph)
    with pytest.raises(InvalidInput) as caught:
        graph.load(data, mode="merge")
    problems: Any = caught.value.facts["problems"]
    (first, *_) = problems
    assert (first.code, first.line) == (code, line), first
    assert (graph.snapshot(), shown(graph)) == (before, rows)
    assert files_of(graph) == files
    assert graph.load(ndjson(*SECOND), mode="merge").total == 3, "the next load is not bothered"


def test_many_problems_are_reported_at_once(graph: Graph) -> None:
    bad = ndjson(*({"type": "Person", "data": {"name": f"p{n}", "born": "x"}} for n in range(250)))
    with pytest.raises(InvalidInput) as caught:
        graph.load(bad, mode="append", report_errors=20)
    problems: tuple[Any, ...] = caught.value.facts["problems"]  # type: ignore[assignment]
    assert [problem.line for problem in problems] == list(range(1, 21))


def test_a_read_only_graph_is_not_loaded_into(graph: Graph) -> None:
    reader = og.open(graph.uri, mode="r")
    with pytest.raises(Unsupported):
        reader.load(ndjson(*SECOND))
    assert reader.load(ndjson(*SECOND), dry_run=True).total == 3, "but may be asked whether the data is right"


# -- dry runs, tokens, branches


def test_a_dry_run_checks_everything_and_writes_nothing(graph: Graph) -> None:
    before, files = graph.snapshot(), files_of(graph)
    receipt = graph.load(ndjson(*OVER), mode="merge", dry_run=True)
    assert (receipt.total, receipt.commit) == (4, None)
    with pytest.raises(InvalidInput, match="not found in Person"):
        graph.load(ndjson({"edge": "Knows", "from": "Ada", "to": "Zed"}), dry_run=True)
    assert (graph.snapshot(), files_of(graph)) == (before, files)


def test_a_retry_with_the_token_gets_the_first_receipt_and_reads_nothing(graph: Graph) -> None:
    first = graph.load(ndjson(*SECOND), mode="append", token="nightly")
    again = graph.load(iter(["this would be refused"]), mode="append", token="nightly")
    assert again == first
    with pytest.raises(InvalidInput, match="belongs to a load") as other:
        graph.mutate('query q() { insert Person { name: "Z" } }', token="nightly")
    assert other.value.kind is Kind.TOKEN_REUSED


def _as(data: bytes, folder: Path) -> dict[str, Any]:
    """The same records in every form that can be read twice."""
    file = folder / "data.jsonl"
    file.write_bytes(data)
    records = [json.loads(line) for line in data.splitlines()]
    table = pa.Table.from_pylist([record["data"] for record in records if record.get("type") == "Person"])
    return {
        "bytes": data,
        "path": str(file),
        "paths": [file],
        "records": records,
        "lines": data.decode().splitlines(),
        "table": {"Person": table},
        "batch": {"Person": table.combine_chunks().to_batches()[0]},
        "frame": {"Person": table.to_pandas()},
    }


def test_a_retry_may_compress_the_same_records_again(graph: Graph, tmp_path: Path) -> None:
    """A gzip file says when it was made. The records decide whether a load is the same."""
    file, table = tmp_path / "data.ndjson.gz", tmp_path / "rows.csv.gz"
    for data, path in ((ndjson({"type": "Person", "data": {"name": "Gil"}}), file), (b"name\nHal\n", table)):
        receipts = []
        for made_at in (1, 2):
            path.write_bytes(gzip.compress(data, mtime=made_at))
            receipts.append(graph.load({"Person": path} if path is table else path, mode="merge", token=path.name))
        assert receipts[0] == receipts[1]
    before = graph.snapshot()
    file.write_bytes(gzip.compress(ndjson({"type": "Person", "data": {"name": "Ida"}})))
    with pytest.raises(InvalidInput, match="belongs to another load"):
        graph.load(file, mode="merge", token=file.name)
    assert graph.snapshot() == before


@pytest.mark.parametrize("form", ["bytes", "path", "paths", "records", "lines", "table", "batch", "frame"])
def test_a_token_used_again_for_other_data_is_refused(graph: Graph, tmp_path: Path, form: str) -> None:
    one = ndjson({"type": "Person", "data": {"name": "Gil"}})
    other = ndjson({"type": "Person", "data": {"name": "Hal"}})
    first = graph.load(_as(one, tmp_path)[form], mode="merge", token="job")
    assert graph.load(_as(one, tmp_path)[form], mode="merge", token="job") == first
    before = graph.snapshot()
    with pytest.raises(InvalidInput, match="belongs to another load") as reused:
        graph.load(_as(other, tmp_path)[form], mode="merge", token="job")
    assert reused.value.kind is Kind.TOKEN_REUSED
    assert reused.value.facts == {"token": "job", "commit": first.commit.id}  # type: ignore[union-attr]
    with pytest.raises(InvalidInput, match="belongs to another load"):
        graph.load(_as(one, tmp_path)[form], mode="append", token="job")
    assert graph.snapshot() == before


def test_a_branch_is_made_for_a_load_that_is_sound(graph: Graph) -> None:
    with pytest.raises(OmniGraphError) as missing:
        graph.load(ndjson(*SECOND), branch="work")
    assert missing.value.kind is Kind.BRANCH_NOT_FOUND
    with pytest.raises(InvalidInput):
        graph.load(ndjson({"type": "Person", "data": {}}), branch="work", from_branch="main")
    assert graph.branches.list() == ["main"], "a refused load leaves no branch behind"
    anew = og.open(graph.uri)  # has not seen the schema yet, and cannot ask a branch that is not there
    receipt = anew.load(ndjson(*OVER), mode="merge", branch="work", from_branch="main")
    assert receipt.branch == "work"
    assert people(graph, "work") == ["Ada", "Ben", "Eve"]
    assert people(graph) == ["Ada", "Ben"]
    graph.load(ndjson(*SECOND), mode="append", branch="work", from_branch="main")
    assert len(people(graph, "work")) == 5
    assert graph.verify() == []


@pytest.mark.parametrize("mode", LoadMode)
def test_a_first_touch_of_a_branch_keeps_the_parent_as_it_was(graph: Graph, mode: LoadMode) -> None:
    """B-13: A fork starts from the version that the branch shows, also when main has moved on; main does not change.

    Also B-04.
    """
    graph.branches.create("work")
    before = shown(graph)
    records = SECOND if mode is LoadMode.APPEND else OVER
    graph.load(ndjson(*records), mode=mode, branch="work")
    assert shown(graph) == before
    twin = og.init(f"{graph.uri}-twin", schema=SCHEMA)
    twin.load(ndjson(*FIRST), mode="append")
    twin.load(ndjson(*records), mode=mode)
    assert shown(graph, "work") == shown(twin)
    assert graph.verify() == []


@pytest.mark.parametrize("mode", LoadMode)
def test_a_table_without_rows_may_be_the_first_touch_of_a_branch(graph: Graph, mode: LoadMode) -> None:
    """It names its type, and only an overwrite does something to that."""
    graph.branches.create(WORK)
    nobody = pa.table({"text": pa.array([], pa.string())})
    receipt = graph.load({"Note": nobody, "Person": pa.table({"name": ["Ada", "Ben"] if mode != "append" else ["Eve"]})}, mode, branch=WORK)
    assert receipt.nodes["Note"] == 0
    assert len(shown(graph, WORK)["node:Note"]) == (0 if mode == "overwrite" else 1)
    assert len(shown(graph)["node:Note"]) == 1


def test_an_id_given_twice_on_a_branch_is_refused_before_it_has_a_table_of_its_own(graph: Graph) -> None:
    """W-32: no ref, no fork, no file."""
    graph.branches.create("work")
    with pytest.raises(InvalidInput, match="twice in one input"):
        graph.load(ndjson(FIRST[2], FIRST[2]), mode="merge", branch="work")
    assert [table.native_branch for table in graph.snapshot("work").tables] == [None] * 4
    assert not list(Path(graph.uri).glob("*/*/_refs/branches/*"))
    assert not list(Path(graph.uri).glob("*/*/tree/**/*.lance"))


# -- others write too


def test_a_load_that_was_overtaken_is_checked_again_on_what_is_there_now(graph: Graph) -> None:
    """V-15: the email was free when the load was read, and is not when it lands."""
    data = ndjson({"type": "Person", "data": {"name": "Eva", "email": "eve@x"}})
    load = Load(graph.engine, LocalIntake(data), LoadMode.APPEND, write=True)
    load.prepare(graph.engine.manifest.snapshot())
    graph.mutate('query q() { insert Person { name: "Eve", email: "eve@x" } }')
    with pytest.raises(InvalidInput, match=r"@unique violation on Person\.email"):
        load.prepare(graph.engine.manifest.snapshot())


@pytest.mark.parametrize("once", [False, True])
def test_a_load_finds_the_branch_forked_by_another_meanwhile(graph: Graph, once: bool) -> None:
    """The files lie where nobody will look for them, and are moved; the input is not read again."""
    graph.branches.create("work")
    data = iter(ndjson(*OVER).decode().splitlines()) if once else ndjson(*OVER)
    load = Load(graph.engine, LocalIntake(data), LoadMode.MERGE, write=True)
    load.prepare(graph.engine.manifest.snapshot(WORK))
    graph.load(ndjson(*SECOND), branch="work")
    write(graph.engine, Request(CommitKind.LOAD, branch=WORK), load.prepare)
    assert people(graph, "work") == ["Ada", "Ben", "Cyd", "Dee", "Eve"]
    assert graph.verify() == []


def test_loads_side_by_side_all_land(graph: Graph) -> None:
    failures: list[OmniGraphError] = []

    def work(n: int) -> None:
        try:
            og.open(graph.uri).load(ndjson({"type": "Person", "data": {"name": f"p{n}"}}), mode="append")
        except OmniGraphError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(people(graph)) == 8


# -- how far


def test_progress_is_told_from_the_first_byte_to_the_commit(graph: Graph, tmp_path: Path) -> None:
    told: list[Progress] = []
    path = tmp_path / "more.ndjson"
    path.write_bytes(ndjson(*SECOND))
    graph.load(path, mode="append", on_progress=told.append)
    assert [stage for stage in Stage if any(one.stage is stage for one in told)] == list(Stage)
    assert told[-1].rows == 3
    assert told[-1].read_bytes == told[-1].total_bytes == path.stat().st_size


def test_key_columns_past_the_budget_are_read_back_from_the_files(graph: Graph) -> None:
    data = ndjson(*({"type": "Person", "data": {"name": f"p{n}", "email": f"{n}@x"}} for n in range(500)), FIRST[0])
    load = Load(graph.engine, LocalIntake(data), LoadMode.APPEND, write=True, key_bytes=2_000)
    with pytest.raises(KeyConflict) as caught:
        load.prepare(graph.engine.manifest.snapshot())
    assert caught.value.facts["line"] == 501


def test_a_failure_between_tables_leaves_the_graph_as_it_was(graph: Graph) -> None:
    before = shown(graph)
    failure = ConflictError(Kind.CONTENTION, "somebody was faster")
    with armed(Fault.WRITE_BETWEEN_TABLES, failure=failure), pytest.raises(ConflictError):
        graph.load(ndjson(*SECOND), mode="append")
    assert shown(graph) == before
    assert graph.load(ndjson(*SECOND), mode="append").total == 3
