"""Which branches live, and where: one small object a branch, so that a branch begins and ends in one atomic step.

`__branches/<name>.json` names the native branch of `__manifest` that holds the graph branch. Native names are used once:
a writer that slept while its branch was deleted and made again writes into a dead folder, never into the new branch.

Whoever makes or removes a branch may sleep past its lease between any two requests, and a store cannot delete on a condition. So
an object is only ever rewritten, on the condition that it is what was seen: reserved, then the branch, then gone. Both
conflicts between a maker and a remover are met there. A maker reserves its name before it looks at the parent, and rewrites the
parent's object before it settles; a remover takes all reservations away before it looks for children, and then
removes exactly the object it saw first. Whoever is second finds that something changed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from omnigraph.errors import ConflictError, FormatError, InvalidInput, Kind, NotFound
from omnigraph.ids import MAIN, BranchName, new_hex16
from omnigraph.store.objects import Objects

FOLDER: Final = "__branches"
LONGEST_NAME: Final = 120
_LONGEST_FILE_NAME: Final = 255
"""In bytes, on every common file system. The object of a branch has its name with most signs written as %XX."""
_REMOVED: Final = b"{}"
_RESERVED_BYTES: Final = len('{"reserved":"0123456789abcdef"}')
_LOST: Final = 0
"""A reservation whose bytes a power cut took: they are not flushed, its name may be durable all the same."""
NOT_BRANCHES: Final = (len(_REMOVED), _RESERVED_BYTES, _LOST)
"""The sizes of what is gone or only reserved. No branch is as small, so a listing, which tells sizes, tells them apart."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_.@+:=-]+")


class Branch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A live branch. `native` is its incarnation: equal names with different natives are different branches (C-24)."""

    name: BranchName
    native: str | None
    parent: BranchName | None = None
    parent_native: str | None = None
    forked_at: int = 0
    created_at: datetime | None = None

    @staticmethod
    def main() -> Branch:
        """Main is always there, lives on the table's own trunk, and has no object."""
        return Branch(MAIN, None)


def check_name(name: str) -> BranchName:
    """A name that may be given to a branch, or InvalidInput that says which rule it breaks (B-17)."""
    broken = _broken_rule(name)
    if broken is not None:
        raise InvalidInput(Kind.INVALID_BRANCH_NAME, f"{name!r} cannot name a branch: {broken}", name=name)
    return BranchName(name)


def _broken_rule(name: str) -> str | None:
    if not isinstance(name, str):
        return "it is no text"
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, at most {LONGEST_NAME} are allowed"
    for segment in name.split("/"):
        if not segment:
            return "it starts or ends with '/', or has '//' in it"
        if segment in (".", ".."):
            return f"{segment!r} cannot be a part of it"
        if not _SEGMENT.fullmatch(segment):
            return "only letters, digits and _ . @ + : = - are allowed, with '/' between parts"
    if (size := len(_file_name(name))) > _LONGEST_FILE_NAME:
        return f"the file that keeps it would have a name of {size} bytes ('/', '@', '+', ':' and '=' take three each), and may have 255"
    return None


def check_free(name: BranchName, live: Iterable[BranchName]) -> None:
    """Refuse a name that is taken, or that is a path prefix or a path child of a live one (B-18)."""
    for other in (MAIN, *live):
        if other == name:
            raise ConflictError(Kind.BRANCH_EXISTS, f"there is a branch {name!r} already", branch=name)
        if name.startswith(other + "/") or other.startswith(name + "/"):
            raise InvalidInput(
                Kind.BRANCH_NAME_OVERLAPS,
                f"{name!r} overlaps the branch {other!r}: one would be a folder inside the other; choose another name",
                name=name,
                branch=other,
            )


def list_branches(objects: Objects) -> list[BranchName]:
    """The names of all branches but main, sorted. One listing."""
    return sorted(
        BranchName(unquote(entry.removeprefix(f"{FOLDER}/").removesuffix(".json")))
        for entry, size in objects.sizes(FOLDER).items()
        if entry.endswith(".json") and size not in NOT_BRANCHES
    )


def living_branches(objects: Objects) -> list[Branch]:
    """All branches but main, sorted by name; one that goes while they are read is not among them."""
    return [branch for name in list_branches(objects) if (branch := read_branch(objects, name)) is not None]


