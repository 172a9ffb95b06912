"""Table rows of a snapshot -> the ids of its nodes and the adjacency of its edges: from memory, from the cache, or built.

What is derived is named by the fragments it was derived from. So graph branches that see the same rows share it, a version
that changed no row (an index was built) needs nothing new, and a change reads only the fragments that differ.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from omnigraph.exec.adjacency.cache import Array, Folder, Stored
from omnigraph.exec.adjacency.edges import Adjacency, Between, build, extend
from omnigraph.exec.adjacency.ids import Ids, ids_of
from omnigraph.exec.adjacency.numbering import Numbers
from omnigraph.exec.adjacency.stored import adjacency_arrays, ids_arrays, stored_adjacency, stored_ids
from omnigraph.ids import TableId
from omnigraph.lru import Lru
from omnigraph.manifest.model import TableRow
from omnigraph.plan.statistics import Availability
from omnigraph.store.fragments import Fragment
from omnigraph.store.tables import TableRef, Tables

ADJACENCIES: Final = 8
"""How many stay in memory: 16 bytes an edge each, most of it mapped."""
COLUMNS_OF_IDS: Final = 16
VERSIONS: Final = 256
CANDIDATES: Final = 4
"""How many older files are looked at for one to extend."""
WORTH_WRITING: Final = 8
"""What was extended is written down again when one row in so many is another than in the file it came from."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _MadeOnce(Generic[K, V]):
    """A bounded cache whose values are made once, also when several threads ask for one at the same time."""

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
        """Remove a value, so that the next call makes it anew."""
        with self._mutex:
            if self._values.get(key) is value:
                self._values.discard(key)

    def known(self, key: K) -> V | None:
        """The value, if it was made already."""
        return self._values.get(key)

    def values(self) -> list[V]:
        return self._values.values()

    def __contains__(self, key: K) -> bool:
        return key in self._values


class _Name(msgspec.Struct, frozen=True):
    """A derived thing: of which table, and from exactly which fragments of which tables, its own first."""

    prefix: str
    parts: tuple[Numbers, ...]
    full: str

    @property
    def rows(self) -> Numbers:
        return self.parts[0]

    @property
    def facts(self) -> list[tuple[Fragment, ...]]:
        return [part.fragments for part in self.parts]

    @staticmethod
    def of(prefix: str, *parts: Numbers) -> _Name:
        listed = msgspec.json.encode([part.fragments for part in parts])
        return _Name(prefix, parts, f"{prefix}{hashlib.sha256(listed).hexdigest()[:32]}")


class _Derived(msgspec.Struct, Generic[V], frozen=True):
    """A derived thing, how many of its rows are others than in the file that was last written, and the files it may be a view of."""

    name: _Name
    value: V
    unwritten: int
    views: tuple[Stored, ...] = ()

    def is_whole(self) -> bool:
        return all(stored.is_as_read() for stored in self.views)


