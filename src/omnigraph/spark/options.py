"""Options of `spark.read` and `spark.write` -> checked `ReadOptions` or `WriteOptions`, or an error of one line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

import msgspec

from omnigraph.errors import InvalidInput, Kind, OmniGraphError
from omnigraph.exec.load.mode import LoadMode
from omnigraph.graph import Graph, open_
from omnigraph.ids import COMMIT_ID_LENGTH, MAIN
from omnigraph.spark.messages import Place

STORAGE: Final = "storage."
"""The prefix of storage options, as in `storage.aws_region`."""

_READ: Final = ("graph", "type", "branch", "at", "columns")
_WRITE: Final = ("graph", "type", "branch", "mode", "actor", "token", "message")
_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"

At = str | int | datetime


class ReadOptions(msgspec.Struct, frozen=True):
    """The rows to read: one type, on a branch or at a commit, version or time. None for `columns` means all columns."""

    place: Place
    type: str
    branch: str
    at: At | None
    columns: tuple[str, ...] | None


class WriteOptions(msgspec.Struct, frozen=True):
    """The target of the rows, and the mode for ids that exist."""

    place: Place
    type: str
    branch: str
    mode: LoadMode
    actor: str | None
    token: str | None
    message: str | None


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options of a read."""
    given = _known(options, _READ, doing="read")
    if "branch" in given and "at" in given:
        raise _invalid(
            "give the option 'branch' or the option 'at', not both: a commit id names its branch, a version or a time is main's "
            "(for another branch use the commit id of graph.snapshot(branch, at=...))"
        )
    columns = tuple(name.strip() for name in given["columns"].split(",")) if "columns" in given else None
    at = parse_at(given["at"]) if "at" in given else None
    return ReadOptions(_place(options, given), _required(given, "type"), given.get("branch", MAIN), at, columns)


def write_options(options: Mapping[str, str], *, overwrite: bool) -> WriteOptions:
    """Parse the options of a write. `overwrite` is the mode of Spark. The option `mode` adds merge, which Spark lacks."""
    given = _known(options, _WRITE, doing="write")
    plain = LoadMode.OVERWRITE if overwrite else LoadMode.APPEND
    try:
        mode = LoadMode(given.get("mode", plain))
    except ValueError:
        raise _invalid(f"the option 'mode' is {given['mode']!r}, none of {', '.join(LoadMode)}") from None
    if (mode is LoadMode.OVERWRITE) is not overwrite:
        raise _invalid(f".mode({plain.value!r}) and the option 'mode' {mode.value!r} do not go together; a merge is .mode('append')")
    optional = [given.get(name) for name in ("actor", "token", "message")]
    return WriteOptions(_place(options, given), _required(given, "type"), given.get("branch", MAIN), mode, *optional)


def parse_at(text: str) -> At:
    """Parse a commit id, a manifest version in digits, or a time in ISO 8601 with its zone."""
    if len(text) == COMMIT_ID_LENGTH and text.isalnum():
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(f"'at' is {text!r}, which is no commit id, manifest version or time such as 2026-01-31T12:00:00Z") from None


def open_for_reading(graph: str | os.PathLike[str] | Graph, storage_options: Mapping[str, str] | None = None) -> Graph:
    """Open a graph for reading, or return the open graph."""
    return graph if isinstance(graph, Graph) else open_(graph, mode="r", storage_options=storage_options)


def _known(options: Mapping[str, str], names: tuple[str, ...], *, doing: str) -> dict[str, str]:
    """Return the options other than storage options. `load(uri)` and `save(uri)` pass the graph as `path`."""
    given = {name: value for name, value in options.items() if not name.startswith(STORAGE)}
    if "path" in given:
        path = given.pop("path")
        if given.setdefault("graph", path) != path:
            raise _invalid(f"the graph is named twice: {given['graph']!r} and {path!r}")
    for name in given:
        if name not in names:
            raise _invalid(f"unknown option {name!r}: a {doing} takes {', '.join(names)} and {STORAGE}*")
    return given


def _place(options: Mapping[str, str], given: Mapping[str, str]) -> Place:
    storage = {name.removeprefix(STORAGE): value for name, value in options.items() if name.startswith(STORAGE)}
    return Place(_required(given, "graph"), storage)


def _required(given: Mapping[str, str], name: str) -> str:
    if name not in given:
        raise _invalid(f"the option {name!r} is missing")
    return given[name]


def _invalid(message: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, message)


@contextmanager
def without_traceback() -> Iterator[None]:
    """Make Spark print our errors as one line, without a traceback.

    Spark starts a process to plan or to commit one read or write. The setting ends with that process, so it affects no other error.
    """
    try:
        yield
    except OmniGraphError:
        os.environ[_HIDE_TRACEBACK] = "1"
        raise
