"""`ensure_embeddings`: every missing vector in one commit, whatever other writers do meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import EmbeddingError, InvalidInput, Kind, OmniGraphError, Unsupported
from omnigraph.exec.upkeep.embeddings import EmbeddedProperty, EmbeddingProgress
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.manifest.locks import Locks
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.embedders import Recording, unit
from tests.mutations import run, values

SCHEMA = """
node Doc { slug: String @key  text: String?  note: String?  body: Blob?  vec: Vector(4)? @embed(text)  other: Vector(2)? @embed(note) }
node Must { slug: String @key  text: String  vec: Vector(2) @embed(text) }
node Plain { slug: String @key }
"""
ROWS = 'insert Doc { slug: "a", text: "one", note: "n", body: $b } insert Doc { slug: "b", text: "two", vec: [1, 2, 3, 4] }'


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def bare(tmp_path: Path) -> Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    run(graph, f'($b: Blob) {ROWS} insert Doc {{ slug: "c" }} insert Doc {{ slug: "d", text: " " }}', {"b": b"hi"})
    return graph


@pytest.fixture
def embedder() -> Recording:
    return Recording()


def opened(graph: Graph, embedder: Recording) -> Graph:
    made = og.open(graph.uri, embedding=embedder)
    embedder.before = lambda: not_locked(made)
    return made


def not_locked(graph: Graph) -> None:
    assert not Locks.of(graph.engine.manifest.root.objects).busy(MAIN)


def vectors(graph: Graph) -> dict[str, object]:
    return values(graph, "node:Doc", "vec")


def test_missing_vectors_are_filled_in_one_commit_and_given_ones_stay(bare: Graph, embedder: Recording) -> None:
    """G-09: Rows without a vector are embedded off the write path, in one commit; vectors that are there stay."""
    graph = opened(bare, embedder)
    seen: list[EmbeddingProgress] = []
    found = graph.ensure_embeddings(on_progress=seen.append)
    assert vectors(graph) == {"a": unit("one", 4), "b": [1, 2, 3, 4], "c": None, "d": None}
    assert values(graph, "node:Doc", "other") == {"a": unit("n", 2), "b": None, "c": None, "d": None}
    assert graph.blob("node", "Doc", "a", "body").read() == b"hi"
    assert found.properties == (
        EmbeddedProperty("node:Doc", "other", "m", 1, 3, 0),
        EmbeddedProperty("node:Doc", "vec", "m", 1, 2, 0),
    )
    assert found.commit is not None
    assert [commit.message for commit in graph.commits(limit=2)] == ["ensure_embeddings", None]
    assert seen == [EmbeddingProgress("node:Doc", "other", 4, 4), EmbeddingProgress("node:Doc", "vec", 3, 3)]
    assert graph.verify() == []


def test_a_second_call_has_nothing_to_do(bare: Graph, embedder: Recording) -> None:
    graph = opened(bare, embedder)
    graph.ensure_embeddings()
    before, asked = graph.snapshot(), list(embedder.calls)
    again = graph.ensure_embeddings()
    assert (again.commit, again.embedded, graph.snapshot(), embedder.calls) == (None, 0, before, asked)


def test_a_changed_text_is_filled_again(bare: Graph, embedder: Recording) -> None:
    """Without a provider an update of a text leaves its vector null; the next call with one fills it."""
    graph = opened(bare, embedder)
    graph.ensure_embeddings()
    run(bare, 'update Doc set { text: "three" } where slug = "b"')
    assert vectors(bare)["b"] is None
    assert graph.ensure_embeddings().embedded == 1
    assert vectors(graph) == {"a": unit("one", 4), "b": unit("three", 4), "c": None, "d": None}


def test_a_branch_is_filled_by_itself(bare: Graph, embedder: Recording) -> None:
    graph = opened(bare, embedder)
    graph.branches.create("work")
    graph.ensure_embeddings("work")
    assert values(graph, "node:Doc", "vec", branch="work")["a"] == unit("one", 4)
    assert vectors(graph)["a"] is None


def test_many_rows_go_through_files(bare: Graph, embedder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 20_000
    slugs = [f"d{number}" for number in range(count)]
    bare.load({"Doc": pa.table({"slug": slugs, "text": [f"text {number % 100}" for number in range(count)]})}, "append")
    monkeypatch.setattr("omnigraph.exec.write.image.HELD_BYTES", 1 << 16)
    graph = opened(bare, embedder)
    assert graph.ensure_embeddings().embedded == count + 2
    found = vectors(graph)
    assert all(found[slug] == unit(f"text {number % 100}", 4) for number, slug in enumerate(slugs))
    assert len(found) == count + 4
    assert graph.verify(deep=True) == []


def test_what_other_writers_change_meanwhile_keeps_their_changes(bare: Graph, embedder: Recording) -> None:
    """A text that changed is not given the vector of the old one; a row that is gone does not come back; others are filled."""
    run(bare, 'insert Doc { slug: "e", text: "five" } insert Doc { slug: "f", text: "six" }')
    graph = opened(bare, embedder)
    done = threading.Event()

    def meddle() -> None:
        if not done.is_set():
            done.set()
            run(bare, 'update Doc set { text: "changed" } where slug = "a"')
            run(bare, 'delete Doc where slug = "e"')

    embedder.before = meddle
    found = graph.ensure_embeddings()
    assert vectors(graph) == {"a": None, "b": [1, 2, 3, 4], "c": None, "d": None, "f": unit("six", 4)}
    assert found.pending > 0
    assert graph.ensure_embeddings().pending == 0
    assert vectors(graph)["a"] == unit("changed", 4)


def test_a_table_that_is_overwritten_meanwhile_gets_no_vector_of_another_text(bare: Graph, embedder: Recording) -> None:
    """Its new rows have the addresses of the old ones."""
    graph = opened(bare, embedder)
    done = threading.Event()

    def overwrite() -> None:
        if not done.is_set():
            done.set()
            bare.load({"Doc": pa.table({"slug": ["x", "y", "z"], "text": ["new", "newer", "one"]})}, "overwrite")

    embedder.before = overwrite
    graph.ensure_embeddings()
    assert {slug: vector for slug, vector in vectors(graph).items() if vector is not None and vector != unit("one", 4)} == {}
    graph.ensure_embeddings()
    assert vectors(graph) == {"x": unit("new", 4), "y": unit("newer", 4), "z": unit("one", 4)}


def test_without_a_provider_missing_vectors_are_refused_with_the_remedy(bare: Graph) -> None:
    error = refused(bare)
    assert error.kind is Kind.EMBEDDING_MISSING
    assert "OMNIGRAPH_EMBED_PROVIDER" in error.message


def test_without_a_provider_nothing_missing_is_nothing_to_do(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    assert graph.ensure_embeddings().commit is None


def test_a_recorded_model_is_checked(tmp_path: Path) -> None:
    schema = 'node Doc { slug: String @key  text: String?  vec: Vector(4)? @embed(text, model="m") }'
    bare = og.init(tmp_path / "g", schema=schema)
    run(bare, 'insert Doc { slug: "a", text: "one" }')
    assert refused(opened(bare, Recording("other"))).kind is Kind.EMBEDDING_MODEL
    assert opened(bare, Recording("m")).ensure_embeddings().embedded == 1


def test_what_a_provider_made_before_it_failed_is_kept(bare: Graph, embedder: Recording) -> None:
    """Vectors are expensive: those that were made are committed, the error says how many, and the next call makes only the others."""
    count = 10_000
    bare.load({"Doc": pa.table({"slug": [str(n) for n in range(count)], "text": [f"t{n}" for n in range(count)]})}, "append")
    graph = opened(bare, embedder)

    def fail() -> None:
        if len(embedder.calls) > 2:
            raise EmbeddingError(Kind.EMBEDDING_UNAVAILABLE, "down", status=503)

    embedder.before = fail
    before = len(graph.commits())
    with pytest.raises(EmbeddingError, match=r"down; [0-9]+ vectors made before are committed; call ensure_embeddings again") as caught:
        graph.ensure_embeddings()
    made = {slug for slug, vector in vectors(graph).items() if vector is not None} - {"b"}
    others = {slug for slug, vector in values(graph, "node:Doc", "other").items() if vector is not None}
    assert caught.value.kind is Kind.EMBEDDING_UNAVAILABLE
    assert caught.value.facts == {"status": 503, "embedded": len(made) + len(others)}
    assert 0 < len(made) < count
    assert len(graph.commits()) == before + 1
    assert graph.verify() == []
    embedder.before, embedder.calls = (lambda: None), []
    assert graph.ensure_embeddings().embedded == count + 1 - len(made)
    assert len(embedder.texts) == count + 1 - len(made), "no text is embedded twice"
    found = vectors(graph)
    assert all(found[str(n)] == unit(f"t{n}", 4) for n in range(0, count, 97))


def test_a_provider_that_fails_at_once_leaves_nothing(bare: Graph, embedder: Recording) -> None:
    graph = opened(bare, embedder)

    def fail() -> None:
        raise EmbeddingError(Kind.EMBEDDING_UNAVAILABLE, "down")

    embedder.before = fail
    assert refused(graph).message == "down"


def test_many_vectors_are_committed_in_parts(bare: Graph, embedder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is a quarter of those before it or more, so their number grows with the logarithm; rows that other writers move meanwhile
    are found by their ids.
    """
    monkeypatch.setattr("omnigraph.exec.upkeep.embeddings.PART_ROWS", 4_000)
    count = 30_000
    bare.load({"Doc": pa.table({"slug": [str(n) for n in range(count)], "text": [f"t{n}" for n in range(count)]})}, "append")
    graph = opened(bare, embedder)

    def meddle() -> None:
        if len(embedder.calls) == 4:
            run(bare, 'update Doc set { note: "moved" } where slug in ["0", "29999"]')

    embedder.before = meddle
    before = len(graph.commits())
    found = graph.ensure_embeddings()
    assert (found.embedded, found.pending) == (count + 2, 0)
    assert found.commit == graph.commits(limit=1)[0]
    assert len(graph.commits()) - before == 1 + 7
    stored = vectors(graph)
    assert all(stored[str(n)] == unit(f"t{n}", 4) for n in (*range(0, count, 97), count - 1))
    assert graph.verify() == []


