"""`schema draw` and `query --draw`: what is drawn, that boxes stay apart, and that the same graph gives the same file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.catalog import build_catalog
from omnigraph.cli.draw import schema_drawing
from omnigraph.cli.drawing import Drawing, DrawnEdge, DrawnNode, html, svg
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_schema
from tests.unit.cli.calls import Call

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
FILMS = """interface Titled { title: String }
node Film implements Titled { slug: String @key  year: I32? }
node Person { name: String @key }
edge ActedIn: Person -> Film { role: String? }
edge Directed: Person -> Film
edge Knows: Person -> Person
"""
RECORDS: list[Any] = [
    *({"type": "Person", "data": {"name": name}} for name in ("Ada", "Bob <b>&", "Cid")),
    *({"type": "Film", "data": {"slug": slug, "title": slug}} for slug in ("alien", "heat")),
    {"edge": "ActedIn", "from": "Ada", "to": "alien", "data": {"id": "a1", "role": "x"}},
    {"edge": "ActedIn", "from": "Ada", "to": "alien", "data": {"id": "a2", "role": "y"}},
    {"edge": "ActedIn", "from": "Bob <b>&", "to": "alien", "data": {"id": "a3"}},
    {"edge": "Directed", "from": "Cid", "to": "alien", "data": {"id": "d1"}},
    {"edge": "Knows", "from": "Ada", "to": "Bob <b>&", "data": {"id": "k1"}},
    {"edge": "Knows", "from": "Bob <b>&", "to": "Cid", "data": {"id": "k2"}},
]


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    og.init("films.omni", schema=FILMS).load(RECORDS, "append")
    return "films.omni"


def boxes(text: str) -> list[tuple[float, float, float, float]]:
    """The left, top, right and bottom of every box."""
    found = [rect.attrib for rect in ET.fromstring(text).iter(f"{SVG}rect") if "rx" in rect.attrib]
    return [(x, y, x + w, y + h) for x, y, w, h in ([float(rect[key]) for key in ("x", "y", "width", "height")] for rect in found)]


def texts(text: str) -> list[str]:
    return [str(one.text) for one in ET.fromstring(text).iter(f"{SVG}text")]


def drawn(films: str, call: Call, query: str) -> tuple[int, int, list[str]]:
    """The numbers of boxes and of lines, and the labels, of the drawing of a query."""
    said = call("query", "-e", query, "--store", films, "--draw", "out.svg")
    assert said.code == 0, said.err
    text = Path("out.svg").read_text("utf-8")
    shown = re.fullmatch(r"drew (\d+) nodes? and (\d+) edges? to out.svg\n", said.err)
    assert shown is not None
    assert len(boxes(text)) == int(shown[1])
    paths = [path for path in ET.fromstring(text).iter(f"{SVG}path") if path.get("fill") == "none"]
    assert len(paths) == int(shown[2])
    return int(shown[1]), int(shown[2]), texts(text)


def test_a_schema_has_its_types_properties_and_edges(films: str, call: Call) -> None:
    said = call("schema", "draw", films, "--output", "schema.svg", "--json")
    assert said.json() == {"path": "schema.svg", "nodes": 3, "edges": 4}
    assert said.err == "drew 3 nodes and 4 edges to schema.svg\n"
    shown = texts(Path("schema.svg").read_text("utf-8"))
    assert {"Film", "slug: String @key", "title: String", "year: I32?", "Titled", "ActedIn (role)", "Knows", "interface"} <= set(shown)


def test_a_result_has_its_nodes_and_the_edges_of_its_rows(films: str, call: Call) -> None:
    nodes, edges, labels = drawn(films, call, "match { $p: Person  $p actedIn $f } return { $p, $f }")
    assert (nodes, edges) == (3, 2)
    assert {"Ada", "Bob <b>&", "alien", "ActedIn", "Film", "Person"} == set(labels)


def test_edges_with_a_name_are_drawn_one_by_one(films: str, call: Call) -> None:
    assert drawn(films, call, "match { $p: Person  $p $r:actedIn $f } return { $p, $r.id, $f }")[:2] == (3, 3)


def test_only_the_rows_are_drawn_and_only_what_they_hold(films: str, call: Call) -> None:
    assert drawn(films, call, "match { $p: Person  $p actedIn $f } return { $p } order { $p.name } limit 1")[:2] == (1, 0)
    assert drawn(films, call, 'match { $f: Film { slug: "heat" } } return { $f, $f.title }')[:2] == (1, 0)
    assert drawn(films, call, 'match { $f: Film { slug: "none" } } return { $f }')[:2] == (0, 0)


def test_an_optional_edge_is_drawn_where_it_is(films: str, call: Call) -> None:
    text = "match { $p: Person  optional { $p directed $f } } return { $p, $f }"
    assert drawn(films, call, text)[:2] == (4, 1)
    # Here a row does not tell whether the block matched: nothing is claimed.
    text = "match { $p: Person  $p actedIn $f  optional { $p directed $f } } return { $p, $f }"
    assert drawn(films, call, text)[:2] == (3, 2)


def test_directions_are_those_of_the_edges_and_steps_are_dashed(films: str, call: Call) -> None:
    there = drawn(films, call, "match { $p: Person  $p actedIn $f } return { $p, $f }")
    one = Path("out.svg").read_text("utf-8")
    back = drawn(films, call, "match { $f: Film  $f actedIn $p } return { $f, $p }")
    assert (there, one) == (back, Path("out.svg").read_text("utf-8"))
    nodes, edges, labels = drawn(films, call, 'match { $a: Person { name: "Ada" }  $a knows{2} $b } return { $a, $b }')
    assert (nodes, edges) == (2, 1)
    assert "Knows{2,2}" in labels
    assert 'stroke-dasharray="5 4" marker-end' in Path("out.svg").read_text("utf-8")
    drawn(films, call, 'match { $a: Person { name: "Ada" }  $a <knows> $b } return { $a, $b }')
    assert "marker-end" not in Path("out.svg").read_text("utf-8")


def test_the_rows_are_printed_as_ever(films: str, call: Call) -> None:
    said = call(
        "query", "-e", "match { $f: Film } return { $f } order { $f.slug }", "--store", films, "--draw", "o.html", "--format", "csv"
    )
    assert (said.code, said.out) == (0, "f\nalien\nheat\n")
    page = Path("o.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "<svg " in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("query", "-e", "match { $f: Film } return { $f.slug }", "--draw", "o.svg"), 1, "return whole nodes"),
        (("query", "-e", "match { $f: Film } return { $f }", "--draw", "o.png"), 1, "ends with .svg or .html"),
        (("query", "-e", "match { $f: Film } return { $f }", "--draw", "no/o.svg"), 1, "cannot write"),
        (("query", "-e", "match { $f: Film } return { $f }", "--draw", "o.svg", "--explain"), 2, "--draw needs rows"),
        (("schema", "draw", "--output", "o.gif"), 1, "ends with .svg or .html"),
        (("schema", "draw"), 2, "--output"),
    ],
)
def test_refusals(films: str, call: Call, arguments: tuple[str, ...], code: int, part: str) -> None:
    said = call(*arguments, "--store", films)
    assert (said.code, said.out) == (code, "")
    assert part in said.err
    assert not Path("o.svg").exists()


def test_too_many_nodes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Call) -> None:
    monkeypatch.chdir(tmp_path)
    graph = og.init("g.omni", schema="node N { n: I32 @key }")
    graph.load([{"type": "N", "data": {"n": n}} for n in range(501)], "append")
    said = call("query", "-e", "match { $n: N } return { $n }", "--store", "g.omni", "--draw", "o.svg")
    assert (said.code, said.out) == (1, "")
    assert "at most 500 nodes, and this one has 501" in said.err


def wheel(spokes: int) -> Drawing:
    nodes = [DrawnNode(str(n), (f"node number {n}", *["x: I32"] * (n % 4)), f"type {n % 3}") for n in range(spokes)]
    edges = [DrawnEdge(str(n), str(n // 3), "leads to") for n in range(1, spokes)] + [DrawnEdge("0", "0", "itself")]
    return Drawing("a tree", nodes, edges)


@pytest.mark.parametrize("spokes", [1, 2, 10, 100])
def test_boxes_do_not_overlap_and_lie_inside(spokes: int) -> None:
    text = svg(wheel(spokes))
    found = boxes(text)
    width, height = (float(ET.fromstring(text).attrib[key]) for key in ("width", "height"))
    assert len(found) == spokes
    for at, (left, top, right, bottom) in enumerate(found):
        assert left > 0
        assert top > 0
        assert right < width
        assert bottom < height
        for x1, y1, x2, y2 in found[at + 1 :]:
            assert right <= x1 or x2 <= left or bottom <= y1 or y2 <= top


def test_the_same_drawing_gives_the_same_text() -> None:
    assert svg(wheel(30)) == svg(wheel(30))
    assert html(wheel(30)) == html(wheel(30))


def test_markup_and_control_characters_in_names_are_only_text() -> None:
    text = svg(Drawing("<&>\x00", [DrawnNode("a", ("<script>\x1b",), '"&"')], [DrawnEdge("a", "a", "</svg>")]))
    assert texts(text) == ["<script>\\x1b", "</svg>", '"&"']


LONG_NAMES = "interface Named { name: String }\n" + "".join(
    [
        *(f"node T{n} implements Named {{ name: String @key  a_long_property_name_{n}: String?  another: DateTime? }}\n" for n in range(6)),
        *(f"edge HasALongEdgeName{n}: T0 -> T{n} {{ since: Date?  until: Date? }}\n" for n in range(6)),
        "edge Back: T3 -> T0\nedge Again: T3 -> T0\nedge One: T1 -> T1\nedge Two: T1 -> T1\n",
    ]
)
MANY_TYPES = "".join(
    [
        *(f"node Type{n} {{ name: String @key {' '.join(f'p{m}: I32?' for m in range(n * 7 % 9))} }}\n" for n in range(30)),
        *(f"edge Rel{n}: Type{n * 11 % 28} -> Type{n * 17 % 29 % 28}\n" for n in range(45)),
    ]
)
PARALLEL = "node Person { name: String @key }\nnode City { name: String @key }\n" + "".join(
    f"edge {name}: Person -> City\n" for name in ("LivesIn", "BornIn", "WorksIn", "DiedIn")
)


@pytest.mark.parametrize("schema", [PARALLEL, LONG_NAMES, MANY_TYPES], ids=["parallel edges", "long names", "30 types"])
def test_no_text_covers_another_or_leaves_the_picture(schema: str) -> None:
    """The rectangles of boxes and labels, read from the SVG: a character of a label takes 6.7 pixels, of a box 7.25."""
    drawn = ET.fromstring(svg(schema_drawing(build_catalog(parse_schema(schema), mint=new_hex16), "schema")))
    rects = [{name: float(one.get(name, 0)) for name in ("x", "y", "width", "height")} for one in drawn.iter(f"{SVG}rect")]
    boxes = [(r["x"], r["y"], r["x"] + r["width"], r["y"] + r["height"]) for r in rects[1:] if r["width"] > 12]
    labels = []
    for text in drawn.iter(f"{SVG}text"):
        if text.get("font-size") == "11":
            x, y, half = float(text.get("x", 0)), float(text.get("y", 0)), len(text.text or "") * 6.7 / 2
            labels.append((x - half, y - 10, x + half, y + 3))
    assert len(labels) == schema.count("edge ")
    left, top, wide, high = map(float, drawn.get("viewBox", "").split())
    areas = [*boxes, *labels]
    for at, one in enumerate(areas):
        assert left <= one[0] <= one[2] <= left + wide
        assert top <= one[1] <= one[3] <= top + high
        for other in areas[at + 1 :]:
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
            assert apart, (one, other)


@pytest.mark.parametrize(
    "schema",
    [*((ROOT / f"examples/{name}/schema.pg").read_text() for name in ("incidents", "papers")), PARALLEL],
    ids=["incidents", "papers", "parallel edges"],
)
def test_no_label_covers_an_arrow_or_another_line(schema: str) -> None:
    drawn = ET.fromstring(svg(schema_drawing(build_catalog(parse_schema(schema), mint=new_hex16), "schema")))
    lines = [one.get("d", "") for one in drawn.iter(f"{SVG}path") if one.get("marker-end")]
    labels = [one for one in drawn.iter(f"{SVG}text") if one.get("font-size") == "11"]
    assert len(lines) == len(labels) == schema.count("\nedge ")
    for text in labels:
        x, y, half = float(text.get("x", 0)), float(text.get("y", 0)), len(text.text or "") * 6.7 / 2
        for line in lines:
            end_x, end_y = (float(part.lstrip("LQC")) for part in line.split()[-2:])
            assert not (x - half - 4 < end_x < x + half + 4 and y - 10 - 4 < end_y < y + 3 + 4), (text.text, line)
        crossed = [line for line in lines if line.split()[2][0] == "L" and crosses(line, (x - half, y - 10, x + half, y + 3))]
        assert len(crossed) <= 1, (text.text, crossed)


def crosses(line: str, area: tuple[float, float, float, float]) -> bool:
    """Return whether a straight line goes through an area."""
    x1, y1, x2, y2 = (float(part.lstrip("ML")) for part in line.split())
    points = ((x1 + (x2 - x1) * at / 200, y1 + (y2 - y1) * at / 200) for at in range(201))
    return any(area[0] < x < area[2] and area[1] < y < area[3] for x, y in points)


def test_nodes_without_edges_stand_below_the_others() -> None:
    schema = "node A { n: String @key }\nnode B { n: String @key }\nnode Alone { n: String @key }\nedge E: A -> B\n"
    lines = svg(schema_drawing(build_catalog(parse_schema(schema), mint=new_hex16), "schema"))
    found = re.findall(r'y="(-?\d+)" text-anchor="middle" font-weight="bold">(\w+)<', lines)
    at = {name: int(y) for y, name in found}
    assert at["Alone"] > max(at["A"], at["B"])
