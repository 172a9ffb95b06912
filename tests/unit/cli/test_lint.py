"""`omnigraph lint` and `omnigraph schema check`: reports on stdout, drawings on stderr, exit codes, and files that cannot be read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import omnigraph as og
from omnigraph.cli import main

REFERENCE = (Path(__file__).parents[3] / "docs/user/cli.md").read_text("utf-8")

SCHEMA = "node Film { slug: String @key  title: String  year: I32? }\n"
GOOD = "query by_year($y: I32) { match { $f: Film { year: $y } } return { $f.slug } }\n"
BROKEN = "query broken() { match { $f: Film } return { $g.slug } }\n"
RENAME = "query rename($s: String, $t: String) { update Film set { title: $t } where slug = $s }\n"


class Done(NamedTuple):
    code: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.pg").write_text(SCHEMA)
    (tmp_path / "films.gq").write_text(GOOD + BROKEN + RENAME)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_(*arguments: str) -> Done:
        code = main.run(list(arguments))
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run_


def shown(command: str) -> str:
    """What the reference shows below a command."""
    found = re.search(rf"^\$ {re.escape(command)}\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_lint_prints_what_the_reference_shows(files: Path, run: Run) -> None:
    done = run("lint", "--schema", "films.pg", "--query", "films.gq")
    assert done.code == 1
    assert done.stdout + done.stderr == shown("omnigraph lint --schema films.pg --query films.gq")
    assert done.stderr.startswith("Error: films.gq:2:46: ")


def test_lint_as_json_is_one_document_and_still_fails(files: Path, run: Run) -> None:
    done = run("lint", "--schema", "films.pg", "--query", "films.gq", "--json")
    document = json.loads(done.stdout)
    assert (done.code, done.stderr) == (1, "")
    assert done.stdout == json.dumps(document, indent=2) + "\n"
    assert list(document) == [
        *("status", "schema_source", "query_path", "queries_processed", "errors", "warnings", "infos", "results", "findings"),
    ]
    assert (document["status"], document["errors"], document["warnings"]) == ("error", 1, 1)
    assert document["schema_source"] == {"kind": "file", "path": "films.pg"}
    assert [result["status"] for result in document["results"]] == ["ok", "error", "ok"]


def test_warnings_do_not_fail(files: Path, run: Run) -> None:
    (files / "films.gq").write_text(GOOD + RENAME + 'query gone() { delete Film where slug = "a" }')
    done = run("lint", "--schema", "films.pg", "--query", "films.gq")
    assert (done.code, done.stderr) == (0, "")
    assert "WARN  query `gone`: mutation declares no params; hardcoded mutations are easy to miss\n" in done.stdout


def test_a_query_file_that_does_not_parse_is_a_finding(files: Path, run: Run) -> None:
    (files / "films.gq").write_text("query q( {")
    done = run("lint", "--schema", "films.pg", "--query", "films.gq")
    assert done.code == 1
    assert done.stdout.startswith("ERROR Q000 parse error: ")
    assert done.stdout.endswith("INFO  Lint complete: 0 queries processed (1 error, 0 warnings, 0 info items)\n")
    assert done.stderr.startswith("Error: films.gq:1:10: parse error: ")


def test_a_broken_schema_is_an_error_of_lint(files: Path, run: Run) -> None:
    (files / "films.pg").write_text("node film {}")
    done = run("lint", "--schema", "films.pg", "--query", "films.gq")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: films.pg:1:6: parse error: ")


def test_lint_needs_a_schema_and_a_query(files: Path, run: Run) -> None:
    done = run("lint", "--query", "films.gq")
    assert (done.code, done.stdout) == (1, "")
    assert "--schema FILE" in done.stderr
    assert run("lint", "--schema", "films.pg").code == 2


def test_schema_check_counts_what_is_there(files: Path, run: Run) -> None:
    assert run("schema", "check", "films.pg") == Done(0, "OK    schema films.pg: 0 interfaces, 1 node, 0 edges\n", "")
    done = run("schema", "check", "films.pg", "--json")
    assert json.loads(done.stdout) == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "films.pg"},
        "interfaces": 0,
        "nodes": 1,
        "edges": 0,
    }


def test_schema_check_draws_the_error_as_the_reference_shows(files: Path, run: Run) -> None:
    (files / "films.pg").write_text("node Film { slug: String? @key  year: I32? }")
    done = run("schema", "check", "films.pg")
    assert done == Done(1, "", shown("omnigraph schema check films.pg"))


def test_a_language_error_as_json_says_where(files: Path, run: Run) -> None:
    (files / "films.pg").write_text("node Film { slug: String? @key  year: I32? }")
    done = run("schema", "check", "films.pg", "--json")
    assert (done.code, done.stdout) == (1, "")
    assert json.loads(done.stderr.splitlines()[-1]) == {
        "error": "catalog error: @key property Film.slug cannot be nullable",
        "kind": "schema",
        "facts": {},
        "code": "S09",
        "line": 1,
        "column": 13,
    }


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "a directory, not a file"),
        (lambda path: path.write_bytes(b"node \xff"), "not UTF-8 at byte 5"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    ],
    ids=["missing", "directory", "not utf-8", "unreadable"],
)
def test_a_file_that_cannot_be_read_is_named(files: Path, run: Run, make: Callable[[Path], object], why: str) -> None:
    make(files / "odd")
    for what, arguments in [
        ("schema file", ("schema", "check", "odd")),
        ("schema file", ("lint", "--schema", "odd", "--query", "films.gq")),
        ("query file", ("lint", "--schema", "films.pg", "--query", "odd")),
    ]:
        done = run(*arguments, "--json")
        text, document = done.stderr.splitlines()
        assert (done.code, done.stdout) == (1, "")
        assert text == f"Error: cannot read {what} 'odd': {why}"
        assert json.loads(document) == {"error": text.removeprefix("Error: "), "kind": "invalid_argument", "facts": {"path": "odd"}}


def test_lint_loads_no_engine(files: Path) -> None:
    program = "import sys\nfrom omnigraph.cli.main import run\nrun(sys.argv[1:])\nprint(*sys.modules)"
    command = [sys.executable, "-c", program, "lint", "--schema", "films.pg", "--query", "films.gq"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "omnigraph.plan.lint" in done.stdout.split()
    assert {"lance", "pyarrow", "obstore", "pyspark", "numpy", "scipy"}.isdisjoint(done.stdout.split())


def test_every_file_is_checked(files: Path, run: Run) -> None:
    (files / "one.gq").write_text(GOOD)
    (files / "two.gq").write_text(BROKEN)
    for order in (("one.gq", "two.gq"), ("two.gq", "one.gq")):
        done = run("lint", "--schema", "films.pg", *(word for name in order for word in ("--query", name)))
        assert done.code == 1
        assert [line for line in done.stdout.splitlines() if line.startswith("FILE")] == [f"FILE  {name}" for name in order]
        assert "query `by_year`" in done.stdout
        assert "two.gq:1:46" in done.stderr
    both = json.loads(run("lint", "--schema", "films.pg", "--query", "one.gq", "--query", "two.gq", "--json").stdout)
    assert (both["status"], [report["query_path"] for report in both["reports"]]) == ("error", ["one.gq", "two.gq"])


def test_queries_are_checked_against_the_schema_of_a_graph(files: Path, run: Run) -> None:
    og.init(files / "films.omni", schema=SCHEMA)
    done = run("lint", "films.omni", "--query", "films.gq", "--json")
    assert done.code == 1
    report = json.loads(done.stdout)
    assert report["schema_source"] == {"kind": "graph", "uri": "films.omni"}
    assert [result["status"] for result in report["results"]] == ["ok", "error", "ok"]
    assert run("lint", "--store", "films.omni", "--query", "films.gq", "--branch", "nope").code == 1
    both = run("lint", "films.omni", "--schema", "films.pg", "--query", "films.gq")
    assert both.code == 2
    assert "give --schema FILE, or a graph" in both.stderr
    assert "name its file with --schema FILE, or a graph" in run("lint", "--query", "films.gq").stderr
