"""The `@unique` tuples of added rows -> tuples that two of them have, or that another remaining row has.

Tuples are compared by the same encoding as ids. So -0.0 equals 0.0, and no separator makes two tuples equal (V-07).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.keys import spell, spell_tuples
from omnigraph.catalog.layout import ID
from omnigraph.catalog.model import EntityType, NodeType, Unique
from omnigraph.errors import InvalidInput
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.arrays import DistinctTexts, at, distinct, joined_texts, true_at
from omnigraph.exec.validate.context import IntegrityContext, not_remaining
from omnigraph.exec.validate.delta import Added, Delta
from omnigraph.exec.validate.findings import Findings, Violation, merge_by_row, rule_findings
from omnigraph.exec.validate.keys import Selection, holding, pick
from omnigraph.store.arrays import Places, whole


def check_uniques(context: IntegrityContext, delta: Delta) -> Iterator[Findings]:
    """Check every `@unique` of the type. One over the key columns is skipped, because the ids cover it."""
    entity, added = delta.entity, delta.added
    key = entity.key if isinstance(entity, NodeType) else None
    if added is not None:
        for unique in entity.uniques:
            if key is None or set(unique.columns) != set(key.columns):
                yield _check(context, delta, added, unique)


def violation_message(entity: EntityType, columns: Sequence[str], values: Sequence[str], holder: str, other: str) -> str:
    """The message for two rows with the same tuple."""
    named, value = (columns[0], values[0]) if len(columns) == 1 else (f"({', '.join(columns)})", f"({', '.join(values)})")
    return f"@unique violation on {entity.name}.{named}: value '{value}' held by '{holder}' and '{other}'"


def _check(context: IntegrityContext, delta: Delta, added: Added, unique: Unique) -> Findings:
    columns = [ID, *unique.columns]
    parts = context.parts((added, columns))
    try:
        found = (_in_part(context, delta, unique, pick(added, columns, by=unique.columns, part=part)) for part in parts)
        return merge_by_row(found, limit=context.limit)
    except InvalidInput as error:  # a list or a vector has no encoding: such a constraint can be declared, but no row satisfies it
        return Findings((Violation(ProblemCode.UNIQUE, error.message, delta.entity.alias, property=unique.columns[0]),))


def _in_part(context: IntegrityContext, delta: Delta, unique: Unique, picked: Selection) -> Findings:
    spelled = whole(spell_tuples(unique.columns, picked.table))
    present = true_at(spelled.is_valid())  # a row with a null is exempt
    rows = picked.table if len(present) == len(spelled) else picked.table.take(pa.array(present))
    ids, tuples = whole(rows.column(ID)), distinct(spelled.drop_null())
    held = _find_holders(context, delta, unique, rows, tuples)
    met = _conflicts(delta, ids, tuples, held)
    again = tuples.repeats()
    # Two rows with the same id are reported as a repeated id, not as a repeated tuple.
    again = again[true_at(pc.not_equal(at(ids, again), at(ids, tuples.first[tuples.places[again]])))]
    wrong = np.union1d(met, again)
    first = wrong[: context.limit]
    if not len(first):
        return Findings()
    places = tuples.places[first]
    holder = np.where(np.isin(first, met), held.slots[places], len(held.ids) + tuples.first[places])
    holders = at(joined_texts([held.ids, ids]), holder).to_pylist()
    return _describe(delta.entity, unique, rows.take(pa.array(first)), holders, picked.rows(present[first]), total=len(wrong))


class _Holders(NamedTuple):
    """The committed row that has a tuple is `ids[slots[place]]`. The slot is -1 if no committed row has it."""

    ids: pa.Array
    slots: Places


def _find_holders(context: IntegrityContext, delta: Delta, unique: Unique, rows: pa.Table, tuples: DistinctTexts) -> _Holders:
    slots = np.full(len(tuples.texts), -1)
    if not context.remaining(delta):
        return _Holders(pa.array([], pa.string()), slots)
    wanted = rows.select(unique.columns).take(pa.array(tuples.first))
    found = list(holding(context.committed, delta.entity, [ID, *unique.columns], by=unique.columns, wanted=wanted))
    places = np.concatenate([np.zeros(0, np.int64), *(holders.places for holders in found)])
    slots[places] = np.arange(len(places))
    return _Holders(joined_texts(holders.rows.column(ID) for holders in found), slots)


def _conflicts(delta: Delta, ids: pa.Array, tuples: DistinctTexts, held: _Holders) -> Places:
    """The added rows whose tuple another remaining row has."""
    slots = held.slots[tuples.places]
    met = np.flatnonzero(slots >= 0)
    met = met[true_at(pc.not_equal(at(held.ids, slots[met]), at(ids, met)))]  # a row does not conflict with itself (V-05)
    return met[~not_remaining(delta, at(held.ids, slots[met]))]


def _describe(entity: EntityType, unique: Unique, rows: pa.Table, holders: list[str], numbers: Places, *, total: int) -> Findings:
    ids = rows.column(ID).to_pylist()
    values = zip(*(spell(name, rows).to_pylist() for name in unique.columns), strict=True)
    messages = [violation_message(entity, unique.columns, *one) for one in zip(values, holders, ids, strict=True)]
    return rule_findings(ProblemCode.UNIQUE, entity, numbers.tolist(), messages, ids, total=total, property_=unique.columns[0])
