"""The page for those who come from another database: each line of ours in its tables runs, in order, on the graph of its first block."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.lang import parse_schema

PAGE = (Path(__file__).resolve().parents[2] / "docs/user/coming-from.md").read_text("utf-8")
READS = ("match ",)
CHANGES = ("create ", "upsert ", "update ", "insert ", "delete ")
PYTHON = ("g.", "list(g.", "with g.", "pq.")
DECLARATIONS = ("node ", "edge ")


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def rows() -> Iterator[tuple[str, list[str]]]:
    """Each row of a table: what one had, and the code in its right column."""
    for line in PAGE.splitlines():
        cells = re.split(r" \| ", line.strip("| "))
        if line.startswith("| ") and len(cells) == 2 and cells[1] != "here":
            yield cells[0], re.findall(r"`([^`]+)`", cells[1])


def test_every_line_of_ours_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(blocks()[0], names)
    graph = names["g"]
    assert isinstance(graph, og.Graph)
    ran = [sum(_ran(code, graph, names) for code in codes) for _, codes in rows()]
    without = [known for (known, codes), count in zip(rows(), ran, strict=True) if not count and not codes[0].startswith("@")]
    assert without == ['`db.create_table("person", schema=...)`'], "a row shows something that runs"
    assert sum(ran) > 70
    assert graph.verify() == []
    for block in blocks()[1:]:
        exec(block, names)
    assert "nth" in capsys.readouterr().out


def _ran(code: str, graph: og.Graph, names: dict[str, object]) -> bool:
    if code.startswith(DECLARATIONS):
        assert parse_schema(code).declarations
        known = " ".join(graph.schema.split())
        assert code.partition("{")[0].strip() in known or code in known
    elif code.startswith(CHANGES) or (code.startswith(READS) and "update $" in code):
        graph.mutate(code)
    elif code.startswith(READS):
        assert graph.query(code).columns
        assert graph.query(code).rows, code
    elif code.startswith(PYTHON):
        exec(code, names)
    elif code.startswith("omnigraph ") and "FILE" not in code:
        assert run(shlex.split(code)[1:]) == 0
    else:
        return False
    return True
