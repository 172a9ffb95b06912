"""Tag names -> tags: one small object per tag, `__tags/<name>.json`, which names a commit. See `names.py` for how they come and go."""

from __future__ import annotations

import difflib
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from omnigraph.errors import FormatError, InvalidInput, Kind, NotFound
from omnigraph.ids import COMMIT_ID_LENGTH, MAIN, BranchName, CommitId
from omnigraph.manifest import names
from omnigraph.manifest.registry import DIRECTORY as BRANCHES
from omnigraph.store.checksums import is_intact, sealed
from omnigraph.store.objects import Objects

DIRECTORY: Final = "__tags"


class Tag(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named commit. As long as the tag exists, what the commit shows is kept.

    `branch` made the commit, and `native` is its incarnation (None is main): it cannot be deleted before its tags.
    """

    name: str
    commit_id: CommitId
    branch: BranchName
    created_at: datetime
    native: str | None = None
    actor: str | None = None
    message: str | None = None

    def __repr__(self) -> str:
        return f"Tag({self.name} at {self.commit_id} of {self.branch})"


def check_tag_name(name: str) -> str:
    """Return the name if it is valid for a tag: as for a branch, and not to be taken for a version, a time or a commit id."""
    broken = names.broken_rule(name) or _taken_for(name)
    if broken is not None:
        raise InvalidInput(Kind.INVALID_TAG_NAME, f"{name!r} is not a valid tag name: {broken}", name=name)
    return name


def _taken_for(name: str) -> str | None:
    if name == MAIN:
        return "it is the name of the main branch"
    if name.isdigit():
        return "digits alone are a manifest version"
    if len(name) == COMMIT_ID_LENGTH and name.isalnum():
        return f"{COMMIT_ID_LENGTH} letters and digits are a commit id"
    try:
        datetime.fromisoformat(name)
    except ValueError:
        return None
    return "it is a time"


def list_tags(objects: Objects) -> list[str]:
    """Return the names of all tags, sorted. Costs one listing."""
    return names.taken(objects, DIRECTORY)


def living_tags(objects: Objects) -> list[Tag]:
    """Return all tags, sorted by name. A tag that is deleted during the call is left out."""
    return [tag for name in list_tags(objects) if (tag := read_tag(objects, name)) is not None]


def find_tag(objects: Objects, name: str) -> Tag:
    """Return the tag of that name, or raise NotFound."""
    if (tag := read_tag(objects, check_tag_name(name))) is not None:
        return tag
    raise no_such_tag(objects, name)


def no_such_tag(objects: Objects, name: str) -> NotFound:
    live = list_tags(objects)
    close = difflib.get_close_matches(name, live, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; tags: {', '.join(map(repr, live[:10]))}" if live else ""
    return NotFound(Kind.TAG_NOT_FOUND, f"there is no tag {name!r}{hint}", tag=name)


def read_tag(objects: Objects, name: str) -> Tag | None:
    """Return the tag of that name, or None; also for a text that cannot be the name of a tag."""
    if names.broken_rule(name) is not None:
        return None
    return _decode(objects, name, objects.get_if_exists(tag_object(name)))


class VersionedTag(NamedTuple):
    """A tag as it was read, with the token for a conditional put."""

    tag: Tag
    token: str


def read_versioned_tag(objects: Objects, name: str) -> VersionedTag | None:
    found = objects.get_versioned(tag_object(name))
    tag = _decode(objects, name, found[0]) if found is not None else None
    return VersionedTag(tag, found[1]) if found is not None and tag is not None else None


def settle_tag(objects: Objects, tag: Tag, reservation: str) -> bool:
    """Make a tag visible. Returns False if its reservation was withdrawn."""
    if objects.put_if_match(tag_object(tag.name), sealed(msgspec.json.encode(tag)), reservation, sync=True) is not None:
        return True
    return read_tag(objects, tag.name) == tag  # our own put whose response was lost looks like a lost race


def withdraw_all(objects: Objects) -> None:
    """Withdraw the reservations of branches and tags, under the exclusive lock, before anything is removed that they may name."""
    names.withdraw_all(objects, BRANCHES, DIRECTORY)


def tag_object(name: str) -> str:
    return f"{DIRECTORY}/{names.file_name(name)}"


def _decode(objects: Objects, name: str, body: bytes | None) -> Tag | None:
    if body is None or not names.is_settled(body):
        return None
    try:
        if not is_intact(body):
            raise msgspec.DecodeError("it does not match its checksum")
        return msgspec.json.decode(body, type=Tag)
    except msgspec.DecodeError as error:
        where = f"{objects.uri}/{tag_object(name)}"
        raise FormatError(Kind.CORRUPT, f"{where} cannot be decoded as a tag: {error}; restore it from a backup", path=where) from error
