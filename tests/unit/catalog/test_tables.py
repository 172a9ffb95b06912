"""Types -> Arrow, tables and index intents."""

from __future__ import annotations

import pyarrow as pa
import pytest

from omnigraph.catalog.layout import PROPERTY_MARK, IndexKind, index_intents, table_schema
from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.catalog.types import display
from tests.unit.catalog.schemas import CINEMA, catalog_of

ITEM = pa.field("item", pa.float32(), nullable=True)
TYPES = [
    ("String", pa.string()),
    ("Bool", pa.bool_()),
    ("I32", pa.int32()),
    ("I64", pa.int64()),
    ("U32", pa.uint32()),
    ("U64", pa.uint64()),
    ("F32", pa.float32()),
    ("F64", pa.float64()),
    ("Date", pa.date32()),
    ("DateTime", pa.date64()),
    ("Blob", pa.large_binary()),
    ("Vector(3)", pa.list_(ITEM, 3)),
    ("[F32]", pa.list_(ITEM)),
    ("[Date]", pa.list_(pa.field("item", pa.date32(), nullable=True))),
    ("enum(a, b)", pa.string()),
]


@pytest.mark.parametrize(("written", "arrow"), TYPES, ids=[written for written, _ in TYPES])
@pytest.mark.parametrize("mark", ["", "?"])
def test_type_has_its_column_and_its_name(written: str, arrow: pa.DataType, mark: str) -> None:
    (node,) = catalog_of(f"node F {{ x: {written}{mark} }}").nodes
    (property_,) = node.properties
    field = table_schema(node).field("x")
    assert field.type.equals(arrow, check_metadata=True)
    assert field.nullable is bool(mark)
    assert display(property_.type, nullable=property_.nullable) == written + mark


def test_enum_is_displayed_sorted() -> None:
    (node,) = catalog_of("node F { x: enum(b, a) }").nodes
    assert display(node.properties[0].type) == "enum(a, b)"


def entity(text: str) -> EntityType:
    catalog = catalog_of(text)
    found: NodeType | EdgeType = catalog.edges[0] if catalog.edges else catalog.nodes[0]
    return found


def test_node_table_is_id_then_properties_by_name() -> None:
    film = catalog_of(CINEMA).node("Film")
    assert film is not None
    schema = table_schema(film)
    assert schema.names == [
        "id", "added_at", "genres", "plot", "rating", "released", "slug", "status", "title", "vec", "votes", "year",
    ]  # fmt: skip
    assert schema.field("id") == pa.field("id", pa.string(), nullable=False)
    marks = {field.name: field.metadata[PROPERTY_MARK].decode() for field in schema if field.metadata}
    assert marks == {property_.name: property_.id for property_ in film.properties}


def test_edge_table_is_id_and_ends_then_properties_by_name() -> None:
    schema = table_schema(entity("node A {} edge E: A -> A { w: F32? b: Bool }"))
    assert schema.names == ["id", "src", "dst", "b", "w"]
    assert [schema.field(name).nullable for name in schema.names] == [False, False, False, False, True]


INTENTS = [
    ("node F { x: enum(a) @index }", {"x": ["btree"]}),
    ("node F { x: I32 @index }", {"x": ["btree"]}),
    ("node F { x: Bool @key }", {"x": ["btree"]}),
    ("node F { x: DateTime @index }", {"x": ["btree"]}),
    ("node F { x: String @index }", {"x": ["full_text", "btree"]}),
    ("node F { x: String @key }", {"x": ["full_text", "btree"]}),
    ("node F { x: String @unique }", {"x": ["btree"]}),
    ("node F { x: String @unique @index }", {"x": ["full_text", "btree"]}),
    ("node F { x: String y: I32 @key(x, y) }", {"x": ["btree"], "y": ["btree"]}),
    ("node F { x: String y: I32 @key(x, y) @index(x) }", {"x": ["full_text", "btree"], "y": ["btree"]}),
    ("node F { x: Vector(2) @index }", {"x": ["vector"]}),
    ("node F { x: [String] y: Vector(2) @unique(x, y) @index(x) }", {}),
    ("node F { x: String }", {}),
    ("node A {} edge E: A -> A { x: I32 @index y: String @unique(src, y) @index(dst) }", {"x": ["btree"], "y": ["btree"]}),
]


@pytest.mark.parametrize(("text", "expected"), INTENTS, ids=[text for text, _ in INTENTS])
def test_indexes_wanted(text: str, expected: dict[str, list[str]]) -> None:
    type_ = entity(text)
    found: dict[str, list[str]] = {}
    for intent in index_intents(type_):
        if intent.property is None:
            assert intent.kind is IndexKind.BTREE
        else:
            found.setdefault(intent.column, []).append(intent.kind)
    assert found == expected
    always = ["id"] if isinstance(type_, NodeType) else ["id", "src", "dst"]
    assert [intent.column for intent in index_intents(type_) if intent.property is None] == always
