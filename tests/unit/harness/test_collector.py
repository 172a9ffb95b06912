"""The collector under a real pytest: one test for each case, failures that show both sides, and the rules about pending cases."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CONFTEST = """
from pathlib import Path
from tests.harness.collector import SpecPlugin
from tests.harness.engine import Table

class Engine:
    def graph(self, schema, data): return self
    def query(self, source, *, name, params): return Table(("x",), ((1,),))
    def close(self): pass

def pytest_configure(config):
    plugin = SpecPlugin(Path(__file__).parent, {options})
    config.pluginmanager.register(plugin, "omnigraph-spec")
"""
SCHEMA = "--- schema\nnode A { x: I32 }\n"
QUERY = "--- query\nquery q() { match { $a: A } return { $a.x as x } }\n"
PENDING = f"=== reads\n{SCHEMA}{QUERY}--- rows\nx\n1\n"
GOOD = f"=== good\n{SCHEMA}--- catalog\nnode A.x: I32\n"
WRONG = f"=== wrong it says I64\n{SCHEMA}--- catalog\nnode A.x: I64\n"


def run(folder: Path, *arguments: str, options: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.replace("{options}", options))
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider", "-rs"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run([*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_wrong_expectations_fail_and_show_both_sides(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_text(f"{GOOD}{WRONG}{PENDING}=== broken\n{SCHEMA}{QUERY}--- rows\nx\nnull\n")
    (tmp_path / "b.pgt").write_text("=== a\n--- schema\n--- catalogue\n")
    done = run(tmp_path, "--continue-on-collection-errors")
    assert done.returncode == 1
    assert f"{tmp_path / 'a.gqt'}:9: case wrong (it says I64), schema: other facts" in done.stdout
    assert "! node A.x: I64" in done.stdout
    assert "| node A.x: I32" in done.stdout
    assert "no value of column `x` looks like this" in done.stdout
    assert f"{tmp_path / 'b.pgt'}:3: no section is called `catalogue`; did you mean `catalog`?" in done.stdout
    assert "Traceback" not in done.stdout
    assert "spec: 4 cases, 3 executed, 1 pending" in done.stdout
    assert "pending: needs the engine" in done.stdout
    assert "2 failed, 1 passed, 1 skipped, 1 error" in done.stdout


def test_an_engine_only_has_to_be_named(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_text(GOOD + PENDING)
    done = run(tmp_path, options="engine=Engine(), pending_allowed=False, must_execute=['good', 'reads']")
    assert done.returncode == 0
    assert "spec: 2 cases, 2 executed, 0 pending" in done.stdout


def test_nothing_stays_pending_once_that_is_forbidden(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_text(GOOD + PENDING)
    done = run(tmp_path, options="pending_allowed=False")
    assert done.returncode == 1
    assert "case reads is pending: needs the engine, and nothing may be pending" in done.stdout


def test_a_whole_run_executes_what_it_must(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_text(GOOD)
    options = "pending_allowed=False, must_execute=['good', 'gone']"
    whole = run(tmp_path, options=options)
    assert whole.returncode == 1
    assert "spec: these had to execute and did not: gone" in whole.stdout
    (tmp_path / "b.gqt").write_text(PENDING)
    for part in (("a.gqt",), ("-k", "good"), ("a.gqt", "-n", "1", "-p", "xdist.plugin")):
        done = run(tmp_path, *part, options=options)
        assert done.returncode == 0, done.stdout


def test_cases_are_counted_across_processes(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_text(GOOD + PENDING)
    done = run(tmp_path, "-n", "1", "-p", "xdist.plugin", options="engine=Engine(), pending_allowed=False, must_execute=['good', 'gone']")
    assert done.returncode == 1
    assert "spec: 2 cases, 2 executed, 0 pending" in done.stdout
    assert "spec: these had to execute and did not: gone" in done.stdout


def test_an_awaited_case_is_pending_while_it_fails_and_reported_when_it_passes(tmp_path: Path) -> None:
    (tmp_path / "a.gqt").write_text(PENDING.replace("x\n1\n", "x\n2\n"))
    options = "engine=Engine(), pending_allowed=False, must_execute=['reads'], awaited={'reads': 'search'}"
    waiting = run(tmp_path, options=options)
    assert waiting.returncode == 0
    assert "pending: waits for search" in waiting.stdout
    assert "spec: 1 cases, 0 executed, 1 pending" in waiting.stdout
    (tmp_path / "a.gqt").write_text(PENDING)
    done = run(tmp_path, options=options)
    assert done.returncode == 1
    assert "case reads passes: it need not wait for search any more" in done.stdout
