"""An open graph and an empty location -> a second graph at that location with the same content, or none.

A copy has every branch with the rows it shows, blobs included, and every point where one branch was created from another. Without
these points a merge in the copy would mistake later commits of main for changes of the branch. Other history and everything that can
be rebuilt (indexes, small fragments) is not copied. Tables are copied one by one, in parts, as Lance data. A table that a branch
shares with its parent is shared in the copy too.

The location becomes a graph when it has a `__manifest` and no mark of an unfinished copy (`manifest.birth`). A process that dies
during a copy leaves files, but no graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec
import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, Kind, NotFound, OmniGraphError, StorageError
from omnigraph.exec.blobs import blob_properties
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.export import rows_in_order
from omnigraph.grid import counted
from omnigraph.ids import MAIN, BranchName, TableId
from omnigraph.manifest.birth import NewTable, create_graph, unfinished_copy, write_schema_copy
from omnigraph.manifest.branches import create_branch, delete_branch
from omnigraph.manifest.model import CommitKind, SchemaText, State, TableRow
from omnigraph.manifest.publish import Publication, publish
from omnigraph.manifest.read import PATH, BranchSnapshot, Manifest
from omnigraph.manifest.registry import Branch, living_branches, read_branch
from omnigraph.store import alter, stage
from omnigraph.store.held import holding
from omnigraph.store.refs import create_ref, delete_ref, fresh_ref
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, Tables, create_table

FILE_BYTES: Final = 64 * 1024 * 1024
"""How much of a table is held in memory before it is written as a data file."""


class CopyProgress(msgspec.Struct, frozen=True):
    """A part of a table has been written: the table, and its rows so far."""

    where: str
    rows: int


OnCopyProgress = Callable[[CopyProgress], None]


def copy_graph(
    engine: Engine,
    target: Root,
    *,
    branch: BranchName | None = None,
    actor: str | None = None,
    on_progress: OnCopyProgress | None = None,
) -> Manifest:
    """Copy every branch. With `branch`, copy only what that branch shows; it becomes the main branch of the copy."""
    source = engine.manifest
    _refuse_place(source.root, target)
    line = (
        _plan(source, Branch.main(), living_branches(source.root.objects))
        if branch is None
        else _Line(MAIN, (_Stop(source.snapshot(branch), ()),))
    )
    with ExitStack() as held, unfinished_copy(target, of=source.root.uri):
        for snapshot in _snapshots(line):  # cleanup keeps them until they are copied
            held.enter_context(holding(source.root, TableRef(PATH, snapshot.branch.native, snapshot.version)))
        copy = _Copy(engine, target, actor=actor, on_progress=on_progress)
        try:
            made = copy.create(line.stops[0].snapshot)
        except OmniGraphError as error:
            if _exists(source, shown := line.stops[0].snapshot.branch):
                raise
            raise NotFound(Kind.BRANCH_NOT_FOUND, f"branch {shown.name!r} was deleted while it was copied", branch=shown.name) from error
        copy.follow(made, line)
    return made


class _Stop(msgspec.Struct, frozen=True):
    """A snapshot of a branch that the copy must have: where other branches were created from it, or its head."""

    snapshot: BranchSnapshot
    children: tuple[_Line, ...]


class _Line(msgspec.Struct, frozen=True):
    """One branch, from its first snapshot to its head."""

    name: BranchName
    stops: tuple[_Stop, ...]


def _snapshots(line: _Line) -> Iterator[BranchSnapshot]:
    for stop in line.stops:
        yield stop.snapshot
        for child in stop.children:
            yield from _snapshots(child)


def _plan(source: Manifest, branch: Branch, living: Sequence[Branch]) -> _Line:
    """Plan the copy of a branch and its children before the first row is read. A child that is deleted meanwhile is left out."""
    head = source.snapshot(branch.name)
    lines: dict[int, list[_Line]] = {head.version: []}
    for child in living:
        if (child.parent, child.parent_native) == (branch.name, branch.native):
            try:
                line = _plan(source, child, living)
            except OmniGraphError:
                if _exists(source, child):
                    raise
            else:
                lines.setdefault(child.forked_at, []).append(line)
    stops = []
    for version in sorted(lines):
        snapshot = head if version == head.version else source.snapshot(branch.name, at=version)
        stops.append(_Stop(snapshot, tuple(lines[version])))
    if any(stop.snapshot.branch != branch for stop in stops):
        raise NotFound(
            Kind.BRANCH_NOT_FOUND, f"branch {branch.name!r} was deleted and created again while it was copied", branch=branch.name
        )
    return _Line(branch.name, tuple(stops))


def _exists(source: Manifest, branch: Branch) -> bool:
    """True if this branch, not a later one of the same name, still exists. Deletion removes children first, then the name, then files."""
    return branch.name == MAIN or read_branch(source.root.objects, branch.name) == branch


def _refuse_place(source: Root, target: Root) -> None:
    if f"{target.uri}/".startswith(f"{source.uri}/"):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{target.uri} is inside the graph to copy; choose a location outside it", path=target.uri
        )


class _Copy:
    """The state of one copy: source, target and author."""

    def __init__(self, engine: Engine, target: Root, *, actor: str | None, on_progress: OnCopyProgress | None) -> None:
        self._on_progress = on_progress
        self._engine = engine
        self._source = engine.manifest
        self._tables = engine.tables
        self._target = target
        self._targets = Tables(target)
        self._actor = actor

    def create(self, snapshot: BranchSnapshot) -> Manifest:
        """Create the target graph with its first commit."""
        shown = self._entities(snapshot)
        new = [NewTable(row.id, row.alias, row.path.partition("/")[0], table_schema(shown[row.id])) for row in _live(snapshot)]

        def fill(table: NewTable, empty: Table) -> Table:
            return self._fill(empty, snapshot.state.tables[table.id], shown[table.id])

        schema = self._schema(snapshot)
        return create_graph(self._target, schema=schema, tables=new, actor=self._actor, message=self._message(snapshot), fill=fill)

    def follow(self, made: Manifest, line: _Line) -> None:
        """Advance a branch of the copy from its first stop through all others, then do the same for its children."""
        for before, stop in zip((None, *line.stops), line.stops, strict=False):
            if before is not None:
                self._advance(made, line.name, before.snapshot, stop.snapshot)
            for child in stop.children:
                create_branch(made, child.name, from_=line.name)
        for stop in line.stops:
            for child in stop.children:
                try:
                    self._advance(made, child.name, stop.snapshot, child.stops[0].snapshot)
                    self.follow(made, child)
                except OmniGraphError:
                    if _exists(self._source, child.stops[0].snapshot.branch):
                        raise
                    _leave_out(made, child)

    def _advance(self, made: Manifest, name: BranchName, before: BranchSnapshot, after: BranchSnapshot) -> None:
        """Commit to a branch of the copy what the source branch changed between two snapshots."""
        if before.commit == after.commit:
            return
        branch, _, state = made.look(name)
        with self._discard_on_error() as unpublished:
            rows = list(self._changed(branch, state, before, after, unpublished))
            schema = self._schema(after) if after.state.head.schema != before.state.head.schema else None
        publication = Publication(CommitKind.COPY, tables=tuple(rows), schema=schema, actor=self._actor, message=self._message(after))
        publish(made, publication, branch=name)
        if schema is not None and name == MAIN:
            write_schema_copy(self._target, schema)

    def _changed(
        self, branch: Branch, state: State, before: BranchSnapshot, after: BranchSnapshot, unpublished: list[Table]
    ) -> Iterator[TableRow]:
        """The manifest rows that change in a branch of the copy. New tables and forks are added to `unpublished`."""
        shown = self._entities(after)
        for row in after.state.tables.values():
            here = state.tables.get(row.id)
            if row.dropped:
                if here is not None and not here.dropped:
                    yield msgspec.structs.replace(here, dropped=True)
            elif here is None:
                unpublished.append(create_table(self._target, row.path, table_schema(shown[row.id])))
                filled = self._fill(unpublished[-1], row, shown[row.id])
                yield TableRow(row.id, row.alias, row.path, filled.ref.version, row.rows, owner=branch.native)
            elif row.ref != before.state.tables[row.id].ref:
                yield self._replace(here, row, shown[row.id], branch, unpublished)
            elif row.alias != here.alias:
                yield msgspec.structs.replace(here, alias=row.alias)

    @contextmanager
    def _discard_on_error(self) -> Iterator[list[Table]]:
        """Collect new tables and forks before the publish. On an error they are deleted."""
        unpublished: list[Table] = []
        try:
            yield unpublished
        except OmniGraphError:
            for table in unpublished:
                if table.ref.branch is not None:
                    delete_ref(table.root, table.ref.path, table.ref.branch)
                else:
                    self._target.objects.delete_prefix(table.ref.path)
            raise

    def _replace(self, here: TableRow, row: TableRow, entity: EntityType, branch: Branch, unpublished: list[Table]) -> TableRow:
        """Replace the content of a table in a branch of the copy. An inherited table is forked first."""
        table = self._targets.open(here.ref)
        if here.owner != branch.native:
            table = create_ref(table, fresh_ref(branch.name))
            unpublished.append(table)
        # Columns are matched by the property id in their metadata: the name may belong to another property now.
        if (staged := alter.emptied(table, table_schema(entity))) is not None:
            table = stage.commit(staged)
        moved = self._fill(table, row, entity)
        return TableRow(row.id, row.alias, here.path, moved.ref.version, row.rows, native=moved.ref.branch, owner=branch.native)

    def _fill(self, table: Table, row: TableRow, entity: EntityType) -> Table:
        """Fill a table with exactly the rows of a source table."""
        fragments, copied = [], 0
        for rows in _parts(self._tables.open(row.ref), entity):
            fragments += stage.write_files(table, rows)
            copied += rows.num_rows
            if self._on_progress is not None:
                self._on_progress(CopyProgress(row.alias, copied))
        found = sum(fragment.physical_rows for fragment in fragments)
        if found != row.rows:
            raise StorageError(
                Kind.CORRUPT,
                f"{row.alias} has {counted(found, 'row')}, but the graph records {row.rows:,}; run `omnigraph verify`",
                table=row.path,
            )
        staged = stage.put_files(table, fragments, whole=True)
        return table if staged is None else stage.commit(staged)

    def _entities(self, snapshot: BranchSnapshot) -> Mapping[TableId, EntityType]:
        catalog = self._engine.catalog(snapshot)
        return {snapshot.table_of(entity.id, name=entity.name).id: entity for entity in catalog.entities}

    def _schema(self, snapshot: BranchSnapshot) -> SchemaText:
        return self._source.schema(snapshot.state.head.schema, branch=snapshot.branch.name)

    def _message(self, snapshot: BranchSnapshot) -> str:
        uri, graph_id = self._source.root.uri, self._source.graph_id
        return f"copied from {uri} (graph {graph_id}), branch {snapshot.branch.name!r} at commit {snapshot.commit}"


def _leave_out(made: Manifest, line: _Line) -> None:
    """Delete a branch from the copy, its children first."""
    for stop in line.stops:
        for child in stop.children:
            _leave_out(made, child)
    if read_branch(made.root.objects, line.name) is not None:
        delete_branch(made, line.name)


def _live(snapshot: BranchSnapshot) -> Iterator[TableRow]:
    return (row for row in sorted(snapshot.state.tables.values(), key=lambda row: row.alias) if not row.dropped)


def _parts(table: Table, entity: EntityType) -> Iterator[pa.Table]:
    """A table's rows in parts of the size of a data file. Parts with blobs are cut by the sizes of the blobs."""
    if blob_properties(entity):
        yield from rows_in_order(table, entity)
        return
    waiting: list[pa.RecordBatch] = []
    for batch in table.scan(table_schema(entity).names):
        waiting.append(batch)
        if sum(part.nbytes for part in waiting) > FILE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)
