"""The edges of some data -> where a traversal leads, and by which shortest path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from omnigraph.catalog.model import EdgeType
from tests.harness.brute.bound import Walk
from tests.harness.brute.data import Data, Row


class Way:
    """How a traversal follows edges: which ones, in which direction, and how far."""

    def __init__(self, edges: Sequence[EdgeType], *, forward: bool, undirected: bool, low: int, high: int) -> None:
        self.edges: Final = tuple(edges)
        self.forward: Final = forward
        self.undirected: Final = undirected
        self.low: Final = low
        # What leads from one type to another leads no further.
        self.high: Final = high if edges[0].source == edges[0].target else min(high, 1)
        self.key: Final = (tuple(edge.name for edge in edges), forward, undirected, low, self.high)


class Walks:
    """Walks in some data; what was asked once is remembered, since it depends on nothing but the question."""

    def __init__(self, data: Data) -> None:
        self._data: Final = data
        self._ids: Final = {name: {str(row["id"]) for row in rows} for name, rows in data.nodes.items()}
        self._edges: dict[tuple[str, bool], dict[str, list[tuple[str, Row]]]] = {}
        self._reached: dict[tuple[object, str], list[str]] = {}
        self._best: dict[tuple[object, str], list[dict[str, Walk]]] = {}

    def leaving(self, way: Way, node: str) -> Iterator[tuple[str, Row]]:
        """The edges at a node, each with its other end. An undirected one is followed both ways, a self-edge only once."""
        for edge in dict.fromkeys(edge.name for edge in way.edges):
            chosen = next(each for each in way.edges if each.name == edge)
            yield from self._at(chosen, forward=way.forward).get(node, ())
            if way.undirected:
                yield from ((other, row) for other, row in self._at(chosen, forward=not way.forward).get(node, ()) if other != node)

    def reached(self, way: Way, start: str, *, on_visit: Callable[[int], None]) -> list[str]:
        """The breadth-first search of the language, word for word. `on_visit` is told how many nodes it visited."""
        if (way.key, start) in self._reached:
            return self._reached[way.key, start]
        frontier, visited, emitted = [start], {start}, dict[str, None]()
        for hop in range(1, way.high + 1):
            following: list[str] = []
            for node in frontier:
                for other, _ in self.leaving(way, node):
                    if other == node:
                        if hop >= way.low:
                            emitted[other] = None
                    elif other not in visited:
                        visited.add(other)
                        following.append(other)
                        if hop >= way.low:
                            emitted[other] = None
            frontier = following
            if not frontier:
                break
        on_visit(len(visited))
        return self._reached.setdefault((way.key, start), list(emitted))

    def shortest(self, way: Way, start: str, end: str) -> Walk:
        """The shortest walk whose length lies within the bounds; of several the one with the smallest nodes, then edges."""
        for length in range(way.low, way.high + 1):
            found = self._walks(way, start, length).get(end)
            if found is not None:
                return found
        raise AssertionError("the traversal led there")

    def _walks(self, way: Way, start: str, length: int) -> dict[str, Walk]:
        """The smallest walk of exactly this length to every node: a smaller beginning makes a smaller whole."""
        walks = self._best.setdefault((way.key, start), [{start: Walk((start,), ())}])
        while len(walks) <= length:
            longer: dict[str, Walk] = {}
            for node, walk in walks[-1].items():
                assert walk.nodes is not None
                assert walk.edges is not None
                for other, row in self.leaving(way, node):
                    found = Walk((*walk.nodes, other), (*walk.edges, str(row["id"])))
                    longer[other] = min(found, longer.get(other, found))
            walks.append(longer)
        return walks[length]

    def _at(self, edge: EdgeType, *, forward: bool) -> dict[str, list[tuple[str, Row]]]:
        """Every edge of a type by the node it leaves from. One that lacks one of its ends contributes nothing."""
        key = (edge.name, forward)
        if key not in self._edges:
            self._edges[key] = {}
            for row in self._data.edges[edge.name]:
                source, target = str(row["src"]), str(row["dst"])
                if source in self._ids[edge.source] and target in self._ids[edge.target]:
                    begin, end = (source, target) if forward else (target, source)
                    self._edges[key].setdefault(begin, []).append((end, row))
        return self._edges[key]