def find_branch(objects: Objects, name: str) -> Branch:
    """The live branch of that name: no read for main, one for any other."""
    if name == MAIN:
        return Branch.main()
    if (branch := read_branch(objects, check_name(name))) is not None:
        return branch
    live = [MAIN, *list_branches(objects)]
    close = difflib.get_close_matches(name, live, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(map(repr, live[:10]))}{', ...' if len(live) > 10 else ''}"
    raise NotFound(Kind.BRANCH_NOT_FOUND, f"there is no branch {name!r}{hint}", branch=name)


def read_branch(objects: Objects, name: BranchName) -> Branch | None:
    return _decode(objects, name, objects.get_if_exists(object_of(name)))


class VersionedBranch(NamedTuple):
    """A branch as it was read, with the token that a change of its object needs."""

    branch: Branch
    token: str


def read_versioned(objects: Objects, name: BranchName) -> VersionedBranch | None:
    found = objects.get_versioned(object_of(name))
    branch = _decode(objects, name, found[0]) if found is not None else None
    return VersionedBranch(branch, found[1]) if found is not None and branch is not None else None


def _decode(objects: Objects, name: BranchName, body: bytes | None) -> Branch | None:
    if body is None or len(body) in NOT_BRANCHES:
        return None
    try:
        return msgspec.json.decode(body, type=Branch)
    except msgspec.DecodeError as error:
        where = f"{objects.uri}/{object_of(name)}"
        raise FormatError(Kind.CORRUPT, f"{where} cannot be read as a branch: {error}; restore it from a backup", path=where) from error


# -- from reserved to gone


class _Reservation(msgspec.Struct, frozen=True):
    """The body of an object that will be a branch."""

    reserved: str
    """Of one attempt, so that no two reservations have the same token."""


class _TouchedBranch(Branch, frozen=True):
    """A branch after others were made from it: the same to every reader, in other bytes."""

    touched: str = ""


def reserve(objects: Objects, name: BranchName) -> str | None:
    """Take a name that no branch has, under the exclusive lock: the token to settle or to withdraw with, None when it is taken."""
    path, body = object_of(name), msgspec.json.encode(_Reservation(new_hex16()))
    if (token := objects.put_if_absent(path, body)) is not None:
        return token
    left = objects.get_versioned(path)
    return objects.put_if_match(path, body, left[1]) if left is not None and len(left[0]) in NOT_BRANCHES else None


def settle(objects: Objects, branch: Branch, reservation: str) -> bool:
    """Make a branch visible. False when its reservation was taken away meanwhile."""
    if objects.put_if_match(object_of(branch.name), msgspec.json.encode(branch), reservation, sync=True) is not None:
        return True
    # RT-58: our own put whose answer was lost looks like somebody else's; the native name tells.
    return read_branch(objects, branch.name) == branch


def touch(objects: Objects, branch: Branch) -> bool:
    """Rewrite the object of a branch that another is being made from. False when it is not there any more."""
    if branch.native is None:
        return True  # main is never removed
    seen = read_versioned(objects, branch.name)
    if seen is None or seen.branch != branch:
        return False
    body = msgspec.json.encode(_TouchedBranch(**msgspec.structs.asdict(branch), touched=new_hex16()))
    return objects.put_if_match(object_of(branch.name), body, seen.token, sync=True) is not None


def remove(objects: Objects, seen: VersionedBranch) -> bool:
    """Make a branch invisible. False when its object is not the one that was seen."""
    return _discard(objects, object_of(seen.branch.name), seen.token)


def withdraw(objects: Objects, name: BranchName, reservation: str) -> None:
    """Give a reservation back, if it is still there."""
    _discard(objects, object_of(name), reservation)


def withdraw_all(objects: Objects) -> None:
    """Take every reservation away, under the exclusive lock: whoever made one is dead or asleep, and must not settle later.

    One that is settled at this very moment is a branch that the next look shows.
    """
    for path, size in objects.sizes(FOLDER).items():
        if size == _RESERVED_BYTES and (left := objects.get_versioned(path)) is not None and len(left[0]) == _RESERVED_BYTES:
            _discard(objects, path, left[1])


def _discard(objects: Objects, path: str, token: str) -> bool:
    discarded = objects.put_if_match(path, _REMOVED, token, sync=True) is not None
    if discarded and objects.is_local:  # there the exclusive lock cannot be lost, so nobody else can have the name by now
        objects.delete(path)
    return discarded


def object_of(name: BranchName) -> str:
    return f"{FOLDER}/{_file_name(name)}"


def _file_name(name: str) -> str:
    return f"{quote(name, safe='')}.json"
