"""A notebook -> its cells run in order, in this process, and what each prints and shows.

`nbclient` would start a kernel: eleven packages and a second process, to run a few cells. A cell is Python whose last expression is shown,
and that is all a notebook for readers needs. `python -m tests.harness.notebook FILE` writes the outputs into the file.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
Output = dict[str, Any]


def cells(path: Path) -> list[Cell]:
    found: list[Cell] = json.loads(path.read_text("utf-8"))["cells"]
    return found


def run(code: list[Cell]) -> Iterator[list[Output]]:
    """Yield the outputs of each cell: what it printed, then its last expression as text and, if it can be, as HTML."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code, start=1):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(tree, f"cell {number}", "exec"), names)
            value = None if last is None else eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # type: ignore[attr-defined]  # an Expr
        yield [*_printed(printed.getvalue()), *_shown(value, number)]


def _printed(text: str) -> Iterator[Output]:
    if text:
        yield {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def _shown(value: object, number: int) -> Iterator[Output]:
    if value is not None:
        forms = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            forms["text/html"] = [value._repr_html_()]
        yield {"data": forms, "execution_count": number, "metadata": {}, "output_type": "execute_result"}


def main(path: Path) -> None:
    notebook = json.loads(path.read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code, run(code), strict=True), start=1):
        cell["outputs"], cell["execution_count"] = outputs, number
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
