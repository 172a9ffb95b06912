"""What a publish costs in storage calls: it follows the change, not the history."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from omnigraph.ids import BranchName
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.read import Manifest
from omnigraph.store.objects import open_objects
from omnigraph.store.root import FSYNC_ENVIRONMENT, Root
from tests.counting import CountingObjects, reads_of
from tests.graphs import make, note
from tests.s3 import CountingProxy

COMMITS = 2_000
WINDOW = 100


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flushing costs time, not storage calls."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def reads_per_publish(manifest: Manifest, *, publishes: int, branch: str = "main") -> list[int]:
    _, ledger, _ = manifest.look(BranchName(branch))
    reads_of(ledger)
    reads = []
    for n in range(publishes):
        note(manifest, str(n), branch=BranchName(branch))
        _, ledger, _ = manifest.look(BranchName(branch))
        reads.append(reads_of(ledger))
    return reads


def test_reads_per_publish_do_not_grow_with_history(tmp_path: Path) -> None:
    """Any 100 commits up to the 2,000th: mean at most 3, maximum at most 20; and the fragments stay few."""
    manifest = make(tmp_path / "g")
    reads = reads_per_publish(manifest, publishes=COMMITS)
    means = [statistics.fmean(reads[at : at + WINDOW]) for at in range(COMMITS - WINDOW + 1)]
    assert min(reads) > 0, "the counter counts nothing"
    assert max(means) <= 3
    assert max(reads) <= 20
    _, ledger, _ = manifest.look()
    assert len(ledger.as_table().dataset.get_fragments()) <= 19 + 1  # the state
    assert len(manifest.commits()) == COMMITS + 1


def test_a_warm_look_is_one_probe_and_no_read(tmp_path: Path) -> None:
    """K-01: nothing is read again when nobody wrote."""
    manifest = make(tmp_path / "g")
    note(manifest, "x")
    _, ledger, _ = manifest.look()
    reads_of(ledger)
    manifest.snapshot()
    assert reads_of(ledger) == 0


def test_a_warm_look_at_a_branch_reads_its_object_and_nothing_else(tmp_path: Path) -> None:
    """K-03: one read, which also proves that the branch is still the same one."""
    objects = CountingObjects(open_objects(str(tmp_path / "g")))
    make(tmp_path / "g")
    from omnigraph.manifest.birth import open_graph

    manifest = open_graph(Root(objects))
    create_branch(manifest, "work")
    _, ledger, _ = manifest.look(BranchName("work"))
    reads_of(ledger)
    objects.calls.clear()
    manifest.snapshot(BranchName("work"))
    assert dict(objects.calls) == {"get": 1}
    assert reads_of(ledger) == 0


def test_a_short_listing_does_not_read_the_whole_history(tmp_path: Path) -> None:
    manifest = make(tmp_path / "g")
    for n in range(40):
        note(manifest, str(n))
    assert [commit.message for commit in manifest.commits(limit=3)] == ["39", "38", "37"]
    assert len(manifest.commits(limit=400)) == 41


@pytest.mark.s3
def test_requests_per_publish_on_s3_do_not_grow_with_history(s3_proxy: CountingProxy, s3_uri: str) -> None:
    """Counted by a proxy in front of the server: what a bill would count."""
    manifest = make(s3_uri, storage_options=s3_proxy.storage_options)
    totals = []
    for n in range(64):
        s3_proxy.reset()
        note(manifest, str(n))
        totals.append(sum(s3_proxy.counts.values()))
    early, late = totals[16:32], totals[48:64]  # whole periods of folding
    assert min(totals) > 0, "the proxy counts nothing"
    assert statistics.fmean(late) <= statistics.fmean(early) + 4
