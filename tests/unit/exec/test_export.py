"""An export is the graph, line by line: every value exactly, in one order, from one snapshot, in bounded parts."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.export import FIRST_ROWS, PART_BYTES, export_batches
from omnigraph.exec.history.json_lines import json_lines
from omnigraph.exec.write.protocol import Overwrite, Prepared, Request, write
from omnigraph.graph import Graph
from omnigraph.ids import new_hex16
from omnigraph.lang import parse_schema
from omnigraph.manifest.model import CommitKind
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.tables import Tables
from tests.mutations import manifest_of, run, table_row

EVERY = """
node Every {
  k: String @key   s: String?   b: Bool?   i32: I32?   i64: I64?   u32: U32?   u64: U64?   f32: F32?   f64: F64?
  day: Date?   at: DateTime?   choice: enum(low, mid, top)?   body: Blob?   vec: Vector(3)?
  strings: [String]?   flags: [Bool]?   ints: [I32]?   longs: [U64]?   floats: [F32]?   doubles: [F64]?
  days: [Date]?   moments: [DateTime]?
}
node Plain { n: I64 }
edge Links: Every -> Plain { weight: F64?  proof: Blob? }
edge Plain: Plain -> Plain
"""
CINE = """
node Film {
  slug: String @key  title: String  year: I32  rating: F64?  votes: U64?  released: Date?  added_at: DateTime?  genres: [String]?
  status: enum(draft, released, archived)  plot: String?  vec: Vector(3)?
}
node Script { code: String @key  body: Blob? }
"""

Row = dict[str, object]


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture
def every(tmp_path: Path) -> Graph:
    return og.init(tmp_path / "every", schema=EVERY)


def put(graph: Graph, contents: Mapping[str, Sequence[Row]]) -> None:
    """Replace whole tables by rows of values at rest."""
    manifest, catalog = manifest_of(graph), graph.catalog
    changes = {
        table_row(graph, alias).id: Overwrite(pa.Table.from_pylist(list(rows), schema=table_schema(entity_of(catalog, alias))))
        for alias, rows in contents.items()
    }
    write(Engine(manifest), Request(CommitKind.LOAD), lambda _: Prepared(changes))


def entity_of(catalog: Catalog, alias: str) -> EntityType:
    kind, _, name = alias.partition(":")
    entity = catalog.node(name) if kind == "node" else catalog.edge_named(name)
    assert entity is not None
    return entity


def documents(catalog: Catalog, contents: Mapping[str, Sequence[Row]]) -> list[Row]:
    """The model: what an export of these tables must say, written down the slow way."""
    found: list[Row] = []
    for alias in sorted(contents):
        entity = entity_of(catalog, alias)
        names = [property_.name for property_ in entity.properties]
        for row in sorted(contents[alias], key=lambda row: str(row["id"]).encode()):
            data: dict[str, object] = {"id": row["id"], **{name: _shown(row.get(name)) for name in names}}
            if alias.startswith("node:"):
                found.append({"type": entity.name, "data": data})
            else:
                found.append({"edge": entity.name, "from": row["src"], "to": row["dst"], "data": data})
    return found


def _shown(value: object) -> object:
    return "base64:" + base64.b64encode(value).decode() if isinstance(value, bytes) else value


def same(left: object, right: object) -> bool:
    """Equal, and of the same kind: 1, 1.0 and true are three values."""
    if isinstance(left, dict) and isinstance(right, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and left == right


def texts() -> st.SearchStrategy[str]:
    """Any text, and more often than not one that JSON has to escape."""
    awkward = st.sampled_from([*map(chr, range(0x20)), '"', "\\", "/", "\x7f", "\u2028", "é", "漢", "🎬", "\\n", "'", "\ufffe"])
    return st.lists(awkward | st.characters(exclude_categories=["Cs"]), max_size=8).map("".join)


def floats(width: int) -> st.SearchStrategy[float]:
    whole = st.integers(-(2**24), 2**24).map(float)
    return whole | st.floats(width=width, allow_nan=False, allow_infinity=False)  # type: ignore[arg-type]  # 32 or 64


VALUES: Mapping[str, st.SearchStrategy[object]] = {
    "s": texts(),
    "b": st.booleans(),
    "i32": st.integers(-(2**31), 2**31 - 1),
    "i64": st.integers(-(2**63), 2**63 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "f32": floats(32),
    "f64": floats(64),
    "day": st.integers(-(2**31), 2**31 - 1),
    "at": st.integers(-(10**14), 10**14),
    "choice": st.sampled_from(["low", "mid", "top"]),
    "body": st.binary(max_size=20),
    "vec": st.lists(floats(32), min_size=3, max_size=3),
    "strings": st.lists(texts(), max_size=3),
    "flags": st.lists(st.booleans(), max_size=3),
    "ints": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    "longs": st.lists(st.integers(0, 2**64 - 1), max_size=3),
    "floats": st.lists(floats(32), max_size=3),
    "doubles": st.lists(floats(64), max_size=3),
    "days": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    "moments": st.lists(st.integers(-(10**14), 10**14), max_size=3),
}


@st.composite
def tables_of_every(draw: st.DrawFn) -> dict[str, list[Row]]:
    ids = draw(st.lists(texts(), max_size=6, unique=True))
    every = [{"id": id_, "k": id_, **{name: draw(st.none() | value) for name, value in VALUES.items()}} for id_ in ids]
    numbers = draw(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3, unique=True))
    plain: list[Row] = [{"id": f"p{n}", "n": n} for n in numbers]
    links: list[Row] = []
    if every and plain:
        links = [
            {
                "id": id_,
                "src": every[0]["id"],
                "dst": plain[0]["id"],
                "weight": draw(floats(64)),
                "proof": draw(st.none() | st.binary(max_size=9)),
            }
            for id_ in draw(st.lists(texts(), max_size=3, unique=True))
        ]
    return {"node:Every": every, "node:Plain": plain, "edge:Links": links, "edge:Plain": []}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return og.init(tmp_path_factory.mktemp("law") / "g", schema=EVERY)


@given(contents=tables_of_every())
@settings(max_examples=60, deadline=None)
def test_an_export_says_what_is_in_the_graph(shared: Graph, contents: dict[str, list[Row]]) -> None:
    """L-07: the law, over every type of value; order of lines and of properties included."""
    put(shared, contents)
    lines = list(shared.export())
    assert not any("\n" in line for line in lines)
    expected = documents(shared.catalog, contents)
    found = [json.loads(line) for line in lines]
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
        assert same(left, right), (left, right)


@given(words=st.lists(texts(), min_size=1, max_size=5, unique=True))
@settings(max_examples=100, deadline=None)
def test_text_is_escaped_as_json_does_it(words: list[str]) -> None:
    """Byte for byte as `json.dumps(..., ensure_ascii=False)`."""
    catalog = build_catalog(parse_schema("node Word { w: String @key }", name="s"), mint=new_hex16)
    (entity,) = catalog.nodes
    rows = pa.table({"id": words, "w": words})
    expected = [json.dumps({"type": "Word", "data": {"id": w, "w": w}}, ensure_ascii=False, separators=(",", ":")) for w in words]
    assert json_lines(entity, rows).to_pylist() == expected


# -- the examples


def test_a_film_is_exported_as_the_language_says(tmp_path: Path) -> None:
    """E102."""
    graph = og.init(tmp_path / "g", schema=CINE)
    film = {"slug": "alien", "title": "Alien", "year": 1979, "rating": 8.5, "votes": 900, "released": 3431, "added_at": 1709296215250}
    film |= {"genres": ["horror", "scifi"], "status": "released", "plot": "A crew", "vec": [1.0, 0.0, 0.0]}
    put(graph, {"node:Film": [{"id": "alien", **film}]})
    assert list(graph.export(types=["Film"])) == [
        '{"type":"Film","data":{"id":"alien","added_at":1709296215250,"genres":["horror","scifi"],"plot":"A crew","rating":8.5,'
        '"released":3431,"slug":"alien","status":"released","title":"Alien","vec":[1.0,0.0,0.0],"votes":900,"year":1979}}'
    ]


def test_a_blob_is_exported_as_it_was_given(tmp_path: Path) -> None:
    """E101; and none and an empty one stay apart."""
    graph = og.init(tmp_path / "g", schema=CINE)
    for code, body in (("s1", "base64:cmVlbA=="), ("s2", "base64:"), ("s3", None)):
        run(graph, "($c: String, $b: Blob?) insert Script { code: $c, body: $b }", {"c": code, "b": body})
    assert [json.loads(line)["data"]["body"] for line in graph.export()] == ["base64:cmVlbA==", "base64:", None]


def test_a_float_is_the_exact_double(every: Graph) -> None:
    put(every, {"node:Every": [{"id": "a", "k": "a", "f32": 0.1, "f64": 1e21, "floats": [16777216.0, -0.0], "doubles": [5e-324, 1.0]}]})
    (line,) = every.export(types=["Every"])
    assert '"f32":0.10000000149011612' in line
    assert '"floats":[16777216.0,-0.0]' in line
    assert json.loads(line)["data"]["f64"] == 1e21


# -- what is chosen


def test_a_name_selects_the_node_and_the_edge_type(every: Graph) -> None:
    put(every, {"node:Every": [{"id": "e", "k": "e"}], "node:Plain": [{"id": "b", "n": 1}, {"id": "a", "n": 2}]})
    put(every, {"edge:Plain": [{"id": "x", "src": "a", "dst": "b"}], "edge:Links": [{"id": "l", "src": "e", "dst": "a"}]})
    found = [json.loads(line) for line in every.export(types=["Plain"])]
    assert [next(iter(document.values())) for document in found] == ["Plain", "Plain", "Plain"]
    assert [document["data"]["id"] for document in found] == ["x", "a", "b"]
    assert list(every.export(types=[])) == []


def test_an_unknown_type_is_refused_at_once(every: Graph) -> None:
    with pytest.raises(InvalidInput, match=r"^unknown export type 'Nope'$"):
        every.export(types=["Plain", "Nope"])


def test_an_empty_graph_exports_nothing(every: Graph) -> None:
    assert list(every.export()) == []


# -- one snapshot


def test_an_export_shows_one_moment_and_any_other_can_be_asked_for(every: Graph) -> None:
    """C-25: what is written while lines are taken is not seen; the past and branches are snapshots like any other."""
    put(every, {"node:Plain": [{"id": "a", "n": 1}]})
    then = every.snapshot().commit_id
    every.branches.create("draft")
    lines = every.export()
    put(every, {"node:Plain": [{"id": "a", "n": 2}, {"id": "b", "n": 3}]})
    run(every, "insert Plain { n: 9 }", branch="draft")

    def numbers(lines: object) -> list[int]:
        return [json.loads(line)["data"]["n"] for line in lines]  # type: ignore[attr-defined]

    assert numbers(lines) == [1]
    assert numbers(every.export()) == [2, 3]
    assert numbers(every.export(at=then)) == [1]
    assert sorted(numbers(every.export("draft"))) == [1, 9]


def test_a_number_that_json_does_not_have_is_refused_by_name(every: Graph) -> None:
    for name, value in (("f64", math.inf), ("f32", math.nan), ("vec", [0.0, math.nan, 1.0]), ("doubles", [-math.inf])):
        put(every, {"node:Every": [{"id": "a", "k": "a", "vec": [0.0] * 3}, {"id": "b", "k": "b"}, {"id": "c", "k": "c", name: value}]})
        with pytest.raises(InvalidInput, match=f"Every 'c' .* its {name} ") as caught:
            list(every.export())
        assert caught.value.kind is Kind.VALIDATION


# -- in parts


def parts(graph: Graph) -> list[pa.Table]:
    snapshot = manifest_of(graph).snapshot()
    return [part.rows for part in export_batches(Tables(manifest_of(graph).root), snapshot, graph.catalog)]


def test_rows_come_in_the_order_of_bytes_and_in_parts(every: Graph) -> None:
    """Lengths do not matter, letters outside ASCII do."""
    names = [*(f"k{n}" for n in range(3 * FIRST_ROWS)), "z", "É", "漢", "🎬", "Z", "~"]
    shuffled = np.random.default_rng(7).permutation(names).tolist()
    put(every, {"node:Plain": [{"id": name, "n": at} for at, name in enumerate(shuffled)]})
    found = parts(every)
    assert len(found) > 1
    assert [id_ for part in found for id_ in part.column("id").to_pylist()] == sorted(names, key=str.encode)


def test_heavy_blobs_make_small_parts(every: Graph) -> None:
    """Told by their sizes: a part is never much larger than its bound, unless one row is."""
    size = PART_BYTES // 2 - 1000
    rows: list[Row] = [{"id": str(n), "src": "e", "dst": "p", "proof": bytes(size) if n % 2 else None} for n in range(10)]
    put(every, {"node:Every": [{"id": "e", "k": "e"}], "node:Plain": [{"id": "p", "n": 1}], "edge:Links": rows})
    found = [part for part in parts(every) if "proof" in part.schema.names]
    assert [len(part) for part in found] == [5, 4, 1]
    assert pa.concat_tables(found).column("id").to_pylist() == [str(n) for n in range(10)]


def test_an_export_that_is_not_read_to_its_end_stops(every: Graph) -> None:
    put(every, {"node:Plain": [{"id": f"{n:05}", "n": n} for n in range(5_000, 0, -1)]})
    lines = every.export()
    assert json.loads(next(lines))["data"]["n"] == 1
    lines.close()  # type: ignore[attr-defined]  # a generator


def test_a_table_that_was_written_many_times_is_exported_once(every: Graph) -> None:
    """Updated, deleted and folded rows: what the snapshot shows, and nothing else."""
    for n in range(12):
        run(every, f'insert Every {{ k: "k{n % 5}", i32: {n} }}')
    run(every, 'delete Every where k = "k0"')
    found = [json.loads(line)["data"] for line in every.export()]
    assert [(row["id"], row["i32"]) for row in found] == [("k1", 11), ("k2", 7), ("k3", 8), ("k4", 9)]


# -- and back


@pytest.fixture(scope="module")
def mirror(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return og.init(tmp_path_factory.mktemp("mirror") / "g", schema=EVERY)


@given(contents=tables_of_every())
@settings(max_examples=25, deadline=None)
def test_loading_an_export_gives_the_same_graph(shared: Graph, mirror: Graph, contents: dict[str, list[Row]]) -> None:
    """L-07: Loading an export gives the same graph: every value of every type comes back as it was."""
    put(shared, contents)
    lines = list(shared.export())
    put(mirror, {alias: [] for alias in contents})
    mirror.load("\n".join(lines).encode(), mode="overwrite")
    assert list(mirror.export()) == lines
