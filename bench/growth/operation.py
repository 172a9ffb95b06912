"""The definition of a benchmark operation: the preparation of its input, its run, and the limit of its growth."""

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
"""Writes input of size n to a directory. Operations share it; those that change it get copies."""


class Place:
    """A directory with the input of an operation, and the open graph in it."""

    def __init__(self, folder: Path, n: int) -> None:
        self.folder: Final = folder
        self.n: Final = n
        self.input: Any = None
        """The result of `ready`: rows in memory, or a session."""
        self.turn = 0
        """The number of the run."""

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
    """The public names that this operation measures: `Graph.load`, `branches.create`, `omnigraph query`, `spark.GraphLoad`."""
    needs: tuple[Preparation, ...]
    run: Callable[[Place], object]
    """The measured function."""
    ready: Callable[[Place], None] = lambda place: None
    """Runs before `run` in the same process. It is not measured."""
    kind: Kind = Kind.LINEAR
    base: int = 10_000
    """The smallest n."""
    times: int = 1
    """The number of runs of one measurement. The cost is their sum."""
    changes: bool = False
    """Whether it changes its input. Every run then has a copy of its own, unless `repeatable`."""
    repeatable: bool = False
    """Whether all runs of one measurement use the same copy."""
    one_process: bool = False
    """Whether one process measures all sizes, because its start (a Spark session) costs more than the operation."""
