"""Predicates over one row in plain Python -> true, false or None, and strategies that make predicates."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any, assert_never

import pyarrow as pa
from hypothesis import strategies as st

from omnigraph.catalog.types import ListOf, Plain, arrow_type
from omnigraph.lang.query import ArithmeticOperator, Comparison
from omnigraph.lang.tree import Scalar
from omnigraph.plan import ir
from omnigraph.plan.expr import I64, STRING, Constant, Field
from omnigraph.plan.functions import Function

BY_VALUE: dict[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}
TYPES: dict[str, Plain | ListOf] = {
    "i32": Plain(Scalar.I32),
    "i64": Plain(Scalar.I64),
    "u64": Plain(Scalar.U64),
    "f32": Plain(Scalar.F32),
    "f64": Plain(Scalar.F64),
    "text": STRING,
    "part": STRING,
    "flag": Plain(Scalar.BOOL),
    "day": Plain(Scalar.DATE),
    "time": Plain(Scalar.DATETIME),
    "items": ListOf(Scalar.STRING),
    "marks": ListOf(Scalar.I64),
    "sizes": ListOf(Scalar.F64),
}
VALUES: dict[str, list[Any]] = {
    "i32": [0, -1, 2**31 - 1, -(2**31), 5, None],
    "i64": [0, -(2**63), 2**63 - 1, 2**53 + 1, 5, None],
    "u64": [0, 2**64 - 1, 2**53 + 1, 5, 7, None],
    "f32": [0.0, -0.0, 0.5, -1.5, 5.0, None],
    "f64": [-0.0, 2.0**53, 0.1, 5.0, -(2.0**63), None],
    "text": ["", "a%b", "A", "it's", "Zoë_", None],
    "part": ["", "%", "a", "s", "ë", None],
    "flag": [True, False, None, True, False, None],
    "day": [0, -1, 3431, 2_932_896, 5, None],
    "time": [0, -1, 1_709_296_215_250, 5, 7, None],
    "items": [["a", "b"], [], [None], ["it's"], ["A", "A"], None],
    "marks": [[1, 2], [], [None], [5], [2**62], None],
    "sizes": [[0.0], [-0.0], [0.5, None], [], [5.0], None],
}
NUMBERS = ("i32", "i64", "u64", "f32", "f64")
LISTS = ("items", "marks", "sizes")
Row = dict[str, Any]


def field(name: str) -> Field:
    return Field(0, name, TYPES[name], nullable=True)


def mixed_rows(count: int) -> list[Row]:
    """Rows in which values of different columns meet in many ways; the same ones every time."""
    chance = random.Random(7)
    return [{name: chance.choice(values) for name, values in VALUES.items()} for _ in range(count)]


def columns_of(rows: Sequence[Row]) -> dict[str, pa.Array]:
    return {name: pa.array([row[name] for row in rows], arrow_type(type_)) for name, type_ in TYPES.items()}


# -- meaning


def judged(predicate: ir.Predicate, row: Row) -> bool | None:
    """Whether a predicate is true or false for a row, or None if that is unknown."""
    match predicate:
        case ir.AllOf(terms):
            found = [judged(term, row) for term in terms]
            return False if False in found else None if None in found else True
        case ir.AnyOf(terms):
            found = [judged(term, row) for term in terms]
            return True if True in found else None if None in found else False
        case ir.Not(term):
            inner = judged(term, row)
            return None if inner is None else not inner
        case ir.IsNull(one):
            return value(one, row) is None
        case ir.Known(truth):
            return truth
        case ir.Decided(one, truth):
            return None if value(one, row) is None else truth
        case ir.OneOf(one, values):
            return judged(ir.AnyOf(tuple(ir.Compare(one, Comparison.EQ, Constant(STRING, item)) for item in values)), row)
        case ir.Compare(left, comparison, right):
            return _both(left, right, row, lambda a, b: BY_VALUE[comparison](_ordered(a), _ordered(b)))
        case ir.Includes(items, item):
            return _both(items, item, row, lambda a, b: b in a)
        case ir.Substring(text, part):
            return _both(text, part, row, lambda a, b: b in a)
        case ir.Prefix(text, part):
            return _both(text, part, row, lambda a, b: a.startswith(b))
        case ir.Suffix(text, part):
            return _both(text, part, row, lambda a, b: a.endswith(b))
        case ir.Matches():
            raise AssertionError("no search here")
        case _:
            assert_never(predicate)


def _both(left: ir.Expr, right: ir.Expr, row: Row, test: Callable[[Any, Any], bool]) -> bool | None:
    a, b = value(left, row), value(right, row)
    return None if a is None or b is None else test(a, b)


def _ordered(one: Any) -> Any:
    return one.encode() if isinstance(one, str) else one


def value(expr: ir.Expr, row: Row) -> Any:
    match expr:
        case Constant(value=constant):
            return constant
        case Field(column=name):
            return row[name]
        case ir.Arithmetic(left, ArithmeticOperator.REMAINDER, Constant(value=int(divisor))):
            number = value(left, row)
            return None if number is None else (-1 if number < 0 else 1) * (abs(number) % divisor)
        case ir.FunctionCall(Function.LENGTH, (argument,)):
            text = value(argument, row)
            return None if text is None else len(text)
        case ir.FunctionCall(Function.COALESCE, arguments):
            return next((one for argument in arguments if (one := value(argument, row)) is not None), None)
        case _:
            raise AssertionError(f"not made below: {expr}")


# -- strategies


def constants(name: str) -> st.SearchStrategy[Constant]:
    return st.sampled_from([one for one in VALUES[name] if one is not None]).map(lambda one: Constant(TYPES[name], one))


def compared(names: Sequence[str]) -> st.SearchStrategy[ir.Predicate]:
    """Comparisons of a column with a constant of its type."""
    pairs = st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(field(name)), constants(name)))
    return st.builds(lambda pair, comparison: ir.Compare(pair[0], comparison, pair[1]), pairs, st.sampled_from(Comparison))


def listed(names: Sequence[str]) -> st.SearchStrategy[ir.Predicate]:
    def of(name: str) -> st.SearchStrategy[ir.Predicate]:
        values = st.lists(st.sampled_from([one for one in VALUES[name] if one is not None]), max_size=5)
        return values.map(lambda found: ir.OneOf(field(name), tuple(dict.fromkeys(found))))

    return st.sampled_from(names).flatmap(of)


def included() -> st.SearchStrategy[ir.Predicate]:
    def of(name: str) -> st.SearchStrategy[ir.Predicate]:
        type_ = TYPES[name]
        assert isinstance(type_, ListOf)
        items = [item for one in VALUES[name] if one is not None for item in one if item is not None]
        return st.sampled_from(items).map(lambda item: ir.Includes(field(name), Constant(Plain(type_.item), item)))

    return st.sampled_from(LISTS).flatmap(of)


def texts() -> st.SearchStrategy[ir.Predicate]:
    sides = st.sampled_from([field("text"), field("part"), *(Constant(STRING, one) for one in ("", "a", "A", "s", "_", "it's"))])
    return st.builds(lambda kind, text, part: kind(text, part), st.sampled_from([ir.Substring, ir.Prefix, ir.Suffix]), sides, sides)


SCALARS = tuple(name for name in TYPES if name not in LISTS)
pairs_of_columns = st.builds(
    lambda left, comparison, right: ir.Compare(field(left), comparison, field(right)),
    st.sampled_from(NUMBERS),
    st.sampled_from(Comparison),
    st.sampled_from(NUMBERS),
)
tests_of_one_value = st.one_of(
    st.sampled_from(sorted(TYPES)).map(lambda name: ir.IsNull(field(name))),
    st.builds(lambda name, truth: ir.Decided(field(name), truth), st.sampled_from(sorted(TYPES)), st.booleans()),
    st.sampled_from([True, False, None]).map(ir.Known),
)
computing = st.one_of(
    st.builds(
        lambda name, comparison, size: ir.Compare(
            ir.Arithmetic(field(name), ArithmeticOperator.REMAINDER, Constant(I64, 3), I64), comparison, Constant(I64, size)
        ),
        st.sampled_from(["i32", "i64"]),
        st.sampled_from(Comparison),
        st.integers(-2, 2),
    ),
    st.builds(
        lambda sizes: ir.OneOf(ir.FunctionCall(Function.LENGTH, (field("text"),), I64), tuple(sizes)),
        st.lists(st.integers(0, 5), max_size=3, unique=True),
    ),
    st.just(ir.IsNull(ir.FunctionCall(Function.COALESCE, (field("text"), field("part")), STRING))),
)
leaves = st.one_of(compared(SCALARS), listed(SCALARS), included(), texts(), pairs_of_columns, tests_of_one_value)


def trees(of: st.SearchStrategy[ir.Predicate]) -> st.SearchStrategy[ir.Predicate]:
    def grow(inner: st.SearchStrategy[ir.Predicate]) -> st.SearchStrategy[ir.Predicate]:
        terms = st.lists(inner, min_size=1, max_size=4).map(tuple)
        return terms.map(ir.AllOf) | terms.map(ir.AnyOf) | inner.map(ir.Not)

    return st.recursive(of, grow, max_leaves=8)
