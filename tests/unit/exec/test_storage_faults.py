"""Storage that fails at the wrong moment: the write fails or succeeds, and says which; nothing is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from omnigraph.errors import Kind, StorageError
from omnigraph.ids import BranchName
from omnigraph.manifest import intents
from omnigraph.manifest.birth import open_graph
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.registry import list_branches
from omnigraph.store.objects import open_objects
from omnigraph.store.paths import Names
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
    """F-01: A write whose intent cannot be stored fails without an effect, and the same handle can write again.

    Also RT-02.
    """
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
    """F-02: A write whose spent intent cannot be removed has succeeded; the next write removes it.

    Also RT-10.
    """
    objects, manifest = flaky
    objects.fail({"delete": 1})
    written = put(manifest, both("new"))
    assert written.commit is not None
    assert len(intents.pending(manifest.root.objects)) == 1
    upsert(reopen(manifest.root.uri), "next")
    assert intents.pending(manifest.root.objects) == []
    assert [commit.audit for commit in manifest.commits()] == [None] * 4


def test_a_listing_that_fails_fails_the_write(flaky: tuple[Flaky, Manifest]) -> None:
    """F-03: A write fails if the intents cannot be listed."""
    objects, manifest = flaky
    before = manifest.snapshot()
    objects.fail({"list": 1})
    with pytest.raises(StorageError):
        put(manifest, both("new"))
    assert manifest.snapshot() == before


def test_a_look_that_fails_for_a_moment_is_repeated_by_the_publisher(flaky: tuple[Flaky, Manifest]) -> None:
    """F-09: A publisher repeats a read that fails for a moment; one that keeps failing is a typed error.

    Also C-06.
    """
    objects, manifest = flaky
    objects.fail({"get": 2})
    assert note(manifest, "through", branch=WORK).commit.message == "through"
    objects.fail({"get": 100})
    with pytest.raises(StorageError) as caught:
        note(manifest, "never", branch=WORK)
    assert caught.value.kind is Kind.STORAGE_UNAVAILABLE
    objects.fail({})
    assert manifest.commits(WORK)[0].message == "through"


class Forgetful(Flaky):
    """Objects that apply one conditional put and lose the answer: it looks lost to another writer, or raises `error`."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.lose: bytes | None = None
        self.error: StorageError | None = None

    def put_if_match(self, path: str, data: bytes, token: str, *, sync: bool = False) -> str | None:
        applied = super().put_if_match(path, data, token, sync=sync)
        if self.lose is None or self.lose not in data:
            return applied
        self.lose = None
        if self.error is not None:
            raise self.error
        return None


def test_a_branch_whose_answer_was_lost_is_made(tmp_path: Path) -> None:
    """RT-58: A branch create whose answer was lost succeeds: the object holds the native name that its creator chose."""
    objects = Forgetful(make(tmp_path / "g", PERSON).root.uri)
    manifest = open_graph(Root(objects))
    objects.lose = b'"native"'
    create_branch(manifest, WORK)
    assert objects.lose is None
    assert ids_in(manifest, branch=WORK) == set()


def test_a_delete_whose_answer_was_lost_is_settled_by_another_look(tmp_path: Path) -> None:
    """B-19: A branch delete whose answer was lost succeeds if a second look shows that the branch is gone."""
    objects = Forgetful(make(tmp_path / "g", PERSON).root.uri)
    manifest = open_graph(Root(objects))
    create_branch(manifest, WORK)
    objects.lose, objects.error = b"{}", StorageError(Kind.STORAGE_UNAVAILABLE, "the store did not answer")
    delete_branch(manifest, WORK)
    assert objects.lose is None
    assert list_branches(objects) == []


class Vanishing(Flaky):
    """Objects whose intents are removed between a listing and the reads that follow it."""

    def list(self, prefix: str, *, limit: int | None = None) -> Names:
        found = super().list(prefix, limit=limit)
        for path in found:
            self.delete(path)
        return found


def test_an_intent_that_vanishes_while_it_is_read_was_finished_by_its_writer(flaky: tuple[Flaky, Manifest]) -> None:
    """REC-26: A listed intent that is gone when it is read was finished by its writer; this is no error."""
    objects, manifest = flaky
    objects.fail({"delete": 1})
    put(manifest, both("new"))
    assert len(intents.pending(objects)) == 1
    assert intents.pending(Vanishing(manifest.root.uri)) == []
