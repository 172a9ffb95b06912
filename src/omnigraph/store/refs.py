"""A table version and a name -> a native branch of the Lance table: creation, removal, and data files written before it exists."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, Final

import lance
import msgspec
import pyarrow as pa
from lance.fragment import DataFile, write_fragments

from omnigraph.errors import ConflictError, InvalidInput, Kind
from omnigraph.faults import Fault, reach
from omnigraph.ids import new_hex16
from omnigraph.store.blobs import blobs_last
from omnigraph.store.durable import settle_visible, version_file
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.root import Root
from omnigraph.store.stage import conformed
from omnigraph.store.tables import FILE_FORMAT, Table, TableRef, open_dataset, own_handle

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_DOTS: Final = re.compile(r"\.{2,}")  # Lance refuses two in a row
_LABEL: Final = 40
_PLAIN: Final = re.compile(r"[A-Za-z0-9/._ !$&'()+,;=:@-]*")
"""Paths that Lance takes literally when it creates a native branch."""


def fresh_ref(branch: str) -> str:
    """A new, unused native name: a readable part of the graph branch's name, and 16 hex digits.

    Because names are never reused, an interrupted fork does not block another one. A writer that was suspended while its branch was
    deleted and created again commits to an abandoned directory, and not to the new branch.
    """
    label = _DOTS.sub(".", _UNSAFE.sub("_", branch)).strip("._-")[:_LABEL] or "branch"
    return f"{label}-{new_hex16()}"


def ref_file(name: str) -> str:
    return f"_refs/branches/{name}.json"


def create_ref(table: Table, name: str) -> Table:
    """Creates native branch `name` from exactly this version. Returns the branch, at the same version."""
    _check(name)
    ref = TableRef(table.ref.path, name, table.ref.version)
    try:
        with _plainly_named(table) as dataset:
            dataset.create_branch(name, (table.ref.branch or "main", table.ref.version))
    except raised_by_lance() as error:
        raise lance_error(error, doing=f"create native branch {name} of", path=table.root.of(table.ref.path)) from error
    settle_visible(table.root, [f"{ref.path}/{ref_file(name)}", f"{ref.home}/{version_file(ref.version)}"])
    return Table(table.root, ref, open_dataset(table.root, ref), sums=table.sums)


@contextmanager
def _plainly_named(table: Table) -> Iterator[Any]:
    """A handle of its own on the table, by a path that Lance takes literally: if need be, through a temporary link to the graph.

    Lance refuses every other use of a handle while it creates a native branch from it, and other threads read with that of the table.

    While it creates a native branch, Lance escapes the path once more, and so creates `/home/j%C3%BCrgen` beside `/home/jürgen`, or fails
    because it may not. It also takes `?` for the end of the path. The paths that it records are never used (`bases.py`), and neither
    is a link that a killed process leaves.
    """
    if not table.root.is_local or _PLAIN.fullmatch(table.root.uri):
        yield own_handle(table).dataset
        return
    with TemporaryDirectory(prefix="omnigraph-") as directory:
        os.symlink(table.root.uri, link := f"{directory}/graph")
        version = table.ref.version if table.ref.branch is None else None
        reach(Fault.REF_LINKED)
        yield lance.dataset(f"{link}/{table.ref.path}", version=version)
        reach(Fault.REF_CREATED)


def _check(name: str) -> None:
    # Deleting a branch with an empty name would delete the files of all branches.
    if not name.strip(".") or _UNSAFE.search(name):
        rule = f"{name!r} is not a valid name of a native branch; use only letters, digits, '.', '_' and '-'"
        raise InvalidInput(Kind.INVALID_ARGUMENT, rule, name=name)


def keep_ref(root: Root, path: str, name: str) -> None:
    """Checks and flushes the reference of a native branch that another writer created, before anything depends on it."""
    settle_visible(root, [f"{path}/{ref_file(name)}"])


def has_ref(root: Root, path: str, name: str) -> bool:
    return root.objects.exists(f"{path}/{ref_file(name)}")


def is_referenced(root: Root, path: str, name: str) -> bool:
    """Whether the reference of a native branch exists and can be read."""
    return _reference(root, path, name) is not None


def native_refs(root: Root, path: str) -> list[str]:
    """The native branches of a table. Costs one listing."""
    directory = ref_file("").rpartition("/")[0]
    found = root.objects.list(f"{path}/{directory}")
    return [name.rpartition("/")[2].removesuffix(".json") for name in found if name.endswith(".json")]


def delete_ref(root: Root, path: str, name: str) -> None:
    """Removes a native branch and its files. Succeeds if one of the two, or both, are already gone (P-14).

    Refused if another native branch was made from it, because that one reads its files. Lance's own call is not used: it first reads
    every reference of the table, and fails on one that a power failure left empty.
    """
    _check(name)
    if children := sorted(child for child in native_refs(root, path) if child != name and parent_ref(root, path, child) == name):
        message = f"other native branches of {path} were made from {name!r} ({', '.join(children[:5])}); delete those first"
        raise ConflictError(Kind.BRANCH_HAS_CHILDREN, message, table=path, children=children)
    root.objects.delete(f"{path}/{ref_file(name)}")
    root.objects.delete_prefix(f"{path}/tree/{name}")


class _Reference(msgspec.Struct, rename="camel"):
    """The part that we use of Lance's reference to a native branch."""

    parent_branch: str | None = None
    parent_version: int = 0


