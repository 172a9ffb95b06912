"""An encoded protobuf message <-> its fields, without a schema. For the few fields of Lance's files that Lance does not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

_VARINT: Final = 0
_EIGHT_BYTES: Final = 1
_COUNTED: Final = 2
_FOUR_BYTES: Final = 5


class MessageField(NamedTuple):
    """A field of a message."""

    number: int
    value: int
    """A number. Zero for other types."""
    body: bytes
    """The bytes of a text, a message or a list of numbers. Empty for other types."""
    whole: bytes
    """The field as it is encoded, with its key."""


def fields(message: bytes) -> Iterator[MessageField]:
    """The fields of a message, in order."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        value, body = 0, b""
        match key & 7:
            case wire if wire == _VARINT:
                value, at = _varint(message, at)
            case wire if wire == _COUNTED:
                size, at = _varint(message, at)
                body = message[at : at + size]
                at += size
            case wire if wire in (_EIGHT_BYTES, _FOUR_BYTES):
                at += 8 if wire == _EIGHT_BYTES else 4
            case wire:
                raise ValueError(f"a message contains a field of wire type {wire}")
        yield MessageField(key >> 3, value, body, message[start:at])


def numbers(field: MessageField) -> Iterator[int]:
    """The numbers of a repeated field, or of one part of it."""
    if not field.body:
        yield field.value
        return
    at = 0
    while at < len(field.body):
        value, at = _varint(field.body, at)
        yield value


def counted(number: int, body: bytes) -> bytes:
    """A text or a message as a field."""
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
