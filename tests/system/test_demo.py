"""The demo tells its story, again and again, and empties no folder of others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from examples.museum import make_data

ROOT = Path(__file__).resolve().parent.parent.parent


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


def _demo(place: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "examples.tour", str(place)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
