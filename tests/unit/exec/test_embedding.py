"""`@embed` properties that a write leaves out: embedded with a provider, null or refused without one; and nothing is written in doubt."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.embed import EmbeddingProvider, Purpose
from omnigraph.errors import EmbeddingError, InvalidInput, Kind, LimitError, OmniGraphError, ResourceLimitExceeded
from omnigraph.exec import embedding
from omnigraph.exec.problems import Problem, ProblemCode
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest.locks import Locks
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.embedders import Recording, unit
from tests.embedding_server import EmbeddingServer, answer, embedding_server, failing, saying
from tests.mutations import Racing, run, values

SCHEMA = """
node Doc { slug: String @key  text: String?  note: String?  vec: Vector(4)? @embed(text, model="m") }
node Must { slug: String @key  text: String  vec: Vector(2) @embed(text) }
edge Cites: Doc -> Doc
"""


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def embedder() -> Recording:
    return Recording()


@pytest.fixture
def graph(tmp_path: Path, embedder: Recording) -> Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=embedder)
    embedder.before = lambda: _assert_unlocked(graph)
    return graph


@pytest.fixture
def bare(tmp_path: Path) -> Graph:
    """A graph without a provider."""
    return og.init(tmp_path / "bare", schema=SCHEMA)


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as made:
        yield made


def _assert_unlocked(graph: Graph) -> None:
    """No lock is held while a provider is asked."""
    assert not Locks.of(graph.engine.manifest.root.objects).busy(MAIN)


def docs(graph: Graph) -> dict[str, object]:
    return values(graph, "node:Doc", "vec")


def refused(graph: Graph, text: str, params: dict[str, object] | None = None) -> OmniGraphError:
    before, files = graph.snapshot(), data_files(graph)
    with pytest.raises(OmniGraphError) as caught:
        run(graph, text, params)
    assert graph.snapshot() == before
    assert data_files(graph) == files
    return caught.value


def data_files(graph: Graph) -> list[str]:
    return sorted(path.name for path in Path(graph.uri).rglob("*.lance") if path.is_file())


# -- mutations


def test_an_insert_embeds_the_text_of_a_vector_that_it_leaves_out(graph: Graph, embedder: Recording) -> None:
    run(graph, 'insert Doc { slug: "a", text: "one" } insert Doc { slug: "b" } insert Doc { slug: "c", text: "one" }')
    run(graph, 'insert Doc { slug: "d", text: "two", vec: [1, 2, 3, 4] } insert Doc { slug: "e", text: " " }')
    run(graph, 'insert Must { slug: "a", text: "three" }')
    assert docs(graph) == {"a": unit("one", 4), "b": None, "c": unit("one", 4), "d": [1, 2, 3, 4], "e": None}
    assert values(graph, "node:Must", "vec") == {"a": unit("three", 2)}
    assert embedder.calls == [(["one"], 4, Purpose.DOCUMENT), (["three"], 2, Purpose.DOCUMENT)]


def test_an_update_of_the_text_embeds_what_changed_and_keeps_the_rest(graph: Graph, embedder: Recording) -> None:
    run(graph, 'insert Doc { slug: "a", text: "one" } insert Doc { slug: "b", text: "two" } insert Doc { slug: "c", text: "x" }')
    run(graph, 'update Doc set { vec: [9, 9, 9, 9] } where slug = "b"')
    embedder.calls.clear()
    run(graph, 'update Doc set { note: "n" } where slug = "a"')
    assert embedder.calls == []
    run(graph, 'update Doc set { text: "two" } where slug in ["a", "b"]')
    run(graph, '($nothing: String?) update Doc set { text: $nothing } where slug = "c"', {"nothing": None})
    assert docs(graph) == {"a": unit("two", 4), "b": [9, 9, 9, 9], "c": None}
    assert embedder.texts == ["two"]


def test_an_upsert_and_a_matched_update_embed_too(graph: Graph, embedder: Recording) -> None:
    run(graph, 'insert Doc { slug: "a", text: "one", note: "other" } insert Doc { slug: "b", text: "two", note: "same" }')
    run(graph, 'upsert Doc { slug: "a", note: "changed" } upsert Doc { slug: "b", text: "two" } upsert Doc { slug: "c", text: "new" }')
    assert docs(graph) == {"a": unit("one", 4), "b": unit("two", 4), "c": unit("new", 4)}
    run(graph, 'match { $d: Doc { slug: "b" } } update $d set { text: $d.slug }')
    assert docs(graph)["b"] == unit("b", 4)
    assert embedder.texts == ["b", "new", "one", "two"]


def test_statements_of_one_mutation_share_one_call(graph: Graph, embedder: Recording) -> None:
    run(graph, " ".join(f'insert Doc {{ slug: "{number}", text: "t{number}" }}' for number in range(20)))
    assert [len(texts) for texts, _, _ in embedder.calls] == [20]


def test_texts_of_a_refused_mutation_are_not_embedded(graph: Graph, embedder: Recording) -> None:
    error = refused(graph, 'insert Doc { slug: "a", text: "one" } insert Cites { from: "a", to: "nowhere" }')
    assert error.kind is Kind.VALIDATION
    assert embedder.calls == []


def test_a_text_that_another_writer_changes_meanwhile_is_embedded_again(graph: Graph, embedder: Recording) -> None:
    """The second preparation runs under the lock, and ends there: its new text is embedded after the lock is released."""
    run(graph, 'insert Doc { slug: "a", note: "one" }')
    other = og.open(graph.uri, embedding=Recording())
    embedder.before = lambda: None
    racing = Racing({"s": "a"}, lambda: run(other, 'update Doc set { note: "two" } where slug = "a"'))
    run(graph, "($s: String) update Doc set { text: note } where slug = $s", racing)
    assert docs(graph) == {"a": unit("two", 4)}


def test_a_retry_with_the_same_token_asks_no_provider(graph: Graph, embedder: Recording) -> None:
    first = run(graph, 'insert Doc { slug: "a", text: "one" }', token="t")
    embedder.calls.clear()
    assert run(graph, 'insert Doc { slug: "a", text: "one" }', token="t").commit == first.commit
    assert embedder.calls == []


def test_without_a_provider_a_vector_is_null_or_refused_with_the_remedy(bare: Graph) -> None:
    run(bare, 'insert Doc { slug: "a", text: "one" } insert Must { slug: "a", text: "x", vec: [1, 2] }')
    assert docs(bare) == {"a": None}
    for text in ('insert Must { slug: "b", text: "x" }', 'upsert Must { slug: "b", text: "x" }', 'update Must set { text: "y" }'):
        error = refused(bare, text if text.startswith(("insert", "upsert")) else f'{text} where slug = "a"')
        assert isinstance(error, InvalidInput)
        assert error.message == "missing required property 'vec': configure an embedding provider, or give the vector"
    run(bare, 'update Must set { text: "x" } where slug = "a"')
    assert values(bare, "node:Must", "vec") == {"a": [1, 2]}


def test_without_a_provider_a_new_text_has_no_vector_of_the_old_one(bare: Graph) -> None:
    run(bare, 'insert Doc { slug: "a", text: "one", vec: [1, 2, 3, 4] }')
    run(bare, 'update Doc set { text: "two" } where slug = "a"')
    assert docs(bare) == {"a": None}


def test_a_required_vector_needs_a_text(graph: Graph) -> None:
    error = refused(graph, 'insert Must { slug: "a", text: "" }')
    assert error.message == "missing required property 'vec': its source 'text' has no text to embed"


def test_another_model_than_the_recorded_one_is_refused(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=Recording("other"))
    error = refused(graph, 'insert Doc { slug: "a", text: "one" }')
    assert (error.kind, error.facts["recorded"], error.facts["configured"]) == (Kind.EMBEDDING_MODEL, "m", "other")
    run(graph, 'insert Must { slug: "a", text: "one" } insert Doc { slug: "a", vec: [1, 2, 3, 4], text: "one" }')


def test_a_mutation_that_needs_too_many_vectors_is_refused_with_the_remedy(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "HELD_BYTES", 4 * 4 * 2)
    error = refused(graph, " ".join(f'insert Doc {{ slug: "{number}", text: "t{number}" }}' for number in range(3)))
    assert isinstance(error, ResourceLimitExceeded)
    assert "ensure_embeddings" in error.message


def test_a_provider_that_fails_leaves_nothing(tmp_path: Path, server: EmbeddingServer) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=EmbeddingProvider(base_url=server.url, model="m", backoff_seconds=0.01))
    for behaviour in (failing(500), failing(400), saying({"data": [{"index": 0, "embedding": [1, 2, 3]}]}), saying(b"{")):
        server.otherwise = behaviour
        assert isinstance(refused(graph, 'insert Doc { slug: "a", text: "one" }'), EmbeddingError)
    server.otherwise = answer
    run(graph, 'insert Doc { slug: "a", text: "one" }')
    assert np.linalg.norm(np.array(docs(graph)["a"])) == pytest.approx(1, rel=1e-6)


def test_wrong_settings_are_refused_only_where_they_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "nobody")
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    run(graph, 'insert Doc { slug: "a" }')
    assert refused(graph, 'insert Doc { slug: "b", text: "x" }').kind is Kind.EMBEDDING_CONFIGURATION


def test_the_environment_configures_a_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_EMBEDDINGS_MOCK", "1")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m")
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    run(graph, 'insert Doc { slug: "a", text: "one" }')
    assert docs(graph)["a"] is not None


def test_an_embedding_argument_is_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        og.init(tmp_path / "g", schema=SCHEMA, embedding="mock")  # type: ignore[arg-type]  # the mistake
    assert caught.value.kind is Kind.INVALID_ARGUMENT
    assert not (tmp_path / "g").exists()


# -- loads

LINES: list[dict[str, object]] = [
    {"type": "Doc", "data": {"slug": "a", "text": "one"}},
    {"type": "Must", "data": {"slug": "a", "text": "one"}},
    {"type": "Doc", "data": {"slug": "b", "text": "one", "vec": [1, 2, 3, 4]}},
    {"type": "Doc", "data": {"slug": "c", "text": "two", "vec": None}},
    {"type": "Doc", "data": {"slug": "d", "text": ""}},
    {"edge": "Cites", "from": "a", "to": "b"},
]


def lines(records: list[dict[str, object]]) -> bytes:
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_embeds_the_vectors_that_its_records_leave_out(graph: Graph, embedder: Recording, mode: str) -> None:
    graph.load(lines(LINES), mode)
    assert docs(graph) == {"a": unit("one", 4), "b": [1, 2, 3, 4], "c": unit("two", 4), "d": None}
    assert values(graph, "node:Must", "vec") == {"a": unit("one", 2)}
    assert sorted((sorted(texts), dimension) for texts, dimension, _ in embedder.calls) == [(["one"], 2), (["one", "two"], 4)]


def test_an_upsert_embeds_the_texts_that_it_gives_and_keeps_the_rest(graph: Graph, embedder: Recording) -> None:
    run(graph, 'insert Doc { slug: "a", text: "one" } insert Doc { slug: "b", text: "two" } insert Doc { slug: "c", text: "three" }')
    run(graph, 'insert Must { slug: "a", text: "one" }')
    embedder.calls.clear()
    changes: list[dict[str, object]] = [
        {"type": "Doc", "data": {"slug": "a", "note": "n"}},
        {"type": "Doc", "data": {"slug": "b", "text": "changed"}},
        {"type": "Doc", "data": {"slug": "c", "text": None}},
        {"type": "Doc", "data": {"slug": "d", "text": "new"}},
        {"type": "Must", "data": {"slug": "a", "text": "other"}},
        {"type": "Must", "data": {"slug": "b", "text": "new"}},
    ]
    graph.load(lines(changes), "upsert")
    assert docs(graph) == {"a": unit("one", 4), "b": unit("changed", 4), "c": None, "d": unit("new", 4)}
    assert values(graph, "node:Must", "vec") == {"a": unit("other", 2), "b": unit("new", 2)}
    assert embedder.texts == ["changed", "new", "new", "other"]
    graph.load(lines([{"type": "Doc", "data": {"slug": "a", "text": "again", "vec": None}}]), "upsert")
    assert docs(graph)["a"] is None


def test_an_upsert_without_a_provider_leaves_no_vector_of_another_text(bare: Graph) -> None:
    run(bare, 'insert Doc { slug: "a", text: "one", vec: [1, 2, 3, 4] } insert Doc { slug: "b", text: "two", vec: [1, 2, 3, 4] }')
    run(bare, 'insert Must { slug: "a", text: "one", vec: [1, 2] }')
    bare.load(lines([{"type": "Doc", "data": {"slug": "a", "text": "new"}}, {"type": "Doc", "data": {"slug": "b", "note": "n"}}]), "upsert")
    assert docs(bare) == {"a": None, "b": [1, 2, 3, 4]}
    with pytest.raises(InvalidInput) as caught:
        bare.load(lines([{"type": "Must", "data": {"slug": "a", "text": "new"}}]), "upsert")
    assert "configure an embedding provider, or give the vector" in caught.value.message
    bare.load(lines([{"type": "Must", "data": {"slug": "a", "text": "new", "vec": [3, 4]}}]), "upsert")
    assert values(bare, "node:Must", "vec") == {"a": [3, 4]}


def test_a_load_of_a_table_or_a_file_embeds_too(graph: Graph, tmp_path: Path) -> None:
    graph.load({"Must": pa.table({"slug": ["a", "b"], "text": ["one", "two"]})}, "append")
    file = tmp_path / "more.jsonl.gz"
    file.write_bytes(gzip.compress(lines([{"type": "Must", "data": {"slug": "c", "text": "three"}}])))
    graph.load(str(file), "append")
    assert values(graph, "node:Must", "vec") == {"a": unit("one", 2), "b": unit("two", 2), "c": unit("three", 2)}


def test_a_dry_run_asks_no_provider(graph: Graph, embedder: Recording) -> None:
    receipt = graph.load(lines(LINES), "append", dry_run=True)
    assert (receipt.total, receipt.commit, embedder.calls) == (6, None, [])


def test_a_required_vector_without_text_is_a_problem_of_its_record(graph: Graph, embedder: Recording) -> None:
    bad: list[dict[str, object]] = [{"type": "Must", "data": {"slug": slug, "text": text}} for slug, text in (("a", "fine"), ("b", " "))]
    (problem,) = load_problems(graph, lines(bad))
    assert (problem.code, problem.line, problem.property) == (ProblemCode.REQUIRED, 2, "vec")
    assert "its source 'text' has no text to embed" in problem.message
    assert embedder.calls == []


@pytest.mark.parametrize("data", [lines([LINES[1]]), {"Must": pa.table({"slug": ["a"], "text": ["one"]})}])
def test_a_load_without_a_provider_names_the_remedy(bare: Graph, data: object) -> None:
    (problem,) = load_problems(bare, data)
    assert problem.code is ProblemCode.REQUIRED
    assert "; configure an embedding provider, or give the vector" in problem.message


def load_problems(graph: Graph, data: object) -> tuple[Problem, ...]:
    before, files = graph.snapshot(), data_files(graph)
    with pytest.raises(InvalidInput) as caught:
        graph.load(data, "append")  # type: ignore[arg-type]  # one of the forms of data
    assert graph.snapshot() == before
    assert data_files(graph) == files
    problems = caught.value.facts["problems"]
    assert isinstance(problems, tuple)
    return problems


def test_a_load_whose_embedding_fails_in_the_middle_leaves_nothing(tmp_path: Path, server: EmbeddingServer) -> None:
    """The first requests succeed, a later one does not: no row, no file, no commit."""
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=EmbeddingProvider(base_url=server.url, model="m", attempts=1))
    server.otherwise = lambda sent: failing(503)(sent) if "t900" in sent.texts else answer(sent)
    before, files = graph.snapshot(), data_files(graph)
    many: list[dict[str, object]] = [{"type": "Doc", "data": {"slug": str(number), "text": f"t{number}"}} for number in range(1000)]
    with pytest.raises(EmbeddingError) as caught:
        graph.load(lines(many), "append")
    assert caught.value.kind is Kind.EMBEDDING_UNAVAILABLE
    assert len(server.sent) > 1
    assert (graph.snapshot(), data_files(graph)) == (before, files)


def test_a_load_of_another_model_is_refused(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=Recording("other"))
    with pytest.raises(InvalidInput) as caught:
        graph.load(lines(LINES), "append")
    assert caught.value.kind is Kind.EMBEDDING_MODEL


# -- texts in `nearest`


NEAREST = (
    "query q($q: String) { match { $d: Doc } return { $d.slug as slug, nearest($d.vec, $q) as d } order { nearest($d.vec, $q) } limit 2 }"
)


def test_a_query_by_text_finds_the_nearest_texts(graph: Graph, embedder: Recording) -> None:
    run(graph, " ".join(f'insert Doc {{ slug: "{slug}", text: "{slug}" }}' for slug in ("ash", "birch", "cedar")))
    embedder.calls.clear()
    found = graph.query(NEAREST, params={"q": "birch"})
    assert found.rows[0]["slug"] == "birch"
    assert found.rows[0]["d"] == pytest.approx(0, abs=1e-6)
    assert {(tuple(texts), purpose) for texts, _, purpose in embedder.calls} == {(("birch",), Purpose.QUERY)}
    literal = graph.query('query q() { match { $d: Doc } return { $d.slug as slug } order { nearest($d.vec, "cedar") } limit 1 }')
    assert literal.rows == [{"slug": "cedar"}]


def test_a_query_by_text_fuses_with_words(graph: Graph) -> None:
    run(graph, " ".join(f'insert Doc {{ slug: "{slug}", text: "{slug}" }}' for slug in ("ash", "birch", "cedar")))
    text = "query q($q: String) { match { $d: Doc } return { $d.slug as s } order { rrf(nearest($d.vec, $q), bm25($d.text, $q)) } limit 1 }"
    assert graph.query(text, params={"q": "cedar"}).rows == [{"s": "cedar"}]


@pytest.mark.parametrize(
    ("model", "text", "kind", "part"),
    [
        (None, "x", Kind.EMBEDDING_MISSING, "set OMNIGRAPH_EMBED_PROVIDER"),
        ("m", " ", Kind.INVALID_ARGUMENT, "not blank"),
        ("other", "x", Kind.EMBEDDING_MODEL, "nearest() on 'vec': its stored vectors were embedded with model 'm', but the query embedder"),
    ],
)
def test_a_query_by_text_is_refused(tmp_path: Path, model: str | None, text: str, kind: Kind, part: str) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=None if model is None else Recording(model))
    with pytest.raises(InvalidInput) as caught:
        graph.query(NEAREST, params={"q": text})
    assert caught.value.kind is kind
    assert part in caught.value.message


def test_a_query_by_vector_asks_no_provider(graph: Graph, embedder: Recording) -> None:
    run(graph, 'insert Doc { slug: "a", vec: [1, 2, 3, 4] }')
    text = "query q($q: Vector(4)) { match { $d: Doc } return { $d.slug as s } order { nearest($d.vec, $q) } limit 1 }"
    assert graph.query(text, params={"q": [1, 2, 3, 4]}).rows == [{"s": "a"}]
    assert embedder.calls == []


def test_a_property_without_a_recorded_model_takes_any(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, embedding=Recording("other"))
    run(graph, 'insert Must { slug: "a", text: "one" }')
    text = 'query q() { match { $d: Must } return { $d.slug as s } order { nearest($d.vec, "x") } limit 1 }'
    assert graph.query(text).rows == [{"s": "a"}]


def test_a_plan_is_explained_without_a_provider_and_run_only_with_one(bare: Graph, graph: Graph) -> None:
    assert '"a question"' in str(bare.explain(NEAREST, params={"q": "a question"}))
    with pytest.raises(InvalidInput) as caught:
        bare.explain(NEAREST, params={"q": "a question"}, analyze=True)
    assert caught.value.kind is Kind.EMBEDDING_MISSING
    run(graph, 'insert Doc { slug: "a", text: "one" }')
    assert '"one"' not in str(graph.explain(NEAREST, params={"q": "one"}, analyze=True))


def test_a_slow_provider_does_not_outlast_the_limit_of_a_query(tmp_path: Path, server: EmbeddingServer) -> None:
    graph = og.init(
        tmp_path / "g", schema=SCHEMA, embedding=EmbeddingProvider(base_url=server.url, model="m", timeout_seconds=2.0, attempts=1)
    )
    server.otherwise = lambda sent: answer(sent)._replace(delay_seconds=1.5)
    with pytest.raises(LimitError) as caught:
        graph.query(NEAREST, params={"q": "x"}, timeout=0.2)
    assert caught.value.kind is Kind.TIMEOUT
