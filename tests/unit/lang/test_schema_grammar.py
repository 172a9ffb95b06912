"""Each production of the schema language, and each way a schema can be refused by its text alone."""

from __future__ import annotations

import pytest

from omnigraph.errors import Kind, LanguageError
from omnigraph.lang import parse_schema
from omnigraph.lang.schema import (
    Annotation,
    Argument,
    Cardinality,
    Check,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Option,
    Property,
    Range,
    Schema,
    Unique,
)
from omnigraph.lang.tree import EnumType, ListType, Name, PropertyShape, Scalar, ScalarType, VectorType
from tests.unit.lang.texts import SCHEMA

STRING = ScalarType(Scalar.STRING)


def one(text: str) -> object:
    (declaration,) = parse_schema(text).declarations
    return declaration


def body(text: str) -> NodeType:
    node = one(f"node F {{ {text} }}")
    assert isinstance(node, NodeType)
    return node


def test_an_empty_text_is_an_empty_schema() -> None:
    assert parse_schema("  // nothing\n") == Schema()


def test_declarations_keep_their_order() -> None:
    assert [type(each).__name__ for each in parse_schema(SCHEMA).declarations] == [
        "InterfaceType", "NodeType", "NodeType", "NodeType", "EdgeType", "EdgeType", "EdgeType",
    ]  # fmt: skip


def test_interface() -> None:
    assert one("interface Titled { title: String }") == InterfaceType(Name("Titled"), (Property(Name("title"), STRING),))
    assert one("interface Empty {}") == InterfaceType(Name("Empty"))


def test_node_with_annotations_and_interfaces() -> None:
    assert one('node F @description("x") @pii implements A, B {}') == NodeType(
        Name("F"), (Annotation("description", Argument("x", quoted=True)), Annotation("pii")), (Name("A"), Name("B"))
    )


def test_edge_with_and_without_a_body() -> None:
    bare = EdgeType(Name("E"), Name("A"), Name("B"))
    assert one("edge E: A -> B") == bare
    assert one("edge E: A -> B {}") == bare
    assert one("edge E: A->B @card(0..2) @x { r: String? @unique(src, dst) }") == EdgeType(
        Name("E"),
        Name("A"),
        Name("B"),
        Cardinality(0, 2),
        (Annotation("x"),),
        (Property(Name("r"), STRING, nullable=True),),
        (Unique((Name("src"), Name("dst"))),),
    )


def test_an_open_cardinality() -> None:
    edge = one("edge E: A -> B @card(1..)")
    assert isinstance(edge, EdgeType)
    assert edge.cardinality == Cardinality(1, None)


@pytest.mark.parametrize("scalar", Scalar)
def test_scalar_types(scalar: Scalar) -> None:
    assert body(f"x: {scalar.value}").properties[0].shape == ScalarType(scalar)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("[I32]", ListType(Scalar.I32)),
        ("Vector(1)", VectorType(1)),
        ("Vector(2147483647)", VectorType(2**31 - 1)),
        ("enum(b, a)", EnumType(("b", "a"))),
        ("enum(sci-fi,2-d,3d,-,007,_x,Upper,true)", EnumType(("sci-fi", "2-d", "3d", "-", "007", "_x", "Upper", "true"))),
    ],
)
def test_other_types(text: str, shape: PropertyShape) -> None:
    assert body(f"x: {text}").properties[0] == Property(Name("x"), shape)
    assert body(f"x: {text} ?").properties[0] == Property(Name("x"), shape, nullable=True)


def test_properties_need_no_separator() -> None:
    assert [each.name.text for each in body("a:String b:I32? @x c:[F64]d:Bool").properties] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("word", ["node", "edge", "enum", "implements", "key", "true", "_", "_row_id"])
def test_keywords_are_names_too(word: str) -> None:
    assert body(f"{word}: String @key({word})").constraints == (Key((Name(word),)),)


@pytest.mark.parametrize(
    ("text", "annotation"),
    [
        ("@key", Annotation("key")),
        ("@default(3)", Annotation("default", Argument("3", quoted=False))),
        ('@default("3")', Annotation("default", Argument("3", quoted=True))),
        ("@default(1.50)", Annotation("default", Argument("1.50", quoted=False))),
        ("@default(true)", Annotation("default", Argument("true", quoted=False))),
        (
            '@embed(plot, model="m", n=2)',
            Annotation(
                "embed",
                Argument("plot", quoted=False),
                (Option(Name("model"), Argument("m", quoted=True)), Option(Name("n"), Argument("2", quoted=False))),
            ),
        ),
        ("@range", Annotation("range")),
    ],
)
def test_annotations(text: str, annotation: Annotation) -> None:
    assert body(f"x: String {text}").properties[0].annotations == (annotation,)


