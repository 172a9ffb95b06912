"""What an operation of the benchmark is: how its input is prepared, how it is run, and how its cost may grow."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from omnigraph.graph import Graph

GRAPH: Final = "graph.omni"


class Kind(StrEnum):
    """How the cost of an operation may grow with n."""

    LINEAR = "linear"
    FLAT = "flat"


LIMITS: Final = {Kind.LINEAR: 1.15, Kind.FLAT: 0.2}
"""The largest exponent that each kind may have."""

Preparation = Callable[[Path, int], None]
"""Writes files of size n into a folder. What several operations share is prepared once a size, and copied for those that change it."""


class Place:
    """A folder with what an operation was prepared, and the graph in it, open."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder: Final = folder
        self.n: Final = n
        self.input: Any = None
        """What `ready` read: rows in memory, a session."""
        self.turn = 0
        """Which of the repeated runs this is."""

    @property
    def uri(self) -> str:
        return str(self.folder / GRAPH)

    @cached_property
    def graph(self) -> Graph:
        import omnigraph as og

        return og.open(self.uri)


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    name: str
    covers: tuple[str, ...]
    """The public names whose cost this line shows: `Graph.load`, `branches.create`, `omnigraph query`, `spark.GraphLoad`."""
    needs: tuple[Preparation, ...]
    run: Callable[[Place], object]
    """What is measured."""
    ready: Callable[[Place], None] = lambda place: None
    """What is done before, in the same process, and is not measured."""
    kind: Kind = Kind.LINEAR
    base: int = 10_000
    """The smallest n."""
    times: int = 1
    """How often it is run for one measurement; the cost is that of all the runs."""
    changes: bool = False
    """It changes what was prepared: every run has a copy of its own, unless `repeatable`."""
    repeatable: bool = False
    """Runs of one measurement follow each other on the same copy, as writers on one graph do."""
    one_process: bool = False
    """One process measures all sizes in turn: starting it (a Spark session) costs more than the operation."""