class Topology:
    """Derived integers of one graph, shared by all its snapshots. Safe to use from many threads."""

    def __init__(self, tables: Tables, folder: Path) -> None:
        self._tables: Final = tables
        self._folder: Final = Folder(folder)
        self._numbers: Final[_MadeOnce[TableRef, Numbers]] = _MadeOnce(VERSIONS)
        self._names: Final[_MadeOnce[tuple[TableRef, ...], _Name]] = _MadeOnce(VERSIONS)
        self._ids: Final[_MadeOnce[str, _Derived[Ids]]] = _MadeOnce(COLUMNS_OF_IDS)
        self._adjacencies: Final[_MadeOnce[str, _Derived[Adjacency]]] = _MadeOnce(ADJACENCIES)
        self._shared: Final[_MadeOnce[str, int]] = _MadeOnce(VERSIONS)
        self._spent_ms: Final[dict[TableId, float]] = {}
        self._mutex = threading.Lock()

    def ids(self, row: TableRow) -> Ids:
        """The ids of a node type, both ways."""
        name = self._name(f"ids-{row.id}-", row)
        return _whole(self._ids, name.full, lambda: self._make_ids(name, row)).value

    def known_ids(self, row: TableRow) -> Ids | None:
        """The same, unless it would have to be made."""
        name = self._name(f"ids-{row.id}-", row)
        if (held := self._ids.known(name.full)) is not None and held.is_whole():
            return held.value
        return self.ids(row) if self._folder.has(name.full) else None

    def adjacency(self, edge: TableRow, source: TableRow, target: TableRow) -> Adjacency:
        """The edges of a type between the nodes of its two ends. Made, and kept, by the first call that needs it."""
        name = self._name(f"edges-{edge.id}-", edge, source, target)
        return _whole(self._adjacencies, name.full, lambda: self._make_adjacency(name, edge, source, target)).value

    def availability(self, edge: TableRow, source: TableRow, target: TableRow) -> Availability:
        """Where `adjacency` would take its answer from."""
        name = self._name(f"edges-{edge.id}-", edge, source, target)
        if name.full in self._adjacencies:
            return Availability.MEMORY
        return Availability.CACHE if self._folder.has(name.full) else Availability.MISSING

    def known_edges(self, edge: TableRow, source: TableRow, target: TableRow) -> int:
        """How many edges an adjacency that is there already shares with the one asked for."""
        name = self._name(f"edges-{edge.id}-", edge, source, target)
        return self._shared.get(name.full, lambda: self._count_shared(name))

    def _count_shared(self, name: _Name) -> int:
        if name.full in self._adjacencies or self._folder.has(name.full):
            return name.rows.size
        held = [one.name for one in self._adjacencies.values() if one.name.prefix == name.prefix]
        older = held or [one for file in self._folder.names(name.prefix)[:CANDIDATES] if (one := self._stored_name(name.prefix, file))]
        return max([0, *(name.rows.size - one.rows.unlike(name.rows) for one in older)])

    def _stored_name(self, prefix: str, file: str) -> _Name | None:
        stored = self._folder.read(file)
        return None if stored is None else _Name(prefix, _parts(stored), file)

    def spend(self, edge: TableRow, ms: float) -> None:
        """Remember that following these edges without an adjacency has cost so much."""
        with self._mutex:
            self._spent_ms[edge.id] = self._spent_ms.get(edge.id, 0.0) + ms

    def spent_ms(self, edge: TableRow) -> float:
        """What has been spent so since one was last made."""
        return self._spent_ms.get(edge.id, 0.0)

    def _name(self, prefix: str, *rows: TableRow) -> _Name:
        return self._names.get(tuple(row.ref for row in rows), lambda: _Name.of(prefix, *map(self._numbers_of, rows)))

    def _numbers_of(self, row: TableRow) -> Numbers:
        return self._numbers.get(row.ref, lambda: Numbers.of(self._tables.open(row.ref)))

    def _make_ids(self, name: _Name, row: TableRow) -> _Derived[Ids]:
        def restored(arrays: Mapping[str, Array], parts: tuple[Numbers, ...]) -> Ids:
            return stored_ids(arrays, *parts)

        if (stored := self._folder.read(name.full)) is not None:
            return _Derived(name, restored(stored.arrays, name.parts), 0, (stored,))
        older = self._closest(name, self._ids.values(), restored)
        made = ids_of(self._tables.open(row.ref), name.rows, older.value if older is not None else None)
        return self._written(name, made, ids_arrays, older)

    def _make_adjacency(self, name: _Name, edge: TableRow, source: TableRow, target: TableRow) -> _Derived[Adjacency]:
        square = source.id == target.id

        def restored(arrays: Mapping[str, Array], parts: tuple[Numbers, ...]) -> Adjacency:
            return stored_adjacency(arrays, *parts, square=square)

        if (stored := self._folder.read(name.full)) is not None:
            return _Derived(name, restored(stored.arrays, name.parts), 0, (stored,))
        with self._mutex:
            self._spent_ms.pop(edge.id, None)
        between = Between(self._tables.open(edge.ref), name.rows, self.ids(source), self.ids(target), square)
        older = self._closest(name, self._adjacencies.values(), restored)
        if older is not None and (extended := extend(older.value, between)) is not None:
            return self._written(name, extended, adjacency_arrays, older)
        return self._written(name, build(between), adjacency_arrays, None)

    def _closest(
        self, name: _Name, held: list[_Derived[V]], restored: Callable[[Mapping[str, Array], tuple[Numbers, ...]], V]
    ) -> _Derived[V] | None:
        """Of the same thing made from other fragments, in memory or else in a file, the one that shares most rows."""
        if mine := [one for one in held if one.name.prefix == name.prefix and one.is_whole()]:
            return min(mine, key=lambda one: one.name.rows.unlike(name.rows))
        found: list[_Derived[V]] = []
        for file in self._folder.names(name.prefix)[:CANDIDATES]:
            if (stored := self._folder.read(file)) is not None:
                parts = _parts(stored)
                found.append(_Derived(_Name(name.prefix, parts, file), restored(stored.arrays, parts), 0, (stored,)))
        return min(found, key=lambda one: one.name.rows.unlike(name.rows), default=None)

    def _written(self, name: _Name, value: V, arrays: Callable[[V], Mapping[str, Array]], older: _Derived[V] | None) -> _Derived[V]:
        unwritten = 0 if older is None else older.unwritten + older.name.rows.unlike(name.rows)
        if older is None or unwritten * WORTH_WRITING > name.rows.size:
            self._folder.write(name.full, name.facts, arrays(value))
            unwritten = 0
        return _Derived(name, value, unwritten, older.views if older is not None else ())


def _whole(kept: _MadeOnce[str, _Derived[V]], key: str, make: Callable[[], _Derived[V]]) -> _Derived[V]:
    """What is kept, or made anew if a file it is a view of was changed under it."""
    while not (held := kept.get(key, make)).is_whole():
        kept.drop(key, held)
    return held


def _parts(stored: Stored) -> tuple[Numbers, ...]:
    """The fragments that a file was made from, its own table's first."""
    return tuple(map(Numbers, msgspec.json.decode(stored.facts, type=list[tuple[Fragment, ...]])))
