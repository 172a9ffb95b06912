"""All benchmark operations, and the public names that need none, with the reasons. Add new operations here."""

from __future__ import annotations

from typing import Final

from bench.growth import command_line, history, loads, mutations, on_spark, reads, upkeep
from bench.growth.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *loads.OPERATIONS,
    *mutations.OPERATIONS,
    *reads.OPERATIONS,
    *upkeep.OPERATIONS,
    *history.OPERATIONS,
    *command_line.OPERATIONS,
    *on_spark.OPERATIONS,
)
WITHOUT_GROWTH: Final = {
    "Graph.changes": "the operations of `g.changes` have lines of their own",
    "Graph.close": "gives up references",
    "Graph.closed": "a flag of the handle",
    "Graph.engine": "for packages built on the graph",
    "Graph.load_intake": "the part of `Graph.load` that Spark calls",
    "Graph.require_writable": "compares the mode of the handle",
    "Graph.uri": "a constant of the open graph",
    "omnigraph completion": "prints a script made from the names of the commands",
    "omnigraph lint": "reads a schema and queries, and no rows; `bench.micro parse` has its costs",
    "omnigraph shell": "runs what is typed; `query` and `mutate` have lines of their own",
    "omnigraph version": "prints a constant",
}


def find(name: str) -> Operation:
    return next(operation for operation in OPERATIONS if operation.name == name)
