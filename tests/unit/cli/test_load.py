"""`load` on real graphs: modes, several files, what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import omnigraph as og
from tests.loads import shown
from tests.unit.cli.calls import Call


def test_several_files_are_one_commit(graph: str, files: Path, call: Call) -> None:
    """L2-33."""
    (files / "more.ndjson").write_text('{"type": "Person", "data": {"name": "Mary"}}\n')
    before = len(og.open(graph).commits())
    said = call("load", graph, "--data", "people.ndjson", "--data", "more.ndjson", "--mode", "merge", "--json")
    assert (said.code, said.json()["total_entities"], said.json()["edges_without_id"]) == (0, 4, 0)
    assert len(og.open(graph).commits()) == before + 1
    assert call("load", graph, "--data", "more.ndjson", "--data", "-", "--mode", "merge").code == 1


def test_an_upsert_keeps_what_is_left_out(graph: str, files: Path, call: Call) -> None:
    """L2-31."""
    call("load", graph, "--data", "people.ndjson", "--mode", "merge")
    lines = [{"type": "Person", "data": {"name": "Ada"}}, {"edge": "Knows", "from": "Charles", "to": "Ada"}]
    (files / "part.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = call("load", graph, "--data", "part.ndjson", "--mode", "upsert")
    assert said.code == 0
    assert "with upsert: 2 entities" in said.out
    assert "1 new edge without an id: a second load adds as many again" in said.out
    assert shown(og.open(graph))["node:Person"][0] == {"id": "Ada", "name": "Ada", "born": 1815}
    assert call("load", graph, "--data", "part.ndjson", "--mode", "upsert", "--json").json()["edges_without_id"] == 1
    assert len(shown(og.open(graph))["edge:Knows"]) == 3


def test_a_table_without_a_type_is_refused_with_the_remedy(graph: str, files: Path, call: Call) -> None:
    """L2-33."""
    (files / "people.csv").write_text("name\nMary\n")
    (files / "person.csv").write_text("name\nMary\n")
    assert "Person=person.csv on the command line" in call("load", graph, "--data", "person.csv", "--mode", "merge").err
    assert call("load", graph, "--data", "Person=people.csv", "--mode", "merge").code == 0
