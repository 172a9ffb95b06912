"""How a process leaves: with the exit code of its work and all of its output, whatever threads are still inside Lance."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og

ROWS = 60_000
OFTEN, SELDOM = 5, 3
"""A daemon thread was met in the wrong place nine times of ten."""
QUERY = "query all() { match { $p: P } return { $p.bio as bio } order { bio } }"
OMNIGRAPH = (sys.executable, "-m", "omnigraph.cli.main")
DAEMON = f"""
import sys, threading
import omnigraph as og
graph = og.open(sys.argv[1], mode="r")
started = threading.Event()
def work():
    started.set()
    while True:
        try:
            graph.query({QUERY!r}, **({{"timeout": 60.0}} if sys.argv[2] == "limited" else {{}}))
        except og.LimitError:
            pass  # the process ends
threading.Thread(target=work, daemon=True).start()
started.wait()
print("done")
"""
OTHER_CALLS = """
import sys, threading
import omnigraph as og
graph = og.open(sys.argv[1])
work = {
    "export": lambda: list(graph.export()),
    "load": lambda: graph.load({"P": sys.argv[1] + ".csv"}),
    "verify": lambda: graph.verify(deep=True),
    "open": lambda: og.open(sys.argv[1]).info(),
    "branches": lambda: (graph.branches.create("b"), graph.branches.delete("b")),
}[sys.argv[2]]
begun = threading.Event()
def repeat():
    while True:
        begun.set()
        try:
            work()
        except Exception:  # Python's own pools of threads take no more work: the call ends with an error, as a killed one would
            return
threading.Thread(target=repeat, daemon=True).start()
begun.wait()
print("done")
"""
EXPORTED = """
import sys
import omnigraph as og
lines = iter(og.open(sys.argv[1], mode="r").export())
print(next(lines)[:9])
"""
OVERDUE = f"""
import sys
import omnigraph as og
try:
    og.open(sys.argv[1], mode="r").query({QUERY!r}, timeout=0.01)
except og.LimitError:
    print("late")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaving")
    graph = og.init(folder / "graph.omni", schema="node P { name: String @key  bio: String }")
    names = [f"p{number:06}" for number in range(ROWS)]
    graph.load({"P": pa.table({"name": names, "bio": [f"{name:>200}" for name in names]})})
    (folder / "all.gq").write_text(QUERY)
    return folder


@pytest.mark.parametrize(
    ("program", "more", "said", "times"),
    [
        (DAEMON, "free", "done", OFTEN),
        (DAEMON, "limited", "done", OFTEN),
        (EXPORTED, "", '{"type":"', SELDOM),
        (OVERDUE, "", "late", SELDOM),
    ],
    ids=["daemon thread", "daemon thread with a limit", "export begun", "query overdue"],
)
def test_a_process_that_ends_while_a_scan_is_under_way_ends_well(place: Path, program: str, more: str, said: str, times: int) -> None:
    """Python would end a thread inside Lance when the interpreter goes down, which aborts the process."""
    for _ in range(times):
        command = [sys.executable, "-c", program, str(place / "graph.omni"), more]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{said}\n", "")


@pytest.mark.parametrize("call", ["export", "load", "verify", "open", "branches"])
def test_a_process_that_ends_during_any_call_on_a_daemon_thread_ends_well(place: Path, call: str) -> None:
    (place / "graph.omni.csv").write_text("name,bio\nextra,text\n")
    for _ in range(SELDOM):
        command = [sys.executable, "-c", OTHER_CALLS, str(place / "graph.omni"), call]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    graph = og.open(place / "graph.omni")
    assert [finding for finding in graph.verify() if finding.severity == "error"] == []


def test_a_command_that_ran_out_of_time_leaves_at_once_with_its_code(place: Path) -> None:
    for _ in range(SELDOM):
        command = [*OMNIGRAPH, "query", "all", "--query", "all.gq", "--store", "graph.omni", "--timeout", "0.01"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert (
            done.stderr
            == "Error: the query did not finish within 0.01 s; increase the timeout, or narrow the query\n  in the graph graph.omni\n"
        )


def test_output_is_whole_when_it_is_read_slowly(place: Path) -> None:
    """More than a pipe holds: what was written before the process leaves must reach the reader."""
    with subprocess.Popen([*OMNIGRAPH, "export", "graph.omni"], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        time.sleep(0.2)  # it fills the pipe and waits; nothing below rests on how far it got
        text = b"".join(iter(lambda: process.stdout.read(1 << 16), b""))  # type: ignore[union-attr]  # it is a pipe
        assert (process.wait(60), process.stderr.read()) == (0, b"")  # type: ignore[union-attr]  # it is a pipe
    assert text.count(b"\n") == ROWS
    assert text.endswith(b"}}\n")


def test_a_reader_that_leaves_is_no_error_of_the_process(place: Path) -> None:
    with subprocess.Popen([*OMNIGRAPH, "export", "graph.omni"], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("--help",), 0), (("--version",), 0), (("nonsense",), 2), (("query", "--nonsense"), 2), (("info", "nowhere.omni"), 1)],
    ids=["help", "version", "command", "option", "graph"],
)
def test_every_way_out_keeps_its_exit_code(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    done = subprocess.run([*OMNIGRAPH, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code
    assert (done.stdout if code == 0 else done.stderr).endswith("\n")


def test_what_was_to_be_done_at_the_end_is_done(tmp_path: Path) -> None:
    program = "import atexit, sys\nfrom omnigraph.cli.main import main\natexit.register(print, 'swept')\nmain(sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", program, "version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "swept"
