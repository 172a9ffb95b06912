"""The pytest plugin: every case of a `.gqt` or `.pgt` file is a test of its own.

Register it in the `conftest.py` of the folder that holds the files:

    def pytest_configure(config: pytest.Config) -> None:
        config.pluginmanager.register(SpecPlugin(Path(__file__).parent), "omnigraph-spec")

A case that only an engine can decide is compiled and then skipped as pending. Hand the plugin an engine, and it runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, assert_never

import pytest

from tests.harness.cases import Case
from tests.harness.document import MalformedSpec
from tests.harness.engine import Engine
from tests.harness.files import cases_of, is_spec_file, spec_files
from tests.harness.runner import Failed, Passed, Pending, Verdict, run_case
from tests.harness.show import side_by_side

REASON: Final = "pending: needs the engine"
_PROPERTY: Final = "omnigraph-spec"
_EXECUTED: Final = "executed"
_PENDING: Final = "pending"


class CaseFailed(Exception):
    """A case's expectation does not hold; the message is what pytest shows."""


class SpecPlugin:
    """Collects cases below `folder`, and counts what became of them.

    With `pending_allowed=False` a pending case fails, and so does a whole run in which a case named in `must_execute` did
    not execute. A run of only some files or cases is not held to that. `awaited` names cases that the engine is known not to
    pass yet, and what they wait for: they stay pending as long as they fail, and are reported as soon as they pass.
    """

    def __init__(
        self,
        folder: Path,
        *,
        engine: Engine | None = None,
        pending_allowed: bool = True,
        must_execute: Iterable[str] = (),
        awaited: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder: Final = folder
        self.engine: Final = engine
        self.pending_allowed: Final = pending_allowed
        self.awaited: Final = awaited
        self._must_execute: Final = frozenset(must_execute) - frozenset(awaited)
        self._seen: Counter[str] = Counter()
        self._executed: set[str] = set()
        self._collected: set[str] = set()
        self._root = folder

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> SpecFile | None:
        if not is_spec_file(file_path) or self.folder not in file_path.parents:
            return None
        file: SpecFile = SpecFile.from_parent(parent, path=file_path)
        file.plugin = self
        return file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected = {item.nodeid for item in session.items}
        self._root = session.config.rootpath

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:  # xdist has no types
        """With several processes the workers collect, all of them the same."""
        self._collected = set(ids)
        self._root = node.config.rootpath

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Counts from reports, which also come from the workers of a run in several processes."""
        facts = dict(report.user_properties)
        if report.when == "call" and _PROPERTY in facts:
            what, name = str(facts[_PROPERTY]).split(" ", 1)
            self._seen[what] += 1
            if what == _EXECUTED:
                self._executed.add(name)

    def missing(self) -> frozenset[str]:
        """The cases that had to execute and did not, in a run that had all of them."""
        missing = self._must_execute - self._executed
        return missing if missing and not self.pending_allowed and self._is_whole() else frozenset()

    def _is_whole(self) -> bool:
        """Whether every case of every file was collected."""
        files = {path.relative_to(self._root).as_posix(): path for path in spec_files(self.folder)}
        whole = {f"{name}::{case.name}" for name, path in files.items() for case in cases_of(path, top=self.folder)}
        return whole <= self._collected

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        is_worker = hasattr(session.config, "workerinput")
        if not is_worker and not session.config.option.collectonly and self.missing():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:  # pytest does not name this class in public
        total = self._seen.total()
        if total:
            executed, pending = self._seen[_EXECUTED], self._seen[_PENDING]
            terminalreporter.write_line(f"spec: {total} cases, {executed} executed, {pending} pending")
        missing = sorted(self.missing())
        if missing and total:
            names = ", ".join(missing[:10])
            terminalreporter.write_line(f"spec: these had to execute and did not: {names}{', ...' if len(missing) > 10 else ''}", red=True)


class SpecFile(pytest.File):
    """One file of cases."""

    plugin: SpecPlugin

    def collect(self) -> Iterable[CaseItem]:
        for case in cases_of(self.path, top=self.plugin.folder):
            item: CaseItem = CaseItem.from_parent(self, name=case.name)
            item.case = case
            item.plugin = self.plugin
            yield item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # as in pytest.Item
        return str(excinfo.value) if isinstance(excinfo.value, MalformedSpec) else super().repr_failure(excinfo)


class CaseItem(pytest.Item):
    """One case."""

    case: Case
    plugin: SpecPlugin

    def runtest(self) -> None:
        verdict = run_case(self.case, engine=self.plugin.engine)
        if self.plugin.engine is not None and (missing := self.plugin.awaited.get(self.case.name)) is not None:
            self._wait(verdict, missing)
        match verdict:
            case Passed():
                self._note(_EXECUTED)
            case Failed(label, line, difference):
                self._note(_EXECUTED)
                heading = f"{self.case.path}:{line}: case {self.case.name} ({self.case.title}), {label}: {difference.reason}"
                raise CaseFailed(f"{heading}\n\n{side_by_side(difference.pairs)}")
            case Pending():
                self._note(_PENDING)
                if not self.plugin.pending_allowed:
                    raise CaseFailed(f"{self.case.path}:{self.case.line}: case {self.case.name} is {REASON}, and nothing may be pending")
                pytest.skip(REASON)
            case _:
                assert_never(verdict)

    def _wait(self, verdict: Verdict, missing: str) -> None:
        """Skip the case, unless there is nothing left to wait for."""
        if isinstance(verdict, Passed):
            self._note(_EXECUTED)
            raise CaseFailed(f"{self.case.path}:{self.case.line}: case {self.case.name} passes: it need not wait for {missing} any more")
        self._note(_PENDING)
        pytest.skip(f"pending: waits for {missing}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # as in pytest.Item
        known = isinstance(excinfo.value, CaseFailed | MalformedSpec)
        return str(excinfo.value) if known else super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case.line - 1, f"{self.case.name} {self.case.title}".strip()

    def _note(self, what: str) -> None:
        self.user_properties.append((_PROPERTY, f"{what} {self.case.name}"))
