"""Adds up what all graphs of the suite were asked, and fails the run when that was not enough of everything."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.differential.seeds import FACTS, LEAST, SEEDS, WITH_ROWS
from tests.harness.random.kinds import KINDS


class Coverage:
    """Counts from reports, which also come from the workers of a run in several processes."""

    def __init__(self) -> None:
        self._seeds: set[int] = set()
        self._queries = 0
        self._with_rows = 0
        self._kinds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = dict(report.user_properties).get(FACTS)
        if report.when == "call" and found is not None:
            facts = json.loads(str(found))
            self._seeds.add(facts["seed"])
            self._queries += facts["queries"]
            self._with_rows += facts["with_rows"]
            self._kinds.update(facts["kinds"])

    def complaints(self) -> list[str]:
        """What is missing, in a run that had every graph."""
        if self._seeds != set(SEEDS):
            return []
        rare = sorted(kind for kind in KINDS if self._kinds[kind] < LEAST)
        found = [f"{kind} came {self._kinds[kind]} times, and must come {LEAST} times" for kind in rare]
        if self._with_rows < WITH_ROWS * self._queries:
            found.append(f"only {self._with_rows} of {self._queries} queries return rows")
        return found

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput") and self.complaints():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # pytest does not name this class in public
        if self._queries:
            line = f"differential: {len(self._seeds)} graphs, {self._queries} queries, {self._with_rows} return rows"
            rarest = min(KINDS, key=lambda kind: (self._kinds[kind], kind))
            terminalreporter.write_line(f"{line}; rarest: {rarest}, {self._kinds[rarest]} times")
        for complaint in self.complaints():
            terminalreporter.write_line(f"differential: {complaint}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Coverage(), "omnigraph-differential")
