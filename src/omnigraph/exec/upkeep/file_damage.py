"""Tables -> their files that are missing, have the wrong size, or, if every byte is read, are unreadable or changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final, NamedTuple

from omnigraph.errors import FormatError, Kind, OmniGraphError
from omnigraph.grid import counted
from omnigraph.manifest.model import Commit
from omnigraph.store.blobs import blob_names
from omnigraph.store.checked import WRONG, WrongChecksum
from omnigraph.store.checksums import checksum_of
from omnigraph.store.damage import IndexDamage, IndexFiles
from omnigraph.store.deep import Flaw, NamedFile, named_files, unreadable_blobs, unreadable_rows, untrue_index
from omnigraph.store.durable import is_torn
from omnigraph.store.intact import damaged_indexes, files_of, record
from omnigraph.store.root import Root
from omnigraph.store.tables import Table
from omnigraph.store.take import blob_files

RESTORE: Final = "restore it from a backup, or continue with an earlier copy of the graph"
REBUILD: Final = "`omnigraph repair --confirm` builds it again"
DAMAGED_INDEX: Final = "damaged_index"


class Damage(NamedTuple):
    """Something that is wrong, the file it is in, if it is in one, and what to do. The caller adds who shows it."""

    code: str
    message: str
    remedy: str = ""
    path: str = ""


class GraphFiles:
    """The files of a graph's tables. Each file is checked once, however many versions name it."""

    def __init__(self, root: Root, *, deep: bool, checksums: Mapping[str, int]) -> None:
        self._root: Final = root
        self._deep: Final = deep
        self._checksums: Final = checksums
        """Path -> the checksum that a commit recorded. Empty for a graph on an object store."""
        self._listed: dict[str, Mapping[str, int]] = {}
        self._checked: set[str] = set()
        self._blobs_checked: set[str] = set()
        self._read: set[str] = set()
        self._damaged: dict[str, Damage] = {}

    @property
    def damages(self) -> Mapping[str, Damage]:
        """What was found so far, by the path of the file, or of the directory of an index."""
        return self._damaged

    def check(self, table: Table) -> None:
        """Check the data, deletion, blob and index files of one version."""
        self.check_sizes(table)
        if self._deep:
            self._read_through(table, named_files(table))
        self.check_indexes(table)

    def check_sizes(self, table: Table) -> None:
        """Check that the data, deletion and blob files of one version exist and are complete. Only blob descriptions are read."""
        named = named_files(table)
        for file in (file for files in named.values() for file in files if file.path not in self._checked):
            self._note(self._check_size(table, file))
            self._checked.add(file.path)
        if blob_names(table.schema):
            self._check_blobs(table, named)

    def harmed(self, table: Table) -> list[Damage]:
        """The damage, of all that was found, that this version is affected by."""
        if not self._damaged:
            return []
        paths = [file.path for files in named_files(table).values() for file in files]
        folders = {path.removesuffix(".lance") for path in paths}
        blobs = [path for path in self._damaged if path.endswith(".blob") and path.rpartition("/")[0] in folders]
        return [self._damaged[path] for path in (*paths, *blobs, *(index.directory for index in table.indexes)) if path in self._damaged]

    def _note(self, damage: Damage | None) -> None:
        if damage is not None:
            self._damaged.setdefault(damage.path, damage)

    def _is_damaged(self, files: list[NamedFile]) -> bool:
        return any(file.path in self._damaged for file in files)

    # -- sizes

    def _check_size(self, table: Table, file: NamedFile) -> Damage | None:
        found = self._size(table, file, refresh=False)
        if found != file.size_bytes:  # the file may be newer than the listing
            found = self._size(table, file, refresh=True)
        if found is None:
            return Damage("missing_file", f"{file.text} is missing", RESTORE, file.path)
        if file.size_bytes is not None and found != file.size_bytes:
            return Damage(
                "wrong_size", f"{file.text} has {counted(found, 'byte')}, but {file.size_bytes:,} were recorded", RESTORE, file.path
            )
        if file.size_bytes is None and is_torn(self._root, file.path):  # a deletion file, whose size no version records
            return Damage("wrong_size", f"{file.text} has {counted(found, 'byte')} and is incomplete", RESTORE, file.path)
        return None

    def _check_blobs(self, table: Table, fragments: Mapping[int, list[NamedFile]]) -> None:
        """Check the files of large blobs. Their names and sizes are in the rows. Those of inherited rows are checked with their owner."""
        for fragment, files in fragments.items():
            own = next((file.path for file in files if file.path.startswith(f"{table.ref.home}/data/")), None)
            if own is None or own in self._blobs_checked or self._is_damaged(files):
                continue
            self._blobs_checked.add(own)
            try:
                for blob in blob_files(table, [fragment]):
                    self._note(self._check_size(table, NamedFile(blob.path, blob.size)))
            except WrongChecksum as error:
                path = str(error.facts["file"])
                self._note(Damage(WRONG, f"{path} {error.facts['what']}", RESTORE, path))
            except OmniGraphError as error:
                self._note(Damage("unreadable_file", f"{own}: {error.message}", RESTORE, own))

    def _size(self, table: Table, file: NamedFile, *, refresh: bool) -> int | None:
        """The size of a file, or None if it is missing. One listing of the table's directory serves all its files and native branches."""
        path = table.ref.path
        if path not in self._listed or (refresh and file.path not in self._listed[path]):
            self._listed[path] = self._root.objects.sizes(path)
        return self._listed[path].get(file.path)

    # -- every byte

    def _read_through(self, table: Table, fragments: Mapping[int, list[NamedFile]]) -> None:
        unread = {fragment: files for fragment, files in fragments.items() if not self._read.issuperset(file.path for file in files)}
        for file in (file for files in unread.values() for file in files if file.path not in self._read):
            self._read.add(file.path)
            for path in (file.path, *self._blobs_of(table, file)):
                self._note(self._check_bytes(path, file))
        whole = {fragment: files for fragment, files in unread.items() if not self._is_damaged(files)}
        for flaw in unreadable_rows(table, whole):
            self._note(_unreadable_file(flaw, whole))
        if not self._is_damaged([*chain.from_iterable(fragments.values()), *self._damaged_blobs(fragments)]):
            for flaw in unreadable_blobs(table, whole):
                self._note(_unreadable_file(flaw, whole))

    def _damaged_blobs(self, fragments: Mapping[int, list[NamedFile]]) -> list[NamedFile]:
        files = chain.from_iterable(fragments.values())
        folders = {file.path.removesuffix(".lance") for file in files}
        return [NamedFile(path, None) for path in self._damaged if path.rpartition("/")[0] in folders]

    def _blobs_of(self, table: Table, file: NamedFile) -> list[str]:
        folder = file.path.removesuffix(".lance") + "/"
        return [path for path in self._listed.get(table.ref.path, ()) if path.startswith(folder)] if file.path.endswith(".lance") else []

    def _check_bytes(self, path: str, file: NamedFile | None = None) -> Damage | None:
        recorded = self._checksums.get(path)
        if recorded is None or path in self._damaged or (found := checksum_of(self._root.of(path))) in (recorded, None):
            return None
        name = file.text if file is not None and file.path == path else path
        return Damage(WRONG, f"{name} has the checksum {found:08x}, but {recorded:08x} was recorded", RESTORE, path)

    def check_version(self, path: str, noted: int | None) -> None:
        """Compare a version file with its checksum, if it was noted and every byte is read. Raises if it differs."""
        if self._deep and noted is not None and (found := checksum_of(self._root.of(path))) not in (noted, None):
            raise FormatError(Kind.CORRUPT, f"it has the checksum {found:08x}, but {noted:08x} was recorded", path=path)

    # -- indexes

    def check_indexes(self, table: Table) -> None:
        """Check the index files of one version.

        An index whose files have no recorded checksums is compared with the rows. With them, rows that disagree are no proof against it.
        """
        fresh = [index for index in table.indexes if index.directory not in self._checked]
        if not fresh:
            return
        compared = self._deep and not self._is_damaged([*chain.from_iterable(named_files(table).values())])
        damages = {damage.index.uuid: damage for damage in damaged_indexes(table, among=fresh, anew=True)}
        for index in fresh:
            self._checked.add(index.directory)
            damage = damages.get(index.uuid)
            reason = self._wrong(table, index, compared=compared) if self._deep and damage is None else None
            if reason is not None:
                damage = IndexDamage(index, reason, hidden=True)
                record(self._root, damage)
            if damage is not None:
                what = f"index {index.name} on {index.column!r} in {index.directory} is not used: {damage.reason}"
                self._note(Damage(DAMAGED_INDEX, what, REBUILD, index.directory))

    def _wrong(self, table: Table, index: IndexFiles, *, compared: bool) -> str | None:
        files = files_of(self._root, index)
        if files.keys() <= self._checksums.keys():
            wrong = (damage for path in files if (damage := self._check_bytes(path)) is not None)
            return next((damage.message for damage in wrong), None)
        return untrue_index(table, index) if compared else None


def recorded_checksums(commits: Iterable[Commit]) -> dict[str, int]:
    """Path -> the checksum that one of these commits recorded."""
    return {f"{home}/{file}": value for commit in commits for home, files in commit.checksums.items() for file, value in files.items()}


def _unreadable_file(flaw: Flaw, fragments: Mapping[int, list[NamedFile]]) -> Damage:
    """A fragment that cannot be read: its first file stands for all of them."""
    first = next((files[0].path for files in fragments.values() if any(file.path in flaw.path for file in files)), flaw.path)
    return Damage("unreadable_file", f"{flaw.path}: {flaw.reason}", RESTORE, first)
