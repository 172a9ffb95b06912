"""Which branches live, and where: one small object a branch, so that a branch begins and ends in one atomic step.

`__branches/<name>.json` names the native branch of `__manifest` that holds the graph branch. Native names are used once:
a writer that slept while its branch was deleted and made again writes into a dead folder, never into the new branch.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from omnigraph.errors import ConflictError, FormatError, InvalidInput, Kind, NotFound
from omnigraph.ids import MAIN, BranchName
from omnigraph.store.objects import Objects

FOLDER: Final = "__branches"
LONGEST_NAME: Final = 120
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
        for entry in objects.list(FOLDER)
        if entry.endswith(".json")
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
    body = objects.get_if_exists(object_of(name))
    if body is None:
        return None
    try:
        return msgspec.json.decode(body, type=Branch)
    except msgspec.DecodeError as error:
        where = f"{objects.uri}/{object_of(name)}"
        raise FormatError(Kind.CORRUPT, f"{where} cannot be read as a branch: {error}; restore it from a backup", path=where) from error


def claim(objects: Objects, branch: Branch) -> bool:
    """Make a branch visible. False when somebody else has the name: of many exactly one wins."""
    body = msgspec.json.encode(branch)
    if objects.put_if_absent(object_of(branch.name), body, sync=True) is not None:
        return True
    # RT-58: our own claim whose answer was lost looks like somebody else's; the native name tells.
    return read_branch(objects, branch.name) == branch


def object_of(name: BranchName) -> str:
    return f"{FOLDER}/{quote(name, safe='')}.json"
