"""A planned mutation and a snapshot -> the final image of every touched table: rows to upsert and ids to delete.

Statements run in order, and each sees the effects of earlier ones: pending rows hide committed rows (Y-01..Y-04). The result is
checked once, after the last statement, so a value that a later statement replaces is not checked (Y-06). Nothing is written here; the
write protocol stages the result.
"""

from __future__ import annotations

from typing import Final, NamedTuple, assert_never

import numpy as np
import pyarrow as pa

from omnigraph.catalog.keys import derive_ids
from omnigraph.catalog.layout import ID, SOURCE, TARGET, table_schema
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import blob_properties, charge_carried, decode_blob, is_external, refuse_external
from omnigraph.exec.compiled import QueryCall
from omnigraph.exec.engine import Engine
from omnigraph.exec.problems import REPORTED, Problem, ProblemCode
from omnigraph.exec.read.predicate import sql
from omnigraph.exec.validate.findings import error, merge_in_order
from omnigraph.exec.validate.integrity import CommittedTables, Delta, RowsInMemory, check_integrity
from omnigraph.exec.validate.value_rules import check_values
from omnigraph.exec.write.protocol import Append, Change, DeleteKeys, Prepared, Request, Upsert, Written, write
from omnigraph.ids import TableId, TypeId, new_ulid
from omnigraph.lang import located
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.expr import TypeRef, Value
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.writes import Cascade, DeleteEdges, DeleteNodes, InsertEdge, InsertNode, MutationPlan, UpdateRows, Write, plan_mutation
from omnigraph.store.arrays import Column, joined, whole
from omnigraph.store.keys import addresses_of
from omnigraph.store.membership import Members, is_in
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import Overlay, Tables, Where, one_of

NODES: Final = "affected_nodes"
EDGES: Final = "affected_edges"


def mutate(engine: Engine, call: QueryCall, request: Request) -> Written:
    """Run one mutation as one commit."""
    engine.parsed(call.source, call.name)  # an error in the text is raised before any lock is taken or any intent resolved

    def plan(snapshot: BranchSnapshot) -> MutationPlan:
        mutation = engine.compiled_mutation(call.source, call.name, snapshot)
        with located(call.source):
            return plan_mutation(mutation, bind_parameters(mutation.parameters, call.params), now_ms=call.now_ms)

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        return prepare_mutation(plan(snapshot), engine.catalog(snapshot), snapshot, engine.tables)

    def read_ahead(snapshot: BranchSnapshot) -> None:
        read_keys_ahead(plan(snapshot), engine.catalog(snapshot), snapshot, engine.tables)

    return write(engine, request, prepare, read_ahead=read_ahead)


def prepare_mutation(plan: MutationPlan, catalog: Catalog, snapshot: BranchSnapshot, tables: Tables) -> Prepared:
    """Run every statement against the snapshot. The result has at most one change per table."""
    run = _MutationRun(catalog, snapshot, tables)
    for statement in plan.statements:
        run.apply(statement)
    run.check()
    return Prepared(run.changes(), counts={NODES: run.affected_nodes, EDGES: run.affected_edges})


def read_keys_ahead(plan: MutationPlan, catalog: Catalog, snapshot: BranchSnapshot, tables: Tables) -> None:
    """Look up the keys of inserted rows, so that the parts of the index that they need are in memory. Other statements read rows, which
    a later snapshot may no longer have.
    """
    if not all(isinstance(statement, (InsertNode, InsertEdge)) for statement in plan.statements):
        return
    run = _MutationRun(catalog, snapshot, tables)
    for statement in plan.statements:
        run.apply(statement)
    for table, change in run.changes().items():
        if isinstance(change, Upsert):
            addresses_of(tables.open(snapshot.state.tables[table].ref), whole(change.rows.column(ID)))


