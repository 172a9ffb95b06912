"""`python -m tests.run`: static checks, then each test suite in a process of its own, with its seconds against its budget."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
NO_TESTS = 5


class Suite(NamedTuple):
    """One row of the report. `together`: its tests may share the machine with each other. `slow`: left out by --fast."""

    name: str
    folders: tuple[str, ...]
    budget_seconds: int
    together: bool = True
    slow: bool = False


SUITES = (
    Suite("unit", ("tests/unit", "tests/spec"), 240),
    Suite("guard", ("tests/guard",), 90),
    Suite("contract", ("tests/contract",), 120),
    Suite("state", ("tests/state",), 180),
    Suite("differential", ("tests/differential",), 240),
    Suite("cost", ("tests/cost",), 60, together=False),
    Suite("crash", ("tests/crash",), 300, slow=True),
    Suite("spark", ("tests/spark",), 300, together=False, slow=True),
    Suite("spark_cluster", ("tests/spark_cluster",), 300, together=False, slow=True),
    Suite("system", ("tests/system",), 120, together=False),
)

CHECKS = (
    ("ruff", ("ruff", "check", ".")),
    ("format", ("ruff", "format", "--check", "--quiet", ".")),
    ("mypy", ("mypy",)),
    ("imports", ("lint-imports", "--no-logo")),
)


class Row(NamedTuple):
    name: str
    seconds: float
    budget_seconds: int | None
    ok: bool
    counts: str = ""


def main() -> int:
    # Started in the background of a shell we would ignore interrupts, and so would every process that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes are started: each would compile all of us again
    options = _options()
    rows = [] if options.only else [_check(name, command) for name, command in CHECKS]
    for suite in SUITES:
        if options.only and suite.name not in options.only:
            continue
        if options.fast and suite.slow:
            continue
        folders = [folder for folder in suite.folders if any((ROOT / folder).rglob("test_*.py")) or any((ROOT / folder).rglob("*.gqt"))]
        if folders:
            rows.append(_suite(suite, folders, fast=options.fast))
    return _report(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./test", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out Spark, S3 and crash tests")
    parser.add_argument("only", nargs="*", choices=[*(suite.name for suite in SUITES), []], help="run these suites only")
    return parser.parse_args()


def _check(name: str, command: tuple[str, ...]) -> Row:
    print(f"== {name}", flush=True)
    began = time.monotonic()
    done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False)
    return Row(name, time.monotonic() - began, None, done.returncode == 0)


def _suite(suite: Suite, folders: list[str], *, fast: bool) -> Row:
    print(f"== {suite.name}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *folders]
    if suite.together:
        command += ["-n", str(os.cpu_count() or 2), "--dist", "worksteal"]
    if fast:
        command += ["-m", "not s3 and not crash"]
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        last = ""
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return Row(suite.name, time.monotonic() - began, suite.budget_seconds, running.returncode in (0, NO_TESTS), last)


def _report(rows: list[Row]) -> int:
    print("\nsuite          seconds   budget")
    passed = failed = 0
    for row in rows:
        budget = f"{row.budget_seconds:6d}" if row.budget_seconds is not None else "     -"
        over = "  over budget" if row.budget_seconds is not None and row.seconds > row.budget_seconds else ""
        print(f"{row.name:12s} {row.seconds:9.1f}   {budget}   {'ok' if row.ok else 'FAILED'}{over}")
        passed += _count(row.counts, "passed")
        failed += _count(row.counts, "failed") + _count(row.counts, r"errors?")
    print(f"total        {sum(row.seconds for row in rows):9.1f}")
    print(f"{passed} passed, {failed} failed")
    return 0 if rows and all(row.ok for row in rows) else 1


def _count(line: str, word: str) -> int:
    found = re.search(rf"(\d+) {word}", line)
    return int(found.group(1)) if found else 0


if __name__ == "__main__":
    sys.exit(main())
