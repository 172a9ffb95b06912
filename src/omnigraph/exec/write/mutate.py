"""A planned mutation and a snapshot -> the final image of every touched table: rows to write and ids to delete.

Statements run in order, and each sees the effects of earlier ones: pending rows hide committed rows (Y-01..Y-04). The result is
checked once, after the last statement, so a value that a later statement replaces is not checked (Y-06). Nothing is committed here; the
write protocol stages the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import derive_ids, spell_tuples
from omnigraph.catalog.layout import ID, SOURCE, TARGET, unique_ends
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, NodeType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.compiled import QueryCall
from omnigraph.exec.embedding import SuppliesWanted, TextVectors, embed_targets, with_supplies
from omnigraph.exec.engine import Engine
from omnigraph.exec.external_blobs import ExternalBlobs
from omnigraph.exec.problems import REPORTED, Problem, ProblemCode
from omnigraph.exec.read.expressions import ColumnReader, evaluate
from omnigraph.exec.validate.arrays import true_at
from omnigraph.exec.validate.findings import error, merge_in_order
from omnigraph.exec.validate.integrity import CommittedTables, check_integrity
from omnigraph.exec.write.assignment import ONCE, Driving, assigned, once_each
from omnigraph.exec.write.embedded import embedded, kept_columns
from omnigraph.exec.write.image import Image
from omnigraph.exec.write.matches import as_they_are, combinations
from omnigraph.exec.write.protocol import Change as TableChange
from omnigraph.exec.write.protocol import Prepared, Request, Upsert, Written, write
from omnigraph.exec.write.selection import having_ids, matching_pairs, matching_rows, own, row_fields
from omnigraph.exec.write.ulids import mint
from omnigraph.ids import TableId, TypeId
from omnigraph.lang import located
from omnigraph.lang.query import Insertion
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.expr import Field, TypeRef
from omnigraph.plan.ir import Expr, Predicate
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.typed import ROW
from omnigraph.plan.writes import (
    Cascade,
    Change,
    DeleteBound,
    DeleteEdges,
    DeleteNodes,
    InsertEdge,
    InsertNode,
    MatchedChanges,
    MutationPlan,
    UpdateBound,
    UpdateRows,
    plan_mutation,
)
from omnigraph.store.arrays import Column, Places, joined, whole
from omnigraph.store.keys import addresses_of
from omnigraph.store.membership import Members
from omnigraph.store.stage import IN_LIST
from omnigraph.store.tables import one_of

NODES: Final = "affected_nodes"
EDGES: Final = "affected_edges"


def mutate(engine: Engine, call: QueryCall, request: Request) -> Written:
    """Run one mutation as one commit."""
    engine.parsed(call.source, call.name)  # an error in the text is raised before any lock is taken or any intent resolved
    earlier: list[_MutationRun] = []
    vectors, external = TextVectors(lambda: engine.embedder), ExternalBlobs(lambda: engine.external_blobs)

    def plan(snapshot: BranchSnapshot) -> MutationPlan:
        mutation = engine.compiled_mutation(call.source, call.name, snapshot)
        with located(call.source):
            return plan_mutation(mutation, bind_parameters(mutation.parameters, call.params), now_ms=call.now_ms)

    def prepare(snapshot: BranchSnapshot) -> Prepared:
        for run in earlier:  # the branch moved: nothing will name the files of the first attempt
            run.discard()
        earlier[:] = [_MutationRun(engine, snapshot, vectors, external)]
        return earlier[0].prepare(plan(snapshot))

    def read_ahead(snapshot: BranchSnapshot) -> None:
        _MutationRun(engine, snapshot, vectors, external).read_ahead(plan(snapshot))
        supply()

    def supply() -> None:
        vectors.embed()
        external.read_noted()

    return with_supplies(supply, lambda: write(engine, request, prepare, read_ahead=read_ahead))


class _MutationRun:
    """The state of a running mutation: an image of each table it has touched."""

    def __init__(self, engine: Engine, snapshot: BranchSnapshot, vectors: TextVectors, external: ExternalBlobs) -> None:
        self._engine: Final = engine
        self._vectors: Final = vectors
        self._external: Final = external
        self._catalog: Final[Catalog] = engine.catalog(snapshot)
        self._snapshot: Final = snapshot
        self._images: Final[dict[TypeId, Image]] = {}
        self._endpoints: Final = _Endpoints()
        self._affected: Final = {NODES: 0, EDGES: 0}

    def prepare(self, plan: MutationPlan) -> Prepared:
        """Run every statement against the snapshot. The result has at most one change per table."""
        try:
            for statement in plan.statements:
                if isinstance(statement, MatchedChanges):
                    self._apply_matched(statement)
                else:
                    self._apply(statement, ONCE)
            self._check()
            self._vectors.require()  # after the checks: texts of a refused mutation are not embedded
            changes = self._changes()
            if self._external.lacking:
                raise SuppliesWanted
            return Prepared(changes, counts=dict(self._affected))
        except BaseException:
            self.discard()
            raise

    def _apply_matched(self, statement: MatchedChanges) -> None:
        """Apply the changes in order. Each sees the entities as they are before it; a deleted entity as it was."""
        changed: dict[TypeId, Image] = {}
        for change, rows in combinations(self._engine, statement, self._snapshot, self._images):
            self._apply(change, rows if rows is ONCE else as_they_are(rows, statement, changed.values()))
            if not isinstance(change, DeleteNodes | DeleteEdges | DeleteBound):
                changed[change.type.id] = self._image(change.type)

    def read_ahead(self, plan: MutationPlan) -> None:
        """Look up the keys of inserted rows, so that the parts of the index that they need are in memory. Other statements read rows,
        which a later snapshot may no longer have.
        """
        inserts = [each for each in plan.statements if isinstance(each, InsertNode | InsertEdge) and each.insertion is Insertion.INSERT]
        if len(inserts) < len(plan.statements):
            return
        try:
            for statement in inserts:
                self._apply(statement, ONCE)
            for table, change in self._changes().items():
                if isinstance(change, Upsert):
                    addresses_of(self._engine.tables.open(self._snapshot.state.tables[table].ref), whole(change.rows.column(ID)))
        finally:
            self.discard()

    def discard(self) -> None:
        """Delete the files that were written."""
        for image in self._images.values():
            image.discard()

    def _changes(self) -> dict[TableId, TableChange]:
        self._external.begin()
        return {image.row.id: change for image in self._images.values() if (change := image.change(self._external)) is not None}

    def _apply(self, change: Change, rows: Driving) -> None:
        """Apply a change for each of these rows."""
        image = self._image(change.type)
        match change:
            case InsertNode():
                self._insert(image, change, rows, {})
            case InsertEdge():
                self._insert(image, change, rows, self._ends(image, change, rows))
            case UpdateRows(_, values, where) if rows is ONCE:
                self._update(image, values, where)
            case UpdateRows(_, values, where):
                self._update_pairs(image, values, where, rows)
            case UpdateBound(_, slot, values):
                self._set(image, whole(rows.columns[slot, ID]), assigned(image, values, rows.count, rows.read))
            case DeleteNodes(_, where, cascades):
                self._delete(image, self._found(image, where, rows), cascades)
            case DeleteEdges(_, where):
                self._delete(image, self._found(image, where, rows), ())
            case DeleteBound(_, slot, cascades):
                self._delete(image, pc.unique(whole(rows.columns[slot, ID])), cascades)
            case _:
                assert_never(change)

    def _count(self, entity: EntityType, rows: int) -> None:
        self._affected[NODES if isinstance(entity, NodeType) else EDGES] += rows

    def _check(self) -> None:
        """Refuse an image that breaks a rule. Committed rows are read only for types with rules that depend on other rows."""
        images = self._images.values()
        findings = merge_in_order((image.findings() for image in images), limit=REPORTED)
        if not findings:
            committed = CommittedTables(self._snapshot, self._engine.tables)
            findings = check_integrity([image.delta() for image in images], self._catalog, committed)
        if findings:
            raise error([found.problem() for found in findings.found], more=findings.more)
        self._refuse_forward_endpoints()

    # -- inserts

    def _insert(self, image: Image, change: InsertNode | InsertEdge, rows: Driving, ends: Mapping[str, pa.Array]) -> None:
        given = self._given_ids(image, change, rows)
        if change.insertion is Insertion.UPSERT and (given is not None or unique_ends(image.entity)):
            self._upsert(image, change, rows, ends, given)
            return
        _refuse_missing(image, change.values, rows.count)
        columns = {**ends, **assigned(image, change.values, rows.count, rows.read)}
        ids = mint(rows.count) if given is None else given
        if given is not None:
            first = once_each(image, given, columns)
            ids, columns = _taken(given, columns, first)
            if change.insertion is Insertion.CREATE:
                self._refuse_existing(image, ids)
        self._put(image, ids, {**columns, **embedded(self._vectors, image, columns, len(ids))}, new=given is None)

    def _given_ids(self, image: Image, change: InsertNode | InsertEdge, rows: Driving) -> pa.Array | None:
        """The ids that the keys or the text give, or None if they are minted. Properties of a row that is looked for are null."""
        read = _absent(image, rows)
        key = image.entity.key if isinstance(image.entity, NodeType) else None
        if key is not None:
            columns = assigned(image, {name: change.values[name] for name in key.columns}, rows.count, read)
            return whole(derive_ids(key, pa.table(columns)))
        if change.id is None:
            return None
        ids = evaluate(change.id, rows.count, read)
        if ids.null_count:
            raise InvalidInput(Kind.VALIDATION, f"'{ID}' cannot be null", property=ID)
        return ids

    def _put(self, image: Image, ids: pa.Array, columns: Mapping[str, Column], *, new: bool) -> None:
        """Add rows with these columns; others are null."""
        every = {ID: ids, **columns}
        made = [every[field.name] if field.name in every else pa.nulls(len(ids), field.type) for field in image.schema]
        self._count(image.entity, image.put([pa.table(made, schema=image.schema)], new=new))
        if isinstance(image.entity, NodeType):
            self._endpoints.insert(image.entity.id, ids)

    def _refuse_existing(self, image: Image, ids: pa.Array) -> None:
        for batch in having_ids(image, ids, [ID]):
            for id_ in batch.column(ID)[:1].to_pylist():
                message = f"{image.entity.kind} type '{image.entity.name}' already has this id: '{id_}'"
                raise error([Problem(ProblemCode.KEY_CONFLICT, message, image.entity.alias, id=id_)])

    # -- upserts

    def _upsert(
        self, image: Image, change: InsertNode | InsertEdge, rows: Driving, ends: Mapping[str, pa.Array], given: pa.Array | None
    ) -> None:
        """Change the rows that are found by id, or by their ends, and insert the others."""
        keys = given if given is not None else whole(spell_tuples(_ENDS, pa.table(ends)))
        old = self._old_rows(image, change.values, keys, by=(ID,) if given is not None else _ENDS, ends=ends)
        columns = {**ends, **assigned(image, change.values, rows.count, lambda field: old.read(field, rows))}
        first = once_each(image, keys, columns)
        keys, columns = _taken(keys, columns, first)
        old = old.take(first)
        if given is not None:
            _refuse_other_ends(image, keys, ends.keys(), columns, old)
        absent = old.places < 0
        _refuse_missing(image, change.values, int(absent.sum()))
        fresh = keys if given is not None else mint(len(keys))
        ids = pc.if_else(pa.array(absent), fresh, old.column(ID))
        kept = {name: old.column(name) for name in image.schema.names if name not in columns and name != ID}
        self._put(image, ids, {**columns, **kept, **embedded(self._vectors, image, columns, len(ids), old.column)}, new=False)

    def _old_rows(
        self, image: Image, values: Mapping[str, Expr], keys: pa.Array, *, by: Sequence[str], ends: Mapping[str, pa.Array]
    ) -> _OldRows:
        wanted = pc.unique(keys)
        if by == (ID,):
            ids = wanted
        else:
            where = one_of(SOURCE, pc.unique(ends[SOURCE])) if len(wanted) <= IN_LIST else None
            known = Members(wanted)
            batches = image.table.scan([ID, *by], where=where, overlay=image.overlay)
            ids = whole(joined((batch.column(ID).filter(pa.array(known.has(spell_tuples(by, batch)))) for batch in batches), pa.string()))
        columns, carried = _read_columns(image, values)
        schema = pa.schema([image.schema.field(name) for name in columns])
        found = pa.Table.from_batches([batch.select(columns) for batch in having_ids(image, ids, columns, carried=carried)], schema)
        return _OldRows(found, Members(whole(spell_tuples(by, found))).find(keys))

    # -- updates

    def _update(self, image: Image, values: Mapping[str, Expr], where: Predicate) -> None:
        """Change the rows for which the condition is true, batch by batch."""

        def changed() -> Iterator[pa.Table]:
            columns, carried = _read_columns(image, values)
            for batch in matching_rows(image, columns, where, carried=carried):
                yield self._changed(image, batch, assigned(image, values, batch.num_rows, partial(own, batch)))

        self._count(image.entity, image.put(changed(), new=False))

    def _update_pairs(self, image: Image, values: Mapping[str, Expr], where: Predicate, rows: Driving) -> None:
        read = {field.column for value in values.values() for field in row_fields(value)}
        parts = [
            pa.table({ID: pairs.columns[ROW, ID], **assigned(image, values, pairs.count, Driving(pairs.count, pairs.columns).read)})
            for pairs in matching_pairs(image, [ID, *read], where, rows)
        ]
        if parts:
            every = pa.concat_tables(parts)
            self._set(image, whole(every.column(ID)), {name: every.column(name) for name in values})

    def _set(self, image: Image, ids: pa.Array, values: Mapping[str, Column]) -> None:
        """Set properties of the entities with these ids, all of which exist."""
        ids, values = _taken(ids, values, once_each(image, ids, values))
        known = Members(ids)
        carried = [name for name in image.blobs if name not in values]

        def changed() -> Iterator[pa.Table]:
            for batch in having_ids(image, ids, kept_columns(image, values), carried=carried):
                at = pa.array(known.find(batch.column(ID)))
                yield self._changed(image, batch, {name: column.take(at) for name, column in values.items()})

        self._count(image.entity, image.put(changed(), new=False))

    def _changed(self, image: Image, batch: pa.RecordBatch, new: Mapping[str, Column]) -> pa.Table:
        """Rows with new values of some properties."""
        every = {**new, **embedded(self._vectors, image, new, batch.num_rows, batch.column)}
        return pa.table([every[name] if name in every else batch.column(name) for name in image.schema.names], schema=image.schema)

    # -- deletes

    def _found(self, image: Image, where: Predicate, rows: Driving) -> pa.Array:
        """The ids of the rows for which the condition is true, with any of the combinations."""
        if rows is ONCE:
            return whole(joined((batch.column(ID) for batch in matching_rows(image, [ID], where)), pa.string()))
        pairs = matching_pairs(image, [ID], where, rows)
        return pc.unique(whole(joined((part.columns[ROW, ID] for part in pairs), pa.string())))

    def _delete(self, image: Image, ids: pa.Array, cascades: tuple[Cascade, ...]) -> None:
        self._count(image.entity, image.remove(ids))
        if not len(ids):
            return
        known = Members(ids)
        for cascade in cascades:
            ends = [end for at_end, end in ((cascade.at_source, SOURCE), (cascade.at_target, TARGET)) if at_end]
            edges = self._image(cascade.type)
            self._count(edges.entity, sum(edges.remove(found) for found in self._edges_at(edges, ends, ids, known)))

    def _edges_at(self, image: Image, ends: list[str], nodes: pa.Array, known: Members) -> Iterator[Column]:
        """The ids of edges that start or end at one of these nodes. Few nodes use an index; very many use one full scan."""
        if len(nodes) <= IN_LIST:
            for end in ends:  # each scan is without the edges that the one before deleted
                yield image.table.scan([ID], where=one_of(end, nodes), overlay=image.overlay).read_all().column(ID)
            return
        batches = image.table.scan([ID, *ends], overlay=image.overlay)
        met = (batch.filter(pa.array(np.any([known.has(batch.column(end)) for end in ends], axis=0))) for batch in batches)
        yield joined((batch.column(ID) for batch in met), pa.string())

    # -- images and ends

    def _image(self, type_: TypeRef) -> Image:
        if (image := self._images.get(type_.id)) is None:
            entity = self._catalog.by_id(type_.id)
            assert isinstance(entity, (NodeType, EdgeType))
            row = self._snapshot.table_of(type_.id, name=type_.name)
            image = self._images[type_.id] = Image(entity, row, self._engine.tables.open(row.ref), self._snapshot)
        return image

    def _ends(self, image: Image, change: InsertEdge, rows: Driving) -> dict[str, pa.Array]:
        assert isinstance(image.entity, EdgeType)
        ends = {}
        for end, name, node, value in (
            (SOURCE, "from", image.entity.source, change.source),
            (TARGET, "to", image.entity.target, change.target),
        ):
            ids = ends[end] = evaluate(value, rows.count, _absent(image, rows))
            if ids.null_count:
                raise InvalidInput(Kind.VALIDATION, f"edge endpoint '{name}' cannot be null", property=name)
            if not (isinstance(value, Field) and value.entity):  # a node that a match bound exists
                self._endpoints.use(end, self._node(node), ids)
        return ends

    def _node(self, name: str) -> NodeType:
        node = self._catalog.node(name)
        assert node is not None
        return node

    def _refuse_forward_endpoints(self) -> None:
        """Refuse an edge whose endpoint is inserted only by a later statement."""
        for end, node, ids in self._endpoints.forward():
            row = self._snapshot.table_of(node.id, name=node.name)
            committed = self._engine.tables.open(row.ref).scan([ID], where=one_of(ID, ids)).read_all().column(ID)
            for id_ in ids.filter(pa.array(~Members(committed).has(ids)))[:1].to_pylist():
                raise error([Problem(ProblemCode.ENDPOINT, f"{end} '{id_}' not found in {node.name}", property=end)])


_ENDS: Final = (SOURCE, TARGET)


class _Uses(NamedTuple):
    """Ids at one end of inserted edges, and the steps at which they were used."""

    end: str
    node: NodeType
    steps: list[int]
    ids: list[pa.Array]


class _Endpoints:
    """The ends of inserted edges and the ids of inserted nodes, each with the step at which it came."""

    def __init__(self) -> None:
        self._inserted: Final[dict[TypeId, tuple[list[int], list[pa.Array]]]] = {}
        self._used: Final[dict[tuple[str, TypeId], _Uses]] = {}
        self._step = 0

    def insert(self, node: TypeId, ids: pa.Array) -> None:
        self._step += 1
        steps, held = self._inserted.setdefault(node, ([], []))
        steps.append(self._step)
        held.append(ids)

    def use(self, end: str, node: NodeType, ids: pa.Array) -> None:
        """Note endpoints that must be committed, or inserted before."""
        self._step += 1
        uses = self._used.setdefault((end, node.id), _Uses(end, node, [], []))
        uses.steps.append(self._step)
        uses.ids.append(ids)

    def forward(self) -> Iterator[tuple[str, NodeType, pa.Array]]:
        """The endpoints that were used before they were inserted. They may be committed."""
        for end, node, used, ids in self._used.values():
            inserted, nodes = self._inserted.get(node.id, ([], []))
            if not inserted or inserted[-1] < used[0]:
                continue
            places = Members(joined(nodes, pa.string())).find(joined(ids, pa.string()))
            late = (places >= 0) & (_repeated(inserted, nodes)[places] > _repeated(used, ids))
            if late.any():
                yield end, node, pc.unique(whole(joined(ids, pa.string())).filter(pa.array(late)))


def _repeated(steps: list[int], ids: list[pa.Array]) -> Places:
    """The step of each id."""
    return np.repeat(np.array(steps, np.int64), [len(part) for part in ids])


class _OldRows(NamedTuple):
    """Rows before an upsert, and for each row of the upsert its place among them, or -1."""

    rows: pa.Table
    places: Places

    def column(self, name: str) -> pa.Array:
        """A column for each row of the upsert; null where there is no row yet."""
        return whole(self.rows.column(name).take(pa.array(self.places, mask=self.places < 0)))

    def read(self, field: Field, rows: Driving) -> Column:
        return self.column(field.column) if field.binding == ROW else rows.read(field)

    def take(self, places: Places) -> _OldRows:
        return _OldRows(self.rows, self.places[places])


def _absent(image: Image, rows: Driving) -> ColumnReader:
    """Reads the combinations, and nulls for the properties of a row that is not there."""

    def read(field: Field) -> Column:
        return pa.nulls(rows.count, image.schema.field(field.column).type) if field.binding == ROW else rows.read(field)

    return read


def _taken(ids: pa.Array, columns: Mapping[str, Column], places: Places) -> tuple[pa.Array, dict[str, Column]]:
    if len(places) == len(ids):
        return ids, dict(columns)
    at = pa.array(places)
    return ids.take(at), {name: column.take(at) for name, column in columns.items()}


def _read_columns(image: Image, values: Mapping[str, Expr]) -> tuple[list[str], list[str]]:
    """The columns that a change of some properties reads, and those among them that are blobs."""
    read = {field.column for value in values.values() for field in row_fields(value)}.union(kept_columns(image, values))
    return [name for name in image.schema.names if name in read], [name for name in image.blobs if name not in values]


def _refuse_missing(image: Image, values: Mapping[str, Expr], count: int) -> None:
    """Refuse new rows without a required property. The vector of a text that is given is computed, or refused there."""
    computed = {target.name for target in embed_targets(image.entity) if target.source in values}
    missing = [each.name for each in image.entity.properties if not each.nullable and each.name not in values and each.name not in computed]
    if count and missing:
        named = ", ".join(f"'{name}'" for name in missing)
        noun = "property" if len(missing) == 1 else "properties"
        raise InvalidInput(Kind.VALIDATION, f"missing required {noun} {named}", property=missing[0], type=image.entity.alias)


def _refuse_other_ends(image: Image, ids: pa.Array, ends: Iterable[str], columns: Mapping[str, Column], old: _OldRows) -> None:
    """Refuse an upsert that would move an edge that exists."""
    for end in ends:
        moved = true_at(pc.not_equal(old.column(end), whole(columns[end])))
        if len(moved):
            name, id_ = "from" if end == SOURCE else "to", ids[int(moved[0])].as_py()
            message = f"cannot change the endpoint '{name}' of edge {image.entity.name} '{id_}' — delete and re-insert instead"
            raise InvalidInput(Kind.VALIDATION, message, type=image.entity.alias, id=id_, property=name)