def test_a_constraint_name_with_a_parenthesis_is_never_an_annotation() -> None:
    node = body("email: String @unique (email)")
    assert node.properties[0].annotations == ()
    assert node.constraints == (Unique((Name("email"),)),)


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("@key(b, a, b)", Key((Name("b"), Name("a"), Name("b")))),
        ("@index(a)", Index((Name("a"),))),
        ("@range(a, 1..2)", Range(Name("a"), 1, 2)),
        ("@range(a, -1.5..)", Range(Name("a"), -1.5, None)),
        ("@range(a, ..- 2)", Range(Name("a"), None, -2)),
        ("@range(a, -9223372036854775808..18446744073709551615)", Range(Name("a"), -(2**63), 2**64 - 1)),
        (r'@check(a, "^\\d\"$")', Check(Name("a"), r"^\d" + '"$')),
    ],
)
def test_constraints(text: str, constraint: object) -> None:
    assert body(text).constraints == (constraint,)


def test_bounds_keep_the_kind_of_number() -> None:
    (constraint,) = body("@range(a, 1..2.0)").constraints
    assert isinstance(constraint, Range)
    assert (type(constraint.low), type(constraint.high)) == (int, float)


REFUSED = [
    # text with the offending place between « and », code, message, hint
    ("node «film» {}", "S01", "expected a node type name, found `film`", "type names start with a capital letter: `Film`"),
    ("«nod» Film {}", "S01", "expected `interface`, `node` or `edge`, found `nod`", "did you mean `node`?"),
    ("node Film «implement» A {}", "S01", "expected `{`, found `implement`", "did you mean `implements`?"),
    ("node Film implements A «B» {}", "S01", "expected `{`, found `B`", None),
    ("node Film implements «{»}", "S01", "expected an interface name, found `{`", None),
    ("node Film {«»", "S01", "expected a property or `}`, found the end of the text", None),
    ("node Film { «Title»: String }", "S01", "expected a property or `}`, found `Title`", "it starts with a lower-case letter: `title`"),
    ("node Film { a: String«,» b: I32 }", "S01", "expected a property or `}`, found `,`",
     "properties are separated by whitespace, not by commas"),
    ("node Film { a «String» }", "S01", "expected `:`, found `String`", "a property has a type: `title: String`"),
    ("node Film { a: «Strng» }", "S01", "expected a type, found `Strng`", "did you mean `String`?"),
    ("node Film { a: «string» }", "S01", "expected a type, found `string`", "did you mean `String`?"),
    ("node Film { a: [«[»I32]] }", "S01", "expected a type, found `[`", None),
    ("node Film { a: [«enum»(a)] }", "S01", "expected a type, found `enum`", None),
    ("node Film { a: [«Vector»(3)] }", "S01", "expected a type, found `Vector`", None),
    ("node Film { a: Vector «}»", "S01", "expected `(`, found `}`", "a vector has a dimension: `Vector(3)`"),
    ("node Film { a: «Vector(0)» }", "S06", "Vector dimension must be greater than zero", None),
    ("node Film { a: «Vector(2147483648)» }", "S06", "Vector dimension 2147483648 exceeds maximum supported 2147483647", None),
    ("node Film { a: «[Blob]» }", "S07", "list of Blob is not supported", None),
    ("node Film { a: enum(a, b, «a») }", "S08", "enum type cannot include duplicate values", None),
    ("node Film { a: enum(«)» }", "S01", "expected an enum value, found `)`", None),
    ('node Film { a: enum(«"x"») }', "S01", 'expected an enum value, found the string "x"', None),
    ("node Film { a: enum(1«.»5) }", "S01", "unexpected `.` in a word", None),
    ("node Film { a: enum(b «-» c) }", "S01", "expected `)`, found `-`", None),
    ("node Film { @range(a«)» }", "S17", "@range requires property name and bounds (min..max)", None),
    ("node Film { @range(a, «5») }", "S17", "expected range bounds (min..max) in @range constraint", None),
    ("node Film { @range(a, «b») }", "S17", "expected range bounds (min..max) in @range constraint", None),
    ("node Film { @range(a, 1..2«,» 3) }", "S17", "@range requires property name and bounds (min..max)", None),
    ("node Film { @range(a, ..«)» }", "S01", "expected a number, found `)`", None),
    ("node Film { @range(a, -«9223372036854775809»..) }", "S01",
     "invalid integer: 9223372036854775809 is greater than 9223372036854775808", None),
    ("node Film { @check(a, «5») }", "S18", "expected string argument in constraint", None),
    ("node Film { @check(a«)» }", "S18", "@check requires property name and pattern", None),
    ('node Film { @check(a, "x"«,» "y") }', "S18", "@check requires property name and pattern", None),
    ('node Film { @key(«"slug"») }', "S19", "expected property name in constraint", "name properties without quotes"),
    ("node Film { @unique(a, «1»..2) }", "S19", "expected property name in constraint", None),
    ("node Film { @key(«)» }", "S01", "expected a property name, found `)`", None),
    ("node Film { «@uniqe»(a) }", "S01", "expected a property or a constraint, found `@uniqe`", "did you mean `@unique`?"),
    ("node Film { a: I32 @uniqe(a, «b») }", "S01", "expected an option `key=literal`, found `b`", "did you mean `@unique`?"),
    ("node Film { a: I32 @default(«-»1) }", "S01", "expected a literal or a name, found `-`", None),
    ("node Film { a: I32 @rename_from(«Old») }", "S01", "expected a literal or a name, found `Old`", "write other values as a string"),
    ("node Film { a: I32 @x(a, b=«c») }", "S01", "expected a literal, found `c`", None),
    ("node Film { a: I32 @x(«)» }", "S01", "expected a literal or a name, found `)`", None),
    ("node Film «@key»(a) {}", "S01", "expected `{`, found `@key`", "`@key(..)` is a constraint and belongs inside the braces"),
    ("edge E: A -> B «@unique»(src)", "S01", "expected `{` or the next declaration, found `@unique`",
     "`@unique(..)` is a constraint and belongs inside the braces"),
    ("edge E: A -> B «@card(3..1)»", "S29", "cardinality min (3) exceeds max (1)", None),
    ("edge E: A -> B @card(3«)»", "S01", "expected `..`, found `)`", "a cardinality is a range: `@card(0..1)`, `@card(1..)`"),
    ("edge E: A -> B @x @card(0«..»1)", "S01", "expected `,` or `)`, found `..`",
     "`@card(..)` stands directly after the target type of an edge"),
    ("edge E «A» -> B", "S01", "expected `:`, found `A`", "an edge names its ends: `edge Knows: Person -> Person`"),
    ("edge E: A «-»- B", "S01", "expected `->`, found `-`", None),
    ("interface I { «@key»(a) }", "S01", "expected a property or `}`, found `@key`", "an interface holds properties only, no constraints"),
    ("interface I «@x» {}", "S01", "expected `{`, found `@x`", "an interface has no annotations and implements nothing"),
    ('node Film @x("a«\\q»")', "S01", "unsupported escape sequence: \\q", None),
    ('node Film @x(«"»a)', "S01", "unterminated string", None),
    ("node Film «/*» {}", "S01", "unterminated comment", None),
    ("node Film {«;»}", "S01", "unexpected character `;`", None),
    ("node Film @x(«99999999999999999999»)", "S01", "invalid integer: 99999999999999999999 is greater than 18446744073709551615", None),
    ("node Film { a: Vector(«9e9») }", "S01", "invalid number: 9e9", None),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "code", "message", "hint"), REFUSED)
