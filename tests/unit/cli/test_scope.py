"""Which graph a command works on, which flags it takes, and what it asks before it destroys."""

from __future__ import annotations

import io
import sys

import pytest

from omnigraph.cli.scope import DATA, DIRECT, HISTORY, INIT, LOCAL, Capability, Flags, GraphTarget, admit, confirm, echo_write, resolve
from omnigraph.errors import InvalidInput
from tests.unit.cli.calls import Call


@pytest.mark.parametrize(("uri", "store"), [("g.omni", None), (None, "g.omni")])
def test_a_graph_is_addressed_by_its_uri_or_by_store(uri: str | None, store: str | None) -> None:
    assert resolve(Flags(store=store), "snapshot", DATA, uri=uri).uri == "g.omni"


def test_both_ways_at_once_are_refused() -> None:
    with pytest.raises(InvalidInput, match="mutually exclusive"):
        resolve(Flags(store="a"), "snapshot", DATA, uri="b")


@pytest.mark.parametrize(
    ("spelled", "ways"), [("URI", "its URI as an argument, or --store URI"), ("--uri", "--uri URI, or --store URI"), (None, "--store URI")]
)
def test_no_graph_lists_the_ways(spelled: str | None, ways: str) -> None:
    with pytest.raises(InvalidInput, match=f"^no graph addressed: give {ways}$"):
        resolve(Flags(), "snapshot", DATA, spelled=spelled)


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
