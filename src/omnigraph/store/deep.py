"""A table -> the files that its version names; and, read to the last byte, those that cannot be read or do not say the truth.

Lance's files have no checksums. A file that is gone or cut short shows by its size. A changed byte shows where the decoder stumbles
over it, and in a B-tree also where it says something else than the rows do. A changed byte of a value that still decodes is a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from lance.file import LanceFileReader

from omnigraph.errors import OmniGraphError
from omnigraph.store.blobs import blob_names
from omnigraph.store.damage import IndexFiles
from omnigraph.store.failure import raised_by_lance
from omnigraph.store.tables import ADDRESS, KEY, Table, TableRef, open_dataset
from omnigraph.store.take import blob_sizes, read_blob, take

BATCH_ROWS: Final = 8_192
PART_BYTES: Final = 16 * 1024 * 1024
"""How many bytes of blobs are in memory at once."""
_PAGE_DATA: Final = "page_data.lance"
_PAGE_LOOKUP: Final = "page_lookup.lance"


class NamedFile(NamedTuple):
    """A file that a version names, by its path below the graph; its size where the version records it."""

    path: str
    size_bytes: int | None


class Flaw(NamedTuple):
    """A file that cannot be read or does not say the truth."""

    path: str
    reason: str


def named_files(table: Table) -> dict[int, list[NamedFile]]:
    """By fragment, the data and deletion files of an open version: its own, and those it inherits from other native branches."""
    bases = table.dataset.base_paths()

    def home(base: int | None) -> str:
        if base is None:
            return table.ref.home
        path = str(bases[base].path)
        return path[path.rindex(table.ref.path) :]

    found: dict[int, list[NamedFile]] = {}
    for fragment in (part.metadata for part in table.dataset.get_fragments()):
        files = [NamedFile(f"{home(file.base_id)}/data/{file.path}", file.file_size_bytes) for file in fragment.files]
        if (deletions := fragment.deletion_file) is not None:
            files.append(NamedFile(f"{home(deletions.base_id)}/{deletions.path(fragment.id)}", None))
        found[fragment.id] = files
    return found


def unreadable_versions(table: Table) -> Iterator[Flaw]:
    """Every version file of the table's native branch up to the open version, opened."""
    root, ref = table.root, table.ref
    for name in root.objects.list(f"{ref.home}/_versions"):
        number = name.rpartition("/")[2].removesuffix(".manifest")
        if not name.endswith(".manifest") or not number.isdigit() or (version := 2**64 - 1 - int(number)) > ref.version:
            continue
        try:
            open_dataset(root, TableRef(ref.path, ref.branch, version))
        except OmniGraphError as error:
            yield Flaw(name, error.message)
        except raised_by_lance() as error:
            yield Flaw(name, _first_line(error))


def unreadable_rows(table: Table, fragments: Mapping[int, list[NamedFile]]) -> Iterator[Flaw]:
    """Every column of every row of these fragments, read; the bytes of blobs apart."""
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
            yield Flaw(where, f"{rows} rows are there, {part.metadata.physical_rows} were written and {gone} deleted")


def unreadable_blobs(table: Table, fragments: Mapping[int, list[NamedFile]]) -> Iterator[Flaw]:
    """Every byte of every blob in these fragments, read."""
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
                break  # one for each part is enough to know


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
                    yield int(address), f"it has not the {length} bytes that its row says"
            return
        for start in range(0, int(lengths[0]), PART_BYTES):
            read_blob(table, name, int(addresses[0]), start=start, length=min(PART_BYTES, int(lengths[0]) - start))
    except OmniGraphError as error:
        yield int(addresses[0]), error.message
    except raised_by_lance() as error:
        yield int(addresses[0]), _first_line(error)


# -- indexes


def untrue_index(table: Table, index: IndexFiles) -> str | None:
    """Read every page of an index; what a B-tree says of the rows it covers is compared with them. None when all is well."""
    try:
        files = [file for file in table.root.objects.list(index.folder) if not file.endswith("/")]
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
    """A page says with which value it begins and ends, and how many nulls, which come first, it has: if that is wrong, it is passed by."""
    values = data.column("values").combine_chunks()
    size = int((lookup.schema.metadata or {}).get(b"batch_size", len(values) or 1))
    starts = np.arange(0, len(values), size)
    pages = lookup.sort_by("page_idx")
    if pages.column("page_idx").to_pylist() != list(range(len(starts))):
        return f"it names {len(pages)} pages, and has {len(starts)}"
    ends = np.minimum(starts + size, len(values)) - 1
    nulls = [values.slice(start, size).null_count for start in starts]
    said = (pages.column("min"), pages.column("max"), pages.column("null_count"))
    true = (values.take(pa.array(starts)), values.take(pa.array(ends)), pa.array(nulls, pages.schema.field("null_count").type))
    if not all(_bits(one).equals(_bits(pa.chunked_array([other]))) for one, other in zip(said, true, strict=True)):
        return "a page does not reach from and to the values that it says"
    return None


def _untrue_rows(table: Table, index: IndexFiles, data: pa.Table) -> str | None:
    """Every row that the index covers must be in it once, with its value; rows that are gone may be in it still."""
    here = [part for part in table.dataset.get_fragments() if part.fragment_id in index.fragments]
    if not here:
        return None
    rows = table.dataset.scanner(columns=[index.column], fragments=here, with_row_address=True).to_table()
    rows = rows.sort_by(ADDRESS).combine_chunks()
    entries = data.filter(pc.is_in(data.column("ids"), value_set=rows.column(ADDRESS).combine_chunks())).sort_by("ids").combine_chunks()
    if not entries.column("ids").equals(rows.column(ADDRESS)):
        return f"it has {len(entries)} entries for the {len(rows)} rows that it covers, or for others than those"
    if not _bits(entries.column("values")).equals(_bits(rows.column(index.column))):
        return "it has another value for a row than the row itself"
    return None


def _bits(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values so that equal bits are equal: a NaN is not equal to itself."""
    if not pa.types.is_floating(values.type):
        return values
    whole = pa.int32() if pa.types.is_float32(values.type) else pa.int64()
    return pa.chunked_array([chunk.view(whole) for chunk in values.chunks], whole)


def _validate(batch: pa.RecordBatch) -> None:
    """Offsets in order, texts that are texts. A moment is stored as a `date64`, of which Arrow's full check wants whole days."""
    for column in batch.columns:
        column.validate(full="date64" not in str(column.type))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
