"""A root and a schema -> a new graph, in one commit; a root -> the graph that is there, or a refusal that says what to do."""

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
from omnigraph.manifest.registry import FOLDER as BRANCHES
from omnigraph.manifest.registry import Branch, list_branches
from omnigraph.store.durable import sync_folder
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
    """A table to be born: its identity, what people call it, its folder (`nodes` or `edges`) and its columns."""

    id: TableId
    alias: str
    folder: str
    schema: pa.Schema

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.id}"


Fill = Callable[[NewTable, Table], Table]


def new_table_id(type_id: str) -> TableId:
    """A type's identity and a fresh incarnation: dropped and added again, a type gets another table."""
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
    """Make a graph. Its tables come first and are nobody's until the one commit that makes `__manifest` names them.

    `fill` brings rows into a table that was just made, and gives back the version that holds them.
    """
    if fill is None:  # a copy has looked before it left its mark
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
    """The graph at a root, or the reason why this release must not touch it (L-05)."""
    try:
        ledger = newest_ledger(root, Branch.main())
    except NotFound as error:
        raise NotFound(
            Kind.NOT_A_GRAPH,
            f"there is no graph at {root.uri}: it has no {PATH} inside; check the path, or make one with `omnigraph init`",
            path=root.uri,
        ) from error
    graph_id = _check_stamps(root, ledger)
    _refuse_unfinished(root)
    if writable and root.is_local:
        probe_local(root.objects)
    manifest = Manifest(root, graph_id=graph_id, main=ledger)
    _refuse_moved(manifest)
    return manifest


def write_schema_copy(root: Root, schema: SchemaText) -> None:
    """Leave main's schema where people and tools look for it. Derived: a failure is logged, never raised."""
    try:
        root.objects.put(SCHEMA_COPY, schema.source.encode())
    except StorageError as error:
        log.warning("could not refresh %s/%s: %s", root.uri, SCHEMA_COPY, error)


# -- being copied


@contextmanager
def unfinished_copy(root: Root, *, of: str) -> Iterator[None]:
    """Until this block ends well, what is made at an empty place is no graph. If it fails, the place is empty again."""
    existed = root.is_there()
    if found := root.objects.list(""):
        if root.objects.exists(f"{PATH}/_versions"):
            raise _already_initialized(root)
        raise InvalidInput(Kind.NOT_EMPTY, f"{root.uri} is not empty ({', '.join(found[:3])}); copy to a new place", path=root.uri)
    if root.objects.put_if_absent(UNFINISHED_COPY, of.encode(), sync=True) is None:
        raise _already_initialized(root)
    try:
        yield
    except Exception:
        _withdraw_copy(root, existed=existed)
        raise
    root.objects.delete(UNFINISHED_COPY)
    sync_folder(root, "")


def _withdraw_copy(root: Root, *, existed: bool) -> None:
    """Everything here is ours: the place was empty. The mark goes last. What cannot be removed is logged, and is no graph."""
    try:
        for name in root.objects.list(""):
            if name.endswith("/"):
                root.objects.delete_prefix(name.rstrip("/"))
            elif name != UNFINISHED_COPY:
                root.objects.delete(name)
        root.objects.delete(UNFINISHED_COPY)
        root.remove_if_empty(BRANCHES)  # a branch that was begun and withdrawn leaves its folder
        if not existed:
            root.remove_if_empty()
    except StorageError as error:
        log.warning("a copy to %s failed and could not tidy up after itself: %s", root.uri, error)


def _refuse_unfinished(root: Root) -> None:
    if root.objects.exists(UNFINISHED_COPY):
        raise NotFound(
            Kind.NOT_A_GRAPH,
            f"a copy to {root.uri} was not finished; remove what lies there and copy again",
            path=root.uri,
        )


# -- being born


def _create_manifest(
    root: Root, graph_id: GraphId, schema: SchemaText, rows: Sequence[TableRow], *, actor: str | None, message: str | None
) -> Ledger:
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
    )
    head = Head(genesis.id, schema.hash, genesis.created_at, epoch=0, home=root.uri)
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
    # What an interrupted init leaves (tables nobody names) is no obstacle; anything else in the folder is somebody's.
    foreign = [name for name in root.objects.list("") if name.rstrip("/") not in ("nodes", "edges", PATH, SCHEMA_COPY)]
    if foreign:
        raise InvalidInput(
            Kind.NOT_EMPTY,
            f"{root.uri} holds other things ({', '.join(foreign[:3])}{', ...' if len(foreign) > 3 else ''}) and no graph; "
            "choose an empty or a new folder",
            path=root.uri,
        )


def _already_initialized(root: Root) -> ConflictError:
    return ConflictError(
        Kind.ALREADY_INITIALIZED, f"there is a graph at {root.uri} already; open it, or choose another place", path=root.uri
    )


def _may_exist(error: Exception) -> bool:
    """Did the graph come to be although an error was raised (e.g. the flush after its commit failed, RT-65, RT-67)?"""
    return isinstance(error, StorageError) and error.outcome is not Outcome.DID_NOT_HAPPEN


def _withdraw(root: Root, made: Sequence[str], *, existed: bool) -> None:
    """Leave nothing behind of an init that failed. What cannot be removed is logged: the first error is the one to see."""
    try:
        for path in made:
            root.objects.delete_prefix(path)
        for folder in (*{path.rpartition("/")[0] for path in made}, f"{PATH}/data", PATH):
            root.remove_if_empty(folder)
        if not existed:
            root.remove_if_empty()
    except StorageError as error:
        log.warning("an init of %s failed and could not tidy up after itself: %s", root.uri, error)


# -- being opened


def _check_stamps(root: Root, ledger: Ledger) -> GraphId:
    stamps = ledger.metadata
    stamp, graph_id = stamps.get(FORMAT_STAMP), stamps.get(GRAPH_STAMP)
    if stamp is None or graph_id is None or not stamp.isdigit():
        raise FormatError(
            Kind.NOT_A_GRAPH, f"{root.of(PATH)} is a Lance dataset without OmniGraph's stamp; this is not a graph of ours", path=root.uri
        )
    found = int(stamp)
    if found > FORMAT:
        raise FormatError(
            Kind.FORMAT_NEWER,
            f"the graph at {root.uri} has format {found}, this release reads format {FORMAT}: upgrade omnigraph",
            path=root.uri,
            found=found,
            supported=FORMAT,
        )
    if found < FORMAT:
        raise FormatError(
            Kind.FORMAT_OLDER,
            f"the graph at {root.uri} has format {found}, this release reads format {FORMAT}: "
            "export it with the release that made it and load it into a new graph",
            path=root.uri,
            found=found,
            supported=FORMAT,
        )
    return GraphId(graph_id.decode())


def _refuse_moved(manifest: Manifest) -> None:
    """Native branches hold absolute paths: moved, they break; copied, they silently read the original."""
    root = manifest.root
    home = manifest.look(MAIN)[2].head.home
    if home != root.uri and (branches := list_branches(root.objects)):
        raise FormatError(
            Kind.GRAPH_MOVED,
            f"the graph at {root.uri} has branches ({', '.join(branches[:3])}) that were made at {home}, and they only work there. "
            "Open it there, or copy it from there with `copy_to`",
            path=root.uri,
            home=home,
        )
