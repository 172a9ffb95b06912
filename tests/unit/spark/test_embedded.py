"""Vectors that the rows of a Spark load leave out, embedded by its tasks, run here one by one: as a load in one process does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.catalog import encode
from omnigraph.embed import EmbeddingProvider, portable_provider
from omnigraph.errors import EmbeddingError, InvalidInput, Kind
from omnigraph.exec.load.load import Intake
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.load.staging import target_of
from omnigraph.graph import Graph
from omnigraph.spark.intake import FilesIntake, TablesIntake, provider_of
from omnigraph.spark.messages import Job, Place, StageFrame
from omnigraph.spark.tasks import stage_rows
from omnigraph.spark.writer import StagedIntake
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.embedders import Recording
from tests.mutations import run
from tests.unit.spark.here import Here, loaded

SCHEMA = 'node Doc { slug: String @key  text: String?  vec: Vector(4) @embed(text, model="m")  more: Vector(2)? @embed(text) }'
MOCK = EmbeddingProvider(kind="mock", model="m")
VECTOR = [1.0, 2.0, 3.0, 4.0]


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def graph_at(path: Path, embedding: Any = MOCK) -> Graph:
    return og.init(path, schema=SCHEMA, embedding=embedding)


def documents(count: int) -> list[dict[str, object]]:
    return [{"slug": f"d{n}", "text": f"text {n % 30}", **({} if n % 5 else {"vec": VECTOR})} for n in range(count)]


def files(graph: Graph, path: Path, rows: list[dict[str, object]], *, part_bytes: int = 1_000) -> FilesIntake:
    path.write_text("\n".join(json.dumps({"type": "Doc", "data": row}) for row in rows))
    return FilesIntake(Here(), graph.engine, [str(path)], part_bytes=part_bytes)


def tables(graph: Graph, path: Path, rows: list[dict[str, object]]) -> TablesIntake:
    columns = [name for name in ("slug", "text", "vec") if any(name in row for row in rows)]
    types = {"slug": pa.string(), "text": pa.string(), "vec": pa.list_(pa.float32())}
    file = path.with_suffix(".parquet")
    pq.write_table(pa.table({name: pa.array([row.get(name) for row in rows], types[name]) for name in columns}), file)
    return TablesIntake(Here(), graph.engine, {"Doc": str(file)}, part_bytes=2_000, slice_rows=50)


def load(graph: Graph, intake: Intake, mode: str = "append") -> None:
    loaded(graph, intake, mode, branch="main", report_errors=10)


@pytest.mark.parametrize("kind", [files, tables])
def test_tasks_embed_what_rows_leave_out(tmp_path: Path, kind: Any) -> None:
    """Every mode gives the graph that a load in one process gives; the provider of the driver is asked, whatever the environment."""
    here, there = graph_at(tmp_path / "here"), graph_at(tmp_path / "there")
    for mode, rows in (
        ("append", documents(200)),
        ("merge", [{"slug": "d1", "text": "new"}, {"slug": "n", "text": "new"}]),
        (
            "upsert",
            [{"slug": "d2", "text": "newer"}, {"slug": "d3"}, {"slug": "d4", "text": "text 4", "vec": VECTOR}][: 3 if kind is files else 1],
        ),
    ):
        intake = kind(there, tmp_path / f"{mode}.data", rows)
        load(there, intake, mode)
        assert not intake.rereadable, "it might happen under a lock"
        here.load([{"type": "Doc", "data": row} for row in rows], mode)
        assert list(there.export()) == list(here.export())


def test_the_rows_of_a_data_frame_are_embedded_too(tmp_path: Path) -> None:
    graph = graph_at(tmp_path / "g")
    snapshot = graph.engine.snapshot()
    catalog = graph.engine.catalog(snapshot)
    doc = catalog.node("Doc")
    assert doc is not None
    place, targets = Place(graph.uri, {}), {doc.id: target_of(snapshot, doc)}
    job = Job(place, encode(catalog), targets, LoadMode.APPEND, (), provider_of(graph.engine, catalog))
    rows = pa.RecordBatch.from_pydict({"slug": ["a", "b"], "text": ["one", "two"]})
    staged = stage_rows(StageFrame(job, "Doc", 10), 0, [rows])
    intake = StagedIntake(job, doc, [staged], graph.engine.root)
    load(graph, intake)
    here = graph_at(tmp_path / "here")
    here.load({"Doc": rows})
    assert list(graph.export()) == list(here.export())
    refused = stage_rows(StageFrame(job, "Doc", 10), 0, [pa.RecordBatch.from_pydict({"slug": ["c", "d"], "text": ["x", None]}), rows])
    assert (refused.refused, [problem.record for problem in refused.problems]) == (True, [2])


def test_a_required_vector_without_a_text_is_a_problem_of_its_record(tmp_path: Path) -> None:
    """And the same as in one process; nothing is embedded for a refusal."""
    graph = graph_at(tmp_path / "g")
    rows: list[dict[str, object]] = [*documents(120), {"slug": "x"}, {"slug": "y", "text": " "}]
    with pytest.raises(InvalidInput) as here:
        graph.load([{"type": "Doc", "data": row} for row in rows])
    for kind in (files, tables):
        with pytest.raises(InvalidInput) as there:
            load(graph, kind(graph, tmp_path / "rows.data", rows))
        told: Any = there.value.facts["problems"]
        expected: Any = here.value.facts["problems"]
        assert [problem.message for problem in told] == [problem.message for problem in expected]
        assert [problem.line or problem.record for problem in told] == [121, 122]


def test_an_upsert_without_a_provider_leaves_no_vector_of_another_text(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA.replace("vec: Vector(4)", "vec: Vector(4)?"))
    run(graph, 'insert Doc { slug: "a", text: "one", vec: [1, 2, 3, 4] }')
    load(graph, files(graph, tmp_path / "rows", [{"slug": "a", "text": "two"}]), "upsert")
    (line,) = graph.export()
    assert json.loads(line)["data"]["vec"] is None


def test_without_a_provider_a_required_vector_is_refused_with_a_remedy_that_works(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    for kind in (files, tables):
        with pytest.raises(InvalidInput, match="configure an embedding provider, or give the vector"):
            load(graph, kind(graph, tmp_path / "rows.data", documents(3)[1:]))
    again = og.open(graph.uri, embedding=MOCK)
    load(again, files(again, tmp_path / "rows", documents(3)[1:]))
    assert len(list(again.export())) == 2


def test_a_provider_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Nobody listens there. Files that other tasks wrote are removed."""
    away = EmbeddingProvider(kind="openai-compatible", base_url="http://127.0.0.1:9/v1", model="m", attempts=1, timeout_seconds=2)
    graph = graph_at(tmp_path / "g", away)
    before, kept = graph.snapshot(), sorted((tmp_path / "g").rglob("*.lance"))
    rows: list[dict[str, object]] = [{"slug": f"a{n}", "text": "t", "vec": VECTOR, "more": [1.0, 2.0]} for n in range(50)]
    with pytest.raises(EmbeddingError) as caught:
        load(graph, files(graph, tmp_path / "rows", [*rows, {"slug": "x", "text": "t"}]))
    assert caught.value.kind is Kind.EMBEDDING_UNAVAILABLE
    assert graph.snapshot() == before
    assert sorted((tmp_path / "g").rglob("*.lance")) == kept


def test_the_recorded_model_is_checked(tmp_path: Path) -> None:
    graph = graph_at(tmp_path / "g", EmbeddingProvider(kind="mock", model="other"))
    with pytest.raises(InvalidInput) as caught:
        load(graph, files(graph, tmp_path / "rows", documents(3)))
    assert caught.value.kind is Kind.EMBEDDING_MODEL


def test_settings_that_travel_are_complete() -> None:
    environment = {"OPENAI_API_KEY": "key", "OMNIGRAPH_EMBED_PROVIDER": "openai"}
    found = portable_provider(None, environment)
    assert found is not None
    assert (found.kind, found.model, found.api_key) == ("openai", "text-embedding-3-large", "key")
    assert "key'" not in repr(found)
    mock = portable_provider(EmbeddingProvider(kind="mock"), {"OMNIGRAPH_EMBED_MODEL": "m"})
    assert mock is not None
    assert mock.model == "m"
    assert portable_provider(None, {"OPENAI_API_KEY": "key"}) is None
    assert portable_provider(Recording(), environment) is None
