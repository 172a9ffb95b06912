"""Predicates: what the storage engine says of a scan and what is said of columns in memory is the same, and it is right."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog.types import ListOf, Plain, arrow_type
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.read.conditions import compare, filter_mask
from omnigraph.exec.read.predicate import exact_sql
from omnigraph.lang.query import ArithmeticOperator, Comparison
from omnigraph.plan import ir
from omnigraph.plan.expr import I64, STRING, Constant
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.root import open_root
from omnigraph.store.stage import append, commit
from omnigraph.store.tables import Table, create_table
from tests.unit.exec.run.judging import BY_VALUE, TYPES, VALUES, columns_of, computing, field, judged, leaves, mixed_rows, trees


@pytest.fixture(scope="module", params=["scanned", "indexed"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    columns = {"id": pa.array([str(at) for at in range(6)])}
    columns |= {name: pa.array(VALUES[name], arrow_type(type_)) for name, type_ in TYPES.items()}
    schema = pa.schema([pa.field(name, column.type, nullable=name != "id") for name, column in columns.items()])
    made = create_table(open_root(tmp_path_factory.mktemp("t")), "nodes/t", schema)
    staged = append(made, pa.table(columns, schema=schema))
    assert staged is not None
    filled = commit(staged)
    if request.param == "scanned":
        return filled
    indexes = [IndexSpec(name, LanceIndexKind.BTREE, f"{name}_idx") for name, type_ in TYPES.items() if not isinstance(type_, ListOf)]
    built = build(filled, indexes)
    assert built is not None
    return commit(built)


def scanned(table: Table, predicate: ir.Predicate) -> list[bool] | None:
    """What the storage engine says of each row, if it is asked at all."""
    sql = exact_sql(predicate)
    if sql is None:
        return None
    found = set(table.scan(["id"], where=sql).read_all().column("id").to_pylist())
    return [str(at) in found for at in range(6)]


def in_memory(predicate: ir.Predicate) -> list[bool]:
    found: list[bool] = filter_mask([predicate], 6, lambda field: pa.array(VALUES[field.column], arrow_type(field.type))).tolist()
    return found


def check(table: Table, predicate: ir.Predicate, expected: list[bool]) -> None:
    assert in_memory(predicate) == expected, predicate
    assert scanned(table, predicate) in (None, expected), predicate


CONSTANTS = [
    *(("i32", value) for value in (0, 5, -(2**31))),
    *(("i64", value) for value in (0, -(2**63), 2**53 + 1)),
    *(("u64", value) for value in (0, 2**64 - 1)),
    *(("f32", value) for value in (0.0, -0.0, 0.5)),
    *(("f64", value) for value in (0.0, -0.0, 0.1, -(2.0**63))),
    *(("text", value) for value in ("", "A", "it's", "Zoë_")),
    *(("flag", value) for value in (True, False)),
    *(("day", value) for value in (0, 3431)),
    *(("time", value) for value in (0, 1_709_296_215_250)),
]


@pytest.mark.parametrize(("name", "value"), CONSTANTS)
def test_a_column_is_compared_with_a_constant_of_its_type(table: Table, name: str, value: Any) -> None:
    """X-04: every operator, with and without an index; null is no match, `!=` included; the two zeros are one value."""
    for comparison in Comparison:
        expected = [one is not None and BY_VALUE[comparison](_ordered(one), _ordered(value)) for one in VALUES[name]]
        check(table, ir.Compare(field(name), comparison, Constant(TYPES[name], value)), expected)
    check(table, ir.OneOf(field(name), (value,)), [one is not None and one == value for one in VALUES[name]])


def _ordered(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize("left", ["i32", "i64", "u64", "f32", "f64"])
@pytest.mark.parametrize("right", ["i32", "i64", "u64", "f32", "f64"])
def test_columns_of_two_numeric_types_are_compared_by_value(table: Table, left: str, right: str) -> None:
    for comparison in Comparison:
        pairs = zip(VALUES[left], VALUES[right], strict=True)
        expected = [a is not None and b is not None and BY_VALUE[comparison](a, b) for a, b in pairs]
        check(table, ir.Compare(field(left), comparison, field(right)), expected)


@pytest.mark.parametrize("part", ["", "a", "%", "_", "it's", "ë", "A"])
def test_substrings_and_prefixes_are_plain_text(table: Table, part: str) -> None:
    """X-10: `contains` and `starts_with` compare plain text: case counts, `%` and `_` are letters, null never matches."""
    texts = VALUES["text"]
    constant = Constant(STRING, part)
    check(table, ir.Substring(field("text"), constant), [text is not None and part in text for text in texts])
    check(table, ir.Prefix(field("text"), constant), [text is not None and text.startswith(part) for text in texts])
    check(table, ir.Substring(constant, field("text")), [text is not None and text in part for text in texts])
    check(table, ir.Prefix(constant, field("text")), [text is not None and part.startswith(text) for text in texts])


def test_two_texts_of_one_row(table: Table) -> None:
    both = list(zip(VALUES["text"], VALUES["part"], strict=True))
    check(table, ir.Substring(field("text"), field("part")), [a is not None and b is not None and b in a for a, b in both])
    check(table, ir.Prefix(field("text"), field("part")), [a is not None and b is not None and a.startswith(b) for a, b in both])


@pytest.mark.parametrize(
    ("name", "item"), [("items", "a"), ("items", "it's"), ("marks", 5), ("marks", 2**62), ("sizes", 0.0), ("sizes", 0.5)]
)
def test_a_list_includes_its_items(table: Table, name: str, item: Any) -> None:
    type_ = TYPES[name]
    assert isinstance(type_, ListOf)
    predicate = ir.Includes(field(name), Constant(Plain(type_.item), item))
    check(table, predicate, [items is not None and item in items for items in VALUES[name]])


def test_a_list_includes_a_column_of_any_numeric_type(table: Table) -> None:
    both = list(zip(VALUES["marks"], VALUES["i32"], strict=True))
    check(table, ir.Includes(field("marks"), field("i32")), [a is not None and b is not None and b in a for a, b in both])


def test_what_is_left_of_a_folded_comparison(table: Table) -> None:
    """X-05: a literal beyond the type leaves what it is for every value, and unknown for null."""
    check(table, ir.Decided(field("i32"), truth=True), [value is not None for value in VALUES["i32"]])
    check(table, ir.Not(ir.Decided(field("i32"), truth=False)), [value is not None for value in VALUES["i32"]])
    for never in (
        ir.Decided(field("i32"), truth=False),
        ir.Not(ir.Decided(field("i32"), truth=True)),
        ir.NEVER,
        ir.UNKNOWN,
        ir.Not(ir.UNKNOWN),
    ):
        check(table, never, [False] * 6)


ROWS = mixed_rows(60)
COLUMNS = columns_of(ROWS)


@settings(deadline=None, max_examples=200)
@given(st.lists(trees(leaves | computing), max_size=3))
def test_predicates_are_true_false_or_unknown(where: list[ir.Predicate]) -> None:
    """L2-01: `not` of unknown is unknown; a row is kept where every predicate is true."""
    for predicates in (where, [ir.Not(predicate) for predicate in where]):
        expected = [all(judged(predicate, row) is True for predicate in predicates) for row in ROWS]
        assert filter_mask(predicates, len(ROWS), lambda one: COLUMNS[one.column]).tolist() == expected


def doubled(name: str) -> ir.Predicate:
    """`name * 2 > 0`"""
    product = ir.Arithmetic(field(name), ArithmeticOperator.MULTIPLY, Constant(I64, 2), I64)
    return ir.Compare(product, Comparison.GT, Constant(I64, 0))


def test_an_overflow_counts_only_in_rows_that_are_left() -> None:
    columns = {"i64": pa.array([2**62, 3, None]), "flag": pa.array([False, True, True])}
    kept = ir.Compare(field("flag"), Comparison.EQ, Constant(TYPES["flag"], value=True))
    assert filter_mask([doubled("i64"), kept], 3, lambda one: columns[one.column]).tolist() == [False, True, False]
    for where in ([doubled("i64")], [ir.AnyOf((ir.Not(kept), doubled("i64")))]):
        with pytest.raises(InvalidInput) as caught:
            filter_mask(where, 3, lambda one: columns[one.column])
        assert caught.value.kind is Kind.NUMERIC_OVERFLOW


def test_no_number_compares_with_what_is_not_a_number() -> None:
    """Only a computation can give NaN: it is unequal to everything, itself too, and neither less nor greater."""
    numbers = pa.array([float("nan"), float("inf"), 1.0, None])
    for comparison in Comparison:
        expected = [comparison is Comparison.NE, BY_VALUE[comparison](float("inf"), float("inf")), BY_VALUE[comparison](1.0, 1.0), False]
        assert compare(numbers, comparison, numbers).tolist() == expected


wide = st.integers(-(2**63), 2**64 - 1) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0])


@settings(deadline=None)
@given(wide, st.floats(allow_nan=False) | wide.map(float), st.sampled_from(Comparison))
def test_an_integer_and_a_double_compare_as_numbers_and_not_as_two_doubles(whole: int, real: float, comparison: Comparison) -> None:
    type_ = pa.int64() if whole < 2**63 else pa.uint64()
    integers, floats = pa.array([whole], type_), pa.array([real], pa.float64())
    assert compare(integers, comparison, floats).tolist() == [BY_VALUE[comparison](whole, real)]
    assert compare(floats, comparison, integers).tolist() == [BY_VALUE[comparison](real, whole)]
