"""Row numbers of one table version: dense, unique, and back to the same row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from omnigraph.exec.adjacency.numbering import Numbering
from omnigraph.store import stage
from omnigraph.store.tables import ADDRESS, Table
from tests.unit.store.tables import SHAPES, added, compacted, place, rows, some, two_fragments


def check(table: Table) -> None:
    addresses = table.scan(["id"], addresses=True).read_all().column(ADDRESS).to_numpy()
    numbers = Numbering.of(table)
    found = numbers.from_addresses(addresses)
    assert len(set(found.tolist())) == len(addresses), "no two rows share a number"
    assert ((found >= 0) & (found < numbers.size)).all()
    assert numbers.to_addresses(found).tolist() == addresses.tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_has_a_number_of_its_own_that_leads_back_to_it(tmp_path: Path, shape: str) -> None:
    check(SHAPES[shape](place(tmp_path)))


def test_numbers_survive_fragments_out_of_order(tmp_path: Path) -> None:
    """A compaction puts its result, with a high id, where the rows were that it rewrote."""
    table = two_fragments(place(tmp_path))
    check(added(compacted(table), {"x": 1, "y": 2}))


def test_appended_rows_come_after_all_others(tmp_path: Path) -> None:
    before = two_fragments(place(tmp_path))
    after = stage.commit(some(stage.append(before, rows({"x": 1}, before.schema))))
    known = before.scan(["id"], addresses=True).read_all().column(ADDRESS).to_numpy()
    assert np.array_equal(Numbering.of(before).from_addresses(known), Numbering.of(after).from_addresses(known))
    assert Numbering.of(after).size == Numbering.of(before).size + 1
