"""The command line: what it prints, where, and with which exit code; and that asking for help loads nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.cli.main import cli

REFERENCE = Path(__file__).resolve().parent.parent.parent.parent / "docs" / "user" / "cli.md"
HEAVY = {"lance", "pyarrow", "obstore", "pyspark", "numpy", "scipy"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "omnigraph.cli.main", *arguments], capture_output=True, text=True, check=False)


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


def test_help_loads_no_engine() -> None:
    """Help answers at once because nothing heavy is imported on the way to it."""
    program = "import sys\ntry:\n    from omnigraph.cli.main import main\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    assert HEAVY.isdisjoint(done.stdout.split())


def test_every_command_is_in_the_reference() -> None:
    text = REFERENCE.read_text()
    assert cli.commands
    for name in cli.commands:
        assert f"## `omnigraph {name}`" in text
