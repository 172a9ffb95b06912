"""A root and a schema -> a new graph, in one commit; a root -> the existing graph, or an error that says what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import msgspec
import pyarrow as pa

from omnigraph.errors import ConflictError, FormatError, InvalidInput, Kind, NotFound, Outcome, StorageError
from omnigraph.faults import Fault, reach
from omnigraph.ids import MAIN, GraphId, TableId, new_commit_id, new_hex16, new_ulid
from omnigraph.manifest.model import FORMAT, Commit, CommitKind, Head, SchemaText, State, TableChange, TableRow, fact_rows, now, state_rows
from omnigraph.manifest.read import PATH, Manifest, newest_ledger
from omnigraph.manifest.registry import DIRECTORY as BRANCHES
from omnigraph.manifest.registry import Branch
from omnigraph.store.checksums import FileSum, grouped
from omnigraph.store.durable import sync_directory, version_file
from omnigraph.store.ledger import Ledger, SwapLost, create_ledger
from omnigraph.store.objects import probe_local
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, create_table

FORMAT_STAMP: Final = b"omnigraph:format"
GRAPH_STAMP: Final = b"omnigraph:graph"
SCHEMA_COPY: Final = "_schema.pg"
UNFINISHED_COPY: Final = "__copying"

log = logging.getLogger(__name__)


class NewTable(msgspec.Struct, frozen=True):
    """A table to create: its id, its name for people, its directory (`nodes` or `edges`) and its columns."""

    id: TableId
    alias: str
    directory: str
    schema: pa.Schema

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.id}"


Fill = Callable[[NewTable, Table], Table]


def new_table_id(type_id: str) -> TableId:
    """Return a table id: the type id and a new incarnation. A type that is dropped and added again gets another table."""
    return TableId(f"{type_id}-{new_hex16()}")


def create_graph(
    root: Root,
    *,
    schema: SchemaText,
    tables: Sequence[NewTable] = (),
    actor: str | None = None,
    message: str | None = None,
    fill: Fill | None = None,
) -> Manifest:
    """Create a graph. Its tables are created first; they become part of a graph by the one commit that creates `__manifest`.

    `fill` writes rows into a new table and returns the version that contains them.
    """
    if fill is None:  # a copy has checked this in `unfinished_copy`, and its marker is in the directory
        _refuse_occupied(root)
    existed = root.is_there()
    if root.is_local:
        probe_local(root.objects)
    made: list[str] = []
    try:
        reach(Fault.INIT_BEFORE_TABLES)
        rows = []
        for table in tables:
            made.append(table.path)
            rows.append(_create_filled(root, table, fill))
            reach(Fault.INIT_BETWEEN_TABLES)
        reach(Fault.INIT_BEFORE_MANIFEST)
        graph_id = GraphId(new_ulid())
        ledger = _create_manifest(root, graph_id, schema, rows, actor=actor, message=message)
    except Exception as error:
        if _may_exist(error):
            raise
        _withdraw(root, made, existed=existed)
        if isinstance(error, SwapLost):
            raise _already_initialized(root) from error
        raise
    reach(Fault.INIT_AFTER_MANIFEST)
    write_schema_copy(root, schema)
    return Manifest(root, graph_id=graph_id, main=ledger)


def open_graph(root: Root, *, writable: bool = True) -> Manifest:
    """Open the graph at a root. Raises if there is none, or if this release cannot work with it (L-05)."""
    try:
        ledger = newest_ledger(root, Branch.main())
    except NotFound as error:
        raise NotFound(
            Kind.NOT_A_GRAPH,
            f"there is no graph at {root.uri}: it contains no {PATH}; check the path, or create a graph with `omnigraph init`",
            path=root.uri,
        ) from error
    graph_id = _check_stamps(root, ledger)
    _refuse_unfinished(root)
    if writable and root.is_local:
        probe_local(root.objects)
    return Manifest(root, graph_id=graph_id, main=ledger)


def write_schema_copy(root: Root, schema: SchemaText) -> None:
    """Write main's schema as a file for people and tools. The file is derived data, so a failure is logged and not raised."""
    try:
        root.objects.put(SCHEMA_COPY, schema.source.encode())
    except StorageError as error:
        log.warning("cannot refresh %s/%s: %s", root.uri, SCHEMA_COPY, error)


# -- copies


@contextmanager
def unfinished_copy(root: Root, *, of: str) -> Iterator[None]:
    """Copy a graph into an empty root inside this block.

    Until the block succeeds, the root cannot be opened as a graph. If the block fails, the root is emptied.
    """
    existed = root.is_there()
    if found := root.objects.list(""):
        if root.objects.exists(f"{PATH}/_versions"):
            raise _already_initialized(root)
        raise InvalidInput(
            Kind.NOT_EMPTY, f"{root.uri} is not empty ({', '.join(found[:3])}); copy to an empty or a new directory", path=root.uri
        )
    if root.objects.put_if_absent(UNFINISHED_COPY, of.encode(), sync=True) is None:
        raise _already_initialized(root)
    try:
        yield
    except Exception:
        _withdraw_copy(root, existed=existed)
        raise
    root.objects.delete(UNFINISHED_COPY)
    sync_directory(root, "")


