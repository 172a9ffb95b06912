"""ULIDs minted by the column."""

from __future__ import annotations

import time

from ulid import ULID

from omnigraph.exec.write.ulids import mint


def test_minted_ids_are_ulids_of_now_in_order() -> None:
    before = time.time_ns() // 1_000_000
    ids = mint(5000)
    after = time.time_ns() // 1_000_000
    ids.validate(full=True)
    texts = ids.to_pylist()
    assert texts == sorted(set(texts))
    read = [ULID.from_str(text) for text in texts]
    assert [str(ulid) for ulid in read] == texts
    assert {len(text) for text in texts} == {26}
    assert all(before <= ulid.milliseconds <= after for ulid in read)


def test_two_mints_share_nothing() -> None:
    assert not set(mint(2000).to_pylist()) & set(mint(2000).to_pylist())
    assert mint(0).to_pylist() == []


def test_the_lower_half_of_each_id_is_random() -> None:
    lower = [text[-8:] for text in mint(2000).to_pylist()]
    assert len(set(lower)) == 2000
    assert all(len({text[place] for text in lower}) == 32 for place in range(8))
