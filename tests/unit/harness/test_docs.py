"""The page about spec files is true: its examples are cases that hold, and it leaves no section out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.harness.cases import Case, read_cases
from tests.harness.expectations import EXPECTATIONS
from tests.harness.runner import Passed, Pending, run_case

PAGE = (Path(__file__).parents[3] / "docs/dev/testing.md").read_text("utf-8")
ACTIONS = ("query", "mutation", "load append", "load merge", "load overwrite", "export", "apply", "wanted", "lint", "explain", "params")


def shown() -> list[Case]:
    found = re.findall(r"^```(gqt|pgt)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [case for suffix, text in found for case in read_cases(text, path=f"page.{suffix}", fixtures={})]


@pytest.mark.parametrize("case", shown(), ids=lambda case: case.name)
def test_every_example_holds(case: Case) -> None:
    expected = Pending() if case.name in ("genre", "knows") else Passed()
    assert run_case(case, engine=None) == expected


def test_there_are_examples() -> None:
    assert len(shown()) == 5


@pytest.mark.parametrize("name", EXPECTATIONS)
def test_every_expectation_is_described(name: str) -> None:
    assert re.search(rf"^\| `{name}`", PAGE, re.MULTILINE) is not None


@pytest.mark.parametrize("name", ACTIONS)
def test_every_step_is_described(name: str) -> None:
    assert f"`--- {name}`" in PAGE
