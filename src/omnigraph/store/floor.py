"""A native branch of `__manifest` -> its retention floor: versions below it may be removed. Durable before the first removal.

A writer on an object store may be paused until after its lease has expired, and then create a version whose number was removed. No
reader ever sees that version. So a writer compares the version that it created with the floor: versions from the floor on were never
removed, and a number among them is taken once.
"""

from __future__ import annotations

from typing import Final

import msgspec

from omnigraph.errors import FormatError, Kind
from omnigraph.store.bases import home
from omnigraph.store.checksums import is_intact, sealed
from omnigraph.store.objects import Objects

_NAME: Final = "_floor.json"


class _Floor(msgspec.Struct, frozen=True):
    version: int


def read_floor(objects: Objects, path: str, *, branch: str | None) -> int:
    """The oldest version that is certainly kept. 0 if nothing was ever removed."""
    body = objects.get_if_exists(floor_object(path, branch))
    return 0 if body is None else _decode(objects, path, branch, body)


def raise_floor(objects: Objects, path: str, *, branch: str | None, version: int) -> None:
    """Make a floor durable. A floor never falls: a process that was paused must not lower it."""
    place, body = floor_object(path, branch), sealed(msgspec.json.encode(_Floor(version)))
    while True:
        found = objects.get_versioned(place)
        if found is not None and _decode(objects, path, branch, found[0]) >= version:
            return
        put = objects.put_if_absent(place, body, sync=True) if found is None else objects.put_if_match(place, body, found[1], sync=True)
        if put is not None:
            return


def floor_object(path: str, branch: str | None) -> str:
    return f"{home(path, branch)}/{_NAME}"


def _decode(objects: Objects, path: str, branch: str | None, body: bytes) -> int:
    try:
        if not is_intact(body):
            raise msgspec.DecodeError("it does not match its checksum")
        return msgspec.json.decode(body, type=_Floor).version
    except msgspec.DecodeError as error:
        where = f"{objects.uri}/{floor_object(path, branch)}"
        raise FormatError(
            Kind.CORRUPT, f"{where} cannot be decoded: {error}; remove the file, and run cleanup again", path=where
        ) from error
