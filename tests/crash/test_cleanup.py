"""Cleanups that are killed between any two effects, and cleanups that race with writers and with creators of branches and tags."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Kind, LimitError, NotFound, StorageError
from omnigraph.exec.upkeep.cleanup import cleanup
from omnigraph.faults import Fault, armed
from omnigraph.graph import Graph
from omnigraph.manifest import intents
from omnigraph.manifest.recover import IDLE_SECONDS
from omnigraph.manifest.registry import all_branches
from omnigraph.store.reclaim import existing_versions
from omnigraph.store.refs import native_refs
from tests.crasher import asleep, crash, elsewhere
from tests.orphans import orphans

pytestmark = pytest.mark.crash

SCHEMA = "node Person { name: String @key  age: I32? }\nnode Firm { name: String @key }\nedge Knows: Person -> Person"
NAMES = "match { $p: Person } return { $p.name as name } order { name }"

ARRIVALS = {
    Fault.CLEANUP_BEFORE_LOCK: 4,
    Fault.CLEANUP_BEFORE_TRANSACTION: 1,
    Fault.CLEANUP_AFTER_TRANSACTION: 1,
    Fault.CLEANUP_AFTER_FLOOR: 2,
    Fault.CLEANUP_AFTER_FENCE: 2,
    Fault.CLEANUP_AFTER_HISTORY: 2,
    Fault.CLEANUP_BEFORE_FORK: 4,
    Fault.CLEANUP_AFTER_FORK: 4,
    Fault.CLEANUP_BEFORE_TABLE: 3,
    Fault.CLEANUP_AFTER_VERSIONS: 2,
    Fault.CLEANUP_AFTER_TABLE: 3,
    Fault.OBJECT_AFTER_LINK: 3,
}
"""How often the cleanup of `make` passes each point: a dead transaction, two branches with old commits, four unused forks, two tables
and a fork.
"""


def make(folder: Path) -> Graph:
    """A graph with old commits on two branches, a branch without writes, a tag, and what dead processes left."""
    shutil.copytree(_made(), folder / "g")
    return og.open(folder / "g")


@functools.cache
def _made() -> str:
    """It is made once; each test has a copy of the files."""
    graph = og.init(Path(tempfile.mkdtemp()) / "g", schema=SCHEMA)
    graph.load([{"type": "Firm", "data": {"name": "f"}}])
    for name in "abc":
        add(graph, name)
    graph.tags.create("tagged")
    for name in "lazy", "work", "gone":
        graph.branches.create(name)
    for name in "de":
        add(graph, name)
    for branch in "work", "gone":
        for name in "xyz":
            add(graph, name, branch)
    with armed(Fault.BRANCH_BEFORE_DROP, failure=StorageError(Kind.STORAGE, "no disk today")):
        graph.branches.delete("gone")
    died = crash(transact("t"), graph.uri, Fault.WRITE_PUBLISHED)
    assert died.returncode == -signal.SIGKILL
    graph.refresh()
    return graph.uri


def transact(*added: str) -> str:
    statements = [f'insert Person {{ name: "{name}" }}' for name in added]
    return f"transact main {json.dumps(statements)}"


def add(graph: Graph, name: str, branch: str = "main") -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def names(graph: Graph, branch: str = "main", at: str | None = None) -> str:
    return "".join(row["name"] for row in graph.query(NAMES, branch=branch, at=at).rows)


def shown(graph: Graph) -> dict[str, str]:
    """All that cleanup must leave as it is."""
    found = {branch: names(graph, branch) for branch in ("main", "lazy", "work")}
    return {**found, "tagged": names(graph, at="tagged"), "before": names(graph, at=graph.commits()[1].id)}


def stored(graph: Graph) -> dict[str, list[int]]:
    """The versions of every table and native branch, `__manifest` included."""
    root = graph.engine.root
    paths = ["__manifest", *(row.path for row in graph.engine.snapshot().state.tables.values())]
    lines = [(path, native) for path in paths for native in (None, *native_refs(root, path))]
    return {f"{path} {native}": existing_versions(root, path, branch=native) for path, native in lines}


def _lost(graph: Graph, before: dict[str, list[int]]) -> dict[str, set[int]]:
    """The versions that were removed since."""
    after = stored(graph)
    return {line: gone for line, versions in before.items() if (gone := set(versions) - set(after[line]))}


def sound(graph: Graph) -> None:
    assert [finding for finding in graph.verify(deep=True) if finding.severity == "error"] == []


STAGING = [
    ('mutate query q() { insert Person { name: "new" } }', 1, "__recovery"),
    ("create new", 1, "__branches"),
    ("tag new", 1, "__tags"),
    ("cleanup 1", 1, "__branches"),
    ("cleanup 1", 2, "__manifest"),
]
"""What a process does when it is killed at its nth object -> where the file is that it had staged and not yet given its name."""


def staged(graph: Graph) -> list[str]:
    return sorted(file.parent.name for file in Path(graph.uri).rglob("*.omnigraph-tmp"))


@pytest.mark.parametrize(("doing", "nth", "where"), STAGING)
def test_what_a_killed_process_had_staged_is_removed(tmp_path: Path, doing: str, nth: int, where: str) -> None:
    """An intent, a branch, a tag and a floor are staged beside their place. No listing shows such a file, so only cleanup removes it."""
    graph = make(tmp_path)
    before = shown(graph)
    assert crash(doing, graph.uri, Fault.OBJECT_BEFORE_LINK, nth=nth).returncode == -signal.SIGKILL
    assert staged(graph) == [where]
    assert shown(graph) == before
    graph.cleanup(keep=2, dry_run=True)
    assert staged(graph) == [where]
    graph.cleanup(keep=2)
    assert staged(graph) == []
    assert shown(graph) == before
    sound(graph)


@pytest.mark.parametrize(("point", "nth"), [(point, nth) for point, times in ARRIVALS.items() for nth in sorted({1, times})], ids=str)
def test_a_cleanup_that_is_killed(tmp_path: Path, point: Fault, nth: int) -> None:
    """What it must leave is there, every commit that can be opened can be read, writers go on, and the next cleanup finishes (B-28)."""
    graph = make(tmp_path)
    before = shown(graph)
    died = crash("cleanup 2", graph.uri, point, nth=nth)
    assert died.returncode == -signal.SIGKILL, f"{point} was not reached: {died.said}"
    found = og.open(graph.uri)
    assert intents.pending(found.engine.root.objects) == []
    assert shown(found) == before
    for branch in "main", "work":
        for commit in found.commits(branch):
            try:
                found.snapshot(at=commit.id)
            except NotFound:
                continue
            names(found, at=commit.id)
    elsewhere("cleanup 2", graph.uri)
    assert shown(found) == before
    assert found.verify(deep=True) == []
    assert found.cleanup(keep=2, dry_run=True).versions == 0
    kept = {line: len(versions) for line, versions in stored(found).items() if not line.startswith("__manifest")}
    assert sorted(kept.values()) == [1, 1, 2, 3]
    add(found, "n")
    add(found, "n", "work")
    add(found, "n", "lazy")
    assert [names(found, branch) for branch in ("main", "work", "lazy")] == ["abcden", "abcnxyz", "abcn"]


# -- beside others


def load(name: str, branch: str = "main") -> str:
    return "load " + json.dumps({"data": [{"type": "Person", "data": {"name": name}}], "branch": branch})


@pytest.mark.parametrize("branch", ["main", "lazy"], ids=["own table", "fork to be made"])
@pytest.mark.parametrize("moved", [False, True], ids=["same head", "head moved"])
def test_a_job_that_stages_for_an_hour_keeps_its_files(tmp_path: Path, branch: str, moved: bool) -> None:
    """A load that has written its files and waits commits after a cleanup, with them, or with new ones if others committed meanwhile."""
    graph = make(tmp_path)
    graph.cleanup(keep=1)
    with asleep(load("job", branch), graph.uri, Fault.WRITE_PREPARED) as job:
        staged = orphans(graph)
        assert staged
        for file in staged:
            os.utime(file, times=(time.time() - 3600,) * 2)
        if moved:
            add(graph, "m", branch)
            add(graph, "n", branch)
        assert cleanup(graph.engine, keep=1, older_than=None).forks == ()
        assert orphans(graph) >= staged
        assert job.wake() == "done"
    assert names(graph, branch) == {"main": "abcde", "lazy": "abc"}[branch] + "job" + ("mn" if moved else "")
    sound(graph)


def test_a_branch_made_while_a_sweep_has_decided(tmp_path: Path) -> None:
    """A sweep that has decided what to remove holds the lock of the graph, so no branch is made and no fork is shown meanwhile (B-27).
    B-26: What is removed was decided from a fresh read under the same lock.
    """
    graph = make(tmp_path)
    with asleep("cleanup 1", graph.uri, Fault.CLEANUP_BEFORE_FORK) as sweep:

        def late() -> None:
            handle = og.open(graph.uri)
            handle.branches.create("late")
            add(handle, "late", "late")

        creator = threading.Thread(target=late)
        creator.start()
        creator.join(0.5)
        assert creator.is_alive(), "the creator waits for the sweep"
        assert sweep.wake() == "done"
        creator.join()
    assert names(graph, "late") == "abcdelate"
    assert og.open(graph.uri).verify(deep=True) == []
    assert graph.cleanup(keep=1).forks == ()
    assert names(graph, "late") == "abcdelate"


@pytest.mark.parametrize("nth", [1, 2])
def test_branches_tags_and_commits_made_between_two_locks_of_a_sweep(tmp_path: Path, nth: int) -> None:
    """A fork is never removed because a list that was read earlier does not name its branch (B-27)."""
    graph = make(tmp_path)
    kept = graph.commits()[0].id
    with asleep("cleanup 1", graph.uri, Fault.CLEANUP_BEFORE_LOCK, nth=nth) as sweep:
        graph.branches.create("new", at=kept)
        add(graph, "new", "new")
        graph.branches.create("lazy-too", at="tagged")
        graph.tags.create("kept", at=kept)
        for name in "pqr":
            add(graph, name)
        add(graph, "s", "work")
        assert sweep.wake() == "done"
    assert names(graph, "new") == "abcdenew"
    assert names(graph, "lazy-too") == "abc"
    assert names(graph, at="kept") == "abcde"
    assert (names(graph), names(graph, "work")) == ("abcdepqr", "abcsxyz")
    if nth > 1:  # what was committed after the decision is not touched, whatever the policy
        assert [names(graph, at=commit.id) for commit in graph.commits()[:4]] == ["abcdepqr", "abcdepq", "abcdep", "abcde"]
    assert [finding for finding in graph.verify(deep=True) if finding.severity == "error"] == []


def test_a_write_that_is_interrupted_before_the_lock_of_a_sweep(tmp_path: Path) -> None:
    """RT-62: A write that is interrupted before cleanup gets its lock refuses it, and no version is removed."""
    graph = make(tmp_path)
    before = stored(graph)
    with asleep("cleanup 1", graph.uri, Fault.CLEANUP_BEFORE_LOCK) as sweep:
        died = crash(load("late"), graph.uri, Fault.WRITE_ARMED)
        assert died.returncode == -signal.SIGKILL
        assert sweep.wake() == "recovery_required"
    assert not _lost(graph, before)
    graph.refresh()
    graph.cleanup(keep=1)
    assert names(graph) == "abcde"
    sound(graph)


@pytest.mark.parametrize("point", [Fault.WRITE_AFTER_REF, Fault.WRITE_PUBLISHED])
def test_a_sweep_waits_for_a_writer(tmp_path: Path, point: Fault) -> None:
    """A fork that is being made is not removed: cleanup waits for its writer, and then finds the branch that shows it (B-25)."""
    graph = make(tmp_path)
    before = stored(graph)
    with asleep(load("fork", "lazy"), graph.uri, point) as writer:
        with pytest.raises(LimitError) as waited:
            cleanup(graph.engine, keep=1, older_than=None, timeout_seconds=0.2)
        assert waited.value.kind is Kind.LOCK_TIMEOUT
        assert not _lost(graph, before)
        assert writer.wake() == "done"
    graph.cleanup(keep=1)
    assert names(graph, "lazy") == "abcfork"
    sound(graph)


@pytest.mark.parametrize("point", [Fault.WRITE_ARMED, Fault.WRITE_COMMITTED], ids=str)
def test_previews_wait_for_a_writer_that_is_at_work(tmp_path: Path, point: Fault) -> None:
    """Its intent is not that of an interrupted write, and a table that is ahead of the graph was not changed by another program (O-14)."""
    graph = make(tmp_path)
    with asleep(load("late"), graph.uri, point) as writer:
        waking = threading.Timer(2 * IDLE_SECONDS, writer.wake)
        waking.start()
        assert og.open(graph.uri, mode="r").cleanup(keep=1, dry_run=True).versions > 0
        waking.join()
    with asleep(load("later"), graph.uri, point) as writer:
        waking = threading.Timer(2 * IDLE_SECONDS, writer.wake)
        waking.start()
        assert graph.repair().is_sound
        waking.join()
    assert names(graph) == "abcdelatelater"
    sound(graph)


def test_two_sweeps_at_once(tmp_path: Path) -> None:
    graph = make(tmp_path)
    before = shown(graph)
    with asleep("cleanup 2", graph.uri, Fault.CLEANUP_BEFORE_LOCK, nth=2) as first:
        elsewhere("cleanup 2", graph.uri)
        assert first.wake() == "done"
    assert shown(graph) == before
    assert graph.verify(deep=True) == []


def test_the_transaction_of_a_sleeping_process_stays(tmp_path: Path) -> None:
    """A process that is paused is alive: on a disk it holds the lock of its transaction."""
    graph = make(tmp_path)
    with asleep(transact("t1", "t2"), graph.uri, Fault.WRITE_PREPARED, nth=2) as transaction:
        assert len(graph.cleanup(keep=1).transactions) == 1, "the dead one of `make`"
        assert transaction.wake() == "done"
    assert names(graph) == "abcdet1t2"
    assert all_branches(graph.engine.root.objects) == ["lazy", "work"]
    sound(graph)
