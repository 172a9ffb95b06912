"""What lint reports about a query file."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from omnigraph.plan.lint import LintReport, LintStatus, SchemaSource, lint
from tests.unit.catalog.schemas import catalog_of
from tests.unit.plan.cinema import cinema


def as_json(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def report(text: str) -> LintReport:
    return lint(text, cinema(), query_path="q.gq", schema_source=SchemaSource("file", path="s.pg"))


def test_file_that_does_not_parse() -> None:
    found = report("query q() { match { $f: Film { } } return { $f.slug } }")
    assert found.status is LintStatus.ERROR
    assert (found.queries_processed, found.errors, found.results) == (0, 1, ())
    (finding,) = found.findings
    assert (finding.code, finding.severity) == ("Q000", "error")
    assert finding.message.startswith("parse error: ")
    assert finding.message.endswith(" (line 1, column 32)")


def test_queries_too_large_to_plan_are_errors_like_others() -> None:
    deep = "not { " * 500 + "$f.year = 1" + " }" * 500
    assert [finding.code for finding in report(f"query q() {{ match {{ $f: Film {deep} }} return {{ $f }} }}").findings] == ["Q000"]
    wide = " ".join(["$_: Film"] * 200)
    (result,) = report(f"query q() {{ match {{ $f: Film {wide} }} return {{ $f }} }}").results
    assert result.error == "a query may have at most 100 variables, blocks and rankings"


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("q($a: I32, $b: I32?) { match { $f: Film  $f.year = $a } return { $f } }", ["parameter `$b` is declared and not used"]),
        ("q($a: I32) { match { $f: Film } return { $f } limit $a }", []),
        ("q($a: String) { match { $f: Film  not { $f.title = $a } } return { $f } }", []),
        (
            "q() { match { $f: Film  $p: Person } return { $f, $p } }",
            ["`$f` and `$p` are not linked: the match is a cross product, with a row for every pair"],
        ),
        ("q() { match { $f: Film  $p: Person  $p actedIn $f } return { $f, $p } }", []),
        ("q() { match { $f: Film  $p: Person  $p.born = $f.year } return { $f, $p } }", []),
        ("q() { match { $f: Film  $p: Person  not { $p actedIn $f } } return { $f, $p } }", []),
        ("q() { match { $p: Person  optional { $p actedIn $f } } return { $f, $p } }", []),
        (
            "q() { match { $p: Person  $p.born != 1950 } return { $p } }",
            ["`$p.born` may be null, and `!=` leaves such rows out; add `or $p.born is null` if they are meant"],
        ),
        ("q() { match { $p: Person  ($p.born != 1950 or $p.born is null) } return { $p } }", []),
        ('q() { match { $p: Person  $p.name != "Ada" } return { $p } }', []),
        (
            "q($n: String) { delete Person where born not in [1950] and name = $n }",
            ["`born` may be null, and `!=` leaves such rows out; add `or born is null` if they are meant"],
        ),
        (
            "q($n: String) { insert Person { name: $n, born: 1 } }",
            ["insert of `Person` replaces a node with the same key and sets `email` to null; `upsert` keeps them"],
        ),
        ("q($n: String) { upsert Person { name: $n, born: 1 } }", []),
    ],
)
def test_what_is_legal_and_probably_not_meant(text: str, warnings: list[str]) -> None:
    (result,) = report(f"query {text}").results
    assert result.error is None
    assert list(result.warnings) == warnings


def test_a_required_vector_that_nothing_computes() -> None:
    catalog = catalog_of("node Doc { name: String @key  text: String?  vec: Vector(2) @embed(text) }")
    text = "query q($n: String, $t: String) { create Doc { name: $n, text: $t } }"
    (result,) = lint(text, catalog, query_path="q.gq", schema_source=SchemaSource("file", path="s.pg")).results
    assert "leaves out the required vector `vec`" in result.warnings[0]


def test_every_query_is_checked_on_its_own() -> None:
    found = report(
        "query a() { match { $f: Film } return { $g.slug } }"
        "query b() { match { $f: Film } return { $f.slug } }"
        'query c() { insert Person { name: "Z" } delete Person where name = "Ada" }'
    )
    assert [result.status for result in found.results] == [LintStatus.ERROR, LintStatus.OK, LintStatus.ERROR]
    assert found.results[0].error == "type error: T6: variable `$g` is not bound"
    assert found.results[0].operation is None
    assert (found.errors, found.status) == (2, LintStatus.ERROR)


def test_nullable_properties_no_update_sets() -> None:
    found = report("query s($n: String, $b: I32) { update Person set { born: $b } where name = $n }")
    assert found.status is LintStatus.OK
    (finding,) = found.findings
    assert as_json(finding) == {
        "severity": "warning",
        "code": "L201",
        "message": "Person.email exists in schema but no update query sets it",
        "type_name": "Person",
        "property": "email",
        "query_names": ["s"],
    }
    assert (found.errors, found.warnings, found.infos) == (0, 1, 0)


def test_updates_are_taken_together_and_findings_sorted() -> None:
    found = report(
        "query t($n: String, $c: String) { update Studio set { city: $c } where name = $n }"
        "query b($s: String) { update Film set { rating: 1 } where slug = $s }"
        'query a($s: String) { update Film set { votes: 1, plot: "x" } where slug = $s }'
        'query bad() { update Film set { added_at: 5 } where slug = "x" }'
    )
    assert [(finding.property, finding.query_names) for finding in found.findings] == [
        ("added_at", ("a", "b")),
        ("genres", ("a", "b")),
        ("released", ("a", "b")),
        ("vec", ("a", "b")),
    ]


def test_mutation_without_parameters_and_its_operation() -> None:
    found = report('query z() { delete Person where name = "Ada" }')
    assert as_json(found) == {
        "status": "ok",
        "schema_source": {"kind": "file", "path": "s.pg"},
        "query_path": "q.gq",
        "queries_processed": 1,
        "errors": 0,
        "warnings": 1,
        "infos": 0,
        "results": [
            {
                "name": "z",
                "kind": "mutation",
                "status": "ok",
                "warnings": ["mutation declares no params; hardcoded mutations are easy to miss"],
                "operation": {
                    "result": [],
                    "reads": [
                        {"kind": "node", "type_name": "Person"},
                        {"kind": "edge", "type_name": "ActedIn"},
                        {"kind": "edge", "type_name": "Directed"},
                        {"kind": "edge", "type_name": "Influenced"},
                    ],
                    "writes": [
                        {"kind": "node", "type_name": "Person"},
                        {"kind": "edge", "type_name": "ActedIn"},
                        {"kind": "edge", "type_name": "Directed"},
                        {"kind": "edge", "type_name": "Influenced"},
                    ],
                },
            }
        ],
        "findings": [],
    }


def test_operation_of_a_read_names_columns_as_rows_do() -> None:
    found = report(
        "query r($q: String) { match { $p: Person  not { $p actedIn $f } } return { $p, $p.name, $p.born as b, $q, 1, now() } }"
        "query a() { match { $f: Film } return { $f.status, count($f), sum($f.votes), max($f.title) as t } }"
        'query v() { match { $f: Film } return { $f.vec, $f.genres, $f.votes, $f.rating, $f.released, bm25($f.plot, "x") } }'
    )
    results = [as_json(result.operation)["result"] for result in found.results]
    assert [(column["name"], column["kind"], column["nullable"]) for column in results[0]] == [
        ("p", "object", False),
        ("p.name", "string", False),
        ("b", "int", True),
        ("q", "string", False),
        ("1", "bigint", False),
        ("now()", "datetime", False),
    ]
    assert [(column["name"], column["kind"], column["nullable"]) for column in results[1]] == [
        ("f.status", "string", False),
        ("count(f)", "bigint", True),
        ("sum(f.votes)", "bigint", True),
        ("t", "string", True),
    ]
    assert results[2][:2] == [
        {"name": "f.vec", "kind": "vector", "nullable": True, "vector_dim": 3},
        {"name": "f.genres", "kind": "list", "nullable": True, "item_kind": "string"},
    ]
    assert [column["kind"] for column in results[2][2:]] == ["bigint", "float", "date", "float"]
    reads = found.results[0].operation
    assert reads is not None
    assert [(read.kind, read.type_name) for read in reads.reads] == [("node", "Film"), ("node", "Person"), ("edge", "ActedIn")]
    assert reads.writes == ()
