"""A stream of bytes -> blocks of whole lines that know their line numbers; a line that is too long is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.exec.problems import Code, Problem

LINE_LIMIT_BYTES: Final = 32 << 20
"""No line may be longer. It bounds what one record can take of memory, whatever a file holds."""
_SCAN_BYTES: Final = 1 << 20  # comparing a piece that stays in the cache


class Block(msgspec.Struct, frozen=True):
    """Lines `first_line` and on; each ends with a newline. `ends[i]` is where line i ends in `text`, newline included."""

    text: bytes
    ends: npt.NDArray[np.int64]
    first_line: int

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each line begins in `text`."""
        return np.concatenate((np.zeros(1, np.int64), self.ends[:-1]))

    def line(self, index: int) -> bytes:
        """One line with its newline."""
        return self.text[self.ends[index - 1] if index else 0 : self.ends[index]]


def blocks(chunks: Iterator[bytes]) -> Iterator[Block | Problem]:
    """Cut at newlines. Never holds more than one line's limit and one chunk besides the block it hands out."""
    line = 1
    kept: list[bytes] = []
    held = 0
    passed = 0  # bytes of a line that is over its limit already
    for chunk in chunks:
        rest = chunk
        if passed:
            end = rest.find(b"\n") + 1
            if not end:
                passed += len(rest)
                continue
            yield long_line(line, passed + end - 1)
            line, passed, rest = line + 1, 0, rest[end:]
        cut = rest.rfind(b"\n") + 1
        if cut:
            block = _block(b"".join((*kept, rest[:cut])), line)
            yield block
            line += len(block.ends)
            kept, held = [], 0
        if cut < len(rest):
            kept.append(rest[cut:])
            held += len(rest) - cut
        if held > LINE_LIMIT_BYTES:
            kept, held, passed = [], 0, held
    if passed:
        yield long_line(line, passed)
    elif held:
        yield _block(b"".join((*kept, b"\n")), line)


def too_long(block: Block) -> npt.NDArray[np.bool_]:
    """The lines of a block over the limit: a block may begin with one whose end came with its last chunk."""
    return np.diff(block.ends, prepend=0) - 1 > LINE_LIMIT_BYTES


def _block(text: bytes, line: int) -> Block:
    data = np.frombuffer(text, np.uint8)
    parts = [np.flatnonzero(data[at : at + _SCAN_BYTES] == 10) + (at + 1) for at in range(0, len(data), _SCAN_BYTES)]
    return Block(text, np.concatenate(parts), line)


def long_line(line: int, size: int) -> Problem:
    message = f"line {line} has {size} bytes; at most {LINE_LIMIT_BYTES} are allowed"
    return Problem(Code.LINE_LIMIT, message, line=line)
