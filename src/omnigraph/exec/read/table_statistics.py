"""A snapshot and its catalog -> statistics for the planner: row counts, and the columns that an index can answer.

The snapshot contains the row counts. The version file of a table lists its indexes. A version never changes, so its indexes are looked
up once, and only for the types that a query uses. After that, statistics need no storage call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from omnigraph.catalog.model import Catalog
from omnigraph.ids import TypeId
from omnigraph.lru import Lru
from omnigraph.manifest.model import State, TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.statistics import Availability, Statistics, statistics_of
from omnigraph.store.damage import IndexFiles
from omnigraph.store.index import BuiltIndex, LanceIndexKind, existing
from omnigraph.store.intact import damaged_indexes, passed_by
from omnigraph.store.root import Root
from omnigraph.store.tables import TableRef, Tables

KNOWN: Final = 4_096
"""The number of table versions in the cache: a few hundred bytes each."""

FEW_ROWS: Final = 40_000
"""Scanning this many rows takes about as long as one index lookup, so an index may leave this many rows uncovered."""
_SHARE: Final = 10
"""In a large table, one row in this many may be uncovered. A lookup is then still several times faster than a scan."""


class AdjacencyState(msgspec.Struct, frozen=True):
    """Where the adjacency of an edge type is available, the time spent so far on following it without one, and the number of edges
    that an older adjacency shares with the one the snapshot needs."""

    availability: Availability = Availability.MISSING
    spent_ms: float = 0.0
    known_edges: int = 0


class IndexedColumns(msgspec.Struct, frozen=True):
    """The columns of a table with a usable index: one that answers equality and order, one on vectors, one on words."""

    indexed: frozenset[str]
    vectors: frozenset[str]
    texts: frozenset[str]


class Facts(msgspec.Struct, frozen=True):
    """What a plan depends on, besides the snapshot: whether indexes are intact, and where adjacencies are. It can change between two
    queries on one snapshot."""

    columns: tuple[tuple[TypeId, IndexedColumns], ...]
    adjacencies: tuple[tuple[TypeId, AdjacencyState], ...]


class _IndexSurvey:
    """The indexes of one table version. The root tracks whether their files are intact, because that can change."""

    def __init__(self, indexes: tuple[BuiltIndex, ...], files: tuple[IndexFiles, ...], root: Root) -> None:
        self._files: Final = files
        self._root: Final = root
        self._intact: Final = IndexedColumns(
            usable_columns(indexes), _searched(indexes, LanceIndexKind.VECTOR), _searched(indexes, LanceIndexKind.INVERTED)
        )

    @property
    def columns(self) -> IndexedColumns:
        """The columns with an index that covers nearly all rows and is not known to be damaged."""
        damaged = [file for file in self._files if self._root.index_damage.get(file.uuid) is not None]
        if not damaged:
            return self._intact
        return IndexedColumns(
            frozenset() if passed_by(self._root, self._files) else self._intact.indexed,
            self._intact.vectors - {file.column for file in damaged if file.is_vector},
            self._intact.texts - {file.column for file in damaged if file.is_text},
        )


class Surveyor:
    """Looks up the indexes of tables and caches them. Safe to use from many threads."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: Final = Lru[TableRef, _IndexSurvey](KNOWN)

    def facts(
        self,
        tables: Mapping[TypeId, TableRow],
        *,
        types: Iterable[TypeId],
        edges: Iterable[TypeId],
        state_of: Callable[[TypeId], AdjacencyState],
    ) -> Facts:
        """Return the facts for planning a query on `types`, of which `edges` are the edge types."""
        return Facts(
            tuple((type_, self._survey(tables[type_].ref).columns) for type_ in types if type_ in tables),
            tuple((edge, state_of(edge)) for edge in edges if edge in tables),
        )

    def damage(self, snapshot: BranchSnapshot, types: Iterable[TypeId]) -> list[str]:
        """Describe the damage to indexes that queries on `types` would use."""
        shown = live_tables(snapshot.state)
        rows = sorted((shown[type_] for type_ in types if type_ in shown), key=lambda row: row.alias)
        return [
            f"index on {row.alias}.{damage.index.column} is damaged and not used: {damage.reason}; {damage.remedy}"
            for row in rows
            for damage in damaged_indexes(self._tables.open(row.ref))
        ]

    def _survey(self, ref: TableRef) -> _IndexSurvey:
        if (known := self._known.get(ref)) is not None:
            return known
        table = self._tables.open(ref)
        return self._known.put(ref, _IndexSurvey(existing(table), table.indexes, table.root))


def statistics_from(catalog: Catalog, tables: Mapping[TypeId, TableRow], facts: Facts) -> Statistics:
    """Return the statistics for planning. For types without facts they contain only the row count."""
    return statistics_of(
        catalog,
        {type_: row.rows for type_, row in tables.items()},
        indexed={type_: columns.indexed for type_, columns in facts.columns},
        vectors={type_: columns.vectors for type_, columns in facts.columns},
        texts={type_: columns.texts for type_, columns in facts.columns},
        adjacency={edge: state.availability for edge, state in facts.adjacencies},
        spent_ms={edge: state.spent_ms for edge, state in facts.adjacencies},
        known={edge: state.known_edges for edge, state in facts.adjacencies},
    )


def live_tables(state: State) -> dict[TypeId, TableRow]:
    """Return the table of each type in a state. Dropped tables are left out."""
    return {TypeId(row.id.partition("-")[0]): row for row in state.tables.values() if not row.dropped}


def usable_columns(indexes: Iterable[BuiltIndex]) -> frozenset[str]:
    """Return the columns with an index that answers equality, order and prefixes for nearly all rows."""
    return frozenset(index.column for index in indexes if index.kind is LanceIndexKind.BTREE and covers_nearly_all(index))


def _searched(indexes: Iterable[BuiltIndex], kind: LanceIndexKind) -> frozenset[str]:
    return frozenset(index.column for index in indexes if index.kind is kind and covers_nearly_all(index))


def covers_nearly_all(index: BuiltIndex, *, few_rows: int = FEW_ROWS) -> bool:
    """Return whether the rows that an index does not cover are few, or a small share of the table."""
    allowed = max(few_rows, (index.covered_rows + index.uncovered_rows) // _SHARE)
    return index.uncovered_rows <= allowed
