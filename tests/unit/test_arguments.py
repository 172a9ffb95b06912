"""Every public call with an argument of every wrong type: it works, or raises an error of ours with a bounded message."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from typing import Any

import pytest

import omnigraph as og
from omnigraph.arguments import checked
from omnigraph.errors import MESSAGE_CHARACTERS, Kind, OmniGraphError

SCHEMA = "node Person { name: String @key  born: I32?  photo: Blob? }\nedge Knows: Person -> Person\n"
READ = "match { $p: Person } return { $p.name as name }"
WRONG: tuple[Any, ...] = (
    *(None, 3, -1, 2**70, 1.5, float("nan"), True, b"x", {}, {"a": 1}, [1], object()),
    *("", "x" * 3_000, "\x00", "\ud800", datetime(2026, 1, 1), datetime.now(UTC), date(2026, 1, 1)),  # one without a time zone
)
SKIPPED = {"close", "load_intake", "require_writable", "refresh", "on_close"}


@pytest.fixture(scope="module")
def graph() -> Iterator[og.Graph]:
    with og.memory(schema=SCHEMA) as made:
        made.load([{"type": "Person", "data": {"name": "Ada", "photo": "base64:QQ=="}}, {"type": "Person", "data": {"name": "Bo"}}])
        made.branches.create("work")
        made.tags.create("v1")
        yield made


def calls(graph: og.Graph) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each public call, with arguments that are right and change little."""
    head = graph.commits()[0].id
    given: dict[str, dict[str, Any]] = {
        "query": {"source": READ},
        "explain": {"source": READ},
        "mutate": {"source": 'update Person set { born: 1 } where name = "nobody"'},
        "load": {"data": []},
        "merge": {"source": "work"},
        "merge_conflicts": {"source": "work"},
        "diff": {"a": "main", "b": "work"},
        "commit": {"id_": head},
        "commit_changes": {"id_": head},
        "log": {"type_": "Person", "id_": "Ada"},
        "revert": {"commit": "nope"},
        "blob": {"kind": "node", "type_": "Person", "id_": "Ada", "property_": "photo"},
        "apply_schema": {"text": SCHEMA},
        "plan_schema": {"text": SCHEMA},
        "schema_of": {"branch": "main"},
        "cleanup": {"keep": 100, "dry_run": True},
        "copy_to": {"uri": "/proc/nowhere"},
        "branches.create": {"name": "nope nope"},
        "branches.delete": {"name": "nope"},
        "branches.merge": {"source": "work"},
        "tags.create": {"name": "v1"},
        "tags.delete": {"name": "nope"},
        "changes.commit": {"id_": head},
        "changes.follow": {"wait": 0},
        "open": {"uri": graph.uri},
        "init": {"uri": "/proc/nowhere", "schema": SCHEMA},
        "memory": {"schema": SCHEMA},
    }
    parts = {"": graph, "branches.": graph.branches, "tags.": graph.tags, "changes.": graph.changes}
    found = {f"{at}{name}": call for at, part in parts.items() for name, call in inspect.getmembers(part, inspect.ismethod)}
    public = {name: call for name, call in found.items() if name not in SKIPPED and not name.rpartition(".")[2].startswith("_")}
    every: dict[str, Any] = {**public, "open": og.open, "init": og.init, "memory": og.memory}
    return {name: (call, given.get(name, {})) for name, call in every.items()}


def test_no_call_fails_with_an_error_that_is_not_ours(graph: og.Graph) -> None:
    tried, wrong = 0, []
    for name, (call, right) in calls(graph).items():
        for parameter in inspect.signature(call).parameters:
            for value in WRONG:
                tried += 1
                try:
                    result = call(**{**right, parameter: value})
                    if inspect.isgenerator(result) and name != "changes.follow":  # which waits for commits
                        list(zip(range(2), result, strict=False))
                except OmniGraphError as error:
                    if len(error.message) > MESSAGE_CHARACTERS or "\x00" in error.message or "\ud800" in error.message:
                        wrong.append(f"{name}({parameter}={value!r:.40}): {error.message!r:.200}")
                except Exception as error:  # noqa: BLE001  # whatever it is: it is listed
                    wrong.append(f"{name}({parameter}={value!r:.40}): {error!r:.200}")
    assert wrong == []
    assert tried > 1_500


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"names": "a"}, "`names` of call() takes a list of texts or None, not str: 'a'"),
        ({"names": ["a", 1]}, "`names` of call() takes a list of texts or None, not list: ['a', 1]"),
        ({"flag": 1}, "`flag` of call() takes True or False, not int: 1"),
        ({"number": True}, "`number` of call() takes a whole number, not bool: True"),
        ({"options": {"a": 1}}, "`options` of call() takes a mapping of texts to texts, not dict: {'a': 1}"),
    ],
)
def test_the_message_names_the_argument_and_what_it_takes(given: dict[str, Any], said: str) -> None:
    with pytest.raises(og.InvalidInput) as refused:
        call(**given)
    assert (refused.value.kind, refused.value.message) == (Kind.INVALID_ARGUMENT, said)


def _call(
    names: Iterable[str] | None = None, *, flag: bool = False, number: int = 1, options: Mapping[str, str] = {}, other: object = None
) -> tuple[object, ...]:
    return names, flag, number, options, other


_call.__name__ = "call"
call = checked(_call)


def test_right_arguments_and_those_of_other_types_pass() -> None:
    assert call(("a", "b"), flag=True, number=2, options={"a": "b"}, other=3) == (("a", "b"), True, 2, {"a": "b"}, 3)
    assert call(iter(["a"]))[1:] == (False, 1, {}, None)
