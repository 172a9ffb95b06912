"""A directory with one small object per name -> names taken and given up in one atomic step. Branches and tags are kept like this.

A process that creates or deletes such an object may be paused beyond its lease between any two requests, and an object store has no
conditional delete. So an object is only rewritten, on the condition that it is unchanged: reserved, then settled, then removed. A creator
reserves a name before it reads what the name will stand for. Whoever removes something that a name may stand for withdraws all
reservations first. The second of the two finds a changed object.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from omnigraph.ids import new_hex16
from omnigraph.store.objects import Objects

LONGEST_NAME: Final = 120
_LONGEST_FILE_NAME: Final = 255
"""In bytes, on every common file system. The file name escapes most punctuation as %XX."""
_REMOVED: Final = b"{}"
_RESERVED_BYTES: Final = len('{"reserved":"0123456789abcdef"}')
_LOST: Final = 0
"""The size of a reservation after a power cut: its bytes are not flushed, but its name may be durable."""
_NOT_SETTLED: Final = (len(_REMOVED), _RESERVED_BYTES, _LOST)
"""The sizes of removed and reserved objects. A settled object is larger, so a listing can distinguish them by size."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_.@+:=-]+")


class _Reservation(msgspec.Struct, frozen=True):
    """The body of the object of a name that is being taken."""

    reserved: str
    """Unique for each attempt, so that no two reservations have the same token."""


def broken_rule(name: str) -> str | None:
    """Return the rule for names that `name` breaks, or None."""
    if not isinstance(name, str):
        return "it is not a string"
    if not name:
        return "it is empty"
    if len(name) > LONGEST_NAME:
        return f"it has {len(name)} characters, and at most {LONGEST_NAME} are allowed"
    for segment in name.split("/"):
        if not segment:
            return "it starts or ends with '/', or contains '//'"
        if segment in (".", ".."):
            return f"{segment!r} is not allowed as a part"
        if not _SEGMENT.fullmatch(segment):
            return "only letters, digits and _ . @ + : = - are allowed, with '/' between parts"
    if (size := len(file_name(name))) > _LONGEST_FILE_NAME:
        return f"its file name would have {size} bytes ('/', '@', '+', ':' and '=' take three each), and at most 255 are allowed"
    return None


def file_name(name: str) -> str:
    return f"{quote(name, safe='')}.json"


def taken(objects: Objects, directory: str) -> list[str]:
    """Return all settled names of a directory, sorted. Costs one listing."""
    return sorted(
        unquote(entry.removeprefix(f"{directory}/").removesuffix(".json"))
        for entry, size in objects.sizes(directory).items()
        if entry.endswith(".json") and size not in _NOT_SETTLED
    )


def is_settled(body: bytes) -> bool:
    return len(body) not in _NOT_SETTLED


def reserve(objects: Objects, path: str) -> str | None:
    """Reserve a name under the exclusive lock. Returns the token for the put that settles it, or None if the name is taken."""
    body = msgspec.json.encode(_Reservation(new_hex16()))
    if (token := objects.put_if_absent(path, body)) is not None:
        return token
    left = objects.get_versioned(path)
    return objects.put_if_match(path, body, left[1]) if left is not None and not is_settled(left[0]) else None


def discard(objects: Objects, path: str, token: str) -> bool:
    """Give a name up, if its object is still the one of the token. Returns False if it changed."""
    discarded = objects.put_if_match(path, _REMOVED, token, sync=True) is not None
    if discarded and objects.is_local:  # the exclusive lock cannot be lost on a disk, so no other process has reserved the name
        objects.delete(path)
    return discarded


def withdraw_all(objects: Objects, *directories: str) -> None:
    """Withdraw all reservations under the exclusive lock. Their processes are dead or paused, and must not settle later.

    A reservation that is settled at the same time is a name, which the next listing shows.
    """
    for directory in directories:
        for path, size in objects.sizes(directory).items():
            if size == _RESERVED_BYTES and (left := objects.get_versioned(path)) is not None and len(left[0]) == _RESERVED_BYTES:
                discard(objects, path, left[1])
