"""The changes from a base to another state, and a target -> the write that brings them into the target, checked; or conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.by_property import Sides, fitted_to
from omnigraph.exec.history.conflicts import DESCRIBED, Conflict, ConflictKind, Conflicts, Settlement, names, rule_conflicts
from omnigraph.exec.history.pairs import ABSENT, Side, candidates, changed, read_parts, shared_types, side_of
from omnigraph.exec.history.schemas import JointSchema
from omnigraph.exec.history.three_way import IncomingRows, TypePlan, changes_of, plan_type
from omnigraph.exec.validate.delta import Added, CommittedTables, Delta, RowsInMemory
from omnigraph.exec.validate.findings import Findings, merge_in_order
from omnigraph.exec.validate.integrity import check_integrity
from omnigraph.exec.validate.value_rules import check_values
from omnigraph.exec.write.protocol import Change, Patch
from omnigraph.ids import TableId, TypeId
from omnigraph.manifest.model import TableRow
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.arrays import joined, whole
from omnigraph.store.data_files import Shelf
from omnigraph.store.difference import Addresses
from omnigraph.store.membership import Members
from omnigraph.store.refs import fresh_ref
from omnigraph.store.tables import Table

HELD_BYTES: Final = 64 << 20
"""How many bytes of incoming rows of one type are held in memory. More are read from the other side as often as they are needed."""

INSERTED: Final = "inserted"
UPDATED: Final = "updated"
DELETED: Final = "deleted"


class Landing:
    """A three-way comparison of whole snapshots. `theirs` is brought into `ours`."""

    def __init__(
        self,
        engine: Engine,
        base: BranchSnapshot,
        theirs: BranchSnapshot,
        ours: BranchSnapshot,
        settlement: Settlement,
        *,
        crossing: Sequence[BranchSnapshot] = (),
        schema: JointSchema | Conflict | None = None,
    ) -> None:
        """`crossing` are the other bases after crossing merges. `schema` is that of the target afterwards, its own if it is None; a
        conflict of the schemas leaves nothing to compare.
        """
        refused = schema if isinstance(schema, Conflict) else None
        joint = schema if isinstance(schema, JointSchema) else JointSchema(engine.catalog(ours))
        self._engine: Final = engine
        self._theirs: Final = theirs
        self._ours: Final = ours
        self._catalog: Final = joint.catalog
        self._extended: Final = joint.extended
        self.schema: Final = joint.text
        """The schema that the target takes over, or None."""
        self._new: Final[list[Side]] = []
        self._shelves: Final[list[Shelf]] = []
        self._plans: Final[list[TypePlan]] = []
        self._held: Final[dict[TypeId, pa.Table]] = {}
        schema_conflicts = [] if refused is None else [refused]
        for type_id in shared_types(engine.catalog(theirs)) if refused is None else ():
            extended = joint.extended.get(type_id)
            first, second, third, *others = (
                _declared(side_of(engine, each, type_id), extended) for each in (base, theirs, ours, *crossing)
            )
            sides = Sides(first, second, third, type_id in joint.taken)
            if sides.adopts and sides.ours.entity is None:
                self._new.append(sides.theirs)
            elif not sides.adopts and (misfit := _misfit(sides)) is not None:
                schema_conflicts += [misfit] if changes_of(sides.base, sides.theirs) else []
            else:
                self._plans.append(plan_type(sides, settlement, crossing=others))
        self._schema_conflicts: Final = tuple(schema_conflicts)
        self.conflicts: Final = self._find_conflicts()
        if refused is None:
            refuse_choices(settlement, *self._plans)

    @property
    def counts(self) -> dict[str, int]:
        return {
            INSERTED: sum(plan.inserted for plan in self._plans),
            UPDATED: sum(plan.updated for plan in self._plans),
            DELETED: sum(len(plan.deleted) for plan in self._plans),
        }

    def changes(self) -> dict[TableId, Change]:
        """The change of each table. Many rows are written to files. Tables without a change are left out (NZ-04)."""
        try:
            changed = (plan for plan in self._plans if not plan.is_empty or plan.sides.entity.id in self._extended)
            own = dict(self._change(plan) for plan in changed if not self._alters(plan))
            return {**own, **self._rebased}
        except BaseException:
            self.discard()
            raise

    @property
    def adopted(self) -> tuple[TableRow, ...]:
        """The tables that the target takes over as they are: of new types, and of types with new columns that it has not changed."""
        new = [side.entity for side in self._new if side.entity is not None]
        altered = [plan.sides.entity for plan in self._plans if self._alters(plan)]
        rows = [self._theirs.table_of(entity.id, name=entity.name) for entity in (*new, *altered)]
        here, native = self._ours.state.tables, self._ours.branch.native
        taken = (row for row in rows if row.id not in self._rebased)
        return tuple(here[row.id].replaced_by(row, branch=native) if row.id in here else row for row in taken)

    @cached_property
    def _rebased(self) -> dict[TableId, Change]:
        """Tables with new columns that the target has changed, too: those of theirs, with the changes of the target."""
        changes: dict[TableId, Change] = {}
        for plan in self._plans:
            if not self._alters(plan):
                continue
            removed, rows = rebased(plan)
            patch = self._patch(plan.sides.theirs, removed, rows, native=fresh_ref(self._ours.branch.name))
            if len(removed) or patch.rows is not None or patch.fragments:
                row = self._theirs.table_of(plan.sides.entity.id, name=plan.sides.entity.name)
                changes[row.id] = msgspec.structs.replace(patch, of=row)
        return changes

    def _alters(self, plan: TypePlan) -> bool:
        """Whether the table gets new columns."""
        ours = plan.sides.ours.entity
        return (
            plan.sides.adopts and ours is not None and not table_schema(ours).equals(table_schema(plan.sides.entity), check_metadata=True)
        )

    def discard(self) -> None:
        """Delete the written files: no commit will reference them."""
        for shelf in self._shelves:
            shelf.clear()

    # -- conflicts

    def _find_conflicts(self) -> Conflicts:
        """Conflicts between rows first. Only if there are none are the rules of the schema checked (M-05)."""
        if count := self._between_rows_count:
            return Conflicts(tuple(islice(self._between_rows(), DESCRIBED)), count)
        findings = self._check(DESCRIBED)
        return Conflicts(tuple(rule_conflicts(findings.found)), findings.count)

    @property
    def _between_rows_count(self) -> int:
        return len(self._schema_conflicts) + sum(len(plan.conflicts) for plan in self._plans)

    def _between_rows(self) -> Iterator[Conflict]:
        yield from self._schema_conflicts
        for plan in self._plans:
            yield from plan.conflicts.described()

    def all_conflicts(self) -> Iterator[Conflict]:
        """Every conflict between rows, read in parts; or every rule of the schema that the merged graph would break."""
        if self._between_rows_count:
            return self._between_rows()
        found, count = self.conflicts.described, self.conflicts.count
        return iter(found if len(found) == count else rule_conflicts(self._check(count).found))

    def _check(self, limit: int) -> Findings:
        """Check the graph as it would be, like every other write. Up to `limit` problems are described; all are counted."""
        deltas = [Delta(plan.sides.entity, self._added(plan), plan.deleted) for plan in self._plans if not plan.is_empty]
        deltas += [Delta(side.entity, _WholeTable(side.table)) for side in self._new if side.entity is not None and side.table is not None]
        values = (
            check_values(delta.entity, pa.Table.from_batches([batch]), limit=limit)
            for delta in deltas
            if delta.added is not None
            for batch in delta.added.read(table_schema(delta.entity).names)
        )
        if findings := merge_in_order(values, limit=limit):
            return findings
        committed = _TargetTables(self._ours, self._engine.tables)
        return check_integrity(deltas, self._catalog, committed, limit=limit)

    # -- rows

    def _added(self, plan: TypePlan) -> Added | None:
        """The rows that come in, for the checks and for the write. They are held if they are few."""
        if not plan.inserted + plan.updated:
            return None
        held: list[pa.Table] = []
        size = 0
        for part in plan.rows():
            held.append(part)
            size += part.nbytes
            if size > HELD_BYTES:
                return IncomingRows(plan)
        rows = self._held[plan.sides.entity.id] = pa.concat_tables(held)
        return RowsInMemory(rows)

    def _change(self, plan: TypePlan) -> tuple[TableId, Change]:
        row = self._ours.table_of(plan.sides.entity.id, name=plan.sides.entity.name)
        native = fresh_ref(self._ours.branch.name) if row.owner != self._ours.branch.native else None
        held = self._held.get(plan.sides.entity.id)
        schema = table_schema(plan.sides.entity) if plan.sides.entity.id in self._extended else None
        rows = plan.rows() if held is None else iter([held])
        return row.id, self._patch(plan.sides.ours, plan.removed, rows, native=native, schema=schema)

    def _patch(
        self, side: Side, removed: Addresses, rows: Iterator[pa.Table], *, native: str | None, schema: pa.Schema | None = None
    ) -> Patch:
        """The change of a table. Rows that are too many to be held are written to files, for the native branch if there will be one.

        With `schema`, the table gets these columns.
        """
        assert side.table is not None
        files = _gathered(rows)
        first, second = next(files, None), next(files, None)
        if first is None or second is None:
            return Patch(removed, rows=first, schema=schema)
        shelf = Shelf(side.table, native=native, schema=schema)
        self._shelves.append(shelf)
        for part in (first, second):
            shelf.put(part)
        del first, second
        for part in files:
            shelf.put(part)
        return Patch(removed, fragments=tuple(shelf.fragments), native=native, schema=schema)


class _TargetTables(CommittedTables):
    """The rows of the target. A type that it does not have yet has none."""

    def rows(self, entity: EntityType) -> int:
        return super().rows(entity) if self._snapshot.state.table_of(entity.id) is not None else 0

    def scan(self, entity: EntityType, columns: Sequence[str], *, where: str | None = None) -> Iterator[pa.RecordBatch]:
        return super().scan(entity, columns, where=where) if self._snapshot.state.table_of(entity.id) is not None else iter(())


class _WholeTable(msgspec.Struct, frozen=True):
    """All rows of a table, as rows that come in."""

    table: Table

    @property
    def rows(self) -> int:
        return self.table.count()

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self.table.scan(columns)


def rebased(plan: TypePlan) -> tuple[Addresses, Iterator[pa.Table]]:
    """What makes the table of theirs the merged one: the rows that go, and those that only the target changed or that are merged by
    property, in parts.
    """
    sides, merged = plan.sides, plan.merged.entities.ids
    decided = whole(joined([plan.incoming.ids, merged], pa.string()))
    apart = changed(sides.ours, sides.theirs, candidates(sides.ours, sides.theirs))
    own = apart.at(~Members(decided).has(apart.ids))
    over = apart.at(Members(merged).has(apart.ids))
    parts = (fitted_to(sides.entity, sides.ours, part) for part in read_parts(sides.ours, own.before[own.before != ABSENT]))
    return np.concatenate([own.after[own.after != ABSENT], over.after]), chain(parts, plan.merged.parts())


def _declared(side: Side, extended: EntityType | None) -> Side:
    """A side as it would be with the declaration of the merged state, if both sides added properties to the type."""
    return side if extended is None or side.entity is None else side._replace(entity=extended)


def _gathered(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of about the size of a data file."""
    held: list[pa.Table] = []
    size = 0
    for part in parts:
        if len(part):
            held.append(part)
        size += part.nbytes
        if size > HELD_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def _misfit(sides: Sides) -> Conflict | None:
    """A type whose rows the target cannot hold: it has no such type, or not all of its properties."""
    theirs, ours = sides.theirs.entity, sides.ours.entity
    assert theirs is not None
    if ours is None:
        return _schema_conflict(theirs, f"the target has no type {theirs.name}", ())
    here = {property_.id: field.type for property_, field in zip(ours.properties, _fields(ours), strict=True)}
    wrong = [
        property_.name for property_, field in zip(theirs.properties, _fields(theirs), strict=True) if here.get(property_.id) != field.type
    ]
    if wrong:
        return _schema_conflict(ours, f"the target has no property {ours.name}.{wrong[0]}, or one of another type", tuple(wrong))
    return None


def _fields(entity: EntityType) -> list[pa.Field]:
    schema = table_schema(entity)
    return [schema.field(property_.name) for property_ in entity.properties]


def _schema_conflict(entity: EntityType, reason: str, properties: tuple[str, ...]) -> Conflict:
    message = f"{reason}, and the other side changed entities of that type; apply one schema to both branches first"
    return Conflict(ConflictKind.SCHEMA_CONFLICT, entity.kind, entity.name, None, message, properties=properties)


def refuse_choices(settlement: Settlement, *plans: TypePlan) -> None:
    """Refuse choices for entities that are not in conflict. The caller may have meant another merge."""
    for name in settlement.chosen:
        type_name, id_ = name[-2:]
        entities = (plan.sides.entity for plan in plans if id_ in plan.settled)
        found = [entity.kind for entity in entities if names(name, entity.kind, entity.name)]
        if len(found) == 1:
            continue
        reason = (
            "is a node and an edge, both in conflict; name the kind too, as in " + repr((str(found[0]), type_name, id_))
            if found
            else "is settled by the caller, but is not in conflict"
        )
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{' '.join(name[:-1])} '{id_}' {reason}; nothing was written", type=type_name, id=id_)