def _withdraw_copy(root: Root, *, existed: bool) -> None:
    """Remove everything: the root was empty before. The marker is removed last. What cannot be removed is logged, and cannot be opened."""
    try:
        for name in root.objects.list(""):
            if name.endswith("/"):
                root.objects.delete_prefix(name.rstrip("/"))
            elif name != UNFINISHED_COPY:
                root.objects.delete(name)
        root.objects.delete(UNFINISHED_COPY)
        root.remove_if_empty(BRANCHES)  # a withdrawn branch leaves its directory
        if not existed:
            root.remove_if_empty()
    except StorageError as error:
        log.warning("a copy to %s failed, and its files could not be removed: %s", root.uri, error)


def _refuse_unfinished(root: Root) -> None:
    if root.objects.exists(UNFINISHED_COPY):
        raise NotFound(
            Kind.NOT_A_GRAPH,
            f"a copy to {root.uri} was not finished; remove the files in that directory and copy again",
            path=root.uri,
        )


# -- creation


def _create_manifest(
    root: Root, graph_id: GraphId, schema: SchemaText, rows: Sequence[TableRow], *, actor: str | None, message: str | None
) -> Ledger:
    versions = root.checksums.take_versions(f"{row.ref.home}/{version_file(row.version)}" for row in rows)
    sums = {**root.checksums.of(row.ref.home for row in rows), **{path: FileSum(value) for path, value in versions.items()}}
    checksums, blocks = grouped(sums)
    genesis = Commit(
        id=new_commit_id(),
        parents=(),
        branch=MAIN,
        manifest_version=1,
        created_at=now(),
        kind=CommitKind.GENESIS,
        schema=schema.hash,
        actor=actor,
        message=message,
        tables=tuple(TableChange(row.id, row.alias, None, row.version) for row in rows),
        checksums=checksums,
        blocks=blocks,
    )
    root.checksums.forget(sums)
    head = Head(genesis.id, schema.hash, genesis.created_at, epoch=0)
    return create_ledger(
        root,
        PATH,
        state=state_rows(State(head, {row.id: row for row in rows}), born=1),
        facts=fact_rows(genesis, [schema], born=1),
        stamps={FORMAT_STAMP: str(FORMAT).encode(), GRAPH_STAMP: graph_id.encode()},
        uuid=str(uuid4()),
    )


def _create_filled(root: Root, table: NewTable, fill: Fill | None) -> TableRow:
    created = create_table(root, table.path, table.schema)
    filled = created if fill is None else fill(table, created)
    return TableRow(table.id, table.alias, table.path, filled.ref.version, rows=0 if fill is None else filled.count())


def _refuse_occupied(root: Root) -> None:
    if root.objects.exists(f"{PATH}/_versions"):
        raise _already_initialized(root)
    # Tables that an interrupted init left are ignored. Any other file in the directory may belong to another program.
    foreign = [name for name in root.objects.list("") if name.rstrip("/") not in ("nodes", "edges", PATH, SCHEMA_COPY)]
    if foreign:
        raise InvalidInput(
            Kind.NOT_EMPTY,
            f"{root.uri} contains other files ({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}) and no graph; "
            "choose an empty or a new directory",
            path=root.uri,
        )


def _already_initialized(root: Root) -> ConflictError:
    return ConflictError(
        Kind.ALREADY_INITIALIZED, f"there is a graph at {root.uri} already; open it, or choose another place", path=root.uri
    )


def _may_exist(error: Exception) -> bool:
    """Return whether the graph may exist although an error was raised, for example by the flush after its commit (RT-65, RT-67)."""
    return isinstance(error, StorageError) and error.outcome is not Outcome.DID_NOT_HAPPEN


def _withdraw(root: Root, made: Sequence[str], *, existed: bool) -> None:
    """Remove the files of a failed init. What cannot be removed is logged, so that the caller gets the first error."""
    try:
        for path in made:
            root.objects.delete_prefix(path)
        for directory in (*{path.rpartition("/")[0] for path in made}, f"{PATH}/data", PATH):
            root.remove_if_empty(directory)
        if not existed:
            root.remove_if_empty()
    except StorageError as error:
        log.warning("an init of %s failed, and its files could not be removed: %s", root.uri, error)


# -- opening


def _check_stamps(root: Root, ledger: Ledger) -> GraphId:
    stamps = ledger.metadata
    stamp, graph_id = stamps.get(FORMAT_STAMP), stamps.get(GRAPH_STAMP)
    if stamp is None or graph_id is None or not stamp.isdigit():
        raise FormatError(
            Kind.NOT_A_GRAPH, f"{root.of(PATH)} is a Lance dataset without the stamp of OmniGraph; it is not a graph", path=root.uri
        )
    found = int(stamp)
    if found > FORMAT:
        raise FormatError(
            Kind.FORMAT_NEWER,
            f"the graph at {root.uri} has format {found}, and this release reads format {FORMAT}; upgrade omnigraph",
            path=root.uri,
            found=found,
            supported=FORMAT,
        )
    if found < FORMAT:
        raise FormatError(
            Kind.FORMAT_OLDER,
            f"the graph at {root.uri} has format {found}, and this release reads format {FORMAT}; "
            "export it with the release that created it and load it into a new graph",
            path=root.uri,
            found=found,
            supported=FORMAT,
        )
    return GraphId(graph_id.decode())
