"""`branch merge`, `commit changes`, `commit diff`, `commit revert` and `log` on a real graph: lines, documents, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as og
from tests.unit.cli.calls import Call

STORE = ("--store", "graph.omni", "--quiet")


def change(call: Call, text: str, branch: str = "main") -> None:
    said = call("mutate", "-e", f"query q() {{ {text} }}", "--branch", branch, *STORE)
    assert said.code == 0, said.err


@pytest.fixture
def diverged(files: Path, call: Call) -> og.Graph:
    """Ada is changed on both sides, Bob is deleted on one and changed on the other, and Eve is new."""
    assert call("init", "--schema", "people.pg", "graph.omni").code == 0
    change(call, 'insert Person { name: "Ada", born: 1 } insert Person { name: "Bob" }')
    assert call("branch", "create", "work", *STORE).code == 0
    change(call, 'update Person set { born: 2 } where name = "Ada"', "work")
    change(call, 'delete Person where name = "Bob"', "work")
    change(call, 'insert Person { name: "Eve" }', "work")
    change(call, 'update Person set { born: 3 } where name = "Ada"')
    change(call, 'update Person set { born: 4 } where name = "Bob"')
    return og.open(files / "graph.omni")


def test_conflicts_are_a_table(diverged: og.Graph, call: Call) -> None:
    before = diverged.snapshot()
    said = call("branch", "merge", "work", *STORE)
    assert said.code == 1
    assert said.out.splitlines() == [
        "2 conflicts",
        "kind             | type     | id       | property |     base |     ours | theirs",
        "-----------------+----------+----------+----------+----------+----------+----------",
        "divergent_update | Person   | Ada      | born     |        1 |        3 | 2",
        "delete_vs_update | Person   | Bob      | born     |     null |        4 | (deleted)",
    ]
    assert "merge conflicts: node type 'Person', entity id 'Ada' (divergent_update); " in said.err
    said = call("branch", "merge", "work", *STORE, "--json")
    assert (said.code, said.out) == (1, "")
    machine = json.loads(said.err.splitlines()[-1])
    assert machine["kind"] == "merge_conflicts"
    assert [conflict["id"] for conflict in machine["facts"]["conflicts"]] == ["Ada", "Bob"]
    assert machine["facts"]["conflicts"][0]["theirs"]["properties"]["born"] == 2
    assert diverged.snapshot() == before


def test_conflicts_are_settled_by_a_file(diverged: og.Graph, files: Path, call: Call) -> None:
    before = diverged.snapshot()
    plan = call("branch", "merge", "work", *STORE, "--dry-run", "--json").json()
    assert (plan["outcome"], plan["conflict_count"], plan["inserted"], plan["commit"]) == ("conflicts", 2, 1, None)
    assert call("branch", "merge", "work", *STORE, "--dry-run").out.splitlines()[:2] == [
        "would merge work into main: conflicts",
        "1 inserted, 0 updated, 0 deleted",
    ]
    assert diverged.snapshot() == before
    for conflict, choice in zip(plan["conflicts"], ("theirs", "ours"), strict=True):
        conflict["choice"] = choice
    Path("choices.json").write_text(json.dumps(plan))
    said = call("branch", "merge", "work", *STORE, "--resolve", "choices.json", "--delete-branch", "--message", "m", "--as", "act-eve")
    assert said.out.splitlines() == ["merged work into main: merged", "1 inserted, 1 updated, 0 deleted", "deleted branch work"]
    merged = diverged.commits()[0]
    assert (merged.message, merged.actor) == ("m", "act-eve")
    rows = diverged.query("match { $p: Person } return { $p.name as name, $p.born as born } order { name }").rows
    assert rows == [{"name": "Ada", "born": 2}, {"name": "Bob", "born": 4}, {"name": "Eve", "born": None}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "choices.json is not a list of conflicts with") for text in ("", "{", "[]x", '[{"type_name": "Person", "id": "Ada"}]')),
        ('{"a": 1}', "`type_name`, `id` and `choice` each: Expected `array`, got `null`"),
        ('[{"type_name": "Person", "id": "Ada", "choice": "both"}]', "'ours' or 'theirs', not for 'both'"),
    ],
)
def test_a_file_of_choices_that_does_not_fit(diverged: og.Graph, call: Call, text: str, message: str) -> None:
    before = diverged.snapshot()
    Path("choices.json").write_text(text)
    said = call("branch", "merge", "work", *STORE, "--resolve", "choices.json")
    assert said.code == 1
    assert said.err.startswith("Error: ")
    assert message in said.err
    assert call("branch", "merge", "work", *STORE, "--resolve", "nowhere.json").code == 1
    assert diverged.snapshot() == before


def test_a_file_settles_a_node_and_an_edge_of_one_name(files: Path, call: Call) -> None:
    graph = og.init(files / "graph.omni", schema="node Link { name: String @key  n: I32? }\nedge Link: Link -> Link { n: I32? }")
    for branch, n in (("main", 0), ("work", 1), ("main", 2)):
        if branch == "work":
            graph.branches.create("work")
        node, edge = {"type": "Link", "data": {"name": "x", "n": n}}, {"edge": "Link", "from": "x", "to": "x", "data": {"id": "x", "n": n}}
        graph.load([node, edge], branch=branch)
    assert call("branch", "merge", "work", *STORE, "--dry-run", "--conflicts", "open.json").code == 0
    told = json.loads(Path("open.json").read_text())
    assert [one["entity_kind"] for one in told] == ["node", "edge"]
    Path("open.json").write_text(json.dumps([{**one, "choice": choice} for one, choice in zip(told, ("ours", "theirs"), strict=True)]))
    assert call("branch", "merge", "work", *STORE, "--resolve", "open.json").code == 0
    found = graph.query('match { $l: Link { name: "x" }  $l $e:link $l } return { $l.n as node, $e.n as edge }').rows
    assert found == [{"node": 2, "edge": 1}]


def test_thousands_of_conflicts_are_settled_by_a_file(files: Path, call: Call) -> None:
    """All conflicts are in the file, one on each line. With choices in it, the merge lands; a conflict without one stays open."""
    graph = og.init(files / "graph.omni", schema=Path("people.pg").read_text())
    for branch, born in (("main", 0), ("work", 1), ("main", 2)):
        if branch == "work":
            graph.branches.create("work")
        graph.load([{"type": "Person", "data": {"name": f"p{at:04}", "born": born}} for at in range(5_000)], branch=branch)
    said = call("branch", "merge", "work", *STORE, "--dry-run", "--conflicts", "open.json")
    assert said.out.splitlines() == ["would merge work into main: conflicts", "5,000 conflicts written to open.json"]
    text = Path("open.json").read_text()
    told = json.loads(text)
    assert [one["id"] for one in told] == [f"p{at:04}" for at in range(5_000)]
    assert len(text.splitlines()) == 5_002
    assert (told[4_999]["choice"], told[4_999]["theirs"]["properties"]["born"]) == (None, 1)
    plan = call("branch", "merge", "work", *STORE, "--dry-run", "--conflicts", "again.json", "--json").json()
    assert (len(plan["conflicts"]), plan["conflict_count"], Path("again.json").read_text()) == (1_000, 5_000, text)
    Path("most.json").write_text(text.replace('"choice":null', '"choice":"theirs"', 4_999))
    head = graph.commits()[0].id
    refused = call("branch", "merge", "work", *STORE, "--resolve", "most.json", "--json")
    assert [one["id"] for one in json.loads(refused.err.splitlines()[-1])["facts"]["conflicts"]] == ["p4999"]
    assert graph.commits()[0].id == head
    landed = call("branch", "merge", "work", *STORE, "--resolve", "most.json", "--ours")
    assert landed.out.splitlines() == ["merged work into main: merged", "0 inserted, 4999 updated, 0 deleted"]
    found = graph.query("match { $p: Person } return { $p.born as born } order { $p.name }").rows
    assert [row["born"] for row in found] == [1] * 4_999 + [2]
    assert call("branch", "merge", "work", *STORE, "--dry-run", "--conflicts", "none.json").code == 0
    assert Path("none.json").read_text() == "[]\n"


def test_a_file_of_conflicts_that_cannot_be_written(diverged: og.Graph, call: Call) -> None:
    before = diverged.snapshot()
    needs = call("branch", "merge", "work", *STORE, "--conflicts", "open.json")
    assert (needs.code, "--conflicts needs --dry-run" in needs.err, Path("open.json").exists()) == (2, True, False)
    nowhere = call("branch", "merge", "work", *STORE, "--dry-run", "--conflicts", "no/such/open.json")
    assert (nowhere.code, "cannot write 'no/such/open.json'" in nowhere.err) == (1, True)
    assert diverged.snapshot() == before


@pytest.mark.parametrize(("flag", "born"), [("--ours", 3), ("--theirs", 2)])
def test_one_side_wins(diverged: og.Graph, call: Call, flag: str, born: int) -> None:
    document = call("branch", "merge", "work", *STORE, flag, "--json").json()
    assert list(document) == ["source", "target", "outcome", "inserted", "updated", "deleted", "actor_id", "commit"]
    assert document["commit"]["merged_parent_commit_id"] == diverged.commits("work")[0].id
    assert diverged.query('match { $p: Person { name: "Ada" } } return { $p.born as born }').rows == [{"born": born}]
    assert call("branch", "merge", "work", *STORE).out == "merged work into main: already_up_to_date\n"


@pytest.mark.parametrize("command", [("branch", "merge", "work"), ("commit", "revert", "01")])
def test_both_sides_cannot_win(diverged: og.Graph, call: Call, command: tuple[str, ...]) -> None:
    before = diverged.snapshot()
    for flags in (("--ours", "--theirs"), ("--theirs", "--ours")):
        said = call(*command, *STORE, *flags)
        assert (said.code, "--ours and --theirs exclude each other" in said.err) == (2, True)
    assert diverged.snapshot() == before


def test_a_branch_with_children_stays(diverged: og.Graph, call: Call) -> None:
    diverged.branches.create("child", from_="work")
    said = call("branch", "merge", "work", *STORE, "--theirs", "--delete-branch")
    assert said.code == 0
    assert said.err.startswith("warning: merged, but could not delete branch 'work': ")
    assert call("branch", "merge", "work", *STORE, "--delete-branch", "--json").json()["branch_deleted"] is False


def test_wrong_names_are_refused(diverged: og.Graph, call: Call) -> None:
    for arguments in (("work", "--into", "work"), ("wrok",), ("work", "--into", "mian")):
        assert call("branch", "merge", *arguments, *STORE).code == 1
    assert call("branch", "merge", "work", "--strategy", "line", *STORE).code == 2
    assert call("commit", "diff", "main", "wrok", *STORE[:2]).err.startswith("Error: there is no branch, commit or tag 'wrok'")


def test_digits_that_begin_with_a_zero_begin_an_id(diverged: og.Graph, call: Call) -> None:
    """They are no manifest version, so that a beginning that many commits share is never taken for the first commit (T-11)."""
    for command in (
        ("branch", "create", "past", *STORE),
        ("tag", "create", "v1", *STORE),
        ("query", "-e", "match { $p: Person } return { $p.name }", *STORE[:2]),
    ):
        said = call(*command, "--at", "01", "--json")
        assert (said.code, json.loads(said.err.splitlines()[-1])["kind"]) == (1, "ambiguous_commit")
    assert (diverged.branches.list(), diverged.tags.list()) == (["main", "work"], [])
    assert call("branch", "create", "past", *STORE, "--at", "1").code == 0


def test_changes_and_reverts(diverged: og.Graph, call: Call) -> None:
    newest = diverged.commits("work")[1]
    document = call("commit", "changes", newest.id, *STORE[:2], "--json").json()
    assert document["cause"]["graph_commit_id"] == newest.id
    assert [(change["op"], change["id"], "after" in change) for change in document["changes"]] == [("delete", "Bob", False)]
    told = call("commit", "changes", newest.id, *STORE[:2]).out.splitlines()
    assert told[0] == f"commit: {newest.id}"
    assert told[-3:] == ["delete node Person Bob", "  - born: <null>", "  - name: Bob"]
    assert call("commit", "diff", "main", "work", "--op", "insert", *STORE[:2]).out.splitlines()[0] == "insert node Person Eve"
    assert call("commit", "revert", newest.id, "--branch", "work", *STORE).out.startswith(f"reverted {newest.id} on work: 1 inserted")
    assert call("commit", "revert", newest.id, "--branch", "work", *STORE).out.startswith("nothing of")
    assert call("commit", "revert", newest.id, "--branch", "work", *STORE, "--json").json()["commit"] is None


def test_the_log_of_an_entity(diverged: og.Graph, call: Call) -> None:
    first, *_ = told = call("log", "Person", "Ada", *STORE[:2]).out.splitlines()
    assert first.split()[0] == diverged.commits()[1].id
    assert told[1:3] == ["  update node Person Ada", "    born: 1 -> 3"]
    entries = call("log", "Person", "Ada", "--branch", "work", *STORE[:2], "--json").json()["entries"]
    assert [(entry["change"]["op"], entry["cause"]["authored_branch"]) for entry in entries] == [("update", "work"), ("insert", "main")]
    assert call("log", "Persona", "Ada", *STORE[:2]).code == 1
