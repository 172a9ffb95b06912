"""Identities: minted once, carried through renames, stored and read back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import Catalog, decode, encode
from omnigraph.catalog.evolve import SchemaPlan, plan_schema
from omnigraph.catalog.model import Key
from omnigraph.errors import FormatError, Kind, LanguageError, StorageError
from omnigraph.lang import parse_schema
from tests.unit.catalog.schemas import CINEMA, catalog_of, counting

FRESH = 0x1000


def evolved(accepted: Catalog, text: str) -> Catalog:
    return plan_schema(accepted, parse_schema(text), mint=counting(FRESH)).catalog


def ids_of(catalog: Catalog) -> list[str]:
    types = (*catalog.interfaces, *catalog.nodes, *catalog.edges)
    return [id_ for type_ in types for id_ in (type_.id, *(property_.id for property_ in type_.properties))]


def test_ids_are_minted_once_each_in_the_order_of_the_stored_form() -> None:
    ids = ids_of(catalog_of(CINEMA))
    assert ids == [f"{number:016x}" for number in range(len(ids))]


def test_first_schema_ignores_rename_hints() -> None:
    hinted = catalog_of('node F @rename_from("Gone") { x: I32 @rename_from("gone") }')
    assert ids_of(hinted) == ids_of(catalog_of("node F { x: I32 }"))


def test_only_what_is_new_is_minted() -> None:
    accepted = catalog_of("node F { x: I32 }")
    catalog = evolved(accepted, "node F { x: I32 y: I32? } node G {}")
    assert ids_of(catalog) == [*ids_of(accepted), f"{FRESH:016x}", f"{FRESH + 1:016x}"]


def test_dropped_and_added_again_is_something_new() -> None:
    accepted = catalog_of("node F { x: I32? } node G {}")
    without = evolved(accepted, "node F {}")
    again = evolved(without, "node F { x: I32? } node G {}")
    assert set(ids_of(accepted)) & set(ids_of(again)) == set(ids_of(without))


def test_crossing_renames_keep_the_order_of_a_key() -> None:
    accepted = catalog_of("node F { a: String b: I32 @key(b, a) }")
    catalog = evolved(accepted, 'node F { y: String @rename_from("a") x: I32 @rename_from("b") @key(x, y) }')
    assert catalog.nodes[0].key == Key(("y", "x"), declared=("x", "y"))
    assert decode(encode(catalog)) == catalog
    once_more = evolved(catalog, 'node F { y: String c: I32 @rename_from("x") @key(c, y) }')
    assert once_more.nodes[0].key == Key(("y", "c"), declared=("c", "y"))


HINTS = [
    ("node F {}", 'node G @rename_from("H") {} node F {}', 'node G declares @rename_from("H") but no accepted declaration has that name'),
    ("node F { x: I32 }", 'node F { x: I32 z: I32? @rename_from("y") }', 'F.z declares @rename_from("y") but no accepted declaration'),
    ("node F {}", 'node F {} edge E: F -> F @rename_from("F")', "a rename keeps the kind"),
    ("interface T { x: I32 }", 'node F @rename_from("T") {}', "that is an interface, and a rename keeps the kind"),
    (
        "node F { x: I32 } node G {}",
        'node F { x: I32 } node G { y: I32? @rename_from("x") }',
        "belongs to node F, and a rename keeps the owner",
    ),
    ("node F { x: I32 }", 'node F { x: I32 } node G { y: I32 @rename_from("x") }', "node G is new and cannot take a property over"),
    ("node F {}", 'node G @rename_from("F") {} node H @rename_from("F") {}', "node G already is that declaration"),
    ("node F {}", 'node F {} node H @rename_from("F") {}', "node F already is that declaration"),
    ("node F { x: I32? }", 'node F { y: I32? @rename_from("x") z: I32? @rename_from("x") }', "property F.y already is that declaration"),
]


@pytest.mark.parametrize(("before", "after", "message"), HINTS, ids=[after for _, after, _ in HINTS])
def test_hint_that_names_nothing_usable_is_refused(before: str, after: str, message: str) -> None:
    with pytest.raises(LanguageError) as caught:
        evolved(catalog_of(before), after)
    error = caught.value
    assert message in error.message
    assert (error.kind, error.code) == (Kind.SCHEMA, "S28")
    assert error.span is not None
    assert after[error.span.start :].startswith("@rename_from")


def test_inherited_hint_does_not_take_a_nodes_own_property() -> None:
    accepted = catalog_of("interface T { x: I32? } node F implements T { x: I32? }")
    catalog = evolved(accepted, 'interface T { y: I32? @rename_from("x") } node F implements T { x: I32? }')
    was, own = accepted.nodes[0].property("x"), catalog.nodes[0].property("x")
    assert was is not None
    assert own is not None
    assert own.id == was.id


names = st.lists(st.sampled_from([f"p{letter}" for letter in "abcdefgh"]), min_size=2, max_size=5, unique=True)


@settings(deadline=None, max_examples=60)
@given(names, st.data())
def test_identity_survives_any_renaming(before: list[str], data: st.DataObject) -> None:
    """Renames to names that no accepted property has, whatever the order of both."""
    free = [f"q{letter}" for letter in "abcdefgh"]
    renamed = data.draw(st.permutations(free)) if data.draw(st.booleans()) else before
    after = dict(zip(before, renamed, strict=False))
    keys = data.draw(st.lists(st.sampled_from(before), min_size=1, unique=True))
    accepted = catalog_of(f"node F {{ {' '.join(f'{name}: String' for name in before)} @key({', '.join(keys)}) }}")
    hints = [f'{after[name]}: String @rename_from("{name}")' for name in data.draw(st.permutations(before))]
    text = f'node G @rename_from("F") {{ {" ".join(hints)} @key({", ".join(after[name] for name in reversed(keys))}) }}'
    plan, catalog = plan_schema(accepted, parse_schema(text), mint=counting(FRESH))
    assert plan.supported
    (old,), (new,) = accepted.nodes, catalog.nodes
    assert new.id == old.id
    assert {property_.name: property_.id for property_ in new.properties} == {after[p.name]: p.id for p in old.properties}
    assert old.key is not None
    assert new.key is not None
    assert new.key.columns == tuple(after[name] for name in old.key.columns)
    assert new.key.in_declared_order == tuple(after[name] for name in reversed(keys))


scalars = st.sampled_from(["String", "I32", "U64?", "[F32]?", "Vector(3)?", "enum(b, a)", "Date", "Blob?", "Bool"])
texts = st.text("aé\"\\\n'", min_size=1, max_size=4).map(lambda text: "x" + text.replace("\\", "\\\\").replace('"', '\\"'))


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """Some nodes with plain properties, texts and unknown annotations, an interface, and edges among them."""
    lines = [f"interface T {{ shared: {draw(scalars)} }}"]
    nodes = draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))
    for node in nodes:
        properties = draw(st.dictionaries(st.sampled_from(["a", "b", "c"]), scalars))
        body = [f'{name}: {type_} @description("{draw(texts)}") @note({draw(st.integers(0, 9))})' for name, type_ in properties.items()]
        implements = " implements T" if draw(st.booleans()) else ""
        extra = draw(st.sampled_from(["", "k: String @key", "n: I32 @index @range(n, -1.5..)", 's: String @unique @check(s, "^a")']))
        lines.append(f"node {node}{implements} {{ {' '.join(body)} {extra} }}")
    ends = st.sampled_from(nodes)
    for edge in draw(st.lists(st.sampled_from(["Knows", "Likes"]), unique=True)):
        lines.append(f"edge {edge}: {draw(ends)} -> {draw(ends)} @card({draw(st.integers(0, 3))}..) {{ @unique(dst, src) }}")
    return "\n".join(draw(st.permutations(lines)))


@settings(deadline=None, max_examples=60)
@given(schemas())
def test_stored_form_is_read_back_as_it_was(text: str) -> None:
    catalog = catalog_of(text)
    stored = encode(catalog)
    assert decode(stored) == catalog
    assert encode(decode(stored)) == stored


@settings(deadline=None, max_examples=60)
@given(schemas())
def test_layout_is_no_change_and_identity_is_one(text: str) -> None:
    accepted = catalog_of(text)
    layout = "// words\n" + text.replace("{", "{ /* more */\n")
    assert plan_schema(accepted, parse_schema(layout), mint=counting(FRESH)).plan.steps == ()
    assert encode(evolved(accepted, layout)) == encode(accepted)
    assert encode(catalog_of(text, start=1)) != encode(accepted)


@settings(deadline=None, max_examples=60)
@given(schemas(), schemas())
def test_a_plan_leads_to_what_was_wanted(before: str, after: str) -> None:
    accepted = catalog_of(before)
    plan, catalog = plan_schema(accepted, parse_schema(after), mint=counting(FRESH))
    assert (plan.steps == ()) == (encode(catalog) == encode(accepted))
    assert len(set(ids_of(catalog))) == len(ids_of(catalog))
    assert plan_schema(catalog, parse_schema(after), mint=counting(2 * FRESH)) == (SchemaPlan(supported=True, steps=()), catalog)


def test_stored_form_of_today_is_read_for_ever() -> None:
    """These bytes are on disks. A change of them needs a new format number."""
    catalog = catalog_of('node F { a: String @key v: Vector(2)? @embed(a, model="m") } edge E: F -> F @card(0..1)')
    assert encode(catalog).decode() == (
        '{"format":1,"catalog":{"nodes":[{"name":"F","id":"0000000000000000","properties":['
        '{"name":"a","type":{"is":"scalar","scalar":"String"},"nullable":false,"id":"0000000000000001"},'
        '{"name":"v","type":{"is":"vector","dimension":2},"nullable":true,"id":"0000000000000002","embed":{"source":"a","model":"m"}}],'
        '"key":{"columns":["a"]}}],'
        '"edges":[{"name":"E","id":"0000000000000003","source":"F","target":"F","cardinality":{"high":1}}]}}'
    )


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (b'{"format":2,"catalog":{"else":1}}', Kind.FORMAT_NEWER),
        (b'{"format":0}', Kind.FORMAT_OLDER),
    ],
)
def test_stored_form_of_another_release_is_refused(stored: bytes, kind: Kind) -> None:
    with pytest.raises(FormatError) as caught:
        decode(stored)
    assert caught.value.kind is kind


@pytest.mark.parametrize("stored", [b'{"format":1,"catalog":{"nodes":[{}]}}', b"{", b"\xff", b""])
def test_bytes_that_are_no_stored_form_are_refused(stored: bytes) -> None:
    with pytest.raises(StorageError) as caught:
        decode(stored)
    assert caught.value.kind is Kind.CORRUPT


@pytest.mark.parametrize("bounds", ["0..18446744073709551615", "-9223372036854775808..", "..0.1", "-0.0..2.0"])
def test_bounds_are_stored_exactly(bounds: str) -> None:
    catalog = catalog_of(f"node F {{ x: F64 @range(x, {bounds}) }}")
    assert decode(encode(catalog)) == catalog
