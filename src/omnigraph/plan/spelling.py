"""Expressions, predicates and links of a plan -> the text a person would write for them."""

from __future__ import annotations

import json
from typing import assert_never

from omnigraph.plan import ir
from omnigraph.plan.expr import Constant, Field
from omnigraph.plan.typed import Direction

_SHOWN_ITEMS = 8


class Speller:
    """Formats the parts of a plan with the names of its bindings."""

    def __init__(self, bindings: tuple[ir.Binding, ...]) -> None:
        self._bindings = bindings

    def variable(self, binding: int) -> str:
        name = self._bindings[binding].name
        return f"$_{binding}" if name == "_" else f"${name}"

    def expr(self, expr: ir.Expr) -> str:
        match expr:
            case Constant(value=value):
                return _value(value)
            case Field(binding=binding, column=column):
                return self.variable(binding) if expr.whole else f"{self.variable(binding)}.{column}"
            case ir.TextMatch(mode, field, query, max_edits):
                edits = f", {max_edits}" if max_edits else ""
                return f"{mode}({self.expr(field)}, {_value(query)}{edits})"
            case ir.Score(slot):
                return f"score #{slot}"
            case ir.Cell(index):
                return f"column {index}"
            case ir.Arithmetic(left, operator, right):
                return f"({self.expr(left)} {operator} {self.expr(right)})"
            case ir.FunctionCall(function, arguments):
                return f"{function}({', '.join(self.expr(argument) for argument in arguments)})"
            case _:
                assert_never(expr)

    def predicate(self, predicate: ir.Predicate) -> str:
        match predicate:
            case ir.Compare(left, operator, right):
                return f"{self.expr(left)} {operator} {self.expr(right)}"
            case ir.OneOf(value, values):
                return f"{self.expr(value)} in {_value(values)}"
            case ir.Includes(items, item):
                return f"{self.expr(items)} contains {self.expr(item)}"
            case ir.Substring(text, part):
                return f"{self.expr(text)} contains {self.expr(part)}"
            case ir.Prefix(text, prefix):
                return f"{self.expr(text)} starts_with {self.expr(prefix)}"
            case ir.Matches(text, wanted):
                return f"{'' if wanted else 'not '}{self.expr(text)}"
            case ir.Suffix(text, suffix):
                return f"{self.expr(text)} ends_with {self.expr(suffix)}"
            case ir.IsNull(value):
                return f"{self.expr(value)} is null"
            case ir.Decided(field, truth):
                return f"{self.expr(field)} is not null" if truth else "false"
            case ir.Known(truth):
                return "unknown" if truth is None else str(truth).lower()
            case ir.AllOf(terms):
                return f"({' and '.join(self.predicate(term) for term in terms)})"
            case ir.AnyOf(terms):
                return f"({' or '.join(self.predicate(term) for term in terms)})"
            case ir.Not(ir.IsNull(value)):
                return f"{self.expr(value)} is not null"
            case ir.Not(term):
                return f"not ({self.predicate(term)})"
            case _:
                assert_never(predicate)

    def ranking(self, ranking: ir.Ranking) -> str:
        match ranking:
            case ir.Nearest(field, query):
                return f"nearest({self.expr(field)}, {_value(query)})"
            case ir.Bm25(field, query):
                return f"bm25({self.expr(field)}, {_value(query)})"
            case ir.Fusion(first, second, k, depth):
                reach = "all" if depth is None else f"the first {depth}"
                return f"rrf({self.ranking(first)}, {self.ranking(second)}, {k}) over {reach} of each"
            case _:
                assert_never(ranking)

    def output(self, output: ir.Expr | ir.Call) -> str:
        if not isinstance(output, ir.Call):
            return self.expr(output)
        argument = "*" if output.argument is None else self.expr(output.argument)
        return f"{output.function}({'distinct ' if output.distinct else ''}{argument})"

    def sort_key(self, key: ir.SortKey) -> str:
        direction = " desc" if key.descending else ""
        nulls = "" if key.nulls is None else f" nulls {key.nulls}"
        return f"{self.expr(key.key)}{direction}{nulls}"

    def link(self, link: ir.Link) -> str:
        """As an arrow along the stored edges: `$p -ActedIn-> $f`, `$f <-ActedIn- $p`, `$p -Influenced{1,3}- $q`."""
        edges = "|".join(edge.name for edge in link.edges)
        name = edges if link.edge_binding is None else f"{self.variable(link.edge_binding)}:{edges}"
        hops = "" if (link.low, link.high) == (1, 1) else f"{{{link.low},{link.high}}}"
        tail = "<-" if link.direction is Direction.IN else "-"
        head = "->" if link.direction is Direction.OUT else "-"
        return f"{self.variable(link.left)} {tail}{name}{hops}{head} {self.variable(link.right)}"


def _value(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _SHOWN_ITEMS:
        shown = ", ".join(_value(item) for item in value[:_SHOWN_ITEMS])
        return f"[{shown}, ... {len(value)} in all]"
    return json.dumps(value, ensure_ascii=False)