class _Image:
    """One table as the mutation leaves it: upserted rows and deleted ids. A mutation never has both (rule D2, W-15)."""

    def __init__(self, entity: EntityType, row: TableRow) -> None:
        self.entity = entity
        self.row = row
        self.schema: Final[pa.Schema] = table_schema(entity)
        self._layers: list[pa.Table] = []
        self.deleted: pa.ChunkedArray = joined([], pa.string())
        self.all_new = True
        """Every pending row has an id minted here, so no committed row can have the same id."""
        self.blobs: Final = blob_properties(entity)
        self._external: dict[bytes, str] = {}
        """Blob URIs by ticket. The ticket stands for the URI in the rows until the last statement has run."""
        self.inserted: set[str] = set()

    def put(self, rows: pa.Table, *, new: bool) -> None:
        """Add pending rows, with distinct ids."""
        self._layers.append(rows)
        self.all_new = self.all_new and new

    @property
    def pending(self) -> pa.Table:
        """The pending rows; of several with the same id, the last (W-14). Layers are merged on read because inserts are frequent."""
        if len(self._layers) > 1:
            rows = pa.concat_tables(self._layers).combine_chunks()
            places = pa.table({ID: rows.column(ID), "place": pa.array(np.arange(len(rows)))})
            last = places.group_by(ID, use_threads=False).aggregate([("place", "max")])
            self._layers = [rows.take(last.column("place_max"))]
        return self._layers[0] if self._layers else self.schema.empty_table()

    def remove(self, ids: Column) -> int:
        """Add ids to delete and return their number. They come from a scan that hides ids deleted before (W-21)."""
        self.deleted = joined([self.deleted, ids], pa.string())
        return len(ids)

    def blob(self, text: str) -> bytes:
        """The bytes that a text encodes, or, if the text is a URI, a ticket for it."""
        if not is_external(text):
            return decode_blob(text)
        ticket = new_ulid().encode()
        self._external[ticket] = text
        return ticket

    def _refuse_external(self, rows: pa.Table) -> None:
        """Refuse external URIs in the final rows. A URI that a later statement replaced is not an error (W-39)."""
        tickets = pa.array(self._external, pa.large_binary())
        for name in self.blobs if self._external else ():
            for ticket in whole(rows.column(name).filter(pa.array(is_in(rows.column(name), tickets))))[:1]:
                refuse_external(self._external[ticket.as_py()])

    def delta(self) -> Delta:
        return Delta(self.entity, RowsInMemory(self.pending), self.deleted, minted=self.all_new, cascaded=True)

    def change(self) -> Change | None:
        if len(self.deleted):
            return DeleteKeys(self.deleted)
        if not len(rows := self.pending):
            return None
        self._refuse_external(rows)
        return Append(rows) if self.all_new else Upsert(rows)


