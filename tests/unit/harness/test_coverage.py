"""The text cases are complete: every worked example once, and every code at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph.catalog.evolve.steps import MigrationCode
from omnigraph.catalog.schema_codes import PARSER_CODES, SchemaCode
from omnigraph.lang.grammar.query_file import GRAMMAR_CODE
from omnigraph.plan.lint import COVERAGE_CODE
from omnigraph.plan.type_codes import Code
from tests.harness import expect
from tests.harness.cases import Case
from tests.harness.files import cases_of, spec_files

FOLDER = Path(__file__).parents[2] / "spec"

EXAMPLES = {f"E{number:02}" for number in range(1, 125)} | {"E37b", "E46b", "E88b"}
TOO_LONG = {SchemaCode.TOO_MANY}
"""A thousand declarations are no text to read: tests/unit/catalog/test_schema_errors.py makes them."""
CODES = {*SchemaCode, *PARSER_CODES, *MigrationCode, *Code, GRAMMAR_CODE, COVERAGE_CODE} - TOO_LONG


SECOND = {f"X{number:02}" for number in range(1, 11)}
RULES = [f"L2-{number:02}" for number in (*range(1, 14), *range(20, 26), *range(30, 34))]
"""The rules of the language's second part. L2-14 is the list of its codes."""
READINGS = (
    "minus", "undeclared", "anonymous", "clauses", "T30", "empty-lists", "groups", "distinct", "sum-on-the-way", "remainder", "round",
    "dates", "coalesce", "texts", "names", "paths", "interfaces", "ids", "old-value", "assignments", "matched-once", "matched-keys",
    "composite",
)  # fmt: skip
"""Where the rules leave a choice. What a receipt counts and how a Decimal is read is not for text: tests/unit/exec has it."""
NEW_CODES = tuple(f"T{number}" for number in range(25, 31))


def cases(folder: Path) -> Iterator[Case]:
    for path in spec_files(folder):
        yield from cases_of(path, top=FOLDER)


def test_every_worked_example_is_there_once() -> None:
    assert len(EXAMPLES) == 127
    named = Counter(case.name for case in cases(FOLDER / "examples"))
    assert named == Counter(EXAMPLES)


def test_every_example_of_the_second_part_is_there_once() -> None:
    named = Counter(case.name for case in cases(FOLDER / "language2") if case.name.startswith("X"))
    assert named == Counter(SECOND)


@pytest.mark.parametrize("rule", [*RULES, *(f"reading-{reading}" for reading in READINGS)])
def test_every_rule_of_the_second_part_has_a_case(rule: str) -> None:
    assert any(case.name == rule or case.name.startswith(f"{rule}-") for case in cases(FOLDER / "language2"))


@pytest.mark.parametrize("code", NEW_CODES)
def test_every_new_code_is_expected_with_a_place_and_a_hint(code: str) -> None:
    """L2-14"""
    found = [step.expected for case in cases(FOLDER / "language2") for step in case.steps]
    errors = [error for error in found if isinstance(error, expect.Error) and error.code == code]
    assert any(error.at is not None and error.hint is not None for error in errors)


def expected_codes(case: Case) -> Iterator[str]:
    for step in case.steps:
        match step.expected:
            case expect.Error(code):
                yield code
            case expect.Steps(values):
                yield from (str(value["code"]) for value in values if isinstance(value, dict) and "code" in value)
            case expect.Report({"findings": list(findings)}):
                yield from (finding["code"] for finding in findings)


EXPECTED = {code for case in cases(FOLDER) for code in expected_codes(case)}


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_is_expected_by_a_case(code: str) -> None:
    assert code in EXPECTED


def test_every_case_says_what_it_shows() -> None:
    unnamed = [case.name for case in cases(FOLDER / "examples") if not case.title]
    assert unnamed == []
