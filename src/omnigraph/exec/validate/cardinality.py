"""Added and removed edges -> sources that would have too many or too few edges of a type.

Only sources that the change touches are counted: those where an edge is added, removed or moved away (V-12). The minimum does not
apply to a node that never had an edge, nor to a node that the change removes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, SOURCE
from omnigraph.catalog.model import Cardinality, EdgeType
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.arrays import among, at, distinct, joined_texts
from omnigraph.exec.validate.context import IntegrityContext, added_among, ids_at
from omnigraph.exec.validate.delta import Delta
from omnigraph.exec.validate.findings import Findings, merge_by_row, rule_findings
from omnigraph.exec.validate.keys import KeyPartition, holding_texts, in_part, pick
from omnigraph.grid import counted
from omnigraph.store.arrays import Mask, Places, whole

UNBOUNDED = np.iinfo(np.int64).max
NO_ROW = -1


class _Counted(NamedTuple):
    """Touched sources: the number of edges each will have, and the last added row that starts there, or NO_ROW."""

    sources: pa.Array
    edges: Places
    rows: Places


def check_cardinality(context: IntegrityContext, edges: Delta) -> Findings:
    """Check the `@card` of one edge type at the sources that its change touches."""
    entity = edges.entity
    assert isinstance(entity, EdgeType)
    bounds = entity.cardinality
    if bounds == Cardinality() or (edges.added is None and not bounds.low):  # a removed edge cannot break a maximum
        return Findings()
    removed = joined_texts(_removed(context, edges, entity))
    if not len(removed) and bounds.high is None and bounds.low <= 1:  # a source with an added edge has at least one
        return Findings()
    parts = context.parts((edges.added, [SOURCE]))
    return merge_by_row((_in_part(context, edges, entity, removed, part) for part in parts), limit=context.limit)


def _removed(context: IntegrityContext, edges: Delta, entity: EdgeType) -> Iterator[pa.ChunkedArray]:
    """The source of every committed edge that is removed or replaced. For an overwrite each source once, and only if there is a minimum."""
    if edges.whole:
        if entity.cardinality.low:
            yield pc.unique(joined_texts(batch.column(SOURCE) for batch in context.committed.scan(entity, [SOURCE])))
        return
    keys = [] if edges.deleted is None else [edges.deleted]
    if edges.added is not None and not edges.minted and edges.replaces and context.remaining(edges):
        added = edges.added
        keys += (whole(pick(added, [ID], by=[ID], part=part).table.column(ID)) for part in context.parts((added, [ID])))
    for some in keys:
        for holders in holding_texts(context.committed, entity, [ID, SOURCE], by=ID, keys=some):
            yield holders.rows.column(SOURCE)


def _in_part(context: IntegrityContext, edges: Delta, entity: EdgeType, removed: pa.Array, part: KeyPartition) -> Findings:
    found = _count(context, edges, removed if part.of == 1 else removed.filter(pa.array(in_part(removed, part))), part)
    low, high = entity.cardinality.low, entity.cardinality.high
    wrong = np.flatnonzero((found.edges < low) | (found.edges > (UNBOUNDED if high is None else high)))
    wrong = wrong[~_is_removed(context, entity, at(found.sources, wrong))]
    wrong = wrong[np.argsort(found.rows[wrong], kind="stable")]
    first = wrong[: context.limit]
    rows = found.rows[first]
    facts = zip(at(found.sources, first).to_pylist(), found.edges[first].tolist(), strict=True)
    head = f"@card violation on edge {entity.name}: source"
    messages = [
        f"{head} '{source}' has {counted(count, 'edge')} ({f'min {low}' if count < low else f'max {high}'})" for source, count in facts
    ]
    ids = [*(None for row in rows if row == NO_ROW), *ids_at(edges, rows[rows != NO_ROW])]
    numbers = [None if row == NO_ROW else row for row in rows.tolist()]
    return rule_findings(ProblemCode.CARDINALITY, entity, numbers, messages, ids, total=len(wrong), property_=SOURCE)


def _count(context: IntegrityContext, edges: Delta, removed: pa.Array, part: KeyPartition) -> _Counted:
    """Count the edges of each touched source: committed, minus removed, plus added."""
    picked = None if edges.added is None else pick(edges.added, [SOURCE], by=[SOURCE], part=part)
    added = pa.array([], pa.string()) if picked is None else whole(picked.table.column(SOURCE))
    touched = distinct(joined_texts([added, removed]))
    starting, ending, size = touched.places[: len(added)], touched.places[len(added) :], len(touched.texts)
    count = np.bincount(starting, minlength=size)
    rows = np.full(size, NO_ROW)
    if picked is not None:
        rows[starting] = picked.rows(np.arange(len(added)))  # of several rows with one source the last is reported: it is the one too many
    if not edges.whole:
        count -= np.bincount(ending, minlength=size)
        for holders in holding_texts(context.committed, edges.entity, [SOURCE], by=SOURCE, keys=touched.texts):
            count += np.bincount(holders.places, minlength=size)
    return _Counted(touched.texts, count, rows)


def _is_removed(context: IntegrityContext, entity: EdgeType, sources: pa.Array) -> Mask:
    """Which sources are nodes that the change removes."""
    node = context.catalog.node(entity.source)
    assert node is not None
    nodes = context.of(node)
    return ~among(sources, added_among(nodes, sources)) if nodes.whole else among(sources, nodes.deleted)
