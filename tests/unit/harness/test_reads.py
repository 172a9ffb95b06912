"""The rows that cases expect of reads are those that the language's rules give, followed by brute force."""

from __future__ import annotations

import pytest

from tests.harness.brute.engine import BruteEngine
from tests.harness.cases import Accept, Case, Explain, Lint, Query, Wanted
from tests.harness.runner import Passed, Pending, run_case
from tests.unit.harness.test_coverage import FOLDER, cases


def only_reads(case: Case) -> bool:
    steps = all(isinstance(step.action, Query | Lint | Explain | Wanted | Accept) for step in case.steps)
    return steps and run_case(case, engine=None) == Pending()


READS = [case for case in cases(FOLDER) if only_reads(case)]


@pytest.mark.parametrize("case", READS, ids=lambda case: case.name)
def test_the_expected_rows_are_the_meaning_of_the_read(case: Case) -> None:
    assert run_case(case, engine=BruteEngine()) == Passed()


def test_there_are_reads_to_look_at() -> None:
    assert len(READS) > 60
