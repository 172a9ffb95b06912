"""A table -> the files that its version names, and, after a read of every byte, the files that are unreadable or wrong.

Lance's files have no checksums of their own. Here a changed byte is found if decoding fails, and in a B-tree also if the index disagrees
with the rows. Where a commit recorded the checksum of a file (`checksums.py`), every changed byte of it is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileReader

from omnigraph.errors import OmniGraphError
from omnigraph.grid import counted
from omnigraph.store.bases import home
from omnigraph.store.blobs import blob_names
from omnigraph.store.checksums import FileSum
from omnigraph.store.damage import IndexFiles
from omnigraph.store.durable import version_file
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.membership import is_in
from omnigraph.store.tables import ADDRESS, KEY, Table
from omnigraph.store.take import blob_sizes, read_blob, take

BATCH_ROWS: Final = 8_192
PART_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of blobs in memory at once."""
_PAGE_DATA: Final = "page_data.lance"
_PAGE_LOOKUP: Final = "page_lookup.lance"


class NamedFile(NamedTuple):
    """A file that a version names: its path in the graph, its size if the version records it, and the rows that are read from it."""

    path: str
    size_bytes: int | None
    rows: int = 0

    @property
    def text(self) -> str:
        return f"{self.path}, with {counted(self.rows, 'row')}," if self.rows else self.path


class Flaw(NamedTuple):
    """A file that is unreadable or wrong, and the reason."""

    path: str
    reason: str


def named_files(table: Table) -> dict[int, list[NamedFile]]:
    """The data and deletion files of an open version, by fragment id. Includes files inherited from other native branches."""
    try:
        return _named_files(table)
    except (KeyError, TypeError) as error:  # a number in the version file changed
        raise table.failed(error, doing="list the files of") from error
    except raised_by_lance() as error:
        raise table.failed(error, doing="list the files of") from error


def _named_files(table: Table) -> dict[int, list[NamedFile]]:
    bases = table.dataset.base_paths()

    def directory(base: int | None) -> str:
        if base is None:
            return table.ref.home
        return home(table.ref.path, bases[base].name)

    found: dict[int, list[NamedFile]] = {}
    for fragment in (part.metadata for part in table.dataset.get_fragments()):
        rows = fragment.num_rows
        files = [NamedFile(f"{directory(file.base_id)}/data/{file.path}", file.file_size_bytes, rows) for file in fragment.files]
        if (deletions := fragment.deletion_file) is not None:
            files.append(NamedFile(f"{directory(deletions.base_id)}/{deletions.path(fragment.id)}", None))
        found[fragment.id] = files
    return found


def live_sums(table: Table) -> dict[str, FileSum]:
    """The recorded checksums of the files of an open version: its own, data and deletion files, blobs and indexes."""
    files = {file.path for files in named_files(table).values() for file in files}
    folders = {path.removesuffix(".lance") for path in files} | {index.directory for index in table.indexes}
    files.add(f"{table.ref.home}/{version_file(table.ref.version)}")
    return {path: table.sums[path] for path in list(table.sums) if path in files or path.rpartition("/")[0] in folders}


def unreadable_rows(table: Table, fragments: Mapping[int, list[NamedFile]]) -> Iterator[Flaw]:
    """Reads every column of every row of these fragments, except the bytes of blobs."""
    for fragment, files in fragments.items():
        where = ", ".join(file.path for file in files)
        part = table.dataset.get_fragment(fragment)
        try:
            scanner = table.dataset.scanner(fragments=[part], batch_size=BATCH_ROWS, blob_handling="blobs_descriptions")
            rows = 0
            for batch in scanner.to_reader():
                _validate(batch)
                rows += batch.num_rows
        except raised_by_lance() as error:
            yield Flaw(where, _first_line(error))
            continue
        gone = part.metadata.deletion_file.num_deleted_rows if part.metadata.deletion_file is not None else 0
        if rows != part.metadata.physical_rows - gone:
            yield Flaw(where, f"found {counted(rows, 'row')}, but {part.metadata.physical_rows:,} were written and {gone:,} deleted")


def unreadable_blobs(table: Table, fragments: Mapping[int, list[NamedFile]]) -> Iterator[Flaw]:
    """Reads every byte of every blob in these fragments."""
    names = blob_names(table.schema)
    if not names or not fragments:
        return
    sizes = blob_sizes(table, names)
    addresses = sizes.column(ADDRESS).to_numpy()
    wanted = np.isin(addresses >> np.uint64(32), np.array(list(fragments), np.uint64))
    for name in names:
        here = wanted & pc.is_valid(sizes.column(name)).to_numpy()
        lengths = pc.fill_null(sizes.column(name), 0).to_numpy()
        for part in _parts(addresses[here], lengths[here]):
            for address, reason in _unreadable(table, name, *part):
                where = ", ".join(file.path for file in fragments[int(address) >> 32])
                yield Flaw(where, f"a blob of column {name!r} cannot be read: {reason}")
                break  # one report for each part is enough


