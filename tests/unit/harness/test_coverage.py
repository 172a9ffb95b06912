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


def cases(folder: Path) -> Iterator[Case]:
    for path in spec_files(folder):
        yield from cases_of(path, top=FOLDER)


def test_every_worked_example_is_there_once() -> None:
    assert len(EXAMPLES) == 127
    named = Counter(case.name for case in cases(FOLDER / "examples"))
    assert named == Counter(EXAMPLES)


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
