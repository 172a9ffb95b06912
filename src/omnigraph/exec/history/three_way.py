"""A base and two states that come from it -> the rows that bring the changes of one into the other, and the conflicts.

`theirs` is the side whose changes are brought in, `ours` the one they are brought into. Per entity, with the values compared:

| base | theirs | ours | result |
|---|---|---|---|
| any | as base | any | ours stays |
| any | changed | as base | theirs is applied: insert, update or delete |
| any | changed | changed to the same | ours stays; for a transaction, conflict: concurrent change, unless both deleted it |
| absent | inserted | inserted, differently | conflict: divergent insert |
| present | updated | updated, differently | conflict: divergent update; by property, only if both changed the same one differently |
| present | updated / deleted | deleted / updated | conflict: delete against update |

Only entities that theirs changed are looked at. Of ours, only their rows are read, and only if they are stored anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.exec.history.by_property import ChangedEntities, Choices, MergedRows, Sides, blended, clashing, fitted_to, unblended
from omnigraph.exec.history.changes import images
from omnigraph.exec.history.conflicts import Choice, Conflict, ConflictKind, Settlement, Strategy
from omnigraph.exec.history.pairs import (
    ABSENT,
    PartSize,
    RowPairs,
    Side,
    candidates,
    changed,
    differing_rows,
    origins_of,
    read_parts,
    same_version,
)
from omnigraph.store.arrays import Mask, joined, whole
from omnigraph.store.difference import Addresses, moved_to, rows_apart, stored_rows
from omnigraph.store.membership import Members


class OpenConflicts(msgspec.Struct, frozen=True):
    """Entities of one type that are in conflict and not settled. Only ids and addresses are held; the rows are read when they are told."""

    sides: Sides
    entities: ChangedEntities
    apart: Mask
    """False where both sides have the same values."""
    split: Mask
    """True where the bases of crossing merges disagree, so that the entity is in conflict as a whole."""
    by_property: bool

    def __len__(self) -> int:
        return len(self.entities)

    def described(self) -> Iterator[Conflict]:
        """Describe each with its three values, by ascending id. The rows are read in parts."""
        size = PartSize(*self.sides[:3])
        for places, some in self.entities.parts(size):
            clashes = clashing(self.sides, some, self.split[places]) if self.by_property else [()] * len(some)
            yield from _entity_conflicts(self.sides, some, clashes, self.apart[places], size)


class TypePlan(NamedTuple):
    """What a merge does to one type: rows that come in, whole or merged by property, rows that go, and what it cannot decide."""

    sides: Sides
    incoming: ChangedEntities
    """Entities that are as theirs afterwards. Those without a row there are deleted."""
    merged: MergedRows
    conflicts: OpenConflicts
    settled: frozenset[str]
    """The ids for which the caller chose, and that are in conflict."""

    @property
    def is_empty(self) -> bool:
        return not len(self.incoming) and not len(self.merged)

    @property
    def deleted(self) -> pa.Array:
        return self.incoming.at(self.incoming.theirs == ABSENT).ids

    @property
    def removed(self) -> Addresses:
        """The rows of ours that are replaced or deleted."""
        gone = self.incoming.ours[self.incoming.ours != ABSENT]
        return np.concatenate([gone, self.merged.entities.ours])

    @property
    def inserted(self) -> int:
        return int(((self.incoming.ours == ABSENT) & (self.incoming.theirs != ABSENT)).sum())

    @property
    def updated(self) -> int:
        return int(((self.incoming.ours != ABSENT) & (self.incoming.theirs != ABSENT)).sum()) + len(self.merged)

    def rows(self) -> Iterator[pa.Table]:
        """The rows that come in, with the columns of the target, in parts."""
        there = self.incoming.theirs != ABSENT
        held = self.incoming.held
        parts = read_parts(self.sides.theirs, self.incoming.theirs[there]) if held is None else [held.filter(pa.array(there))]
        for part in parts:
            yield fitted_to(self.sides.entity, self.sides.theirs, part)
        yield from self.merged.parts()


class IncomingRows(msgspec.Struct, frozen=True):
    """Incoming rows that are too many to be held. Each read takes them from the other side again."""

    plan: TypePlan

    @property
    def rows(self) -> int:
        return self.plan.inserted + self.plan.updated

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in self.plan.rows():
            yield from part.select(list(columns)).to_batches()


def changes_of(base: Side, theirs: Side) -> int:
    """How many entities of a type theirs changed."""
    return len(changed(base, theirs, candidates(base, theirs)))


def plan_type(sides: Sides, settlement: Settlement, *, crossing: Sequence[Side] = ()) -> TypePlan:
    """Plan the merge of one type. `crossing` are the other bases after crossing merges."""
    free, contested, split = _classified(sides, crossing)
    if sides.adopts:  # the columns of the second side are compared, and theirs has more
        apart = _differ(sides.ours, sides.theirs, contested, "ours", "theirs")
    else:
        apart = _differ(sides.theirs, sides.ours, contested, "theirs", "ours")
    both_there: Mask = (contested.theirs != ABSENT) & (contested.ours != ABSENT)
    disputed = apart | both_there if settlement.strict else apart
    contested, split, apart = contested.at(disputed), split[disputed], apart[disputed]
    choices, chosen = _choices(settlement.of(sides.entity.kind, sides.entity.name), settlement.otherwise, contested.ids)
    by_property = settlement.strategy is Strategy.PROPERTY
    blend = blended(sides, contested, choices, split) if by_property else unblended(sides, contested)
    unsettled = blend.conflict & (choices == Choice.FAIL)
    taken = blend.conflict & (choices == Choice.THEIRS) & ~blend.merged
    return TypePlan(
        sides,
        _union(free, contested.at(taken)),
        blend.rows,
        OpenConflicts(sides, contested.at(unsettled), apart[unsettled], split[unsettled], by_property),
        frozenset(contested.at(blend.conflict & chosen).ids.to_pylist() if chosen.any() else ()),
    )


def _choices(chosen: Mapping[str, Choice], otherwise: Choice, ids: pa.Array) -> tuple[Choices, Mask]:
    """What the caller chose for each entity, and for which of them by name."""
    choices, named = np.full(len(ids), otherwise.value, object), np.zeros(len(ids), np.bool_)
    wanted = {id_: choice.value for id_, choice in chosen.items()}
    if wanted and len(ids):
        places = Members(ids).find(pa.array(wanted.keys(), pa.string()))
        choices[places[places >= 0]] = np.array(list(wanted.values()), object)[places >= 0]
        named[places[places >= 0]] = True
    return choices, named


def _classified(sides: Sides, crossing: Sequence[Side]) -> tuple[ChangedEntities, ChangedEntities, Mask]:
    """The entities that only theirs changed, those that both changed, and which of the latter the bases disagree about.

    After crossing merges each base has a verdict on an entity: theirs, if only theirs changed it since then; ours, if only ours did; or
    none. If the verdicts agree, they decide. If one is for theirs and another for ours, the entity is in conflict as a whole.
    """
    found = [_since(sides._replace(base=base)) for base in (sides.base, *crossing)]
    if not crossing:
        ((first, disputed),) = found
        return first.at(~disputed), first.at(disputed), np.zeros(int(disputed.sum()), np.bool_)
    every = _distinct(sides, [entities for entities, _ in found])
    for_theirs, for_ours = np.zeros(len(every), np.bool_), np.zeros(len(every), np.bool_)
    for entities, disputed in found:
        places = Members(entities.ids).find(every.ids)
        changed_here = places >= 0
        for_ours |= ~changed_here
        for_theirs[changed_here] |= ~disputed[places[changed_here]]
    both = for_theirs == for_ours
    return every.at(for_theirs & ~for_ours), every.at(both), for_ours[both]


def _since(sides: Sides) -> tuple[ChangedEntities, Mask]:
    """The entities that theirs changed since one base, and which of them ours changed too."""
    entities, moved = _beside(sides, changed(sides.base, sides.theirs, candidates(sides.base, sides.theirs)))
    disputed = moved.copy()
    disputed[moved] = _differ(sides.base, sides.ours, entities.at(moved), "base", "ours")
    return entities, disputed


def _distinct(sides: Sides, parts: Sequence[ChangedEntities]) -> ChangedEntities:
    """Every entity once, by id, with its row in the first base."""
    joint = parts[0]
    for part in parts[1:]:
        joint = _union(joint, part)
    ids = pc.unique(joint.ids)
    ids = ids.take(pc.sort_indices(ids))
    every = joint.take(Members(joint.ids).find(ids))
    apart = candidates(sides.base, sides.theirs)
    places = Members(apart.ids).find(every.ids)
    base = np.full(len(every), ABSENT)
    base[places >= 0] = apart.before[places[places >= 0]]
    shared = (places < 0) & (every.theirs != ABSENT)
    if shared.any():
        assert sides.base.table is not None
        assert sides.theirs.table is not None
        known = origins_of(sides.theirs, sides.base)
        base[shared] = moved_to(sides.theirs.table, sides.base.table, every.theirs[shared], origins=known)
    return ChangedEntities(every.ids, base, every.theirs, every.ours)


def _beside(sides: Sides, theirs: RowPairs) -> tuple[ChangedEntities, Mask]:
    """The entities that theirs changed, with their rows in ours; and for which of them the row of ours is not that of the base."""
    count = len(theirs)
    ours, moved = np.full(count, ABSENT), np.zeros(count, np.bool_)
    if not count:
        return ChangedEntities(theirs.ids, theirs.before, theirs.after, ours), moved
    there = theirs.before != ABSENT
    if not same_version(sides.base, sides.ours):
        # The rows that left the base are known by their addresses. Their ids, which are scattered over the table, are not read. Nor are
        # the ids of the new rows, unless one may belong to an entity that ours inserted or changed.
        gone, come = rows_apart(sides.base.table, sides.ours.table, origins=origins_of(sides.base, sides.ours))
        moved[there] = gone.has(theirs.before[there])
        if not there.all() or moved.any():
            new = stored_rows(sides.ours.table, come)
            places = Members(new.ids).find(theirs.ids)
            ours[places >= 0] = new.addresses[places[places >= 0]]
            moved |= places >= 0
    shared = ~moved & there
    if shared.any():
        assert sides.base.table is not None
        assert sides.ours.table is not None
        known = origins_of(sides.base, sides.ours)
        ours[shared] = moved_to(sides.base.table, sides.ours.table, theirs.before[shared], origins=known)
    return ChangedEntities(theirs.ids, theirs.before, theirs.after, ours, theirs.held_after), moved


def _differ(one: Side, other: Side, entities: ChangedEntities, left: str, right: str) -> Mask:
    """Which rows of two states differ: one is absent, or the values are different. Two absent rows are equal."""
    held = (entities.held if name == "theirs" else None for name in (left, right))
    pairs = RowPairs(entities.ids, getattr(entities, left), getattr(entities, right), *held)
    apart: Mask = (pairs.before == ABSENT) != (pairs.after == ABSENT)
    both = np.flatnonzero((pairs.before != ABSENT) & (pairs.after != ABSENT))
    if len(both):
        apart[both] = differing_rows(one, other, pairs.take(both))
    return apart


def _union(one: ChangedEntities, other: ChangedEntities) -> ChangedEntities:
    if not len(other):
        return one
    ids = whole(joined([one.ids, other.ids], pa.string()))
    base, theirs, ours = (np.concatenate(pair) for pair in zip(one[1:4], other[1:4], strict=True))
    held = None if one.held is None or other.held is None else pa.concat_tables([one.held, other.held])
    return ChangedEntities(ids, base, theirs, ours, held)


def _entity_conflicts(
    sides: Sides, entities: ChangedEntities, clashes: Sequence[tuple[str, ...]], apart: Mask, size: PartSize
) -> Iterator[Conflict]:
    """Describe entities that both sides changed, differently or, where `apart` is false, to the same values."""
    entity = sides.entity
    shown = []
    read: list[pa.Table] = []
    for side, addresses in ((sides.base, entities.base), (sides.ours, entities.ours), (sides.theirs, entities.theirs)):
        declared = side.entity or entity
        rows, there = Side(declared, side.table).read(addresses), (addresses != ABSENT).tolist()
        read.append(rows)
        shown.append([image if is_there else None for image, is_there in zip(images(declared, rows), there, strict=True)])
    size.learn(*read)
    for id_, properties, differ, base, ours, theirs in zip(entities.ids.to_pylist(), clashes, apart.tolist(), *shown, strict=True):
        kind = (
            ConflictKind.CONCURRENT_CHANGE
            if not differ
            else ConflictKind.DELETE_VS_UPDATE
            if ours is None or theirs is None
            else ConflictKind.DIVERGENT_INSERT
            if base is None
            else ConflictKind.DIVERGENT_UPDATE
        )
        message = f"{entity.kind} type '{entity.name}', entity id '{id_}': {_REASONS[kind]}"
        yield Conflict(kind, entity.kind, entity.name, id_, message, base, ours, theirs, properties)


_REASONS: Final = {
    ConflictKind.DIVERGENT_INSERT: "both sides inserted it, with different values",
    ConflictKind.DIVERGENT_UPDATE: "both sides changed it, to different values",
    ConflictKind.DELETE_VS_UPDATE: "one side deleted it, and the other changed it",
    ConflictKind.CONCURRENT_CHANGE: "another writer changed it during the transaction, to the same values",
}
