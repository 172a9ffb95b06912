"""`omnigraph repair` and `omnigraph verify` on damaged graphs."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.unit.cli.calls import Call


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")
    graph = og.init(tmp_path / "g", schema="node Doc { slug: String @key }")
    for n in range(3):
        graph.load([{"type": "Doc", "data": {"slug": f"d{n}{at:03d}"}} for at in range(300)])
    return graph.uri


def table_of(uri: str) -> str:
    (found,) = Path(uri).glob("nodes/*")
    return str(found)


def test_a_repair_is_a_preview_unless_it_is_confirmed(uri: str, call: Call) -> None:
    """O-11, with the document of the reference."""
    lance.dataset(table_of(uri)).optimize.compact_files()
    done = call("repair", uri)
    assert done.code == 0, done.err
    assert "verified_maintenance (ReserveFragments, Rewrite up to version" in done.out
    assert "publish_head with --confirm" in done.out
    document = call("repair", uri, "--confirm", "--json").json()
    assert document["graph_manifest_version"] == og.open(uri).snapshot().manifest_version
    (doc,) = document["datasets"]
    assert (doc["type_key"], doc["classification"], doc["action"], doc["error"]) == (
        "node:Doc",
        "verified_maintenance",
        "publish_head",
        None,
    )
    assert doc["operations"] == ["ReserveFragments", "Rewrite"]
    assert call("verify", uri).code == 0


def test_a_refused_table_ends_with_status_one(uri: str, call: Call) -> None:
    lance.write_dataset(pa.table({"id": ["foreign"], "slug": ["foreign"]}), table_of(uri), mode="append")
    assert call("repair", uri, "--confirm").code == 1
    refused = call("repair", uri, "--force")
    assert (refused.code, "--force of a repair that writes nothing: add --confirm" in refused.err) == (2, True)
    assert call("repair", uri, "--confirm", "--force").code == 0


def test_what_is_lost_is_listed_with_its_rows_and_commits(uri: str, call: Call) -> None:
    file = max(Path(uri).glob("nodes/*/data/*.lance"), key=lambda file: file.stat().st_mtime_ns)
    os.truncate(file, 10)
    told = call("repair", uri)
    assert told.code == 1
    assert "lost: ERROR wrong_size main:node:Doc" in told.out
    assert "300 rows" in told.out
    (finding,) = call("verify", uri, "--json").json()["findings"]
    assert finding["path"] == str(file.relative_to(uri))
    assert finding["branches"] == ["main"]
    assert finding["commits"] == [og.open(uri, mode="r").snapshot().commit_id]
    assert "restore it" in finding["remedy"]
