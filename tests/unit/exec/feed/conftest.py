"""A small graph for tests of the change feed."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT

SCHEMA = "node Person { name: String @key  age: I32?  note: String? }\nnode Film { slug: String @key }\nedge Knows: Person -> Person"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """A graph without rows."""
    return og.init(tmp_path / "g", schema=SCHEMA, actor="act-maker")
