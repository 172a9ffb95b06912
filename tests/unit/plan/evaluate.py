"""A logical plan over a tiny graph in memory -> its rows, by brute force. The meaning against which rewrites are measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, TypeVar, assert_never

from omnigraph.lang.query import AggregateFunction, NullOrder
from omnigraph.plan import ir
from omnigraph.plan.arithmetic import computed
from omnigraph.plan.expr import F64, TYPE, Constant, Field
from omnigraph.plan.functions import Function
from omnigraph.plan.rules.fold_constants import COMPARE
from omnigraph.plan.typed import Direction
from tests.harness.brute.text import bm25, distances, fused, text_matches

Row = dict[Any, Any]
"""Binding -> id, and `("score", slot)` -> number."""


class Graph:
    """`nodes[type][id]` and `edges[type][id]` are properties; an edge has `src` and `dst` among them."""

    def __init__(self, nodes: dict[str, dict[str, Row]], edges: dict[str, dict[str, Row]]) -> None:
        self.nodes = nodes
        self.edges = edges


def rows_of(read: ir.LogicalRead, graph: Graph) -> list[tuple[Any, ...]]:
    evaluator = _Evaluator(graph, read.bindings)
    return list(evaluator.results(read.root))


class _Evaluator:
    def __init__(self, graph: Graph, bindings: tuple[ir.Binding, ...]) -> None:
        self.graph = graph
        self.bindings = bindings

    # rows that bind

    def rows(self, plan: ir.LogicalPlan, outer: Row) -> list[Row]:
        match plan:
            case ir.LogicalScan():
                return [{plan.binding: id_} for id_ in self.scanned(plan)]
            case ir.LogicalArgument(bindings):
                return [{binding: outer[binding] for binding in bindings}]
            case ir.LogicalPattern():
                return self.pattern(plan, outer)
            case ir.LogicalExpand(input_, link, from_left, target):
                allowed = self.scanned(target)
                end = link.right if from_left else link.left
                return [found for row in self.rows(input_, outer) for id_ in allowed for found in self.linked(link, {**row, end: id_})]
            case ir.LogicalConnect(input_, link):
                return [found for row in self.rows(input_, outer) for found in self.linked(link, row)]
            case ir.LogicalCrossProduct(left, right):
                return [{**a, **b} for a, b in product(self.rows(left, outer), self.rows(right, outer))]
            case ir.LogicalJoin(left, right, on):
                pairs = product(self.rows(left, outer), self.rows(right, outer))
                return [{**a, **b} for a, b in pairs if all(self.joined(x, y, {**a, **b}) for x, y in on)]
            case ir.LogicalFilter(input_, where):
                return [row for row in self.rows(input_, outer) if self.all_hold(where, row)]
            case ir.LogicalSemiJoin(input_, inners, wanted):
                return [row for row in self.rows(input_, outer) if any(self.inside(inner, row) for inner in inners) is wanted]
            case ir.LogicalOptional(input_, inner, binds):
                missing = dict.fromkeys(binds)
                return [{**row, **found} for row in self.rows(input_, outer) for found in self.inside(inner, row) or [missing]]
            case ir.LogicalPaths(input_, link):
                return [{**row, **self.path(link, row)} for row in self.rows(input_, outer)]
            case ir.LogicalRank():
                return self.ranked(plan, self.rows(plan.input, outer))
            case ir.LogicalFetch(input_):
                return self.rows(input_, outer)
            case ir.LogicalOrder(input_, keys, ties):
                return self.ordered(self.rows(input_, outer), keys, ties)
            case ir.LogicalLimit(input_, count, skip):
                return self.rows(input_, outer)[skip:][:count]
            case ir.LogicalEmpty():
                return []
            case ir.LogicalAggregate() | ir.LogicalProject() | ir.LogicalDistinct():
                raise AssertionError("results, not rows")
            case _:
                assert_never(plan)

    def inside(self, inner: ir.Inner, row: Row) -> list[Row]:
        return self.rows(inner.plan, {binding: row[binding] for binding in inner.on})

    def path(self, link: ir.Link, row: Row) -> Row:
        """The smallest of the shortest walks within the bounds that the search allows, found by trying all."""
        assert link.path is not None
        start, end = row[link.left], row[link.right]
        walks: list[tuple[list[str], list[str]]] = [([start], [])]
        for hop in range(1, link.high + 1):
            walks = [
                ([*nodes, other], [*edges, edge])
                for nodes, edges in walks
                for edge, other in self.steps(link, nodes[-1])
                if other not in nodes or other == nodes[-1]
            ]
            found = sorted(walk for walk in walks if walk[0][-1] == end)
            if hop >= link.low and found:
                values = {"nodes": tuple(found[0][0]), "edges": tuple(found[0][1]), "length": hop}
                return {(link.path, column): value for column, value in values.items()}
        raise AssertionError("the ends of a row are linked")

    def steps(self, link: ir.Link, node: str) -> Iterator[tuple[str, str]]:
        """The edges at a node and their other ends; an edge of a node to itself is one step."""
        for type_ in link.edges:
            for id_, edge in self.graph.edges[type_.name].items():
                forward, backward = edge["src"] == node, edge["dst"] == node
                if link.direction is not Direction.IN and forward:
                    yield id_, edge["dst"]
                elif link.direction is not Direction.OUT and backward:
                    yield id_, edge["src"]

    def scanned(self, scan: ir.LogicalScan) -> list[str]:
        return [id_ for id_ in self.graph.nodes[scan.type.name] if self.all_hold(scan.where, {scan.binding: id_})]

    def joined(self, left: Field, right: Field, row: Row) -> bool:
        value = self.value(left, row)
        return value is not None and value == self.value(right, row)

    def pattern(self, plan: ir.LogicalPattern, outer: Row) -> list[Row]:
        rows: list[Row] = [{binding: outer[binding] for binding in plan.argument}] if plan.input is None else self.rows(plan.input, outer)
        for scan in plan.scans:
            rows = [{**row, scan.binding: id_} for row in rows for id_ in self.scanned(scan)]
        for link in plan.links:
            rows = [found for row in rows for found in self.linked(link, row)]
            if link.path is not None:
                rows = [{**row, **self.path(link, row)} for row in rows]
        return rows

    def linked(self, link: ir.Link, row: Row) -> Iterator[Row]:
        """The row once if its ends are linked, or once per edge that is bound."""
        if row[link.left] is None or row[link.right] is None:
            return
        if link.edge_binding is None:
            if row[link.right] in self.reached(link, row[link.left]):
                yield row
            return
        for id_, edge in self.graph.edges[link.edge.name].items():
            ends = {(edge["src"], edge["dst"])} if link.direction is not Direction.IN else {(edge["dst"], edge["src"])}
            if link.direction is Direction.BOTH:
                ends.add((edge["dst"], edge["src"]))
            bound = {**row, link.edge_binding: id_}
            if (row[link.left], row[link.right]) in ends and self.all_hold(link.where, bound):
                yield bound

    def reached(self, link: ir.Link, start: str) -> set[str]:
        frontier, visited, emitted = [start], {start}, set()
        for hop in range(1, link.high + 1):
            following = []
            for node in frontier:
                for other in self.neighbours(link, node):
                    if other == node or other not in visited:
                        if hop >= link.low:
                            emitted.add(other)
                        if other not in visited:
                            visited.add(other)
                            following.append(other)
            frontier = following
        return emitted

    def neighbours(self, link: ir.Link, node: str) -> list[str]:
        return [other for _, other in self.steps(link, node)]

    def ordered(self, rows: list[Row], keys: tuple[ir.SortKey, ...], ties: tuple[int, ...]) -> list[Row]:
        rows = sorted(rows, key=lambda row: tuple(_nulls_first(row[binding]) for binding in ties))
        for key in reversed(keys):
            rows = _sorted(rows, [self.value(key.key, row) for row in rows], key)
        return rows

    # rankings

    def ranked(self, plan: ir.LogicalRank, rows: list[Row]) -> list[Row]:
        binding = _ranked(plan.ranking).binding
        scores = self.scores(plan.ranking, {row[binding] for row in rows})
        if plan.top is not None:
            sign = 1 if isinstance(plan.ranking, ir.Nearest) else -1
            best = sorted((sign * score, id_) for id_, score in scores.items())[: plan.top]
            scores = {id_: scores[id_] for _, id_ in best}
        kept = [{**row, ("score", plan.slot): scores.get(row[binding])} for row in rows]
        return [row for row in kept if row["score", plan.slot] is not None] if plan.only_candidates else kept

    def scores(self, ranking: ir.Ranking, ids: set[str]) -> dict[str, float]:
        match ranking:
            case ir.Nearest(field, query):
                assert not isinstance(query, str)
                return distances({id_: self.value(field, {field.binding: id_}) for id_ in ids}, query)
            case ir.Bm25(field, query):
                ranked = self.bindings[field.binding].type
                assert ranked is not None
                return bm25({id_: row.get(field.column) for id_, row in self.graph.nodes[ranked.name].items()}, query, ids)
            case ir.Fusion(first, second, k, depth):
                return fused([self.best(arm, ids)[:depth] for arm in (first, second)], k)
            case _:
                assert_never(ranking)

    def best(self, arm: ir.Nearest | ir.Bm25, ids: set[str]) -> list[str]:
        scores = self.scores(arm, ids)
        return sorted(scores, key=lambda id_: (scores[id_] if isinstance(arm, ir.Nearest) else -scores[id_], id_))

    # expressions

    def value(self, expr: ir.Expr, row: Row) -> Any:
        match expr:
            case Constant(value=value):
                return value
            case Field(binding=binding, column=column):
                if (binding, column) in row:
                    return row[binding, column]
                id_ = row[binding]
                if expr.whole or id_ is None:
                    return id_
                type_ = self.bindings[binding].type
                assert type_ is not None
                if column == TYPE:
                    return type_.name
                table = self.graph.nodes if type_.kind == "node" else self.graph.edges
                return table[type_.name][id_].get(column)
            case ir.TextMatch(_, field, query):
                text = self.value(field, row)
                return None if text is None else text_matches(text, query)
            case ir.Score(slot):
                return row["score", slot]
            case ir.Cell(index):
                return row[index]
            case ir.Arithmetic(left, operator, right, type_):
                return computed(self.value(left, row), operator, self.value(right, row), type_)
            case ir.FunctionCall(Function.COALESCE, arguments):
                return next((value for argument in arguments if (value := self.value(argument, row)) is not None), None)
            case ir.FunctionCall(function, arguments):
                return _called(function, [self.value(argument, row) for argument in arguments])
            case _:
                assert_never(expr)

    def all_hold(self, where: tuple[ir.Predicate, ...], row: Row) -> bool:
        return all(self.truth(predicate, row) is True for predicate in where)

    def truth(self, predicate: ir.Predicate, row: Row) -> bool | None:
        """True, false, or None for unknown."""
        match predicate:
            case ir.AllOf(terms):
                truths = [self.truth(term, row) for term in terms]
                return False if False in truths else None if None in truths else True
            case ir.AnyOf(terms):
                truths = [self.truth(term, row) for term in terms]
                return True if True in truths else None if None in truths else False
            case ir.Not(term):
                truth = self.truth(term, row)
                return None if truth is None else not truth
            case ir.IsNull(value):
                return self.value(value, row) is None
            case ir.Known(truth):
                return truth
            case ir.Decided(field, truth):
                return None if self.value(field, row) is None else truth
            case ir.OneOf(value, values):
                found = self.value(value, row)
                return False if not values else None if found is None else found in values
            case ir.Matches(text, wanted):
                matched = self.value(text, row)
                return None if matched is None else matched is wanted
            case (
                ir.Compare(left, _, right)
                | ir.Includes(left, right)
                | ir.Substring(left, right)
                | ir.Prefix(left, right)
                | ir.Suffix(left, right)
            ):
                return self.compared(predicate, self.value(left, row), self.value(right, row))
            case _:
                assert_never(predicate)

    def compared(self, predicate: ir.Compare | ir.Includes | ir.Substring | ir.Prefix | ir.Suffix, a: Any, b: Any) -> bool | None:
        if a is None or b is None:
            return None
        match predicate:
            case ir.Compare(_, operator, _):
                return bool(COMPARE[operator](a, b))
            case ir.Includes() | ir.Substring():
                return b in a
            case ir.Prefix():
                return bool(a.startswith(b))
            case ir.Suffix():
                return bool(a.endswith(b))
            case _:
                assert_never(predicate)

    # results

    def results(self, plan: ir.LogicalPlan) -> list[tuple[Any, ...]]:
        match plan:
            case ir.LogicalProject(ir.LogicalAggregate() as input_, outputs):
                groups = (dict(enumerate(result)) for result in self.results(input_))
                return [tuple(self.value(output, group) for output in outputs) for group in groups]
            case ir.LogicalProject(input_, outputs):
                return [tuple(self.value(output, row) for output in outputs) for row in self.rows(input_, {})]
            case ir.LogicalDistinct(input_):
                return list(dict.fromkeys(self.results(input_)))
            case ir.LogicalAggregate(input_, outputs):
                return self.grouped(self.rows(input_, {}), outputs)
            case ir.LogicalOrder(input_, keys):
                results = self.results(input_)
                for key in reversed(keys):
                    assert isinstance(key.key, ir.Cell)
                    index = key.key.index
                    results = _sorted(results, [result[index] for result in results], key)
                return results
            case ir.LogicalLimit(input_, count, skip):
                return self.results(input_)[skip:][:count]
            case ir.LogicalEmpty():
                return []
            case _:
                raise AssertionError(plan)

    def grouped(self, rows: list[Row], outputs: tuple[ir.Expr | ir.Call, ...]) -> list[tuple[Any, ...]]:
        keys = [output for output in outputs if not isinstance(output, ir.Call)]
        groups: dict[tuple[Any, ...], list[Row]] = {} if keys else {(): []}
        for row in rows:
            groups.setdefault(tuple(self.value(key, row) for key in keys), []).append(row)
        results = []
        for key, members in groups.items():
            found = iter(key)
            results.append(tuple(self.called(output, members) if isinstance(output, ir.Call) else next(found) for output in outputs))
        return results

    def called(self, call: ir.Call, rows: list[Row]) -> Any:
        if call.argument is None:
            return len(rows)
        values = [value for value in (self.value(call.argument, row) for row in rows) if value is not None]
        if call.distinct:
            values = list(dict.fromkeys(values))
        match call.function:
            case AggregateFunction.COUNT:
                return len(values)
            case AggregateFunction.SUM if call.type == F64:
                return math.fsum(values) if values else None
            case AggregateFunction.SUM:
                return sum(values) if values else None
            case AggregateFunction.COLLECT:
                return tuple(values)
            case AggregateFunction.AVG:
                return math.fsum(values) / len(values) if values else None
            case AggregateFunction.MIN:
                return min(values, default=None)
            case AggregateFunction.MAX:
                return max(values, default=None)
            case _:
                assert_never(call.function)


def _ranked(ranking: ir.Ranking) -> Field:
    return ranking.first.field if isinstance(ranking, ir.Fusion) else ranking.field


_Sorted = TypeVar("_Sorted")


def _sorted(rows: list[_Sorted], values: list[Any], key: ir.SortKey) -> list[_Sorted]:
    """Stable; nulls are smallest unless the key says where they stand."""
    order = sorted(range(len(rows)), key=lambda at: _nulls_first(values[at]), reverse=key.descending)
    if key.nulls is not None:
        order = sorted(order, key=lambda at: (values[at] is None) is (key.nulls is NullOrder.LAST))
    return [rows[at] for at in order]


def _called(function: Function, values: list[Any]) -> Any:
    if None in values:
        return None
    match function:
        case Function.LOWER:
            return values[0].lower()
        case Function.UPPER:
            return values[0].upper()
        case Function.LENGTH:
            return len(values[0])
        case _:
            raise NotImplementedError(function)


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)