def origins(root: Root, path: str, *, without: Collection[str] = ()) -> dict[str | None, set[int]]:
    """The versions from which the native branches of a table were made, by their lines. Reads each reference once."""
    found: dict[str | None, set[int]] = {}
    for name in native_refs(root, path):
        if name not in without and (ref := _reference(root, path, name)) is not None:
            found.setdefault(ref.parent_branch, set()).add(ref.parent_version)
    return found


def fork_points(table: Table) -> frozenset[int]:
    """The versions of this line from which native branches were made. Each names all files that those branches inherit from it."""
    found = (_reference(table.root, table.ref.path, name) for name in native_refs(table.root, table.ref.path))
    return frozenset(ref.parent_version for ref in found if ref is not None and ref.parent_branch == table.ref.branch)


def forked_from(root: Root, path: str, name: str) -> int | None:
    """The version that a native branch was made from. None if its reference is missing or incomplete."""
    found = _reference(root, path, name)
    return None if found is None else found.parent_version


def parent_ref(root: Root, path: str, name: str) -> str | None:
    """The native branch that this one was made from. A branch with an incomplete reference was never used, so it has no parent."""
    found = _reference(root, path, name)
    return None if found is None else found.parent_branch


def _reference(root: Root, path: str, name: str) -> _Reference | None:
    """The reference of a native branch. None if it is missing or incomplete: such a branch was never used."""
    body = root.objects.get_if_exists(f"{path}/{ref_file(name)}")
    try:
        return None if body is None else msgspec.json.decode(body, type=_Reference)
    except msgspec.DecodeError:
        return None


def write_before_ref(table: Table, name: str, rows: pa.Table, *, fields: Any = None) -> list[Any]:
    """Writes data files of a native branch that does not exist yet, for `stage.put_files` after its creation.

    `rows` are as the table stores them, or as the Lance schema `fields` does, if the commit that names them gives the table its columns.

    Such files number their fields from zero. The table may not: a dropped column leaves a gap, and values would silently appear in the
    wrong column. So the field ids are mapped to those of the table.
    """
    _check(name)
    if not len(rows):
        return []
    directory = table.root.of(f"{table.ref.path}/tree/{name}")
    ordered = blobs_last(conformed(table, rows) if fields is None else rows)
    try:
        written = write_fragments(ordered, directory, data_storage_version=FILE_FORMAT, storage_options=table.root.storage_options or None)
    except raised_by_lance() as error:
        raise lance_error(error, doing="write to", path=directory) from error
    return mapped(written, ordered.schema.names, table.dataset.lance_schema if fields is None else fields)


def mapped(written: Iterable[Any], columns: Iterable[str], schema: Any) -> list[Any]:
    """Fragments whose files number their fields from zero, with the field ids that a Lance schema has for these columns."""
    fields = {field.name(): field for field in schema.fields()}
    ids = list(_field_ids(fields[column] for column in columns))
    return [dataclasses.replace(fragment, files=[_mapped(file, ids) for file in fragment.files]) for fragment in written]


def _mapped(file: Any, ids: list[int]) -> Any:
    return DataFile(
        file.path,
        [ids[position] for position in file.fields],
        file.column_indices,
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
    )


def _field_ids(fields: Any) -> Iterator[int]:
    """Field ids in the order in which a writer numbers them: parents before their children."""
    for field in fields:
        yield field.id()
        yield from _field_ids(field.children())
