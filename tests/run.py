"""`python -m tests.run`: static checks, then each test suite in a process of its own, with its seconds against its budget."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.samples import ENVIRONMENT as ALL

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PASSED = (0, 5)
"""How pytest leaves when all passed, and when no test was selected."""
SOME_FAILED = 1
WHOLE = "the whole suite"
FAST = "not s3 and not crash and not spark"
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 8 * 2**30
"""How much must be free in memory for the graphs of a suite to lie there."""


class Suite(NamedTuple):
    """One row of the report.

    `together`: its tests may share the machine with each other. `slow`: left out by --fast. `on_disk`: its temporary files are on the
    disk even where there is room for them in memory.
    """

    name: str
    folders: tuple[str, ...]
    budget_seconds: int
    together: bool = True
    slow: bool = False
    on_disk: bool = False


SUITES = (
    Suite("unit", ("tests/unit", "tests/spec"), 380),
    Suite("guard", ("tests/guard",), 30, on_disk=True),
    Suite("contract", ("tests/contract",), 150, on_disk=True),
    Suite("state", ("tests/state",), 30),
    Suite("differential", ("tests/differential",), 260),
    Suite("cost", ("tests/cost",), 40, together=False),
    Suite("crash", ("tests/crash",), 370, slow=True),
    Suite("spark", ("tests/spark",), 150, slow=True),
    Suite("spark_cluster", ("tests/spark_cluster",), 270, together=False, slow=True),
    Suite("system", ("tests/system",), 100, on_disk=True),
)

CHECKS = (
    ("ruff", ("ruff", "check", ".")),
    ("format", ("ruff", "format", "--check", "--quiet", ".")),
    ("mypy", ("mypy",)),
    ("imports", ("lint-imports", "--no-logo")),
)


class Row(NamedTuple):
    """What came of a check or a suite: `failed` twice, or `unstable`: failed, and passed when it was run again."""

    name: str
    seconds: float
    budget_seconds: int | None
    passed: int = 0
    failed: tuple[str, ...] = ()
    unstable: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failed


def main() -> int:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes are started: each would compile all of us again
    options = _options()
    if options.all:
        os.environ[ALL] = "1"
    rows = [] if options.only else [_check(name, command) for name, command in CHECKS]
    for suite in SUITES:
        if options.only and suite.name not in options.only:
            continue
        if options.fast and suite.slow:
            continue
        folders = [folder for folder in suite.folders if any((ROOT / folder).rglob("test_*.py")) or any((ROOT / folder).rglob("*.gqt"))]
        if folders:
            rows.append(run_suite(suite, folders, fast=options.fast))
    return report(rows)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./test", description=__doc__)
    parser.add_argument("--fast", action="store_true", help="leave out Spark, S3 and crash tests")
    parser.add_argument("--all", action="store_true", help="give sampled tests their full samples (hours)")
    parser.add_argument("only", nargs="*", choices=[*(suite.name for suite in SUITES), []], help="run these suites only")
    return parser.parse_args()


def _check(name: str, command: tuple[str, ...]) -> Row:
    print(f"== {name}", flush=True)
    began = time.monotonic()
    done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False)
    return Row(name, time.monotonic() - began, None, failed=() if done.returncode == 0 else ("the check",))


def run_suite(suite: Suite, folders: list[str], *, fast: bool, root: Path = ROOT) -> Row:
    """Runs a suite, and once more, one after another, the tests that failed; whole, when no test could be blamed."""
    print(f"== {suite.name}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *folders, *(["-m", FAST] if fast else [])]
    workers = ["-n", str(os.cpu_count() or 2), "--dist", "worksteal"] if suite.together else []
    began = time.monotonic()
    with TemporaryDirectory(dir=memory() if not suite.on_disk else None) as folder:
        environment = _environment(Path(folder))
        cache = Path(folder) / "cache"
        command += ["-o", f"cache_dir={cache}", "-o", "tmp_path_retention_policy=failed"]  # what passed need not take memory
        first = second = _pytest([*command, *workers], root, environment)
        blamed = _blamed(cache)
        failed: tuple[str, ...] = ()
        unstable: tuple[str, ...] = ()
        if first.code in PASSED:
            pass
        elif first.code == SOME_FAILED and blamed:
            print(f"== {suite.name}: what failed, once more", flush=True)
            second = _pytest([*command, "--last-failed"], root, environment)
            failed = _blamed(cache) or ((WHOLE,) if second.code not in PASSED else ())
            unstable = tuple(name for name in blamed if name not in failed) if WHOLE not in failed else ()
        else:
            print(f"== {suite.name}: all of it, once more", flush=True)
            first = second = _pytest([*command, *workers], root, environment)
            failed = () if second.code in PASSED else _blamed(cache) or (WHOLE,)
            unstable = () if failed else (WHOLE,)
    return Row(suite.name, time.monotonic() - began, suite.budget_seconds, first.passed, failed, unstable)


def memory() -> Path | None:
    """Where temporary files never wait for a disk; None where there is too little room, or where TMPDIR names another place."""
    try:
        available = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
        free_bytes = min(shutil.disk_usage(MEMORY).free, 1024 * int(available[1]) if available else 0)
    except OSError:
        return None
    return MEMORY if free_bytes >= MEMORY_BYTES and os.access(MEMORY, os.W_OK) and "TMPDIR" not in os.environ else None


def _environment(folder: Path) -> dict[str, str]:
    """Of a suite whose temporary files are below `folder`, which other users may enter: some tests become one."""
    temporary = folder / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    folder.chmod(0o755)
    return {**os.environ, "TMPDIR": str(temporary)}


class _Run(NamedTuple):
    code: int
    passed: int


def _pytest(command: list[str], root: Path, environment: dict[str, str]) -> _Run:
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as running:
        last = ""
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    found = re.search(r"(\d+) passed", last)
    return _Run(running.returncode, int(found.group(1)) if found else 0)


def _blamed(cache: Path) -> tuple[str, ...]:
    """The tests that failed last, as pytest remembers them. A name without `::` is no test but a file or a worker."""
    try:
        names = json.loads((cache / "v" / "cache" / "lastfailed").read_text())
    except FileNotFoundError:
        return ()
    return tuple(sorted(names)) if all("::" in name for name in names) else ()


def report(rows: list[Row]) -> int:
    print("\nsuite          seconds   budget")
    for row in rows:
        budget = f"{row.budget_seconds:6d}" if row.budget_seconds is not None else "     -"
        over = "  over budget" if row.budget_seconds is not None and row.seconds > row.budget_seconds else ""
        said = "FAILED" if not row.ok else "ok, UNSTABLE" if row.unstable else "ok"
        print(f"{row.name:12s} {row.seconds:9.1f}   {budget}   {said}{over}")
    print(f"total        {sum(row.seconds for row in rows):9.1f}")
    for row in rows:
        for name in row.unstable:
            print(f"UNSTABLE {row.name}: {name}")
        for name in row.failed:
            print(f"FAILED {row.name}: {name}")
    if unstable := sum(len(row.unstable) for row in rows):
        print(f"{unstable} unstable: failed, and passed when run again")
    print(f"{sum(row.passed for row in rows)} passed, {sum(len(row.failed) for row in rows)} failed")
    return 0 if rows and all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
