"""Graphs in memory, and closed graphs."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.store import temporary

SCHEMA = "node Person { name: String @key }"
NAMES = "match { $p: Person } return { $p.name as name }"


def test_a_graph_in_memory_is_a_graph_until_it_is_closed() -> None:
    with og.memory(schema=SCHEMA, actor="act-ada", message="born") as graph:
        graph.mutate('insert Person { name: "Ada" }')
        graph.branches.create("work")
        graph.mutate('insert Person { name: "Ben" }', branch="work")
        graph.merge("work")
        assert [row["name"] for row in graph.query(NAMES)] == ["Ada", "Ben"]
        assert {commit.actor for commit in graph.commits()} == {"act-ada"}
        assert graph.verify() == []
        place = Path(graph.uri)
        assert place.is_relative_to(temporary.MEMORY_DIRECTORY)
        assert og.open(place, mode="r").query(NAMES).row_count == 2
    assert not place.parent.exists()
    graph.close()


def test_init_takes_the_name_that_sqlite_and_duckdb_have_for_it() -> None:
    graph = og.init(":memory:", schema=SCHEMA)
    other = og.init(":memory:", schema=SCHEMA)
    assert graph.uri != other.uri
    graph.close()
    other.close()
    with pytest.raises(InvalidInput, match=r"has no location to open; make one with `omnigraph\.memory"):
        og.open(":memory:")
    assert not Path(":memory:").exists()


def test_it_is_removed_when_nothing_refers_to_it() -> None:
    graph = og.memory(schema=SCHEMA)
    graph.mutate('insert Person { name: "Ada" }')
    place, lines = Path(graph.uri), graph.export()
    del graph
    gc.collect()
    assert len(list(lines)) == 1, "what was handed out keeps it"
    del lines
    gc.collect()
    assert not place.parent.exists()


def test_it_is_removed_when_the_process_ends_or_it_cannot_be_made() -> None:
    code = f"import omnigraph as og\ng = og.memory(schema={SCHEMA!r})\nprint(g.uri)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).parent.exists()
    before = set(Path(temporary.MEMORY_DIRECTORY).glob("omnigraph-*"))
    with pytest.raises(LanguageError):
        og.memory(schema="node")
    assert set(Path(temporary.MEMORY_DIRECTORY).glob("omnigraph-*")) <= before


def test_a_forked_process_removes_nothing() -> None:
    code = """
import os
from omnigraph.store.temporary import temporary_directory
made = temporary_directory()
if (child := os.fork()) == 0:
    made.remove()
    os._exit(0)
os.waitpid(child, 0)
assert os.path.isdir(made.path)
made.remove()
assert not os.path.exists(made.path)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_a_directory_in_memory_it_is_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary, "MEMORY_DIRECTORY", str(tmp_path / "none"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with og.memory(schema=SCHEMA) as graph:
        assert Path(graph.uri).is_relative_to(tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- closing


def test_every_call_on_a_closed_graph_is_refused(tmp_path: Path) -> None:
    with og.init(tmp_path / "g", schema=SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": name}} for name in ("Ada", "Ben")])
        begun = graph.export()
        assert not graph.closed
    assert graph.closed
    assert repr(graph) == f"Graph({graph.uri!r}, closed)"
    calls = {
        "query": lambda: graph.query(NAMES),
        "explain": lambda: graph.explain(NAMES),
        "mutate": lambda: graph.mutate('insert Person { name: "Cy" }'),
        "load": lambda: graph.load([]),
        "schema": lambda: graph.schema,
        "branches": lambda: graph.branches.list(),
        "tags": lambda: graph.tags.list(),
        "transaction": lambda: graph.transaction().__enter__(),
        "commits": lambda: graph.commits(),
        "export": lambda: graph.export(),
        "snapshot": lambda: graph.snapshot(),
        "diff": lambda: graph.diff("main", "main"),
        "info": lambda: graph.info(),
        "verify": lambda: graph.verify(),
    }
    for name, call in calls.items():
        with pytest.raises(InvalidInput, match=r"was closed; open it again with `omnigraph\.open`") as closed:
            call()
        assert closed.value.kind is Kind.GRAPH_CLOSED, name
    assert len(list(begun)) == 2, "an iterator that was handed out is read to its end"
    graph.close()
    assert og.open(graph.uri).query(NAMES).row_count == 2


def test_an_exception_in_the_block_closes_the_graph_and_passes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    with pytest.raises(ZeroDivisionError), graph:
        raise ZeroDivisionError
    assert graph.closed
