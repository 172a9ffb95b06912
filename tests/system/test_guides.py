"""Every guide runs as a newcomer would paste it: all its Python and shell blocks from top to bottom, twice in the same folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BEGINS = ("og.init(", "omnigraph init ")
RUN_ELSEWHERE = {
    "spark.md": "needs Java; tests/spark/test_submit.py",
    "coming-from.md": "with the code in its tables; test_coming_from.py",
    "cli.md": "its examples show their output; tests/unit/cli/test_reference.py",
}
WITHOUT_CODE = {"durability.md", "language.md"}
"""Pages whose blocks are of the languages, or no program at all."""


def guides() -> list[Path]:
    """The README and the pages that make a graph of their own."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/user").glob("*.md"))]
    return [page for page in pages if page.name not in RUN_ELSEWHERE and any(word in page.read_text("utf-8") for word in BEGINS)]


def program(page: Path) -> str:
    """One Python program of a page. A shell block runs where it stands."""
    return "\n".join(_steps(page))


def _steps(page: Path) -> Iterator[str]:
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        if language == "python":
            yield text
        else:
            lines = [line for line in text.splitlines() if not line.startswith(("pip install", "./"))]
            yield f"__import__('subprocess').run(['bash', '-euo', 'pipefail', '-c', {chr(10).join(lines)!r}], check=True)"


def _run(text: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", guides(), ids=lambda page: page.name)
def test_a_guide_runs_twice_in_one_folder(page: Path, tmp_path: Path) -> None:
    first, second = (_run(program(page), tmp_path) for _ in range(2))
    assert len(first.splitlines()) == len(second.splitlines()), "the second time it shows what it showed the first"


def test_every_page_with_code_is_run() -> None:
    pages = {page.name for page in (ROOT / "docs/user").glob("*.md") if "```python" in page.read_text("utf-8")}
    assert pages - {page.name for page in guides()} - set(RUN_ELSEWHERE) == set()
    assert not WITHOUT_CODE & pages


def test_the_tour_shows_what_it_promises(tmp_path: Path) -> None:
    shown = _run(program(ROOT / "README.md") + "\nassert g.verify() == []\n", tmp_path)
    assert "not at" in shown, "the condition that no longer holds says so"
    assert "dst 'Nobody' not found in Person" in shown, "a bad record is named"
    assert "{'friend': 'Grace'" in shown
    assert "killed -9" in shown
    assert "Guido" in (tmp_path / "export.ndjson").read_text(), "the next writer has finished it"
