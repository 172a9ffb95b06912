"""A snapshot and its catalog -> statistics for the planner: row counts, and the columns that an index can answer.

The snapshot contains the row counts. The version file of a table lists its indexes. A version never changes, so its indexes are looked
up once, and only for the types that a query uses. After that, statistics need no storage call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

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

AvailabilityOf = Callable[[TypeId], Availability]
"""Edge type -> where its adjacency is available in the snapshot."""
SpentMs = Callable[[TypeId], float]
"""Edge type -> the time spent so far on following it without its adjacency."""
KnownEdges = Callable[[TypeId], int]
"""Edge type -> the number of edges that an older adjacency shares with the one the snapshot needs."""


class _IndexSurvey:
    """The indexes of one table version. The root tracks whether their files are intact, because that can change."""

    def __init__(self, indexes: tuple[BuiltIndex, ...], files: tuple[IndexFiles, ...], root: Root) -> None:
        self._files: Final = files
        self._root: Final = root
        self._usable: Final = usable_columns(indexes)
        self._searched: Final = {
            kind: frozenset(index.column for index in indexes if index.kind is kind and covers_nearly_all(index))
            for kind in (LanceIndexKind.VECTOR, LanceIndexKind.INVERTED)
        }

    @property
    def usable_columns(self) -> frozenset[str]:
        return frozenset() if passed_by(self._root, self._files) else self._usable

    @property
    def vector_columns(self) -> frozenset[str]:
        """The columns with an index on vectors that covers nearly all rows and is not known to be damaged."""
        return self._searched[LanceIndexKind.VECTOR] - {file.column for file in self._files if self._is_damaged(file) and file.is_vector}

    @property
    def text_columns(self) -> frozenset[str]:
        """The columns with an index on words that covers nearly all rows and is not known to be damaged."""
        return self._searched[LanceIndexKind.INVERTED] - {file.column for file in self._files if self._is_damaged(file) and file.is_text}

    def _is_damaged(self, file: IndexFiles) -> bool:
        return self._root.index_damage.get(file.uuid) is not None


class Surveyor:
    """Looks up the indexes of tables and caches them. Safe to use from many threads."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: Final = Lru[TableRef, _IndexSurvey](KNOWN)

    def statistics(
        self,
        snapshot: BranchSnapshot,
        catalog: Catalog,
        *,
        types: Iterable[TypeId],
        availability: AvailabilityOf = lambda _: Availability.MISSING,
        spent_ms: SpentMs = lambda _: 0.0,
        known: KnownEdges = lambda _: 0,
    ) -> Statistics:
        """Return the statistics for planning a query on `types`. For other types they contain only the row count."""
        shown = live_tables(snapshot.state)
        used = {type_: shown[type_] for type_ in types if type_ in shown}
        surveys = {type_: self._survey(row.ref) for type_, row in used.items()}
        links = [edge.id for edge in catalog.edges if edge.id in used]
        return statistics_of(
            catalog,
            {type_: row.rows for type_, row in shown.items()},
            indexed={type_: survey.usable_columns for type_, survey in surveys.items()},
            vectors={type_: survey.vector_columns for type_, survey in surveys.items()},
            texts={type_: survey.text_columns for type_, survey in surveys.items()},
            adjacency={edge: availability(edge) for edge in links},
            spent_ms={edge: spent_ms(edge) for edge in links},
            known={edge: known(edge) for edge in links},
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


def live_tables(state: State) -> dict[TypeId, TableRow]:
    """Return the table of each type in a state. Dropped tables are left out."""
    return {TypeId(row.id.partition("-")[0]): row for row in state.tables.values() if not row.dropped}


def usable_columns(indexes: Iterable[BuiltIndex]) -> frozenset[str]:
    """Return the columns with an index that answers equality, order and prefixes for nearly all rows."""
    return frozenset(index.column for index in indexes if index.kind is LanceIndexKind.BTREE and covers_nearly_all(index))


def covers_nearly_all(index: BuiltIndex, *, few_rows: int = FEW_ROWS) -> bool:
    """Return whether the rows that an index does not cover are few, or a small share of the table."""
    allowed = max(few_rows, (index.covered_rows + index.uncovered_rows) // _SHARE)
    return index.uncovered_rows <= allowed
