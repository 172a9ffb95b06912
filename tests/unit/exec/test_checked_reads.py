"""Reads compare files with their recorded checksums: once, only what they need, and before anything leaves or is written to a new file."""

from __future__ import annotations

import base64
import random
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import Kind, StorageError
from omnigraph.graph import Graph
from omnigraph.manifest import recorded
from omnigraph.store.checked import WRONG
from omnigraph.store.checksums import BLOCK_BYTES
from omnigraph.store.deep import named_files
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.tables import Table
from tests.mutations import run

SCHEMA = "node Doc { slug: String @key  pages: I32? @index  text: String?  body: Blob? }\nedge Cites: Doc -> Doc { note: String? }"
BY_KEY = 'query q() { match { $d: Doc { slug: "d00007" } } return { $d.text } }'
ALL = "query q() { match { $d: Doc } return { $d.slug, $d.pages, $d.text } }"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests are about flushes."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def docs(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    texts = [f"a text that says {n}" for n in numbers]
    return pa.table({"slug": [f"d{n:05d}" for n in numbers], "pages": pa.array(numbers, pa.int32()), "text": texts})


def make(place: Path, *, parts: int = 4, rows: int = 5_000) -> Graph:
    """A graph with several fragments that are too large to be folded."""
    graph = og.init(place, schema=SCHEMA)
    for part in range(parts):
        graph.load({"Doc": docs(part * rows, rows)}, mode="append")
    graph.load([{"edge": "Cites", "from": f"d{n:05d}", "to": f"d{n + 1:05d}", "data": {"note": f"n{n}"}} for n in range(50)])
    return graph


def table_of(graph: Graph, alias: str = "node:Doc", *, branch: str = "main") -> Table:
    row = graph.engine.snapshot(branch).state.table(alias)
    assert row is not None
    return graph.engine.tables.open(row.ref)


def data_files(graph: Graph, alias: str = "node:Doc") -> list[Path]:
    files = named_files(table_of(graph, alias)).values()
    return [Path(graph.uri) / file.path for each in files for file in each if file.path.endswith(".lance")]


def flip(file: Path, at: float = 0.3) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    file.write_bytes(data)


def refused(graph: str | Graph, ask: Callable[[Graph], object]) -> StorageError:
    """Asks a process that has read nothing yet."""
    with pytest.raises(StorageError) as caught:
        ask(og.open(graph.uri if isinstance(graph, Graph) else graph))
    assert caught.value.kind is Kind.CORRUPT
    assert caught.value.facts["reason"] == WRONG
    return caught.value


def compared(graph: Graph, ask: Callable[[], object]) -> int:
    """How many bytes were read to compare them."""
    before = graph.engine.root.checked.read_bytes
    ask()
    return graph.engine.root.checked.read_bytes - before


# -- how much


def test_a_second_read_compares_nothing(tmp_path: Path) -> None:
    make(tmp_path / "g").ensure_indices()
    graph = og.open(tmp_path / "g", mode="r")
    for text in (BY_KEY, ALL):
        assert compared(graph, lambda text=text: graph.query(text).rows) > 0  # type: ignore[misc]  # mypy does not infer defaults
        assert compared(graph, lambda text=text: graph.query(text).rows) == 0  # type: ignore[misc]


