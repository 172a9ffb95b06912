"""The command line: what it prints, where, and with which exit code; and that asking for help loads nothing heavy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

import omnigraph
from omnigraph.cli import main
from omnigraph.cli.main import LEGEND, cli
from tests.unit.cli.calls import Call, run

REFERENCE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "user" / "cli.md"
HEAVY = {
    "msgspec",
    "lance",
    "pyarrow",
    "obstore",
    "pyspark",
    "numpy",
    "scipy",
    "rich",
    "wcwidth",
    "prompt_toolkit",
    "yaml",
    "omnigraph.lang",
}


def paths(group: click.Group) -> list[tuple[str, ...]]:
    """Every command and subcommand, as it is typed."""
    found: list[tuple[str, ...]] = []
    for name, command in group.commands.items():
        found.append((name,))
        if isinstance(command, click.Group):
            found += [(name, *rest) for rest in paths(command)]
    return found


@pytest.mark.parametrize("arguments", [("version",), ("--version",), ("-v",)])
def test_version_is_one_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"omnigraph {omnigraph.__version__}\n", "")


def test_version_as_json_names_what_it_stands_on() -> None:
    document = json.loads(run("version", "--json").stdout)
    assert document["version"] == omnigraph.__version__
    assert document["packages"]["pylance"] == "14.0.2"


def test_an_unknown_command_is_a_usage_error() -> None:
    done = run("nope")
    assert done.returncode == 2
    assert "No such command 'nope'" in done.stderr
    assert done.stdout == ""


def test_a_usage_error_is_json_too_when_asked_for() -> None:
    done = run("mutate", "--nope", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert json.loads(done.stderr.splitlines()[-1])["kind"] == "invalid_argument"


def test_help_loads_no_engine() -> None:
    """Help answers at once because nothing heavy is imported on the way to it: of the program, and of every command."""
    program = (
        "import sys\nfrom omnigraph.cli.main import run\nfor path in sys.argv[1:]:\n"
        "    assert run([*path.split(), '--help']) == 0\nprint('MODULES', *sys.modules)"
    )
    commands = ["", *(" ".join(path) for path in paths(cli))]
    done = subprocess.run([sys.executable, "-c", program, *commands], capture_output=True, text=True, check=True)
    text, _, modules = done.stdout.partition("MODULES")
    assert text.count("Usage: omnigraph") == len(commands)
    assert "omnigraph.cli.main" in modules.split()
    assert HEAVY.isdisjoint(modules.split())


def test_every_command_is_in_the_reference_and_in_the_legend() -> None:
    text = REFERENCE.read_text()
    assert cli.commands
    for name in cli.commands:
        assert f"## `omnigraph {name}`" in text
        assert name in LEGEND
    for path in paths(cli):
        assert f"omnigraph {' '.join(path)}" in text


@pytest.mark.parametrize("path", paths(cli))
def test_every_command_knows_the_global_flags(path: tuple[str, ...]) -> None:
    """It takes them, or says why it does not. Its help shows those that it takes (`test_scope.py`)."""
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    known = {spelling for parameter in command.params for spelling in parameter.opts}
    assert {"--store", "--as", "--yes", "--quiet", "--verbose", "--storage-option", "--profile"} <= known


def test_arguments_that_are_not_text_are_refused(call: Call) -> None:
    said = call("--as", "\udcff", "version")
    assert said.code == 2
    assert "is not UTF-8 text" in said.err


# -- the edge


def mistaken(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line with one command more, which has a mistake in it."""
    program = "import sys\nfrom omnigraph.cli.main import cli, main\n@cli.command()\ndef bad(): 1 / 0\nmain(sys.argv[1:])"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_a_mistake_of_ours_asks_for_a_report_and_shows_no_traceback() -> None:
    done = mistaken("bad")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: unexpected ZeroDivisionError: division by zero\n"
        "This is a bug in omnigraph. Please report it, with the output of --verbose.\n"
    )


def test_verbose_shows_the_traceback() -> None:
    done = mistaken("--verbose", "bad")
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "Error: unexpected ZeroDivisionError" in done.stderr


def test_interrupted_is_130_and_no_traceback(tmp_path: Path) -> None:
    """A real signal, while the command waits for its query to come through a pipe."""
    pipe = tmp_path / "queries.gq"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "omnigraph.cli.main", "mutate", "--query", str(pipe), "--store", "g.omni"]
    # Opening the pipe returns when the other side has opened it too: then the command is reading.
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running, open(pipe, "wb"):
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert running.returncode == main.INTERRUPTED
    assert out == ""
    assert err.strip() == "Error: interrupted"


PRINTING = (
    ("--version",),
    ("query", "--help"),
    ("query", "g", "-e", "match { $p: Person } return { $p.name }"),
    ("info", "g", "--json"),
    ("export", "g"),
)
"""What click prints itself, and what we print as text, as JSON and as bytes."""
BUFFERS = pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [*((one, "") for one in PRINTING), (PRINTING[1], "1"), (PRINTING[2], "1")],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
"""A stream with a buffer fails when it is flushed, one without when it is written to."""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    graph = omnigraph.init(folder / "g", schema="node Person { name: String @key }")
    graph.load([{"type": "Person", "data": {"name": "Ada"}}])
    return folder


