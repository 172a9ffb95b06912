"""The files of native branches are removed beside readers, writers, creators and other cleanups, in real processes."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound
from omnigraph.faults import Fault
from omnigraph.graph import Graph
from tests.crash.fork_child import GONE, SCHEMA, WORK, names, start
from tests.crasher import asleep, elsewhere
from tests.samples import sample

pytestmark = pytest.mark.crash

SEEDS = ["s0", "s1"]


def add(graph: Graph, name: str, branch: str = WORK) -> None:
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def make(folder: Path) -> Graph:
    """A branch with a native branch of its table, which has versions to remove; and one that has not written yet."""
    graph = og.init(folder / "g", schema=SCHEMA)
    for name in SEEDS:
        add(graph, name, "main")
    for name in (WORK, "lazy"):
        graph.branches.create(name)
    for name in "abc":
        add(graph, name)
    return graph


def sound(graph: Graph) -> None:
    assert [finding for finding in graph.verify(deep=True) if finding.severity == "error"] == []


def race(uri: str, **counts: int) -> dict[str, list[Any]]:
    """What each of these processes said, which run at the same time."""
    running = {doing: start(uri, doing.partition("_")[0], count) for doing, count in counts.items()}
    outputs = {doing: process.communicate(timeout=240) for doing, process in running.items()}
    assert [process.returncode for process in running.values()] == [0] * len(running), [errors for _, errors in outputs.values()]
    return {doing: [json.loads(line) for line in output.splitlines()] for doing, (output, _) in outputs.items()}


# -- at a certain point


REMOVALS = [(Fault.CLEANUP_BEFORE_TABLE, 2), (Fault.CLEANUP_AFTER_VERSIONS, 1)]
"""Before the versions of the native branch of `make` are removed, and between the version files and what they named."""


@pytest.mark.parametrize(("point", "nth"), REMOVALS, ids=str)
def test_a_reader_while_files_of_its_branch_are_removed(tmp_path: Path, point: Fault, nth: int) -> None:
    """What the branch shows is read by handles that know it and by new ones; a commit that can be opened is whole (O-17)."""
    graph = make(tmp_path)
    warm, commits = og.open(graph.uri, mode="r"), [commit.id for commit in graph.commits(WORK)]
    assert names(warm) == ["a", "b", "c", *SEEDS]
    with asleep("cleanup 1", graph.uri, point, nth=nth) as sweep:
        for reader in (warm, og.open(graph.uri, mode="r")):
            assert names(reader) == ["a", "b", "c", *SEEDS]
            for commit in commits[1:3]:
                with pytest.raises(NotFound) as reclaimed:
                    list(reader.export(WORK, at=commit))
                assert reclaimed.value.kind is Kind.VERSION_RECLAIMED
        assert sweep.wake() == "done"
    assert names(warm) == ["a", "b", "c", *SEEDS]
    sound(graph)


def test_a_commit_that_is_being_read_keeps_its_files_on_a_native_branch(tmp_path: Path) -> None:
    """An export of an earlier commit of the branch that began before the cleanup ends as it began (O-17)."""
    graph = make(tmp_path)
    lines = graph.export(WORK, at=graph.commits(WORK)[1].id)
    first = next(lines)
    elsewhere("cleanup 1", graph.uri)
    assert sorted(json.loads(line)["data"]["name"] for line in [first, *lines]) == ["a", "b", *SEEDS]


@pytest.mark.parametrize(("point", "nth"), REMOVALS, ids=str)
def test_first_writes_and_new_branches_wait_for_the_removal(tmp_path: Path, point: Fault, nth: int) -> None:
    """They find the branch as it is, and nothing of theirs is removed (B-25, B-27)."""
    graph = make(tmp_path)

    def anew() -> None:
        handle = og.open(graph.uri)
        handle.branches.delete(WORK)
        handle.branches.create(WORK)
        add(handle, "new")

    others = [threading.Thread(target=work) for work in (anew, lambda: add(og.open(graph.uri), "first", "lazy"))]
    with asleep("cleanup 1", graph.uri, point, nth=nth) as sweep:
        for other in others:
            other.start()
        for other in others:
            other.join(0.3)
            assert other.is_alive(), "it waits for the cleanup"
        assert sweep.wake() == "done"
        for other in others:
            other.join()
    assert names(graph) == ["new", *SEEDS]
    assert names(graph, "lazy") == ["first", *SEEDS]
    sound(graph)


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_branch_is_deleted_and_created_anew_between_two_locks_of_a_cleanup(tmp_path: Path, nth: int) -> None:
    """Native branches that the plan names are gone, and those of the new branch are not in it. Nothing of this is an error (INV-7)."""
    graph = make(tmp_path)
    with asleep("cleanup 1", graph.uri, Fault.CLEANUP_BEFORE_LOCK, nth=nth) as sweep:
        graph.branches.delete(WORK)
        graph.branches.create(WORK)
        for name in "xy":
            add(graph, name)
        assert sweep.wake() == "done", sweep.errors()
    assert names(graph) == [*SEEDS, "x", "y"]
    assert names(graph, "lazy") == SEEDS
    elsewhere("cleanup 1", graph.uri)
    assert names(graph) == [*SEEDS, "x", "y"]
    sound(graph)


@pytest.mark.parametrize("nth", [2, 3])
def test_a_table_of_a_deleted_branch_between_two_locks_of_a_cleanup(tmp_path: Path, nth: int) -> None:
    """A type that was added on the branch alone: its table goes with the branch, and the cleanup that planned for it goes on."""
    graph = make(tmp_path)
    graph.apply_schema(f"{SCHEMA}\nnode Added {{ name: String @key }}", branch=WORK)
    for name in "xy":
        graph.mutate(f'query q() {{ insert Added {{ name: "{name}" }} }}', branch=WORK)
    with asleep("cleanup 1", graph.uri, Fault.CLEANUP_BEFORE_LOCK, nth=nth) as sweep:
        graph.branches.delete(WORK)
        assert sweep.wake() == "done", sweep.errors()
    assert names(graph, "main") == SEEDS
    sound(graph)


@pytest.mark.parametrize(("point", "nth"), REMOVALS, ids=str)
def test_a_second_cleanup_waits_for_the_removal(tmp_path: Path, point: Fault, nth: int) -> None:
    graph = make(tmp_path)
    other = threading.Thread(target=lambda: elsewhere("cleanup 1", graph.uri))
    with asleep("cleanup 1", graph.uri, point, nth=nth) as sweep:
        other.start()
        other.join(0.3)
        assert other.is_alive(), "it waits for the first"
        assert sweep.wake() == "done"
        other.join()
    assert names(graph) == ["a", "b", "c", *SEEDS]
    assert graph.cleanup(keep=1, dry_run=True).versions == 0
    sound(graph)


# -- at any point


def test_readers_writers_and_first_writes_beside_two_cleanups(tmp_path: Path) -> None:
    """Every acknowledged row is there, each answer is a state of the branch, and states follow each other (B-25, B-26, B-27, O-17)."""
    graph = make(tmp_path)
    count = sample(12, whole=80)
    said = race(graph.uri, clean_1=count, clean_2=count, read=6 * count, past=3 * count, write=3 * count, touch=count)
    written = said["write"]
    states = [sorted(["a", "b", "c", *SEEDS, *written[:n]]) for n in range(len(written) + 1)]
    assert len(written) == 3 * count
    assert all(seen in states for seen in said["read"])
    assert said["read"] == sorted(said["read"], key=len), "never an earlier state after a later one"
    assert all(seen in states or seen == Kind.VERSION_RECLAIMED.value for seen in said["past"])
    assert all([name for name in seen if name != f"b{n}"] in states and f"b{n}" in seen for n, seen in enumerate(said["touch"]))
    assert [errors for errors, _ in said["clean_1"] + said["clean_2"]] == [[]] * (2 * count)
    assert sum(versions for _, versions in said["clean_1"] + said["clean_2"]) > 0, "they had something to do"
    assert names(graph) == states[-1]
    for n in range(0, count, 2):
        assert names(graph, f"b{n}") == said["touch"][n]
    sound(graph)


def test_a_branch_that_is_created_anew_beside_cleanups_and_its_users(tmp_path: Path) -> None:
    """Whoever uses it sees one branch of that name or is told that it is gone, and never rows of two (INV-7, B-27)."""
    graph = make(tmp_path)
    count = sample(12, whole=80)
    said = race(graph.uri, replace=count, clean=2 * count, read=8 * count, past=4 * count, write=3 * count)
    assert said["replace"] == [f"life{n:03}" for n in range(count)]
    assert [errors for errors, _ in said["clean"]] == [[]] * (2 * count)
    told = {kind.value for kind in GONE}
    answers = [seen for seen in said["read"] + said["past"] if not (isinstance(seen, str) and seen in told)]
    assert answers, "some reads met the branch"
    for seen in answers:
        lives = {name.partition("-")[0] for name in seen if name not in SEEDS and not name.startswith("w")}
        assert len(lives) <= 1 or lives == {*"abc"}, f"rows of two branches: {seen}"
        assert set(SEEDS) <= set(seen)
    assert set(names(graph)) >= {*SEEDS, *(f"life{count - 1:03}-{part}" for part in range(3))}
    elsewhere("cleanup 1", graph.uri)
    assert [path.name for path in Path(graph.uri).glob("nodes/*/tree/*")] == [
        path.stem for path in Path(graph.uri).glob("nodes/*/_refs/branches/*")
    ], "no directory of a native branch without its name"
    sound(graph)
