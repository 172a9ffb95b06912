"""The README keeps its word: its Python blocks run, in order, as a newcomer would paste them; so does the demo."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_tour_runs_as_it_is_printed(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 4
    program = "\n".join(blocks) + "\nassert g.verify() == []\nassert len(g.commits()) == 3\n"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "not at" in done.stdout, "the condition that no longer holds says so"


def test_the_documents_it_names_are_there() -> None:
    links = re.findall(r"\]\(([^)#]+?)\)", (ROOT / "README.md").read_text())
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert links
    assert missing == []


def test_the_demo_tells_its_story(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "examples.tour"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "40 writes acknowledged" in done.stdout
    assert "rolled_forward" in done.stdout
    assert "the whole graph checks out: True" in done.stdout
