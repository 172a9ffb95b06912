"""Values -> how a query writes them: as a literal, as one of a neighbouring type, or as a parameter of any type that fits."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Final

import numpy as np

from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS, EnumOf, Plain, ValueType, scalar_of
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom
from omnigraph.plan.values import RANGES, narrowed
from tests.harness.brute.data import shown_value
from tests.harness.random.values import WORDS

_PARAMETERS: Final = 0.35
_HUGE: Final = 2**63


class Constants:
    """The constants of one query; those that became parameters are in `declared` and `params`."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.declared: list[tuple[str, str]] = []
        self.params: dict[str, object] = {}

    def exactly(self, value: Atom, type_: ValueType) -> str:
        """The value, as an inline match can be given it: an enum only as what it is."""
        if isinstance(type_, EnumOf):
            return self._given(value, Scalar.STRING)
        return self.about(value, type_)

    def about(self, value: Atom, type_: ValueType) -> str:
        """The value, or, for a number and seldom, one close to it."""
        scalar = _scalar(type_)
        if scalar in NUMBERS and not isinstance(value, bool | str):
            draw = self._rng.random()
            if draw < 0.06:
                return self._given(float(value) + 0.5, Scalar.F64)
            if draw < 0.12 and abs(value) < 2**53:
                return self._given(float(value), Scalar.F64)
            if draw < 0.15:
                return self._given(self._rng.choice((3_000_000_000, -5_000_000_000, 2**62)), Scalar.I64)
        return self._given(value, scalar)

    def other(self, value: Atom, type_: ValueType) -> str:
        """Any value of the type, smaller or larger."""
        scalar = _scalar(type_)
        match value:
            case bool():
                return self._given(not value, Scalar.BOOL)
            case str():
                return self._given(self._rng.choice(type_.values if isinstance(type_, EnumOf) else WORDS), Scalar.STRING)
            case int() | float() if scalar in NUMBERS:
                moved = value + self._rng.choice((-2, -1, 1, 2))
                return self._given(_inside(moved, scalar), scalar)
            case _:
                return self._given(value + self._rng.choice((-400, -1, 1, 400)), scalar)

    def of(self, type_: ValueType) -> str:
        """Something of the type where nothing is known of the data."""
        scalar = _scalar(type_)
        if scalar is Scalar.STRING:
            return self._given(type_.values[0] if isinstance(type_, EnumOf) else "a", scalar)
        return self._given(True if scalar is Scalar.BOOL else 1.0 if scalar in FLOATS else 1, scalar)

    def between(self) -> str:
        """A number that no integer equals."""
        return self._given(self._rng.choice((0.5, -1.25, 2.75)), Scalar.F64)

    def several(self, value: Atom, type_: ValueType) -> str:
        """A list with the value in it, as a literal or a parameter."""
        scalar = _scalar(type_)
        if scalar is Scalar.F32 and isinstance(value, float):
            value = float(str(np.float32(value)))
        values = [value, *self._rng.sample([value, _neighbour(value)], self._rng.randint(0, 2))]
        if any(isinstance(item, int) and item >= _HUGE for item in values) and scalar is not Scalar.U64:
            values = [value]
        if self._rng.random() < _PARAMETERS:
            return self._parameter(f"[{scalar}]", [shown_value(item, Plain(scalar)) for item in values])
        return f"[{', '.join(spelled(item, scalar) for item in values)}]"

    def no_list(self, type_: ValueType) -> str:
        """An empty list, or null, as a parameter."""
        name = f"p{len(self.declared)}"
        self.declared.append((name, f"[{_scalar(type_)}]?"))
        self.params[name] = self._rng.choice(([], [], None))
        return f"${name}"

    def unknown(self) -> str:
        """A null number, as a parameter."""
        name = f"p{len(self.declared)}"
        self.declared.append((name, "I64?"))
        self.params[name] = None
        return f"${name}"

    def count(self, value: int) -> str:
        """A number of rows as a parameter, which is never null."""
        return self._required(self._rng.choice(("I32", "I64", "U32", "U64")), value)

    def _required(self, type_: str, value: object) -> str:
        name = f"p{len(self.declared)}"
        self.declared.append((name, type_))
        self.params[name] = value
        return f"${name}"

    def text(self, value: str) -> str:
        return self._given(value, Scalar.STRING)

    def words(self, value: str) -> str:
        """A text to search for, which is never null."""
        return spelled(value, Scalar.STRING) if self._rng.random() >= _PARAMETERS else self._required("String", value)

    def vector(self, value: tuple[float, ...]) -> str:
        """A vector to be near to, which is never null."""
        if self._rng.random() >= _PARAMETERS:
            return f"[{', '.join(spelled(item, Scalar.F64) for item in value)}]"
        return self._required(f"Vector({len(value)})", list(value))

    def to_return(self) -> str:
        """A parameter of any type, only to be shown."""
        shapes: list[tuple[str, object]] = [
            ("String", "p"),
            ("Bool", True),
            ("I32", -3),
            ("I64", "9007199254740993"),
            ("U32", 4_000_000_000),
            ("U64", 2**64 - 1),
            ("F32", 0.1),
            ("F64", 2.0),
            ("Date", "2024-02-29"),
            ("DateTime", "2024-02-29T12:00:00+02:00"),
            ("[String]", ["x", "y"]),
            ("[I64]", []),
            ("[F32]", [0.1]),
            ("Vector(2)", [1, 2]),
            ("Vector(1)", [0.1]),
            ("Vector(3)", [0, 0, 0]),
        ]
        return self._parameter(*self._rng.choice(shapes))

    # how it is given

    def _given(self, value: Atom, scalar: Scalar) -> str:
        if scalar is Scalar.F32 and isinstance(value, float):
            value = float(str(np.float32(value)))  # 0.1 as a person writes it, not as 32 bits hold it
        if self._rng.random() >= _PARAMETERS and (scalar is Scalar.U64 or not _huge(value)):
            return spelled(value, scalar)
        type_ = self._neighbour_type(value, scalar)
        shown = shown_value(value, Plain(scalar))
        if type_ in INTEGERS and self._rng.random() < 0.2:
            shown = str(value)
        return self._parameter(type_, shown)

    def _neighbour_type(self, value: Atom, scalar: Scalar) -> Scalar:
        """Numbers mix: a parameter of any type that holds the value will do."""
        if scalar not in NUMBERS or isinstance(value, str) or self._rng.random() < 0.5:
            return Scalar.F64 if isinstance(value, float) and scalar in INTEGERS else scalar
        fitting = [Scalar.F64] if abs(value) <= 2**53 or isinstance(value, float) else []
        if isinstance(value, int):
            fitting += [kind for kind, (low, high) in RANGES.items() if low <= value <= high]
        if narrowed(value) == value:
            fitting.append(Scalar.F32)
        return self._rng.choice(fitting)

    def _parameter(self, type_: str, value: object) -> str:
        name = f"p{len(self.declared)}"
        mark = "?" if self._rng.random() < 0.2 else ""
        self.declared.append((name, f"{type_}{mark}"))
        if not mark or self._rng.random() < 0.75:
            self.params[name] = value
        elif self._rng.random() < 0.5:
            self.params[name] = None
        return f"${name}"


def spelled(value: Atom, scalar: Scalar) -> str:
    """A literal."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case int() if scalar is Scalar.DATE:
            return f'date("{shown_value(value, Plain(scalar))}")'
        case int() if scalar is Scalar.DATETIME:
            return f'datetime("{shown_value(value, Plain(scalar))}")'
        case int():
            return str(value)
        case float():
            text = format(Decimal(repr(value)), "f")
            return text if "." in text else f"{text}.0"


def _scalar(type_: ValueType) -> Scalar:
    scalar = scalar_of(type_)
    assert scalar is not None
    return scalar


def _huge(value: Atom) -> bool:
    return isinstance(value, int) and value >= _HUGE


def _inside(value: float, scalar: Scalar) -> float:
    if scalar in FLOATS:
        return float(value)
    low, high = RANGES[scalar]
    return min(max(value, low), high)


def _neighbour(value: Atom) -> Atom:
    match value:
        case bool():
            return not value
        case str():
            return value + "b"
        case int():
            return value - 1 if value > 0 else value + 1
        case float():
            return value + 1.0
