"""A logical plan over a tiny graph in memory -> its rows, by brute force. The meaning against which rewrites are measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any, assert_never

from omnigraph.lang.query import AggregateFunction
from omnigraph.plan import ir
from omnigraph.plan.expr import Constant, Field
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
            case ir.LogicalAntiJoin(input_, inner, on):
                return [row for row in self.rows(input_, outer) if not self.rows(inner, {binding: row[binding] for binding in on})]
            case ir.LogicalRank():
                return self.ranked(plan, self.rows(plan.input, outer))
            case ir.LogicalFetch(input_):
                return self.rows(input_, outer)
            case ir.LogicalOrder(input_, keys, ties):
                return self.ordered(self.rows(input_, outer), keys, ties)
            case ir.LogicalLimit(input_, count):
                return self.rows(input_, outer)[:count]
            case ir.LogicalEmpty():
                return []
            case ir.LogicalAggregate() | ir.LogicalProject():
                raise AssertionError("results, not rows")
            case _:
                assert_never(plan)

    def scanned(self, scan: ir.LogicalScan) -> list[str]:
        return [id_ for id_ in self.graph.nodes[scan.type.name] if self.all_hold(scan.where, {scan.binding: id_})]

    def joined(self, left: Field, right: Field, row: Row) -> bool:
        value = self.value(left, row)
        return value is not None and value == self.value(right, row)

    def pattern(self, plan: ir.LogicalPattern, outer: Row) -> list[Row]:
        rows: list[Row] = [{binding: outer[binding] for binding in plan.argument}]
        for scan in plan.scans:
            rows = [{**row, scan.binding: id_} for row in rows for id_ in self.scanned(scan)]
        for link in plan.links:
            rows = [found for row in rows for found in self.linked(link, row)]
        return rows

    def linked(self, link: ir.Link, row: Row) -> Iterator[Row]:
        """The row once if its ends are linked, or once per edge that is bound."""
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
        found = []
        for edge in self.graph.edges[link.edge.name].values():
            if link.direction in (Direction.OUT, Direction.BOTH) and edge["src"] == node:
                found.append(edge["dst"])
            if link.direction in (Direction.IN, Direction.BOTH) and edge["dst"] == node:
                found.append(edge["src"])
        return found

    def ordered(self, rows: list[Row], keys: tuple[ir.SortKey, ...], ties: tuple[int, ...]) -> list[Row]:
        rows = sorted(rows, key=lambda row: tuple(row[binding] for binding in ties))
        for key in reversed(keys):
            assert not isinstance(key.key, ir.Cell)
            expr = key.key
            rows = sorted(rows, key=partial(self._sort_key, expr), reverse=key.descending)
        return rows

    def _sort_key(self, expr: Any, row: Row) -> tuple[bool, Any]:
        return _nulls_first(self.value(expr, row))

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
                type_name = self.bindings[field.binding].type.name
                return bm25({id_: row.get(field.column) for id_, row in self.graph.nodes[type_name].items()}, query, ids)
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
                id_ = row[binding]
                if expr.whole:
                    return id_
                type_ = self.bindings[binding].type
                table = self.graph.nodes if type_.kind == "node" else self.graph.edges
                return table[type_.name][id_].get(column)
            case ir.TextMatch(_, field, query):
                text = self.value(field, row)
                return None if text is None else text_matches(text, query)
            case ir.Score(slot):
                return row["score", slot]
            case _:
                assert_never(expr)

    def all_hold(self, where: tuple[ir.Predicate, ...], row: Row) -> bool:
        return all(self.holds(predicate, row) for predicate in where)

    def holds(self, predicate: ir.Predicate, row: Row) -> bool:
        match predicate:
            case ir.Compare(left, operator, right):
                a, b = self.value(left, row), self.value(right, row)
                return a is not None and b is not None and COMPARE[operator](a, b)
            case ir.OneOf(field, values):
                return self.value(field, row) in values
            case ir.Includes(left, right):
                a, b = self.value(left, row), self.value(right, row)
                return a is not None and b is not None and b in a
            case ir.Substring(left, right):
                a, b = self.value(left, row), self.value(right, row)
                return a is not None and b is not None and b in a
            case ir.Prefix(left, right):
                a, b = self.value(left, row), self.value(right, row)
                return a is not None and b is not None and a.startswith(b)
            case ir.Matches(text, wanted):
                return self.value(text, row) is wanted
            case ir.NotNull(field):
                return self.value(field, row) is not None
            case ir.Never():
                return False
            case _:
                assert_never(predicate)

    # results

    def results(self, plan: ir.LogicalPlan) -> list[tuple[Any, ...]]:
        match plan:
            case ir.LogicalProject(input_, outputs):
                return [tuple(self.value(output, row) for output in outputs) for row in self.rows(input_, {})]
            case ir.LogicalAggregate(input_, outputs):
                return self.grouped(self.rows(input_, {}), outputs)
            case ir.LogicalOrder(input_, keys):
                results = self.results(input_)
                for key in reversed(keys):
                    assert isinstance(key.key, ir.Cell)
                    index = key.key.index
                    results = sorted(results, key=partial(_cell_key, index), reverse=key.descending)
                return results
            case ir.LogicalLimit(input_, count):
                return self.results(input_)[:count]
            case ir.LogicalEmpty():
                return []
            case _:
                raise AssertionError(plan)

    def grouped(self, rows: list[Row], outputs: tuple[Field | ir.Call, ...]) -> list[tuple[Any, ...]]:
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
        values = [value for value in (self.value(call.argument, row) for row in rows) if value is not None]
        match call.function:
            case AggregateFunction.COUNT:
                return len(values)
            case AggregateFunction.SUM:
                return math.fsum(values) if values else None
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


def _cell_key(index: int, result: tuple[Any, ...]) -> tuple[bool, Any]:
    return _nulls_first(result[index])


def _nulls_first(value: Any) -> tuple[bool, Any]:
    return (value is not None, 0 if value is None else value)
