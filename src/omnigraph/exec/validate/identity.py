"""The ids of added rows -> ids that occur twice among them, and, for an append, ids that already exist."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID
from omnigraph.catalog.model import EntityType, NodeType
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.arrays import among, at, joined_texts
from omnigraph.exec.validate.context import IntegrityContext
from omnigraph.exec.validate.delta import Added, Delta
from omnigraph.exec.validate.findings import Findings, merge_by_row, rule_findings
from omnigraph.exec.validate.keys import KeyPartition, holding_texts, pick
from omnigraph.exec.validate.uniqueness import violation_message
from omnigraph.store.arrays import whole
from omnigraph.store.membership import repeated


def check_identity(context: IntegrityContext, delta: Delta) -> Findings:
    """Check that an id occurs once in the input, in every mode, and that an append adds no existing id."""
    added = delta.added
    appends = not delta.replaces and bool(context.remaining(delta))
    if added is None or delta.minted or (added.rows == 1 and not appends):
        return Findings()
    found = (one for part in context.parts((added, [ID])) for one in _in_part(context, delta, added, part, appends=appends))
    return merge_by_row(found, limit=context.limit)


def _in_part(context: IntegrityContext, delta: Delta, added: Added, part: KeyPartition, *, appends: bool) -> Iterator[Findings]:
    picked = pick(added, [ID], by=[ID], part=part)
    again = repeated(picked.table.column(ID))
    if not len(again) and not appends:
        return
    ids = whole(picked.table.column(ID))
    if len(again):
        first = again[: context.limit]
        named = at(ids, first).to_pylist()
        messages = [_repeated(delta.entity, id_) for id_ in named]
        yield rule_findings(ProblemCode.DUPLICATE_ID, delta.entity, picked.rows(first).tolist(), messages, named, total=len(again))
    if appends:
        keys = pc.unique(ids) if len(again) else ids
        present = joined_texts(
            holders.rows.column(ID) for holders in holding_texts(context.committed, delta.entity, [ID], by=ID, keys=keys)
        )
        conflicts = np.flatnonzero(among(ids, present))
        first = conflicts[: context.limit]
        named = at(ids, first).to_pylist()
        messages = [f"{delta.entity.kind} type '{delta.entity.name}' already has this id: '{id_}'" for id_ in named]
        yield rule_findings(ProblemCode.KEY_CONFLICT, delta.entity, picked.rows(first).tolist(), messages, named, total=len(conflicts))


def _repeated(entity: EntityType, id_: str) -> str:
    """The message for a repeated id. For a keyed node it is the message of a `@unique` violation, because a key is unique too."""
    if not isinstance(entity, NodeType) or entity.key is None:
        return f"{entity.kind} type '{entity.name}' has id '{id_}' twice in one input"
    values = [id_] if len(entity.key.columns) == 1 else json.loads(id_)
    named = dict(zip(entity.key.columns, values, strict=True))
    columns = tuple(sorted(named))
    return violation_message(entity, columns, [named[name] for name in columns], id_, id_)
