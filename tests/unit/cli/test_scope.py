"""Which graph a command works on, which flags it takes, and what it asks before it destroys."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from omnigraph.cli.config import HOME_ENVIRONMENT, PROFILE_ENVIRONMENT
from omnigraph.cli.main import cli
from omnigraph.cli.scope import (
    DATA,
    DIRECT,
    HISTORY,
    INIT,
    LOCAL,
    STORE_ENVIRONMENT,
    Capability,
    Flags,
    GraphCommand,
    GraphTarget,
    admit,
    confirm,
    echo_write,
    resolve,
)
from omnigraph.errors import InvalidInput
from tests.unit.cli.calls import Call


@pytest.mark.parametrize(("uri", "store"), [("g.omni", None), (None, "g.omni")])
def test_a_graph_is_addressed_by_its_uri_or_by_store(uri: str | None, store: str | None) -> None:
    assert resolve(Flags(store=store), "snapshot", DATA, uri=uri).uri == "g.omni"


def test_both_ways_at_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match="mutually exclusive"):
        resolve(Flags(store="a"), "snapshot", DATA, uri="b")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the configuration, and nobody's own settings."""
    for name in (STORE_ENVIRONMENT, PROFILE_ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(HOME_ENVIRONMENT, str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def test_no_graph_lists_the_ways() -> None:
    ways = r"as the first argument, with --store URI, with the variable OMNIGRAPH_STORE, or with a profile \(--profile NAME\)"
    with pytest.raises(InvalidInput, match=f"^no graph addressed: name it {ways}$"):
        resolve(Flags(), "snapshot", DATA)


CONFIG = """
profiles:
  local: { store: one.omni }
  both: { store: one.omni, server: prod }
  none: { default_graph: x }
  served: { server: prod }
defaults: { store: two.omni }
"""


def test_the_nearest_name_of_a_graph_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument or --store, then --profile, then the variables, then the defaults."""
    (home / "config.yaml").write_text(CONFIG)

    def found(**flags: str) -> str:
        return resolve(Flags(**flags), "snapshot", DATA).uri  # type: ignore[arg-type]  # the flags that are texts

    assert found() == "two.omni"
    monkeypatch.setenv(PROFILE_ENVIRONMENT, "local")
    assert found() == "one.omni"
    monkeypatch.setenv(STORE_ENVIRONMENT, "three.omni")
    assert found() == "three.omni"
    assert found(profile="local") == "one.omni"
    assert found(profile="local", store="four.omni") == "four.omni"
    assert resolve(Flags(profile="local"), "snapshot", DATA, uri="five.omni").uri == "five.omni"


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ("nope", "unknown profile 'nope'; there is both, local, none, served"),
        ("both", "profile 'both' names server and store; it needs exactly one"),
        ("none", "profile 'none' names no graph; it needs exactly one"),
        ("served", "profile 'served' names a server, and this release reads only `store`"),
    ],
)
def test_a_profile_that_names_no_graph_says_so(home: Path, profile: str, message: str) -> None:
    (home / "config.yaml").write_text(CONFIG)
    with pytest.raises(InvalidInput, match=message):
        resolve(Flags(profile=profile), "snapshot", DATA)


@pytest.mark.parametrize(
    ("text", "message"),
    [("defaults: [", "is not YAML"), ("- a", "must hold a mapping"), ("profiles: 3", "profiles must be a mapping")],
)
def test_a_configuration_that_cannot_be_read_says_so(home: Path, text: str, message: str) -> None:
    (home / "config.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=message):
        resolve(Flags(profile="x"), "snapshot", DATA)


def test_unknown_settings_are_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_text("defaults: {store: g.omni, colour: red}\nservers: {}\n")
    assert resolve(Flags(), "snapshot", DATA).uri == "g.omni"
    said = capsys.readouterr().err
    assert "servers is not known and ignored" in said
    assert "defaults.colour is not known and ignored" in said


# -- one way to name a graph, in every command


def graph_commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that works on a graph that exists."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from graph_commands(command, (*path, name))
        elif (*path, name) not in NO_GRAPH:
            yield (*path, name), command


NO_GRAPH = {("init",), ("copy",), ("embed",), ("version",), ("completion",), ("schema", "check")}
"""Commands on no graph, on a new one, or on two."""
WORDS = {"entity": "node"}
"""The arguments that are not any text."""


def words(command: click.Command) -> list[str]:
    """Something for every argument and option that a command needs, the graph aside."""
    found = []
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.required:
            found.append(WORDS.get(str(parameter.name), f"some-{parameter.name}"))
        elif isinstance(parameter, click.Option) and parameter.required:
            choices = getattr(parameter.type, "choices", ["a.file"])
            found += [parameter.opts[0], choices[0]]
    return found


EVERY = list(graph_commands())


@pytest.mark.parametrize(("path", "command"), EVERY, ids=[" ".join(path) for path, _ in EVERY])
def test_every_command_takes_its_graph_in_every_way(path: tuple[str, ...], command: click.Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first argument, with --store or --uri, or with the variable; and its other arguments stay what they are."""
    assert isinstance(command, GraphCommand), "make it one, and give it `graph_argument`"
    needed = words(command)
    plain = [word for word in needed if word.startswith("some-")]

    def seen(*arguments: str) -> dict[str, Any]:
        context = command.make_context(path[-1], [*arguments], obj=Flags())
        given = {name: value for name, value in context.params.items() if name in named}
        return {**given, "graph": resolve(context.obj, path[-1], HISTORY, uri=context.params["uri"]).uri}

    named = [str(parameter.name) for parameter in command.params if isinstance(parameter, click.Argument) and parameter.name != "uri"]
    first = seen("g.omni", *needed)
    assert first["graph"] == "g.omni"
    assert [value for value in first.values() if isinstance(value, str) and value.startswith("some-")] == plain
    for flag in ("--store", "--uri"):
        assert seen(*needed, flag, "g.omni") == first
        assert seen(flag, "g.omni", *needed) == first
    monkeypatch.setenv(STORE_ENVIRONMENT, "g.omni")
    assert seen(*needed) == first
    usage = command.get_usage(click.Context(command, info_name=path[-1]))
    assert f"{path[-1]} [OPTIONS] [GRAPH]" in usage


@pytest.mark.parametrize("lost", ["extra", "missing"])
def test_too_many_and_too_few_arguments_are_wrong_usage(lost: str, graph: str, call: Call) -> None:
    said = call("branch", "create", *((graph, "a", "b") if lost == "extra" else ()))
    assert said.code == 2
    assert "Usage: omnigraph branch create [OPTIONS] [GRAPH] NAME" in said.err


def test_a_query_and_its_graph(graph: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only argument of a query is its name, or the graph if it cannot be a name or nothing else is the graph."""
    text = "query people() { match { $p: Person } return { $p.name as name } }"
    said = call("query", graph, "-e", text, "--format", "csv")
    assert (said.code, said.out) == (0, "name\nAda\n")
    assert call("query", graph, "people", "-e", text, "--format", "csv").out == said.out
    assert call("query", "people", "-e", text, "--format", "csv", "--store", graph).out == said.out
    Path("plain").symlink_to(graph)
    assert call("query", "plain", "-e", text, "--format", "csv").out == said.out
    assert "query 'plain' not found" in call("query", "plain", "-e", text, "--store", graph).err
    assert "no graph addressed" in call("query", "people", "-e", text).err
    monkeypatch.setenv(STORE_ENVIRONMENT, graph)
    assert call("query", "people", "-e", text, "--format", "csv").out == said.out
    assert call("branch", "list").out == call("branch", "list", graph).out == "main\n"
    assert call("mutate", graph, "-e", 'query q() { insert Person { name: "Eve" } }').code == 0


@pytest.mark.parametrize("flag", ["--yes", "--quiet"])
@pytest.mark.parametrize(
    "command", [("query", "-e", "x"), ("branch", "list"), ("commit", "list"), ("info",), ("schema", "show"), ("version",)]
)
def test_a_read_refuses_the_flags_of_a_write(command: tuple[str, ...], flag: str, call: Call) -> None:
    said = call(*command, flag)
    assert said.code == 1
    assert f"{flag} (" in said.err
    assert "does not apply" in said.err


@pytest.mark.parametrize("uri", ["http://host", "https://host/graphs/a", "HTTP://host"])
def test_a_server_is_not_storage(uri: str) -> None:
    with pytest.raises(InvalidInput, match="direct storage access") as refused:
        resolve(Flags(store=uri), "snapshot", DATA)
    assert uri in refused.value.message
    assert "--server" in refused.value.message


@pytest.mark.parametrize(
    ("command", "capability", "flags", "flag"),
    [
        ("init", INIT, Flags(store="g"), "--store"),
        ("init", INIT, Flags(actor="me"), "--as"),
        ("commit", HISTORY, Flags(actor="me"), "--as"),
        ("verify", DIRECT, Flags(actor="me"), "--as"),
        ("version", LOCAL, Flags(store="g", actor="me"), "--store"),
        ("version", LOCAL, Flags(storage_options={"k": "v"}), "--storage-option"),
    ],
)
def test_a_flag_that_means_nothing_is_refused(command: str, capability: Capability, flags: Flags, flag: str) -> None:
    with pytest.raises(InvalidInput, match="does not apply") as refused:
        admit(flags, command, capability)
    message = refused.value.message
    assert message.startswith(flag)
    assert f"`{command}`" in message
    assert capability.phrase in message
    assert message.endswith(capability.hint)


def test_a_flag_that_does_not_apply_is_told_before_anything_else(call: Call) -> None:
    said = call("init", "--schema", "nope.pg", "--store", "a", "b")
    assert said.code == 1
    assert "does not apply" in said.err


def test_flags_may_stand_before_between_and_after(graph: str, call: Call) -> None:
    for arguments in (
        ("--store", graph, "branch", "list"),
        ("branch", "--store", graph, "list"),
        ("branch", "list", "--store", graph),
        ("--store", "elsewhere", "branch", "list", "--store", graph),
    ):
        assert call(*arguments).out == "main\n"


def test_an_empty_store_is_not_a_missing_one(call: Call) -> None:
    assert "'' is not a URI" in call("--store", "", "snapshot").err


# -- before a write


@pytest.mark.parametrize(
    ("uri", "where"), [("g", "local"), ("file:///g", "local"), ("s3://bucket/g", "remote")], ids=["folder", "file", "s3"]
)
def test_a_write_says_where_it_goes(uri: str, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    echo_write(GraphTarget(uri, Flags()), "branch create")
    echo_write(GraphTarget(uri, Flags(quiet=True)), "branch create")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"omnigraph branch create → {uri} (direct, {where})\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


REMOTE = GraphTarget("s3://bucket/g", Flags())


def test_destroying_here_or_with_consent_asks_nothing() -> None:
    confirm(GraphTarget("g", Flags()), "branch delete", as_json=False)
    confirm(GraphTarget("s3://bucket/g", Flags(yes=True)), "branch delete", as_json=True)


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_destroying_elsewhere_asks(answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    confirm(REMOTE, "branch delete", as_json=False)
    said = capsys.readouterr()
    assert said.out == ""
    assert "s3://bucket/g" in said.err


@pytest.mark.parametrize("answer", ["n\n", "\n", "", "yess\n"])
def test_any_other_answer_is_no(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(InvalidInput, match="not confirmed"):
        confirm(REMOTE, "branch delete", as_json=False)


@pytest.mark.parametrize(("stdin", "as_json"), [(io.StringIO("y\n"), False), (Terminal("y\n"), True), (None, False)])
def test_where_nobody_can_answer_only_yes_is_an_answer(stdin: io.StringIO | None, as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(InvalidInput, match=r"refusing destructive `branch delete` on s3://bucket/g .* --yes"):
        confirm(REMOTE, "branch delete", as_json=as_json)


# -- the help shows what a command takes


GLOBAL = {"--store": ["x"], "--as": ["x"], "--profile": ["x"], "--storage-option": ["a=b"], "--yes": [], "--quiet": []}


def _commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _needed(command: click.Command) -> Iterator[str]:
    """The arguments and options that a command cannot do without."""
    for parameter in command.params:
        if parameter.required:
            value = parameter.type.choices[0] if isinstance(parameter.type, click.Choice) else "x"
            yield from (parameter.opts[0], value) if isinstance(parameter, click.Option) else (value,)


@pytest.mark.parametrize(("path", "command"), list(_commands()), ids=[" ".join(path) for path, _ in _commands()])
@pytest.mark.parametrize("flag", GLOBAL)
def test_the_help_shows_the_global_flags_that_apply_and_no_other(
    flag: str, path: tuple[str, ...], command: click.Command, call: Call, files: Path
) -> None:
    (option,) = [each for each in command.params if flag in each.opts]
    assert isinstance(option, click.Option)
    said = call(*path, *_needed(command), flag, *GLOBAL[flag])
    assert (f"{flag} (" in said.err and "does not apply" in said.err) == option.hidden, said.err


def test_no_summary_of_a_command_is_cut_at_80_columns() -> None:
    for group in (cli, *(each for each in cli.commands.values() if isinstance(each, click.Group))):
        shown = group.get_help(click.Context(group, info_name="omnigraph", terminal_width=80, max_content_width=80, obj=Flags()))
        assert [line for line in shown.splitlines() if line.endswith("...") and "ARGS" not in line] == []