def _parts(addresses: Any, lengths: Any) -> Iterator[tuple[Any, Any]]:
    ends = np.cumsum(lengths)
    at = 0
    while at < len(addresses):
        stop = max(at + 1, int(np.searchsorted(ends, (ends[at - 1] if at else 0) + PART_BYTES, side="right")))
        yield addresses[at:stop], lengths[at:stop]
        at = stop


def _unreadable(table: Table, name: str, addresses: Any, lengths: Any) -> Iterator[tuple[int, str]]:
    try:
        if len(addresses) > 1:
            found = take(table, addresses, [KEY, name]).column(name)
            for address, length, wrong in zip(addresses, lengths, pc.binary_length(found).to_numpy() != lengths, strict=True):
                if wrong:
                    yield int(address), f"its size is not that in its row, {counted(length, 'byte')}"
            return
        for start in range(0, int(lengths[0]), PART_BYTES):
            read_blob(table, name, int(addresses[0]), start=start, length=min(PART_BYTES, int(lengths[0]) - start))
    except OmniGraphError as error:
        yield int(addresses[0]), error.message
    except raised_by_lance() as error:
        yield int(addresses[0]), _first_line(error)


# -- indexes


def untrue_index(table: Table, index: IndexFiles) -> str | None:
    """Reads every page of an index, and compares a B-tree with the rows it covers. Returns what is wrong, or None."""
    try:
        files = [file for file in table.root.objects.list(index.directory) if not file.endswith("/")]
        held = {file.rpartition("/")[2]: _index_file(table, file, keep=index.kind == "BTree") for file in files}
        if index.kind != "BTree" or not {_PAGE_DATA, _PAGE_LOOKUP} <= held.keys():
            return None
        return _untrue_pages(held[_PAGE_DATA], held[_PAGE_LOOKUP]) or _untrue_rows(table, index, held[_PAGE_DATA])
    except OmniGraphError as error:
        return error.message
    except raised_by_lance() as error:
        return _first_line(error)


def _index_file(table: Table, path: str, *, keep: bool) -> pa.Table:
    batches = LanceFileReader(table.root.of(path), table.root.storage_options or None).read_all(batch_size=BATCH_ROWS).to_batches()
    if keep:
        return batches.read_all()
    for batch in batches:
        _validate(batch)
    return pa.table({})


def _untrue_pages(data: pa.Table, lookup: pa.Table) -> str | None:
    """Checks the minimum, maximum and null count of each page. A lookup skips a page if they are wrong. Nulls come first in a page."""
    values = data.column("values").combine_chunks()
    size = int((lookup.schema.metadata or {}).get(b"batch_size", len(values) or 1))
    starts = np.arange(0, len(values), size)
    pages = lookup.sort_by("page_idx")
    if pages.column("page_idx").to_pylist() != list(range(len(starts))):
        return f"it lists {counted(len(pages), 'page')}, but has {len(starts):,}"
    ends = np.minimum(starts + size, len(values)) - 1
    nulls = [values.slice(start, size).null_count for start in starts]
    said = (pages.column("min"), pages.column("max"), pages.column("null_count"))
    true = (values.take(pa.array(starts)), values.take(pa.array(ends)), pa.array(nulls, pages.schema.field("null_count").type))
    if not all(_bits(one).equals(_bits(pa.chunked_array([other]))) for one, other in zip(said, true, strict=True)):
        return "the recorded range of a page differs from its values"
    return None


def _untrue_rows(table: Table, index: IndexFiles, data: pa.Table) -> str | None:
    """Checks that every covered row is in the index once, with its value. Deleted rows may remain in the index."""
    here = [part for part in table.dataset.get_fragments() if part.fragment_id in index.fragments]
    if not here:
        return None
    rows = table.dataset.scanner(columns=[index.column], fragments=here, with_row_address=True).to_table()
    rows = rows.sort_by(ADDRESS).combine_chunks()
    entries = data.filter(pa.array(is_in(data.column("ids"), rows.column(ADDRESS)))).sort_by("ids").combine_chunks()
    if not entries.column("ids").equals(rows.column(ADDRESS)):
        return f"its {counted(len(entries), 'entry')} and the {counted(len(rows), 'row')} that it covers do not match"
    if not _bits(entries.column("values")).equals(_bits(rows.column(index.column))):
        return "it holds a value that differs from the value in the row"
    return None


def _bits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats as integers, so that equal bits compare equal: a NaN is not equal to itself."""
    if not pa.types.is_floating(values.type):
        return values
    whole = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
    return pa.chunked_array([chunk.view(whole) for chunk in values.chunks], whole)


def _validate(batch: pa.RecordBatch) -> None:
    """Checks offsets and UTF-8. A datetime is stored as `date64`, and Arrow's full check accepts only whole days there."""
    for column in batch.columns:
        column.validate(full="date64" not in str(column.type))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
