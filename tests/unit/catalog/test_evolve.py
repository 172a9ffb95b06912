"""Every step and every refusal between two schemas, in the form the command line and the server show."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import msgspec
import pytest

from omnigraph.catalog import encode
from omnigraph.catalog.evolve import Evolution, SchemaPlan, Step, describe, plan_schema
from omnigraph.catalog.evolve.steps import MigrationCode, UnsupportedChange
from omnigraph.lang import parse_schema
from tests.unit.catalog.schemas import CINEMA, catalog_of, counting

FRESH = 0x1000
"""Where ids minted by a plan begin, so that they can be told from accepted ones."""
REFUSED = "is not supported in schema migration v1"


def evolve(before: str, after: str, *, allow_data_loss: bool = False) -> Evolution:
    return plan_schema(catalog_of(before), parse_schema(after), mint=counting(FRESH), allow_data_loss=allow_data_loss)


def steps_of(plan: SchemaPlan) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(plan))["steps"]
    return shown


class Case(NamedTuple):
    name: str
    before: str
    after: str
    steps: list[dict[str, Any]]


def step(kind: str, **fields: object) -> dict[str, Any]:
    return {"kind": kind, **{name.rstrip("_"): value for name, value in fields.items()}}


def refused(entity: str, doing: str, code: str | None = None) -> dict[str, Any]:
    return step("unsupported_change", entity=entity, reason=f"{doing} {REFUSED}") | ({"code": code} if code else {})


def form(scalar: object, *, nullable: bool = True, list_: bool = False, enum_values: list[str] | None = None) -> dict[str, Any]:
    return {"scalar": scalar, "nullable": nullable, "list": list_, "enum_values": enum_values}


def add(name: str, property_type: dict[str, Any]) -> dict[str, Any]:
    return step("add_property", type_kind="node", type_name="F", property_name=name, property_type=property_type)


F = "node F { x: I32? s: String? } "
E = "node F {} node G {} edge E: F -> G "

SUPPORTED = [
    Case("nothing", CINEMA, "// a comment\n" + CINEMA, []),
    Case(
        "new types",
        "",
        "edge E: F -> F node F { x: I32 @key @unique(x) } interface T { y: I32 }",
        [
            step("add_type", type_kind="interface", name="T"),
            step("add_type", type_kind="node", name="F"),
            step("add_type", type_kind="edge", name="E"),
        ],
    ),
    Case(
        "renamed node",
        "node F { x: I32 }",
        'node G @rename_from("F") { x: I32 }',
        [step("rename_type", type_kind="node", from_="F", to="G")],
    ),
    Case(
        "renamed node under an edge",
        E,
        'node H @rename_from("F") {} node G {} edge E: H -> G',
        [step("rename_type", type_kind="node", from_="F", to="H")],
    ),
    Case(
        "renamed edge",
        E,
        'node F {} node G {} edge D: F -> G @rename_from("E")',
        [step("rename_type", type_kind="edge", from_="E", to="D")],
    ),
    Case(
        "edge in another case",
        "node F {} edge Knows: F -> F",
        'node F {} edge KNOWS: F -> F @rename_from("Knows")',
        [step("rename_type", type_kind="edge", from_="Knows", to="KNOWS")],
    ),
    Case(
        "new nullable properties",
        "node F {}",
        "node F { a: String? b: [I32]? c: Vector(3)? d: enum(v, u)? }",
        [
            add("a", form("String")),
            add("b", form("I32", list_=True)),
            add("c", form({"Vector": 3})),
            add("d", form("String", enum_values=["u", "v"])),
        ],
    ),
    Case(
        "new property of an interface",
        "interface T { x: I32 } node F implements T {}",
        "interface T { x: I32 y: I32? } node F implements T {}",
        [
            step("add_property", type_kind="interface", type_name="T", property_name="y", property_type=form("I32")),
            add("y", form("I32")),
        ],
    ),
    Case(
        "renamed property",
        "node F { x: I32 @key @range(x, 1..) }",
        'node F { y: I32 @key @rename_from("x") @range(y, 1..) }',
        [step("rename_property", type_kind="node", type_name="F", from_="x", to="y")],
    ),
    Case(
        "renamed property of a renamed type",
        "node F { x: I32 }",
        'node G @rename_from("F") { y: I32 @rename_from("x") }',
        [
            step("rename_type", type_kind="node", from_="F", to="G"),
            step("rename_property", type_kind="node", type_name="G", from_="x", to="y"),
        ],
    ),
    Case(
        "renamed property of an interface",
        "interface T { x: I32 @index } node F implements T {}",
        'interface T { y: I32 @index @rename_from("x") } node F implements T {} node N implements T {}',
        [
            step("rename_property", type_kind="interface", type_name="T", from_="x", to="y"),
            step("rename_property", type_kind="node", type_name="F", from_="x", to="y"),
            step("add_type", type_kind="node", name="N"),
        ],
    ),
    Case(
        "renamed source of an embedding",
        "node F { s: String v: Vector(2) @embed(s) }",
        'node F { t: String @rename_from("s") v: Vector(2) @embed(t) }',
        [step("rename_property", type_kind="node", type_name="F", from_="s", to="t")],
    ),
    Case(
        "new indexes",
        "node F { x: I32 y: I32 }",
        "node F { x: I32 @index y: I32 @index(y, x) }",
        [
            step("add_constraint", type_kind="node", type_name="F", constraint={"Index": ["x"]}),
            step("add_constraint", type_kind="node", type_name="F", constraint={"Index": ["x", "y"]}),
        ],
    ),
    Case(
        "new property with an index",
        "node F {}",
        "node F { plot: String? @index }",
        [add("plot", form("String")), step("add_constraint", type_kind="node", type_name="F", constraint={"Index": ["plot"]})],
    ),
    Case("index that the key implies", "node F { x: I32 @key }", "node F { x: I32 @key @index }", []),
    Case("constraint written the other way", "node F { x: I32 @key }", "node F { x: I32 @key(x) }", []),
    Case("bound written the other way", "node F { x: I32 @range(x, 1..2) }", "node F { x: I32 @range(x, 1.0..2.0) }", []),
    Case(
        "index on an end",
        E,
        E + "{ @index(src) }",
        [step("add_constraint", type_kind="edge", type_name="E", constraint={"Index": ["src"]})],
    ),
    Case(
        "longer enum",
        "node F { x: enum(b, a) }",
        'node F { y: enum(c, b, a, d) @rename_from("x") }',
        [
            step("rename_property", type_kind="node", type_name="F", from_="x", to="y"),
            step("extend_enum", type_kind="node", type_name="F", property_name="y", added_values=["c", "d"]),
        ],
    ),
    Case(
        "texts of types",
        'node F @description("a") {} edge E: F -> F @instruction("b")',
        'node F @description("c") @instruction("d") {} edge E: F -> F',
        [
            step(
                "update_type_metadata",
                type_kind="node",
                name="F",
                annotations=[{"name": "description", "value": "c"}, {"name": "instruction", "value": "d"}],
            ),
            step("update_type_metadata", type_kind="edge", name="E", annotations=[]),
        ],
    ),
    Case(
        "texts of properties",
        "node F { x: I32 }",
        'node F { x: I32 @description("a") }',
        [
            step(
                "update_property_metadata",
                type_kind="node",
                type_name="F",
                property_name="x",
                annotations=[{"name": "description", "value": "a"}],
            )
        ],
    ),
    Case(
        "dropped properties",
        F,
        "node F {}",
        [
            step("drop_property", type_kind="node", type_name="F", property_name="s", mode="soft"),
            step("drop_property", type_kind="node", type_name="F", property_name="x", mode="soft"),
        ],
    ),
    Case(
        "dropped types",
        E,
        "node F {}",
        [step("drop_type", type_kind="node", name="G", mode="soft"), step("drop_type", type_kind="edge", name="E", mode="soft")],
    ),
    Case("new interface", "node F {}", "interface T { x: I32 } node F {}", [step("add_type", type_kind="interface", name="T")]),
    Case("leftover hint", "node G { y: I32 }", 'node G @rename_from("F") { y: I32 @rename_from("x") }', []),
    Case(
        "leftover hint beside a new thing of the old name",
        "node G { y: I32 }",
        'node G @rename_from("F") { y: I32 @rename_from("x") x: I32? } node F {}',
        [
            step("add_type", type_kind="node", name="F"),
            step("add_property", type_kind="node", type_name="G", property_name="x", property_type=form("I32")),
        ],
    ),
]

CHANGED_TYPES = [
    ("I32", "I64"),
    ("I32", "[I32]"),
    ("I32", "I32?"),
    ("I32?", "I32"),
    ("Vector(2)", "Vector(3)"),
    ("enum(a, b)", "enum(a)"),
    ("enum(a, b)", "enum(a, c)"),
    ("enum(a)", "enum(a, b)?"),
    ("enum(a)", "String"),
    ("String", "enum(a)"),
]

UNSUPPORTED = [
    Case("required property", "node F {}", "node F { x: I32 }", [refused("node:F.x", "adding required property 'F.x'", "OG-MF-103")]),
    *(
        Case(
            f"{old} to {new}",
            f"node F {{ x: {old} }}",
            f"node F {{ x: {new} }}",
            [refused("node:F.x", "changing property type for 'F.x'", "OG-MF-106")],
        )
        for old, new in CHANGED_TYPES
    ),
    Case("new key", "node F { x: I32 }", "node F { x: I32 @key }", [refused("node:F.x", "adding @key on 'F.x'")]),
    Case("new key over an index", "node F { x: I32 @index }", "node F { x: I32 @key }", [refused("node:F.x", "adding @key on 'F.x'")]),
    Case("no key", "node F { x: I32 @key }", "node F { x: I32 }", [refused("node:F.x", "removing @key on 'F.x'")]),
    Case("new unique", F, "node F { x: I32? @unique s: String? }", [refused("node:F.x", "adding @unique on 'F.x'")]),
    Case(
        "other unique",
        F + "node G { a: I32 b: I32 c: I32 @unique(a, b) }",
        F + "node G { a: I32 b: I32 c: I32 @unique(a, c) }",
        [refused("node:G", "removing @unique(a, b) on 'G'"), refused("node:G", "adding @unique(a, c) on 'G'")],
    ),
    Case("no index", "node F { x: I32 @index }", "node F { x: I32 }", [refused("node:F.x", "removing @index on 'F.x'")]),
    Case("no index on an end", E + "{ @index(dst) }", E, [refused("edge:E", "removing @index(dst) on 'E'")]),
    Case("new range", "node F { x: I32 }", "node F { x: I32 @range(x, 1..) }", [refused("node:F.x", "adding @range on 'F.x'")]),
    Case(
        "other bounds",
        "node F { x: I32 @range(x, 1..) }",
        "node F { x: I32 @range(x, 1..2) }",
        [refused("node:F.x", "changing @range on 'F.x'")],
    ),
    Case(
        "other pattern",
        'node F { s: String @check(s, "a") }',
        'node F { s: String @check(s, "b") }',
        [refused("node:F.s", "changing @check on 'F.s'")],
    ),
    Case("no check", 'node F { s: String @check(s, "a") }', "node F { s: String }", [refused("node:F.s", "removing @check on 'F.s'")]),
    Case("other ends", E, "node F {} node G {} edge E: G -> F", [refused("edge:E", "changing the endpoints of 'E'")]),
    Case("other cardinality", E + "@card(0..2)", E + "@card(0..3)", [refused("edge:E", "changing the cardinality of 'E'")]),
    Case(
        "implements",
        "interface T { x: I32? } node F implements T {}",
        "interface T { x: I32? } node F { x: I32? }",
        [
            refused("node:F", "changing the interfaces of 'F'"),
            refused("node:F.x", "moving between direct and inherited declaration of 'F.x'"),
        ],
    ),
    Case(
        "declared where it was inherited",
        "interface T { x: I32? } node F implements T {}",
        "interface T { x: I32? } node F implements T { x: I32? }",
        [refused("node:F.x", "moving between direct and inherited declaration of 'F.x'")],
    ),
    Case("no interface", "interface T { x: I32 } node F {}", "node F {}", [refused("interface:T", "removing interface 'T'")]),
    Case(
        "other source of an embedding",
        "node F { s: String t: String v: Vector(2) @embed(s) }",
        "node F { s: String t: String v: Vector(2) @embed(t) }",
        [refused("node:F.v", "changing @embed for 'F.v'")],
    ),
    Case(
        "other model of an embedding",
        "node F { s: String v: Vector(2) @embed(s) }",
        'node F { s: String v: Vector(2) @embed(s, model="m") }',
        [refused("node:F.v", "changing @embed for 'F.v'")],
    ),
    Case(
        "other annotation of a property",
        "node F { x: I32 }",
        "node F { x: I32 @pii }",
        [refused("node:F.x", "changing annotations for 'F.x'")],
    ),
    Case("other annotation of a type", "node F @a(1) {}", "node F @a(2) {}", [refused("node:F", "changing annotations of 'F'")]),
    Case(
        "dropped property under a constraint",
        "node F { plot: String? @index }",
        "node F {}",
        [
            step("drop_property", type_kind="node", type_name="F", property_name="plot", mode="soft"),
            refused("node:F.plot", "removing @index on 'F.plot'"),
        ],
    ),
]


@pytest.mark.parametrize("case", SUPPORTED, ids=lambda case: case.name)
def test_supported_plan(case: Case) -> None:
    plan, catalog = evolve(case.before, case.after)
    assert steps_of(plan) == case.steps
    assert plan.supported
    again, same = plan_schema(catalog, parse_schema(case.after), mint=counting(FRESH * 2))
    assert again.steps == ()
    assert encode(same) == encode(catalog)


@pytest.mark.parametrize("case", UNSUPPORTED, ids=lambda case: case.name)
def test_unsupported_plan(case: Case) -> None:
    plan, _ = evolve(case.before, case.after)
    assert steps_of(plan) == case.steps
    assert not plan.supported


@pytest.mark.parametrize("case", [*SUPPORTED, *UNSUPPORTED], ids=lambda case: case.name)
def test_no_steps_exactly_when_the_hash_stays(case: Case) -> None:
    plan, catalog = evolve(case.before, case.after)
    assert (plan.steps == ()) == (encode(catalog) == encode(catalog_of(case.before)))


@pytest.mark.parametrize("case", [*SUPPORTED, *UNSUPPORTED], ids=lambda case: case.name)
def test_plan_survives_its_json_form(case: Case) -> None:
    plan, _ = evolve(case.before, case.after)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=SchemaPlan) == plan
    assert all(describe(step_) for step_ in plan.steps)


def test_every_kind_of_step_and_every_code_has_a_case() -> None:
    steps = [found for case in [*SUPPORTED, *UNSUPPORTED] for found in case.steps]
    assert {found["kind"] for found in steps} == {kind.__struct_config__.tag for kind in get_args(Step)}
    assert {found["code"] for found in steps if "code" in found} == {code.value for code in MigrationCode}


def test_allowing_data_loss_makes_every_drop_hard() -> None:
    plan, _ = evolve(E + "{ x: I32? }", "node F {}", allow_data_loss=True)
    assert [found["mode"] for found in steps_of(plan)] == ["hard", "hard"]
    plan, _ = evolve(F, "node F {}", allow_data_loss=True)
    assert [found["mode"] for found in steps_of(plan)] == ["hard", "hard"]


def test_refusal_begins_with_its_code() -> None:
    (step_,) = evolve("node Film { year: I32 }", "node Film { year: I64 }").plan.steps
    assert isinstance(step_, UnsupportedChange)
    assert step_.message == "[OG-MF-106] changing property type for 'Film.year' is not supported in schema migration v1"
    (step_,) = evolve("node Film { year: I32 }", "node Film { year: I32 @unique }").plan.steps
    assert isinstance(step_, UnsupportedChange)
    assert step_.message == "adding @unique on 'Film.year' is not supported in schema migration v1"


def test_steps_stand_in_order() -> None:
    before = """
      interface T { t: I32? }
      node B implements T { k: I32 @key  e: enum(a)  gone: I32?  w: I32 }
      node Z {}
      node A {}
      edge E: A -> B @card(0..1) { o: I32? }
    """
    after = """
      interface T { t: I32?  u: I32? @index }
      node C @rename_from("B") @description("d") implements T { kk: I32 @key @rename_from("k")  e: enum(a, b) @description("d")
        w: I32 @index  @index(e, w) }
      node A {}
      node N {}
      edge E: A -> C @card(0..2) { o: I32? @index }
    """
    plan, _ = evolve(before, after)
    assert [describe(step_) for step_ in plan.steps] == [
        "add property interface:T.u",
        "add @index(u) to interface T",
        "rename node B to C",
        "update the texts of node C",
        "extend enum node:C.e by b",
        "update the texts of node:C.e",
        "rename property node:C.k to kk",
        "add property node:C.u",
        "add @index(u) to node C",
        "add @index(w) to node C",
        "drop property node:C.gone (soft)",
        "add @index(e, w) to node C",
        "add node N",
        "drop node Z (soft)",
        "not supported: edge:E: changing the cardinality of 'E' is not supported in schema migration v1",
        "add @index(o) to edge E",
    ]
