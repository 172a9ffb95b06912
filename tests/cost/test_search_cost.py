"""What a search costs in storage reads: with an index, a bounded number whatever the table's size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.reads import text_of

DIMENSION = 128
MOST = 80
"""Rows that are compared exactly are read one by one at worst: fifty of them, and a few parts of the index."""


@pytest.mark.parametrize("count", [40_000, 80_000])
def test_a_warm_search_by_an_index_makes_few_reads(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeated nearest with an index makes a bounded number of storage reads."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "graph", schema=f"node Doc {{ key: I64 @key  vec: Vector({DIMENSION}) @index }}")
    rows = np.random.default_rng(1).normal(size=(count, DIMENSION)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIMENSION)
    graph.load({"Doc": pa.table({"key": np.arange(count), "vec": column})}, "append")
    graph.ensure_indices()
    text = text_of(f"($v: Vector({DIMENSION})) match {{ $d: Doc }} return {{ $d.key as k }} order {{ nearest($d.vec, $v) }} limit 10")
    assert "vector index" in graph.explain(text, params={"v": rows[0]}).text
    for at in range(5):
        graph.query(text, params={"v": rows[at]})
    dataset = next(iter(graph.engine.tables._open.values())).dataset
    dataset.io_stats_incremental()
    for at in range(5, 10):
        assert len(graph.query(text, params={"v": rows[at]})) == 10
        assert dataset.io_stats_incremental().read_iops <= MOST


def test_vectors_that_are_compared_faster_in_memory_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below four million numbers no index is built or asked, and a repeated nearest reads nothing."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "graph", schema=f"node Doc {{ key: I64 @key  vec: Vector({DIMENSION}) @index }}")
    rows = np.random.default_rng(1).normal(size=(20_000, DIMENSION)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), DIMENSION)
    graph.load({"Doc": pa.table({"key": np.arange(20_000), "vec": column})}, "append")
    assert [index.column for index in graph.ensure_indices().pending] == ["vec"]
    text = text_of(f"($v: Vector({DIMENSION})) match {{ $d: Doc }} return {{ $d.key as k }} order {{ nearest($d.vec, $v) }} limit 10")
    assert "vector index" not in graph.explain(text, params={"v": rows[0]}).text
    for at in range(5):
        graph.query(text, params={"v": rows[at]})
    dataset = next(iter(graph.engine.tables._open.values())).dataset
    dataset.io_stats_incremental()
    for at in range(5, 10):
        assert graph.query(text, params={"v": rows[at]}).rows[0]["k"] == at
        assert dataset.io_stats_incremental().read_iops == 0
