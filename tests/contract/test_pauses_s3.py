"""B-29: A process that was paused past its lease destroys nothing when it continues; what others did meanwhile stays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from omnigraph.errors import ConflictError, Kind, NotFound
from omnigraph.faults import Fault
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.read import PATH, Manifest
from omnigraph.manifest.registry import list_branches
from omnigraph.manifest.tagging import create_tag
from omnigraph.manifest.tags import list_tags
from omnigraph.store.refs import has_ref
from tests.crash.matrix import ALIASES, WRITERS, Writer, content, images, prepare, whole
from tests.crasher import TTL_SECONDS, Sleeper, asleep
from tests.graphs import PERSON, ids_in, make
from tests.s3 import S3Server
from tests.samples import sample
from tests.writes import upsert

pytestmark = pytest.mark.s3

WORK, CHILD = BranchName("work"), BranchName("child")
BY_NAME = {writer.name: writer for writer in WRITERS}
TWO_TABLES = BY_NAME["two tables, main"]
SCHEMA_BRANCH = BY_NAME["schema, first touch"]


@pytest.fixture
def graph(s3_server: S3Server, s3_uri: str) -> Iterator[Manifest]:
    """Two tables on main, and short leases."""
    manifest = make(s3_uri, *ALIASES, storage_options=s3_server.storage_options)
    with short_leases(manifest):
        yield manifest


@contextmanager
def short_leases(manifest: Manifest) -> Iterator[None]:
    locks = Locks.of(manifest.root.objects, ttl_seconds=TTL_SECONDS)
    yield
    del locks


@pytest.fixture
def work(graph: Manifest) -> Manifest:
    """And a branch `work` with a fork of its own."""
    upsert(graph, "old")
    create_branch(graph, WORK)
    upsert(graph, "on work", branch=WORK)
    return graph


def sleeping(manifest: Manifest, doing: str, point: Fault, *, nth: int = 1) -> AbstractContextManager[Sleeper]:
    return asleep(doing, manifest.root.uri, point, nth=nth, options=manifest.root.storage_options)


def doing(writer: Writer) -> str:
    return f"matrix {WRITERS.index(writer)}"


# -- deleters


def test_a_deleter_that_slept_does_not_take_a_branch_that_has_a_child_by_then(work: Manifest) -> None:
    with sleeping(work, "delete work", Fault.BRANCH_BEFORE_DELETE) as sleeper:
        create_branch(work, CHILD, from_=WORK)
        upsert(work, "on child", branch=CHILD)
        assert sleeper.wake() == "fenced"
    assert ids_in(work, branch=CHILD) == {"old", "on work", "on child"}
    assert ids_in(work, branch=WORK) == {"old", "on work"}
    with pytest.raises(ConflictError) as caught:
        delete_branch(work, WORK)
    assert caught.value.kind is Kind.BRANCH_HAS_CHILDREN


def test_a_deleter_that_slept_does_not_take_a_branch_made_again_under_the_name(work: Manifest) -> None:
    with sleeping(work, "delete work", Fault.BRANCH_BEFORE_DELETE) as sleeper:
        delete_branch(work, WORK)
        create_branch(work, WORK)
        upsert(work, "new", branch=WORK)
        assert sleeper.wake() == "fenced"
    assert ids_in(work, branch=WORK) == {"old", "new"}
    upsert(work, "next", branch=WORK)


def test_a_deleter_that_slept_after_the_visible_step_leaves_the_rest_to_cleanup(work: Manifest) -> None:
    native = str(work.look(WORK)[0].native)
    with sleeping(work, "delete work", Fault.BRANCH_AFTER_DELETE) as sleeper:
        create_branch(work, WORK)
        upsert(work, "new", branch=WORK)
        assert sleeper.wake() == "done"
    assert has_ref(work.root, PATH, native), "what it could not be sure of is still there"
    assert ids_in(work, branch=WORK) == {"old", "new"}
    upsert(work, "next", branch=WORK)


# -- tags


def test_a_deleter_that_slept_does_not_take_a_branch_that_has_a_tag_by_then(work: Manifest) -> None:
    """G-25: Of a tag that is created and a branch that is deleted at the same time one is refused, also where a process sleeps."""
    with sleeping(work, "delete work", Fault.BRANCH_BEFORE_DELETE) as sleeper:
        head = create_tag(work, "v1", branch=WORK).commit_id
        assert sleeper.wake() == "fenced"
    assert work.snapshot(at="v1").commit == head
    with pytest.raises(ConflictError) as caught:
        delete_branch(work, WORK)
    assert caught.value.kind is Kind.BRANCH_HAS_TAGS


def test_a_deleter_asleep_before_its_last_request_does_not_take_a_branch_that_was_tagged(work: Manifest) -> None:
    """Where no check of its lease can come between: the tagger has changed the object that the deleter would remove."""
    with sleeping(work, "delete work", Fault.OBJECT_BEFORE_LINK, nth=2) as sleeper:
        head = create_tag(work, "v1", branch=WORK).commit_id
        assert sleeper.wake() == "branch_replaced"
    assert work.snapshot(at="v1").commit == head
    assert ids_in(work, branch=WORK) == {"old", "on work"}


TAGGED = 4
"""The put that makes a tag visible: after the root lease, the reservation and the branch's object."""


