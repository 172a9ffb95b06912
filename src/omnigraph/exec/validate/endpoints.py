"""Added edges and nodes that go -> edges that would have an end no longer or never there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.catalog.tables import ID, SOURCE, TARGET
from omnigraph.exec.problems import Code
from omnigraph.exec.validate.arrays import Numbers, among, joined_texts
from omnigraph.exec.validate.context import IntegrityContext, ids_at, leaving
from omnigraph.exec.validate.delta import Added, Delta
from omnigraph.exec.validate.findings import Findings, by_row, told
from omnigraph.exec.validate.keys import Part, Picked, holding_texts, in_part, pick
from omnigraph.store.arrays import Column, joined, whole


class _End(NamedTuple):
    """One end of an edge type, and how a problem calls it."""

    edge: EdgeType
    column: str


def check_endpoints(context: IntegrityContext) -> Iterator[Findings]:
    """Every edge type: those of its edges that come, and those that remain while nodes go."""
    found: dict[str, list[Findings]] = {edge.name: [] for edge in context.catalog.edges}
    for node in context.catalog.nodes:
        for end, findings in _check_node(context, node):
            found[end.edge.name].append(findings)
    return (by_row(findings, limit=context.limit) for findings in found.values())


def _check_node(context: IntegrityContext, node: NodeType) -> Iterator[tuple[_End, Findings]]:
    """All edges that have nodes of this type at an end: the nodes are looked up together."""
    nodes = context.of(node)
    ends = [end for edge in context.catalog.edges_of(node.name) for end in _ends(edge, node)]
    coming = [(end, added) for end in ends if (added := context.of(end.edge).added) is not None]
    staying = [end for end in ends if context.remaining(context.of(end.edge))] if _loses(nodes) else []
    if not coming and not staying:
        return
    for part in context.parts((nodes.added, [ID]), *((added, [end.column]) for end, added in coming)):
        there = joined_texts([] if nodes.added is None else [pick(nodes.added, [ID], by=[ID], part=part).table.column(ID)])
        if coming:
            yield from _coming(context, nodes, there, coming, part)
        if staying and len(lost := _lost(context, nodes, there, part)):
            yield from ((end, _stranded(context, node, end, lost)) for end in staying)


def _ends(edge: EdgeType, node: NodeType) -> Iterator[_End]:
    if edge.source == node.name:
        yield _End(edge, SOURCE)
    if edge.target == node.name:
        yield _End(edge, TARGET)


def _loses(nodes: Delta) -> bool:
    return nodes.whole or (nodes.deleted is not None and not nodes.cascaded)


# -- edges that come


def _coming(
    context: IntegrityContext, nodes: Delta, there: pa.Array, coming: list[tuple[_End, Added]], part: Part
) -> Iterator[tuple[_End, Findings]]:
    picked = [pick(added, [end.column], by=[end.column], part=part) for end, added in coming]
    columns = [one.table.column(end.column) for one, (end, _) in zip(picked, coming, strict=True)]
    # One call for all ends: the table of nodes is built once.
    missing = _missing(context, nodes, there, joined(columns, pa.string()), part)
    before = 0
    for one, (end, _) in zip(picked, coming, strict=True):
        mine = missing[(missing >= before) & (missing < before + len(one.table))] - before
        before += len(one.table)
        if len(mine):
            yield end, _told(context, nodes, end, one, mine)


def _missing(context: IntegrityContext, nodes: Delta, there: pa.Array, ends: pa.ChunkedArray, part: Part) -> Numbers:
    """The places of ends that are neither added nor committed nodes that remain."""
    rows = context.remaining(nodes)
    if rows and len(ends) >= rows:  # as many questions as there are nodes: all of them are read, and each end is looked up once
        there, rows = joined_texts([there, _committed_ids(context, nodes, part)]), 0
    missing = np.flatnonzero(~among(ends, there))
    if not rows or not len(missing):
        return missing
    sought = ends.take(pa.array(missing))
    holders = holding_texts(context.committed, nodes.entity, [ID], by=ID, keys=whole(pc.unique(sought)))
    found = joined_texts(some.rows.column(ID) for some in holders)
    return missing[~among(sought, _without(found, nodes.deleted))]


def _committed_ids(context: IntegrityContext, nodes: Delta, part: Part) -> pa.Array:
    """The ids of committed nodes that fall into the partition and are not deleted."""
    ids = (batch.column(ID) for batch in context.committed.scan(nodes.entity, [ID]))
    mine = (column if part.of == 1 else column.filter(pa.array(in_part(column, part))) for column in ids)
    return _without(joined_texts(mine), nodes.deleted)


def _without(ids: pa.Array, gone: Column | None) -> pa.Array:
    return ids if gone is None else ids.filter(pa.array(~among(ids, gone)))


def _told(context: IntegrityContext, nodes: Delta, end: _End, picked: Picked, places: Numbers) -> Findings:
    first = places[: context.limit]
    rows = picked.rows(first)
    names = picked.table.column(end.column).take(pa.array(first)).to_pylist()
    messages = [f"{end.column} '{name}' not found in {nodes.entity.name}" for name in names]
    ids = ids_at(context.of(end.edge), rows)
    return told(Code.ENDPOINT, end.edge, rows.tolist(), messages, ids, total=len(places), property_=end.column)


# -- edges that stay


def _lost(context: IntegrityContext, nodes: Delta, there: pa.Array, part: Part) -> Column:
    """The committed nodes of the partition that will not be there: overwritten by others, or deleted."""
    if nodes.whole:
        return _without(_committed_ids(context, nodes, part), there)
    return nodes.deleted if part.of == 1 else pc.filter(nodes.deleted, pa.array(in_part(nodes.deleted, part)))


def _stranded(context: IntegrityContext, node: NodeType, end: _End, lost: Column) -> Findings:
    """Edges that remain at a node that does not. They are committed, so no record of the change is at fault by itself."""
    edges, total = context.of(end.edge), 0
    ids: list[str] = []
    names: list[str] = []
    for group, _ in holding_texts(context.committed, end.edge, [ID, end.column], by=end.column, keys=lost):
        staying = np.flatnonzero(~leaving(edges, whole(group.column(ID))))
        total += len(staying)
        shown = group.take(pa.array(staying[: context.limit - len(ids)]))
        ids += shown.column(ID).to_pylist()
        names += shown.column(end.column).to_pylist()
    messages = [f"{end.column} '{name}' not found in {node.name}" for name in names]
    return told(Code.ENDPOINT, end.edge, [None] * len(ids), messages, ids, total=total, property_=end.column)
