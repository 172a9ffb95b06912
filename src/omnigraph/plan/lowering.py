"""Typed read + bound parameters + the query's instant -> logical plan, in the plain order of the language.

Match, then filters, then negations, then rankings; then grouping, order, limit and projection. The rules optimize it later.
"""

from __future__ import annotations

from typing import assert_never

from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang.query import Comparison, Containment
from omnigraph.plan import ir, typed
from omnigraph.plan.expr import BOOL, DATETIME, Constant, Field, type_ref
from omnigraph.plan.params import Bindings
from omnigraph.plan.typed import Parameter, TextMode

DEFAULT_RRF_K = 60
DEFAULT_MAX_EDITS = 2


class Filler:
    """Replaces parameters and `now()` by values, and numbers the rankings it meets."""

    def __init__(self, parameters: Bindings, now_ms: int, *, leading: typed.Expr | None = None, depth: int | None = None) -> None:
        """A fusion that is the `leading` sort key reads `depth` entities of each arm. Any other fusion reads all."""
        self._parameters = parameters
        self._now_ms = now_ms
        self._leading = leading
        self._depth = depth
        self.rankings: dict[ir.Ranking, int] = {}

    def value(self, operand: typed.Operand) -> Constant:
        match operand:
            case Constant():
                return operand
            case Parameter(name, type_):
                return Constant(type_, self._parameters[name])
            case typed.NowCall():
                return Constant(DATETIME, self._now_ms)
            case _:
                assert_never(operand)

    def expr(self, expr: typed.Expr) -> ir.Expr:
        match expr:
            case Field():
                return expr
            case Constant() | Parameter() | typed.NowCall():
                return self.value(expr)
            case typed.TextSearch():
                return self._text_match(expr)
            case typed.NearestScore() | typed.Bm25Score() | typed.RrfScore():
                return self.score(expr)
            case typed.AggregateCall():
                raise AssertionError("an aggregate stands only at the top of a projection")
            case _:
                assert_never(expr)

    def score(self, ranking: typed.Ranking) -> ir.Score:
        return ir.Score(self.rankings.setdefault(self._ranking(ranking), len(self.rankings)))

    def _text_match(self, search: typed.TextSearch) -> ir.Expr:
        query = self.value(search.query).value
        if query is None:
            return Constant(BOOL, None)
        assert isinstance(query, str)
        if search.mode is not TextMode.FUZZY:
            return ir.TextMatch(search.mode, search.field, query)
        edits = DEFAULT_MAX_EDITS if search.max_edits is None else self.value(search.max_edits).value
        if not isinstance(edits, int) or edits < 0:
            raise InvalidInput(Kind.INVALID_ARGUMENT, "max_edits of fuzzy must be an integer, 0 or more")
        return ir.TextMatch(search.mode, search.field, query, edits)

    def _ranking(self, ranking: typed.Ranking) -> ir.Ranking:
        match ranking:
            case typed.NearestScore():
                return self._nearest(ranking)
            case typed.Bm25Score():
                return self._bm25(ranking)
            case typed.RrfScore(first, second, k):
                number = DEFAULT_RRF_K if k is None else self.value(k).value
                if not isinstance(number, int) or number <= 0:
                    raise InvalidInput(Kind.INVALID_ARGUMENT, "k of rrf must be greater than 0")
                return ir.Fusion(self._arm(first), self._arm(second), number, self._depth if ranking == self._leading else None)
            case _:
                assert_never(ranking)

    def _arm(self, arm: typed.NearestScore | typed.Bm25Score) -> ir.Nearest | ir.Bm25:
        return self._nearest(arm) if isinstance(arm, typed.NearestScore) else self._bm25(arm)

    def _nearest(self, ranking: typed.NearestScore) -> ir.Nearest:
        query = self.value(ranking.query).value
        if isinstance(query, str):
            return ir.Nearest(ranking.field, query)
        if not isinstance(query, tuple):
            raise InvalidInput(Kind.INVALID_ARGUMENT, "nearest needs a query, and its parameter is null")
        vector = tuple(float(element) for element in query)
        if not any(vector):
            raise InvalidInput(Kind.INVALID_ARGUMENT, "nearest needs a direction, and the query vector is all zeros")
        return ir.Nearest(ranking.field, vector)

    def _bm25(self, ranking: typed.Bm25Score) -> ir.Bm25:
        query = self.value(ranking.query).value
        if not isinstance(query, str):
            raise InvalidInput(Kind.INVALID_ARGUMENT, "bm25 needs a query, and its parameter is null")
        return ir.Bm25(ranking.field, query)


def lower(read: typed.TypedRead, parameters: Bindings, *, now_ms: int) -> ir.LogicalRead:
    """The read as the language evaluates it, step by step."""
    for key in read.order:
        if isinstance(key.key, typed.UnsupportedOrder):
            raise LanguageError(Kind.TYPE, key.key.message, span=key.key.span)
    filler = Filler(parameters, now_ms, leading=_leading(read), depth=read.limit)
    matched = _block(read.block, read, filler)
    root = _grouped(read, matched, filler) if read.aggregates else _listed(read, matched, filler)
    bindings = tuple(ir.Binding(variable.name, type_ref(variable.type)) for variable in read.variables)
    columns = tuple(ir.Column(output.name, output.type, output.nullable) for output in read.outputs)
    return ir.LogicalRead(read.name, root, bindings, columns)


def _leading(read: typed.TypedRead) -> typed.Expr | None:
    """The first sort key, with an alias resolved."""
    if not read.order:
        return None
    key = read.order[0].key
    assert not isinstance(key, typed.UnsupportedOrder)
    return read.outputs[key.index].expr if isinstance(key, typed.OutputKey) else key


