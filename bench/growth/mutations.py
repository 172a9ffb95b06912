"""Mutations of half the rows, with a linear cost, and of one row, whose cost depends neither on rows nor on history."""

from __future__ import annotations

from collections.abc import Callable

from bench.growth import worlds
from bench.growth.operation import Kind, Operation, Place, Preparation

COVERS = ("Graph.mutate", "omnigraph mutate")
PUT = 'query put($name: String) { insert Person { name: $name, age: 7, city: "city-1" } }'
SET = "query put($name: String) { update Person set { age: 8 } where name = $name }"
DROP = "query drop($name: String) { delete Person where name = $name }"
LINK = 'query link($name: String) { insert Knows { from: $name, to: "person-00000001" } }'


def _bulk(name: str, *needs: Preparation, text: str) -> Operation:
    def run(place: Place) -> object:
        receipt = place.graph.mutate(f"query all() {{ {text} }}")
        if place.n > 1000 and not receipt.affected_nodes + receipt.affected_edges > place.n // 4:
            raise SystemExit(f"{name} changed {receipt}")
        return receipt

    return Operation(name=name, covers=COVERS, needs=needs, run=run, changes=True)


def _one(name: str, *needs: Preparation, text: str, base: int = 10_000, id_: Callable[[Place], str] | None = None) -> Operation:
    """The same small write, ten times, each on a different row."""

    def person(place: Place) -> str:
        return f"person-{place.turn + 3:08d}"

    def run(place: Place) -> object:
        return place.graph.mutate(text, params={"name": (id_ or person)(place)})

    return Operation(name=name, covers=COVERS, needs=needs, run=run, kind=Kind.FLAT, base=base, times=10, changes=True, repeatable=True)


OPERATIONS = (
    _bulk("update half of the nodes", worlds.people, text="update Person set { score: 1.0 } where age < 50"),
    _bulk("delete half of the nodes", worlds.people, text="delete Person where age < 50"),
    _bulk("delete half of the nodes, with their edges", worlds.social, text="delete Person where age < 50"),
    _bulk("delete half of 2n edges", worlds.social, text="delete Knows where since < 2010"),
    _one("upsert one of n rows", worlds.indexed_people, text=PUT),
    _one("insert one row beside n", worlds.indexed_people, text=PUT, id_=lambda place: f"new-{place.turn}"),
    _one("update one of n rows", worlds.indexed_people, text=SET),
    _one("delete one of n nodes, with its edges", worlds.indexed_social, text=DROP),
    _one("insert one edge beside 2n", worlds.indexed_social, text=LINK),
    _one("upsert one row after n commits", worlds.history, text=worlds.ADD, base=20),
)
