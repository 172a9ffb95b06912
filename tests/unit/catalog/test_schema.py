"""What a schema means when it is right."""

from __future__ import annotations

import subprocess
import sys

import pytest

from omnigraph.catalog.model import Annotation, Cardinality, Check, Embed, Index, Key, NodeType, Range, Unique
from omnigraph.catalog.types import EnumOf, Plain, VectorOf
from omnigraph.lang.tree import Scalar
from tests.unit.catalog.schemas import CINEMA, catalog_of


def node_of(text: str) -> NodeType:
    """The only node type of a schema."""
    (node,) = catalog_of(text).nodes
    return node


def test_node_takes_over_interface_properties_with_their_annotations() -> None:
    node = node_of("interface Aged { born: I32? @index @pii } node Dog implements Aged { name: String @key }")
    born = node.property("born")
    assert [property_.name for property_ in node.properties] == ["born", "name"]
    assert born is not None
    assert born.inherited_from == ("Aged",)
    assert born.annotations == (Annotation("pii"),)
    assert node.indexes == (Index(("born",)),)
    assert node.implements == ("Aged",)


def test_redeclared_property_keeps_only_its_own_annotations() -> None:
    node = node_of('interface X { t: String @index @description("theirs") } node F implements X { t: String @unique }')
    title = node.property("t")
    assert title is not None
    assert title.inherited_from == ()
    assert title.description is None
    assert node.indexes == ()
    assert node.uniques == (Unique(("t",)),)


def test_equal_contributions_of_two_interfaces_are_one_property() -> None:
    node = node_of("interface X { t: enum(a, b) @index @pii } interface Y { t: enum(b, a) @pii @index } node F implements Y, X {}")
    (title,) = node.properties
    assert title.inherited_from == ("X", "Y")
    assert title.type == EnumOf(("a", "b"))


def test_annotations_and_body_constraints_mean_the_same() -> None:
    short = node_of("node F { a: String @key b: I32 @unique c: I32 @index }")
    long = node_of("node F { @key(a) @unique(b) @index(c) a: String b: I32 c: I32 }")
    assert short == long


def test_columns_are_sorted_and_stand_once() -> None:
    node = node_of("node F { b: I32 a: I32 @unique(b, a, b) @unique(a, b) @index(b, a) @key(b, a) }")
    assert node.key == Key(("a", "b"), declared=("b", "a"))
    assert node.uniques == (Unique(("a", "b")),)
    assert node.indexes == ()  # the key implies it


def test_ranges_checks_and_texts_are_kept() -> None:
    node = node_of(
        """node F @description("films") @instruction("ask first") @owner(team, since=2020) {
             y: I32 @description("year")  s: String  v: Vector(4) @embed(s, model="m")  w: Vector(4) @embed(s)
             @range(y, ..9.5) @range(y, -1..) @check(s, "^a")
           }"""
    )
    assert node.ranges == (Range("y", None, 9.5), Range("y", -1, None))
    assert node.checks == (Check("s", "^a"),)
    assert (node.description, node.instruction) == ("films", "ask first")
    assert node.annotations == (Annotation("owner", "team", (("since", "2020"),)),)
    vectors = [property_ for property_ in node.properties if isinstance(property_.type, VectorOf)]
    assert [property_.embed for property_ in vectors] == [Embed("s", "m"), Embed("s")]
    year = node.property("y")
    assert year is not None
    assert year.description == "year"


def test_rename_hints_leave_no_trace() -> None:
    assert node_of('node F @rename_from("G") { x: I32 @rename_from("y") }') == node_of("node F { x: I32 }")


@pytest.mark.parametrize(
    "text",
    [
        "node F { _row_id: String }",
        "node F { src: I32 dst: I32 from: I32 to: I32 }",
        "node F { x: [I32] @range(x, 1..2) }",
        'node F { x: [String] @check(x, "a") }',
        'node F { x: enum(a, b) @check(x, "a") }',
        "node F { x: [String] y: Vector(2) @unique(x) @unique(y) @index(x) }",
        "node F { x: Vector(2) @index }",
        "node F { x: I32 @range(x, 5..1) }",
        'node F { x: String @check(x, "(") }',
        "node F { x: I32 @default(3) }",
        "node A {} edge A: A -> A { @unique(src, dst) @index(dst) }",
        "interface A { x: I32 } node A { y: I32 }",
        "",
    ],
)
def test_schema_is_accepted(text: str) -> None:
    catalog_of(text)


def test_lookups() -> None:
    catalog = catalog_of(CINEMA)
    acted_in = catalog.edge_named("ActedIn")
    assert acted_in is not None
    assert {catalog.edge(name) for name in ("actedIn", "ActedIn", "actedin", "aCTEDIN")} == {acted_in}
    assert catalog.edge_named("actedIn") is None
    assert catalog.edge("knew") is None
    assert (acted_in.source, acted_in.target, acted_in.cardinality) == ("Person", "Film", Cardinality())
    assert catalog.node("film") is None
    assert catalog.node("Titled") is None
    assert "Titled" in {interface.name for interface in catalog.interfaces}
    film = catalog.node("Film")
    assert film is not None
    assert catalog.by_id(film.id) is film
    assert catalog.by_id(acted_in.id) is acted_in
    assert [edge.name for edge in catalog.edges_of("Person")] == ["ActedIn", "Directed", "Influenced"]
    votes = film.property("votes")
    assert votes is not None
    assert (votes.type, votes.nullable) == (Plain(Scalar.U64), True)
    assert film.property("id") is None


def test_order_of_declarations_means_nothing() -> None:
    text = "node A { y: I32 x: I32 } node B {} edge E: A -> B edge D: B -> A"
    turned = "edge D: B -> A edge E: A -> B node B {} node A { x: I32 y: I32 }"
    assert catalog_of(text) == catalog_of(turned)


def test_reading_a_schema_loads_no_pyarrow() -> None:
    code = "import sys, omnigraph.catalog, omnigraph.catalog.layout, omnigraph.catalog.types; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
