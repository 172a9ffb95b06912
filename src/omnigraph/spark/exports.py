"""One snapshot -> a directory of NDJSON or Parquet files, with one subdirectory for each type, written by executors.

On a disk the files are written to a temporary directory, which is renamed at the end. An object store has no renames: there the export
is complete if `_SUCCESS` exists. Both have that file. It names the commit and every file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from omnigraph.catalog import encode
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.history.export import chosen_types
from omnigraph.graph import Graph
from omnigraph.ids import MAIN, new_hex16
from omnigraph.spark.messages import Format, Place, Unload, UnloadedPart, UnloadPart, results
from omnigraph.spark.options import At, open_for_reading
from omnigraph.spark.runner import Runner
from omnigraph.store.deep import live_sums
from omnigraph.store.fragments import groups
from omnigraph.store.objects import Objects, open_objects, wrap_os_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUCCESS: Final = "_SUCCESS"


class ExportReceipt(msgspec.Struct, frozen=True):
    """The result of an export. `_SUCCESS` holds it as JSON. `files` are relative to the directory."""

    folder: str
    format: Format
    branch: str
    commit_id: str
    rows: Mapping[str, int]
    files: tuple[str, ...]


def export(
    spark: SparkSession,
    graph: str | os.PathLike[str] | Graph,
    folder: str | os.PathLike[str],
    *,
    format: str = "ndjson",  # noqa: A002 - Spark's name
    branch: str = MAIN,
    at: At | None = None,
    types: Iterable[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> ExportReceipt:
    """Write a snapshot to `folder`, a new or empty directory, as files such as `nodes/Person/part-....ndjson`.

    The lines are those of `Graph.export`, in the order of the tables and not sorted by id. All executors must have access to the
    directory under this name. `storage_options` apply to it, and to the graph unless `graph` is an open graph.
    """
    try:
        chosen = Format(format)
    except ValueError:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"format {format!r} is none of {', '.join(Format)}", format=format) from None
    from_ = open_for_reading(graph, storage_options)
    snapshot = from_.engine.snapshot(branch, at)
    catalog = from_.engine.catalog(snapshot)
    found = chosen_types(snapshot, catalog, None if types is None else list(types))
    target = _Target(folder, storage_options)
    opened = [(entity, from_.engine.tables.open(row.ref)) for entity, row in found]
    parts = tuple(UnloadPart(entity.id, table.ref, group.ids) for entity, table in opened for group in groups(table))
    sums = {path: expected for _, table in opened for path, expected in live_sums(table).items()}
    root = from_.engine.root
    job = Unload(Place(root.uri, root.storage_options), encode(catalog), Place(target.staged, storage_options or {}), chosen, parts, sums)
    try:
        with from_.engine.reading(snapshot, at):
            done = sorted(results(Runner(spark).on_parts(job), UnloadedPart), key=lambda one: one.part)
        counts = {entity.alias: sum(one.rows for one in done if parts[one.part].type_id == entity.id) for entity, _ in found}
        files = tuple(name for one in done for name in one.files)
        result = ExportReceipt(target.folder, chosen, snapshot.branch.name, snapshot.commit, counts, files)
        target.finish(result)
    except BaseException:
        target.clear()
        raise
    return result


class _Target:
    """The directory of an export, and the temporary directory that is renamed to it."""

    def __init__(self, folder: str | os.PathLike[str], storage_options: Mapping[str, str] | None) -> None:
        final = open_objects(os.fspath(folder), storage_options=storage_options)
        self.folder: Final = final.uri
        if final.list(""):
            message = f"{final.uri} is not empty; an export needs a directory of its own"
            raise InvalidInput(Kind.NOT_EMPTY, message, path=final.uri)
        self.staged: Final = f"{final.uri}.{new_hex16()}.tmp" if final.is_local else final.uri
        self._objects: Final[Objects] = open_objects(self.staged, storage_options=storage_options)

    def finish(self, result: ExportReceipt) -> None:
        """Delete the files of other task attempts, write `_SUCCESS` and, on a disk, rename the directory."""
        kept = set(result.files)
        for top in self._objects.list(""):
            for type_ in self._objects.list(top.rstrip("/")):
                for file in self._objects.list(type_.rstrip("/")):
                    if file not in kept:
                        self._objects.delete(file)
        self._objects.put(SUCCESS, msgspec.json.format(msgspec.json.encode(result)) + b"\n")
        if self._objects.is_local:
            try:
                os.rename(self.staged, self.folder)  # fails unless the directory is empty or missing
            except OSError as error:
                raise wrap_os_error(error, doing="name", path=self.folder) from error

    def clear(self) -> None:
        if self._objects.is_local:
            shutil.rmtree(self.staged, ignore_errors=True)
        else:
            self._objects.delete_prefix("")
