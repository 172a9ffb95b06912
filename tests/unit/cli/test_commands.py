"""Each command on a real graph: its lines, its documents, and its refusals."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.history import age
from tests.unit.cli.calls import Call, run

NOBODY = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
COMMIT_KEYS = [
    "graph_commit_id",
    "graph_branch",
    "graph_manifest_version",
    "parent_commit_id",
    "merged_parent_commit_id",
    "actor_id",
    "created_at",
]


def add(call: Call, graph: str, name: str, *more: str) -> None:
    said = call("mutate", "add_person", "--query", "people.gq", "--params", json.dumps({"name": name}), "--store", graph, *more)
    assert said.code == 0, said.err


# -- init


def test_init_says_where(files: Path, call: Call) -> None:
    assert call("init", "--schema", "people.pg", "new.omni") == (0, "initialized new.omni\n", "")
    assert call("init", "--schema", "people.pg", "other.omni", "--json").json().keys() == {"uri", "graph_id"}
    assert og.open(files / "new.omni").schema == (files / "people.pg").read_text()


def test_init_refuses_what_is_there(graph: str, call: Call) -> None:
    said = call("init", "--schema", "people.pg", graph)
    assert said.code == 1
    assert "there is a graph at" in said.err


@pytest.mark.parametrize("arguments", [("init",), ("init", "--schema", "people.pg"), ("init", "g")])
def test_init_needs_a_schema_and_a_place(arguments: tuple[str, ...], call: Call) -> None:
    said = call(*arguments)
    assert said.code == 2
    assert "Usage: omnigraph init" in said.err


def test_init_draws_what_is_wrong_with_the_schema(files: Path, call: Call) -> None:
    (files / "bad.pg").write_text("node A { x: Strin }\n")
    said = call("init", "--schema", "bad.pg", "new.omni", "--json")
    assert said.code == 1
    assert said.out == ""
    *drawn, machine = said.err.splitlines()
    assert drawn[0].startswith("Error: bad.pg:1:13: parse error: ")
    assert drawn[2] == "    |             ^^^^^"
    assert json.loads(machine)["kind"] == "syntax"
    assert json.loads(machine)["column"] == 13
    assert not (files / "new.omni").exists()


# -- mutate


def test_mutate_says_what_it_changed(graph: str, call: Call) -> None:
    said = call("mutate", "-e", 'query q() { insert Person { name: "Grace" } }', "--store", graph, "--as", "act-g")
    assert said == (0, "changed main via q: 1 node, 0 edges\nactor_id: act-g\n", "")


def test_mutate_as_a_document(graph: str, call: Call) -> None:
    said = call("mutate", "introduce", "--query", "people.gq", "--params", '{"from": "Ada", "to": "Ada"}', "--store", graph, "--json")
    document = said.json()
    commit = document.pop("commit")
    assert document == {"branch": "main", "query_name": "introduce", "affected_nodes": 0, "affected_edges": 1, "actor_id": None}
    assert list(commit) == COMMIT_KEYS
    shown = call("commit", "show", commit["graph_commit_id"], "--uri", graph, "--json").json()
    assert {name: shown[name] for name in commit} == commit
    assert (shown["kind"], shown["message"], shown["token"]) == ("mutate", None, None)
    assert (shown["counts"], shown["marks"]) == ({"affected_nodes": 0, "affected_edges": 1}, ["main"])
    assert shown["tables"] == [{"type_key": "edge:Knows", "before": 1, "after": 2}]


def test_mutate_that_matches_nothing_makes_no_commit(graph: str, call: Call) -> None:
    said = call("mutate", "-e", 'query q() { delete Person where name = "Nobody" }', "--store", graph, "--json")
    assert said.code == 0
    assert said.json()["commit"] is None


def test_mutate_takes_parameters_from_a_file(files: Path, graph: str, call: Call) -> None:
    (files / "p.json").write_text('{"name": "Zoé", "born": 1}')
    assert call("mutate", "add_person", "--query", "people.gq", "--params-file", "p.json", "--store", graph).code == 0
    assert og.open(graph).info().tables["node:Person"] == 2


def test_mutate_with_a_lost_condition_exits_with_4(graph: str, call: Call) -> None:
    head = call("commit", "list", graph, "--json").json()["commits"][0]["graph_commit_id"]
    asked = ("mutate", "add_person", "--query", "people.gq", "--params", '{"name": "B"}', "--store", graph, "--if-commit")
    lost = call(*asked, NOBODY, "--json")
    assert lost.code == 4
    assert lost.json()["precondition_failure"] == {"expected": NOBODY, "actual": head}
    assert lost.json()["error"] in lost.err
    quietly = call(*asked, NOBODY)
    assert (quietly.code, quietly.out) == (4, "")
    assert call(*asked, head).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("name",), 1, "by-name invocation needs a server"),
        ((), 1, "by-name invocation needs a server"),
        (("-e", " "), 1, "--query-string must not be empty"),
        (("-e", "x", "--query", "people.gq"), 2, "mutually exclusive"),
        (("--query", "people.gq", "--params", "{}", "--params-file", "p"), 2, "mutually exclusive"),
        (("--query", "nope.gq"), 1, "cannot read query file 'nope.gq': no such file"),
        (("--query", "people.gq"), 1, "2 queries: add_person, introduce; name one of them"),
        (("nope", "--query", "people.gq"), 1, "query 'nope' not found"),
        (("add_person", "--query", "people.gq"), 1, "parameter 'name' not provided"),
        (("-e", "query q() { delete Persn where name = 1 }"), 1, "--query-string:1:20: type error: T10"),
        (("-e", "query q() { match { $p: Person } return { $p.name } }"), 1, "Error: "),
    ],
)
def test_mutate_refuses(arguments: tuple[str, ...], code: int, message: str, graph: str, call: Call) -> None:
    said = call("mutate", *arguments, "--store", graph)
    assert said.code == code
    assert message in said.err
    assert said.out == ""


# -- branch


def test_branches_come_and_go(graph: str, call: Call) -> None:
    assert call("branch", "create", "review", "--uri", graph) == (
        0,
        "created branch review from main\n",
        f"omnigraph branch create → {graph} (direct, local)\n",
    )
    made = call("branch", "create", "again", "--from", "review", "--uri", graph, "--json", "--quiet", "--as", "me")
    assert made.json() == {"uri": graph, "from": "review", "name": "again", "actor_id": "me"}
    old = call("commit", "list", graph, "--json").json()["commits"][-1]["graph_commit_id"]
    past = call("branch", "create", "past", "--at", old.lower(), "--uri", graph, "--json", "--quiet")
    assert past.json() == {"uri": graph, "from": "main", "name": "past", "graph_commit_id": old, "actor_id": None}
    assert call("branch", "create", "then", "--at", "1", "--uri", graph, "--quiet").out == f"created branch then from {old}\n"
    for name in ("past", "then"):
        call("branch", "delete", name, "--uri", graph)
    assert made.err == ""
    assert call("branch", "list", "--uri", graph) == (0, "again\nmain\nreview\n", "")
    assert call("branch", "list", "--store", graph, "--json").json() == {"branches": ["again", "main", "review"]}
    assert call("branch", "delete", "again", "--store", graph, "--json").json() == {"uri": graph, "name": "again", "actor_id": None}
    assert call("branch", "delete", "review", "--store", graph, "--quiet") == (0, "deleted branch review\n", "")


def test_tags_come_and_go(graph: str, call: Call) -> None:
    head = call("commit", "list", graph, "--json").json()["commits"][0]["graph_commit_id"]
    assert call("tag", "create", "v1", "--uri", graph) == (
        0,
        f"tagged commit {head} as v1\n",
        f"omnigraph tag create → {graph} (direct, local)\n",
    )
    made = call("tag", "create", "first-load", "--at", "1", "--message", "so it began", "--uri", graph, "--json", "--quiet", "--as", "me")
    document = made.json()
    first = call("commit", "list", graph, "--json").json()["commits"][-1]["graph_commit_id"]
    assert {**document, "created_at": 0} == {
        "uri": graph,
        "name": "first-load",
        "graph_commit_id": first,
        "graph_branch": None,
        "actor_id": "me",
        "created_at": 0,
        "message": "so it began",
    }
    assert call("tag", "list", "--uri", graph).out.splitlines() == [
        f"first-load {first} graph_branch=main so it began",
        f"v1 {head} graph_branch=main",
    ]
    listed = call("tag", "list", "--store", graph, "--json").json()["tags"]
    assert [tag["name"] for tag in listed] == ["first-load", "v1"]
    assert {"uri": graph, **listed[0]} == document
    assert call("commit", "show", "v1", "--uri", graph, "--json").json()["graph_commit_id"] == head
    everyone = ("query", "-e", "query q() { match { $p: Person } return { $p.name } }", "--store", graph, "--json")
    assert call(*everyone, "--at", "first-load").json()["row_count"] == 0
    assert call(*everyone, "--at", "v1").json()["row_count"] == 1
    assert call("export", graph, "--at", "first-load").out == ""
    assert call("branch", "create", "retry", "--at", "first-load", "--uri", graph, "--quiet").out == f"created branch retry from {first}\n"
    assert call("tag", "delete", "v1", "--uri", graph, "--json").json() == {"uri": graph, "name": "v1", "actor_id": None}
    assert call("tag", "delete", "first-load", "--store", graph, "--quiet") == (0, "deleted tag first-load\n", "")
    assert call("tag", "list", "--uri", graph) == (0, "", "")


def test_a_tag_that_is_not_there_or_was_never_meant_is_named(graph: str, call: Call) -> None:
    assert '"kind": "tag_not_found"' in call("tag", "delete", "v1", "--uri", graph, "--json").err
    assert '"kind": "invalid_tag_name"' in call("tag", "create", "2026-01-31", "--uri", graph, "--json").err
    assert '"kind": "ambiguous_commit"' in call("commit", "show", "01", "--uri", graph, "--json").err
    assert '"kind": "invalid_argument"' in call("tag", "create", "v1", "--at", "2026-13-31", "--uri", graph, "--json").err


def test_deleting_elsewhere_without_consent_touches_nothing(call: Call) -> None:
    said = call("branch", "delete", "review", "--store", "s3://nowhere/g", "--json")
    assert said.code == 1
    assert said.out == ""
    assert "refusing destructive" in said.err


def test_every_writing_command_stores_its_message(files: Path, call: Call) -> None:
    """G-28: also on the command line."""
    call("init", "--schema", "people.pg", "m.omni", "--message", "born")
    call("load", "m.omni", "--data", "people.ndjson", "--mode", "append", "--message", "loaded")
    insert = 'query q() { insert Person { name: "Zoe" } }'
    call("mutate", "-e", insert, "--store", "m.omni", "--message", "mutated")
    call("schema", "apply", "m.omni", "--schema", "people-next.pg", "--message", "changed")
    call("ensure-indices", "m.omni", "--message", "indexed")
    call("mutate", "-e", insert.replace("Zoe", "Yan"), "--store", "m.omni", "--message", "again")
    call("optimize", "m.omni", "--message", "tidied")
    said = [commit["message"] for commit in call("commit", "graph", "m.omni", "--json").json()["commits"]]
    assert said == ["tidied", "again", "indexed", "changed", "mutated", "loaded", "born"]


def test_optimize_reports_every_table(graph: str, call: Call) -> None:
    """O-02: on the command line."""
    call("mutate", "-e", 'query q() { insert Person { name: "Zoe" } }', "--store", graph)
    told = call("optimize", graph, "--json").json()
    person, knows = told["datasets"]
    assert (told["graph_branch"], told["commit"]["graph_branch"], person["type_key"], knows["type_key"]) == (
        "main",
        None,
        "node:Person",
        "edge:Knows",
    )
    assert (person["fragments_removed"], person["fragments_added"], person["committed"], person["skipped"]) == (2, 1, True, None)
    assert (person["lance_head_version"], person["pending_indexes"]) == (None, [])
    again = call("optimize", graph)
    assert (again.code, again.out.splitlines()) == (
        0,
        [f"optimize {graph} — 2 datasets", "node:Person: no-op", "edge:Knows: no-op"],
    )
    call("branch", "create", "work", "--uri", graph)
    branch = call("optimize", graph, "--branch", "work", "--json").json()
    assert ({each["skipped"] for each in branch["datasets"]}, branch["commit"]) == ({"inherited"}, None)
    assert call("optimize", graph, "--as", "act-ada").code == 1


# -- looking


def test_history_newest_first(graph: str, call: Call) -> None:
    newest, first = call("commit", "list", graph, "--json").json()["commits"]
    assert list(newest) == [*COMMIT_KEYS, "kind", "message", "counts"]
    assert newest["parent_commit_id"] == first["graph_commit_id"]
    assert (newest["actor_id"], first["parent_commit_id"]) == ("act-ada", None)
    assert 1.7e15 < newest["created_at"] < 4e15
    length = og.open(graph).commit_graph().id_length
    assert call("commit", "list", graph).out.splitlines() == [
        f"{newest['graph_commit_id'][:length]}  just now  act-ada  mutate   1 node  (main)",
        f"{first['graph_commit_id'][:length]}  just now  -        genesis",
    ]


def test_a_part_of_the_history(graph: str, call: Call) -> None:
    call("tag", "create", graph, "v1")
    call(
        "mutate", graph, "introduce", "--query", "people.gq", "--params", '{"from": "Ada", "to": "Ada"}', "--message", "knows herself\nwell"
    )

    def kinds(*options: str) -> list[str]:
        return [commit["kind"] for commit in call("commit", "list", graph, *options, "--json").json()["commits"]]

    assert kinds() == ["mutate", "mutate", "genesis"]
    assert kinds("--limit", "1") == ["mutate"]
    assert kinds("--type", "Knows") == ["mutate", "genesis"]
    assert kinds("--type", "Knows", "--type", "Person", "--limit", "2") == ["mutate", "mutate"]
    assert kinds("--since", "2001-01-31") == ["mutate", "mutate", "genesis"]
    assert kinds("--since", "2999-01-31T12:00:00Z") == []
    lines = call("commit", "list", graph).out.splitlines()
    assert [line.partition("node")[2] or line.partition("edge")[2] for line in lines] == ["  (main) knows herself", "  (tag: v1)", ""]
    assert "unknown type 'Persn'; did you mean `Person`?" in call("commit", "list", graph, "--type", "Persn").err
    assert "such as 2026-01-31T12:00:00Z" in call("commit", "list", graph, "--since", "yesterday").err
    assert call("commit", "list", graph, "--limit", "0").code == 2


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(seconds=59), "just now"),
        (timedelta(seconds=-5), "just now"),
        (timedelta(minutes=1), "1 min ago"),
        (timedelta(minutes=59, seconds=59), "59 min ago"),
        (timedelta(hours=23), "23 h ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=29), "29 days ago"),
    ],
)
def test_an_age_is_what_a_person_would_say(ago: timedelta, text: str) -> None:
    assert age(datetime.now(UTC) - ago) == text
    assert age(datetime(2020, 1, 31, tzinfo=UTC)) == "2020-01-31"


def test_a_branch_names_its_own_commits(graph: str, call: Call) -> None:
    call("branch", "create", "review", "--uri", graph)
    add(call, graph, "Grace", "--branch", "review")
    newest, inherited, _ = call("commit", "list", "--store", graph, "--branch", "review", "--json").json()["commits"]
    assert (newest["graph_branch"], inherited["graph_branch"]) == ("review", None)
    shown = call("commit", "show", newest["graph_commit_id"], "--uri", graph).out.splitlines()
    assert [line.partition(": ")[0] for line in shown] == [
        "graph_commit_id",
        "graph_branch",
        "graph_manifest_version",
        "parent_commit_id",
        "created_at",
        "kind",
        "changed",
        "marks",
        "table node:Person",
    ]
    assert shown[5:] == ["kind: mutate", "changed: 1 node", "marks: review", "table node:Person: version 2 -> version 3"]
    assert shown[1] == "graph_branch: review"


def test_snapshot_shows_every_table(graph: str, call: Call) -> None:
    call("branch", "create", "review", "--uri", graph)
    add(call, graph, "Grace", "--branch", "review")
    document = call("snapshot", graph, "--branch", "review", "--json").json()
    assert (document["graph_branch"], document["internal_schema_version"]) == ("review", 1)
    edge, node = document["datasets"]
    assert (edge["entity_kind"], edge["type_name"], edge["entity_count"], edge["native_dataset_branch"]) == ("edge", "Knows", 0, None)
    assert (node["entity_kind"], node["type_name"], node["entity_count"]) == ("node", "Person", 2)
    assert node["native_dataset_branch"].startswith("review-")
    assert (Path(graph) / node["dataset_path"]).is_dir()
    lines = call("snapshot", graph).out.splitlines()
    assert lines == [
        "graph_branch: main",
        "graph_manifest_version: 2",
        "internal_schema_version: 1",
        "edge type 'Knows' published_dataset_version=1 native_dataset_branch=main entities=0",
        "node type 'Person' published_dataset_version=2 native_dataset_branch=main entities=1",
    ]


def test_info(graph: str, call: Call) -> None:
    document = call("info", graph, "--json").json()
    assert document["tables"] == {"edge:Knows": 0, "node:Person": 1}
    assert (document["branches"], document["commits"], document["format"]) == (1, 2, 1)
    lines = call("info", "--store", graph).out.splitlines()
    assert lines[0] == f"uri: {Path(graph).resolve()}"
    assert lines[-1] == "node:Person: 1"


def test_no_recoveries(graph: str, call: Call) -> None:
    assert call("recovery", "list", graph) == (0, "(no interrupted writes)\n", "")
    assert call("recovery", "list", graph, "--json").json() == {"recoveries": []}


def test_verify_of_a_sound_graph(graph: str, call: Call) -> None:
    assert call("verify", graph) == (0, f"verified {graph}: 0 errors, 0 warnings\n", "")
    assert call("verify", graph, "--json").json() == {"uri": graph, "ok": True, "findings": []}


def test_verify_reads_every_byte_when_asked(graph: str, call: Call) -> None:
    said = call("verify", graph, "--deep", "--json")
    assert (said.code, said.json()) == (0, {"uri": graph, "ok": True, "findings": []})
    data = max((Path(graph) / "nodes").glob("*/data/*.lance"), key=lambda file: file.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    assert call("verify", graph, "--deep", "--json").json()["findings"][0]["code"] == "wrong_checksum"


def test_verify_of_a_broken_graph_exits_with_1(graph: str, call: Call) -> None:
    table = call("snapshot", graph, "--json").json()["datasets"][1]["dataset_path"]
    shutil.rmtree(Path(graph) / table)
    said = call("verify", graph, "--json")
    assert said.code == 1
    assert said.json()["ok"] is False
    assert said.json()["findings"][0]["where"] == "main:node:Person"
    told = call("verify", graph)
    assert told.code == 1
    assert told.out.startswith("ERROR missing_file main:node:Person: ")
    assert told.out.endswith(f"verified {graph}: 2 errors, 0 warnings\n")  # both of its versions are kept


@pytest.mark.parametrize("command", [("snapshot",), ("commit", "list")])
def test_a_branch_that_is_not_there(command: tuple[str, ...], graph: str, call: Call) -> None:
    said = call(*command, graph, "--branch", "mian", "--json")
    assert (said.code, said.out) == (1, "")
    first, second, machine = said.err.splitlines()
    assert (first, second) == ("Error: there is no branch 'mian'; did you mean 'main'?", f"  in the graph {graph}")
    assert json.loads(machine)["kind"] == "branch_not_found"


def test_reading_writes_nothing(graph: str, call: Call) -> None:
    def everything() -> set[tuple[str, int]]:
        return {(str(path), path.stat().st_mtime_ns) for path in Path(graph).rglob("*")}

    before = everything()
    for command in (("snapshot",), ("commit", "list"), ("verify",), ("info",), ("recovery", "list")):
        assert call(*command, graph).code == 0
    assert call("branch", "list", "--uri", graph).code == 0
    assert everything() == before


def test_names_cannot_move_the_cursor(graph: str, call: Call) -> None:
    add(call, graph, "Eve", "--as", "eve\n\x1b[2J")
    assert call("commit", "list", graph).out.splitlines()[0].split("  ")[2] == r"eve\n\x1b[2J"


def test_output_in_a_poor_alphabet(graph: str, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    add(call, graph, "Zoé", "--as", "zoé")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = run("commit", "list", graph)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].split("  ")[2] == r"zo\xe9"


# -- embeddings

DOCS = "node Doc {\n  slug: String @key\n  text: String?\n  vec: Vector(4)? @embed(text)\n}\n"


def test_ensure_embeddings_fills_what_is_missing(files: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(files / "docs.omni", schema=DOCS)
    graph.load([{"type": "Doc", "data": {"slug": "a", "text": "one"}}, {"type": "Doc", "data": {"slug": "b"}}], "append")
    refused = call("ensure-embeddings", "docs.omni", "--json")
    assert (refused.code, json.loads(refused.err.splitlines()[-1])["kind"]) == (1, "embedding_provider_missing")
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "m")
    said = call("ensure-embeddings", "docs.omni", "--as", "act-ada", "--message", "vectors")
    assert (said.code, said.out.splitlines()) == (
        0,
        [
            "vectors of docs.omni on branch main: 1 embedded, 0 pending",
            "node:Doc.vec: 1 embedded by m, 0 pending, 1 without text",
        ],
    )
    assert "omnigraph ensure-embeddings → docs.omni" in said.err
    assert [(commit.actor, commit.message) for commit in graph.commits(limit=1)] == [("act-ada", "vectors")]
    again = call("ensure-embeddings", "docs.omni", "--json").json()
    assert again == {
        "uri": "docs.omni",
        "graph_branch": "main",
        "embedded": 0,
        "pending": 0,
        "properties": [{"type_key": "node:Doc", "property": "vec", "model": None, "embedded": 0, "pending": 0, "without_text": 1}],
        "commit": None,
    }
