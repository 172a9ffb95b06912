"""The variables of a match -> the rest of a read: what is returned, made distinct, grouped, ordered and cut."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from omnigraph.catalog.model import EdgeType, InterfaceType
from omnigraph.catalog.types import INTEGERS, NUMBERS, scalar_of
from omnigraph.lang.tree import Scalar
from tests.harness.random.expressions import Expressions, Made
from tests.harness.random.literals import Constants, spelled
from tests.harness.random.scope import Scope
from tests.harness.random.searches import Searches

_AVERAGED: Final = NUMBERS - {Scalar.I64, Scalar.U64}
"""An average of very large numbers of both signs depends on their order."""
_SUMMED: Final = NUMBERS
_COMPARED: Final = NUMBERS | {Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME}


class _Field(NamedTuple):
    """`$v.property`, and its scalar if it has one."""

    text: str
    scalar: Scalar | None

    @property
    def sortable(self) -> bool:
        return self.scalar is not None


class _Column(NamedTuple):
    """One of the results: how it is written, and what it is ordered by, if it can be."""

    text: str
    key: str | None


def random_returns(
    rng: Random, scope: Scope, constants: Constants, expressions: Expressions, *, plain: bool, searches: Searches | None = None
) -> str:
    """With `plain` only variables, properties, constants and simple aggregates; with `searches` rankings too."""
    maker = _Returns(rng, scope, constants, expressions, plain=plain)
    grouped = rng.random() < 0.35
    distinct = not plain and rng.random() < (0.15 if grouped else 0.2)
    columns, order = maker.groups() if grouped else maker.rows(distinct=distinct)
    ranking = None if searches is None or rng.random() < 0.15 else searches.ranking(scope)
    if ranking is not None:
        return maker.ranked(ranking, columns, order, grouped=grouped, distinct=distinct)
    ordered = f" order {{ {', '.join(order)} }}" if order else ""
    word = "distinct " if distinct else ""
    return f"return {word}{{ {', '.join(columns)} }}{ordered}{maker.cut(ordered=bool(order))}"


class _Returns:
    def __init__(self, rng: Random, scope: Scope, constants: Constants, expressions: Expressions, *, plain: bool) -> None:
        self._rng = rng
        self._plain = plain
        self._scope = scope
        self._constants = constants
        self._expressions = expressions
        self._fields = [
            _Field(f"${name}.{property_.name}", scalar_of(property_.type))
            for name, seen in scope.variables.items()
            for property_ in seen.type.properties
        ]
        edges = [f"${name}." for name, seen in scope.variables.items() if isinstance(seen.type, EdgeType)]
        self._edge_fields = [field for field in self._fields if field.text.startswith(tuple(edges))]
        self._mixed = any(isinstance(seen.type, InterfaceType) for seen in scope.variables.values())
        """Nodes of several types may share an id: what is told apart by ids alone is then not asked for."""
        self._aliases = 0
        self._written: set[str] = set()

    def cut(self, *, ordered: bool) -> str:
        skip = ""
        if not self._plain and self._rng.random() < (0.2 if ordered else 0.08):
            skip = self._count("skip", (0, 1, 1, 2, 3))
        if self._rng.random() >= (0.5 if ordered else 0.2):
            return skip
        return f"{skip}{self._count('limit', (0, 0, 1, 1, 2, 3, 5, 8, 100))}"

    def _count(self, word: str, counts: tuple[int, ...]) -> str:
        count = self._rng.choice(counts)
        return f" {word} {self._constants.count(count) if not self._plain and self._rng.random() < 0.35 else count}"

    # rankings

    def ranked(self, ranking: str, columns: list[str], order: list[str], *, grouped: bool, distinct: bool) -> str:
        """Results with a ranking: the order is its own, or that of a column with its score, or has nothing to do with it."""
        word = "distinct " if distinct else ""
        limit = self._count("limit", (0, 1, 1, 2, 3, 5, 8, 100))
        skip = self._count("skip", (0, 1, 1, 2, 3)) if self._rng.random() < 0.25 else ""
        draw = self._rng.random()
        if draw < 0.5:
            bare = ranking.startswith("nearest") or self._rng.random() < 0.6
            key = ranking if bare else f"{ranking} {self._rng.choice(('asc', 'desc'))}"
            more = f", {self._rng.choice(order)}" if order and not ranking.startswith("nearest") and self._rng.random() < 0.3 else ""
            free = ranking.startswith("bm25") and self._rng.random() < 0.3
            return f"return {word}{{ {', '.join(columns)} }} order {{ {key}{more} }}{skip}{'' if free else limit}"
        score = self._alias()
        made = ranking
        if grouped:
            made = f"{self._rng.choice(('min', 'max', 'count'))}({ranking})"
        elif draw > 0.9:
            made = f"coalesce({ranking}, -1.0)"
        shown = ", ".join([*columns, f"{made} as {score}"])
        if draw < 0.8:
            key = f"{score}{self._rng.choice(('', ' asc', ' desc', ' desc'))}{self._nulls()}"
            return f"return {word}{{ {shown} }} order {{ {key} }}{skip}{limit}"
        ordered = f" order {{ {', '.join(order)} }}" if order else ""
        return f"return {word}{{ {shown} }}{ordered}{self.cut(ordered=bool(order))}"

    # rows as they are

    def rows(self, *, distinct: bool) -> tuple[list[str], list[str]]:
        columns = [self._column(*self._projection(), chance=0.6) for _ in range(self._rng.randint(1, 4))]
        sortable = [column.key for column in columns if column.key is not None]
        if not distinct:
            sortable += [field.text for field in self._fields if field.sortable]
            made = None if self._plain else self._expressions.some(self._scope)
            if made is not None and self._rng.random() < 0.3:
                sortable = [made.text, *self._rng.sample(sortable, min(2, len(sortable)))]
        return [column.text for column in columns], self._order(sortable, 0.55)

    def _projection(self) -> tuple[str, bool]:
        """What is returned, and whether it has an order."""
        draw = self._rng.random()
        if not self._plain and self._rng.random() < 0.6:
            return self._made()
        if draw < 0.3 or not self._fields:
            name, _ = self._scope.some_node()
            return f"${name}", True
        if draw < 0.85:
            field = self._rng.choice(self._fields if draw > 0.4 else self._edge_fields or self._fields)
            return field.text, field.sortable
        if draw < 0.95:
            return self._constants.to_return(), False
        scalar, value = self._rng.choice(((Scalar.I64, 7), (Scalar.F64, 2.0), (Scalar.STRING, "x"), (Scalar.BOOL, True), (Scalar.DATE, 0)))
        return spelled(value, scalar), True

    def _made(self) -> tuple[str, bool]:
        """Something calculated, of a path, or about what identifies an entity."""
        draw = self._rng.random()
        if self._scope.paths and draw < 0.75:
            name = self._rng.choice(self._scope.paths)
            function = self._rng.choice(("nodes", "nodes", "edges", "edges", "length"))
            return f"{function}(${name})", function == "length"
        if draw < 0.8:
            made = self._expressions.some(self._scope)
            if made is not None:
                return made.text, True
        return self._expressions.identity(self._scope).text, True

    # groups

    def groups(self) -> tuple[list[str], list[str]]:
        columns = [self._column(*self._group_key(), chance=0.5) for _ in range(self._rng.choice((0, 1, 1, 1, 2)))]
        columns += [self._column(*self._aggregate(), chance=0.85) for _ in range(self._rng.randint(1, 3))]
        sortable = [column.key for column in columns if column.key is not None]
        self._rng.shuffle(columns)
        return [column.text for column in columns], self._order(sortable, 0.6)

    def _group_key(self) -> tuple[str, bool]:
        draw = self._rng.random()
        if not self._plain and draw < 0.3:
            made = self._expressions.some(self._scope)
            # A float that was calculated is rounded, and -0.0 and 0.0 are one group of which either may be shown.
            if made is not None and "$" in made.text:
                return made.text, True
        plain = [name for name, seen in self._scope.nodes() if not isinstance(seen.type, InterfaceType)]
        if plain and (not self._fields or draw < 0.4):
            return f"${self._rng.choice(plain)}", True
        if not self._fields:
            return f"type(${self._scope.some_node()[0]})", True
        field = self._rng.choice(self._fields)
        return field.text, field.sortable

    def _aggregate(self) -> tuple[str, bool]:
        draw = self._rng.random()
        if self._plain:
            return self._one_aggregate()
        if draw < 0.12:
            return "count(*)", True
        if draw < 0.24:
            return self._over_aggregates()
        if draw < 0.36:
            return self._collected()
        return self._one_aggregate()

    def _over_aggregates(self) -> tuple[str, bool]:
        """An expression of aggregates, small enough not to run over."""
        name = self._scope.some_node()[0]
        small = [f"count(${name})", "count(*)", *(f"count({field.text})" for field in self._fields)]
        one, other = self._rng.choice(small), self._rng.choice(small)
        return self._rng.choice(
            (
                (f"{one} + {other}", True),
                (f"{one} / {other}", True),
                (f"{one} * 2 - {other}", True),
                (f"{one} % 3", True),
                (f"-{one}", True),
                (f"abs({one} - {other})", True),
                (f"coalesce({one}, 0)", True),
            )
        )

    def _collected(self) -> tuple[str, bool]:
        fields = [field for field in self._fields if field.scalar is not None]
        if self._mixed or not fields:
            return "count(*)", True
        word = "distinct " if self._rng.random() < 0.4 else ""
        what = self._rng.choice(fields).text if self._rng.random() < 0.8 else f"${self._scope.some_node()[0]}"
        return f"collect({word}{what})", False

    def _one_aggregate(self) -> tuple[str, bool]:
        summed = [field for field in self._fields if field.scalar in _SUMMED]
        averaged = [field for field in self._fields if field.scalar in _AVERAGED]
        compared = [field for field in self._fields if field.scalar in _COMPARED]
        distinct = "distinct " if not self._plain and self._rng.random() < 0.3 else ""
        draw = self._rng.random()
        if draw < 0.15 and averaged:
            field = self._rng.choice(averaged)
            # Which of two averages is larger must not hang on how they were rounded.
            return f"avg({distinct}{field.text})", field.scalar in INTEGERS
        if draw < 0.35 and summed:
            made = self._summed(summed)
            return f"sum({distinct}{made.text})", made.scalar in INTEGERS
        if draw < 0.55 and compared:
            return f"{self._rng.choice(('min', 'max'))}({self._rng.choice(compared).text})", True
        if draw < 0.8 and self._fields:
            return f"count({distinct}{self._rng.choice(self._fields).text})", True
        if draw < 0.84:
            return self._rng.choice(
                ("count(1)", "count(now())", f"count({self._constants.to_return()})", "sum(2)", 'max("x")', "avg(1.5)")
            ), True
        plain = [name for name, seen in self._scope.nodes() if not isinstance(seen.type, InterfaceType)]
        if distinct and plain:
            return f"count(distinct ${self._rng.choice(plain)})", True
        return f"count(${self._scope.some_node()[0]})", True

    def _summed(self, fields: list[_Field]) -> _Field:
        if not self._plain and self._rng.random() < 0.5:
            made: Made | None = self._expressions.some(self._scope, numbers=True)
            if made is not None:
                return _Field(made.text, made.scalar)
        return self._rng.choice(fields)

    # names and order

    def _column(self, text: str, sortable: bool, *, chance: float) -> _Column:
        """A result, with an alias by chance, and always where another one is written alike."""
        if text in self._written or self._rng.random() < chance:
            alias = self._alias()
            return _Column(f"{text} as {alias}", alias if sortable else None)
        self._written.add(text)
        plain = text.startswith("$") and text.count(".") == 1 and " " not in text
        return _Column(text, text if sortable and plain else None)

    def _alias(self) -> str:
        self._aliases += 1
        return self._rng.choice(("r", "s", "total", "id", "name", "in", "distinct", "nulls")) + str(self._aliases)

    def _order(self, sortable: list[str], chance: float) -> list[str]:
        if not sortable or self._rng.random() >= chance:
            return []
        keys = self._rng.sample(sortable, min(len(sortable), self._rng.choice((1, 1, 2, 3))))
        return [key + self._rng.choice(("", " asc", " desc", " desc")) + self._nulls() for key in keys]

    def _nulls(self) -> str:
        return "" if self._plain or self._rng.random() < 0.6 else self._rng.choice((" nulls first", " nulls last"))
