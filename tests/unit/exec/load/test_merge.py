"""A merge of very many ids: they go through temporary files, and memory does not grow with them."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from bench.child import cost_of
from bench.scenario.upserts import ID_BYTES, ROWS, SCHEMA, batches, merge_long_ids
from omnigraph.errors import StorageError
from omnigraph.exec.load.load import Load, LocalIntake, run_load
from omnigraph.exec.load.mode import LoadMode
from omnigraph.exec.write.protocol import Request
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.model import CommitKind
from tests.samples import is_whole, sample

LIMIT_MB = 2_000
"""What the process may take for 2.4 GB of ids, the interpreter and its libraries included."""


def _load(graph: og.Graph) -> Load:
    """Rows of which some are there, with so small a limit that their ids do not fit."""
    data = {"Item": batches(3_000, 9_000, note=2, width=26)}
    return Load(graph.engine, LocalIntake(data), LoadMode.MERGE, write=True, key_bytes=50_000)


def _notes(graph: og.Graph, branch: BranchName) -> dict[int, int]:
    rows = graph.query("query q() { match { $i: Item } return { $i.note as note, count($i) as n } }", branch=branch).rows
    return {row["note"]: row["n"] for row in rows}


@pytest.mark.parametrize("branch", [MAIN, BranchName("side")])
def test_ids_past_the_limit_are_kept_in_files_and_replace_their_rows(
    tmp_path: Path, branch: BranchName, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load({"Item": batches(0, 6_000, note=1, width=26)}, mode="append")
    if branch != MAIN:
        graph.branches.create(branch)
    request = Request(CommitKind.LOAD, branch=branch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(StorageError, match="temporary directory"):
        run_load(graph.engine, request, _load(graph))
    assert _notes(graph, branch) == {1: 6_000}
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert run_load(graph.engine, request, _load(graph)).commit is not None
    assert _notes(graph, branch) == {1: 3_000, 2: 9_000}
    assert not list(temporary.iterdir()), "temporary files are gone"
    assert [finding.code for finding in graph.verify() if finding.severity == "error"] == []


def test_more_ids_than_one_array_can_hold_land_in_bounded_memory(tmp_path: Path) -> None:
    rows = sample(30_000, whole=ROWS)
    assert not is_whole() or rows * ID_BYTES > 1 << 31
    cost = cost_of("merge", merge_long_ids, str(tmp_path / "g"), str(rows))
    print(f"{rows:,} ids of {ID_BYTES} bytes: peak {cost.peak_mb:.0f} MB, {cost.cpu_seconds:.0f} CPU s")
    assert (cost.result["old"], cost.result["new"]) == (0, rows)
    assert cost.peak_mb < LIMIT_MB