def test_what_a_process_wrote_is_not_compared(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    assert compared(graph, lambda: graph.query(ALL).rows) == 0


def test_a_lookup_compares_the_fragment_that_has_the_row_and_no_other(tmp_path: Path) -> None:
    graph = make(tmp_path / "g", parts=8)
    graph.ensure_indices()
    index = sum(file.stat().st_size for file in Path(graph.uri).glob("nodes/*/_indices/**/*") if file.is_file())
    first, *others = sorted(data_files(graph), key=lambda file: file.stat().st_mtime_ns)
    versions = sum(file.stat().st_size for file in Path(graph.uri).glob("*/*/_versions/*.manifest"))
    fresh = og.open(graph.uri, mode="r")
    assert compared(fresh, lambda: fresh.query(BY_KEY).rows) <= first.stat().st_size + index + versions
    assert fresh.engine.root.checked.is_right(str(first.relative_to(graph.uri)))
    assert not any(fresh.engine.root.checked.is_right(str(file.relative_to(graph.uri))) for file in others)
    for file in others:
        flip(file)
    assert og.open(graph.uri, mode="r").query(BY_KEY).rows == [{"d.text": "a text that says 7"}]


def test_of_a_large_file_only_the_columns_that_are_read_are_compared(tmp_path: Path) -> None:
    dimension, rows = 64, 40_000
    graph = og.init(tmp_path / "g", schema=f"node Doc {{ slug: String @key  look: Vector({dimension})? }}")
    looks = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(1).normal(size=rows * dimension).astype(np.float32)), dimension)
    graph.load({"Doc": pa.table({"slug": [f"d{n:05d}" for n in range(rows)], "look": looks})})
    (file,) = data_files(graph)
    assert file.stat().st_size > 10 * BLOCK_BYTES
    names = 'query q() { match { $d: Doc } return { count($d.slug) } }'
    fresh = og.open(graph.uri, mode="r")
    assert compared(fresh, lambda: fresh.query(names).rows) < file.stat().st_size // 3
    assert compared(fresh, lambda: fresh.query(names).rows) == 0
    flip(file, 0.5)  # in the vectors
    assert og.open(graph.uri, mode="r").query(names).rows == [{"count(d.slug)": rows}]
    refused(graph, lambda graph: graph.query("query q() { match { $d: Doc } return { $d.look } }").rows)


def test_of_a_large_blob_only_the_part_that_is_read_is_compared(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    whole = random.Random(1).randbytes(20 * BLOCK_BYTES)
    graph.load([{"type": "Doc", "data": {"slug": "a", "body": "base64:" + base64.b64encode(whole).decode()}}])
    (file,) = Path(graph.uri).glob("nodes/*/data/*/*.blob")
    flip(file, 0.9)
    fresh = og.open(graph.uri, mode="r")
    blob = fresh.blob("node", "Doc", "a", "body")
    assert compared(fresh, lambda: blob.read(0, 1_000)) < 3 * BLOCK_BYTES
    refused(graph, lambda graph: graph.blob("node", "Doc", "a", "body").read())


def test_an_upsert_of_one_row_compares_a_file_once(tmp_path: Path) -> None:
    make(tmp_path / "g").ensure_indices()
    graph = og.open(tmp_path / "g")
    run(graph, 'update Doc set { pages: 1 } where slug = "d00007"')
    again = [compared(graph, lambda n=n: run(graph, f'update Doc set {{ pages: {n} }} where slug = "d00007"')) for n in range(5)]  # type: ignore[misc]
    assert again == [0] * 5


# -- nothing leaves, and nothing is written again


OPERATIONS: dict[str, Callable[[Graph], object]] = {
    "query": lambda graph: graph.query(ALL).rows,
    "filter": lambda graph: graph.query("query q() { match { $d: Doc  $d.pages > 3 } return { count($d) } }").rows,
    "by key": lambda graph: graph.query(BY_KEY).rows,
    "hop": lambda graph: graph.query('query q() { match { $d: Doc { slug: "d00007" }  $d cites $e } return { $e.text } }').rows,
    "export": lambda graph: list(graph.export()),
    "copy": lambda graph: graph.copy_to(Path(graph.uri).with_name("copy")),
    "diff": lambda graph: list(graph.diff("main", "other")),
    "merge": lambda graph: graph.branches.merge("other"),
    "changes": lambda graph: list(graph.commit_changes(graph.commits()[-2].id)),
    "upsert": lambda graph: graph.load({"Doc": docs(0, 2_000)}, mode="merge"),
    "update": lambda graph: run(graph, "update Doc set { pages: 5 } where pages < 10"),
    "optimize": lambda graph: graph.optimize(),
    "indexes": lambda graph: graph.ensure_indices(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_changed_byte_stops(tmp_path: Path, name: str) -> None:
    """Whatever reads the file fails with an error that names it, and makes no commit: no changed byte gets a new checksum."""
    graph = make(tmp_path / "g", parts=2)
    graph.branches.create("other")
    graph.load({"Doc": docs(0, 5_000).set_column(1, "pages", pa.array(range(1, 5_001), pa.int32()))}, mode="merge", branch="other")
    run(graph, "delete Doc where pages > 9000")
    head = graph.snapshot().commit_id
    for file in data_files(graph):
        flip(file)
    error = refused(graph, OPERATIONS[name])
    assert str(error.facts["path"]).startswith(str(graph.uri))
    assert error.facts["table"] == table_of(graph).ref.path
    assert og.open(graph.uri).snapshot().commit_id == head
