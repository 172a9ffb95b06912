"""Rows of one type -> values that break the type's own rules. Pure: it needs only the type and the rows.

A valid row costs a few nanoseconds. Whole columns are checked at once, mostly by a minimum, a sum or a count of nulls. Only
invalid rows are examined one by one, and only as many as are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import KeyRows
from omnigraph.catalog.layout import ID, identity_columns
from omnigraph.catalog.model import Check, EntityType, NodeType, Property, Range
from omnigraph.catalog.types import FLOATS, NUMBERS, EnumOf, ListOf, Plain, VectorOf
from omnigraph.exec.problems import REPORTED, ProblemCode, missing_value
from omnigraph.exec.validate.arrays import true_at
from omnigraph.exec.validate.findings import Findings, merge_by_row, rule_findings
from omnigraph.store.arrays import Column, Places, whole
from omnigraph.store.membership import is_in


class _BrokenRule(NamedTuple):
    """One rule of one property, the rows that break it in order, and a function that makes the messages for some of them."""

    code: ProblemCode
    property: str
    rows: Places
    describe: Callable[[Places], list[str]]


def check_values(entity: EntityType, rows: KeyRows, *, limit: int = REPORTED, partial: bool = False) -> Findings:
    """Check every value: required, finite, enum, list items, vectors, `@range`, `@check`. In `partial` rows, every property may be null.

    The columns have the types of `table_schema(entity)`. A vector may also be a list, whose length is then checked.
    """
    return merge_by_row((_describe(entity, rows, broken, limit) for broken in _broken_rules(entity, rows, partial=partial)), limit=limit)


def _describe(entity: EntityType, rows: KeyRows, broken: _BrokenRule, limit: int) -> Findings:
    first = broken.rows[:limit]
    ids = rows.column(ID).take(pa.array(first)).to_pylist() if ID in rows.schema.names else [None] * len(first)
    return rule_findings(
        broken.code, entity, first.tolist(), broken.describe(first), ids, total=len(broken.rows), property_=broken.property
    )


def _broken_rules(entity: EntityType, rows: KeyRows, *, partial: bool) -> Iterator[_BrokenRule]:
    for name in identity_columns(entity):
        if name in rows.schema.names:
            yield from _required(name, f"non-nullable property '{name}' has null or invalid values", rows.column(name))
    for property_ in entity.properties:
        if not property_.nullable and not partial:
            yield from _required(property_.name, missing_value(property_), rows.column(property_.name))
        yield from _of_type(entity, property_, rows.column(property_.name))
    if isinstance(entity, NodeType):
        for range_ in entity.ranges:
            yield from _range(entity, range_, rows.column(range_.property))
        for check in entity.checks:
            yield from _check(entity, check, rows.column(check.property))


def _of_type(entity: EntityType, property_: Property, column: Column) -> Iterator[_BrokenRule]:
    match property_.type:
        case Plain(scalar):
            if scalar in FLOATS:
                yield from _finite(property_.name, column)
        case EnumOf(values):
            yield from _enum(entity, property_.name, values, column)
        case ListOf():
            yield from _items(property_.name, column)
        case VectorOf(dimension):
            yield from _vectors(property_.name, dimension, column)
        case _:
            assert_never(property_.type)


# -- one function per rule; it yields nothing if no row breaks the rule


def _required(name: str, message: str, column: Column) -> Iterator[_BrokenRule]:
    if column.null_count:
        yield _BrokenRule(ProblemCode.REQUIRED, name, true_at(pc.is_null(column)), _same(message))


def _finite(name: str, column: Column) -> Iterator[_BrokenRule]:
    if not _all_finite(column):
        wrong = true_at(pc.invert(pc.is_finite(column)))
        if len(wrong):
            yield _BrokenRule(
                ProblemCode.TYPE, name, wrong, lambda rows: [f"property '{name}' value {v} must be finite" for v in _shown(column, rows)]
            )


def _enum(entity: EntityType, name: str, values: tuple[str, ...], column: Column) -> Iterator[_BrokenRule]:
    # Null passes here: whether a property may be null is another rule.
    known = is_in(column, pa.array([*values, None], pa.string()))
    if not known.all():
        tail = f"for {entity.name}.{name} (expected: {', '.join(values)})"
        yield _BrokenRule(
            ProblemCode.ENUM, name, np.flatnonzero(~known), lambda rows: [f"invalid enum value '{v}' {tail}" for v in _shown(column, rows)]
        )


def _items(name: str, column: Column) -> Iterator[_BrokenRule]:
    items = pc.list_flatten(column)
    if not items.null_count and (not pa.types.is_floating(items.type) or _all_finite(items)):
        return
    wrong = _parents(column, _unusable(items))
    if len(wrong):
        yield _BrokenRule(ProblemCode.LIST, name, wrong, _same(f"strict list property '{name}' contains a null or invalid item"))


def _vectors(name: str, dimension: int, column: Column) -> Iterator[_BrokenRule]:
    if not pa.types.is_fixed_size_list(column.type) or column.type.list_size != dimension:
        lengths = pc.list_value_length(column)
        wrong = true_at(pc.not_equal(lengths, dimension))
        if len(wrong):
            head = f"vector property '{name}' expects {dimension} dimensions, got"
            yield _BrokenRule(ProblemCode.VECTOR, name, wrong, lambda rows: [f"{head} {n}" for n in _shown(lengths, rows)])
    items = pc.list_flatten(column)
    if items.null_count:
        nulls = _parents(column, pc.is_null(items))
        yield _BrokenRule(ProblemCode.VECTOR, name, nulls, _same(f"vector property '{name}' elements must be numeric, got null"))
    if not _all_finite(items):
        wrong = _parents(column, pc.invert(pc.is_finite(items)))
        if len(wrong):
            yield _BrokenRule(ProblemCode.VECTOR, name, wrong, _same(f"vector property '{name}' elements must be finite"))


def _range(entity: NodeType, range_: Range, column: Column) -> Iterator[_BrokenRule]:
    """Values are compared as doubles. A value that is not finite breaks the rule of its type."""
    name = range_.property
    property_ = entity.property(name)
    if property_ is None or not isinstance(property_.type, Plain) or property_.type.scalar not in NUMBERS:
        return  # a list of numbers can have a range, but it is not enforced
    ends = pc.min_max(column)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is None:
        return
    head = f"@range violation on {entity.name}.{name}: value"
    if range_.low is not None and not float(low) >= float(range_.low):
        least = _number(range_.low)
        wrong = true_at(pc.less(_doubles(column), float(range_.low)))
        yield _BrokenRule(ProblemCode.RANGE, name, wrong, lambda rows: [f"{head} {v} < min {least}" for v in _shown(column, rows)])
    if range_.high is not None and not float(high) <= float(range_.high):
        most = _number(range_.high)
        wrong = true_at(pc.greater(_doubles(column), float(range_.high)))
        yield _BrokenRule(ProblemCode.RANGE, name, wrong, lambda rows: [f"{head} {v} > max {most}" for v in _shown(column, rows)])


def _check(entity: NodeType, check: Check, column: Column) -> Iterator[_BrokenRule]:
    name, pattern = check.property, check.pattern
    if not pa.types.is_string(column.type) or not len(column):
        return
    try:
        matched = pc.match_substring_regex(column, pattern)
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        yield _BrokenRule(
            ProblemCode.CHECK, name, np.zeros(1, np.int64), _same(f"@check on {entity.name}.{name} has invalid regex '{pattern}': {why}")
        )
        return
    if pc.all(matched).as_py() is False:
        head, tail = f"@check violation on {entity.name}.{name}: value", f"does not match pattern '{pattern}'"
        wrong = true_at(pc.invert(matched))
        yield _BrokenRule(ProblemCode.CHECK, name, wrong, lambda rows: [f"{head} '{v}' {tail}" for v in _shown(column, rows)])


# -- columns


def _all_finite(numbers: Column) -> bool:
    """True if the sum is finite: then all numbers are. False proves nothing, because a sum of finite numbers may overflow."""
    total = pc.sum(numbers).as_py()
    return total is None or bool(np.isfinite(total))


def _unusable(items: Column) -> Column:
    wrong = pc.is_null(items)
    return pc.or_kleene(wrong, pc.invert(pc.is_finite(items))) if pa.types.is_floating(items.type) else wrong


def _parents(lists: Column, wrong: Column) -> Places:
    """The rows whose list contains one of the wrong items."""
    parents = pc.list_parent_indices(whole(lists)).to_numpy(zero_copy_only=False)
    return np.unique(parents[true_at(wrong)]).astype(np.int64)


def _doubles(column: Column) -> Column:
    return pc.cast(column, pa.float64(), safe=False)


def _shown(column: Column, rows: Places) -> list[Any]:
    return pc.cast(column.take(pa.array(rows)), pa.string()).to_pylist()  # type: ignore[no-any-return]  # pyarrow is untyped


def _same(message: str) -> Callable[[Places], list[str]]:
    return lambda rows: [message] * len(rows)


def _number(bound: float) -> str:
    return repr(bound).removesuffix(".0")
