"""What repair finds and mends: damaged indexes, tables moved by other programs, incomplete versions, interrupted hard drops."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.exec.upkeep.repair import Classification, RepairAction, TableRepair
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.store.durable import version_file
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run, table_row

SCHEMA = "node Doc { slug: String @key  pages: I32? @index  gone: String? }\nedge Cites: Doc -> Doc"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load([{"type": "Doc", "data": {"slug": f"d{n:02d}", "pages": n}} for n in range(50)])
    for n in range(3):
        run(graph, f'insert Doc {{ slug: "s{n}", pages: {n} }}')
    graph.ensure_indices()
    return graph


def by_hand(graph: Graph, change: Callable[[Any], object]) -> None:
    """What another program does to the table of documents."""
    change(lance.dataset(str(Path(graph.uri) / table_row(graph, "node:Doc").path)))


def append(dataset: Any) -> None:
    rows = dataset.to_table(limit=1)
    at = rows.schema.get_field_index("id")
    lance.write_dataset(rows.set_column(at, rows.schema.field(at), pa.array(["foreign"])), dataset.uri, mode="append")


def rewrite(dataset: Any, rows: int) -> None:
    """One file in place of all others, with this many rows, as a compaction with a mistake would commit it."""
    found = dataset.to_table()
    given = pa.concat_tables([found, renamed(found)]).slice(0, rows)
    written = lance.fragment.write_fragments(given, dataset.uri, schema=dataset.schema)
    old = [fragment.metadata for fragment in dataset.get_fragments()]
    operation = lance.LanceOperation.Rewrite([lance.LanceOperation.RewriteGroup(old, list(written))], [])
    lance.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)


def renamed(rows: pa.Table) -> pa.Table:
    at = rows.schema.get_field_index("id")
    return rows.set_column(at, rows.schema.field(at), pa.array([f"{each}-again" for each in rows["id"].to_pylist()]))


def docs(found: tuple[TableRepair, ...]) -> list[TableRepair]:
    return [table for table in found if table.table == "node:Doc"]


def test_a_sound_graph_needs_no_repair(graph: Graph) -> None:
    head = graph.snapshot().commit_id
    report = graph.repair(confirm=True, force=True)
    assert report.is_sound
    assert {table.classification for table in report.tables} == {Classification.SOUND}
    assert graph.snapshot().commit_id == head


def test_maintenance_by_another_program_is_published_as_it_is(graph: Graph) -> None:
    """O-11: A repair is a preview by default; maintenance by another program is verified and published, other changes only by force.

    Nothing is rewritten.
    """
    before, commits = list(graph.export()), len(graph.commits())
    by_hand(graph, lambda dataset: dataset.optimize.compact_files())
    by_hand(graph, lambda dataset: dataset.create_scalar_index("gone", "BTREE"))
    fresh = og.open(graph.uri)
    with pytest.raises(og.StorageError, match="omnigraph repair"):
        run(fresh, 'insert Doc { slug: "x" }')

    (preview,) = docs(fresh.repair().tables)
    assert (preview.classification, preview.action) == (Classification.MAINTENANCE, RepairAction.PUBLISH_HEAD)
    assert set(preview.operations) == {"ReserveFragments", "Rewrite", "CreateIndex"}
    assert preview.head_version == preview.published_version + len(preview.operations)
    assert len(fresh.commits()) == commits

    files = {file for file in Path(graph.uri).rglob("data/*.lance") if "__manifest" not in str(file)}
    report = fresh.repair(confirm=True)
    assert report.commit is not None
    assert report.commit.kind == "repair"
    assert {file for file in Path(graph.uri).rglob("data/*.lance") if "__manifest" not in str(file)} == files
    assert len(fresh.commits()) == commits + 1
    assert list(fresh.export()) == before
    assert fresh.verify(deep=True) == []
    assert fresh.repair().is_sound
    run(fresh, 'insert Doc { slug: "x" }')


def test_a_change_of_rows_by_another_program_needs_force(graph: Graph) -> None:
    """O-11: refused unless forced; forced, the existing HEAD is published."""
    by_hand(graph, append)
    fresh = og.open(graph.uri)
    with pytest.raises(og.InvalidInput, match="force needs confirm"):
        fresh.repair(force=True)
    report = fresh.repair(confirm=True)
    (refused,) = report.refused
    assert refused.classification is Classification.SEMANTIC
    assert refused.operations == ("Append",)
    assert "force" in str(refused.error)
    assert report.commit is None
    assert not any("foreign" in line for line in fresh.export())

    forced = fresh.repair(confirm=True, force=True)
    assert forced.commit is not None
    assert not forced.refused
    assert any("foreign" in line for line in fresh.export())
    assert table_row(fresh, "node:Doc").rows == 54
    assert fresh.repair().is_sound


@pytest.mark.parametrize("rows", [49, 54], ids=["fewer", "more"])
def test_maintenance_that_changed_the_number_of_rows_is_none(graph: Graph, rows: int) -> None:
    """O-11: a transaction that calls itself a rewrite is believed only if the table has as many rows as the graph shows."""
    assert table_row(graph, "node:Doc").rows == 53
    by_hand(graph, lambda dataset: rewrite(dataset, rows))
    fresh = og.open(graph.uri)
    report = fresh.repair(confirm=True)
    (refused,) = report.refused
    assert (refused.classification, refused.operations) == (Classification.SEMANTIC, ("Rewrite",))
    assert f"it has {rows} rows, not 53" in str(refused.error)
    assert report.commit is None
    assert len(list(fresh.export())) == 53
    forced = fresh.repair(confirm=True, force=True)
    assert forced.commit is not None
    assert len(list(fresh.export())) == table_row(fresh, "node:Doc").rows == rows


def test_columns_that_do_not_fit_the_schema_are_refused_by_force_too(graph: Graph) -> None:
    by_hand(graph, lambda dataset: dataset.drop_columns(["gone"]))
    (refused,) = og.open(graph.uri).repair(confirm=True, force=True).refused
    assert refused.classification is Classification.SEMANTIC
    assert "does not fit the schema" in str(refused.error)


def test_repair_is_refused_while_a_write_is_not_resolved(graph: Graph) -> None:
    """O-11: what looks like drift may be a part of the write."""
    with pytest.raises(SimulatedCrash), armed(Fault.WRITE_COMMITTED):
        run(graph, 'insert Doc { slug: "x" }')
    with pytest.raises(og.RecoveryRequired, match="not resolved"):
        graph.repair()
    with pytest.raises(og.RecoveryRequired, match="not resolved"):
        graph.repair(confirm=True)
    assert og.open(graph.uri).repair().is_sound


def test_an_incomplete_version_that_no_commit_shows_is_removed(graph: Graph) -> None:
    row = table_row(graph, "node:Doc")
    file = Path(graph.uri) / row.path / version_file(row.version + 1)
    file.write_bytes((Path(graph.uri) / row.path / version_file(row.version)).read_bytes()[:100])
    fresh = og.open(graph.uri)
    (preview,) = docs(fresh.repair().tables)
    assert (preview.classification, preview.action) == (Classification.TORN, RepairAction.REMOVE_VERSION)
    assert file.exists()
    fresh.repair(confirm=True)
    assert not file.exists()
    assert og.open(graph.uri).repair().is_sound
    run(og.open(graph.uri), 'insert Doc { slug: "x" }')
    assert og.open(graph.uri).verify(deep=True) == []


@pytest.mark.parametrize("branch", ["main", "work"])
@pytest.mark.parametrize("how", ["removed", "flipped"])
def test_a_damaged_index_is_built_again(graph: Graph, branch: str, how: str) -> None:
    """On the branch that asks. A changed byte that still decodes is found by the checksum of the file."""
    graph.branches.create("work")
    before = list(graph.export(branch))
    for folder in Path(graph.uri).glob("nodes/*/_indices/*"):
        if how == "removed":
            shutil.rmtree(folder)
            continue
        for file in (file for file in folder.iterdir() if file.is_file()):
            data = bytearray(file.read_bytes())
            data[len(data) // 3] ^= 1
            file.write_bytes(data)
    fresh = og.open(graph.uri)
    (preview,) = docs(fresh.repair(branch).tables)
    assert (preview.classification, preview.action) == (Classification.DAMAGED_INDEX, RepairAction.REBUILD_INDEX)
    assert len(preview.indexes) >= 2
    report = og.open(graph.uri).repair(branch, confirm=True)
    assert report.index_commit is not None
    assert og.open(graph.uri).repair(branch).is_sound
    assert list(og.open(graph.uri).export(branch)) == before
    left = [finding for finding in og.open(graph.uri).verify(deep=True) if branch in finding.branches]
    assert left == []


def test_an_interrupted_hard_drop_is_finished(graph: Graph) -> None:
    with pytest.raises(SimulatedCrash), armed(Fault.RECLAIM_BEFORE):
        graph.apply_schema(SCHEMA.replace("  gone: String?", ""), allow_data_loss=True)
    fresh = og.open(graph.uri)
    (preview,) = docs(fresh.repair().tables)
    assert (preview.classification, preview.action) == (Classification.GIVEN_UP, RepairAction.RECLAIM)
    fresh.repair(confirm=True)
    assert fresh.repair().is_sound
    assert len(list((Path(graph.uri) / table_row(fresh, "node:Doc").path / "_versions").glob("*.manifest"))) == 1


def test_what_has_no_remedy_is_said(graph: Graph) -> None:
    """The file, its rows, and the newest commit that shows the table without it."""
    whole = graph.snapshot().commit_id
    run(graph, 'insert Doc { slug: "later" }')
    newest = max(Path(graph.uri).glob("nodes/*/data/*.lance"), key=lambda file: file.stat().st_mtime_ns)
    newest.unlink()
    report = og.open(graph.uri).repair(confirm=True)
    (lost,) = report.lost
    assert lost.code == "missing_file"
    assert newest.name in lost.message
    assert " row" in lost.message
    assert whole in lost.remedy
    assert lost.branches == ("main",)
    assert report.commit is None
    assert list(og.open(graph.uri).export(at=whole))
