"""The README and the guides keep their word: their Python blocks run, in order, as a newcomer would paste them; so does the demo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from examples.museum import make_data

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_tour_runs_as_it_is_printed(tmp_path: Path) -> None:
    blocks = _blocks("README.md", "python")
    assert len(blocks) >= 5
    program = "\n".join(blocks) + "\nassert g.verify() == []\n"
    done = _run(program, cwd=tmp_path)
    assert "not at" in done.stdout, "the condition that no longer holds says so"
    assert "dst 'Nobody' not found in Person" in done.stdout, "a bad record is named"
    assert "{'friend': 'Grace'" in done.stdout


def test_the_tour_on_the_command_line_runs_as_it_is_printed(tmp_path: Path) -> None:
    (block,) = [block for block in _blocks("README.md", "sh") if "omnigraph init" in block]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "Grace" in done.stdout
    assert "killed -9" in done.stdout
    assert "Guido" in (tmp_path / "export.ndjson").read_text(), "the next writer has finished it"


def test_the_guide_to_branches_runs_as_it_is_printed(tmp_path: Path) -> None:
    blocks = _blocks("docs/user/branches.md", "python")
    assert len(blocks) >= 7
    _run("\n".join(blocks), cwd=tmp_path)


def test_the_guide_to_the_change_feed_runs_as_it_is_printed(tmp_path: Path) -> None:
    blocks = _blocks("docs/user/feed.md", "python")
    assert len(blocks) >= 4
    _run("\n".join(blocks), cwd=tmp_path)


@pytest.mark.spark
def test_the_demo_tells_its_story_and_can_be_run_again(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    for _ in range(2):
        done = _demo(place)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "nothing but the story is on the screen"
        assert "15 writes acknowledged" in done.stdout
        assert "rolled_forward" in done.stdout
        assert "no errors in any table, branch or commit" in done.stdout
        assert "the same rows: True" in done.stdout


def test_the_demo_empties_no_folder_that_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")
    done = _demo(tmp_path)
    assert done.returncode != 0
    assert "holds files of another program" in done.stderr
    assert (tmp_path / "thesis.txt").exists()


def test_the_museum_is_always_the_same() -> None:
    assert list(make_data.records()) == list(make_data.records())


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def _run(program: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def _demo(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.tour", str(place)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
