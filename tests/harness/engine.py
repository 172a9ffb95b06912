"""What a case needs of an engine: graphs to make, query, change, load, export and migrate. The smallest Protocol, and its results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from omnigraph.catalog.model import TypeKind


class Table(msgspec.Struct, frozen=True):
    """The answer of a read. Cells are JSON values in the form in which results are shown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


class Counts(msgspec.Struct, frozen=True):
    """What a mutation did, and whether it made a commit."""

    nodes: int
    edges: int
    committed: bool


class SpecGraph(Protocol):
    """One graph that belongs to one case. Refusals are `OmniGraphError`s."""

    def query(self, source: str, *, name: str | None, params: object) -> Table: ...

    def mutate(self, source: str, *, name: str | None, params: object) -> Counts: ...

    def load(self, lines: str, *, mode: str) -> Mapping[tuple[TypeKind, str], int]:
        """How many rows of each type came."""
        ...

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        """NDJSON lines of these types, or of all when none is named."""
        ...

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None: ...

    def close(self) -> None: ...


class Engine(Protocol):
    """Makes graphs."""

    def graph(self, schema: str, data: str) -> SpecGraph:
        """A new graph with this schema, and these lines loaded with mode `overwrite`."""
        ...
