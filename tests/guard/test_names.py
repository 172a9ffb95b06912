"""The names of all tests: the same in every process, in plain text of bounded length."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
LONGEST: Final = 255
COLLECT: Final = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "--assert=plain", "tests")


def collected(seed: str, **environment: str) -> list[str]:
    surroundings = {**os.environ, "PYTHONHASHSEED": seed, **environment}
    done = subprocess.run([sys.executable, *COLLECT], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_two_processes_give_all_tests_the_same_plain_names(tmp_path: Path) -> None:
    """Workers that collect apart must agree, whatever the second, the hash seed and the place of temporary files."""
    began = int(time.time())
    first = collected("1", TMPDIR=str(tmp_path))
    while int(time.time()) == began:
        time.sleep(0.05)
    second = collected("2", PYTEST_XDIST_WORKER="gw1")
    assert len(first) > 1000
    assert first == second
    assert len(set(first)) == len(first)
    assert [name for name in first if not all(" " <= sign <= "~" for sign in name) or "\\" in name] == []
    assert [name for name in first if any(sign in name for sign in ("<lambda>", "<function", " object at ", "0x7f"))] == []
    assert [name for name in first if len(name) > LONGEST] == []
