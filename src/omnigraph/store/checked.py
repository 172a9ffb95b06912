"""Files that a read is about to use, or has just used -> the same, compared with the checksums that commits recorded; or an error.

Most changed bytes in a file of Lance decode to a wrong value. So a file on a disk is compared when an open graph uses it for the first
time, always before rows of it leave this package. Files never change and names are never used again, so once is enough. Of a file of
several blocks, only the blocks are compared in which a read finds its columns and rows. A file without a recorded checksum, as the first
builds left them, is used as it is. An object store has checksums of its own; there nothing is compared.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from omnigraph.errors import Kind, StorageError
from omnigraph.lru import Lru
from omnigraph.store.bases import home
from omnigraph.store.checksums import BLOCK_BYTES, FileSum, checksum
from omnigraph.store.foreign import wrap_os_error
from omnigraph.store.layout import Extent, FileLayout, layout_of

MOST_FILES: Final = 100_000
"""How many files are known to be right. With more, all are forgotten, and compared again."""
LAYOUTS: Final = 256
MANY: Final = 8
"""A read of more than one row in so many needs nearly all pages of a column. So the whole column is compared, and remembered as right."""
FEW_BLOCKS: Final = 8
"""The blob files of a data file are compared together if they have at most so many blocks. Else only the blocks that a read needs."""
WRONG: Final = "wrong_checksum"

Sums = Mapping[str, FileSum]
"""Path in the graph -> the checksum that a commit recorded."""


class WrongChecksum(StorageError):
    """Bytes of a file changed after a commit recorded its checksum."""


class CheckedFiles:
    """The files that one open graph has compared with their checksums."""

    def __init__(self, uri: str) -> None:
        self._uri: Final = uri
        self._right: dict[str, set[int] | None] = {}
        """Path -> the blocks that are right, or None if the whole file is."""
        self._layouts: Final = Lru[str, FileLayout](LAYOUTS)
        self.read_bytes = 0
        """How many bytes were read to compare them."""

    def is_right(self, path: str) -> bool:
        """Whether the whole file is known to be right. Reads nothing."""
        return self._right.get(path, _UNKNOWN) is None

    def note(self, path: str, blocks: set[int] | None = None) -> None:
        """Notes a file, or some blocks of it, whose bytes this process has just checked."""
        if len(self._right) >= MOST_FILES:
            self._right = {}
        self._right[path] = blocks

    def check(self, path: str, expected: FileSum, *, table: str, extents: Extents | None = None) -> None:
        """Compares a file, or only what a read needs of it. Raises WrongChecksum. A missing file is reported by what reads it."""
        known = self._right.get(path, _UNKNOWN)
        if known is None:
            return
        part = extents if expected.blocks else None
        layout = self._layouts.get(path) if part is not None else None
        if part is not None and layout is not None and not _blocks(part(layout)) - known:
            return
        try:
            descriptor = os.open(os.path.join(self._uri, path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError as error:
            raise wrap_os_error(error, doing="read", path=os.path.join(self._uri, path)) from error
        try:
            layout = self._layout(path, descriptor) if part is not None and layout is None else layout
            if part is None or layout is None:
                self._check_whole(path, expected, descriptor, table)
            else:
                self._check_blocks(path, expected, descriptor, table, _blocks(layout.metadata))
                self._check_blocks(path, expected, descriptor, table, _blocks(part(self._layouts.put(path, layout))))
        except OSError as error:
            raise wrap_os_error(error, doing="read", path=os.path.join(self._uri, path)) from error
        finally:
            os.close(descriptor)

    def _layout(self, path: str, descriptor: int) -> FileLayout | None:
        if not path.endswith(_OF_LANCE):
            return NO_LAYOUT
        try:
            return layout_of(descriptor, os.fstat(descriptor).st_size)
        except ValueError:
            return None

    def _check_whole(self, path: str, expected: FileSum, descriptor: int, table: str) -> None:
        found = checksum(descriptor).whole
        self.read_bytes += os.fstat(descriptor).st_size
        if found != expected.whole:
            raise _wrong(self._uri, path, table, found=found, recorded=expected.whole)
        self.note(path)

    def _check_blocks(self, path: str, expected: FileSum, descriptor: int, table: str, wanted: set[int]) -> None:
        known = self._right.get(path, _UNKNOWN)
        for block in sorted(wanted - known if known is not None else ()):
            part = os.pread(descriptor, BLOCK_BYTES, block * BLOCK_BYTES)
            self.read_bytes += len(part)
            recorded = expected.blocks[block] if block < len(expected.blocks) else None
            if (found := zlib.crc32(part)) != recorded:
                raise _wrong(self._uri, path, table, found=found, recorded=recorded, block=block)
        self._note_blocks(path, wanted, of=len(expected.blocks))

    def _note_blocks(self, path: str, blocks: set[int], *, of: int) -> None:
        known = self._right.get(path, _UNKNOWN)
        if known is not None:
            right = known | blocks
            self.note(path, None if len(right) == of else right)


Extents = Callable[[FileLayout], Iterable[Extent]]
"""The layout of a file -> the bytes of it that a read needs."""

_OF_LANCE: Final = (".lance", ".idx")
_UNKNOWN: Final[set[int]] = set()
NO_LAYOUT: Final = FileLayout((), ())
"""The layout of a file that Lance does not divide, such as one of blobs."""


def _blocks(extents: Iterable[Extent]) -> set[int]:
    return {block for first, end in extents for block in range(first // BLOCK_BYTES, -(-end // BLOCK_BYTES))}


def _wrong(uri: str, path: str, table: str, *, found: int, recorded: int | None, block: int | None = None) -> WrongChecksum:
    where = "" if block is None else f" in its block {block}"
    was = "none" if recorded is None else f"{recorded:08x}"
    what = f"has the checksum {found:08x}{where}, but {was} was recorded"
    return WrongChecksum(
        Kind.CORRUPT,
        f"{uri}/{path} {what}: bytes of it changed after they were written. Restore the file from a copy of the graph; "
        "`omnigraph verify --deep` lists all damage, and the commits that do not show it",
        path=f"{uri}/{path}",
        table=table,
        reason=WRONG,
        file=path,
        what=what,
    )


# -- the files of a table


class _DataFile(NamedTuple):
    path: str
    expected: FileSum
    columns: Mapping[int, int]
    """Field id -> the number of the column in the file."""


class _FragmentFiles(NamedTuple):
    """A fragment: its rows, deleted ones included, and those of its files whose checksums are recorded."""

    rows: int
    files: tuple[_DataFile, ...]
    deletions: tuple[str, FileSum] | None


class TableChecks:
    """The comparisons of one table at one version. Remembers what has been compared, so that a second read costs a lookup."""

    def __init__(self, checked: CheckedFiles, sums: Sums, dataset: Any, *, path: str, branch: str | None) -> None:
        self._checked: Final = checked
        self._sums: Final = sums
        self._dataset: Final = dataset
        self._path: Final = path
        self._home: Final = home(path, branch)
        self._parts: Final[dict[int, _FragmentFiles]] = {}
        self._whole: Final[set[str]] = set()
        """The columns that are right in every fragment."""
        self._full: Final[set[tuple[str, int]]] = set()
        """The columns of files of several blocks that are right in this file."""
        self._deletions_right = False
        self._blobs: Final[set[tuple[str, int]]] = set()

    @cached_property
    def _bases(self) -> Mapping[int, Any]:
        return self._dataset.base_paths()  # type: ignore[no-any-return]  # Lance is untyped

    @cached_property
    def _fields(self) -> Mapping[str, tuple[int, ...]]:
        return {field.name(): tuple(_ids(field)) for field in self._dataset.lance_schema.fields()}

    @cached_property
    def _every(self) -> list[int]:
        return [fragment.fragment_id for fragment in self._dataset.get_fragments()]

    def are_right(self, columns: Iterable[str]) -> bool:
        """Whether these columns are known to be right in every fragment, with its deleted rows. Reads nothing."""
        return not self._sums or (self._deletions_right and self._whole.issuperset(columns))

    def columns(self, names: Sequence[str], *, fragments: Iterable[int] | None = None) -> None:
        """Compares columns of whole fragments, by default of all, and which rows of them are deleted."""
        if self.are_right(names):
            return
        self.deletions(fragments)
        for fragment in self._every if fragments is None else fragments:
            self._check(fragment, names, None)
        if fragments is None:
            self._whole.update(names)

    def rows(self, names: Sequence[str], addresses: Any) -> None:
        """Compares columns where these rows (numpy uint64: fragment << 32 | offset) are, and which rows of their fragments are deleted."""
        if self.are_right(names) or not len(addresses):
            return
        addresses = np.asarray(addresses, np.uint64)
        owners = addresses >> np.uint64(32)
        if owners[0] == owners[-1] and (len(owners) < 3 or bool((owners == owners[0]).all())):
            groups = [(int(owners[0]), addresses)]
        else:
            order = np.argsort(owners, kind="stable")
            ends = np.flatnonzero(np.diff(owners[order])) + 1
            groups = [(int(part[0] >> np.uint64(32)), part) for part in np.split(addresses[order], ends)]
        for fragment, part in groups:
            self.deletions([fragment])
            self._check(fragment, names, part if len(part) * MANY < self._part(fragment).rows else None)

    def deletions(self, fragments: Iterable[int] | None = None) -> None:
        """Compares the files that list the deleted rows of some fragments, by default of all."""
        if self._deletions_right or not self._sums:
            return
        for fragment in self._every if fragments is None else fragments:
            if (file := self._part(fragment).deletions) is not None:
                self._checked.check(*file, table=self._path)
        self._deletions_right = fragments is None

    def blobs(self, name: str, addresses: Any, *, part: Extent | None = None) -> None:
        """Compares the bytes of the blobs of these rows, or only a part of each blob."""
        if not self._sums:
            return
        apart = [
            fragment
            for fragment in set(fragments_of(addresses))
            if (name, fragment) not in self._blobs and not self._check_few_blobs(name, fragment)
        ]
        if not apart:
            return
        some = addresses[np.isin(addresses >> np.uint64(32), np.array(apart, np.uint64))]
        described = self._dataset._take_rows(pa.array(some, pa.uint64()), columns=[name]).column(name)
        for address, blob in zip(some.tolist(), described.to_pylist(), strict=True):
            if blob is not None:
                self._check_blob(name, address >> 32, blob, part or (0, blob["size"]))

    def everything(self, fragments: Iterable[int]) -> None:
        """Compares whole fragments: data, deleted rows and blobs. For what writes their rows to new files with new checksums."""
        if not self._sums:
            return
        for fragment in fragments:
            self.deletions([fragment])
            for file in self._part(fragment).files:
                for path in (file.path, *self._beside.get(file.path.removesuffix(".lance"), ())):
                    self._checked.check(path, self._sums[path], table=self._path)

    def index_file(self, path: str, names: Sequence[int], first: int, last: int) -> None:
        """Compares the rows from `first` to `last` of columns of an index file, by their numbers in it."""
        if (expected := self._sums.get(path)) is not None:
            extents = _wanted(names, [(first, last)])
            self._checked.check(path, expected, table=self._path, extents=extents)

    def folder(self, directory: str) -> None:
        """Compares all files below a directory, such as that of an index."""
        for path in list(self._sums):  # another thread may add to them
            if path.startswith(f"{directory}/"):
                self.file(path)

    def file(self, path: str) -> None:
        """Compares a whole file, if its checksum is recorded."""
        if (expected := self._sums.get(path)) is not None:
            self._checked.check(path, expected, table=self._path)

    # -- one fragment

    def _check(self, fragment: int, names: Sequence[str], addresses: Any | None) -> None:
        for file in self._part(fragment).files:
            if self._checked.is_right(file.path):
                continue
            columns = [file.columns[field] for name in names for field in self._fields.get(name, ()) if field in file.columns]
            wanted = [column for column in columns if (file.path, column) not in self._full]
            if wanted:
                runs = None if addresses is None else _runs(addresses & np.uint64(0xFFFFFFFF))
                self._checked.check(file.path, file.expected, table=self._path, extents=_wanted(wanted, runs))
            if addresses is None:
                self._full.update((file.path, column) for column in wanted)

    def _part(self, fragment: int) -> _FragmentFiles:
        if (known := self._parts.get(fragment)) is not None:
            return known
        metadata = self._dataset.get_fragment(fragment).metadata
        files = []
        for file in metadata.files:
            path = f"{self._directory(file.base_id)}/data/{file.path}"
            if (expected := self._sums.get(path)) is not None:
                files.append(_DataFile(path, expected, dict(zip(file.fields, file.column_indices, strict=True))))
        deletions = None
        if (deleted := metadata.deletion_file) is not None:
            path = f"{self._directory(deleted.base_id)}/{deleted.path(metadata.id)}"
            deletions = (path, self._sums[path]) if path in self._sums else None
        return self._parts.setdefault(fragment, _FragmentFiles(metadata.physical_rows, tuple(files), deletions))

    def _directory(self, base: int | None) -> str:
        return self._home if base is None else home(self._path, self._bases[base].name)

    # -- blobs

    def _check_few_blobs(self, name: str, fragment: int) -> bool:
        """Compares all blob files of a fragment, if they are small. Returns whether they are right now."""
        files = [file for file in self._part(fragment).files if set(self._fields[name]) & file.columns.keys()]
        beside = [(path, self._sums[path]) for file in files for path in self._beside.get(file.path.removesuffix(".lance"), ())]
        every = [*((file.path, file.expected) for file in files), *beside]
        if sum(max(1, len(expected.blocks)) for path, expected in every if not self._checked.is_right(path)) > FEW_BLOCKS:
            return False
        for path, expected in every:
            self._checked.check(path, expected, table=self._path)
        self._blobs.add((name, fragment))
        return True

    @cached_property
    def _beside(self) -> Mapping[str, list[str]]:
        """The blob files of each data file. They are in a directory named like it."""
        found: dict[str, list[str]] = {}
        for path in list(self._sums):
            if path.endswith(".blob"):
                found.setdefault(path.rpartition("/")[0], []).append(path)
        return found

    def _check_blob(self, name: str, fragment: int, blob: Mapping[str, Any], part: Extent) -> None:
        extent = (blob["position"] + part[0], blob["position"] + part[1])
        for file in self._part(fragment).files:
            if set(self._fields[name]) & file.columns.keys():
                path = file.path if not blob["kind"] else f"{file.path.removesuffix('.lance')}/{blob_name(blob['blob_id'])}"
                if (expected := self._sums.get(path)) is not None:
                    self._checked.check(path, expected, table=self._path, extents=lambda _: [extent])


def fragments_of(addresses: Any) -> list[int]:
    """The fragments of rows. Rows of one fragment usually follow each other; for others it is repeated."""
    owners = addresses >> np.uint64(32)
    return [*owners[np.flatnonzero(np.diff(owners))].tolist(), *owners[-1:].tolist()]  # `np.unique` takes ten times as long


def blob_name(number: int) -> str:
    """The name of a file of blobs in the directory of its data file."""
    return f"{f'{number:032b}'[::-1]}.blob"


def _wanted(columns: Sequence[int], runs: Sequence[tuple[int, int]] | None) -> Callable[[FileLayout], Iterator[Extent]]:
    def extents(layout: FileLayout) -> Iterator[Extent]:
        for column in columns:
            for first, last in runs if runs is not None else ((0, 1 << 62),):
                yield from layout.extents(column, first, last)

    return extents


def _runs(offsets: Any) -> list[tuple[int, int]]:
    """Offsets as a few ranges. Rows that are near each other are in the same page."""
    ascending = np.sort(offsets).astype(np.int64)
    breaks = np.flatnonzero(np.diff(ascending) > (_NEAR if len(offsets) > _FEW_ROWS else 0)) + 1
    return [(int(part[0]), int(part[-1])) for part in np.split(ascending, breaks)]


_NEAR: Final = 4_096
"""Of many rows, those nearer than this are looked up together. A page usually has more."""
_FEW_ROWS: Final = 512
"""So many rows are looked up one by one. A search by an index reads single vectors, and a page may have all of a file."""


def _ids(field: Any) -> Iterator[int]:
    yield field.id()
    for child in field.children():
        yield from _ids(child)
