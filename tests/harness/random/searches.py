"""The variables of a match -> searches over them: clauses that look for words, and rankings."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from omnigraph.catalog.model import Catalog, InterfaceType
from omnigraph.catalog.types import VectorOf
from omnigraph.plan.expr import STRING, Value
from tests.harness.random.literals import Constants
from tests.harness.random.scope import Scope
from tests.harness.random.values import WORDS

_OTHER_WORDS: Final = ("abc", "ab", "b", "1", "slash", "hi", "saying", "the", "AB ab", "x y z", "\u65e5\u672c", "nulls", "a", "")


class _Field(NamedTuple):
    """`$v.property`, the witness's value of it, and the dimension of a vector."""

    variable: str
    text: str
    value: Value
    dimension: int | None = None


def can_search(catalog: Catalog) -> bool:
    """Whether a node type has a text or a vector."""
    return any(property_.type == STRING or isinstance(property_.type, VectorOf) for node in catalog.nodes for property_ in node.properties)


class Searches:
    """Makes searches over the variables of a scope."""

    def __init__(self, rng: Random, constants: Constants) -> None:
        self._rng = rng
        self._constants = constants

    def clause(self, scope: Scope) -> str | None:
        """A text that has one of some words, or has not."""
        fields = _texts(scope)
        if not fields:
            return None
        mixed = [field for field in fields if isinstance(scope.variables[field.variable].type, InterfaceType)]
        field = self._rng.choice(mixed if mixed and self._rng.random() < 0.7 else fields)
        words = self._constants.text(self._words(field)) if self._rng.random() < 0.3 else self._constants.words(self._words(field))
        edits = self._rng.choice(("", ", 0", ", 1", ", 2", ", 3"))
        name = self._rng.choice(("search", "match_text", "fuzzy"))
        compared = self._rng.choice(("", "", "", "", " = true", " = false"))
        return f"{name}({field.text}, {words}{edits if name == 'fuzzy' else ''}){compared}"

    def ranking(self, scope: Scope) -> str | None:
        """`nearest`, `bm25`, or both fused, of one variable."""
        texts, vectors = _texts(scope), _vectors(scope)
        both = [(one, other) for one in (*texts, *vectors) for other in (*texts, *vectors) if one.variable == other.variable]
        if not both:
            return None
        if self._rng.random() < 0.35:
            one, other = self._rng.choice(both)
            k = self._rng.choice(("", "", ", 60", ", 1", ", 7"))
            return f"rrf({self._one(one)}, {self._one(other)}{k})"
        return self._one(self._rng.choice(vectors if vectors and self._rng.random() < 0.6 else texts or vectors))

    def _one(self, field: _Field) -> str:
        if field.dimension is None:
            return f"bm25({field.text}, {self._constants.words(self._words(field))})"
        given = tuple(self._rng.choice((-2.0, -1.0, 0.0, 0.5, 1.0, 3.0)) for _ in range(field.dimension))
        return f"nearest({field.text}, {self._constants.vector(given if any(given) else (1.0, *given[1:]))})"

    def _words(self, field: _Field) -> str:
        own = [field.value] if isinstance(field.value, str) and self._rng.random() < 0.7 else []
        return self._rng.choice((" ", ", ", "-")).join([*own, *self._rng.sample((*_OTHER_WORDS, *WORDS), self._rng.choice((0, 1, 1, 2)))])


def _texts(scope: Scope) -> list[_Field]:
    return [
        _Field(name, f"${name}.{property_.name}", None if seen.row is None else seen.row[property_.name])
        for name, seen in scope.nodes()
        for property_ in seen.type.properties
        if property_.type == STRING
    ]


def _vectors(scope: Scope) -> list[_Field]:
    return [
        _Field(name, f"${name}.{property_.name}", None, property_.type.dimension)
        for name, seen in scope.nodes()
        for property_ in seen.type.properties
        if isinstance(property_.type, VectorOf)
    ]
