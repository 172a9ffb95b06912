"""One system call of a writer fails: the graph is before or after, the caller hears a typed truth, and the next write works.

Telling calls are the last ones that concern a kind of file. By default each failure meets its share of them; with
`./test --all` every failure meets every call.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import omnigraph as og
from omnigraph.manifest import intents
from tests.crash.failing import (
    FAILURES,
    GRAPH,
    NEXT,
    SCHEMA,
    WRITERS,
    Call,
    Failure,
    Heard,
    Images,
    Writer,
    differences,
    images,
    without_next,
)
from tests.samples import sample

pytestmark = pytest.mark.crash

ROOT = Path(__file__).resolve().parent.parent.parent
CASE = "case"
NEVER = (-1, 0, 0, 0)
EVERY = bool(sample(0, whole=1))
PATIENCE_SECONDS = 120.0
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
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.crash.failing_child", str(self._shim)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.installed: bool = self._answer().get("installed", False)

    def ask(
        self, writer: Writer, folder: Path, *, failing: tuple[int, ...] = NEVER, world_only: bool = False, goes_on: bool = False
    ) -> Any:
        assert self._process.stdin is not None
        request = {"writer": writer.name, "folder": str(folder), "failing": failing, "world_only": world_only, "goes_on": goes_on}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        if self._process.poll() is not None:
            self.start()
        return answer

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        watch = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        return json.loads(line) if line else {"heard": f"nothing: the process ended with {self._process.wait()}", "calls": []}

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="session")
def child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    if (compiler := shutil.which("cc")) is None or platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("there is no C compiler, or none for this processor")
    shim = tmp_path_factory.mktemp("shim") / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(shim), str(source)], check=True)
    made = Child(shim)
    if not made.installed:
        pytest.skip("the kernel installs no filter of system calls")
    yield made
    made.stop()


class Twin:
    """What a writer does undisturbed: the images before and after, and its system calls."""

    def __init__(self, child: Child, writer: Writer, place: Path) -> None:
        self.place = place / str(WRITERS.index(writer))
        """Where its worlds stand, one after the other."""
        self.place.mkdir(exist_ok=True)
        child.ask(writer, self.fresh(), world_only=True)
        self.before = images(self.place / CASE)
        clean = child.ask(writer, self.fresh())
        assert clean["heard"] == Heard.RECEIPT, clean
        self.after = images(self.place / CASE)
        assert {Call(call) for call, _, _ in clean["calls"]} == writer.calls, "declare which calls it makes"
        self.calls: list[tuple[Call, str]] = [(Call(call), self.label(path)) for call, _, path in clean["calls"]]

    def fresh(self) -> Path:
        """No world yet: the child makes one."""
        shutil.rmtree(self.place / CASE, ignore_errors=True)
        return self.place / CASE

    def label(self, path: str) -> str:
        """A path without what differs from run to run."""
        inside = path.removeprefix(f"{self.place / CASE}/")
        return re.sub(r"\.tmp\w{6}|[0-9a-f-]{20,}|[0-9A-Z]{26}|\.[0-9a-f]{16}|work-[0-9a-f]{16}|\d{3,}", "*", inside)

    def chosen(self, failure: Failure) -> list[int]:
        """Which calls of the failure's class to fail, counted from one."""
        labels = [label for found, label in self.calls if found is failure.call]
        if EVERY:
            return list(range(1, len(labels) + 1))
        telling = sorted({name: at for at, name in enumerate(labels, start=1)}.values())
        return telling[failure.first % len(telling) :: failure.share]


@pytest.fixture(scope="session")
def twins(child: Child, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Writer], Twin]]:
    """Each writer's twin, made when first asked for; in memory where that is possible: thousands of flushes are not what is tested here."""
    memory = Path("/dev/shm")
    place = Path(mkdtemp(dir=memory)) if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("worlds")
    yield functools.cache(lambda writer: Twin(child, writer, place))
    shutil.rmtree(place)


@pytest.mark.parametrize(("writer", "failure"), CELLS)
def test_a_system_call_fails(child: Child, twins: Callable[[Writer], Twin], writer: Writer, failure: Failure) -> None:
    """RT-65: After a failed system call the error of any writer, init included, says truthfully whether the effect took place."""
    twin = twins(writer)
    wrong: dict[str, list[str]] = {}
    met = 0
    for nth in twin.chosen(failure):
        folder = twin.fresh()
        told = child.ask(writer, folder, failing=(failure.call, failure.mode, nth, failure.errno), goes_on=nth % 2 == 1)
        failed = [twin.label(path) for _, made_to_fail, path in told["calls"] if made_to_fail]
        met += bool(failed)
        if found := problems(twin, writer, failure, folder, told):
            wrong[f"{nth}: {failed[:1]}, heard {told['heard']} {told.get('kind')} {told.get('message')}"] = found
    assert met, "no call was made to fail"
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
            carry_on(folder, seen)
        elif went_on is not None:
            found.append(f"the next write on the same handle: {went_on}")
        seen = without_next(images(folder))
        if heals:  # what it failed to do, the next one did
            allowed = {"after": twin.after}
        if seen not in allowed.values():
            found.append(f"after the next write it shows neither: {differences(seen, allowed)}")
        graph = og.open(folder / GRAPH)
        if heard is Heard.RECEIPT:
            found += [f"a torn index is acknowledged: {path.name}" for path in folder.glob("*/*/*/_indices/*/*.lance") if not whole(path)]
        found += [f"verify: {finding}" for finding in graph.verify() if finding.severity == "error"]
        found += [f"an intent is left: {intent.operation}" for intent in intents.pending(graph.engine.manifest.root.objects)]
    except Exception as error:  # noqa: BLE001  # reported with the rest
        found.append(f"afterwards: {type(error).__name__}: {error}")
    return found


def whole(path: Path) -> bool:
    """Does a file of Lance's end as it should?"""
    return path.read_bytes().endswith(b"LANC")


def carry_on(folder: Path, seen: Images) -> None:
    """The next write, by another process than the one that failed."""
    graph = og.open(folder / GRAPH) if seen[GRAPH] is not None else og.init(folder / GRAPH, schema=SCHEMA)
    graph.mutate(NEXT)
