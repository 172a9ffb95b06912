"""Rows by number: several fragments, deleted rows, few of many and many of few."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.catalog.types import ListOf, Plain
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.adjacency.column_cache import ColumnCache
from omnigraph.exec.read.entities import SMALL_TABLE_ROWS, SPARSE, Entities
from omnigraph.exec.read.predicate import exact_sql
from omnigraph.lang.query import ArithmeticOperator, Comparison
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.expr import STRING, Constant, Field
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.root import open_root
from omnigraph.store.stage import append, commit, delete_keys
from omnigraph.store.tables import Table, create_table

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64()), pa.field("s", pa.string())])
N = Field(0, "n", Plain(Scalar.I64), nullable=True)
S = Field(0, "s", STRING, nullable=True)


def go() -> None:
    """Nobody minds how long it takes."""


def rows(start: int, count: int) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": [f"i{at}" for at in numbers], "n": list(numbers), "s": [f"s{at % 7}" for at in numbers]}, schema=SCHEMA)


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Table]:
    """A table of three fragments; every row whose number divides by five is deleted."""

    def made(count: int) -> Table:
        table = create_table(open_root(tmp_path_factory.mktemp("t")), "nodes/t", SCHEMA)
        for part in range(3):
            staged = append(table, rows(part * count, count))
            assert staged is not None
            table = commit(staged)
        gone = delete_keys(table, pa.array([f"i{at}" for at in range(0, 3 * count, 5)]))
        assert gone is not None
        return commit(gone)

    return made


@pytest.fixture(scope="module", params=[30, SMALL_TABLE_ROWS])
def entities(request: pytest.FixtureRequest, make: Callable[[int], Table]) -> Entities:
    """Small enough to be read in one pass, or not."""
    return Entities(make(request.param))


def test_a_scan_gives_numbers_that_find_the_rows_again(entities: Entities) -> None:
    found = [
        (int(number), n)
        for numbers, batch in entities.scan(("n",), (), check=go)
        for number, n in zip(numbers, batch.column("n").to_pylist(), strict=True)
    ]
    assert [number for number, _ in found] == sorted(number for number, _ in found)
    assert all(n % 5 for _, n in found)
    some = np.array([number for number, _ in found[:: max(1, len(found) // (SPARSE // 2))]][::-1], np.int64)
    known = dict(found)
    read = entities.read(some, ("n", "id"), check=go)
    assert read["n"].to_pylist() == [known[int(number)] for number in some]
    assert read["id"].to_pylist() == [f"i{known[int(number)]}" for number in some]


def test_a_number_may_be_asked_for_many_times_and_in_any_order(entities: Entities) -> None:
    first, second = entities.find(pa.array(["i1", "i2"]), check=go).tolist()
    asked = np.array([second, first, second, second], np.int64)
    assert entities.ids(asked, check=go).to_pylist() == ["i2", "i1", "i2", "i2"]
    assert len(entities.ids(np.zeros(0, np.int64), check=go)) == 0


def test_ids_that_are_not_there_have_no_number(entities: Entities) -> None:
    found = entities.find(pa.array(["i1", "nobody", "i5", "i1"]), check=go)
    assert (found >= 0).tolist() == [True, False, False, True]
    assert found[0] == found[3]


def test_many_ids_are_found_in_one_pass(entities: Entities) -> None:
    everybody = [f"i{at}" for at in range(entities.size)]
    found = entities.find(pa.array(everybody), check=go)
    assert [id_ for id_, number in zip(everybody, found, strict=True) if number < 0] == [f"i{at}" for at in range(0, entities.size, 5)]


def test_predicates_hold_for_the_same_rows_however_they_are_asked(entities: Entities) -> None:
    where = (ir.Compare(N, Comparison.LT, Constant(N.type, 40)), ir.Prefix(S, Constant(STRING, "s3")))
    by_scan = np.concatenate([numbers for numbers, _ in entities.scan((), where, check=go)])
    assert np.flatnonzero(entities.mask(where, check=go)).tolist() == by_scan.tolist()
    some = entities.find(pa.array([f"i{at}" for at in range(40) if at % 5]), check=go)
    assert some[entities.satisfying(some, where, check=go)].tolist() == by_scan.tolist()


@pytest.mark.parametrize("cached", [False, True])
def test_a_computation_is_made_only_for_rows_that_are_left(make: Callable[[int], Table], cached: bool) -> None:
    """`n * 9223372036854775807` overflows from 2 on: an error in a scan of all rows, and not where other predicates leave only 1."""
    entities = Entities(make(SMALL_TABLE_ROWS), cache=ColumnCache() if cached else None)
    product = ir.Arithmetic(N, ArithmeticOperator.MULTIPLY, Constant(N.type, 2**63 - 1), N.type)
    where = (ir.Compare(product, Comparison.GT, Constant(N.type, 0)),)
    few = ir.Compare(N, Comparison.LE, Constant(N.type, 1))
    one = entities.find(pa.array(["i1"]), check=go)
    for _ in range(3):  # the column is loaded sooner or later
        assert entities.satisfying(one, where, check=go).tolist() == [True]
        assert [numbers.tolist() for numbers, _ in entities.scan((), (*where, few), check=go)] == [one.tolist()]
        with pytest.raises(InvalidInput) as caught:
            list(entities.scan((), where, check=go))
        assert caught.value.kind is Kind.NUMERIC_OVERFLOW


def test_a_list_too_long_to_be_pushed_finds_the_same_rows(make: Callable[[int], Table]) -> None:
    table = make(SMALL_TABLE_ROWS)
    built = build(table, [IndexSpec("n", LanceIndexKind.BTREE, "n_idx")])
    assert built is not None
    indexed = commit(built)
    values = tuple(range(1, 3 * SMALL_TABLE_ROWS, 2))
    assert exact_sql(ir.OneOf(N, values)) is None
    for entities in (Entities(table), Entities(indexed), Entities(indexed, cache=ColumnCache())):
        found = [n for _, batch in entities.scan(("n",), (ir.OneOf(N, values),), check=go) for n in batch.column("n").to_pylist()]
        assert found == [value for value in values if value % 5]


def test_a_limit_stops_a_scan_also_where_a_predicate_is_judged_after_it(entities: Entities) -> None:
    pushed = ir.Compare(N, Comparison.GT, Constant(N.type, 3))
    after = ir.Includes(Constant(ListOf(Scalar.STRING), ("s1", "s2")), S)
    assert sum(len(numbers) for numbers, _ in entities.scan((), (pushed,), check=go, limit=7)) == 7
    assert sum(len(numbers) for numbers, _ in entities.scan((), (after,), check=go, limit=3)) == 3


def test_long_lists_of_texts_go_to_an_index_in_parts(make: Callable[[int], Table], tmp_path: Path) -> None:
    table = make(SMALL_TABLE_ROWS)
    built = build(table, [IndexSpec("id", LanceIndexKind.BTREE, "id_idx")])
    assert built is not None
    plain, indexed = Entities(table), Entities(commit(built))
    assert (plain.indexed, indexed.indexed) == (frozenset(), frozenset({"id"}))
    wanted = pa.array([f"i{at}" for at in range(1, 3 * SMALL_TABLE_ROWS, 11)])
    assert plain.find(wanted, check=go).tolist() == indexed.find(wanted, check=go).tolist()
