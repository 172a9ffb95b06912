"""A stream of bytes -> blocks of whole lines with their line numbers. Blank lines are skipped; a line that is too long is a problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from omnigraph.exec.problems import Problem, ProblemCode

LINE_LIMIT_BYTES: Final = 32 << 20
"""The maximum length of a line. It bounds the memory that one record takes."""
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
WHITESPACE: Final = b" \t\r\n"
"""The whitespace of JSON. A line with no other bytes is blank."""
_NEWLINE: Final = 10
_IS_SPACE: Final = np.isin(np.arange(256), np.frombuffer(WHITESPACE, np.uint8))
_SCAN_BYTES: Final = 1 << 20  # compare pieces that fit into the CPU cache


class LineBlock(msgspec.Struct, frozen=True):
    """Consecutive lines without the blank ones. Line i is `text[starts[i]:ends[i]]`, newline included."""

    text: bytes
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    """The number of each line in the stream, from 1, blank lines counted."""

    def line(self, index: int) -> bytes:
        """One line, newline included."""
        return self.text[self.starts[index] : self.ends[index]]


def blocks(chunks: Iterator[bytes], *, first_line: int = 1, begins: bool = True) -> Iterator[LineBlock | Problem]:
    """Cut chunks at newlines. Holds at most the line limit and one chunk in memory, besides the yielded block.

    `begins`: the chunks start at the beginning of the source, so the first one may reveal its encoding.
    """
    line = first_line
    kept: list[bytes] = []
    held = 0
    passed = 0  # bytes so far of a line over the limit
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


def too_long(block: LineBlock) -> npt.NDArray[np.bool_]:
    """Which lines of a block are over the limit. The first may be, if its end came with the last chunk."""
    return block.ends - block.starts - 1 > LINE_LIMIT_BYTES


def long_lines(block: LineBlock) -> list[Problem]:
    """The problems of the lines that are over the limit."""
    places = np.flatnonzero(too_long(block)).tolist()
    return [long_line(int(block.numbers[place]), int(block.ends[place] - block.starts[place] - 1)) for place in places]


def _block(text: bytes, line: int) -> LineBlock:
    """The lines of a text whose first line has the number `line`. Blank lines are removed piece by piece, so they take no memory."""
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
    return LineBlock(kept, np.concatenate((np.zeros(min(len(ends), 1), np.int64), ends[:-1])), ends, np.concatenate(numbers))


def _full(text: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
    """Which lines are not blank, or None if no line is blank. Usually the first byte of each line is enough to decide."""
    starts = np.cumsum(lengths) - lengths
    if not _IS_SPACE[text[starts]].any():
        return None
    full = np.logical_or.reduceat(~_IS_SPACE[text], starts)
    return None if full.all() else full


def long_line(line: int, size: int) -> Problem:
    message = f"line {line} has {size} bytes; at most {LINE_LIMIT_BYTES} are allowed"
    return Problem(ProblemCode.LINE_LIMIT, message, line=line)


def _not_utf_8(chunk: bytes) -> Problem | None:
    """The problem of a UTF-16 text, reported once instead of for every line."""
    if not chunk.startswith(_UTF_16) and 0 not in chunk[:2]:
        return None
    return Problem(ProblemCode.ENCODING, "line 1 is not UTF-8: the data looks like UTF-16; save it as UTF-8", line=1, column=1)
