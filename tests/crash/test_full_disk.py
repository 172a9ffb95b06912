"""The last bytes of a data file do not fit: a load is acknowledged and readable, or refused and without a trace; earlier rows stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.squeezed import FREE_PAGES, ROWS
from tests.crasher import ROOT
from tests.mounts import private_mount

pytestmark = pytest.mark.crash


def run(doing: str, folder: Path, prefix: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*prefix, sys.executable, "-m", "tests.crash.squeezed", doing, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def check(report: dict[str, Any]) -> None:
    shown = 1 + len(ROWS) if report["heard"] == "done" else 1
    assert (report["wrong"], report["rows"], report["after"]) == ([], shown, shown + 1), report
    assert report["heard"] in ("done", "torn_file", "storage_full")


def test_a_file_that_may_not_grow_so_large_is_not_acknowledged(tmp_path: Path) -> None:
    (report,) = run("limited", tmp_path)
    check(report)
    assert report["heard"] != "done"


def test_a_disk_that_is_full_for_a_moment_leaves_no_torn_file(tmp_path: Path) -> None:
    if (prefix := private_mount(tmp_path, "size=8m")) is None:
        pytest.skip("mounting is not allowed here")
    reports = run("full", tmp_path, prefix)
    assert len(reports) == len(FREE_PAGES)
    for report in reports:
        check(report)
    assert {report["heard"] == "done" for report in reports} == {True, False}, "it must be too little for some and enough for others"
