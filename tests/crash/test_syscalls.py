"""One system call of a writer fails: the graph is before or after, the caller hears a typed truth, and the next write works.

Telling calls are the last ones that concern a kind of file. By default each failure meets its share of them. With `OMNIGRAPH_TEST_ALL=1` every failure meets every call.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.manifest import intents
from tests.crash.failing import FAILURES, GRAPH, NEXT, SCHEMA, WRITERS, Call, Failure, Heard, Writer, differences, images, without_next

pytestmark = pytest.mark.crash

ROOT = Path(__file__).resolve().parent.parent.parent
ALL = bool(os.environ.get("OMNIGRAPH_TEST_ALL"))
CELLS = [
    pytest.param(writer, failure, id=f"{writer.name}-{failure.name}")
    for writer in WRITERS
    for failure in FAILURES
    if failure.call in writer.calls
]


class Child:
    """The process in which writers run. Started again when it has died."""

    def __init__(self, shim: Path) -> None:
        self._shim = shim
        self._process: subprocess.Popen[str] | None = None

    def ask(
        self, writer: Writer, folder: Path, *, failing: tuple[int, ...] = (-1, 0, 0, 0), world_only: bool = False, goes_on: bool = False
    ) -> Any:
        if self._process is None:
            command = [sys.executable, "-m", "tests.crash.failing_child", str(self._shim)]
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self._answer()
        assert self._process.stdin is not None
        request = {"writer": writer.name, "folder": str(folder), "failing": failing, "world_only": world_only, "goes_on": goes_on}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._process = None
            return {"heard": f"nothing: the process ended with {code}", "calls": []}
        return json.loads(line)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("there is no C compiler")
    shim = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
    made = Child(shim)
    yield made
    made.stop()


class Twin:
    """What a writer does undisturbed: the images before and after, and its system calls."""

    def __init__(self, child: Child, writer: Writer, folder: Path) -> None:
        child.ask(writer, made(folder / "before"), world_only=True)
        self.before = images(folder / "before")
        clean = child.ask(writer, made(folder / "after"))
        assert clean["heard"] == Heard.RECEIPT, clean
        self.after = images(folder / "after")
        assert {Call(call) for call, _, _ in clean["calls"]} == writer.calls, "declare which calls it makes"
        self.calls: list[tuple[Call, str]] = [(Call(call), label(path, folder / "after")) for call, _, path in clean["calls"]]

    def chosen(self, failure: Failure) -> list[int]:
        """Which calls of the failure's class to fail, counted from one."""
        labels = [label for found, label in self.calls if found is failure.call]
        if ALL:
            return list(range(1, len(labels) + 1))
        telling = sorted({name: at for at, name in enumerate(labels, start=1)}.values())
        return telling[failure.first % len(telling) :: failure.share]


@pytest.fixture(scope="session")
def twins() -> dict[str, Twin]:
    return {}


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


def label(path: str, folder: Path) -> str:
    """A path without what differs from run to run."""
    inside = path.removeprefix(f"{folder}/")
    return re.sub(r"\.tmp\w{6}|[0-9a-f-]{20,}|[0-9A-Z]{26}|\.[0-9a-f]{16}|work-[0-9a-f]{16}|\d{3,}", "*", inside)


@pytest.mark.parametrize(("writer", "failure"), CELLS)
def test_a_system_call_fails(tmp_path: Path, child: Child, twins: dict[str, Twin], writer: Writer, failure: Failure) -> None:
    if writer.name not in twins:
        twins[writer.name] = Twin(child, writer, tmp_path / "twin")
    twin = twins[writer.name]
    wrong: dict[str, list[str]] = {}
    for nth in twin.chosen(failure):
        folder = made(tmp_path / str(nth))
        told = child.ask(writer, folder, failing=(failure.call, failure.mode, nth, failure.errno), goes_on=nth % 2 == 1)
        failed = [label(path, folder) for _, made_to_fail, path in told["calls"] if made_to_fail]
        if found := problems(twin, writer, failure, folder, told):
            wrong[f"{nth}: {failed[:1]}, heard {told['heard']} {told.get('kind')} {told.get('message')}"] = found
        shutil.rmtree(folder)
    assert not wrong, "\n".join(f"{call}\n    " + "\n    ".join(found) for call, found in wrong.items())


def problems(twin: Twin, writer: Writer, failure: Failure, folder: Path, told: dict[str, Any]) -> list[str]:
    """What is wrong after one failure."""
    if told["heard"] not in set(Heard):
        return ["it was not told as one of our errors"]
    heard = Heard(told["heard"])
    found: list[str] = []
    if any(made_to_fail for _, made_to_fail, _ in told["calls"]) and heard not in failure.hears:
        found.append(f"the caller may hear {sorted(failure.hears)}")
    allowed = {"before": twin.before, "after": twin.after}
    if heard in (Heard.RECEIPT, Heard.HAPPENED):
        del allowed["before"]
    elif heard is Heard.DID_NOT_HAPPEN and not writer.heals:
        del allowed["after"]
    went_on = told.get("next", ...)
    heals = writer.heals or twin.before[GRAPH] is None
    try:
        if went_on is ...:
            if (seen := images(folder)) not in allowed.values():
                found.append(f"a reader sees neither: {differences(seen, allowed)}")
            carry_on(writer, folder, seen)
        elif went_on is not None:
            found.append(f"the next write on the same handle: {went_on}")
        seen = without_next(images(folder))
        if heals:  # what it failed to do, the next one did
            allowed = {"after": twin.after}
        if seen not in allowed.values():
            found.append(f"after the next write it shows neither: {differences(seen, allowed)}")
        graph = og.open(folder / GRAPH)
        found += [f"verify: {finding}" for finding in graph.verify() if finding.severity == "error"]
        found += [f"an intent is left: {intent.operation}" for intent in intents.pending(graph._manifest.root.objects)]
    except Exception as error:  # noqa: BLE001  # reported with the rest
        found.append(f"afterwards: {type(error).__name__}: {error}")
    return found


def carry_on(writer: Writer, folder: Path, seen: Images) -> None:
    """The next write, by another process than the one that failed."""
    graph = og.open(folder / GRAPH) if seen[GRAPH] is not None else og.init(folder / GRAPH, schema=SCHEMA)
    graph.mutate(NEXT)
