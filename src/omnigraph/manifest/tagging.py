"""A manifest and a name -> a tag created or deleted, under the exclusive lock, in one atomic step; the states that tags keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

from omnigraph.errors import ConflictError, Kind, NotFound, OmniGraphError, Outcome, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest import names
from omnigraph.manifest.locks import Locks
from omnigraph.manifest.model import State, now
from omnigraph.manifest.publish import LOCK_SECONDS
from omnigraph.manifest.read import Manifest
from omnigraph.manifest.registry import list_branches, touch
from omnigraph.manifest.tags import (
    DIRECTORY,
    Tag,
    check_tag_name,
    living_tags,
    no_such_tag,
    read_tag,
    read_versioned_tag,
    settle_tag,
    tag_object,
)
from omnigraph.store.durable import sync_directory


def create_tag(
    manifest: Manifest,
    name: str,
    *,
    branch: BranchName = MAIN,
    at: str | int | datetime | None = None,
    actor: str | None = None,
    message: str | None = None,
    timeout_seconds: float = LOCK_SECONDS,
) -> Tag:
    """Name a commit: the newest of `branch`, the one at a version or a time of it, or any by its id."""
    objects, path = manifest.root.objects, tag_object(check_tag_name(name))
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        if name in list_branches(objects):
            raise ConflictError(Kind.BRANCH_EXISTS, f"there is a branch {name!r}; a tag needs another name", branch=name)
        reservation = names.reserve(objects, path)
        if reservation is None:
            raise ConflictError(Kind.TAG_EXISTS, f"tag {name!r} already exists; delete it first", tag=name)
        try:
            # The commit is read after the reservation, from which on nothing that it shows is removed.
            commit = manifest.snapshot(branch, at=at).commit
            found, _, _ = manifest.past(branch, commit)  # the branch that made it, which may be a parent of `branch`
            tag = Tag(name, commit, found.name, now(), found.native, actor, message)
            reach(Fault.TAG_BEFORE_CREATE)
            grant.check()
            if not touch(objects, found) or not settle_tag(objects, tag, reservation):
                grant.check()
                raise _tag_replaced(name)
        except OmniGraphError as error:
            if not isinstance(error, StorageError) or error.outcome is Outcome.DID_NOT_HAPPEN:
                names.discard(objects, path, reservation)
            raise
        reach(Fault.TAG_AFTER_CREATE)
        return tag


def delete_tag(manifest: Manifest, name: str, *, timeout_seconds: float = LOCK_SECONDS) -> None:
    """Delete a tag. Its commit stays in the history; what only the tag kept may be removed from now on."""
    objects = manifest.root.objects
    with Locks.of(objects).exclusive(timeout_seconds=timeout_seconds) as grant:
        seen = read_versioned_tag(objects, check_tag_name(name))
        if seen is None:
            raise no_such_tag(objects, name)
        reach(Fault.TAG_BEFORE_DELETE)
        grant.check()
        try:
            removed = names.discard(objects, tag_object(name), seen.token)
        except StorageError as error:
            if read_tag(objects, name) == seen.tag or (objects.is_local and error.outcome is Outcome.UNKNOWN):
                raise
            removed = True
        if not removed:
            raise _tag_replaced(name)
        sync_directory(manifest.root, DIRECTORY)
        reach(Fault.TAG_AFTER_DELETE)


def tagged_states(manifest: Manifest) -> Iterator[State]:
    """Yield what each tagged commit shows. Whoever removes versions keeps these. A tag whose branch is gone keeps nothing."""
    for tag in living_tags(manifest.root.objects):
        with suppress(NotFound):
            yield manifest.snapshot(tag.branch, at=tag.commit_id).state


def _tag_replaced(name: str) -> ConflictError:
    return ConflictError(Kind.TAG_REPLACED, f"tag {name!r} was created or deleted again during this operation; retry", tag=name)
