"""Row counts and indexes of a snapshot -> statistics, and the planner's estimates from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, assert_never

import msgspec

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import EnumOf, scalar_of
from omnigraph.ids import TypeId
from omnigraph.lang.query import Comparison
from omnigraph.lang.tree import Scalar
from omnigraph.plan.expr import ID, Field
from omnigraph.plan.ir import (
    AllOf,
    AnyOf,
    Compare,
    Decided,
    Includes,
    IsNull,
    Known,
    Link,
    LogicalScan,
    Matches,
    Not,
    OneOf,
    Predicate,
    Prefix,
    Substring,
    Suffix,
)
from omnigraph.plan.typed import Direction


class NodeStatistics(msgspec.Struct, frozen=True):
    """`indexed` are columns whose equality and order an index answers; no two rows share a value of a `unique` one.

    `vectors` are columns whose nearest vectors an index finds, `texts` are columns whose words an index finds.
    """

    rows: int = 1000
    indexed: frozenset[str] = frozenset()
    unique: frozenset[str] = frozenset()
    vectors: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


class Availability(StrEnum):
    """Where an adjacency can be read from."""

    MEMORY = "in memory"
    CACHE = "in the cache"
    MISSING = "to be built"


class EdgeStatistics(msgspec.Struct, frozen=True):
    """Degrees are averages over the nodes of that end; `ends` is how many nodes both ends have together.

    `indexed`: both ends have an index; without one, finding the edges of a node reads them all. `spent_ms`: the time that
    queries have spent without an adjacency. `adjacency_known`: how many edges an older adjacency shares, so that they need not be read.
    """

    rows: int = 1000
    out_degree: float = 1.0
    in_degree: float = 1.0
    adjacency: Availability = Availability.MISSING
    indexed: bool = True
    spent_ms: float = 0.0
    adjacency_known: int = 0
    ends: int = 2000


class Statistics(msgspec.Struct, frozen=True):
    """By type identity; a missing type has the default size and no indexes."""

    nodes: Mapping[TypeId, NodeStatistics] = {}
    edges: Mapping[TypeId, EdgeStatistics] = {}

    def node(self, type_id: TypeId) -> NodeStatistics:
        return self.nodes.get(type_id, UNKNOWN_NODE)

    def edge(self, type_id: TypeId) -> EdgeStatistics:
        return self.edges.get(type_id, UNKNOWN_EDGE)


ENDS: Final = frozenset({"src", "dst"})
UNKNOWN_NODE: Final = NodeStatistics()
UNKNOWN_EDGE: Final = EdgeStatistics()
NO_STATISTICS: Final = Statistics()

# Default selectivities of predicates.
_EQUAL: Final = 0.1
_RANGE: Final = 0.3
_TEXT: Final = 0.05
_NULL: Final = 0.1

MOST_HOPS: Final = 8
"""Estimates ignore hops beyond these: a longer walk rarely reaches more, and the estimate would grow without bound."""


def statistics_of(
    catalog: Catalog,
    rows: Mapping[TypeId, int],
    *,
    indexed: Mapping[TypeId, frozenset[str]],
    vectors: Mapping[TypeId, frozenset[str]] = {},
    texts: Mapping[TypeId, frozenset[str]] = {},
    adjacency: Mapping[TypeId, Availability] = {},
    spent_ms: Mapping[TypeId, float] = {},
    known: Mapping[TypeId, int] = {},
) -> Statistics:
    """Statistics from facts that a snapshot has without a scan: row counts, built indexes, available adjacencies."""
    nodes: dict[TypeId, NodeStatistics] = {}
    for node in catalog.nodes:
        single = [constraint.columns[0] for constraint in (node.key, *node.uniques) if constraint and len(constraint.columns) == 1]
        searched = vectors.get(node.id, frozenset()), texts.get(node.id, frozenset())
        nodes[node.id] = NodeStatistics(rows.get(node.id, 0), indexed.get(node.id, frozenset()), frozenset((ID, *single)), *searched)
    for interface in catalog.interfaces:
        nodes[interface.id] = _together([nodes[node.id] for node in catalog.implementing(interface)])
    ids = {node.name: node.id for node in catalog.nodes}
    edges: dict[TypeId, EdgeStatistics] = {}
    for edge in catalog.edges:
        count = rows.get(edge.id, 0)
        sources, targets = rows.get(ids[edge.source], 0), rows.get(ids[edge.target], 0)
        ends = indexed.get(edge.id, frozenset()) >= ENDS
        degrees = count / max(1, sources), count / max(1, targets)
        past = spent_ms.get(edge.id, 0.0), known.get(edge.id, 0)
        edges[edge.id] = EdgeStatistics(count, *degrees, adjacency.get(edge.id, Availability.MISSING), ends, *past, sources + targets)
    return Statistics(nodes, edges)


def _together(types: list[NodeStatistics]) -> NodeStatistics:
    """The statistics of several node types as if they were one. A value that is unique in each of them is nearly so in all."""
    if not types:
        return NodeStatistics(rows=0)
    indexed = frozenset.intersection(*(type_.indexed for type_ in types))
    unique = frozenset.intersection(*(type_.unique for type_ in types))
    return NodeStatistics(sum(type_.rows for type_ in types), indexed, unique)


def scanned_rows(scan: LogicalScan, statistics: Statistics) -> float:
    """How many rows of a scan are expected."""
    known = statistics.node(scan.type.id)
    rows = float(known.rows)
    for predicate in scan.where:
        rows *= selectivity(predicate, known)
    return rows


def selectivity(predicate: Predicate, known: NodeStatistics) -> float:
    """The share of rows for which a predicate is expected to hold."""
    match predicate:
        case Compare(left, operator, right):
            return _compared(operator, left if isinstance(left, Field) else right, known)
        case OneOf(value, values):
            return min(1.0, len(values) * (_equal(value, known) if isinstance(value, Field) else _EQUAL))
        case Includes():
            return _EQUAL
        case Substring() | Prefix() | Suffix() | Matches():
            return _TEXT
        case IsNull():
            return _NULL
        case Decided(truth=truth) | Known(truth=truth):
            return 1.0 if truth else 0.0
        case AllOf(terms):
            return math.prod(selectivity(term, known) for term in terms)
        case AnyOf(terms):
            return 1.0 - math.prod(1.0 - selectivity(term, known) for term in terms)
        case Not(term):
            return 1.0 - selectivity(term, known)
        case _:
            assert_never(predicate)


def _compared(operator: Comparison, side: object, known: NodeStatistics) -> float:
    equal = _equal(side, known) if isinstance(side, Field) else _EQUAL
    match operator:
        case Comparison.EQ:
            return equal
        case Comparison.NE:
            return 1.0 - equal
        case Comparison.LT | Comparison.LE | Comparison.GT | Comparison.GE:
            return _RANGE
        case _:
            assert_never(operator)


def _equal(field: Field, known: NodeStatistics) -> float:
    if field.column in known.unique:
        return 1.0 / max(1, known.rows)
    if isinstance(field.type, EnumOf):
        return 1.0 / len(field.type.values)
    return 0.5 if scalar_of(field.type) is Scalar.BOOL else _EQUAL


def fan_out(link: Link, statistics: Statistics, *, from_left: bool) -> float:
    """How many rows one row becomes when a link is followed from that end, before the predicates of the target."""
    reached = degree(link, statistics, from_left=from_left)
    if link.high > 1:
        reached = sum(reached**hop for hop in range(min(link.low, MOST_HOPS), min(link.high, MOST_HOPS) + 1))
    return reached * (_EQUAL if link.where else 1.0)


def degree(link: Link, statistics: Statistics, *, from_left: bool) -> float:
    """How many nodes one hop of a link leads to from a node at that end, before any predicate."""
    total = 0.0
    for edge in link.edges:
        total += _degree(statistics.edge(edge.id), link.direction, from_left=from_left)
    return total


def _degree(edge: EdgeStatistics, direction: Direction, *, from_left: bool) -> float:
    match direction:
        case Direction.BOTH:
            return edge.out_degree + edge.in_degree
        case Direction.OUT:
            return edge.out_degree if from_left else edge.in_degree
        case Direction.IN:
            return edge.in_degree if from_left else edge.out_degree
        case _:
            assert_never(direction)
