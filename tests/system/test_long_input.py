"""Every public call and every command with a text of 5,000 characters in each of its places: no message repeats more than a part of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import click
import pytest

import omnigraph as og
from omnigraph.cli import main
from omnigraph.errors import OmniGraphError
from tests.unit.test_arguments import READ, SCHEMA, calls

LONG = {"a word": "y" * 5_000, "words": "it's so " * 625}
MOST_CHARACTERS = 1_000
"""A message, with the usage before it and the note after it. It may repeat 200 characters of a value, and more than one value."""
UPDATE = 'update Person set { born: 1 } where name = "nobody"'
OTHERS = {
    "schema_file": "s.pg",
    "data": "p.jsonl",
    "mode": "merge",
    "entity": "node",
    "type_name": "Person",
    "source": "work",
    "a": "main",
    "b": "work",
    "file": "s.pg",
    "input": "p.jsonl",
    "output": "o.jsonl",
    "spec": "s.yaml",
    "queries": "q.gq",
    "shell": "bash",
}
"""What the other parameters of a command get if it needs them."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for name, one in command.commands.items():
            yield from commands(one, (*path, name))
    elif path[0] != "spark":  # which shares its options with load and export, and starts Java
        yield path, command


def long_parameters() -> list[tuple[tuple[str, ...], str]]:
    found = dict(commands(main.cli))
    return [
        (path, str(parameter.name))
        for path, command in found.items()
        for parameter in command.params
        if not (isinstance(parameter, click.Option) and parameter.is_flag)
    ]


def line(path: tuple[str, ...], long: str, text: str) -> list[str]:
    """Return the command with a long text as one of its parameters, and with the others that it needs."""
    command = dict(commands(main.cli))[path]
    words = list(path)
    for parameter in command.params:
        value = text if parameter.name == long else OTHERS.get(str(parameter.name), "x") if parameter.required else None
        if value is not None:
            words += [value] if isinstance(parameter, click.Argument) else [parameter.opts[0], value]
    names = {parameter.name for parameter in command.params}
    if "uri" in names and not {"uri", "store", "profile"} & {long}:
        words += ["--store", "g.omni"]
    if path in (("query",), ("mutate",)) and long not in ("query_file", "query_string"):
        words += ["-e", READ if path == ("query",) else UPDATE]
    return [*words, "--wait", "0"] if path == ("changes", "follow") and long != "wait" else words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("long")
    (place / "s.pg").write_text(SCHEMA)
    (place / "q.gq").write_text(f"query names() {{ {READ} }}")
    (place / "p.jsonl").write_text('{"type":"Person","data":{"name":"Ada"}}\n')
    with og.init(place / "g.omni", schema=SCHEMA) as graph:
        graph.load(place / "p.jsonl")
        graph.branches.create("work")
    return place


@pytest.mark.parametrize("path", [" ".join(path) for path, _ in commands(main.cli)])
def test_a_command(path: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", StringIO())
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder))
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    for where, long in long_parameters():
        if " ".join(where) == path:
            for text in LONG.values():
                main.run(line(where, long, text))
                said = capsys.readouterr().err
                assert len(said) <= MOST_CHARACTERS, (long, said)
                assert "This is a bug" not in said, (long, said)


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_call(text: str) -> None:
    with og.memory(schema=SCHEMA) as graph:
        graph.load([{"type": "Person", "data": {"name": "Ada"}}])
        graph.branches.create("work")
        tried, wrong = 0, []
        for name, (call, right) in calls(graph).items():
            for parameter in inspect.signature(call).parameters:
                tried += 1
                try:
                    found = call(**{**right, parameter: text})
                    if inspect.isgenerator(found) and name != "changes.follow":
                        list(zip(range(2), found, strict=False))
                except OmniGraphError as error:
                    said = "\n".join([str(error), *getattr(error, "__notes__", ())])
                    if len(said) > MOST_CHARACTERS:
                        wrong.append(f"{name}({parameter}): {said}")
    assert wrong == []
    assert tried > 100


RECORDS = (
    ("type", lambda text: {"type": text, "data": {"name": "Bo"}}),
    ("property", lambda text: {"type": "Person", "data": {"name": "Bo", text: 1}}),
    ("value", lambda text: {"type": "Person", "data": {"name": "Bo", "born": text}}),
    ("blob", lambda text: {"type": "Person", "data": {"name": "Bo", "photo": text}}),
    ("edge", lambda text: {"edge": text, "from": "Ada", "to": "Bo"}),
    ("end", lambda text: {"edge": "Knows", "from": "Ada", "to": text}),
    ("member", lambda text: {"type": "Person", "data": {"name": "Bo"}, text: 1}),
)


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_a_record(text: str) -> None:
    with og.memory(schema=SCHEMA) as graph:
        for place, record in RECORDS:
            with pytest.raises(OmniGraphError) as refused:
                graph.load([record(text)])
            assert len(str(refused.value)) <= MOST_CHARACTERS, (place, str(refused.value))


QUERIES = (
    ("type", "match { $p: LONG } return { $p }"),
    ("property", "match { $p: Person } return { $p.LONG }"),
    ("edge", "match { $p: Person  $p LONG $q } return { $q }"),
    ("variable", "match { $p: Person } return { $LONG.name }"),
    ("number", 'match { $p: Person { born: "TEXT" } } return { $p }'),
    ("no query", "TEXT"),
    ("parameter", "query q($a: LONG) { match { $p: Person } return { $p } }"),
)


@pytest.mark.parametrize(("place", "query"), QUERIES, ids=[place for place, _ in QUERIES])
def test_a_query(place: str, query: str) -> None:
    with og.memory(schema=SCHEMA) as graph:
        for text in LONG.values():
            with pytest.raises(OmniGraphError) as refused:
                graph.query(query.replace("LONG", "y" * 5_000).replace("TEXT", text))
            assert len(str(refused.value)) <= MOST_CHARACTERS, str(refused.value)
