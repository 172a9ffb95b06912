"""The projects under `examples`: each runs twice in one folder, prints what its README shows, and its commands run after it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.printing import empty_folder
from scripts import picture

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("incidents", "papers")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like the checkout to a program that runs in it, and keeps what the program leaves behind."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


@pytest.mark.parametrize("project", PROJECTS)
def test_a_project_runs_twice_and_prints_what_its_readme_shows(project: str, checkout: Path) -> None:
    readme = (ROOT / "examples" / project / "README.md").read_text("utf-8")
    shown = re.findall(r"^```text\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    story, shell = ("\n".join(_lines(block)) for block in re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL))
    assert len(shown) >= 6
    for _ in range(2):
        printed = _bash(story, checkout)
        assert [block for block in shown if block not in printed] == []
    assert sorted(shown, key=printed.index) == shown, "the README tells it in the order of the program"
    if project == "incidents":
        assert picture.svg(printed) == picture.PICTURE.read_text("utf-8"), "run python -m scripts.picture"
    _bash(shell, checkout)


def test_a_project_empties_no_folder_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    with pytest.raises(SystemExit, match="holds files of another program"):
        empty_folder(tmp_path, ours="papers.omni")
    assert (tmp_path / "thesis.txt").exists()


def _lines(block: str) -> list[str]:
    """The commands of a block but `pip install`: the tests run in an environment that has everything."""
    return [line for line in block.splitlines() if not line.startswith("pip install")]


def _bash(script: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
