"""The variables of a match -> the rest of a read: what is returned, grouped, ordered and cut."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from omnigraph.catalog.types import NUMBERS, scalar_of
from omnigraph.lang.tree import Scalar
from tests.harness.random.literals import Constants, spelled
from tests.harness.random.scope import Scope

_SUMMED: Final = NUMBERS - {Scalar.I64}
"""A sum of very large numbers of both signs depends on their order."""


class _Field(NamedTuple):
    """`$v.property`, and its scalar if it has one."""

    text: str
    scalar: Scalar | None

    @property
    def sortable(self) -> bool:
        return self.scalar is not None


def random_returns(rng: Random, scope: Scope, constants: Constants) -> str:
    maker = _Returns(rng, scope, constants)
    returned, order = maker.groups() if rng.random() < 0.35 else maker.rows()
    ordered = f" order {{ {', '.join(order)} }}" if order else ""
    return f"return {{ {', '.join(returned)} }}{ordered}{maker.limit(ordered=bool(order))}"


class _Returns:
    def __init__(self, rng: Random, scope: Scope, constants: Constants) -> None:
        self._rng = rng
        self._scope = scope
        self._constants = constants
        self._fields = [
            _Field(f"${name}.{property_.name}", scalar_of(property_.type))
            for name, seen in scope.variables.items()
            for property_ in seen.type.properties
        ]
        self._aliases = 0

    def limit(self, *, ordered: bool) -> str:
        if self._rng.random() >= (0.5 if ordered else 0.2):
            return ""
        return f" limit {self._rng.choice((0, 0, 1, 1, 2, 3, 5, 8, 100))}"

    # rows as they are

    def rows(self) -> tuple[list[str], list[str]]:
        returned: list[str] = []
        sortable: list[str] = []
        for _ in range(self._rng.randint(1, 4)):
            text, can_sort = self._projection()
            alias = self._alias() if self._rng.random() < 0.6 else None
            returned.append(text if alias is None else f"{text} as {alias}")
            if alias is not None and can_sort:
                sortable.append(alias)
        sortable += [field.text for field in self._fields if field.sortable]
        return returned, self._order(sortable, 0.55)

    def _projection(self) -> tuple[str, bool]:
        draw = self._rng.random()
        if draw < 0.3 or not self._fields:
            name, _ = self._scope.some_node()
            return f"${name}", True
        if draw < 0.9:
            field = self._rng.choice(self._fields)
            return field.text, field.sortable
        if draw < 0.95:
            return self._constants.to_return(), False
        scalar, value = self._rng.choice(((Scalar.I64, 7), (Scalar.F64, 2.0), (Scalar.STRING, "x"), (Scalar.BOOL, True), (Scalar.DATE, 0)))
        return spelled(value, scalar), True

    # groups

    def groups(self) -> tuple[list[str], list[str]]:
        returned: list[str] = []
        sortable: list[str] = []
        for _ in range(self._rng.choice((0, 1, 1, 1, 2))):
            text, can_sort = self._group_key()
            alias = self._alias() if self._rng.random() < 0.5 else None
            returned.append(text if alias is None else f"{text} as {alias}")
            if can_sort and (alias is not None or "." in text):
                sortable.append(alias or text)
        for _ in range(self._rng.randint(1, 3)):
            text, can_sort = self._aggregate()
            alias = self._alias()
            # Without an alias an aggregate has the name of its argument, and then two columns may have one name.
            aliased = self._rng.random() < 0.85
            returned.append(f"{text} as {alias}" if aliased else text)
            if aliased and can_sort:
                sortable.append(alias)
        self._rng.shuffle(returned)
        return returned, self._order(sortable, 0.6)

    def _group_key(self) -> tuple[str, bool]:
        if not self._fields or self._rng.random() < 0.3:
            return f"${self._scope.some_node()[0]}", True
        field = self._rng.choice(self._fields)
        return field.text, field.sortable

    def _aggregate(self) -> tuple[str, bool]:
        numbers = [field for field in self._fields if field.scalar in NUMBERS]
        summed = [field for field in numbers if field.scalar in _SUMMED]
        compared = [*numbers, *(field for field in self._fields if field.scalar is Scalar.STRING)]
        draw = self._rng.random()
        if draw < 0.3 and summed:
            field = self._rng.choice(summed)
            # Which of two sums is larger must not hang on how they were rounded.
            exact = field.scalar in (Scalar.I32, Scalar.U32)
            return f"{self._rng.choice(('sum', 'avg'))}({field.text})", exact
        if draw < 0.55 and compared:
            return f"{self._rng.choice(('min', 'max'))}({self._rng.choice(compared).text})", True
        if draw < 0.8 and self._fields:
            return f"count({self._rng.choice(self._fields).text})", True
        if draw < 0.84:
            return self._rng.choice(
                ("count(1)", "count(now())", f"count({self._constants.to_return()})", "sum(2)", 'max("x")', "avg(1.5)")
            ), True
        return f"count(${self._scope.some_node()[0]})", True

    def _alias(self) -> str:
        self._aliases += 1
        return self._rng.choice(("r", "s", "total", "id", "name")) + str(self._aliases)

    def _order(self, sortable: list[str], chance: float) -> list[str]:
        if not sortable or self._rng.random() >= chance:
            return []
        keys = self._rng.sample(sortable, min(len(sortable), self._rng.choice((1, 1, 2, 3))))
        return [key + self._rng.choice(("", " asc", " desc", " desc")) for key in keys]
