"""Random graphs, random reads: every route gives the answer that brute force gives, at every stage of a graph's life."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.differential.seeds import FACTS, SEEDS
from tests.harness.differential import QUERIES, check_seed, told_small

SHRINK_SECONDS = 20


@pytest.mark.parametrize("seed", SEEDS)
def test_every_route_answers_as_brute_force_does(seed: int, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """X-03, X-05, X-10, X-12, O-01: before and after indexes are built, after changes, optimized, on a branch and in the past."""
    report = check_seed(seed, tmp_path / "graph")
    facts = {"seed": seed, "queries": report.queries, "with_rows": report.with_rows, "kinds": report.kinds}
    record_property(FACTS, json.dumps(facts))
    assert report.queries == QUERIES
    if report.failures:
        first = told_small(report.failures[0], seconds=SHRINK_SECONDS)
        others = ", ".join(str(failure.number) for failure in report.failures[1:])
        pytest.fail(f"{first}\nother queries of this seed that fail: {others or 'none'}", pytrace=False)
