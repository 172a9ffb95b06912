"""Every guide runs as a newcomer would paste it: all its Python and shell blocks from top to bottom, twice in the same folder."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BEGINS = ("og.init(", "og.memory(", "omnigraph init ")
RUN_ELSEWHERE = {
    "spark.md": "needs Java; tests/spark/test_guide.py and test_submit.py",
    "coming-from.md": "with the code in its tables; test_coming_from.py",
    "cli.md": "its examples show their output; tests/unit/cli/test_reference.py",
}
PROMISED = {
    "README.md": ("not at", "dst 'Nobody' not found in Person", "{'friend': 'Grace'", "killed -9"),
    "errors.md": ("key_conflict did_not_happen",),
    "history.md": ("[{'p.name': 'Ada', 'p.born': None}]",),
    "load.md": ("{'Person': 2} {'Knows': 1} 3", "strict property 'born' expects Int32"),
    "search.md": ("[{'slug': 'alien'}, {'slug': 'solaris'}]",),
}
"""What a run must print, for the pages that say so."""


def guides() -> list[Path]:
    """The README and the pages that make a graph of their own."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs/user").glob("*.md"))]
    return [page for page in pages if page.name not in RUN_ELSEWHERE and any(word in page.read_text("utf-8") for word in BEGINS)]


def program(page: Path) -> str:
    """One Python program of a page. A shell block runs where it stands."""
    return "\n".join(_steps(page))


def _steps(page: Path) -> Iterator[str]:
    for language, text in BLOCK.findall(page.read_text("utf-8")):
        yield text if language == "python" else f"__import__('subprocess').run(['bash', '-euo', 'pipefail', '-c', {text!r}], check=True)"


@pytest.mark.parametrize("page", guides(), ids=lambda page: page.name)
def test_a_guide_runs_twice_in_one_folder(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    code = compile(program(page), page.name, "exec")
    for _ in range(2):
        exec(code, {"__name__": "guide"})
        shown = capfd.readouterr().out
        assert [text for text in PROMISED.get(page.name, ()) if text not in shown] == []


def test_every_page_with_code_is_run() -> None:
    pages = {page.name for page in (ROOT / "docs/user").glob("*.md") if "```python" in page.read_text("utf-8")}
    assert pages - {page.name for page in guides()} - set(RUN_ELSEWHERE) == set()
