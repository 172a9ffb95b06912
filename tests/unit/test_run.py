"""How `./test` judges: what fails twice fails the run, what fails once is named as unstable, what passes is run once.

And where its tests run: with temporary files in memory, where there is room, and without Java unless they say that they need it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from omnigraph.errors import Unsupported
from omnigraph.spark.sessions import require_java
from tests import run

ONCE = "def once(name):\n    marker = Path(__file__).with_name(name)\n    if not marker.exists():\n        marker.touch()\n        "
STEADY = "def test_steady():\n    with (Path(__file__).with_name('steady')).open('a') as seen:\n        seen.write('x')\n"
HEAD = "from pathlib import Path\n"


@pytest.fixture(autouse=True)
def _not_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest --assert=plain")  # quicker by half


def judged(folder: Path, text: str, *, together: bool = False) -> run.Row:
    (folder / "test_tiny.py").write_text(HEAD + text)
    return run.run_suite(run.Suite("tiny", (".",), 60, together=together), ["."], fast=False, root=folder)


@pytest.mark.parametrize("together", [False, True], ids=["serial", "workers"])
def test_a_test_that_fails_once_is_unstable_and_one_that_fails_twice_fails(
    tmp_path: Path, together: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ONCE + "assert False\n" + "def test_moody():\n    once('moody')\n" + STEADY + "def test_broken():\n    assert False\n"
    row = judged(tmp_path, text, together=together)
    assert (row.ok, row.unstable, row.failed) == (False, ("test_tiny.py::test_moody",), ("test_tiny.py::test_broken",))
    assert (tmp_path / "steady").read_text() == "x"
    capsys.readouterr()
    assert run.report([row]) == 1
    shown = capsys.readouterr().out
    assert "FAILED tiny: test_tiny.py::test_broken\n" in shown
    assert "UNSTABLE tiny: test_tiny.py::test_moody\n" in shown
    assert "1 unstable: " in shown
    assert shown.endswith("1 passed, 1 failed\n")


def test_what_passes_the_second_time_does_not_fail_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = judged(tmp_path, ONCE + "assert False\n" + "def test_moody():\n    once('moody')\n" + STEADY)
    assert (row.ok, row.unstable, row.failed) == (True, ("test_tiny.py::test_moody",), ())
    assert run.report([row]) == 0
    assert "UNSTABLE tiny: test_tiny.py::test_moody\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("accident", "together"),
    [("raise ImportError", False), ("raise ImportError", True), ("import os; os._exit(3)", False)],
    ids=["collection", "collection by workers", "process"],
)
def test_a_suite_that_could_not_be_run_is_run_whole_once_more(tmp_path: Path, accident: str, together: bool) -> None:
    row = judged(tmp_path, ONCE + accident + "\nonce('accident')\n" + STEADY, together=together)
    assert (row.ok, row.unstable, row.failed) == (True, ("the whole suite",), ())
    assert (tmp_path / "steady").read_text() == "x"


@pytest.mark.parametrize("accident", ["raise ImportError", "import os; os._exit(3)"], ids=["collection", "process"])
def test_a_suite_that_can_never_be_run_fails(tmp_path: Path, accident: str) -> None:
    row = judged(tmp_path, accident + "\n" + STEADY)
    assert (row.ok, row.unstable, row.failed) == (False, (), ("the whole suite",))


def test_workers_that_collect_different_tests_are_run_whole_once_more(tmp_path: Path) -> None:
    text = "import os, pytest\n" + ONCE + "return os.getpid()\n    return 0\n"
    text += "@pytest.mark.parametrize('n', [once(os.environ.get('PYTEST_XDIST_WORKER', 'main'))])\ndef test_n(n):\n    pass\n"
    row = judged(tmp_path, text, together=True)
    assert (row.ok, row.unstable, row.failed) == (True, ("the whole suite",), ())


TOLD = """
import tempfile

def test_told(tmp_path):
    (tmp_path / "x").touch()
    Path(__file__).with_name("told").write_text(f"{tempfile.gettempdir()}\\n{tmp_path}")
"""


def told(folder: Path, *, on_disk: bool = False) -> list[Path]:
    """The folder of temporary files and that of a test, as a test of a suite sees them."""
    (folder / "test_tiny.py").write_text(HEAD + TOLD)
    assert run.run_suite(run.Suite("tiny", (".",), 60, together=False, on_disk=on_disk), ["."], fast=False, root=folder).ok
    return [Path(line) for line in (folder / "told").read_text().splitlines()]


def test_temporary_files_are_in_memory_and_none_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(run, "MEMORY", memory)
    monkeypatch.setattr(run, "MEMORY_BYTES", 1)
    assert all(memory in place.parents for place in told(tmp_path))
    assert list(memory.iterdir()) == []
    assert all(memory not in place.parents for place in told(tmp_path, on_disk=True))


def test_temporary_files_are_where_tmpdir_says_or_on_the_disk_if_memory_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MEMORY_BYTES", 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert all(tmp_path in place.parents for place in told(tmp_path))
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(run, "MEMORY_BYTES", 2**60)
    assert run.memory() is None
    monkeypatch.setattr(run, "MEMORY", tmp_path / "nowhere")
    assert run.memory() is None


def test_only_tests_that_are_marked_find_java() -> None:
    """So `./test --fast`, which leaves them out, needs none. This one is not marked."""
    with pytest.raises(Unsupported, match="java is not installed"):
        require_java()
