"""Random mutations, one after another: the engine refuses, counts and stores what brute force does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.differential.seeds import CHANGES
from tests.harness.differential_changes import MUTATIONS, check_changes


@pytest.mark.parametrize("seed", CHANGES)
def test_the_engine_changes_what_brute_force_does(seed: int, tmp_path: Path) -> None:
    report = check_changes(seed, tmp_path / "graph")
    if report.failure is not None:
        pytest.fail(report.failure, pytrace=False)
    assert report.refused < 0.5 * MUTATIONS
