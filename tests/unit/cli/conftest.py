"""A graph of people to call the command line on."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from omnigraph.cli import main
from tests.unit.cli.calls import NEXT_SCHEMA, QUERIES, RECORDS, SCHEMA, WRONG_RECORDS, Call, Said


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """The command line with its edge, in this process."""

    def calling(*arguments: str) -> Said:
        capsys.readouterr()
        code = main.run(list(arguments))
        return Said(code, *capsys.readouterr())

    return calling


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a schema and queries."""
    (tmp_path / "people.pg").write_text(SCHEMA)
    (tmp_path / "people-next.pg").write_text(NEXT_SCHEMA)
    (tmp_path / "people.gq").write_text(QUERIES)
    (tmp_path / "people.ndjson").write_text(RECORDS)
    (tmp_path / "wrong.ndjson").write_text(WRONG_RECORDS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def graph(files: Path) -> str:
    """A graph with Ada in it, written by act-ada."""
    runner = CliRunner()
    assert runner.invoke(main.cli, ["init", "--schema", "people.pg", "g.omni"]).exit_code == 0
    added = ["--as", "act-ada", "mutate", "add_person", "--query", "people.gq", "--params", '{"name": "Ada"}', "--store", "g.omni"]
    assert runner.invoke(main.cli, added).exit_code == 0
    return "g.omni"
