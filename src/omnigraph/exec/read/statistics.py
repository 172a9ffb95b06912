"""A snapshot and its catalog -> what the planner may know of the data: row counts, and the columns that an index answers for.

Row counts stand in the snapshot. What indexes a table has stands in its version file, and a version never changes: it is
looked up once, and only for the types a query touches. With that known, statistics cost no storage call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from omnigraph.catalog.model import Catalog
from omnigraph.ids import TypeId
from omnigraph.lru import Lru
from omnigraph.manifest.model import State, TableRow
from omnigraph.manifest.read import Snapshot
from omnigraph.plan.statistics import Availability, Statistics, statistics_of
from omnigraph.store.damage import IndexFiles
from omnigraph.store.index import BuiltIndex, IndexKind, existing
from omnigraph.store.intact import damaged_indexes, passed_by
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, Tables

KNOWN: Final = 4_096
"""How many table versions are remembered: a few hundred bytes each."""

FEW_ROWS: Final = 40_000
"""Scanning so many rows takes about as long as one lookup in an index: so many may be uncovered at no loss."""
_SHARE: Final = 10
"""Of a large table one row in so many may be uncovered; the lookup is then still several times quicker than a scan."""

AvailabilityOf = Callable[[TypeId], Availability]
"""Where the adjacency of an edge type is, as a snapshot shows it."""
SpentMs = Callable[[TypeId], float]
"""What following an edge type without its adjacency has cost so far."""
KnownEdges = Callable[[TypeId], int]
"""How many edges an older adjacency shares with the one that a snapshot needs."""


class _Surveyed(NamedTuple):
    """The indexes of one table version. Whether their files are whole is the root's to know, and may change."""

    indexes: tuple[BuiltIndex, ...]
    files: tuple[IndexFiles, ...]
    root: Root

    @property
    def usable_columns(self) -> frozenset[str]:
        return frozenset() if passed_by(self.root, self.files) else usable_columns(self.indexes)


class Surveyor:
    """Remembers the indexes of the tables it has looked at. Safe to use from many threads."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: Final = Lru[TableRef, _Surveyed](KNOWN)

    def statistics(
        self,
        snapshot: Snapshot,
        catalog: Catalog,
        *,
        types: Iterable[TypeId],
        availability: AvailabilityOf = lambda _: Availability.MISSING,
        spent_ms: SpentMs = lambda _: 0.0,
        known: KnownEdges = lambda _: 0,
    ) -> Statistics:
        """What is known for planning a query on `types`; of other types only how many rows they have."""
        shown = live_tables(snapshot.state)
        asked = {type_: shown[type_] for type_ in types if type_ in shown}
        links = [edge.id for edge in catalog.edges if edge.id in asked]
        return statistics_of(
            catalog,
            {type_: row.rows for type_, row in shown.items()},
            indexed={type_: self._survey(row.ref).usable_columns for type_, row in asked.items()},
            adjacency={edge: availability(edge) for edge in links},
            spent_ms={edge: spent_ms(edge) for edge in links},
            known={edge: known(edge) for edge in links},
        )

    def indexes(self, ref: TableRef) -> tuple[BuiltIndex, ...]:
        """The indexes of a table at a version."""
        return self._survey(ref).indexes

    def damage(self, snapshot: Snapshot, types: Iterable[TypeId]) -> list[str]:
        """What is wrong with indexes that queries on `types` would use, in words."""
        shown = live_tables(snapshot.state)
        rows = sorted((shown[type_] for type_ in types if type_ in shown), key=lambda row: row.alias)
        return [
            f"index on {row.alias}.{damage.index.column} is damaged and not used: {damage.reason}; {damage.remedy}"
            for row in rows
            for damage in damaged_indexes(self._tables.open(row.ref))
            if damage.index.is_scalar
        ]

    def _survey(self, ref: TableRef) -> _Surveyed:
        if (known := self._known.get(ref)) is not None:
            return known
        table = self._tables.open(ref)
        return self._known.put(ref, _Surveyed(existing(table), table.indexes, table.root))


def live_tables(state: State) -> dict[TypeId, TableRow]:
    """The table of each type that a state shows."""
    return {TypeId(row.id.partition("-")[0]): row for row in state.tables.values() if not row.dropped}


def usable_columns(indexes: Iterable[BuiltIndex]) -> frozenset[str]:
    """The columns whose equality, order and prefixes an index answers, for nearly all rows."""
    return frozenset(index.column for index in indexes if index.kind is IndexKind.BTREE and covers_nearly_all(index))


def covers_nearly_all(index: BuiltIndex, *, few_rows: int = FEW_ROWS) -> bool:
    """Whether what lies outside of an index is few rows, or a small part of the table."""
    allowed = max(few_rows, (index.covered_rows + index.uncovered_rows) // _SHARE)
    return index.uncovered_rows <= allowed