# match


def _block(block: typed.Block, read: typed.TypedRead, filler: Filler) -> ir.LogicalPlan:
    # Declared slots come first: without statistics a component is searched from its first binding.
    slots = (*(slot for slot in block.declared if slot in block.nodes), *(slot for slot in block.nodes if slot not in block.declared))
    scans = tuple(ir.LogicalScan(slot, type_ref(read.variables[slot].type)) for slot in slots)
    plan: ir.LogicalPlan = ir.LogicalPattern(scans, tuple(_link(link) for link in block.links), block.outer)
    if block.conditions:
        plan = ir.LogicalFilter(plan, tuple(predicate(condition, filler) for condition in block.conditions))
    for negation in block.negations:
        plan = ir.LogicalAntiJoin(plan, _block(negation, read, filler), negation.outer)
    return plan


def _link(link: typed.Link) -> ir.Link:
    # An edge between two different types cannot be followed twice: it has one hop at most.
    high = link.high if link.edge.source == link.edge.target else 1
    return ir.Link(type_ref(link.edge), link.left, link.right, link.direction, link.low, high, link.edge_slot)


def predicate(condition: typed.Condition, filler: Filler) -> ir.Predicate:
    """A condition with its operands filled in."""
    left, right = filler.expr(condition.left), filler.expr(condition.right)
    match condition.operator:
        case Comparison() as operator:
            return ir.Compare(left, operator, right)
        case Containment.STARTS_WITH:
            return ir.Prefix(left, right)
        case Containment.CONTAINS:
            is_list = typed.is_list(condition.left)
            return ir.Includes(left, right) if is_list else ir.Substring(left, right)
        case _:
            assert_never(condition.operator)


# return, order, limit


def _listed(read: typed.TypedRead, matched: ir.LogicalPlan, filler: Filler) -> ir.LogicalPlan:
    outputs = tuple(filler.expr(output.expr) for output in read.outputs)
    keys: list[ir.SortKey] = []
    for key in read.order:
        expr = outputs[key.key.index] if isinstance(key.key, typed.OutputKey) else _sort_expr(key.key, filler)
        keys.append(ir.SortKey(expr, key.descending))
        if isinstance(key.key, typed.NearestScore | typed.Bm25Score | typed.RrfScore):
            break  # what follows a ranking is ignored
    leading = keys[0].key if keys else None
    plan = _ranked(matched, filler, leading if isinstance(leading, ir.Score) else None)
    # A constant has no effect beside other keys. Alone it still requests the total order that breaks ties.
    keys = [key for key in keys if not isinstance(key.key, Constant)] or keys
    if keys:
        plan = ir.LogicalOrder(plan, tuple(keys), _ties(read))
    if read.limit is not None:
        plan = ir.LogicalLimit(plan, read.limit)
    return ir.LogicalProject(plan, outputs)


def _sort_expr(key: Field | typed.Ranking | typed.UnsupportedOrder, filler: Filler) -> ir.Expr:
    assert not isinstance(key, typed.UnsupportedOrder)
    return filler.expr(key)


def _ties(read: typed.TypedRead) -> tuple[int, ...]:
    """Every named variable of the match, in the order of its name."""
    edges = (link.edge_slot for link in read.block.links if link.edge_slot is not None)
    named = [slot for slot in (*read.block.nodes, *edges) if read.variables[slot].name != "_"]
    return tuple(sorted(named, key=lambda slot: read.variables[slot].name))


def _ranked(plan: ir.LogicalPlan, filler: Filler, leading: ir.Score | None) -> ir.LogicalPlan:
    """A `Rank` for every ranking met so far; the one that leads the order drops rows without a score."""
    for ranking, slot in filler.rankings.items():
        plan = ir.LogicalRank(plan, slot, ranking, only_candidates=leading is not None and leading.slot == slot)
    return plan


def _grouped(read: typed.TypedRead, matched: ir.LogicalPlan, filler: Filler) -> ir.LogicalPlan:
    outputs = tuple(_group_output(output.expr, filler) for output in read.outputs)
    keys: list[ir.SortKey] = []
    leading: ir.SortKey | None = None
    for key in read.order:
        match key.key:
            case typed.OutputKey(index):
                keys.append(ir.SortKey(ir.Cell(index), key.descending))
            case typed.NearestScore() | typed.Bm25Score() | typed.RrfScore():
                leading = ir.SortKey(filler.score(key.key), key.descending)
                break
            case Field() | typed.UnsupportedOrder():
                raise AssertionError("an order after grouping is by result columns")
            case _:
                assert_never(key.key)
    score = leading.key if leading is not None and isinstance(leading.key, ir.Score) else None
    plan = _ranked(matched, filler, score)
    if leading is not None and read.limit is not None:
        # The groups are formed of the best rows only.
        plan = ir.LogicalLimit(ir.LogicalOrder(plan, (leading,), _ties(read)), read.limit)
    plan = ir.LogicalAggregate(plan, outputs)
    if keys:
        plan = ir.LogicalOrder(plan, tuple(keys), ())
    return plan if read.limit is None else ir.LogicalLimit(plan, read.limit)


def _group_output(expr: typed.Expr, filler: Filler) -> Field | ir.Call:
    match expr:
        case Field():
            return expr
        case typed.AggregateCall(function, argument, type_):
            return ir.Call(function, filler.expr(argument), type_)
        case _:
            raise AssertionError("the grouping rule lets only fields and aggregates through")
