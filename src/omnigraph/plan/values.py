"""Values -> values that a column can store, and the test whether two types are compatible. Callers add the place to a ValueError."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Final, assert_never

from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, EnumOf, ListOf, Plain, ValueType, VectorOf, display, scalar_of
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value

RANGES: Final = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}

ARROW_NAMES: Final = {
    Scalar.STRING: "Utf8",
    Scalar.BOOL: "Boolean",
    Scalar.I32: "Int32",
    Scalar.I64: "Int64",
    Scalar.U32: "UInt32",
    Scalar.U64: "UInt64",
    Scalar.F32: "Float32",
    Scalar.F64: "Float64",
    Scalar.DATE: "Date32",
    Scalar.DATETIME: "Date64",
    Scalar.BLOB: "LargeBinary",
}
"""The types of columns, as Arrow and the storage engine call them."""


def compatible(left: ValueType, right: ValueType) -> bool:
    """Whether two types are compatible: both lists or neither, and the same scalar or both numeric. Nullability is ignored."""
    match left, right:
        case VectorOf(a), VectorOf(b):
            return a == b
        case ListOf(a), ListOf(b):
            return _same(a, b)
        case (VectorOf() | ListOf(), _) | (_, VectorOf() | ListOf()):
            return False
        case _:
            one, other = scalar_of(left), scalar_of(right)
            return one is not None and other is not None and _same(one, other)


def _same(a: Scalar, b: Scalar) -> bool:
    return a is b or (a in NUMBERS and b in NUMBERS)


def narrowed(value: float) -> float:
    """The 32-bit float nearest to `value`, as the double it widens to; beyond the range it is infinite."""
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return narrow


def narrowed_all(numbers: Sequence[float]) -> tuple[float, ...] | None:
    """Floats as 32-bit floats, all at once; None if one is not finite. Whoever finds that says which."""
    form = f"<{len(numbers)}f"
    try:
        narrow = struct.unpack(form, struct.pack(form, *numbers))
    except OverflowError:
        return None
    return narrow if all(map(math.isfinite, narrow)) else None


def stored(value: Value, type_: ValueType) -> Value:
    """`value`, whose type is compatible with `type_`, as a column of `type_` holds it, or ValueError. Null stays null.

    An integer widens into a float; no other conversion happens, and no value is truncated.
    """
    if value is None:
        return None
    match type_:
        case Plain(scalar):
            assert not isinstance(value, tuple)
            return _stored_scalar(value, scalar)
        case ListOf(item):
            return _stored_items(value, item)
        case VectorOf():
            return _stored_items(value, Scalar.F32)
        case EnumOf():
            return value
        case _:
            assert_never(type_)


def _stored_items(value: Value, item: Scalar) -> tuple[Atom, ...]:
    assert isinstance(value, tuple)
    return tuple(_stored_scalar(element, item) for element in value)


def _stored_scalar(value: Atom, scalar: Scalar) -> Atom:
    if scalar in INTEGERS:
        assert isinstance(value, int | float)
        return _stored_integer(value, scalar)
    if scalar in FLOATS:
        assert isinstance(value, int | float)
        wide = float(value)
        narrow = wide if scalar is Scalar.F64 else narrowed(wide)
        if math.isinf(narrow):
            raise ValueError(f"float value {value} exceeds Float32 range")
        return narrow
    return value


def _stored_integer(value: float, scalar: Scalar) -> int:
    if isinstance(value, float):
        raise ValueError(f"cannot convert Float({value}) to {ARROW_NAMES[scalar]}")
    low, high = RANGES[scalar]
    if not low <= value <= high:
        raise ValueError(f"integer value {value} exceeds {ARROW_NAMES[scalar]} range")
    return value


def described(type_: ValueType) -> str:
    """A type as quoted in messages."""
    return f"`{display(type_)}`"
