"""A small graph for tests of history."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT
from tests.mutations import run

SCHEMA = "node Person { name: String @key  age: I32?  tags: [String]?  note: String? }\nedge Knows: Person -> Person { since: I32? }"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Alice 30, Bob, Carol and Dan; one edge from Bob to Carol."""
    made = og.init(tmp_path / "g", schema=SCHEMA, actor="act-maker")
    run(
        made,
        'insert Person { name: "Alice", age: 30 } insert Person { name: "Bob" } insert Person { name: "Carol" } '
        'insert Person { name: "Dan" } insert Knows { from: "Bob", to: "Carol" }',
    )
    return made
