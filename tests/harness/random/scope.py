"""The variables of a query while it grows: names in no particular order, what each stands for, and what hangs together."""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

from omnigraph.catalog.model import EdgeType, InterfaceType, NodeType
from tests.harness.brute.data import Row

# Made in this order, sorted in another: ties are broken by name. Words of the language are names like any other.
_NAMES: Final = ("m", "c", "x", "a", "k", "z9", "in", "b", "y", "a2", "q", "null", "d", "zz", "n", "e", "w", "or", "f", "v", "g", "u", "h")


class Seen(NamedTuple):
    """A variable's type, and a row it could stand for. One that is `optional` may also be null."""

    type: NodeType | EdgeType | InterfaceType
    row: Row | None
    optional: bool = False


class Scope:
    """The variables that can be named at one place."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._free = list(reversed(_NAMES))
        self.variables: dict[str, Seen] = {}
        self.paths: list[str] = []
        self._parts: dict[str, str] = {}
        self.depth = 0

    def inner(self) -> Scope:
        """The inside of a block: it sees what is outside and keeps its own to itself."""
        scope = Scope(self._rng)
        scope._free = list(self._free)
        scope.variables = dict(self.variables)
        scope.paths = list(self.paths)
        scope._parts = dict(self._parts)
        scope.depth = self.depth + 1
        return scope

    def release(self, inner: Scope) -> None:
        """A block ends: its names are used up, unless they are given again to something else outside."""
        if self._rng.random() < 0.6:
            self._free = list(inner._free)

    def optional(self, before: dict[str, Seen]) -> None:
        """An optional block ends: what it introduced can be named, and may be null."""
        for name, seen in self.variables.items():
            if name not in before:
                self.variables[name] = seen._replace(optional=True)

    def new(self, seen: Seen) -> str:
        name = self._name()
        self.variables[name] = seen
        if not isinstance(seen.type, EdgeType):
            self._parts[name] = name
        return name

    def new_path(self) -> str:
        name = self._name()
        self.paths.append(name)
        return name

    def _name(self) -> str:
        return self._free.pop() if self._free else f"v{len(self.variables) + len(self.paths)}"

    def nodes(self) -> list[tuple[str, Seen]]:
        return [(name, seen) for name, seen in self.variables.items() if not isinstance(seen.type, EdgeType)]

    def some(self) -> tuple[str, Seen]:
        return self._rng.choice(list(self.variables.items()))

    def some_node(self) -> tuple[str, Seen]:
        return self._rng.choice(self.nodes())

    def join(self, one: str, other: str) -> None:
        """Two variables are linked by a traversal."""
        old, new = self._parts[one], self._parts[other]
        self._parts = {name: new if part == old else part for name, part in self._parts.items()}

    def components(self) -> int:
        return len(set(self._parts.values()))
