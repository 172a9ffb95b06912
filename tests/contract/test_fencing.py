"""A holder that slept through its lease and wakes up: its publish is refused, by the epoch its successor left in head."""

from __future__ import annotations

import json
import signal

import pytest

from omnigraph.ids import BranchName
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.publish import hold
from tests.contract.fencing_child import TTL_SECONDS
from tests.forks import Forked
from tests.graphs import add, ids_in, make, note, reopen
from tests.s3 import S3Server


@pytest.mark.s3
def test_a_sleeper_that_was_replaced_cannot_publish(s3_server: S3Server, s3_uri: str) -> None:
    options = s3_server.storage_options
    manifest = make(s3_uri, storage_options=options)
    locks = Locks.of(manifest.root.objects, ttl_seconds=TTL_SECONDS)
    sleeper = Forked("tests.contract.fencing_child", s3_uri, json.dumps(options))
    assert sleeper.stdout.readline() == "holding\n"
    sleeper.send_signal(signal.SIGSTOP)
    with hold(manifest) as grant:
        assert grant.took_over
        note(manifest, "the successor")
    sleeper.send_signal(signal.SIGCONT)
    said, _ = sleeper.communicate("\n", timeout=60)
    assert said == "fenced\n"
    assert [commit.message for commit in reopen(s3_uri, storage_options=options).commits()] == ["the successor", None]
    assert manifest.snapshot().state.head.epoch == grant.epoch

    with hold(manifest) as later:
        assert not later.took_over, "the epoch was published once and is owed no more"
    create_branch(manifest, "work")
    add(manifest, "a")
    note(manifest, "a branch made after a take-over can be written", branch=BranchName("work"))
    assert ids_in(manifest) == {"a"}
    del locks


@pytest.mark.s3
def test_writers_of_a_branch_made_after_a_take_over_are_not_fenced(s3_server: S3Server, s3_uri: str) -> None:
    """A branch inherits its parent's epoch in head; its lease must not start below it."""
    from omnigraph.manifest.model import CommitKind
    from omnigraph.manifest.publish import Preconditions, Publication, _raise_epoch, publish

    manifest = make(s3_uri, storage_options=s3_server.storage_options)
    _raise_epoch(manifest, manifest.snapshot().branch.name, 5)
    create_branch(manifest, "work")
    with hold(manifest, BranchName("work")) as grant:
        assert grant.epoch == 5
        publish(manifest, Publication(CommitKind.LOAD, expect=Preconditions(epoch=grant.epoch)), branch=BranchName("work"))
