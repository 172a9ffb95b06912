"""The whole story as a person at a terminal lives it: every step a process of its own, one of them killed in mid-write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnigraph.faults import ENVIRONMENT, Fault
from tests.s3 import S3Server

ROOT = Path(__file__).resolve().parent.parent.parent
SCHEMA = "node Person {\n  name: String @key\n  born: I32?\n}\n\nedge Knows: Person -> Person\n"
QUERIES = """query add_person($name: String, $born: I32?) {
  insert Person { name: $name, born: $born }
}

query befriend($name: String, $friend: String) {
  insert Person { name: $name }
  insert Knows { from: $name, to: $friend }
}
"""
DELETE = "query q() { delete Person where born = 1 }"
KILLED = -9


class Shell:
    """A folder to stand in, and an environment."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.environment = environment
        (folder / "people.pg").write_text(SCHEMA)
        (folder / "people.gq").write_text(QUERIES)

    def __call__(self, *arguments: str, module: str = "omnigraph.cli.main", **environment: str) -> subprocess.CompletedProcess[str]:
        # The graph is addressed from the folder, the program is found from the root.
        paths = os.pathsep.join([str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.folder,
            env={**os.environ, **self.environment, "PYTHONPATH": paths, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        return done

    def ok(self, *arguments: str) -> str:
        done = self(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def add(self, name: str, *more: str) -> tuple[str, ...]:
        return ("mutate", "add_person", "--query", "people.gq", "--params", json.dumps({"name": name}), *more)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_from_birth_to_recovery(shell: Shell) -> None:
    here = ("--store", "graph.omni")
    assert shell.ok("init", "--schema", "people.pg", "graph.omni") == "initialized graph.omni\n"
    first = shell.json(*shell.add("Ada", *here, "--as", "act-ada"))["commit"]
    assert shell.ok("branch", "create", "review", "--uri", "graph.omni") == "created branch review from main\n"
    on_branch = shell.json(*shell.add("Grace", *here, "--branch", "review"))["commit"]
    assert on_branch["parent_commit_id"] == first["graph_commit_id"]

    history = shell.json("commit", "list", "graph.omni", "--branch", "review")["commits"]
    assert [commit["graph_branch"] for commit in history] == ["review", None, None]
    told = shell.json("commit", "show", on_branch["graph_commit_id"], *here)
    assert on_branch.items() <= history[0].items() <= told.items()
    assert "actor_id: act-ada" in shell.ok("commit", "show", first["graph_commit_id"], *here)

    def people(branch: str) -> int:
        datasets = shell.json("snapshot", "graph.omni", "--branch", branch)["datasets"]
        count: int = next(row["entity_count"] for row in datasets if row["type_name"] == "Person")
        return count

    assert (people("main"), people("review")) == (1, 2)

    befriend = ("mutate", "befriend", "--query", "people.gq", "--params", '{"name": "Alan", "friend": "Ada"}', *here, "--as", "act-alan")
    half_done = shell(*befriend, **{ENVIRONMENT: f"{Fault.WRITE_BETWEEN_TABLES.value}=kill"})
    assert (half_done.returncode, half_done.stdout) == (KILLED, "")
    assert [finding["code"] for finding in shell.json("verify", "graph.omni")["findings"]] == ["pending_intent"]
    assert people("main") == 1

    assert shell.ok(*shell.add("Barbara", *here)) == "changed main via add_person: 1 node, 0 edges\n"
    [undone] = shell.json("recovery", "list", "graph.omni")["recoveries"]
    assert (undone["outcome"], undone["writer"], undone["actor_id"]) == ("rolled_back", "mutate", "act-alan")
    assert people("main") == 2

    landed = shell(*befriend, **{ENVIRONMENT: f"{Fault.WRITE_COMMITTED.value}=kill"})
    assert landed.returncode == KILLED
    shell.ok(*shell.add("Edsger", *here))
    finished, _ = shell.json("recovery", "list", "graph.omni")["recoveries"]
    assert finished["outcome"] == "rolled_forward"
    assert f"rolled_forward mutate graph_branch=main commit={finished['graph_commit_id']}" in shell.ok("recovery", "list", "graph.omni")
    assert people("main") == 4

    assert shell.ok("verify", "graph.omni") == "verified graph.omni: 0 errors, 0 warnings\n"
    assert shell.ok("branch", "delete", "review", "--uri", "graph.omni") == "deleted branch review\n"
    assert shell.json("info", "graph.omni")["branches"] == 1


@pytest.mark.parametrize(
    ("arguments", "place", "remedy"),
    [
        (("snapshot", "empty"), "empty", "create a graph with `omnigraph init`"),
        (("snapshot", "missing"), "missing", "create a graph with `omnigraph init`"),
        (("snapshot", "people.pg"), "people.pg", "is a file; a graph needs a directory"),
        (("init", "--schema", "people.pg", "taken"), "taken", "choose an empty or a new directory"),
        (("init", "--schema", "people.pg", "graph.omni"), "graph.omni", "open it, or choose another place"),
        (("snapshot", "graph.omni", "--branch", "reviw"), "graph.omni", "did you mean 'review'?"),
        (("mutate", "-e", DELETE, "--branch", "x", "--store", "graph.omni"), "graph.omni", "branches: 'main', 'review'"),
    ],
)
def test_what_cannot_be_is_told_with_the_place_and_a_way_out(arguments: tuple[str, ...], place: str, remedy: str, made: Shell) -> None:
    done = made(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert place in done.stderr
    assert remedy in done.stderr


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    shell = Shell(tmp_path_factory.mktemp("made"))
    (shell.folder / "empty").mkdir()
    (shell.folder / "taken").mkdir()
    (shell.folder / "taken" / "somebody's").touch()
    shell.ok("init", "--schema", "people.pg", "graph.omni")
    shell.ok("branch", "create", "review", "--uri", "graph.omni")
    return shell


@pytest.fixture
def frozen() -> Iterator[Shell]:
    """A graph that nobody may write to, in a place that nobody may read (unlike pytest's own folders)."""
    place = Path(f"/tmp/omnigraph-cli-frozen-{os.getpid()}")
    place.mkdir()
    shell = Shell(place)
    try:
        shell.ok("init", "--schema", "people.pg", "graph.omni")
        subprocess.run(["chmod", "-R", "a-w", str(place)], check=True)
        yield shell
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(place)], check=True)
        shutil.rmtree(place)


def test_a_read_only_graph_can_be_looked_at_and_says_why_it_cannot_be_written(frozen: Shell) -> None:
    powerless = "tests.system.powerless"
    for command in (("snapshot",), ("commit", "list"), ("verify",), ("info",)):
        looked = frozen(*command, "graph.omni", module=powerless)
        assert looked.returncode == 0, looked.stderr
    writes: tuple[tuple[str, ...], ...] = (
        frozen.add("Ada", "--store", "graph.omni"),
        ("branch", "create", "review", "--uri", "graph.omni"),
        ("init", "--schema", "people.pg", "new.omni"),
    )
    for arguments in writes:
        refused = frozen(*arguments, module=powerless)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert str(frozen.folder) in refused.stderr
        assert "check the owner and the mode of the directory" in refused.stderr


@pytest.mark.s3
def test_a_graph_on_s3_with_settings_from_the_environment_and_from_flags(tmp_path: Path, s3_server: S3Server, s3_uri: str) -> None:
    options = s3_server.storage_options
    shell = Shell(
        tmp_path,
        AWS_ACCESS_KEY_ID=options["aws_access_key_id"],
        AWS_SECRET_ACCESS_KEY=options["aws_secret_access_key"],
        AWS_REGION=options["aws_region"],
        AWS_ENDPOINT_URL=s3_server.endpoint,
        AWS_ALLOW_HTTP="true",
    )
    assert shell.ok("init", "--schema", "people.pg", s3_uri) == f"initialized {s3_uri}\n"
    shell.ok(*shell.add("Ada", "--store", s3_uri))
    created = shell("branch", "create", "review", "--uri", s3_uri)
    assert created.stderr == f"omnigraph branch create → {s3_uri} (direct, remote)\n"

    refused = shell("branch", "delete", "review", "--uri", s3_uri)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "refusing destructive" in refused.stderr
    reader = ("--storage-option", f"aws_access_key_id={s3_server.reader_options['aws_access_key_id']}")
    assert "entities=1" in shell.ok(*reader, "snapshot", s3_uri)
    denied = shell(*reader, *shell.add("Eve", "--store", s3_uri))
    assert denied.returncode == 1
    assert s3_uri in denied.stderr

    assert shell.ok("branch", "delete", "review", "--uri", s3_uri, "--yes") == "deleted branch review\n"
    assert shell.ok("branch", "list", "--uri", s3_uri) == "main\n"
    assert shell.json("verify", s3_uri)["ok"] is True
