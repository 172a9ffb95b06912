"""Table versions of a snapshot -> the ids of its nodes and the adjacency of its edges: from memory, from the cache, or built.

Derived data is named by the fragments it was derived from. So graph branches with the same rows share it, a version without changed
rows (for example, after an index build) needs nothing new, and a change reads only the fragments that differ.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from omnigraph.exec.adjacency.cache import Array, CacheDirectory, StoredArrays
from omnigraph.exec.adjacency.column_cache import ColumnCache
from omnigraph.exec.adjacency.edges import Adjacency, AdjacencyInput, build, extend, turn
from omnigraph.exec.adjacency.node_ids import Ids, read_ids
from omnigraph.exec.adjacency.numbering import Numbering
from omnigraph.exec.adjacency.stored import adjacency_arrays, ids_arrays, stored_adjacency, stored_ids
from omnigraph.ids import TableId
from omnigraph.lru import Lru
from omnigraph.manifest.model import TableRow
from omnigraph.plan.statistics import Availability
from omnigraph.store.fragments import Fragment
from omnigraph.store.tables import TableRef, Tables

ADJACENCIES: Final = 16
"""The number of adjacencies in memory, each in one direction: 8 bytes per edge each, most of them mapped."""
COLUMNS_OF_IDS: Final = 16
VERSIONS: Final = 256
CANDIDATES: Final = 4
"""The number of older files considered for extension."""
IDS_A_LOOKUP: Final = 16_384
"""A lookup of rows by their ids costs as much as reading this many ids: 3 ms. So ids are read once lookups have cost as much.

Ids of a type with up to this many rows are extended by the rows of a new version when they are first asked for. That reads the new
fragments once; a query that finds its nodes without the ids reads every fragment that no index covers, several times.
"""
WORTH_WRITING: Final = 8
"""Extended data is written to a file again if one row in this many differs from the file it came from."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _SingleFlightCache(Generic[K, V]):
    """A bounded cache that computes each value once, also if several threads request it at the same time."""

    def __init__(self, limit: int) -> None:
        self._values: Final = Lru[K, V](limit)
        self._gates: dict[K, threading.Lock] = {}
        self._mutex = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        if (value := self._values.get(key)) is not None:
            return value
        with self._mutex:
            gate = self._gates.setdefault(key, threading.Lock())
        with gate:
            if (value := self._values.get(key)) is not None:
                return value
            try:
                return self._values.put(key, make())
            finally:
                with self._mutex:
                    self._gates.pop(key, None)

    def drop(self, key: K, value: V) -> None:
        """Remove a value. The next call computes it again."""
        with self._mutex:
            if self._values.get(key) is value:
                self._values.discard(key)

    def peek(self, key: K) -> V | None:
        """Return the value, or None if it is not in the cache."""
        return self._values.get(key)

    def values(self) -> list[V]:
        return self._values.values()

    def __contains__(self, key: K) -> bool:
        return key in self._values


class _Name(msgspec.Struct, frozen=True):
    """The name of derived data: its table, and the exact fragments of the tables it was derived from, its own table first."""

    prefix: str
    parts: tuple[Numbering, ...]
    full: str

    @property
    def rows(self) -> Numbering:
        return self.parts[0]

    @property
    def facts(self) -> list[tuple[Fragment, ...]]:
        return [part.fragments for part in self.parts]

    @staticmethod
    def of(prefix: str, *parts: Numbering) -> _Name:
        listed = msgspec.json.encode([part.fragments for part in parts])
        return _Name(prefix, parts, f"{prefix}{hashlib.sha256(listed).hexdigest()[:32]}")


class _Derived(msgspec.Struct, Generic[V], frozen=True):
    """Derived data, the number of its rows that differ from the last written file, and the files it may be a view of."""

    name: _Name
    value: V
    unwritten: int
    views: tuple[StoredArrays, ...] = ()

    def is_unchanged(self) -> bool:
        return all(stored.is_unchanged() for stored in self.views)


