"""The changes from a base to another state, and a target -> the write that brings them into the target, checked; or conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import Catalog, EntityType
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.engine import Engine
from omnigraph.exec.history.by_property import Sides
from omnigraph.exec.history.conflicts import DESCRIBED, Conflict, ConflictKind, Conflicts, Settlement, rule_conflicts
from omnigraph.exec.history.pairs import shared_types, side_of
from omnigraph.exec.history.three_way import HELD_BYTES, TypePlan, changes_of, plan_type
from omnigraph.exec.validate.delta import CommittedTables, Delta
from omnigraph.exec.validate.findings import Findings, merge_in_order
from omnigraph.exec.validate.integrity import check_integrity
from omnigraph.exec.validate.value_rules import check_values
from omnigraph.exec.write.protocol import Change, Patch
from omnigraph.ids import SchemaHash, TableId
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.store.data_files import Shelf
from omnigraph.store.refs import fresh_ref

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
        refused: Conflict | None = None,
    ) -> None:
        """`crossing` are the other bases after crossing merges. `refused` is a conflict of the schemas, which leaves nothing to compare."""
        self._engine: Final = engine
        self._ours: Final = ours
        self._catalog: Final[Catalog] = engine.catalog(ours)
        self._shelves: Final[list[Shelf]] = []
        self._plans: Final[list[TypePlan]] = []
        schema_conflicts = [] if refused is None else [refused]
        for type_id in shared_types(engine.catalog(theirs)) if refused is None else ():
            sides = Sides(*(side_of(engine, snapshot, type_id) for snapshot in (base, theirs, ours)))
            if (misfit := _misfit(sides)) is not None:
                schema_conflicts += [misfit] if changes_of(sides.base, sides.theirs) else []
            else:
                others = [side_of(engine, snapshot, type_id) for snapshot in crossing]
                self._plans.append(plan_type(sides, settlement, crossing=others))
        self.conflicts: Final = self._find_conflicts(schema_conflicts)
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
            return dict(self._change(plan) for plan in self._plans if not plan.is_empty)
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Delete the written files: no commit will reference them."""
        for shelf in self._shelves:
            shelf.clear()

    # -- conflicts

    def _find_conflicts(self, schema_conflicts: list[Conflict]) -> Conflicts:
        """Conflicts between rows first. Only if there are none are the rules of the schema checked (M-05)."""
        described = [*schema_conflicts, *(conflict for plan in self._plans for conflict in plan.conflicts)]
        count = len(schema_conflicts) + sum(plan.conflict_count for plan in self._plans)
        if count:
            return Conflicts(tuple(described[:DESCRIBED]), count)
        findings = self._check()
        return Conflicts(tuple(rule_conflicts(findings.found)), findings.count)

    def _check(self) -> Findings:
        """Check the graph as it would be, like every other write."""
        deltas = [Delta(plan.sides.entity, plan.added(), plan.deleted) for plan in self._plans if not plan.is_empty]
        values = (
            check_values(delta.entity, pa.Table.from_batches([batch]), limit=DESCRIBED)
            for delta in deltas
            if delta.added is not None
            for batch in delta.added.read(table_schema(delta.entity).names)
        )
        if findings := merge_in_order(values, limit=DESCRIBED):
            return findings
        committed = CommittedTables(self._ours, self._engine.tables)
        return check_integrity(deltas, self._catalog, committed, limit=DESCRIBED)

    # -- rows

    def _change(self, plan: TypePlan) -> tuple[TableId, Change]:
        row = self._ours.table_of(plan.sides.entity.id, name=plan.sides.entity.name)
        native = fresh_ref(self._ours.branch.name) if row.owner != self._ours.branch.native else None
        assert plan.sides.ours.table is not None
        shelf = Shelf(plan.sides.ours.table, native=native)
        self._shelves.append(shelf)
        files = _gathered(plan.rows())
        first, second = next(files, None), next(files, None)
        if first is None or second is None:
            return row.id, Patch(plan.removed, rows=first)
        for part in (first, second):
            shelf.put(part)
        del first, second
        for part in files:
            shelf.put(part)
        return row.id, Patch(plan.removed, fragments=tuple(shelf.fragments), native=native)


def _gathered(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of about the size of a data file."""
    held: list[pa.Table] = []
    size = 0
    for part in parts:
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
    settled = {(plan.sides.entity.name, id_) for plan in plans for id_ in plan.settled}
    for type_name, id_ in settlement.chosen:
        if (type_name, id_) not in settled:
            raise InvalidInput(
                Kind.INVALID_ARGUMENT,
                f"{type_name} '{id_}' is settled by the caller, but is not in conflict; nothing was written",
                type=type_name,
                id=id_,
            )


def schema_conflict(theirs: BranchSnapshot, ours: BranchSnapshot, known: frozenset[SchemaHash]) -> Conflict | None:
    """The conflict of two branches with different schemas, unless the target has, or had, the schema of the other."""
    if theirs.state.head.schema in known:
        return None
    message = (
        f"branch {theirs.branch.name!r} has another schema than {ours.branch.name!r}, and not one that {ours.branch.name!r} had before; "
        f"apply the schema of {theirs.branch.name!r} to {ours.branch.name!r} first"
    )
    return Conflict(ConflictKind.SCHEMA_CONFLICT, "graph", theirs.branch.name, None, message)
