"""The notebook keeps its word: its cells run in order, and show what it shows."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness import notebook

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


def test_every_cell_shows_what_the_notebook_shows() -> None:
    code = [cell for cell in notebook.cells(NOTEBOOK) if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code, notebook.run(code), strict=True), start=1):
        assert cell["execution_count"] == number, "run `python -m tests.harness.notebook examples/notebook.ipynb`"
        assert outputs == cell["outputs"], f"cell {number}; `python -m tests.harness.notebook examples/notebook.ipynb` writes what it shows"


def test_it_runs_anywhere_and_shows_nothing_of_the_machine_it_ran_on() -> None:
    text = NOTEBOOK.read_text("utf-8")
    assert re.search(r"/(?:dev|tmp|home|root|work)\b|\b01[0-9A-HJKMNP-TV-Z]{24}\b", text) is None
    assert {cell["cell_type"] for cell in notebook.cells(NOTEBOOK)} == {"code", "markdown"}
    ids = [cell["id"] for cell in notebook.cells(NOTEBOOK)]
    assert len(set(ids)) == len(ids)
