"""`omnigraph query`: every format, the past, the plan, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.cli.output import document, format_rows
from tests.unit.cli.calls import Call, run

PEOPLE = "query people() { match { $p: Person } return { $p.name as name, $p.born } order { name } }"


def query(call: Call, graph: str, *more: str, text: str = PEOPLE) -> tuple[int, str, str]:
    return call("query", "-e", text, "--store", graph, *more)


def test_a_table_by_default(graph: str, call: Call) -> None:
    code, out, err = query(call, graph)
    assert (code, err) == (0, "")
    assert out == "1 row from branch main via people\nname     | p.born\n---------+---------\nAda      | null\n"


def test_every_format(graph: str, call: Call) -> None:
    assert query(call, graph, "--format", "kv")[1] == "1 row from branch main via people\nrow 1\nname: Ada\np.born: null\n"
    assert query(call, graph, "--format", "csv")[1] == "name,p.born\nAda,\n"
    assert query(call, graph, "--format", "jsonl")[1] == '{"name":"Ada","p.born":null}\n'
    document = json.loads(query(call, graph, "--format", "json")[1])
    assert document == json.loads(query(call, graph, "--json", "--format", "csv")[1])
    assert list(document) == ["query_name", "target", "row_count", "columns", "rows", "graph_commit_id"]


def test_a_document_that_is_printed_piece_by_piece_is_what_the_encoder_prints(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, object]] = [
        {"a": 'x"\né', "b": None, "c": True, "d": 1.5, "e": -7},
        {"list": [1, [], ["a\nb"]], "vector": [0.5, None]},
        {},
        {"nested": {"deep": [{}]}},
    ]
    for found in (rows, []):
        value = {"name": "q", "target": {"branch": None, "at": [1, 2]}, "none": {}, "rows": found, "last": 1}
        document({**value, "rows": iter(found)})
        assert capsys.readouterr().out == json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    document({})
    assert capsys.readouterr().out == "{}\n"


def test_cells_are_cut_quoted_and_kept_on_their_line() -> None:
    rows: list[list[object]] = [["x" * 80, 'a "b", c'], ["two\nlines", None], [[1, "é"], 1.5]]
    table = list(format_rows("table", "3 rows", ["long name", "b"], rows, width=200))
    assert table[1].startswith("long name ")
    assert table[3] == f"{'x' * 59}… | " + 'a "b", c'
    assert list(format_rows("table", "3 rows", ["long name", "b"], rows))[3] == f"{'x' * 80} | " + 'a "b", c', "a pipe gets all of it"
    assert table[4].startswith("two\\nlines ")
    assert table[5].startswith('[1, "é"] ')
    assert list(format_rows("csv", "", ["a,b", "b"], rows)) == [
        '"a,b",b',
        f'{"x" * 80},"a ""b"", c"',
        '"two\nlines",',
        '"[1, ""é""]",1.5',
    ]
    assert list(format_rows("kv", "0 rows", ["a"], [])) == ["0 rows", "(no rows)"]
    assert list(format_rows("table", "0 rows", ["a"], [])) == ["0 rows", "a", "--------"]


def test_the_past_is_named_by_commit_version_or_moment(graph: str, call: Call) -> None:
    first = call("commit", "list", graph, "--json").json()["commits"][-1]["graph_commit_id"]
    for at in ("1", first):
        assert query(call, graph, "--snapshot", at)[1].splitlines()[0] == f"0 rows from snapshot {at} via people"
    assert query(call, graph, "--at", "2999-01-01T00:00:00")[1].splitlines()[0].startswith("1 row")
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
    assert "(~1 row; 1 row in " in out
    assert json.loads(query(call, graph, "--analyze", "--json")[1])["plan"]["actual"]["rows"] == 1


def test_timing_goes_to_stderr(graph: str, call: Call) -> None:
    code, out, err = query(call, graph, "--timing", "--format", "csv")
    assert (code, out) == (0, "name,p.born\nAda,\n")
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
        (("query", "-e", PEOPLE, "--store", "g.omni", "--timeout", "-1"), 2, "above zero"),
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


def test_a_terminal_gets_the_first_thousand_rows() -> None:
    rows = [[number] for number in range(1_003)]
    assert len(list(format_rows("table", "1,003 rows", ["n"], rows))) == 1_006
    shown = list(format_rows("table", "1,003 rows", ["n"], rows, width=80))
    assert len(shown) == 1_004
    assert shown[-1] == "… 3 more rows: a pipe, as in `| less`, gets all of them"


VALUES = "node Row { key: String @key  text: String?  n: I64?  real: F64?  flag: Bool?  day: Date?  at: DateTime?  tags: [String]? }\n"


@given(
    texts=st.lists(st.one_of(st.none(), st.text(alphabet='a é"\n,\r\\\t名', max_size=6)), min_size=1, max_size=6),
    number=st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
)
@settings(max_examples=8)
def test_csv_that_comes_out_goes_in_again(texts: list[str | None], number: int | None) -> None:
    """Null is an empty cell, and an empty text is `""`."""
    rows = [{"key": f"k{at}", "text": text} for at, text in enumerate([*texts, "", None])]
    rest = {"n": number, "real": 0.5, "flag": True, "day": "1979-05-25", "at": "2024-03-01T12:30:15.250Z", "tags": ["", 'a"b', "é"]}
    with og.memory(schema=VALUES) as graph, TemporaryDirectory() as folder:
        graph.load([{"type": "Row", "data": {**row, **(rest if at % 2 else {})}} for at, row in enumerate(rows)])
        columns = ("key", "text", *rest)
        found = graph.query(f"match {{ $r: Row }} return {{ {', '.join(f'$r.{name} as {name}' for name in columns)} }}")
        lines = format_rows("csv", "", list(found.columns), [list(values) for values in found.tuples()])
        path = Path(folder) / "rows.csv"
        path.write_text("".join(f"{line}\n" for line in lines), newline="")
        with og.memory(schema=VALUES) as other:
            other.load({"Row": path})
            assert list(other.export()) == list(graph.export())


def test_rows_for_programs_are_utf_8(graph: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    og.open(graph).mutate('insert Person { name: "Zoé 名" }')
    text = 'match { $p: Person { name: "Zoé 名" } } return { $p.name as name }'
    assert call("query", graph, "-e", text, "--format", "jsonl").out == '{"name":"Zoé 名"}\n'
    assert '"name": "Zoé 名"' in call("query", graph, "-e", text, "--json").out
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    poor = run("query", graph, "-e", text, "--format", "jsonl")
    assert (poor.returncode, poor.stdout) == (0, '{"name":"Zo\\u00e9 \\u540d"}\n')
