"""Rows -> data files of a table that nobody sees yet, wherever a commit will want them; and those files -> rows again, or nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from lance.file import LanceFileReader
from lance.fragment import FragmentMetadata

from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.refs import write_before_ref
from omnigraph.store.stage import write_files
from omnigraph.store.tables import Table, home

BATCH_ROWS = 65_536


class Shelf:
    """Where files for one table are put: beside its own, or, before `native` exists, where that native branch will look for its own."""

    def __init__(self, table: Table, *, native: str | None) -> None:
        self.table = table
        self.native = native
        self.fragments: list[Any] = []

    @property
    def rows(self) -> int:
        return sum(fragment.physical_rows for fragment in self.fragments)

    def put(self, rows: pa.Table) -> None:
        """Write rows as files. Their order is the order in which `read` gives them back."""
        if self.native is None:
            self.fragments += write_files(self.table, rows)
        else:
            self.fragments += write_before_ref(self.table, self.native, rows)

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """What was put, of these columns only."""
        for path in self._paths():
            uri = self.table.root.of(path)
            try:
                reader = LanceFileReader(uri, self.table.root.storage_options or None, columns=list(columns))
                yield from reader.read_all(batch_size=BATCH_ROWS).to_batches()
            except raised_by_lance() as error:
                raise lance_error(error, doing="read back", path=uri) from error

    def take_over(self, other: Shelf) -> None:
        """Have what another shelf for the same table holds. Its files are moved, not rewritten: they name no place, and a table
        and its forks number their columns alike.
        """
        objects = self.table.root.objects
        for path in other._paths():
            for file in (path, *objects.list(_blob_folder(path))):
                objects.rename(file, f"{self._folder}/{file.removeprefix(f'{other._folder}/')}")
            objects.delete_prefix(_blob_folder(path))  # what is left of a folder on a disk
        self.fragments += other.fragments
        other.fragments.clear()

    def clear(self) -> None:
        """Remove the files: they were written for nothing, and only we know of them."""
        for path in self._paths():
            self.table.root.objects.delete(path)
            self.table.root.objects.delete_prefix(_blob_folder(path))
        self.fragments.clear()

    @property
    def _folder(self) -> str:
        branch = self.native if self.native is not None else self.table.ref.branch
        return f"{home(self.table.ref.path, branch)}/data"

    def _paths(self) -> list[str]:
        return [f"{self._folder}/{file.path}" for fragment in self.fragments for file in fragment.files]


def fragments_to_text(fragments: Sequence[Any]) -> list[str]:
    """Files written elsewhere, as text that can travel to whoever commits them."""
    return [json.dumps(fragment.to_json()) for fragment in fragments]


def fragments_from_text(texts: Sequence[str]) -> list[Any]:
    return [FragmentMetadata.from_json(text) for text in texts]


def _blob_folder(path: str) -> str:
    """Where the larger blobs of a data file lie."""
    return path.removesuffix(".lance")
