"""Many real processes, one branch: every acknowledged commit is there once, in one chain, with no gap."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph.ids import BranchName
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.publish import hold
from tests.graphs import make, note, reopen
from tests.publisher import acknowledged, start
from tests.s3 import S3Server
from tests.samples import sample


def race(uri: str, branch: str, *, processes: int, publishes: int, options: Mapping[str, str] | None = None) -> list[str]:
    """Acknowledged commit ids of all processes."""
    running = [start(uri, branch, f"p{n}", publishes, options=options) for n in range(processes)]
    outputs = [process.communicate(timeout=240)[0] for process in running]
    assert [process.returncode for process in running] == [0] * processes
    return [commit for output in outputs for commit in acknowledged(output)]


def check_chain(uri: str, branch: str, acked: list[str], *, before: int, options: Mapping[str, str] | None = None) -> None:
    chain = reopen(uri, storage_options=options).commits(BranchName(branch))
    assert len(acked) == len(set(acked))
    assert len(chain) == before + len(acked)
    assert {commit.id for commit in chain[: len(acked)]} == set(acked)
    assert [child.parents for child in chain[:-1]] == [(parent.id,) for parent in chain[1:]]
    # Below them the first holder of a lease may have stated its epoch, which is a version without a commit.
    versions = [commit.manifest_version for commit in chain[: len(acked)]]
    assert versions == list(range(versions[0], versions[0] - len(acked), -1)), "a version gap"


def test_eight_processes_publish_side_by_side(tmp_path: Path) -> None:
    """C-09: Concurrent writers of one branch make one chain of commits that holds every acknowledged commit once."""
    uri = make(tmp_path / "g").root.uri
    publishes = sample(25, whole=250)
    acked = race(uri, "main", processes=8, publishes=publishes)
    assert len(acked) == 8 * publishes
    check_chain(uri, "main", acked, before=1)


def test_processes_race_on_a_branch_too(tmp_path: Path) -> None:
    manifest = make(tmp_path / "g")
    create_branch(manifest, "work")
    acked = race(manifest.root.uri, "work", processes=3, publishes=10)
    check_chain(manifest.root.uri, "work", acked, before=1)
    assert len(reopen(manifest.root.uri).commits()) == 1


def test_two_branches_written_side_by_side_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """While this process holds main's lock, another publishes on a branch; on main it could not."""
    manifest = make(tmp_path / "g")
    create_branch(manifest, "work")
    with hold(manifest):
        acked = race(manifest.root.uri, "work", processes=1, publishes=5)
        blocked = start(manifest.root.uri, "main", "late", 1)
        assert [blocked.stdout.readline().strip() for _ in range(2)] == ["ready", "begin"]
        note(manifest, "first")
    assert len(acked) == 5
    output, _ = blocked.communicate(timeout=60)
    (late,) = acknowledged(output)
    newest, older, _ = reopen(manifest.root.uri).commits()
    assert (newest.id, older.message) == (late, "first")


@pytest.mark.s3
def test_four_processes_publish_ten_times_each_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    options = s3_server.storage_options
    make(s3_uri, storage_options=options)
    acked = race(s3_uri, "main", processes=4, publishes=10, options=options)
    assert len(acked) == 40
    check_chain(s3_uri, "main", acked, before=1, options=options)


@pytest.mark.s3
def test_branches_live_and_die_on_s3(s3_server: S3Server, s3_uri: str) -> None:
    from omnigraph.manifest.branches import delete_branch
    from omnigraph.manifest.registry import list_branches
    from tests.graphs import add, ids_in

    manifest = make(s3_uri, storage_options=s3_server.storage_options)
    add(manifest, "a")
    create_branch(manifest, "team/work")
    note(manifest, "on the branch", branch=BranchName("team/work"))
    other = reopen(s3_uri, storage_options=s3_server.storage_options)
    assert ids_in(other, branch=BranchName("team/work")) == {"a"}
    assert other.commits(BranchName("team/work"))[0].message == "on the branch"
    delete_branch(other, "team/work")
    assert list_branches(manifest.root.objects) == []
    assert not manifest.root.objects.exists("__manifest/tree")
