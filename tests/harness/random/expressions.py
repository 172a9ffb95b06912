"""The variables of a match -> expressions over them, each with the value that it has for the witness.

Integers are calculated with only where no row's value is large: what runs over is refused, and where that happens first
depends on which rows are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from omnigraph.catalog.model import Catalog, EdgeType, InterfaceType, NodeType, Property
from omnigraph.catalog.types import FLOATS, INTEGERS, ListOf, scalar_of
from omnigraph.lang.query import ArithmeticOperator
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import F64, I64, STRING, Value
from tests.harness.brute.bound import types_of
from tests.harness.brute.calculate import calculated
from tests.harness.brute.data import Data, Row
from tests.harness.brute.match import apply
from tests.harness.brute.values import Typed
from tests.harness.random.literals import Constants, spelled
from tests.harness.random.scope import Scope, Seen

_LARGE: Final = 2**31
"""Two numbers up to here can be multiplied."""
_SUMS: Final = (ArithmeticOperator.ADD, ArithmeticOperator.SUBTRACT)
_ALL: Final = tuple(ArithmeticOperator)


class Made(NamedTuple):
    """An expression and its value; `compound` where it needs parentheses as an operand."""

    text: str
    typed: Typed
    compound: bool = False

    @property
    def operand(self) -> str:
        return f"({self.text})" if self.compound else self.text

    @property
    def scalar(self) -> Scalar | None:
        return scalar_of(self.typed.type)


class Expressions:
    """Makes expressions over the variables of a scope."""

    def __init__(self, rng: Random, catalog: Catalog, data: Data, constants: Constants) -> None:
        self._rng = rng
        self._catalog = catalog
        self._data = data
        self._constants = constants
        self._small: dict[tuple[str, str], bool] = {}

    def some(self, scope: Scope, *, numbers: bool = False) -> Made | None:
        """A number, a text or a moment, calculated. What can seldom be made is tried as often as the rest."""
        makers: tuple[Callable[[Scope], Made | None], ...] = (
            *(self._calculated,) * 5,
            *(self._function,) * 8,
            *(() if numbers else (self._text,) * 6),
            *(() if numbers else (self._moment,) * 5),
            *(self._part,) * 4,
            self._length,
            self._apart,
        )
        for _ in range(4):
            made = self._rng.choice(makers)(scope)
            if made is not None:
                return made
        return None

    def identity(self, scope: Scope) -> Made:
        """`$v.id`, `id($v)`, `type($v)`, and of an edge `$r.from` and `$r.to`."""
        edges = [(name, seen) for name, seen in scope.variables.items() if isinstance(seen.type, EdgeType)]
        name, seen = self._rng.choice(edges) if edges and self._rng.random() < 0.4 else scope.some()
        row = seen.row
        ends = [("from", "src"), ("to", "dst")] if isinstance(seen.type, EdgeType) else []
        column, stored = self._rng.choice([("id", "id"), *ends])
        value: Value = None if row is None else row[stored]
        draw = self._rng.random()
        if draw < 0.2:
            return Made(f"type(${name})", Typed(None if row is None else seen.type.name, STRING))
        if draw < 0.35:
            return Made(f"id(${name})", Typed(None if row is None else row["id"], STRING))
        return Made(f"${name}.{column}", Typed(value, STRING))

    def end(self, scope: Scope) -> Made | None:
        """`$r.from` or `$r.to`, if there is an edge."""
        edges = [(name, seen.row) for name, seen in scope.variables.items() if isinstance(seen.type, EdgeType)]
        if not edges:
            return None
        name, row = self._rng.choice(edges)
        column, stored = self._rng.choice((("from", "src"), ("to", "dst")))
        return Made(f"${name}.{column}", Typed(None if row is None else row[stored], STRING))

    # numbers

    def _calculated(self, scope: Scope) -> Made | None:
        left = self._number(scope)
        if left is None:
            return None
        right = self._number(scope) if self._rng.random() < 0.4 else self._constant()
        if right is None:
            return None
        return self._combined(left, right)

    def _combined(self, left: Made, right: Made) -> Made | None:
        floats = left.scalar in FLOATS or right.scalar in FLOATS
        unsigned = Scalar.U64 in (left.scalar, right.scalar)
        if unsigned and not floats and any("$" in made.text and made.scalar in (Scalar.I32, Scalar.I64) for made in (left, right)):
            return None  # the result may be negative, and that is no U64
        if unsigned and any(isinstance(made.typed.value, int) and made.typed.value < 0 for made in (left, right)):
            return None
        operators = [
            operator
            for operator in _ALL
            if not (floats and operator is ArithmeticOperator.REMAINDER) and not (unsigned and operator is ArithmeticOperator.SUBTRACT)
        ]
        operator = self._rng.choice((*operators, operators[-1]))
        if self._rng.random() < 0.2:
            left, right = right, left
        return Made(f"{left.operand} {operator.value} {right.operand}", calculated(left.typed, operator, right.typed), compound=True)

    def _constant(self) -> Made:
        value = self._rng.choice((1, 2, 3, 10, 0, 0.5, 2.0, -2, -3))
        type_ = F64 if isinstance(value, float) else I64
        return Made(spelled(value, type_.scalar), Typed(value, type_), compound=value < 0)

    def _constant_for(self, number: Made) -> Made:
        """A constant of which the first that is not null can be of the type of both: a negative one is no U64."""
        made = self._constant()
        return made if number.scalar is not Scalar.U64 or not made.compound else Made("1", Typed(1, I64))

    def _function(self, scope: Scope) -> Made | None:
        number = self._number(scope)
        if number is None:
            return None
        choices: list[Callable[[], Made]] = [
            lambda: self._call("abs", number),
            lambda: self._call("floor", number),
            lambda: self._call("ceil", number),
            lambda: self._call("round", number),
            lambda: self._call("round", number, Made("1", Typed(1, I64))),
            lambda: self._call("coalesce", number, Made("0", Typed(0, I64))),
            lambda: self._call("coalesce", number, self._constant_for(number)),
        ]
        if number.scalar is not Scalar.U64:
            choices.append(
                lambda: Made(f"-{number.operand}", calculated(Typed(0, I64), ArithmeticOperator.SUBTRACT, number.typed), compound=True)
            )
        return self._rng.choice(choices)()

    def _call(self, name: str, *arguments: Made) -> Made:
        text = f"{name}({', '.join(argument.text for argument in arguments)})"
        return Made(text, apply(name, [argument.typed for argument in arguments]))

    def _number(self, scope: Scope) -> Made | None:
        """A property that is a number, or a length, or a part of a date."""
        draw = self._rng.random()
        if draw < 0.1:
            return self._length(scope)
        if draw < 0.2:
            return self._part(scope)
        return self._property(scope, lambda scalar: scalar in INTEGERS or scalar in FLOATS)

    def _length(self, scope: Scope) -> Made | None:
        if scope.paths and self._rng.random() < 0.5:
            return Made(f"length(${self._rng.choice(scope.paths)})", Typed(1, I64))
        made = self._property(scope, lambda scalar: scalar is Scalar.STRING, lists=True)
        return None if made is None else self._call("length", made)

    def _part(self, scope: Scope) -> Made | None:
        made = self._property(scope, lambda scalar: scalar in (Scalar.DATE, Scalar.DATETIME))
        if made is None:
            return None
        hours = ("hour", "hour") if made.scalar is Scalar.DATETIME else ()
        return self._call(self._rng.choice(("year", "month", "day", *hours)), made)

    def _apart(self, scope: Scope) -> Made | None:
        one, other = (self._property(scope, lambda scalar: scalar is Scalar.DATETIME) for _ in range(2))
        if one is None or other is None:
            return None
        return Made(f"{one.text} - {other.text}", calculated(one.typed, ArithmeticOperator.SUBTRACT, other.typed), compound=True)

    # texts and moments

    def _text(self, scope: Scope) -> Made | None:
        made = self._property(scope, lambda scalar: scalar is Scalar.STRING) if self._rng.random() < 0.85 else self.identity(scope)
        if made is None:
            return None
        count = Made(str(self._rng.randint(0, 3)), Typed(1, I64))
        draw = self._rng.random()
        if draw < 0.45:
            return self._call(self._rng.choice(("lower", "upper", "trim")), made)
        if draw < 0.65:
            begin, size = self._rng.randint(0, 2), self._rng.randint(0, 3)
            return self._call("substring", made, Made(str(begin), Typed(begin, I64)), Made(str(size), Typed(size, I64)))
        if draw < 0.75:
            return self._call("coalesce", made, Made('"?"', Typed("?", STRING)))
        other = self._property(scope, lambda scalar: scalar is Scalar.STRING) if draw < 0.85 else None
        right = other or Made(f'"{count.text}"', Typed(count.text, STRING))
        return Made(f"{made.operand} + {right.operand}", calculated(made.typed, ArithmeticOperator.ADD, right.typed), compound=True)

    def _moment(self, scope: Scope) -> Made | None:
        made = self._property(scope, lambda scalar: scalar in (Scalar.DATE, Scalar.DATETIME))
        if made is None:
            return None
        if self._rng.random() < 0.45:
            return self._call("date" if made.scalar is Scalar.DATETIME else "datetime", made)
        by = self._rng.choice((1, 30, 400))
        operator = self._rng.choice(_SUMS)
        return Made(f"{made.text} {operator.value} {by}", calculated(made.typed, operator, Typed(by, I64)), compound=True)

    # properties

    def _property(self, scope: Scope, wanted: Callable[[Scalar | None], bool], *, lists: bool = False) -> Made | None:
        found = [
            (name, seen, property_)
            for name, seen in scope.variables.items()
            for property_ in seen.type.properties
            if (lists and isinstance(property_.type, ListOf)) or (wanted(scalar_of(property_.type)) and self._is_small(seen, property_))
        ]
        if not found:
            return None
        name, seen, property_ = self._rng.choice(found)
        return Made(f"${name}.{property_.name}", Typed(None if seen.row is None else seen.row[property_.name], property_.type))

    def _is_small(self, seen: Seen, property_: Property) -> bool:
        """Whether no row has a large integer there."""
        if scalar_of(property_.type) not in INTEGERS:
            return True
        key = (f"{seen.type.kind} {seen.type.name}", property_.name)
        if key not in self._small:
            values = [row[property_.name] for row in self._rows(seen.type)]
            self._small[key] = all(not isinstance(value, int) or abs(value) <= _LARGE for value in values)
        return self._small[key]

    def _rows(self, declared: NodeType | EdgeType | InterfaceType) -> list[Row]:
        if isinstance(declared, EdgeType):
            return self._data.edges[declared.name]
        return [row for node in types_of(self._catalog, declared) for row in self._data.nodes[node.name]]
