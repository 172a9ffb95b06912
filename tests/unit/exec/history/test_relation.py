"""How two branches are related, told by the commits since they parted: the same as by their whole histories."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import NotFound, OmniGraphError
from omnigraph.exec.history import relation
from omnigraph.exec.history.relation import Relation, relate
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.manifest.model import COMMIT
from omnigraph.store.ledger import Ledger
from tests.mutations import run
from tests.samples import sample

SCHEMA = "node Person { name: String @key  age: I32? }"
STEPS = 30


def by_whole_histories(graph: Graph, theirs: str, ours: str, monkeypatch: pytest.MonkeyPatch) -> Relation:
    with monkeypatch.context() as patch:
        patch.setattr(relation, "since_parting", lambda *_: None)
        return related(graph, theirs, ours)


def related(graph: Graph, theirs: str, ours: str) -> Relation:
    manifest = graph.engine.manifest
    return relate(manifest, manifest.snapshot(BranchName(theirs)), manifest.snapshot(BranchName(ours)))


@pytest.mark.parametrize("seed", range(sample(3, whole=60)))
def test_the_commits_since_the_parting_tell_the_same(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random branches, also of branches and of earlier commits, merges in all directions, deletions."""
    chance = random.Random(seed)
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    told = set()
    for step in range(STEPS):
        branches = graph.branches.list()
        one = chance.choice(branches)
        match chance.choice(("change", "change", "create", "create at", "merge", "merge", "delete")):
            case "change":
                run(graph, f'insert Person {{ name: "p{step}" }}', branch=one)
            case "create" if len(branches) < 5:
                graph.branches.create(f"b{step}", from_=one)
            case "create at" if len(branches) < 5:
                at = chance.choice(graph.commits(one))
                with contextlib.suppress(NotFound):  # its rows went with a deleted branch
                    graph.branches.create(f"b{step}", at=at.id)
            case "merge" if len(branches) > 1:
                graph.merge(chance.choice([each for each in branches if each != one]), into=one)
            case "delete" if one != "main" and len(branches) > 3:
                with contextlib.suppress(OmniGraphError):  # others are made of it
                    graph.branches.delete(one)
        for ours in graph.branches.list():
            for theirs in graph.branches.list():
                if ours != theirs:
                    found = related(graph, theirs, ours)
                    told.add(found.outcome)
                    assert found == by_whole_histories(graph, theirs, ours, monkeypatch)
    assert len(told) > 1


def test_the_commits_before_the_parting_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a merge reads of the histories is what came since the branches parted (K-13)."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    for at in range(20):
        run(graph, f'insert Person {{ name: "p{at}" }}')
    graph.branches.create("work")
    graph.branches.create("deep", from_="work")
    for branch in ("main", "work", "deep"):
        run(graph, 'insert Person { name: "last" }', branch=branch)
    asked: list[int] = []
    recent, held = Ledger.recent, Ledger.held_facts

    def noted_recent(ledger: Ledger, prefix: str, *, since: int) -> object:
        asked.append(len(recent(ledger, COMMIT, since=since)))
        return recent(ledger, prefix, since=since)

    def noted_held(ledger: Ledger, prefix: str) -> object:
        asked.append(len(held(ledger, COMMIT)))
        return held(ledger, prefix)

    monkeypatch.setattr(Ledger, "recent", noted_recent)
    monkeypatch.setattr(Ledger, "held_facts", noted_held)
    for theirs, ours in (("work", "main"), ("deep", "main"), ("main", "deep"), ("deep", "work")):
        asked.clear()
        assert len(related(graph, theirs, ours).copied) == 1
        assert asked == [1, 1]
