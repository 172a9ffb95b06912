"""The error tree: stable codes, one table of exit codes and HTTP statuses, and a page that names every code."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import omnigraph
from omnigraph.errors import (
    MESSAGE_CHARACTERS,
    STATUS,
    ConflictError,
    ExpectedVersionMismatch,
    InvalidInput,
    Kind,
    LimitError,
    NotFound,
    OmniGraphError,
    Outcome,
    PreconditionFailed,
    RecoveryRequired,
    ResourceLimitExceeded,
    StorageError,
    status_of,
)
from omnigraph.lang import parse_queries

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "user" / "errors.md"


def subclasses(cls: type[OmniGraphError]) -> set[type[OmniGraphError]]:
    return {cls}.union(*(subclasses(child) for child in cls.__subclasses__()))


@pytest.mark.parametrize(
    ("error", "exit_code", "http"),
    [
        (NotFound(Kind.BRANCH_NOT_FOUND, "x"), 1, 404),
        (ConflictError(Kind.CONTENTION, "x"), 1, 409),
        (ExpectedVersionMismatch(Kind.VERSION_MISMATCH, "x"), 1, 409),
        (PreconditionFailed(Kind.PRECONDITION_FAILED, "x"), 4, 412),
        (ResourceLimitExceeded(Kind.RESOURCE_LIMIT, "x"), 1, 413),
        (RecoveryRequired(Kind.RECOVERY_REQUIRED, "x"), 1, 503),
        (StorageError(Kind.STORAGE_UNAVAILABLE, "x"), 1, 503),
        (InvalidInput(Kind.BLOB_RANGE, "x"), 1, 416),
        (LimitError(Kind.TIMEOUT, "x"), 1, 504),
        (LimitError(Kind.LOCK_TIMEOUT, "x"), 1, 503),
    ],
)
def test_an_error_leaves_by_the_one_table(error: OmniGraphError, exit_code: int, http: int) -> None:
    assert (status_of(error).exit_code, status_of(error).http) == (exit_code, http)


def test_every_row_of_the_table_is_a_class_of_the_tree() -> None:
    assert set(STATUS) <= subclasses(OmniGraphError)


def test_kinds_are_distinct_and_spelled_for_programs() -> None:
    values = [kind.value for kind in Kind]
    assert len(values) == len(set(values))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", value) for value in values)


def test_every_kind_is_on_the_page_and_nothing_else_is() -> None:
    named = set(re.findall(r"^- `([a-z0-9_]+)` \(", PAGE.read_text(), re.MULTILINE))
    assert named == {kind.value for kind in Kind}


def test_every_kind_is_used_by_the_package() -> None:
    modules = [path for path in (ROOT / "src" / "omnigraph").rglob("*.py") if path.name != "errors.py"]
    used = set(re.findall(r"\bKind\.([A-Z_]+)\b", "\n".join(path.read_text() for path in modules)))
    assert {kind.name for kind in Kind} - used == set()


def test_facts_and_outcome_are_data() -> None:
    error = StorageError(Kind.STORAGE_FULL, "no room", outcome=Outcome.UNKNOWN, path="/x")
    assert error.outcome is Outcome.UNKNOWN
    assert error.facts == {"outcome": "unknown", "path": "/x"}
    assert str(error) == error.message == "no room"


def test_the_public_names_are_sorted_and_true() -> None:
    assert omnigraph.__all__ == sorted(omnigraph.__all__)
    assert all(hasattr(omnigraph, name) for name in omnigraph.__all__)


def errors_of_every_class() -> list[OmniGraphError]:
    for module in walk_packages(omnigraph.__path__, "omnigraph."):
        import_module(module.name)
    ours = (cls for cls in subclasses(OmniGraphError) if cls.__module__.startswith("omnigraph."))
    found = sorted(ours, key=lambda cls: cls.__name__)
    return [cls(Kind.SYNTAX, f"a {cls.__name__}", path="/x", count=3) for cls in found]


@pytest.mark.parametrize("error", errors_of_every_class(), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))], ids=["copy", "deepcopy", "pickle"]
)
def test_an_error_survives_copies_and_pickling(error: OmniGraphError, again: Callable[[OmniGraphError], OmniGraphError]) -> None:
    error.add_note("in the graph /x")
    same = again(error)
    assert type(same) is type(error)
    assert str(same) == str(error)
    assert same.__dict__ == error.__dict__
    assert same.args == error.args
    assert same.outcome is error.outcome


def test_a_language_error_keeps_its_position_when_it_is_pickled() -> None:
    with pytest.raises(omnigraph.LanguageError) as caught:
        parse_queries("query q() { match { $p: } return { $p } }", name="q.gq")
    same = pickle.loads(pickle.dumps(caught.value))
    assert (same.position, same.rendered, same.span, same.hint) == (
        caught.value.position,
        caught.value.rendered,
        caught.value.span,
        caught.value.hint,
    )
    assert str(same) == str(caught.value)


def test_a_fact_that_cannot_be_pickled_travels_as_text() -> None:
    error = InvalidInput(Kind.INVALID_ARGUMENT, "not this", mode=lambda: None, limit=3)
    same = pickle.loads(pickle.dumps(error))
    assert same.facts["limit"] == 3
    assert "lambda" in same.facts["mode"]


@pytest.mark.parametrize("value", ["b" * 5_000, "é\n" * 2_500, "'" * 5_000])
def test_a_message_repeats_only_a_part_of_a_long_value(value: str) -> None:
    error = NotFound(Kind.BRANCH_NOT_FOUND, f"branch {value!r} does not exist; create it", branch=value)
    assert len(error.message) < 300
    assert error.message.startswith("branch ")
    assert error.message.endswith(" does not exist; create it")
    assert "characters) …" in error.message
    assert len(str(error.facts["branch"])) <= MESSAGE_CHARACTERS


def test_a_message_is_bounded_even_where_the_facts_do_not_have_its_values() -> None:
    for value in ("b" * 100_000, repr("it's so " * 10_000), repr('it\'s "so" ' * 10_000), f"`{'a b ' * 10_000}`"):
        error = NotFound(Kind.BRANCH_NOT_FOUND, f"branch {value} does not exist; create it", names=[value])
        assert len(error.message) < 300
        assert error.message.endswith(" does not exist; create it")
        assert len(str(error.facts["names"])) < MESSAGE_CHARACTERS + 500
    unquoted = NotFound(Kind.BRANCH_NOT_FOUND, f"branch {'b ' * 100_000} does not exist; create it")
    assert len(unquoted.message) == MESSAGE_CHARACTERS
    assert unquoted.message.endswith(" does not exist; create it")
    words = "word " * (MESSAGE_CHARACTERS // 5)
    assert NotFound(Kind.BRANCH_NOT_FOUND, words).message == words
