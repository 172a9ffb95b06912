"""Values nested without end, at every entrance: a typed refusal that says which value, and nothing written."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput

SCHEMA = "node P { name: String @key  bio: String?  tags: [String]?  vec: Vector(2)? }"
DEPTH = 50_000
READ = "query q($n: %s) { match { $p: P } return { $p.name } }"
WRITE = 'query q($n: [String]) { insert P { name: "a", tags: $n } }'


def nested(wrap: Callable[[object], object], depth: int = DEPTH) -> object:
    value: object = "x"
    for _ in range(depth):
        value = wrap(value)
    return value


def in_list(value: object) -> object:
    return [value]


def in_dict(value: object) -> object:
    return {"a": value}


def in_mapping(value: object) -> object:
    return UserDict({"a": value})


def person(**data: object) -> dict[str, object]:
    return {"type": "P", "data": {"name": "Ada", **data}}


def line(text: bytes) -> bytes:
    return b'{"type":"P","data":{"name":"Ada","bio":' + text + b"}}\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA)


@pytest.mark.parametrize(
    ("attempt", "where"),
    [
        (lambda graph: graph.load([person(), person(bio=nested(in_dict))]), "record 2 cannot be loaded: 'bio' is nested too deeply"),
        (lambda graph: graph.load([person(tags=nested(in_list))]), "record 1 cannot be loaded: 'tags' is nested too deeply"),
        (lambda graph: graph.load([person(bio=nested(in_mapping, 20_000))]), "record 1 cannot be loaded: 'bio' is nested too deeply"),
        (lambda graph: graph.load([{"type": nested(in_list)}]), "record 1 cannot be loaded: 'type' is nested too deeply"),
        (lambda graph: graph.load([nested(in_dict)]), "record 1 cannot be loaded: 'a' is nested too deeply"),
        (lambda graph: graph.load(b"\n" + line(b"[" * DEPTH + b"]" * DEPTH)), "JSON at line 2: it is nested too deeply"),
        (lambda graph: graph.load(line(b'{"a":' * 30_000 + b"1" + b"}" * 30_000)), "line 1: it is nested too deeply"),
        (lambda graph: graph.load(line(b"[" * DEPTH)), "line 1: it is nested too deeply"),
        (lambda graph: graph.query(READ % "String", params={"n": nested(in_list)}), "param 'n': expected string, got array"),
        (lambda graph: graph.query(READ % "[String]", params={"n": nested(in_list)}), "param 'n': expected string, got array"),
        (lambda graph: graph.query(READ % "Vector(2)", params={"n": [nested(in_list), 1]}), "param 'n': vector element is not numeric"),
        (lambda graph: graph.mutate(WRITE, params={"n": nested(in_list)}), "param 'n': expected string, got array"),
        (lambda graph: graph.mutate(WRITE, params={"n": nested(in_dict)}), "param 'n': "),
    ],
    ids=[
        "dict", "list", "mapping", "member", "record", "arrays of a line", "objects of a line", "line without end",
        "parameter", "parameter of lists", "parameter of vectors", "parameter of a mutation", "object for a parameter",
    ],
)  # fmt: skip
def test_a_value_nested_too_deeply_is_refused_by_its_place(graph: og.Graph, attempt: Callable[[og.Graph], object], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        attempt(graph)
    assert where in caught.value.message
    assert len(graph.commits()) == 1


def test_a_cell_of_a_csv_file_nested_too_deeply_is_refused_by_its_place(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(f'name,tags\nAda,"{"[" * DEPTH}{"]" * DEPTH}"\n')
    with pytest.raises(InvalidInput, match="record 1: property 'tags' expects a JSON array in its cell: it is nested too deeply"):
        graph.load({"P": str(tmp_path / "p.csv")})
    assert len(graph.commits()) == 1
