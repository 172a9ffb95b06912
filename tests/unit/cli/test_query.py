"""`omnigraph query`: every format, the past, the plan, and what is refused."""

from __future__ import annotations

import json

import pytest

from omnigraph.cli.output import document, rows
from tests.unit.cli.calls import Call

PEOPLE = "query people() { match { $p: Person } return { $p.name as name, $p.born } order { name } }"


def query(call: Call, graph: str, *more: str, text: str = PEOPLE) -> tuple[int, str, str]:
    return call("query", "-e", text, "--store", graph, *more)


def test_a_table_by_default(graph: str, call: Call) -> None:
    code, out, err = query(call, graph)
    assert (code, err) == (0, "")
    assert out == "1 row from branch main via people\nname     | p.born\n---------+---------\nAda      | null\n"


def test_every_format(graph: str, call: Call) -> None:
    assert query(call, graph, "--format", "kv")[1] == "1 row from branch main via people\nrow 1\nname: Ada\np.born: null\n"
    assert query(call, graph, "--format", "csv")[1] == "name,p.born\nAda,null\n"
    metadata, row = query(call, graph, "--format", "jsonl")[1].splitlines()
    assert json.loads(metadata) == {
        "kind": "metadata",
        "query_name": "people",
        "target": {"branch": "main", "snapshot": None},
        "row_count": 1,
    }
    assert row == '{"name":"Ada","p.born":null}'
    document = json.loads(query(call, graph, "--format", "json")[1])
    assert document == json.loads(query(call, graph, "--json", "--format", "csv")[1])
    assert list(document) == ["query_name", "target", "row_count", "columns", "rows", "graph_commit_id"]


def test_a_document_that_is_printed_piece_by_piece_is_what_the_encoder_prints(capsys: pytest.CaptureFixture[str]) -> None:
    some: list[dict[str, object]] = [
        {"a": 'x"\né', "b": None, "c": True, "d": 1.5, "e": -7},
        {"list": [1, [], ["a\nb"]], "vector": [0.5, None]},
        {},
        {"nested": {"deep": [{}]}},
    ]
    for found in (some, []):
        value = {"name": "q", "target": {"branch": None, "at": [1, 2]}, "none": {}, "rows": found, "last": 1}
        document({**value, "rows": iter(found)})
        assert capsys.readouterr().out == json.dumps(value, indent=2) + "\n"
    document({})
    assert capsys.readouterr().out == "{}\n"


def test_csv_quotes_what_needs_it_and_keeps_values_whole(capsys: pytest.CaptureFixture[str]) -> None:
    values: list[list[object]] = [["x" * 80, 'a "b", c'], ["two\nlines", None], [[1, "é"], 1.5]]
    rows("csv", "", ["a,b", "b"], values, count=3)
    assert capsys.readouterr().out == f'"a,b",b\n{"x" * 80},"a ""b"", c"\n"two\nlines",null\n"[1, ""é""]",1.5\n'


def test_the_past_is_named_by_commit_version_or_moment(graph: str, call: Call) -> None:
    first = call("commit", "list", graph, "--json").json()["commits"][-1]["graph_commit_id"]
    for at in ("1", first):
        assert query(call, graph, "--snapshot", at)[1].splitlines()[0] == f"0 rows from snapshot {at} via people"
    assert query(call, graph, "--at", "2999-01-01T00:00:00")[1].splitlines()[0].startswith("1 row ")
    for wrong, said in (("99", "no manifest version 99"), ("1999-13-01", "or time such as"), ("2001-01-01", "no commit as old as")):
        code, out, err = query(call, graph, "--at", wrong)
        assert (code, out) == (1, "")
        assert said in err


def test_the_plan_is_told_and_not_run(graph: str, call: Call) -> None:
    text = 'query near() { match { $p: Person  search($p.name, "ada") } return { $p } }'
    assert query(call, graph, text=text)[0] == 0
    assert query(call, graph, "--explain", text=text)[1].startswith("query near -> p\n  project  outputs: $p")
    assert json.loads(query(call, graph, "--explain", "--json", text=text)[1])["plan"]["operator"] == "project"


def test_the_plan_is_run_and_told_with_what_it_did(graph: str, call: Call) -> None:
    code, out, _ = query(call, graph, "--analyze")
    assert code == 0
    assert out.startswith("query people -> name, p.born\n")
    assert "(~1 rows; 1 rows in " in out
    assert json.loads(query(call, graph, "--analyze", "--json")[1])["plan"]["actual"]["rows"] == 1


def test_timing_goes_to_stderr(graph: str, call: Call) -> None:
    code, out, err = query(call, graph, "--timing", "--format", "csv")
    assert (code, out) == (0, "name,p.born\nAda,null\n")
    assert err.endswith(" ms\n")


def test_parameters_and_names(graph: str, call: Call) -> None:
    two = "query a($n: String) { match { $p: Person { name: $n } } return { $p } } query b() { match { $p: Person } return { $p } }"
    assert query(call, graph, "a", "--params", '{"n": "Ada"}', "--format", "csv", text=two)[1] == "p\nAda\n"
    assert "parameter 'n' not provided" in query(call, graph, "a", text=two)[2]
    assert "the text has 2 queries: a, b; name one of them" in query(call, graph, text=two)[2]
    assert "query 'c' not found" in query(call, graph, "c", text=two)[2]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("query",), 1, "no graph addressed"),
        (("query", "--store", "g.omni"), 1, "by-name invocation needs a server"),
        (("query", "-e", " ", "--store", "g.omni"), 1, "--query-string must not be empty"),
        (("query", "-e", PEOPLE, "--query", "people.gq", "--store", "g.omni"), 2, "mutually exclusive"),
        (("query", "-e", PEOPLE, "--store", "g.omni", "--format", "xml"), 2, "is not one of"),
        (("query", "-e", PEOPLE, "--store", "g.omni", "--branch", "nope"), 1, "nope"),
        (("query", "-e", PEOPLE, "--store", "g.omni", "--as", "me"), 1, "a read has no actor"),
        (("query", "-e", PEOPLE, "--store", "g.omni", "--timeout", "-1"), 1, "above zero"),
        (
            ("query", "-e", 'query m() { insert Person { name: "x" } }', "--store", "g.omni"),
            1,
            "is a mutation, and this is a read; run it with `mutate`",
        ),
    ],
)
def test_refusals(graph: str, call: Call, arguments: tuple[str, ...], code: int, said: str) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (code, "")
    assert said in done.err


def test_an_error_in_the_text_is_drawn(graph: str, call: Call) -> None:
    code, _, err = query(call, graph, text="query q() { match { $p: Person } return { $p.nme } }")
    assert code == 1
    assert "--query-string:1:46: type error: T6" in err
    assert "did you mean `name`?" in err