def piped(folder: Path, command: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a shell does. `command` holds "$@", and the redirections after it."""
    line = ["sh", "-c", command, "sh", sys.executable, "-m", "omnigraph.cli.main", *arguments]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **environment})


@BUFFERS
def test_a_reader_that_leaves_is_no_error_to_speak_of(people: Path, arguments: tuple[str, ...], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "omnigraph.cli.main", *arguments],
        cwd=people,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@BUFFERS
def test_a_result_that_cannot_be_written_is_told(people: Path, arguments: tuple[str, ...], unbuffered: str) -> None:
    done = piped(people, '"$@" >/dev/full', *arguments, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: done, but the result could not be written to stdout: No space left on device\n",
    )


@BUFFERS
def test_a_closed_stdout_is_told(people: Path, arguments: tuple[str, ...], unbuffered: str) -> None:
    done = piped(people, '"$@" >&-', *arguments, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "Error: done, but the result could not be written to stdout: it is closed\n")


@pytest.mark.parametrize(
    ("arguments", "code"), [(("bogus",), 2), ((), 2), (("info", "nowhere"), 1), (("query", "g", "-e", "match"), 1), (("info", "g"), 0)]
)
def test_what_a_closed_stderr_loses_does_not_go_to_stdout(people: Path, arguments: tuple[str, ...], code: int) -> None:
    done = piped(people, '"$@" 2>&-', *arguments)
    assert (done.returncode, done.stderr) == (code, "")
    assert ("uri:" in done.stdout) == (code == 0)
    assert piped(people, '"$@" >&- 2>&-', *arguments).returncode == max(code, 1)


def test_no_file_of_the_graph_gets_the_number_of_a_closed_stream(people: Path, tmp_path: Path) -> None:
    """A library that prints to descriptor 2 would otherwise print into a table."""
    (tmp_path / "s.pg").write_text("node Person { name: String @key }")
    (tmp_path / "d.jsonl").write_text('{"type":"Person","data":{"name":"Ada"}}')
    closed = '"$@" <&- >&- 2>&-'
    assert piped(tmp_path, closed, "init", "g", "--schema", "s.pg").returncode == 1, "it said so to nobody"
    assert piped(tmp_path, closed, "load", "g", "--data", "d.jsonl", "--mode", "append").returncode == 1
    graph = omnigraph.open(tmp_path / "g")
    assert list(graph.query("match { $p: Person } return { $p.name as name }")) == [{"name": "Ada"}]
    assert [finding for finding in graph.verify(deep=True) if finding.severity == "error"] == []


def test_a_closed_stdin_cannot_be_loaded(people: Path) -> None:
    done = piped(people, '"$@" <&-', "load", "g", "--data", "-", "--mode", "append", "--quiet")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: stdin (-) cannot be loaded: it is closed")


def test_a_command_does_without_pandas_and_whoever_asks_for_it_later_gets_it(tmp_path: Path) -> None:
    """Importing it takes as long as all the rest of a command."""
    graph = omnigraph.init(tmp_path / "g", schema="node Person { name: String @key }")
    program = (
        "import sys\n"
        "from omnigraph.cli.main import run\n"
        "assert run(['info', sys.argv[1]]) == 0\n"
        "assert 'lance' in sys.modules and 'pandas' not in sys.modules\n"
        "import pyarrow\n"
        "print(pyarrow.table({'n': [1, 2]}).to_pandas()['n'].sum())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, graph.uri], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["3"], done.stderr


LONG = "x" * 5_000


@pytest.mark.parametrize(
    "arguments",
    [
        (LONG,),
        ("branch", LONG),
        ("branch", "list", "g.omni", LONG, LONG),
        ("load", "g.omni", "--mode", LONG, "--data", "x"),
        (f"--{LONG}",),
        ("branch", "create", "g.omni", LONG),
        ("branch", "delete", "g.omni", LONG),
        ("branch", "merge", "g.omni", LONG),
        ("commit", "show", "g.omni", LONG),
        ("commit", "diff", "g.omni", LONG, "main"),
        ("tag", "create", "g.omni", LONG),
        ("log", "g.omni", LONG, LONG),
        ("query", "g.omni", LONG, "-e", "query a() { match { $p: Person } return { $p } }"),
        ("query", "g.omni", "-e", f"match {{ $p: {LONG} }} return {{ $p }}"),
        ("query", "g.omni", "-e", "match { $p: Person } return { $p }", "--snapshot", LONG),
        ("query", "g.omni", "-e", "match { $p: Person } return { $p }", "--params", json.dumps({LONG: 1})),
        ("query", LONG, "-e", "match { $p: Person } return { $p }", "--store", "g.omni"),
        ("info", LONG),
        ("export", "g.omni", "--type", LONG),
        ("blob", "get", "g.omni", "node", "Person", LONG, "photo"),
        ("load", "g.omni", "--mode", "merge", "--data", LONG),
        ("load", "g.omni", "--mode", "merge", "--data", f"{LONG}=people.csv"),
        ("snapshot", "g.omni", "--branch", LONG),
        ("info", "--profile", LONG),
        ("schema", "check", LONG),
        ("lint", "g.omni", "--query", LONG),
    ],
    ids=lambda arguments: " ".join(argument.replace(LONG, "LONG") for argument in arguments),
)
def test_an_error_repeats_only_a_part_of_a_long_argument(arguments: tuple[str, ...], graph: str, call: Call) -> None:
    said = call(*arguments)
    assert said.code in (1, 2)
    assert "Traceback" not in said.err
    assert LONG not in said.err
    assert len(said.err) < 3_000, said.err
    assert LONG not in call(*arguments, "--json").err
