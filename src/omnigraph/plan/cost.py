"""Guesses in milliseconds: following a link by index or by adjacency, and finding nodes by predicate or by id.

Measured on two cores with warm files: one BTREE lookup takes about 1 ms and 0.046 ms per further key, a scan 24 ms per
million rows, a lookup of a hundred ids 7 ms. Building an adjacency of two million edges between a hundred thousand nodes took
1.2 s of CPU, searching it 20 ns for each pair met. Only the proportions matter, and a wrong one costs time, never an answer.
"""

from __future__ import annotations

from typing import Final

from omnigraph.lang.query import Comparison
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.ir import Compare, Link, OneOf, Predicate, Prefix, Scan
from omnigraph.plan.ops import Restrict, Route, RouteChoice
from omnigraph.plan.statistics import MOST_HOPS, NodeStatistics, Statistics, fan_out, scanned_rows, selectivity

_CALL_MS: Final = 1.0
_KEY_MS: Final = 0.046
_SCAN_ROW_MS: Final = 2.4e-5
_ID_MS: Final = 0.07
_BUILD_EDGE_MS: Final = 6e-4
"""Reading both ends of an edge and sorting it into both directions."""
_EXTEND_EDGE_MS: Final = 5e-5
"""Keeping an edge of an older adjacency: between 8 ns, when rows only came, and 0.2 µs, when some have moved or gone."""
_WALK_MS: Final = 2e-5
_READY_MS: Final = 0.05


def choose_route(link: Link, rows: float, statistics: Statistics, *, from_left: bool) -> RouteChoice:
    """Index while few nodes are asked about; adjacency when many are, when it is there already, or when so much has been
    spent on asking the index that building it would have paid.
    """
    edge = statistics.edge(link.edge.id)
    degree = fan_out(_one_hop(link), statistics, from_left=from_left)
    index_ms, walked, frontier = 0.0, 0.0, max(rows, 1.0)
    for _ in range(min(link.high, MOST_HOPS)):
        index_ms += _CALL_MS + (_KEY_MS * frontier if edge.indexed else _SCAN_ROW_MS * edge.rows)
        index_ms += min(_KEY_MS * frontier * degree, _CALL_MS + _SCAN_ROW_MS * edge.rows)  # the ids of the far ends
        walked += frontier * max(degree, 1.0)
        frontier = min(max(frontier * degree, 1.0), float(max(edge.rows, 1)))
    known = min(edge.adjacency_known, edge.rows)
    build_ms = _CALL_MS + _BUILD_EDGE_MS * (edge.rows - known) + _EXTEND_EDGE_MS * known - edge.spent_ms
    build_ms = _READY_MS if edge.adjacency_ready else max(_READY_MS, build_ms)
    adjacency_ms = build_ms + _WALK_MS * walked
    route = Route.INDEX if index_ms <= adjacency_ms else Route.ADJACENCY
    return RouteChoice(route, index_ms, adjacency_ms, edge.adjacency_ready)


def _one_hop(link: Link) -> Link:
    return Link(link.edge, link.left, link.right, link.direction)


def choose_restriction(target: Scan, reached: float, statistics: Statistics) -> Restrict:
    """Whether it is cheaper to find the nodes that satisfy the predicates, or to look at those that were reached."""
    if not target.where:
        return Restrict.NONE
    known = statistics.node(target.type.id)
    if index_for(target.where, known) is None:
        before_ms = _CALL_MS + _SCAN_ROW_MS * known.rows
    else:
        before_ms = _CALL_MS + _KEY_MS * scanned_rows(target, statistics)
    after_ms = _CALL_MS + _ID_MS * reached
    return Restrict.BEFORE if before_ms <= after_ms else Restrict.AFTER


def index_for(where: tuple[Predicate, ...], known: NodeStatistics) -> str | None:
    """The column of the most selective predicate that an index answers."""
    best: tuple[float, str] | None = None
    for predicate in where:
        column = _indexable(predicate)
        if column is None or column not in known.indexed:
            continue
        share = selectivity(predicate, known)
        if best is None or share < best[0]:
            best = share, column
    return None if best is None else best[1]


def _indexable(predicate: Predicate) -> str | None:
    match predicate:
        case Compare(Field(column=column), operator, Constant()) if operator is not Comparison.NE:
            return column
        case OneOf(field=Field(column=column)):
            return column
        case Prefix(Field(column=column), Constant()):
            return column
        case _:
            return None
