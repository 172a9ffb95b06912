"""Storage that fails at the wrong moment: the write fails or succeeds, and says which; nothing is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph.errors import Kind, StorageError
from omnigraph.ids import BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.read import Manifest
from omnigraph.store.objects import open_objects
from omnigraph.store.root import Root
from tests.counting import CountingObjects
from tests.graphs import COMPANY, PERSON, ids_in, make, note, reopen
from tests.writes import both, put, upsert

WORK = BranchName("work")


class Flaky(CountingObjects):
    """Real objects in front of which a call fails, as often as it is told to: a store behind a bad network."""

    def __init__(self, uri: str) -> None:
        super().__init__(open_objects(uri))
        self.failing: dict[str, int] = {}

    def _count(self, kind: str) -> None:
        super()._count(kind)
        if self.failing.get(kind, 0) > 0:
            self.failing[kind] -= 1
            raise StorageError(Kind.STORAGE_UNAVAILABLE, f"the store did not answer a {kind}")

    def fail(self, failing: Mapping[str, int]) -> None:
        self.failing = dict(failing)


@pytest.fixture
def flaky(tmp_path: Path) -> tuple[Flaky, Manifest]:
    manifest = make(tmp_path / "g", PERSON, COMPANY)
    put(manifest, both("old"))
    create_branch(manifest, WORK)
    objects = Flaky(manifest.root.uri)
    return objects, open_graph(Root(objects))


def test_an_intent_that_cannot_be_written_ends_the_write(flaky: tuple[Flaky, Manifest]) -> None:
    """F-01, RT-02: nothing to recover, and the same handle writes on."""
    objects, manifest = flaky
    before = manifest.snapshot()
    objects.fail({"put": 1})
    with pytest.raises(StorageError):
        put(manifest, both("new"))
    assert manifest.snapshot() == before
    assert intents.pending(manifest.root.objects) == []
    put(manifest, both("new"))
    assert ids_in(manifest) == {"old", "new"}


def test_an_intent_that_cannot_be_removed_is_somebody_elses_work(flaky: tuple[Flaky, Manifest]) -> None:
    """F-02, RT-10: the write has succeeded and says so; the next one removes the stale intent."""
    objects, manifest = flaky
    objects.fail({"delete": 1})
    written = put(manifest, both("new"))
    assert written.commit is not None
    assert len(intents.pending(manifest.root.objects)) == 1
    upsert(reopen(manifest.root.uri), "next")
    assert intents.pending(manifest.root.objects) == []
    assert [commit.audit for commit in manifest.commits()] == [None] * 4


def test_a_listing_that_fails_fails_the_write(flaky: tuple[Flaky, Manifest]) -> None:
    """F-03: an intent that was not looked for is not an intent that is not there."""
    objects, manifest = flaky
    before = manifest.snapshot()
    objects.fail({"list": 1})
    with pytest.raises(StorageError):
        put(manifest, both("new"))
    assert manifest.snapshot() == before


def test_a_look_that_fails_for_a_moment_is_repeated_by_the_publisher(flaky: tuple[Flaky, Manifest]) -> None:
    """C-06, F-09"""
    objects, manifest = flaky
    objects.fail({"get": 2})
    assert note(manifest, "through", branch=WORK).commit.message == "through"
    objects.fail({"get": 100})
    with pytest.raises(StorageError) as caught:
        note(manifest, "never", branch=WORK)
    assert caught.value.kind is Kind.STORAGE_UNAVAILABLE
    objects.fail({})
    assert manifest.commits(WORK)[0].message == "through"
