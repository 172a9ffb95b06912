"""The bytes of a map from words to numbers, as a full-text index of Lance has them -> the number of a word.

The bytes are a finite state transducer of the Rust crate `fst`, version 3. It is not read as a whole: a word is followed through it, one
node for each byte. A node is written before those that lead to it, its last byte first, so that addresses point backwards. The number of a
word is the sum of what stands at the steps of its way.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_VERSION: Final = (3).to_bytes(8, "little") + (0).to_bytes(8, "little")
"""The first bytes: the version of the format, and the kind of the map, of which there is one."""
_FOOTER: Final = 20
"""The number of words, the address of the root, a checksum."""
_LEAF: Final = 0
"""The address of the node without steps, which ends words. It is not written."""
_SEARCHED: Final = 32
"""A node of more steps than this has a table of all 256 bytes."""
_FREQUENT: Final = b"te/oasripcnw.hlm-du012g=:bf3y5&_4v9678k%?xCDASFIBEjPTzRNM+LOqHG"
"""The bytes that a node of one step may have as a number of six bits."""


class _Arc(NamedTuple):
    """Where a byte leads, and what it adds to the number of a word."""

    to: int
    adds: int


class WordMap:
    """The words of a full-text index with their numbers, from 0. Raises ValueError for bytes that are none."""

    def __init__(self, data: bytes) -> None:
        if not WordMap.is_known(data) or len(data) < len(_VERSION) + _FOOTER:
            raise ValueError("the words of a full-text index are in an unknown format")
        self._data: Final = data
        self._root: Final = int.from_bytes(data[-12:-4], "little")
        self.count: Final = int.from_bytes(data[-20:-12], "little")

    @staticmethod
    def is_known(data: bytes) -> bool:
        """Whether the bytes begin as those of a map that can be read."""
        return data[: len(_VERSION)] == _VERSION

    def find(self, word: str) -> int | None:
        """The number of a word; None if it is not there."""
        at, number = self._root, 0
        try:
            for byte in word.encode():
                if (step := self._step(at, byte)) is None:
                    return None
                at, number = step.to, number + step.adds
            last = self._last(at)
        except IndexError as error:
            raise ValueError("the words of a full-text index do not decode") from error
        if last is None:
            return None
        if number + last >= self.count:
            raise ValueError(f"the words of a full-text index have numbers below {self.count}, and one of them {number + last}")
        return number + last

    def _step(self, at: int, byte: int) -> _Arc | None:
        if at == _LEAF:
            return None
        head = self._data[at]
        if head < 0b1000_0000:
            return self._one_of_several(at, byte)
        frequent = head & 0b11_1111
        at -= not frequent
        if byte != (_FREQUENT[frequent - 1] if frequent else self._data[at]):
            return None
        if head >= 0b1100_0000:
            return _Arc(at - 1, 0)
        of_address, of_number = self._widths(at - 1)
        ends = at - 1 - of_address - of_number
        return _Arc(self._address(ends, ends + of_number, of_address), self._number(ends, of_number))

    def _one_of_several(self, at: int, byte: int) -> _Arc | None:
        steps, below, of_address, of_number = self._several(at)
        place = self._data[below - steps : below].find(byte)
        if place < 0:
            return None
        back = steps - place  # the last step stands first
        addresses = below - steps
        numbers = addresses - steps * of_address
        ends = numbers - (steps + self._is_last(at)) * of_number
        return _Arc(self._address(ends, addresses - back * of_address, of_address), self._number(numbers - back * of_number, of_number))

    def _last(self, at: int) -> int | None:
        """What the end of a word at a node adds to its number; None if no word ends there."""
        if at == _LEAF:
            return 0
        if self._data[at] >= 0b1000_0000 or not self._is_last(at):
            return None
        steps, below, of_address, of_number = self._several(at)
        return self._number(below - steps * (1 + of_address + of_number) - of_number, of_number)

    def _several(self, at: int) -> tuple[int, int, int, int]:
        """The number of steps of a node, where their bytes end, and the widths of their addresses and numbers."""
        steps = self._data[at] & 0b11_1111
        if not steps:
            at -= 1
            steps = self._data[at] if self._data[at] != 1 else 256
        return steps, at - 1 - (256 if steps > _SEARCHED else 0), *self._widths(at - 1)

    def _is_last(self, at: int) -> bool:
        return bool(self._data[at] & 0b0100_0000)

    def _widths(self, at: int) -> tuple[int, int]:
        return self._data[at] >> 4, self._data[at] & 0b1111

    def _address(self, ends: int, at: int, width: int) -> int:
        """The address of another node, which stands as its distance from where this one ends."""
        distance = self._number(at, width)
        return ends - distance if distance else _LEAF

    def _number(self, at: int, width: int) -> int:
        if at < 0:
            raise IndexError(at)
        return int.from_bytes(self._data[at : at + width], "little")
