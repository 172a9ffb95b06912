"""Directories with any name: a graph works below them and leaves nothing beside itself, or the name is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind

SCHEMA = "node Doc { name: String @key  text: String? @index  photo: Blob? }\nedge Cites: Doc -> Doc\n"
NAMES = ("a#b", "a%20b", "100%", "a b", "jürgen", "名前", "[x]", "{x}", "a*b", "~x", "a\\b", "quote'\"", "<x>", "a|b")


def docs(count: int) -> list[dict[str, object]]:
    nodes: list[dict[str, object]] = [
        {"type": "Doc", "data": {"name": f"d{n}", "text": "some words", "photo": "base64:QQ=="}} for n in range(count)
    ]
    return [*nodes, {"edge": "Cites", "from": "d0", "to": "d1"}]


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_below_a_directory_of_this_name(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.mkdir(parents=True)
    graph = og.init(place / "g.omni", schema=SCHEMA)
    graph.load(docs(3))
    graph.branches.create("work")
    graph.mutate('insert Doc { name: "w" }', branch="work")
    graph.load(docs(9), "merge", branch="work")
    graph.branches.create("deeper", from_="work")
    graph.mutate('delete Doc where name = "d8"', branch="deeper")
    graph.ensure_indices()
    graph.optimize("work")
    graph.merge("deeper", into="work")
    graph.merge("work")
    again = og.open(place / "g.omni")
    assert again.query("match { $d: Doc } return { count($d) as docs }").rows == [{"docs": 9}]
    assert again.blob("node", "Doc", "d7", "photo").read() == b"A"
    assert again.verify(deep=True) == []
    for branch in ("deeper", "work"):
        graph.branches.delete(branch)
    graph.cleanup(keep=1)
    graph.copy_to(place / "copy.omni")
    assert graph.verify() == []
    assert sorted(os.listdir(place)) == ["copy.omni", "g.omni"]
    assert os.listdir(tmp_path) == [name.partition("/")[0]], "nothing is written beside the directory"


@pytest.mark.parametrize("name", ["new\nline", "tab\t", "\x7f", "\x1b[31m", "a?b"])
def test_a_path_that_lance_misreads_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(og.InvalidInput) as refused:
        og.init(tmp_path / name / "g.omni", schema=SCHEMA)
    assert refused.value.kind is Kind.INVALID_ARGUMENT
    assert refused.value.message.startswith(repr(str((tmp_path / name / "g.omni").resolve())))
    assert "rename it" in refused.value.message
    assert refused.value.message.isprintable()
    assert os.listdir(tmp_path) == []
