"""The message of a Lance version and the location of its table -> the same message with every inherited file at that location.

A native branch names the directories of the lines that it was made from by absolute paths, in every version. After a move the paths
do not exist; after a copy of the files they name the original. So they are never used: the directory of a line follows from its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

# Field numbers of `Manifest` and `BasePath` in Lance's table.proto.
_BASE_PATHS: Final = 18
_NAME: Final = 2
_PATH: Final = 4

_VARINT: Final = 0
_EIGHT_BYTES: Final = 1
_COUNTED: Final = 2
_FOUR_BYTES: Final = 5


def home(path: str, branch: str | None) -> str:
    """The directory of a native branch's own files. None is the main line."""
    return path if branch is None else f"{path}/tree/{branch}"


class _Field(NamedTuple):
    number: int
    body: bytes
    """The bytes of a text or a message. Empty for a number, which is never read here."""
    whole: bytes
    """The field as it is encoded, with its key."""


def rebased(message: bytes, place: Callable[[str | None], str]) -> bytes:
    """Return the message with the path of each base replaced by `place(name of its line)`. The name of the main line is None."""
    return b"".join(
        _counted(_BASE_PATHS, _moved(field.body, place)) if field.number == _BASE_PATHS else field.whole for field in _fields(message)
    )


def _moved(base: bytes, place: Callable[[str | None], str]) -> bytes:
    parts = list(_fields(base))
    name = next((part.body.decode() for part in parts if part.number == _NAME), None)
    return b"".join(part.whole for part in parts if part.number != _PATH) + _counted(_PATH, place(name).encode())


def _fields(message: bytes) -> Iterator[_Field]:
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        body = b""
        match key & 7:
            case wire if wire == _VARINT:
                _, at = _varint(message, at)
            case wire if wire == _COUNTED:
                size, at = _varint(message, at)
                body = message[at : at + size]
                at += size
            case wire if wire in (_EIGHT_BYTES, _FOUR_BYTES):
                at += 8 if wire == _EIGHT_BYTES else 4
            case wire:
                raise ValueError(f"a version contains a field of wire type {wire}")
        yield _Field(key >> 3, body, message[start:at])


def _counted(number: int, body: bytes) -> bytes:
    return _encoded(number << 3 | _COUNTED) + _encoded(len(body)) + body


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _encoded(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
