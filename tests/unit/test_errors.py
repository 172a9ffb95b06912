"""The error tree: stable codes, one table of exit codes and HTTP statuses, and a page that names every code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import omnigraph
from omnigraph.errors import (
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