@pytest.mark.parametrize("nth", range(TAGGED, 1, -1))
@pytest.mark.parametrize("point", [Fault.OBJECT_AFTER_LINK, Fault.OBJECT_BEFORE_LINK])
def test_a_tagger_asleep_between_any_two_requests_tags_no_branch_that_is_gone(work: Manifest, point: Fault, nth: int) -> None:
    with sleeping(work, "tag v1 of work", point, nth=nth) as sleeper:
        is_there = (point, nth) == (Fault.OBJECT_AFTER_LINK, TAGGED)
        with pytest.raises(ConflictError) if is_there else nullcontext():
            delete_branch(work, WORK)
        assert sleeper.wake() in (("done",) if is_there else ("fenced", "branch_not_found", "historical_version_reclaimed"))
    assert list_tags(work.root.objects) == (["v1"] if is_there else [])
    assert list_branches(work.root.objects) == (["work"] if is_there else [])
    create_tag(work, "v2")


# -- creators

SETTLED = 5
"""The put that makes a branch visible: after the root lease, the reservation, the branch's lease and the parent's object."""


@pytest.mark.parametrize("point", [Fault.BRANCH_BEFORE_CREATE, Fault.BRANCH_AFTER_CREATE])
def test_a_creator_that_slept_makes_no_branch_of_one_that_is_gone(work: Manifest, point: Fault) -> None:
    with sleeping(work, "create child from work", point) as sleeper:
        delete_branch(work, WORK)
        assert sleeper.wake() in ("fenced", "branch_not_found", "version_not_found")
    assert list_branches(work.root.objects) == []
    create_branch(work, CHILD)
    upsert(work, "on child", branch=CHILD)
    assert ids_in(work, branch=CHILD) == {"old", "on child"}


REQUESTS = [(point, nth) for nth in range(SETTLED, 0, -1) for point in (Fault.OBJECT_AFTER_LINK, Fault.OBJECT_BEFORE_LINK)]


@pytest.mark.parametrize(("point", "nth"), REQUESTS[: sample(3, whole=len(REQUESTS))])
def test_a_creator_asleep_between_any_two_requests_makes_a_whole_branch_or_none(work: Manifest, point: Fault, nth: int) -> None:
    """Also where no check of its lease can come between: the child lives only if its parent did when that was decided."""
    with sleeping(work, "create child from work", point, nth=nth) as sleeper:
        has_child = (point, nth) == (Fault.OBJECT_AFTER_LINK, SETTLED)
        with pytest.raises(ConflictError) if has_child else nullcontext():
            delete_branch(work, WORK)
        assert sleeper.wake() in (("done",) if has_child else ("fenced", "branch_not_found"))
    assert list_branches(work.root.objects) == (["child", "work"] if has_child else [])
    if has_child:
        assert ids_in(work, branch=CHILD) == {"old", "on work"}
        upsert(work, "on child", branch=CHILD)
    else:
        with pytest.raises(NotFound):
            work.look(CHILD)


# -- recoverers


def test_a_recovery_that_slept_does_not_undo_what_its_successor_resolves(graph: Manifest) -> None:
    """REC-16: A recovery that was paused does not undo what its successor resolved.

    It decided to undo a write that was half way; awake again, the writer did the other half, and then somebody else came.
    """
    prepare(graph, TWO_TABLES)
    before = images(TWO_TABLES).before
    with (
        sleeping(graph, doing(TWO_TABLES), Fault.WRITE_BETWEEN_TABLES) as writer,
        sleeping(graph, "heal main", Fault.RECOVER_BEFORE_RESTORE) as recoverer,
    ):
        assert writer.wake() == "recovery_required"
        upsert(graph, "meanwhile")
        assert recoverer.wake() == "fenced"
    assert content(graph, MAIN) == {**before, PERSON: before[PERSON] | {"meanwhile"}}
    upsert(graph, "next")
    whole(graph, TWO_TABLES)


def test_a_recovery_that_slept_before_it_decided_leaves_what_went_forward(graph: Manifest) -> None:
    """REC-16: the same, asleep with its decision made and not yet recorded."""
    prepare(graph, TWO_TABLES)
    after = images(TWO_TABLES).after
    with (
        sleeping(graph, doing(TWO_TABLES), Fault.WRITE_BETWEEN_TABLES) as writer,
        sleeping(graph, "heal main", Fault.RECOVER_FOUND) as recoverer,
    ):
        assert writer.wake() == "recovery_required"
        upsert(graph, "meanwhile")
        assert recoverer.wake() == "fenced"
    assert content(graph, MAIN) == {**after, PERSON: after[PERSON] | {"meanwhile"}}
    upsert(graph, "next")
    whole(graph, TWO_TABLES)
