"""Every schema error: its code, its message, and the words it points at."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from omnigraph.catalog import build_catalog
from omnigraph.catalog.schema_codes import PARSER_CODES, SchemaCode
from omnigraph.errors import Kind, LanguageError
from omnigraph.lang import parse_schema
from tests.unit.catalog.schemas import counting


class Case(NamedTuple):
    code: str
    text: str
    message: str
    at: str | None = None


def properties(count: int, letter: str = "p") -> str:
    return " ".join(f"{letter}{number}: I32?" for number in range(count))


AB = "node A { x: String } node B { x: String } "

CASES = [
    Case("S01", "node film {}", "film"),
    Case("S01", "/" * 2 + "x" * 4_194_303, "the schema has 4194305 characters; at most 4194304 are allowed"),
    Case("S02", "node F implements Gone { t: String }", "node F implements unknown interface 'Gone'", "Gone"),
    Case(
        "S03",
        "interface X { t: String } node F implements X { t: I32 }",
        "node F property 't' has type I32 but interface X declares it as String",
        "t: I32",
    ),
    Case(
        "S03",
        "interface X { t: enum(a, b)? } node F implements X { t: enum(b, c)? }",
        "node F property 't' has type enum(b, c)? but interface X declares it as enum(a, b)?",
    ),
    Case("S03", "interface X { t: String } node F implements X { t: String? }", "has type String? but interface X declares it as String"),
    Case(
        "S04",
        "interface X { t: String } interface Y { t: I32 } node F implements X, Y {}",
        "interfaces contributing 'F.t' have incompatible property semantics",
        "t: I32",
    ),
    Case("S04", "interface X { t: String } interface Y { t: String @index } node F implements X, Y {}", "interfaces contributing 'F.t'"),
    Case("S05", "node F { _rowid: String }", "property name '_rowid' is reserved", "_rowid"),
    Case("S05", "interface F { _rowaddr: String }", "property name '_rowaddr' is reserved"),
    Case("S05", AB + "edge E: A -> B { _rowoffset: I32 }", "property name '_rowoffset' is reserved"),
    Case("S05", "node F { _row_created_at_version: I64 }", "property name '_row_created_at_version' is reserved"),
    Case("S05", "node F { _row_last_updated_at_version: I64 }", "property name '_row_last_updated_at_version' is reserved"),
    Case("S05", "node F { id: String }", "property name 'id' is reserved", "id"),
    Case("S05", AB + "edge E: A -> B { id: String }", "property name 'id' is reserved"),
    Case("S05", AB + "edge E: A -> B { src: String }", "property name 'src' is reserved"),
    Case("S05", AB + "edge E: A -> B { dst: String }", "property name 'dst' is reserved"),
    Case("S05", AB + "edge E: A -> B { from: String }", "property name 'from' is reserved"),
    Case("S05", AB + "edge E: A -> B { to: String }", "property name 'to' is reserved"),
    Case("S06", "node F { v: Vector(0) }", "Vector dimension must be greater than zero"),
    Case("S06", "node F { v: Vector(2147483648) }", "exceeds maximum supported"),
    Case("S07", "node F { b: [Blob] }", "list of Blob is not supported"),
    Case("S08", "node F { s: enum(a, a) }", "enum type cannot include duplicate values"),
    Case("S09", "node F { x: I32? @key }", "@key property F.x cannot be nullable", "x"),
    Case("S09", "node F { x: I32? y: I32 @key(y, x) }", "@key property F.x cannot be nullable"),
    Case("S10", "node F { x: [String] @key }", "@key is not supported on list property F.x", "@key"),
    Case("S10", "node F { x: [String] @unique }", "@unique is not supported on list property F.x"),
    Case("S10", "node F { x: [String] @index }", "@index is not supported on list property F.x"),
    Case("S10", "node F { x: [String] @embed(x) }", "@embed is not supported on list property F.x"),
    Case("S10", "node F { x: [String] @key(x) }", "@key is not supported on list property F.x", "x"),
    Case("S11", "node F { x: Vector(2) @key }", "@key is not supported on vector property F.x"),
    Case("S11", "node F { x: Vector(2) @unique }", "@unique is not supported on vector property F.x"),
    Case("S11", "node F { x: Vector(2) @key(x) }", "@key is not supported on vector property F.x"),
    Case("S12", "node F { x: Blob @unique }", "@unique is not supported on blob property F.x", "@unique"),
    Case("S12", "node F { x: Blob @key(x) }", "@key is not supported on blob property F.x"),
    Case("S12", "node F { x: Blob @unique(x) }", "@unique is not supported on blob property F.x"),
    Case("S12", "node F { x: Blob @index(x) }", "@index is not supported on blob property F.x"),
    Case("S12", "node F { s: String x: Blob @embed(s) }", "@embed is not supported on blob property F.x"),
    Case("S12", AB + "edge E: A -> B { x: Blob @unique(src, x) }", "@unique is not supported on blob property E.x"),
    Case("S13", "node F { x: I32 @key y: I32 @key }", "node type F has multiple @key constraints; only one is supported"),
    Case("S13", "node F { x: I32 @key @key(x) }", "node type F has multiple @key constraints; only one is supported", "@key(x)"),
    Case("S13", "interface X { a: I32 @key } node F implements X { b: I32 @key }", "node type F has multiple @key constraints"),
    Case("S13", "interface X { a: I32 @key b: I32 @key }", "interface type X has multiple @key constraints"),
    Case("S14", "node F { x: I32 @unique(zz) }", "@unique on F references unknown property 'zz'", "zz"),
    Case("S14", "node F { x: I32 @key(zz) }", "@key on F references unknown property 'zz'"),
    Case("S14", "node F { x: I32 @index(src) }", "@index on F references unknown property 'src'"),
    Case("S14", "node F { x: I32 @range(zz, 1..) }", "@range on F references unknown property 'zz'"),
    Case("S14", 'node F { x: I32 @check(zz, "a") }', "@check on F references unknown property 'zz'"),
    Case("S15", "node F { title: String @range(title, 1..2) }", "@range on F.title requires a numeric type, got String", "title"),
    Case("S15", "node F { v: Vector(2) @range(v, 1..2) }", "@range on F.v requires a numeric type, got Vector(2)"),
    Case("S16", 'node F { year: I32 @check(year, "x") }', "@check on F.year requires String type, got I32"),
    Case("S17", "node F { year: I32 @range(year) }", "@range requires property name and bounds"),
    Case("S17", "node F { year: I32 @range(year, 5) }", "expected range bounds (min..max)"),
    Case("S18", "node F { slug: String @check(slug, 5) }", "expected string argument in constraint"),
    Case("S19", 'node F { slug: String @key("slug") }', "expected property name in constraint"),
    Case("S20", AB + "edge E: A -> B { x: I32 @key(x) }", "@key constraint is not supported on edges (edge E)", "@key(x)"),
    Case("S20", AB + "edge E: A -> B { x: I32 @range(x, 1..) }", "@range constraint is not supported on edges (edge E)"),
    Case("S20", AB + 'edge E: A -> B { x: String @check(x, "a") }', "@check constraint is not supported on edges (edge E)"),
    Case("S21", AB + "edge E: A -> B { x: I32 @key }", "@key is not supported on edge properties (edge E.x)", "@key"),
    Case("S21", AB + "edge E: A -> B { s: String x: Vector(2) @embed(s) }", "@embed is not supported on edge properties (edge E.x)"),
    Case("S22", "node F @unique { x: I32 }", "@unique is only supported on node properties or as body constraint (node F)", "@unique"),
    Case("S22", "node F @embed(x) { x: String }", "@embed is only supported on node properties (node F)"),
    Case("S23", AB + "edge E: A -> B @index", "@index is not supported on edges (edge E)", "@index"),
    Case("S24", "node F { x: I32 @unique @unique }", "property F.x declares @unique multiple times"),
    Case("S24", "node F { s: String v: Vector(2) @embed(s) @embed(s) }", "property F.v declares @embed multiple times"),
    Case("S25", "node F { v: Vector(2) @embed }", "@embed on F.v requires a source property name", "@embed"),
    Case("S25", 'node F { v: Vector(2) @embed(" ") }', "@embed on F.v requires a source property name"),
    Case("S25", "node F { s: String v: String @embed(s) }", "@embed is only supported on vector properties (F.v)"),
    Case("S25", "node F { v: Vector(2) @embed(x) }", "@embed on F.v references unknown source property x", "x"),
    Case("S25", "node F { x: I32 v: Vector(2) @embed(x) }", "@embed source property F.x must be String"),
    Case("S25", "node F { x: [String] v: Vector(2) @embed(x) }", "@embed source property F.x must be String"),
    Case(
        "S25",
        "node F { x: String v: Vector(2) @embed(x, dim=2) }",
        "@embed on F.v has unknown argument 'dim=' (only 'model' is supported)",
        "dim=2",
    ),
    Case("S25", 'node F { x: String v: Vector(2) @embed(x, model="a", model="b") }', "declares 'model' multiple times", 'model="b"'),
    Case("S26", 'node F @description("a") @description("b") {}', "node F declares @description multiple times", '@description("b")'),
    Case("S26", 'node F @description("  ") {}', "@description on node F requires a non-empty value"),
    Case("S26", AB + "edge E: A -> B @instruction", "@instruction on edge E requires a non-empty value"),
    Case("S26", 'node F { x: I32 @description("") }', "@description on property F.x requires a non-empty value"),
    Case("S27", 'node F { x: I32 @instruction("a") }', "@instruction is only supported on node and edge types (property F.x)"),
    Case("S28", 'node F @rename_from("A") @rename_from("B") {}', "node F declares @rename_from multiple times"),
    Case("S28", "node F @rename_from {}", "@rename_from on node F requires exactly one non-empty positional value"),
    Case("S28", 'node F { x: I32 @rename_from("y", z=1) }', "@rename_from on property F.x does not accept keyword arguments", "z=1"),
    Case("S28", 'interface F { x: I32 @rename_from("") }', "@rename_from on property F.x requires exactly one non-empty positional value"),
    Case("S29", AB + "edge E: A -> B @card(3..1)", "cardinality min (3) exceeds max (1)"),
    Case("S30", "node F {} node F {}", "duplicate node 'F'", "F"),
    Case("S30", AB + "edge E: A -> B edge E: B -> A", "duplicate edge 'E'"),
    Case("S30", "interface X {} interface X {}", "duplicate interface 'X'"),
    Case("S30", "node F { x: I32 x: I32 }", "duplicate property 'F.x'"),
    Case("S31", AB + "edge E: X -> B", "edge E references unknown source type: X", "X"),
    Case("S31", AB + "edge E: A -> X", "edge E references unknown target type: X"),
    Case("S31", AB + "interface T {} edge E: A -> T", "edge E references unknown target type: T"),
    Case("S32", AB + "edge Knows: A -> B edge KNOWS: A -> B", "edge name collision after case folding: 'Knows' and 'KNOWS'", "KNOWS"),
    Case("S33", "node F {} " * 1001, "the schema has 1001 types; at most 1000 are allowed", "F"),
    Case("S33", f"node A {{}} node F {{ {properties(1001)} }}", "node F has 1001 properties; at most 1000 are allowed", "F"),
    Case("S33", f"interface I {{ {properties(600)} }} node F implements I {{ {properties(401, 'q')} }}", "node F has 1001 properties", "F"),
    Case(
        "S33",
        f"interface I {{ {properties(1000)} }} " + " ".join(f"node N{n} implements I {{}}" for n in range(900)),
        "the schema up to node N19 has 21000 properties; at most 20000 are allowed",
        "N19",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.text[:80]}")
def test_schema_is_refused(case: Case) -> None:
    with pytest.raises(LanguageError) as caught:
        build_catalog(parse_schema(case.text), mint=counting())
    error = caught.value
    assert error.code == case.code
    assert case.message in error.message
    if case.code not in PARSER_CODES:
        assert error.kind is Kind.SCHEMA
        assert error.message.startswith("catalog error: ")
    assert error.span is not None
    assert error.span.end > error.span.start
    if case.at is not None:
        assert case.text[error.span.start : error.span.end] == case.at


def test_every_code_is_declared_and_has_a_case() -> None:
    declared = {code.value for code in SchemaCode} | PARSER_CODES
    assert declared == {f"S{number:02}" for number in range(1, 34)}
    assert {case.code for case in CASES} == declared


def test_interfaces_are_checked_before_annotations_before_constraints_before_the_whole() -> None:
    faults = [
        ("S02", "node A implements Gone {}"),
        ("S24", "node B { x: I32 @unique @unique }"),
        ("S14", "node C { @key(zz) }"),
        ("S31", "edge E: Nobody -> Nobody"),
    ]
    while faults:
        text = " ".join(part for _, part in reversed(faults))
        with pytest.raises(LanguageError) as caught:
            build_catalog(parse_schema(text), mint=counting())
        assert caught.value.code == faults.pop(0)[0]