def test_refusals(marked: str, code: str, message: str, hint: str | None) -> None:
    start, end = marked.index("«"), marked.index("»") - 1
    with pytest.raises(LanguageError) as caught:
        parse_schema(marked.replace("«", "").replace("»", ""), name="a.pg")
    error = caught.value
    assert (error.code, error.message) == (code, f"parse error: {message}")
    assert error.kind is Kind.SYNTAX
    assert error.span is not None
    assert (error.span.start, error.span.end) == (start, end)
    assert error.position == (1, start + 1)
    assert str(error).startswith(f"a.pg:1:{start + 1}: parse error: ")
    if hint is not None:
        assert error.hint == hint


def test_the_first_error_in_the_text_is_reported_even_before_a_bad_character() -> None:
    with pytest.raises(LanguageError, match="found `film`"):
        parse_schema("node film {} ;")


def test_a_number_of_many_digits_is_refused_and_not_converted() -> None:
    with pytest.raises(LanguageError, match=r"invalid integer: 9{40}\.\.\. is"):
        parse_schema(f"edge E: A -> B @card(0..{'9' * 10_000})")
    with pytest.raises(LanguageError, match="invalid float"):
        parse_schema(f"node A {{ @range(a, {'9' * 400}.0..) }}")
    assert one(f"edge E: A -> B @card({'0' * 5000}1..)") == EdgeType(Name("E"), Name("A"), Name("B"), Cardinality(1))
