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
            case _:
                assert_never(expr)

    def predicate(self, predicate: ir.Predicate) -> str:
        match predicate:
            case ir.Compare(left, operator, right):
                return f"{self.expr(left)} {operator} {self.expr(right)}"
            case ir.OneOf(field, values):
                return f"{self.expr(field)} in {_value(values)}"
            case ir.Includes(items, item):
                return f"{self.expr(items)} contains {self.expr(item)}"
            case ir.Substring(text, part):
                return f"{self.expr(text)} contains {self.expr(part)}"
            case ir.Prefix(text, prefix):
                return f"{self.expr(text)} starts_with {self.expr(prefix)}"
            case ir.Matches(text, wanted):
                return f"{'' if wanted else 'not '}{self.expr(text)}"
            case ir.NotNull(field):
                return f"{self.expr(field)} is not null"
            case ir.Never():
                return "false"
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

    def output(self, output: Field | ir.Call) -> str:
        return f"{output.function}({self.expr(output.argument)})" if isinstance(output, ir.Call) else self.expr(output)

    def sort_key(self, key: ir.SortKey) -> str:
        spelled = f"column {key.key.index}" if isinstance(key.key, ir.Cell) else self.expr(key.key)
        return f"{spelled} desc" if key.descending else spelled

    def link(self, link: ir.Link) -> str:
        """As an arrow along the stored edges: `$p -ActedIn-> $f`, `$f <-ActedIn- $p`, `$p -Influenced{1,3}- $q`."""
        name = link.edge.name if link.edge_binding is None else f"{self.variable(link.edge_binding)}:{link.edge.name}"
        hops = "" if (link.low, link.high) == (1, 1) else f"{{{link.low},{link.high}}}"
        tail = "<-" if link.direction is Direction.IN else "-"
        head = "->" if link.direction is Direction.OUT else "-"
        return f"{self.variable(link.left)} {tail}{name}{hops}{head} {self.variable(link.right)}"


def _value(value: object) -> str:
    if isinstance(value, tuple) and len(value) > _SHOWN_ITEMS:
        shown = ", ".join(_value(item) for item in value[:_SHOWN_ITEMS])
        return f"[{shown}, ... {len(value)} in all]"
    return json.dumps(value, ensure_ascii=False)
