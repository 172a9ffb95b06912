"""Literals compared with columns: typed like the column where nothing is lost, rewritten by value where something would be."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.model import TypeKind
from omnigraph.catalog.types import EnumOf, ListOf, Plain, VectorOf
from omnigraph.ids import TypeId
from omnigraph.lang.query import Comparison
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.coercion import against, as_item, comparison, one_of
from omnigraph.plan.expr import BOOL, DATE, F64, I64, STRING, Constant, Field, TypeRef
from omnigraph.plan.ir import NEVER, UNKNOWN, Compare, Decided, Known, Matches, OneOf, TextMatch
from omnigraph.plan.rules.fold_constants import known
from omnigraph.plan.typed import TextMode
from omnigraph.plan.values import RANGES, narrowed
from tests.unit.plan.evaluate import Graph, _Evaluator

I32_COLUMN = Field(0, "n", Plain(Scalar.I32), nullable=True)
U64_COLUMN = Field(0, "n", Plain(Scalar.U64), nullable=True)
F32_COLUMN = Field(0, "n", Plain(Scalar.F32), nullable=True)
F64_COLUMN = Field(0, "n", F64, nullable=True)


def typed(field: Field, operator: str, value: Any) -> ir.Predicate:
    return against(field, Comparison(operator), Constant(F64 if isinstance(value, float) else I64, value))


def compare(field: Field, operator: str, value: Any) -> Compare:
    return Compare(field, Comparison(operator), Constant(field.type, value))


@pytest.mark.parametrize(
    ("field", "operator", "value", "expected"),
    [
        # lossless: the column's own type, any operator
        (I32_COLUMN, "=", 7, compare(I32_COLUMN, "=", 7)),
        (I32_COLUMN, "<=", 7.0, compare(I32_COLUMN, "<=", 7)),
        (U64_COLUMN, "=", 2**64 - 1, compare(U64_COLUMN, "=", 2**64 - 1)),
        (F64_COLUMN, ">", 7, compare(F64_COLUMN, ">", 7.0)),
        # between two integers
        (I32_COLUMN, "=", 2.7, Decided(I32_COLUMN, truth=False)),
        (I32_COLUMN, "!=", 2.7, Decided(I32_COLUMN, truth=True)),
        (I32_COLUMN, "<", 2.7, compare(I32_COLUMN, "<=", 2)),
        (I32_COLUMN, "<=", 2.7, compare(I32_COLUMN, "<=", 2)),
        (I32_COLUMN, ">", 2.7, compare(I32_COLUMN, ">", 2)),
        (I32_COLUMN, ">=", -2.7, compare(I32_COLUMN, ">", -3)),
        # beyond the column
        (I32_COLUMN, "<", 3_000_000_000, Decided(I32_COLUMN, truth=True)),
        (I32_COLUMN, ">=", 3e9, Decided(I32_COLUMN, truth=False)),
        (I32_COLUMN, "!=", 3e9, Decided(I32_COLUMN, truth=True)),
        (U64_COLUMN, ">", -1, Decided(U64_COLUMN, truth=True)),
        (U64_COLUMN, "=", -1, Decided(U64_COLUMN, truth=False)),
        # an F32 column rounds the literal as it rounded its values
        (F32_COLUMN, "=", 0.1, compare(F32_COLUMN, "=", narrowed(0.1))),
        (F32_COLUMN, "<", 1e300, Decided(F32_COLUMN, truth=True)),
        (F32_COLUMN, "<", -1e300, Decided(F32_COLUMN, truth=False)),
        # an integer that no double holds
        (F64_COLUMN, "=", 2**53 + 1, Decided(F64_COLUMN, truth=False)),
        (F64_COLUMN, "<", 2**53 + 1, compare(F64_COLUMN, "<=", float(2**53))),
        (F64_COLUMN, ">=", 2**53 + 1, compare(F64_COLUMN, ">", float(2**53))),
    ],
)
def test_numbers(field: Field, operator: str, value: Any, expected: ir.Predicate) -> None:
    assert typed(field, operator, value) == expected


_NUMBERS = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**53) - 3, 2**53 + 3).map(lambda n: n + 0.5),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**63, 2.5, 2**64 - 1]),
)
_COLUMNS = {
    Scalar.I32: st.integers(*RANGES[Scalar.I32]),
    Scalar.U32: st.integers(*RANGES[Scalar.U32]),
    Scalar.I64: st.integers(*RANGES[Scalar.I64]),
    Scalar.U64: st.integers(*RANGES[Scalar.U64]),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.F32: st.floats(allow_nan=False, allow_infinity=False, width=32),
}


def _truth(predicate: ir.Predicate, stored: Any) -> bool | None:
    graph = Graph({"T": {"x": {"n": stored}}}, {})
    return _Evaluator(graph, (ir.Binding("t", TypeRef(TypeKind.NODE, "T", TypeId("0"))),)).truth(predicate, {0: "x"})


@given(data=st.data(), scalar=st.sampled_from(sorted(_COLUMNS)), operator=st.sampled_from(Comparison), literal=_NUMBERS)
def test_typed_comparison_keeps_the_same_rows(data: st.DataObject, scalar: Scalar, operator: Comparison, literal: float) -> None:
    """Law: for every stored value, the typed predicate says what a comparison by value says; both are unknown for null."""
    near = [literal, math.floor(literal), math.ceil(literal), float(literal)] if abs(literal) < 1e300 else [0]
    fits = [value for value in near if scalar in (Scalar.F64,) or (isinstance(value, int) and scalar in RANGES)]
    fits = [value for value in fits if scalar not in RANGES or RANGES[scalar][0] <= value <= RANGES[scalar][1]]
    column = _COLUMNS[scalar] | (st.sampled_from(fits).map(float if scalar is Scalar.F64 else int) if fits else st.nothing())
    stored = data.draw(st.none() | column)
    field = Field(0, "n", Plain(scalar), nullable=True)
    other = narrowed(literal) if scalar is Scalar.F32 else literal
    by_value = Compare(Constant(F64, stored), operator, Constant(F64, other))
    assert Known(truth=_truth(against(field, operator, Constant(F64, literal)), stored)) == known(by_value)


def test_either_operand_order() -> None:
    assert comparison(Constant(I64, 7), Comparison.LT, I32_COLUMN) == compare(I32_COLUMN, ">", 7)
    assert comparison(Constant(F64, 2.7), Comparison.GE, I32_COLUMN) == compare(I32_COLUMN, "<=", 2)


def test_a_comparison_with_null_is_unknown() -> None:
    assert comparison(I32_COLUMN, Comparison.NE, Constant(I64, None)) == UNKNOWN
    assert comparison(Constant(I64, None), Comparison.EQ, I32_COLUMN) == UNKNOWN


def test_lists_and_vectors_equal_nothing() -> None:
    genres, vector = Field(0, "g", ListOf(Scalar.STRING)), Field(0, "v", VectorOf(2))
    assert against(genres, Comparison.EQ, Constant(ListOf(Scalar.STRING), ("a",))) == Decided(genres, truth=False)
    assert against(vector, Comparison.EQ, Constant(ListOf(Scalar.F64), (1.0, 2.0))) == Decided(vector, truth=False)


@pytest.mark.parametrize(("type_", "value"), [(STRING, "x"), (DATE, 5), (BOOL, True), (EnumOf(("a", "b")), "a")])
def test_other_types_are_typed_by_the_column(type_: Any, value: Any) -> None:
    field = Field(0, "x", type_)
    assert against(field, Comparison.GE, Constant(STRING, value)) == Compare(field, Comparison.GE, Constant(type_, value))


def test_one_of_drops_what_the_column_cannot_hold() -> None:
    assert one_of(I32_COLUMN, (1, 2.5, 3.0, 3, 2**40)) == OneOf(I32_COLUMN, (1, 3))
    assert one_of(I32_COLUMN, (2.5,)) == Decided(I32_COLUMN, truth=False)
    assert one_of(I32_COLUMN, ()) == NEVER


def test_list_items() -> None:
    assert as_item(Scalar.I32, Constant(F64, 3.0)) == Constant(Plain(Scalar.I32), 3)
    assert as_item(Scalar.I32, Constant(F64, 2.5)) is None


def test_text_search_compared_with_a_truth() -> None:
    text = TextMatch(TextMode.SEARCH, Field(0, "plot", STRING), "space")
    assert comparison(text, Comparison.EQ, Constant(BOOL, value=False)) == Matches(text, wanted=False)
    assert comparison(Constant(BOOL, value=True), Comparison.NE, text) == Matches(text, wanted=False)
    assert comparison(text, Comparison.LT, Constant(BOOL, value=True)) == Compare(text, Comparison.LT, Constant(BOOL, value=True))
