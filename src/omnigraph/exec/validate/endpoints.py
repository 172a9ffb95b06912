"""Added edges and removed nodes -> edges with a missing endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.layout import ID, SOURCE, TARGET
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.arrays import among, joined_texts
from omnigraph.exec.validate.context import IntegrityContext, ids_at, not_remaining
from omnigraph.exec.validate.delta import Added, Delta
from omnigraph.exec.validate.findings import Findings, merge_by_row, rule_findings
from omnigraph.exec.validate.keys import KeyPartition, Selection, holding_texts, in_part, pick
from omnigraph.store.arrays import Column, Places, joined, whole


class _EdgeEnd(NamedTuple):
    """One end of an edge type. `column` is also its name in messages."""

    edge: EdgeType
    column: str


def check_endpoints(context: IntegrityContext) -> Iterator[Findings]:
    """Check every edge type: its added edges, and its remaining edges if nodes are removed."""
    found: dict[str, list[Findings]] = {edge.name: [] for edge in context.catalog.edges}
    for node in context.catalog.nodes:
        for end, findings in _check_node(context, node):
            found[end.edge.name].append(findings)
    return (merge_by_row(findings, limit=context.limit) for findings in found.values())


def _check_node(context: IntegrityContext, node: NodeType) -> Iterator[tuple[_EdgeEnd, Findings]]:
    """Check all edge types that have this node type at an end. The nodes are looked up together."""
    nodes = context.of(node)
    ends = [end for edge in context.catalog.edges_of(node.name) for end in _ends(edge, node)]
    added_ends = [(end, added) for end in ends if (added := context.of(end.edge).added) is not None]
    remaining_ends = [end for end in ends if context.remaining(context.of(end.edge))] if _removes_nodes(nodes) else []
    if not added_ends and not remaining_ends:
        return
    for part in context.parts((nodes.added, [ID]), *((added, [end.column]) for end, added in added_ends)):
        present = joined_texts([] if nodes.added is None else [pick(nodes.added, [ID], by=[ID], part=part).table.column(ID)])
        if added_ends:
            yield from _check_added(context, nodes, present, added_ends, part)
        if remaining_ends and len(lost := _removed_nodes(context, nodes, present, part)):
            yield from ((end, _check_remaining(context, node, end, lost)) for end in remaining_ends)


def _ends(edge: EdgeType, node: NodeType) -> Iterator[_EdgeEnd]:
    if edge.source == node.name:
        yield _EdgeEnd(edge, SOURCE)
    if edge.target == node.name:
        yield _EdgeEnd(edge, TARGET)


def _removes_nodes(nodes: Delta) -> bool:
    return nodes.whole or (nodes.deleted is not None and not nodes.cascaded)


# -- added edges


def _check_added(
    context: IntegrityContext, nodes: Delta, present: pa.Array, added_ends: list[tuple[_EdgeEnd, Added]], part: KeyPartition
) -> Iterator[tuple[_EdgeEnd, Findings]]:
    picked = [pick(added, [end.column], by=[end.column], part=part) for end, added in added_ends]
    columns = [one.table.column(end.column) for one, (end, _) in zip(picked, added_ends, strict=True)]
    # One call for all ends: the table of nodes is built once.
    missing = _missing(context, nodes, present, joined(columns, pa.string()), part)
    before = 0
    for one, (end, _) in zip(picked, added_ends, strict=True):
        mine = missing[(missing >= before) & (missing < before + len(one.table))] - before
        before += len(one.table)
        if len(mine):
            yield end, _describe(context, nodes, end, one, mine)


def _missing(context: IntegrityContext, nodes: Delta, present: pa.Array, ends: pa.ChunkedArray, part: KeyPartition) -> Places:
    """The positions of ends that are neither added nodes nor remaining committed nodes."""
    rows = context.remaining(nodes)
    if rows and len(ends) >= rows:  # at least as many ends as nodes: one full read of the node ids is cheaper than lookups
        present, rows = joined_texts([present, _committed_ids(context, nodes, part)]), 0
    missing = np.flatnonzero(~among(ends, present))
    if not rows or not len(missing):
        return missing
    sought = ends.take(pa.array(missing))
    holders = holding_texts(context.committed, nodes.entity, [ID], by=ID, keys=whole(pc.unique(sought)))
    found = joined_texts(some.rows.column(ID) for some in holders)
    return missing[~among(sought, _without(found, nodes.deleted))]


def _committed_ids(context: IntegrityContext, nodes: Delta, part: KeyPartition) -> pa.Array:
    """The ids of committed nodes in the partition that are not deleted."""
    ids = (batch.column(ID) for batch in context.committed.scan(nodes.entity, [ID]))
    mine = (column if part.of == 1 else column.filter(pa.array(in_part(column, part))) for column in ids)
    return _without(joined_texts(mine), nodes.deleted)


def _without(ids: pa.Array, gone: Column | None) -> pa.Array:
    return ids if gone is None else ids.filter(pa.array(~among(ids, gone)))


def _describe(context: IntegrityContext, nodes: Delta, end: _EdgeEnd, picked: Selection, places: Places) -> Findings:
    first = places[: context.limit]
    rows = picked.rows(first)
    names = picked.table.column(end.column).take(pa.array(first)).to_pylist()
    messages = [f"{end.column} '{name}' not found in {nodes.entity.name}" for name in names]
    ids = ids_at(context.of(end.edge), rows)
    return rule_findings(ProblemCode.ENDPOINT, end.edge, rows.tolist(), messages, ids, total=len(places), property_=end.column)


# -- remaining edges


def _removed_nodes(context: IntegrityContext, nodes: Delta, present: pa.Array, part: KeyPartition) -> Column:
    """The committed nodes of the partition that the change deletes or does not overwrite with the same id."""
    if nodes.whole:
        return _without(_committed_ids(context, nodes, part), present)
    return nodes.deleted if part.of == 1 else pc.filter(nodes.deleted, pa.array(in_part(nodes.deleted, part)))


def _check_remaining(context: IntegrityContext, node: NodeType, end: _EdgeEnd, lost: Column) -> Findings:
    """Remaining edges at removed nodes. They are committed, so the problem names no record of the change."""
    edges, total = context.of(end.edge), 0
    ids: list[str] = []
    names: list[str] = []
    for group, _ in holding_texts(context.committed, end.edge, [ID, end.column], by=end.column, keys=lost):
        remaining = np.flatnonzero(~not_remaining(edges, whole(group.column(ID))))
        total += len(remaining)
        shown = group.take(pa.array(remaining[: context.limit - len(ids)]))
        ids += shown.column(ID).to_pylist()
        names += shown.column(end.column).to_pylist()
    messages = [f"{end.column} '{name}' not found in {node.name}" for name in names]
    return rule_findings(ProblemCode.ENDPOINT, end.edge, [None] * len(ids), messages, ids, total=total, property_=end.column)