class Topology:
    """The derived data of one graph, shared by all its snapshots. Safe to use from many threads."""

    def __init__(self, tables: Tables, directory: Path) -> None:
        self.columns: Final = ColumnCache()
        self._tables: Final = tables
        self._directory: Final = CacheDirectory(directory)
        self._numbers: Final[_SingleFlightCache[TableRef, Numbering]] = _SingleFlightCache(VERSIONS)
        self._names: Final[_SingleFlightCache[tuple[str, *tuple[TableRef, ...]], _Name]] = _SingleFlightCache(VERSIONS)
        self._ids: Final[_SingleFlightCache[str, _Derived[Ids]]] = _SingleFlightCache(COLUMNS_OF_IDS)
        self._adjacencies: Final[_SingleFlightCache[str, _Derived[Adjacency]]] = _SingleFlightCache(ADJACENCIES)
        self._shared: Final[_SingleFlightCache[str, int]] = _SingleFlightCache(VERSIONS)
        self._spent_ms: Final[dict[TableId, float]] = {}
        self._lookups: Final[dict[str, int]] = {}
        self._mutex = threading.Lock()

    def ids(self, row: TableRow) -> Ids:
        """Return the ids of a node type, by number and by id."""
        name = self._name(f"ids-{row.id}-", row)
        return _get_unchanged(self._ids, name.full, lambda: self._make_ids(name, row)).value

    def known_ids(self, row: TableRow) -> Ids | None:
        """Like `ids`, but return None, for a lookup in the table, unless they are at hand or lookups have cost what it takes to read them.

        They are at hand in memory, in a file, and if they are soon extended from those of another version.
        """
        name = self._name(f"ids-{row.id}-", row)
        if (held := self._ids.peek(name.full)) is not None and held.is_unchanged():
            return held.value
        return self.ids(row) if self._directory.has(name.full) or self._is_worth_reading(name) else None

    def _is_worth_reading(self, name: _Name) -> bool:
        if name.rows.size <= IDS_A_LOOKUP and any(one.name.prefix == name.prefix for one in self._ids.values()):
            return True
        with self._mutex:
            lookups = self._lookups[name.prefix] = self._lookups.get(name.prefix, 0) + 1
        return lookups * IDS_A_LOOKUP > name.rows.size + IDS_A_LOOKUP

    def adjacency(self, edge: TableRow, source: TableRow, target: TableRow, *, back: bool = False) -> Adjacency:
        """Return the edges of a type as an adjacency: from sources, or `back` from targets. The first call builds it; it is then kept."""
        name = self._edges_name(edge, source, target, back=back)
        return _get_unchanged(self._adjacencies, name.full, lambda: self._make_adjacency(name, edge, source, target, back=back)).value

    def availability(self, edge: TableRow, source: TableRow, target: TableRow) -> Availability:
        """Return where `adjacency` would get its result from. One direction is enough: to turn it takes a third of a build."""
        found = set()
        for back in (False, True):
            found.add(place := self._availability(self._edges_name(edge, source, target, back=back)))
            if place is Availability.MEMORY:
                return place
        return next(place for place in Availability if place in found)

    def _availability(self, name: _Name) -> Availability:
        if name.full in self._adjacencies:
            return Availability.MEMORY
        return Availability.CACHE if self._directory.has(name.full) else Availability.MISSING

    def known_edges(self, edge: TableRow, source: TableRow, target: TableRow) -> int:
        """Return how many edges an existing adjacency shares with the requested one."""
        names = [self._edges_name(edge, source, target, back=back) for back in (False, True)]
        return max(self._shared.get(name.full, partial(self._count_shared, name)) for name in names)

    def _count_shared(self, name: _Name) -> int:
        if name.full in self._adjacencies or self._directory.has(name.full):
            return name.rows.size
        held = [one.name for one in self._adjacencies.values() if one.name.prefix == name.prefix]
        older = held or self._stored_names(name.prefix)
        return max([0, *(name.rows.size - one.rows.rows_differing(name.rows) for one in older)])

    def _stored_names(self, prefix: str) -> list[_Name]:
        """Return the names of the newest files with a prefix. Reads only their headers."""
        found = ((file, self._directory.facts(file)) for file in self._directory.names(prefix)[:CANDIDATES])
        return [_Name(prefix, _parts(facts), file) for file, facts in found if facts is not None]

    def spend(self, edge: TableRow, ms: float) -> None:
        """Record time spent on following these edges without an adjacency."""
        with self._mutex:
            self._spent_ms[edge.id] = self._spent_ms.get(edge.id, 0.0) + ms

    def spent_ms(self, edge: TableRow) -> float:
        """Return the time recorded by `spend` since the adjacency was last built."""
        return self._spent_ms.get(edge.id, 0.0)

    def _edges_name(self, edge: TableRow, source: TableRow, target: TableRow, *, back: bool) -> _Name:
        return self._name(f"back-{edge.id}-", edge, target, source) if back else self._name(f"edges-{edge.id}-", edge, source, target)

    def _name(self, prefix: str, *rows: TableRow) -> _Name:
        return self._names.get((prefix, *(row.ref for row in rows)), lambda: _Name.of(prefix, *map(self._numbers_of, rows)))

    def _numbers_of(self, row: TableRow) -> Numbering:
        return self._numbers.get(row.ref, lambda: Numbering.of(self._tables.open(row.ref)))

    def _make_ids(self, name: _Name, row: TableRow) -> _Derived[Ids]:
        def restored(arrays: Mapping[str, Array], parts: tuple[Numbering, ...]) -> Ids:
            return stored_ids(arrays, *parts)

        if (stored := self._directory.read(name.full)) is not None:
            return _Derived(name, restored(stored.arrays, name.parts), 0, (stored,))
        with self._mutex:
            self._lookups.pop(name.prefix, None)
        older = self._closest(name, self._ids.values(), restored)
        made = read_ids(self._tables.open(row.ref), name.rows, self.columns, older.value if older is not None else None)
        return self._write(name, made, ids_arrays, older)

    def _make_adjacency(self, name: _Name, edge: TableRow, source: TableRow, target: TableRow, *, back: bool) -> _Derived[Adjacency]:
        square = source.id == target.id

        def restored(arrays: Mapping[str, Array], parts: tuple[Numbering, ...]) -> Adjacency:
            return stored_adjacency(arrays, *parts, square=square)

        if (stored := self._directory.read(name.full)) is not None:
            return _Derived(name, restored(stored.arrays, name.parts), 0, (stored,))
        with self._mutex:
            self._spent_ms.pop(edge.id, None)
        input_ = AdjacencyInput(self._tables.open(edge.ref), name.rows, self.ids(source), self.ids(target), square, back)
        older = self._closest(name, self._adjacencies.values(), restored)
        if older is not None and (extended := extend(older.value, input_)) is not None:
            return self._write(name, extended, adjacency_arrays, older)
        other = self._held(self._edges_name(edge, source, target, back=not back), restored)
        return self._write(name, build(input_) if other is None else turn(other, square=square), adjacency_arrays, None)

    def _held(self, name: _Name, restored: Callable[[Mapping[str, Array], tuple[Numbering, ...]], Adjacency]) -> Adjacency | None:
        """Return an adjacency from memory or from its file. It is not built, so that two directions never wait for each other."""
        if (held := self._adjacencies.peek(name.full)) is not None and held.is_unchanged():
            return held.value
        stored = self._directory.read(name.full)
        return None if stored is None else restored(stored.arrays, name.parts)

    def _closest(
        self, name: _Name, held: list[_Derived[V]], restored: Callable[[Mapping[str, Array], tuple[Numbering, ...]], V]
    ) -> _Derived[V] | None:
        """Return the derived data of the same prefix that shares most rows: from memory, otherwise from a file."""
        if mine := [one for one in held if one.name.prefix == name.prefix and one.is_unchanged()]:
            return min(mine, key=lambda one: one.name.rows.rows_differing(name.rows))
        for one in sorted(self._stored_names(name.prefix), key=lambda one: one.rows.rows_differing(name.rows)):
            if (stored := self._directory.read(one.full)) is not None:
                return _Derived(one, restored(stored.arrays, one.parts), 0, (stored,))
        return None

    def _write(self, name: _Name, value: V, arrays: Callable[[V], Mapping[str, Array]], older: _Derived[V] | None) -> _Derived[V]:
        unwritten = 0 if older is None else older.unwritten + older.name.rows.rows_differing(name.rows)
        if older is None or unwritten * WORTH_WRITING > name.rows.size or self._directory.has(name.full):  # a file of that name is damaged
            self._directory.write(name.full, name.facts, arrays(value))
            unwritten = 0
        return _Derived(name, value, unwritten, older.views if older is not None else ())


def _get_unchanged(kept: _SingleFlightCache[str, _Derived[V]], key: str, make: Callable[[], _Derived[V]]) -> _Derived[V]:
    """Return the cached value. Compute it again if a file it is a view of was modified."""
    while not (held := kept.get(key, make)).is_unchanged():
        kept.drop(key, held)
    return held


def _parts(facts: msgspec.Raw) -> tuple[Numbering, ...]:
    """Return the fragments from which a file was derived, its own table first."""
    return tuple(map(Numbering, msgspec.json.decode(facts, type=list[tuple[Fragment, ...]])))