def test_a_graph_that_is_read_only_is_not_filled(bare: Graph) -> None:
    with pytest.raises(Unsupported):
        og.open(bare.uri, mode="r").ensure_embeddings()


def refused(graph: Graph) -> OmniGraphError:
    before = graph.snapshot()
    files = sorted(Path(graph.uri).rglob("*.lance"))
    with pytest.raises((InvalidInput, EmbeddingError)) as caught:
        graph.ensure_embeddings()
    assert graph.snapshot() == before
    assert sorted(Path(graph.uri).rglob("*.lance")) == files
    return caught.value


@pytest.mark.parametrize(
    ("point", "lands"),
    [
        (Fault.WRITE_PREPARED, False),
        (Fault.WRITE_BEFORE_ARM, False),
        (Fault.WRITE_ARMED, False),
        (Fault.STAGE_BEFORE_COMMIT, False),
        (Fault.WRITE_COMMITTED, True),
        (Fault.PUBLISH_AFTER_COMMIT, True),
        (Fault.WRITE_PUBLISHED, True),
    ],
)
def test_a_crash_leaves_all_vectors_or_none(bare: Graph, embedder: Recording, point: Fault, lands: bool) -> None:
    """INV-2: the next writer resolves it, and a second call completes it."""
    graph = opened(bare, embedder)
    with armed(point), pytest.raises(SimulatedCrash):
        graph.ensure_embeddings()
    healed = og.open(bare.uri, embedding=Recording())
    assert vectors(healed)["a"] == (unit("one", 4) if lands else None)
    assert healed.ensure_embeddings().embedded == (0 if lands else 2)
    assert vectors(healed)["a"] == unit("one", 4)
    assert healed.verify() == []
