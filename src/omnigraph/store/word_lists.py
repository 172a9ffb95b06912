"""The files of a full-text index of Lance -> for a word, which of its texts have it and how often, without a search by Lance.

An index consists of parts. Each has a file of its words, one with a list for each word, and one of its texts. They are ordinary Lance
files, but what their columns contain is Lance's own. So formats that are not known here are not read, and a caller asks Lance instead.

The lists of single words are read by their number. Once that has cost as much as to read all of them, they are kept in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader

from omnigraph.store.arrays import whole
from omnigraph.store.posting_lists import BLOCK, Integers, PostingList, unpacked
from omnigraph.store.root import Root
from omnigraph.store.word_map import WordMap

TEXTS: Final = "_docs.lance"
"""The end of the name of a file that lists the texts of a part, with the number of their words."""
_WORDS: Final = "_tokens.lance"
_LISTS: Final = "_invert.lance"
_MAP: Final = "_token_fst_bytes"
_LIST: Final = "_posting"
_LENGTH: Final = "_length"
_FORMAT: Final = {b"format_version": b"2", b"posting_tail_codec": b"varint_delta_v1", b"posting_block_size": b"%d" % BLOCK}
"""What the file of the lists must say of itself."""

KEPT_BYTES: Final = 32 << 20
"""Lists in a file of up to this size are kept in memory once many were read."""
READ_BYTES: Final = 400_000
"""How many bytes of lists are read at once in the time of a read of a few lists: 0.5 ms."""


class WordLists:
    """The lists of an index. Every text has a number: its place among the texts of all parts, in the order of their files."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self._parts: Final = tuple(parts)

    def of(self, words: Sequence[str]) -> list[PostingList]:
        """The texts with each of these words. Raises ValueError for files that do not decode."""
        found = [part.of(words) for part in self._parts]
        if len(found) == 1:
            return found[0]
        empty = PostingList(*(np.zeros(0, np.int64),) * 2)
        return [PostingList(*map(np.concatenate, zip(empty, *lists, strict=True))) for lists in zip(*found, strict=True)]


def open_lists(root: Root, texts: Sequence[tuple[str, int]], sizes: dict[str, int]) -> WordLists | None:
    """The lists of the parts with these files of texts, each with its number of texts; None if one is in a format that is not known.

    `sizes` has all files of the index.
    """
    parts, base = [], 0
    for file, count in texts:
        stem = file.removesuffix(TEXTS)
        if stem + _WORDS not in sizes or stem + _LISTS not in sizes:
            return None
        words = _reader(root, stem + _WORDS, [])
        lists = _reader(root, stem + _LISTS, [_LIST, _LENGTH])
        if not _is_known(words, lists):
            return None
        data = words.read_all().to_table().column(_MAP)[0].as_py()
        if not WordMap.is_known(data):
            return None
        parts.append(_Part(WordMap(data), lists, base=base, texts=count, nbytes=sizes[stem + _LISTS]))
        base += count
    return WordLists(parts)


def _reader(root: Root, file: str, columns: list[str]) -> LanceFileReader:
    return LanceFileReader(root.of(file), storage_options=root.storage_options, columns=columns or None)


def _is_known(words: LanceFileReader, lists: LanceFileReader) -> bool:
    described = lists.metadata().schema
    recorded = described.metadata or {}
    columns = {_LIST: pa.list_(pa.field("item", pa.large_binary())), _LENGTH: pa.uint32()}
    return (
        all(recorded.get(key) == value for key, value in _FORMAT.items())
        and all(name in described.names and described.field(name).type == type_ for name, type_ in columns.items())
        and _MAP in words.metadata().schema.names
        and words.num_rows() == 1
    )


class _Part:
    """The lists of one part of an index, whose texts have the numbers from `base` on."""

    def __init__(self, words: WordMap, lists: LanceFileReader, *, base: int, texts: int, nbytes: int) -> None:
        self._words: Final = words
        self._lists: Final = lists
        self._base: Final = base
        self._texts: Final = texts
        self._nbytes: Final = nbytes
        self._left = nbytes
        """How many bytes of lists could have been read in the time that is not yet spent on reads of a few."""
        self._kept: pa.Table | None = None

    def of(self, words: Sequence[str]) -> list[PostingList]:
        numbers = [self._words.find(word) for word in words]
        wanted = sorted({number for number in numbers if number is not None})
        found = dict(zip(wanted, self._read(wanted), strict=True))
        none = PostingList(*(np.zeros(0, np.int64),) * 2)
        return [none if number is None else found[number] for number in numbers]

    def _read(self, wanted: list[int]) -> list[PostingList]:
        if not wanted:
            return []
        rows = self._rows(wanted)
        lists = unpacked(whole(rows.column(_LIST)), rows.column(_LENGTH).to_numpy().astype(np.int64))
        for texts, counts in lists:
            if not self._is_whole(texts, counts):
                raise ValueError("a list of a full-text index names texts that it does not have")
        return [PostingList(texts + self._base, counts) for texts, counts in lists] if self._base else lists

    def _rows(self, wanted: list[int]) -> pa.Table:
        if self._kept is None and self._nbytes <= KEPT_BYTES:
            self._left -= READ_BYTES
            if self._left < 0:
                self._kept = self._lists.read_all(batch_size=self._lists.num_rows()).to_table()
        return self._lists.take_rows(wanted).to_table() if self._kept is None else self._kept.take(pa.array(wanted))

    def _is_whole(self, texts: Integers, counts: Integers) -> bool:
        return not len(texts) or bool((np.diff(texts) > 0).all() and texts[0] >= 0 and texts[-1] < self._texts and (counts > 0).all())
