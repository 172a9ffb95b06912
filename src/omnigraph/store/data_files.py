"""Rows -> data files that are not visible to readers yet, in the directory where a commit expects them; and those files -> rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata

from omnigraph.store.bases import home
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.refs import write_before_ref
from omnigraph.store.stage import write_files
from omnigraph.store.tables import Table
from omnigraph.store.widen import write_wider

BATCH_ROWS = 65_536
PATCHES: Final = "patches"
"""The directory of patches beside a table, where tasks of a cluster put them. They are removed when the load ends."""


class Shelf:
    """Uncommitted data files of one table, in its directory, or in that of the native branch `native`, which need not exist yet."""

    def __init__(self, table: Table, *, native: str | None, schema: pa.Schema | None = None) -> None:
        """`schema` are the columns of the rows, if the commit that will name the files gives them to the table."""
        self.table = table
        self.schema = schema
        self.native = native
        self.fragments: list[Any] = []

    @property
    def rows(self) -> int:
        return sum(fragment.physical_rows for fragment in self.fragments)

    def put(self, rows: pa.Table) -> None:
        """Writes rows as data files. `read` returns them in this order."""
        if self.schema is not None:
            self.fragments += write_wider(self.table, self.schema, rows, native=self.native)
        elif self.native is None:
            self.fragments += write_files(self.table, rows)
        else:
            self.fragments += write_before_ref(self.table, self.native, rows)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Reads the given columns of all rows that were put."""
        for path in self._paths():
            uri = self.table.root.of(path)
            try:
                reader = LanceFileReader(uri, self.table.root.storage_options or None, columns=list(columns))
                yield from reader.read_all(batch_size=BATCH_ROWS).to_batches()
            except raised_by_lance() as error:
                raise lance_error(error, doing="read back", path=uri) from error

    def take_over(self, other: Shelf) -> None:
        """Moves the files of another shelf for the same table into this one. The files are not rewritten: they contain no paths, and a
        table and its forks use the same field ids.
        """
        objects = self.table.root.objects
        for path in other._paths():
            for file in (path, *objects.list(_blob_directory(path))):
                objects.rename(file, f"{self._directory}/{file.removeprefix(f'{other._directory}/')}")
            objects.delete_prefix(_blob_directory(path))  # on a disk, the empty directory is left
        self.fragments += other.fragments
        other.fragments.clear()

    def clear(self) -> None:
        """Removes the files. No version names them."""
        for path in self._paths():
            self.table.root.objects.delete(path)
            self.table.root.objects.delete_prefix(_blob_directory(path))
        self.fragments.clear()

    @property
    def _directory(self) -> str:
        branch = self.native if self.native is not None else self.table.ref.branch
        return f"{home(self.table.ref.path, branch)}/data"

    def _paths(self) -> list[str]:
        return [f"{self._directory}/{file.path}" for fragment in self.fragments for file in fragment.files]


def fragments_to_text(fragments: Sequence[Any]) -> list[str]:
    """Descriptions of data files as text, for transport to the process that commits them."""
    return [json.dumps(fragment.to_json()) for fragment in fragments]


def fragments_from_text(texts: Sequence[str]) -> list[Any]:
    return [FragmentMetadata.from_json(text) for text in texts]


def _blob_directory(path: str) -> str:
    """The directory of the larger blobs of a data file."""
    return path.removesuffix(".lance")
