"""`omnigraph schema show`, `plan` and `apply`: their lines, their documents, and their refusals."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
from tests.unit.cli.calls import NEXT_SCHEMA, SCHEMA, Call

STEPS = [
    {"kind": "rename_property", "type_kind": "node", "type_name": "Person", "from": "born", "to": "birth_year"},
    {
        "kind": "add_property",
        "type_kind": "node",
        "type_name": "Person",
        "property_name": "email",
        "property_type": {"scalar": "String", "nullable": True, "list": False, "enum_values": None},
    },
]


def test_show_prints_the_schema_of_a_branch(graph: str, call: Call) -> None:
    assert call("schema", "show", graph) == (0, SCHEMA, "")
    assert call("schema", "get", graph, "--json").json() == {"schema_source": SCHEMA}
    og.open(graph).branches.create("review")
    assert call("schema", "apply", graph, "--schema", "people-next.pg", "--branch", "review").code == 0
    assert call("schema", "show", "--store", graph, "--branch", "review").out == NEXT_SCHEMA
    assert call("schema", "show", graph).out == SCHEMA


def test_plan_says_what_it_would_take_and_does_nothing(graph: str, call: Call) -> None:
    said = call("schema", "plan", graph, "--schema", "people-next.pg", "--json")
    assert said.json() == {"uri": graph, "supported": True, "step_count": 2, "steps": STEPS}
    assert said.err == ""
    assert og.open(graph).schema == SCHEMA
    assert call("schema", "plan", graph, "--schema", "people.pg").out == f"schema plan for {graph}\nsupported: yes\nno schema changes\n"


def test_a_plan_that_cannot_be_applied_is_a_plan(graph: str, files: Path, call: Call) -> None:
    """The plan shows why; the apply refuses, with the code, and changes nothing."""
    (files / "wrong.pg").write_text(SCHEMA.replace("I32?", "I64?"))
    reason = "changing property type for 'Person.born' is not supported in schema migration v1"
    planned = call("schema", "plan", graph, "--schema", "wrong.pg", "--json")
    assert (planned.code, planned.json()["supported"]) == (1, False)
    assert planned.json()["steps"] == [{"kind": "unsupported_change", "entity": "node:Person.born", "reason": reason, "code": "OG-MF-106"}]
    refused = call("schema", "apply", graph, "--schema", "wrong.pg", "--quiet")
    assert (refused.code, refused.out) == (1, "")
    assert f"Error: [OG-MF-106] {reason}\n" in refused.err
    assert len(og.open(graph).commits()) == 2


def test_apply_says_what_it_did(graph: str, call: Call) -> None:
    said = call("--as", "act-ada", "schema", "apply", graph, "--schema", "people-next.pg", "--json")
    facts = {"uri": graph, "supported": True, "applied": True, "graph_manifest_version": 3, "step_count": 2, "steps": STEPS}
    assert said.json() == facts
    assert said.err == f"omnigraph schema apply → {graph} (direct, local)\n"
    assert og.open(graph).commits()[0].actor == "act-ada"
    again = call("schema", "apply", graph, "--schema", "people-next.pg", "--json", "--quiet").json()
    assert again == {**facts, "applied": False, "step_count": 0, "steps": []}


def test_drops_are_soft_unless_data_may_be_lost(graph: str, files: Path, call: Call) -> None:
    (files / "less.pg").write_text("node Person {\n  name: String @key\n}\n")
    for flags, mode in ((), "soft"), (("--allow-data-loss",), "hard"):
        steps = call("schema", "plan", graph, "--schema", "less.pg", "--json", *flags).json()["steps"]
        assert [step["mode"] for step in steps] == [mode, mode]
    done = call("schema", "apply", graph, "--schema", "less.pg", "--allow-data-loss", "--quiet")
    assert done.out.splitlines()[-2:] == ["- drop property node:Person.born (hard)", "- drop edge Knows (hard)"]


def test_losing_data_far_away_needs_consent(files: Path, call: Call) -> None:
    """Refused before anything is asked of the store."""
    said = call("schema", "apply", "s3://nowhere/graph", "--schema", "people.pg", "--allow-data-loss", "--json", "--quiet")
    assert said.code == 1
    assert "refusing destructive `schema apply --allow-data-loss`" in said.err


def test_a_schema_without_meaning_is_drawn_under_its_files_name(graph: str, files: Path, call: Call) -> None:
    (files / "bad.pg").write_text("node Person { name: Strng @key }\n")
    for command in ("plan", "apply"):
        said = call("schema", command, graph, "--schema", "bad.pg")
        assert said.code == 1
        assert "bad.pg:1:21" in said.err


def test_plan_has_no_actor(graph: str, call: Call) -> None:
    said = call("--as", "act-ada", "schema", "plan", graph, "--schema", "people.pg")
    assert (said.code, "does not apply to `schema plan`" in said.err) == (1, True)
