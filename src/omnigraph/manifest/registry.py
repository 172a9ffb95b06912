"""Branch names -> branches: one small object per branch, so that a branch is created and deleted in one atomic step.

`__branches/<name>.json` names the native branch of `__manifest` that contains the graph branch. Native names are used once.
A writer that was paused while its branch was deleted and created again writes into an unused directory, never into the new
branch.

An object is reserved, settled and removed as in `names.py`. A creation and a deletion that conflict detect each other: a creation reserves
its name before it reads the parent, and rewrites the parent's object before it makes the branch visible; a deletion withdraws all
reservations before it looks for children, and then removes exactly the object that it read first.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from omnigraph.errors import ConflictError, FormatError, InvalidInput, Kind, NotFound
from omnigraph.ids import MAIN, BranchName, new_hex16
from omnigraph.manifest import names
from omnigraph.store.checksums import is_intact, sealed
from omnigraph.store.objects import Objects

DIRECTORY: Final = "__branches"
PRIVATE: Final = "~"
"""The first character of the name of a private branch, which belongs to one transaction. `check_name` refuses it."""


class PrivateName(str):
    """The name of a private branch, in the hands of its transaction. Text that a caller gives is never one."""

    __slots__ = ()


class Branch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A live branch. `native` is its incarnation: branches of one name with different native names are different branches (C-24)."""

    name: BranchName
    native: str | None
    parent: BranchName | None = None
    parent_native: str | None = None
    forked_at: int = 0
    created_at: datetime | None = None

    @staticmethod
    def main() -> Branch:
        """Return main. It always exists, is the main line of `__manifest`, and has no object."""
        return Branch(MAIN, None)


def check_name(name: str) -> BranchName:
    """Return the name if it is valid for a branch. Raises InvalidInput with the rule that it breaks (B-17)."""
    broken = names.broken_rule(name)
    if broken is not None:
        raise InvalidInput(Kind.INVALID_BRANCH_NAME, f"{name!r} is not a valid branch name: {broken}", name=name)
    return BranchName(name)


def given_name(name: str) -> BranchName:
    """Return the name of a branch as a caller gave it. Private branches do not exist for others than their transactions."""
    if isinstance(name, str) and not isinstance(name, PrivateName) and is_private(name):
        check_name(name)  # raises
    return BranchName(name)


def existing_name(name: str) -> BranchName:
    """Return the name of a branch that exists, private or not, if it is valid."""
    return BranchName(name) if isinstance(name, str) and is_private(name) else check_name(name)


def is_private(name: str) -> bool:
    return name.startswith(PRIVATE)


def check_free(name: BranchName, live: Iterable[BranchName]) -> None:
    """Raise if a branch of that name exists, or if the name is a path prefix or a path child of a live one (B-18)."""
    for other in (MAIN, *live):
        if other == name:
            raise ConflictError(Kind.BRANCH_EXISTS, f"branch {name!r} already exists", branch=name)
        if name.startswith(other + "/") or other.startswith(name + "/"):
            raise InvalidInput(
                Kind.BRANCH_NAME_OVERLAPS,
                f"{name!r} overlaps branch {other!r}: one would be a directory inside the other; choose another name",
                name=name,
                branch=other,
            )


def list_branches(objects: Objects) -> list[BranchName]:
    """Return the names of all branches except main and private ones, sorted. Costs one listing."""
    return [name for name in all_branches(objects) if not is_private(name)]


def all_branches(objects: Objects) -> list[BranchName]:
    """Return the names of all branches except main. Whoever removes files keeps what these show. Costs one listing."""
    return list(map(BranchName, names.taken(objects, DIRECTORY)))


def living_branches(objects: Objects) -> list[Branch]:
    """Return all branches except main and private ones, sorted by name. A branch that is deleted during the call is left out."""
    return [branch for name in list_branches(objects) if (branch := read_branch(objects, name)) is not None]


def find_branch(objects: Objects, name: str) -> Branch:
    """Return the live branch of that name. Costs no read for main, and one for any other."""
    if name == MAIN:
        return Branch.main()
    if (branch := read_branch(objects, existing_name(name))) is not None:
        return branch
    live = [MAIN, *list_branches(objects)]
    close = difflib.get_close_matches(name, live, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; branches: {', '.join(map(repr, live[:10]))}{', ...' if len(live) > 10 else ''}"
    raise NotFound(Kind.BRANCH_NOT_FOUND, f"there is no branch {name!r}{hint}", branch=name)


def read_branch(objects: Objects, name: BranchName) -> Branch | None:
    return _decode(objects, name, objects.get_if_exists(object_of(name)))


class VersionedBranch(NamedTuple):
    """A branch as it was read, with the token for a conditional put."""

    branch: Branch
    token: str


def read_versioned(objects: Objects, name: BranchName) -> VersionedBranch | None:
    found = objects.get_versioned(object_of(name))
    branch = _decode(objects, name, found[0]) if found is not None else None
    return VersionedBranch(branch, found[1]) if found is not None and branch is not None else None


def _decode(objects: Objects, name: BranchName, body: bytes | None) -> Branch | None:
    if body is None or not names.is_settled(body):
        return None
    try:
        if not is_intact(body):
            raise msgspec.DecodeError("it does not match its checksum")
        return msgspec.json.decode(body, type=Branch)
    except msgspec.DecodeError as error:
        where = f"{objects.uri}/{object_of(name)}"
        raise FormatError(Kind.CORRUPT, f"{where} cannot be decoded as a branch: {error}; restore it from a backup", path=where) from error


# -- reserve, settle, remove


class _TouchedBranch(Branch, frozen=True):
    """A branch after a child was created from it. Readers decode the same branch; the bytes differ."""

    touched: str = ""


def reserve(objects: Objects, name: BranchName) -> str | None:
    """Reserve a name under the exclusive lock. Returns the token for `settle` and `withdraw`, or None if a branch has the name."""
    return names.reserve(objects, object_of(name))


def settle(objects: Objects, branch: Branch, reservation: str) -> bool:
    """Make a branch visible. Returns False if its reservation was withdrawn."""
    if objects.put_if_match(object_of(branch.name), sealed(msgspec.json.encode(branch)), reservation, sync=True) is not None:
        return True
    # RT-58: our own put whose response was lost looks like a lost race. The native name distinguishes them.
    return read_branch(objects, branch.name) == branch


def touch(objects: Objects, branch: Branch) -> bool:
    """Rewrite the object of a branch from which a child is being created. Returns False if the branch no longer exists."""
    if branch.native is None:
        return True  # main is never deleted
    seen = read_versioned(objects, branch.name)
    if seen is None or seen.branch != branch:
        return False
    body = sealed(msgspec.json.encode(_TouchedBranch(**msgspec.structs.asdict(branch), touched=new_hex16())))
    return objects.put_if_match(object_of(branch.name), body, seen.token, sync=True) is not None


def remove(objects: Objects, seen: VersionedBranch) -> bool:
    """Make a branch invisible. Returns False if its object changed since it was read."""
    return names.discard(objects, object_of(seen.branch.name), seen.token)


def withdraw(objects: Objects, name: BranchName, reservation: str) -> None:
    """Withdraw a reservation, if it still exists."""
    names.discard(objects, object_of(name), reservation)


def object_of(name: BranchName) -> str:
    return f"{DIRECTORY}/{names.file_name(name)}"
