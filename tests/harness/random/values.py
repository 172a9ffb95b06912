"""A random generator and a type -> a small pool of values, so that equal values are common and odd ones are not rare."""

from __future__ import annotations

from random import Random
from typing import Final, assert_never

from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import Atom, Value
from omnigraph.plan.values import narrowed

WORDS: Final = (
    *("a", "ab", "abc", "b", "B", "1", "äB"),
    *("2", "", "b%", "x_y", "it's", 'say "hi"', "back\\slash", "ä", "日本", "null", "a b", "z"),
)

_DAY_MS: Final = 86_400_000

_ATOMS: Final[dict[Scalar, tuple[tuple[Atom, ...], tuple[Atom, ...]]]] = {
    # what is usual, and what is odd
    Scalar.STRING: (WORDS[:7], WORDS[7:]),
    Scalar.BOOL: ((True, False), (True, False)),
    Scalar.I32: ((0, 1, 2, 3, -5), (-1, -7, 2**31 - 1, -(2**31))),
    Scalar.I64: ((0, 1, 2, 3, -5), (-1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))),
    Scalar.U32: ((0, 1, 2, 3, 5), (7, 2**31, 2**32 - 1)),
    Scalar.U64: ((0, 1, 2, 3, 5), (2**53 + 1, 2**63, 2**64 - 1)),
    Scalar.F32: ((0.0, -0.0, 0.5, 1.0, 2.5), (narrowed(0.1), 2.0, -1.5, 16777216.0, narrowed(3.3))),
    Scalar.F64: ((0.0, -0.0, 0.5, 1.0, 2.5), (0.1, 2.0, -1.5, 9007199254740992.0, 3.3)),
    Scalar.DATE: ((0, 1, 365, 19782), (-1, -25567, 36524)),
    Scalar.DATETIME: ((0, _DAY_MS, 1_709_296_215_250, 1_709_296_215_251), (-1, -_DAY_MS, 4_102_444_800_000)),
}
"""4_102_444_800_000 is the year 2100: `now()` lies between."""

_CLOSE: Final[dict[Scalar, tuple[Atom, ...]]] = {
    Scalar.I32: (2**24 - 1, 2**24, 2**24 + 1),
    Scalar.U32: (2**24 - 1, 2**24, 2**24 + 1),
    Scalar.F32: (float(2**24 - 1), float(2**24), float(2**24 + 2)),
    Scalar.I64: (2**53 - 1, 2**53, 2**53 + 1, 2**24 + 1),
    Scalar.U64: (2**53 - 1, 2**53, 2**53 + 1, 2**24 + 1),
    Scalar.F64: (float(2**53 - 1), float(2**53), float(2**53 + 2), float(2**24 + 1)),
}
"""Numbers that are different, but equal to whoever compares them as floats."""


def random_pool(rng: Random, type_: ValueType, *, close: bool = False) -> list[Value]:
    """Two to six values that the rows of one property share; `close`: numbers that are hard to tell apart."""
    match type_:
        case Plain(scalar) if close and scalar in _CLOSE:
            return list(_CLOSE[scalar])
        case Plain(scalar):
            return list(_atoms(rng, scalar))
        case EnumOf(values):
            return list(values)
        case ListOf(item):
            atoms = _atoms(rng, item)
            return [tuple(rng.choice(atoms) for _ in range(rng.choice((0, 1, 1, 2, 3)))) for _ in range(4)]
        case VectorOf(dimension):
            return [tuple(float(rng.randint(-2, 2)) for _ in range(dimension)) for _ in range(4)]
        case _:
            assert_never(type_)


def _atoms(rng: Random, scalar: Scalar) -> list[Atom]:
    usual, odd = _ATOMS[scalar]
    return [*rng.sample(usual, rng.randint(2, min(4, len(usual)))), *rng.sample(odd, rng.choice((0, 0, 1, 2)))]