class _MutationRun:
    """The state of a running mutation: an image of each table it has touched."""

    def __init__(self, catalog: Catalog, snapshot: BranchSnapshot, tables: Tables) -> None:
        self._catalog = catalog
        self._snapshot = snapshot
        self._tables = tables
        self._images: dict[TypeId, _Image] = {}
        self._ends: list[_End] = []
        self.affected_nodes = 0
        self.affected_edges = 0

    def changes(self) -> dict[TableId, Change]:
        return {image.row.id: change for image in self._images.values() if (change := image.change()) is not None}

    def apply(self, statement: Write) -> None:
        match statement:
            case InsertNode(type_, values):
                self._insert_node(self._image(type_), values)
            case InsertEdge(type_, source, target, values):
                self._insert_edge(self._image(type_), source, target, values)
            case UpdateRows(type_, values, where):
                self._update(self._image(type_), values, sql(where))
            case DeleteNodes(type_, where, cascades):
                self._delete_nodes(self._image(type_), sql(where), cascades)
            case DeleteEdges(type_, where):
                self.affected_edges += self._delete(self._image(type_), sql(where))
            case _:
                assert_never(statement)

    def check(self) -> None:
        """Refuse an image that breaks a rule. Committed rows are read only for types with rules that depend on other rows."""
        images = self._images.values()
        findings = merge_in_order((check_values(image.entity, image.pending) for image in images if len(image.pending)), limit=REPORTED)
        if not findings:
            committed = CommittedTables(self._snapshot, self._tables)
            findings = check_integrity([image.delta() for image in images], self._catalog, committed)
        if findings:
            raise error([found.problem() for found in findings.found], more=findings.more)
        self._refuse_forward_endpoints()

    # -- statements

    def _insert_node(self, image: _Image, values: dict[str, Value]) -> None:
        assert isinstance(image.entity, NodeType)
        key = image.entity.key
        # The planner accepts a missing `@embed` vector if its source is given, but nothing computes the vector.
        for property_ in image.entity.properties:
            if not property_.nullable and property_.name not in values:
                raise InvalidInput(Kind.VALIDATION, f"missing required property '{property_.name}'", property=property_.name)
        row = _row(image, {ID: "", **values})
        new_id = pa.array([new_ulid()]) if key is None else whole(derive_ids(key, row))
        image.put(row.set_column(0, image.schema.field(ID), new_id), new=key is None)
        image.inserted.add(new_id[0].as_py())
        self.affected_nodes += 1

    def _insert_edge(self, image: _Image, source: str, target: str, values: dict[str, Value]) -> None:
        assert isinstance(image.entity, EdgeType)
        for end, name, id_ in ((SOURCE, image.entity.source, source), (TARGET, image.entity.target, target)):
            self._note_endpoint(_End(end, name, id_))
        image.put(_row(image, {ID: new_ulid(), SOURCE: source, TARGET: target, **values}), new=True)
        self.affected_edges += 1

    def _update(self, image: _Image, values: dict[str, Value], where: Where) -> None:
        carried = [name for name in image.blobs if name not in values]
        charge_carried(self._tables.open(image.row.ref), carried, where)
        read = [name for name in image.schema.names if name not in values]
        matched = self._scan(image, read, where)
        if not len(matched):
            return
        for name, value in values.items():
            field = image.schema.field(name)
            column = pa.repeat(pa.scalar(_plain(image, name, value), field.type), len(matched))
            matched = matched.append_column(field, column)
        image.put(matched.select(image.schema.names), new=False)
        if isinstance(image.entity, NodeType):
            self.affected_nodes += len(matched)
        else:
            self.affected_edges += len(matched)

    def _delete_nodes(self, image: _Image, where: Where, cascades: tuple[Cascade, ...]) -> None:
        matched = self._scan(image, [ID], where).column(ID)
        self.affected_nodes += image.remove(matched)
        if not len(matched):
            return
        known = Members(matched)
        for cascade in cascades:
            ends = [end for at_end, end in ((cascade.at_source, SOURCE), (cascade.at_target, TARGET)) if at_end]
            self.affected_edges += self._delete_edges_at(self._image(cascade.type), ends, matched, known)

    def _delete_edges_at(self, image: _Image, ends: list[str], nodes: pa.ChunkedArray, known: Members) -> int:
        """Delete the edges that start or end at one of these nodes. Few nodes use an index; very many use one full scan."""
        if len(nodes) <= IN_LIST:
            return sum(self._delete(image, one_of(end, whole(nodes))) for end in ends)
        batches = self._reader(image, [ID, *ends], None)
        met = (batch.filter(pa.array(np.any([known.has(batch.column(end)) for end in ends], axis=0))) for batch in batches)
        return image.remove(joined((batch.column(ID) for batch in met), pa.string()))

    def _delete(self, image: _Image, where: Where) -> int:
        return image.remove(self._scan(image, [ID], where).column(ID))

    # -- reading

    def _image(self, type_: TypeRef) -> _Image:
        if (image := self._images.get(type_.id)) is None:
            entity = self._catalog.by_id(type_.id)
            assert isinstance(entity, (NodeType, EdgeType))
            image = self._images[type_.id] = _Image(entity, self._snapshot.table_of(type_.id, name=type_.name))
        return image

    def _scan(self, image: _Image, columns: list[str], where: Where | None) -> pa.Table:
        return self._reader(image, columns, where).read_all()

    def _reader(self, image: _Image, columns: list[str], where: Where | None) -> pa.RecordBatchReader:
        """Committed and pending rows under one filter, without rows deleted by earlier statements."""
        overlay = Overlay(rows=image.pending, deleted=image.deleted)
        return self._tables.open(image.row.ref).scan(columns, where=where, overlay=overlay)

    def _note_endpoint(self, end: _End) -> None:
        """Note an endpoint that no earlier statement inserted. It must be committed, even if a later statement inserts it."""
        if end.id not in self._node(end).inserted:
            self._ends.append(end)

    def _refuse_forward_endpoints(self) -> None:
        """Refuse an edge whose endpoint is inserted only by a later statement."""
        for end in self._ends:
            image = self._node(end)
            if end.id in image.inserted and not self._tables.open(image.row.ref).count(one_of(ID, pa.array([end.id]))):
                raise error([Problem(ProblemCode.ENDPOINT, f"{end.column} '{end.id}' not found in {end.type}", property=end.column)])

    def _node(self, end: _End) -> _Image:
        node = self._catalog.node(end.type)
        assert node is not None
        return self._image(TypeRef(node.kind, node.name, node.id))


class _End(NamedTuple):
    """One endpoint of an inserted edge: the column, its node type and the node's id."""

    column: str
    type: str
    id: str


def _row(image: _Image, values: dict[str, Value]) -> pa.Table:
    columns = [pa.array([_plain(image, field.name, values.get(field.name))], field.type) for field in image.schema]
    return pa.table(columns, schema=image.schema)


def _plain(image: _Image, name: str, value: Value) -> object:
    """A value in the form that Arrow accepts: a tuple becomes a list, a blob becomes bytes."""
    if isinstance(value, str) and name in image.blobs:
        return image.blob(value)
    return list(value) if isinstance(value, tuple) else value
