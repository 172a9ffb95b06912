"""Tables -> their files that are missing, have the wrong size, or, if every byte is read, are unreadable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from omnigraph.store.damage import IndexDamage
from omnigraph.store.deep import Flaw, NamedFile, named_files, unreadable_blobs, unreadable_rows, unreadable_versions, untrue_index
from omnigraph.store.intact import damaged_indexes, record
from omnigraph.store.root import Root
from omnigraph.store.tables import Table

RESTORE: Final = "restore it from a backup, or continue with an earlier copy of the graph"


class Damage(NamedTuple):
    """Damage of one table. The caller adds the location."""

    code: str
    message: str


class GraphFiles:
    """The files of a graph's tables. Each file is checked once, however many branches show it."""

    def __init__(self, root: Root, *, deep: bool) -> None:
        self._root: Final = root
        self._deep: Final = deep
        self._listed: dict[str, Mapping[str, int]] = {}
        self._read: set[str] = set()

    def damages(self, table: Table) -> Iterator[Damage]:
        """Damage of the data and deletion files that a version references."""
        named = named_files(table)
        torn = [wrong for files in named.values() for file in files if (wrong := self._check_size(table, file)) is not None]
        yield from torn
        if self._deep and not torn:
            yield from self._check_readable(table, named)

    def damaged_index_files(self, table: Table) -> Iterator[Damage]:
        damages = {damage.index.uuid: damage for damage in damaged_indexes(table, anew=True)}
        for index in table.indexes:
            damage = damages.get(index.uuid)
            if damage is None and self._deep and (reason := untrue_index(table, index)) is not None:
                damage = IndexDamage(index, reason, hidden=True)
                record(self._root, damage)
            if damage is not None:
                where = f"index {index.name} on {index.column!r} in {index.directory}"
                yield Damage("damaged_index", f"{where} is not used: {damage.reason}; {damage.remedy}")

    def _check_size(self, table: Table, file: NamedFile) -> Damage | None:
        found = self._size(table, file, refresh=False)
        if found != file.size_bytes:  # the file may be newer than the listing
            found = self._size(table, file, refresh=True)
        if found is None:
            return Damage("missing_file", f"{file.path} is missing; {RESTORE}")
        if file.size_bytes is not None and found != file.size_bytes:
            return Damage("wrong_size", f"{file.path} has {found} bytes, but {file.size_bytes} were recorded; {RESTORE}")
        return None

    def _size(self, table: Table, file: NamedFile, *, refresh: bool) -> int | None:
        """The size of a file, or None if it is missing. One listing of the table's directory serves all its files and native branches."""
        path = table.ref.path
        if path not in self._listed or (refresh and file.path not in self._listed[path]):
            self._listed[path] = self._root.objects.sizes(path)
        return self._listed[path].get(file.path)

    def _check_readable(self, table: Table, fragments: Mapping[int, list[NamedFile]]) -> Iterator[Damage]:
        if (home := f"{table.ref.home}/_versions") not in self._read:
            self._read.add(home)
            for flaw in unreadable_versions(table):
                yield Damage(
                    "unreadable_version", f"{flaw.path} cannot be read: {flaw.reason}; its contents are lost unless it is restored"
                )
        unread = {fragment: files for fragment, files in fragments.items() if not self._read.issuperset(file.path for file in files)}
        self._read.update(file.path for files in unread.values() for file in files)
        flaws = list(unreadable_rows(table, unread))
        yield from map(_unreadable_file, flaws or unreadable_blobs(table, unread))


def _unreadable_file(flaw: Flaw) -> Damage:
    return Damage("unreadable_file", f"{flaw.path}: {flaw.reason}; {RESTORE}")
