"""X-10: a predicate that is pushed into a scan gives the rows that it gives in memory, with nulls, and with and without indexes."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.types import ListOf
from omnigraph.exec.read.conditions import filter_mask
from omnigraph.exec.read.predicate import MOST_LEVELS, MOST_TERMS, MOST_VALUES, exact_sql
from omnigraph.lang.query import ArithmeticOperator, Comparison
from omnigraph.plan import ir
from omnigraph.plan.expr import F64, I64, STRING, Constant
from omnigraph.plan.functions import Function
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.root import open_root
from omnigraph.store.stage import append, commit
from omnigraph.store.tables import Table, create_table
from tests.unit.exec.run.judging import (
    SCALARS,
    TYPES,
    columns_of,
    compared,
    computing,
    field,
    included,
    judged,
    leaves,
    listed,
    mixed_rows,
    tests_of_one_value,
    texts,
    trees,
)

ROWS = mixed_rows(60)
COVERED = 40
"""How many of the rows are there when the indexes are built."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    """The rows without an index, with one on each column, and with indexes that do not cover all rows."""
    columns = {"id": pa.array([str(at) for at in range(len(ROWS))]), **columns_of(ROWS)}
    schema = pa.schema([pa.field(name, column.type, nullable=name != "id") for name, column in columns.items()])
    rows = pa.table(columns, schema=schema)
    indexes = [IndexSpec(name, LanceIndexKind.BTREE, f"{name}_idx") for name, type_ in TYPES.items() if not isinstance(type_, ListOf)]

    def filled(covered: int | None) -> Table:
        table = create_table(open_root(tmp_path_factory.mktemp("t")), "nodes/t", schema)
        for part in (rows,) if covered is None else (rows.slice(0, covered), rows.slice(covered)):
            if not len(part):
                continue
            staged = append(table, part)
            assert staged is not None
            table = commit(staged)
            if covered is not None and part.column("id")[0].as_py() == "0":
                built = build(table, indexes)
                assert built is not None
                table = commit(built)
        return table

    return [filled(None), filled(len(ROWS)), filled(COVERED)]


def pushed(table: Table, predicate: ir.Predicate) -> list[bool] | None:
    """What the storage engine says of each row, or None if it is not asked."""
    where = exact_sql(predicate)
    if where is None:
        return None
    found = set(table.scan(["id"], where=where).read_all().column("id").to_pylist())
    return [str(at) in found for at in range(len(ROWS))]


COLUMNS = columns_of(ROWS)
pushable = st.one_of(
    compared(SCALARS), listed(SCALARS), included().filter(lambda one: exact_sql(one) is not None), texts(), tests_of_one_value
)


@settings(deadline=None, max_examples=120)
@given(trees(pushable))
def test_what_is_pushed_gives_the_same_rows(tables: list[Table], predicate: ir.Predicate) -> None:
    expected = [judged(predicate, row) is True for row in ROWS]
    assert filter_mask([predicate], len(ROWS), lambda one: COLUMNS[one.column]).tolist() == expected
    for table in tables:
        assert pushed(table, predicate) == expected


@settings(deadline=None, max_examples=60)
@given(trees(leaves | computing))
def test_what_may_be_pushed_gives_the_same_rows(tables: list[Table], predicate: ir.Predicate) -> None:
    expected = [judged(predicate, row) is True for row in ROWS]
    for table in tables:
        assert pushed(table, predicate) in (None, expected)


@pytest.mark.parametrize("name", SCALARS)
def test_every_value_in_one_list_and_not_in_it(tables: list[Table], name: str) -> None:
    """A long list is a hash table to the storage engine; both zeros are in it or neither."""
    values = tuple(dict.fromkeys(row[name] for row in ROWS if row[name] is not None))
    for kept in (values, values[1:], values[:-1]):
        for predicate in (ir.OneOf(field(name), kept), ir.Not(ir.OneOf(field(name), kept))):
            expected = [judged(predicate, row) is True for row in ROWS]
            for table in tables:
                assert pushed(table, predicate) == expected, predicate


def test_what_computes_is_not_pushed() -> None:
    length = ir.FunctionCall(Function.LENGTH, (field("text"),), I64)
    more = ir.Arithmetic(field("i64"), ArithmeticOperator.ADD, Constant(I64, 1), I64)
    upper = ir.FunctionCall(Function.UPPER, (field("text"),), STRING)
    for predicate in (
        ir.OneOf(length, (1, 2)),
        ir.Compare(more, Comparison.GT, Constant(I64, 1)),
        ir.IsNull(more),
        ir.Prefix(upper, Constant(STRING, "A")),
        ir.Suffix(field("text"), upper),
    ):
        assert exact_sql(predicate) is None
        assert exact_sql(ir.AnyOf((ir.IsNull(field("i64")), predicate))) is None
        assert exact_sql(ir.Not(predicate)) is None


def test_a_list_of_floats_is_not_searched_by_the_storage_engine() -> None:
    """It tells -0.0 from 0.0 there."""
    assert exact_sql(ir.Includes(field("sizes"), Constant(F64, 0.0))) is None


def test_long_conditions_are_pushed_up_to_a_bound(tables: list[Table]) -> None:
    """The storage engine refuses parentheses nested some fifty deep, and needs a while for many comparisons."""

    def equal(number: int) -> ir.Predicate:
        return ir.Compare(field("i32" if number % 2 else "i64"), Comparison.EQ, Constant(TYPES["i32"], number))

    def nested(levels: int) -> ir.Predicate:
        predicate = equal(0)
        for level in range(levels):
            predicate = (ir.AllOf if level % 2 else ir.AnyOf)((equal(level), predicate))
        return predicate

    def wide(terms: int) -> ir.Predicate:
        return ir.AnyOf(tuple(equal(number) for number in range(terms)))

    def long(values: int) -> ir.Predicate:
        return ir.OneOf(field("i32"), tuple(range(values)))

    for make, most in ((nested, MOST_LEVELS), (wide, MOST_TERMS), (long, MOST_VALUES)):
        predicate = make(most)
        assert pushed(tables[0], predicate) == [judged(predicate, row) is True for row in ROWS]
        assert pushed(tables[0], make(most + 1)) is None
