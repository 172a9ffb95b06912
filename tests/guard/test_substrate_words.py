"""The files of a full-text index: what they are called, what they say of themselves, and what their bytes mean."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.file import LanceFileReader

from omnigraph.store.root import Root, open_root
from omnigraph.store.word_lists import TEXTS, WordLists, open_lists
from omnigraph.store.words import ANALYSER, words_of

LENGTHS = (1, 2, 127, 128, 129, 255, 256, 257, 1_000, 4_000)
"""How many texts have a word: around the size of a block, and many blocks."""


def corpus(*, texts: int = 5_000, seed: int = 3) -> list[str]:
    """Words of every length of list; one with large counts; and many rare ones that begin with every letter and digit, or with neither."""
    rng = np.random.default_rng(seed)
    made: list[list[str]] = [[] for _ in range(texts)]
    for length in LENGTHS:
        for at in rng.choice(np.arange(1, texts), length, replace=False).tolist():
            made[at] += [f"list{length}x"] * int(rng.integers(1, 4))
    for at, count in enumerate((127, 128, 129, 16_383, 16_384, 20_000), 1):
        made[at] += ["often"] * count
    letters = "abcdefghijklmnopqrstuvwxyz0123456789日本語словоªß"
    for at in range(1, texts, 2):
        made[at].append("".join(letters[place] for place in rng.integers(0, len(letters), int(rng.integers(1, 9)))))
    return [" ".join(words) for words in made]


def indexed(path: Path, texts: list[str], *, staged: bool = False) -> LanceDataset:
    table = lance.write_dataset(pa.table({"text": texts}), str(path), max_rows_per_file=2_000)
    if not staged:
        table.create_scalar_index("text", "INVERTED", **ANALYSER)
        return table
    everywhere = [part.fragment_id for part in table.get_fragments()]
    segments = [table.create_index_uncommitted("text", "INVERTED", name="i", fragment_ids=[part], **ANALYSER) for part in everywhere]
    table.commit_existing_index_segments("i", "text", [table.merge_existing_index_segments([each]) for each in segments])
    return lance.dataset(str(path))


def files_of(table: LanceDataset, root: Root) -> dict[str, int]:
    uuids = [segment.uuid for index in table.describe_indices() for segment in index.segments]
    return {file: size for uuid in uuids for file, size in root.objects.sizes(f"_indices/{uuid}").items()}


def opened(table: LanceDataset) -> tuple[WordLists | None, Any, Any]:
    """The lists of an index, and the addresses and lengths of its texts in their order."""
    root = open_root(table.uri)
    sizes = files_of(table, root)
    read = {file: LanceFileReader(root.of(file)).read_all().to_table() for file in sizes if file.endswith(TEXTS)}
    every = pa.concat_tables(read.values())
    lists = open_lists(root, [(file, len(texts)) for file, texts in read.items()], sizes)
    return lists, every.column("_rowid").to_numpy(), every.column("_num_tokens").to_numpy()


def test_a_text_index_is_files_of_words_lists_and_texts(tmp_path: Path) -> None:
    """Their names, columns and formats. With others the lists are not read, and Lance is asked for its scores."""
    table = indexed(tmp_path / "t", corpus())
    root = open_root(table.uri)
    sizes = files_of(table, root)
    names = sorted(Path(file).name for file in sizes)
    assert names == ["metadata.lance", "part_0_docs.lance", "part_0_invert.lance", "part_0_tokens.lance"]
    described = {Path(file).name: LanceFileReader(root.of(file)).metadata().schema for file in sizes}
    assert described["part_0_docs.lance"].names == ["_rowid", "_num_tokens"]
    assert described["part_0_tokens.lance"].names == ["_token_fst_bytes", "_token_next_id", "_token_total_length"]
    lists = described["part_0_invert.lance"]
    assert lists.names == ["_posting", "_max_score", "_length", "_impacts"]
    assert lists.metadata == {b"format_version": b"2", b"posting_tail_codec": b"varint_delta_v1", b"posting_block_size": b"128"}


@pytest.mark.parametrize("staged", [False, True], ids=["one part", "a part for each fragment"])
def test_the_lists_of_a_text_index_have_every_word_with_its_texts_and_counts(tmp_path: Path, staged: bool) -> None:
    """And no other words. The texts of a list are places in the file of texts; that has their addresses, and their numbers of words."""
    texts = corpus()
    lists, addresses, lengths = opened(indexed(tmp_path / "t", texts, staged=staged))
    assert lists is not None
    analysed = [words_of(text) for text in texts]
    numbers = np.array([(int(address) >> 32) * 2_000 + (int(address) & 0xFFFF_FFFF) for address in addresses])
    assert [len(analysed[number]) for number in numbers] == lengths.tolist()
    expected: dict[str, dict[int, int]] = {}
    for number, words in enumerate(analysed):
        for word, count in Counter(words).items():
            expected.setdefault(word, {})[number] = count
    assert {len(found) for found in expected.values()} >= set(LENGTHS)
    assert any(not word.isascii() for word in expected)
    asked = [*expected, "nowhere", "list", "list128xx", "ofte", ""]
    for word, (places, counts) in zip(asked, lists.of(asked), strict=True):
        assert dict(zip(numbers[places].tolist(), counts.tolist(), strict=True)) == expected.get(word, {}), word
