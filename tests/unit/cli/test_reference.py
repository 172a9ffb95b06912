"""The examples of the reference, done again in their order: what they show is what is printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from omnigraph.faults import ENVIRONMENT, Fault
from tests.unit.cli.calls import NEXT_SCHEMA, QUERIES, RECORDS, SCHEMA, WRONG_RECORDS, Call

REFERENCE = (Path(__file__).parents[3] / "docs/user/cli.md").read_text("utf-8")
INTRODUCE = ("mutate", "introduce", "--query", "people.gq", "--params", '{"from": "Grace", "to": "Ada"}', "--store", "graph.omni")

# What another run has different: ids, moments, the ends of native names, the place, the Python.
VOLATILE = (
    (r"\b(?!01ARZ3NDEKTSV4RRFFQ69G5FAV)[0-9A-HJKMNP-TV-Z]{26}\b", "ULID"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", "TIME"),
    (r'"created_at": \d+', "CREATED"),
    (r"(?m)^[0-9A-HJKMNP-TV-Z]{8,26}  just now", "ULID  just now"),
    (r"\b[0-9A-HJKMNP-TV-Z]{8,26} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b", "ULID TIME"),
    (r"review-[0-9a-f]{16}", "review-NATIVE"),
    (r"(?m)^uri: .*/", "uri: /"),
    (r"graph at /.*/", "graph at /"),
    (r"python: .*", "python"),
    (r"graph_manifest_version: \d+", "VERSION"),
    (r"[\d,]+ bytes", "BYTES"),
)


def steady(text: str) -> str:
    for pattern, name in VOLATILE:
        text = re.sub(pattern, name, text)
    return text


def examples() -> list[tuple[str, str]]:
    """Each command about people that the reference shows, with what it says is printed."""
    blocks = re.findall(r"^```\n(\$ .*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)
    shown = [one.partition("\n") for block in blocks for one in re.split(r"^\$ ", block, flags=re.MULTILINE) if one]
    return [(command, printed) for command, _, printed in shown if "graph.omni" in command]


def interrupt_a_write(call: Call) -> None:
    environment = {**os.environ, ENVIRONMENT: f"{Fault.WRITE_ARMED.value}=kill"}
    command = [sys.executable, "-m", "omnigraph.cli.main", *INTRODUCE, "--as", "act-grace"]
    assert subprocess.run(command, env=environment, capture_output=True, check=False).returncode == -9
    assert call(*INTRODUCE).code == 0


def test_the_files_are_as_shown() -> None:
    assert f"```\n{SCHEMA}```" in REFERENCE
    assert f"```\n{NEXT_SCHEMA}```" in REFERENCE
    assert f"```\n{QUERIES}```" in REFERENCE
    assert f"```\n{RECORDS}```" in REFERENCE
    assert f"```\n{WRONG_RECORDS}```" in REFERENCE


def test_the_examples_print_what_is_shown(files: Path, call: Call) -> None:
    assert len(examples()) > 12
    for command, shown in examples():
        if command.startswith("omnigraph recovery"):
            interrupt_a_write(call)
        said = call(*shlex.split(command)[1:])
        printed = said.err + said.out if said.code == 0 else said.out + said.err
        assert steady(printed) == steady(shown), command
