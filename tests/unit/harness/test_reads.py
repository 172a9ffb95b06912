"""What cases expect of reads, mutations and loads is what the language's rules give, followed by brute force."""

from __future__ import annotations

import pytest

from tests.harness import expect
from tests.harness.brute.engine import BruteEngine
from tests.harness.cases import Accept, Case, Explain, Lint, Load, Mutation, Query, Step, Wanted
from tests.harness.runner import Passed, Pending, run_case
from tests.unit.harness.test_coverage import FOLDER, cases


def understood(step: Step) -> bool:
    """Brute force takes the lines of a load to be well formed."""
    if isinstance(step.action, Load):
        return not isinstance(step.expected, expect.Error)
    return isinstance(step.action, Query | Mutation | Lint | Explain | Wanted | Accept)


FOLLOWED = [case for case in cases(FOLDER) if all(map(understood, case.steps)) and run_case(case, engine=None) == Pending()]


@pytest.mark.parametrize("case", FOLLOWED, ids=lambda case: case.name)
def test_what_is_expected_is_the_meaning(case: Case) -> None:
    assert run_case(case, engine=BruteEngine()) == Passed()


def test_there_are_cases_to_look_at() -> None:
    actions = [type(step.action) for case in FOLLOWED for step in case.steps]
    assert actions.count(Query) > 60
    assert actions.count(Mutation) > 20
