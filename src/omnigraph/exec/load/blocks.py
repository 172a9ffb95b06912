"""A stream of bytes -> blocks of whole lines that know their line numbers; a line that is blank or too long is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.exec.problems import Code, Problem

LINE_LIMIT_BYTES: Final = 32 << 20
"""No line may be longer. It bounds what one record can take of memory, whatever a file holds."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
WHITESPACE: Final = b" \t\r\n"
"""What JSON takes for space; a line of nothing else is blank."""
_NEWLINE: Final = 10
_IS_SPACE: Final = np.isin(np.arange(256), np.frombuffer(WHITESPACE, np.uint8))
_SCAN_BYTES: Final = 1 << 20  # comparing a piece that stays in the cache


class Block(msgspec.Struct, frozen=True):
    """Lines that are not blank, one after the other. Line i is `text[starts[i]:ends[i]]`, its newline included."""

    text: bytes
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    """Which line of the stream each is, from 1: blank ones were counted."""

    def line(self, index: int) -> bytes:
        """One line with its newline."""
        return self.text[self.starts[index] : self.ends[index]]


def blocks(chunks: Iterator[bytes], *, first_line: int = 1, begins: bool = True) -> Iterator[Block | Problem]:
    """Cut at newlines. Never holds more than one line's limit and one chunk besides the block it hands out.

    `begins`: the chunks are the beginning of something, so that the first of them may show in what letters it is written.
    """
    line = first_line
    kept: list[bytes] = []
    held = 0
    passed = 0  # bytes of a line that is over its limit already
    for number, chunk in enumerate(chunks):
        if begins and number == 0 and (problem := _not_utf_8(chunk)) is not None:
            yield problem
            return
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
            text = b"".join((*kept, rest[:cut]))
            if len((block := _block(text, line)).ends):
                yield block
            line += text.count(b"\n")
            kept, held = [], 0
        if cut < len(rest):
            kept.append(rest[cut:])
            held += len(rest) - cut
        if held > LINE_LIMIT_BYTES:
            kept, held, passed = [], 0, held
    if passed:
        yield long_line(line, passed)
    elif held and len((block := _block(b"".join((*kept, b"\n")), line)).ends):
        yield block


def too_long(block: Block) -> npt.NDArray[np.bool_]:
    """The lines of a block over the limit: a block may begin with one whose end came with its last chunk."""
    return block.ends - block.starts - 1 > LINE_LIMIT_BYTES


def long_lines(block: Block) -> list[Problem]:
    """The problems of those lines."""
    places = np.flatnonzero(too_long(block)).tolist()
    return [long_line(int(block.numbers[place]), int(block.ends[place] - block.starts[place] - 1)) for place in places]


def _block(text: bytes, line: int) -> Block:
    """The lines of a text, the first of which has this number. Blank ones are left out piece by piece, so that they take no memory."""
    data = np.frombuffer(b"" if text[0] in WHITESPACE and not text.strip(WHITESPACE) else text, np.uint8)
    texts: list[npt.NDArray[np.uint8]] = [data[:0]]
    sizes: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    numbers: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)]
    begin = 0
    for at in range(0, len(data), _SCAN_BYTES):
        found = np.flatnonzero(data[at : at + _SCAN_BYTES] == _NEWLINE) + (at + 1)
        if not len(found):
            continue
        some, lengths, counted = data[begin : found[-1]], np.diff(found, prepend=begin), np.arange(line, line + len(found))
        begin, line = int(found[-1]), line + len(found)
        if (full := _full(some, lengths)) is not None:
            some, lengths, counted = some[np.repeat(full, lengths)], lengths[full], counted[full]
        texts.append(some)
        sizes.append(lengths)
        numbers.append(counted)
    ends = np.cumsum(np.concatenate(sizes))
    kept = text if len(ends) and ends[-1] == len(text) else np.concatenate(texts).tobytes()
    return Block(kept, np.concatenate((np.zeros(min(len(ends), 1), np.int64), ends[:-1])), ends, np.concatenate(numbers))


def _full(text: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
    """Which lines are not blank, or None when all are full. A look at how they begin is mostly enough."""
    starts = np.cumsum(lengths) - lengths
    if not _IS_SPACE[text[starts]].any():
        return None
    full = np.logical_or.reduceat(~_IS_SPACE[text], starts)
    return None if full.all() else full


def long_line(line: int, size: int) -> Problem:
    message = f"line {line} has {size} bytes; at most {LINE_LIMIT_BYTES} are allowed"
    return Problem(Code.LINE_LIMIT, message, line=line)


def _not_utf_8(chunk: bytes) -> Problem | None:
    """The one problem of a text in UTF-16, in which every line would have several."""
    if not chunk.startswith(_UTF_16) and 0 not in chunk[:2]:
        return None
    return Problem(Code.ENCODING, "line 1 is not UTF-8: the data begins as UTF-16 does; save it as UTF-8", line=1, column=1)
