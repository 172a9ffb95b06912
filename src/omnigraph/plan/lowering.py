"""Typed read + bound parameters + the query's instant -> logical plan, in the plain order of the language.

Match, with optional blocks in the order of the text, then rankings; then grouping, projection, order and limit. The rules
optimize it later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from omnigraph.errors import InvalidInput, Kind, LanguageError
from omnigraph.lang.query import AggregateFunction, Comparison, Containment
from omnigraph.plan import ir, typed
from omnigraph.plan.arithmetic import computed
from omnigraph.plan.coercion import listed
from omnigraph.plan.expr import BOOL, DATETIME, Constant, Field, TypeRef, Value, type_ref
from omnigraph.plan.params import Bindings
from omnigraph.plan.typed import Parameter, TextMode
from omnigraph.plan.values import narrowed_all

DEFAULT_RRF_K = 60
DEFAULT_MAX_EDITS = 2


class Filler:
    """Replaces parameters and `now()` by values, and numbers the rankings it meets."""

    def __init__(
        self, parameters: Bindings, now_ms: int, *, leading: typed.Expr | None = None, depth: int | None = None, marked: bool = False
    ) -> None:
        """A fusion that is the `leading` sort key reads `depth` entities of each arm. Any other fusion reads all.

        With `marked`, values bear the names of their parameters.
        """
        self._marked = marked
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
                return Constant(type_, self._parameters[name], name if self._marked else None)
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
            case typed.Arithmetic(left, operator, right, type_):
                first, second = self.expr(left), self.expr(right)
                if isinstance(first, Constant) and isinstance(second, Constant):
                    return Constant(type_, computed(first.value, operator, second.value, type_))
                return ir.Arithmetic(first, operator, second, type_)
            case typed.FunctionCall(function, arguments, type_):
                return ir.FunctionCall(function, tuple(self.expr(argument) for argument in arguments), type_)
            case typed.AggregateCall():
                raise AssertionError("aggregates are computed by the operator below")
            case _:
                assert_never(expr)

    def count(self, operand: int | Parameter | None, clause: str) -> int | None:
        """The number of rows of `skip` or `limit`."""
        if operand is None or isinstance(operand, int):
            return operand
        number = self._parameters[operand.name]
        if not isinstance(number, int) or number < 0:
            given = "null" if number is None else str(number)
            raise InvalidInput(
                Kind.INVALID_ARGUMENT, f"param '{operand.name}': {clause} needs an integer, 0 or more, got {given}", parameter=operand.name
            )
        return number

    def score(self, ranking: typed.Ranking) -> ir.Score:
        return ir.Score(self.rankings.setdefault(self._ranking(ranking), len(self.rankings)))

    def _text_match(self, search: typed.TextSearch) -> ir.Expr:
        given = self.value(search.query)
        query = given.value
        if query is None:
            return Constant(BOOL, None)
        assert isinstance(query, str)
        if search.mode is not TextMode.FUZZY:
            return ir.TextMatch(search.mode, search.field, query, parameter=given.parameter)
        edits = DEFAULT_MAX_EDITS if search.max_edits is None else self.value(search.max_edits).value
        if not isinstance(edits, int) or edits < 0:
            raise InvalidInput(Kind.INVALID_ARGUMENT, "max_edits of fuzzy must be an integer, 0 or more")
        return ir.TextMatch(search.mode, search.field, query, edits, given.parameter)

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
        given = self.value(ranking.query)
        return ir.Nearest(ranking.field, nearest_query(given.value), given.parameter)

    def _bm25(self, ranking: typed.Bm25Score) -> ir.Bm25:
        given = self.value(ranking.query)
        if not isinstance(given.value, str):
            raise InvalidInput(Kind.INVALID_ARGUMENT, "bm25 needs a query, and its parameter is null")
        return ir.Bm25(ranking.field, given.value, given.parameter)


def nearest_query(given: Value) -> tuple[float, ...] | str:
    """What `nearest` compares with: a text, or a vector as vectors are stored, or InvalidInput."""
    if isinstance(given, str):
        return given
    if not isinstance(given, tuple):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "nearest needs a query, and its parameter is null")
    vector = narrowed_all([float(element) for element in given])
    if vector is None:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "nearest needs a query of finite numbers")
    if not any(vector):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "nearest needs a direction, and the query vector is all zeros")
    return vector


def lower(read: typed.TypedRead, parameters: Bindings, *, now_ms: int, marked: bool = False) -> ir.LogicalRead:
    """The read as the language evaluates it, step by step. With `marked`, values bear the names of their parameters."""
    for key in read.order:
        if isinstance(key.key, typed.UnsupportedOrder):
            raise LanguageError(Kind.TYPE, key.key.message, span=key.key.span)
    counting = Filler(parameters, now_ms)
    limit, skip = counting.count(read.limit, "limit"), counting.count(read.skip, "skip") or 0
    # Groups and distinct rows are formed of the best `limit` rows, and skipped afterwards.
    cells = bool(read.aggregates) or read.distinct
    depth = None if limit is None else limit if cells else limit + skip
    filler = Filler(parameters, now_ms, leading=_leading(read), depth=depth, marked=marked)
    matched = match_plan(read.block, read.variables, filler)
    shape = _Shape(read, limit, skip)
    root = shape.cells(matched, filler) if cells else shape.rows(matched, filler)
    columns = tuple(ir.Column(output.name, output.type, output.nullable) for output in read.outputs)
    return ir.LogicalRead(read.name, root, bindings_of(read.variables), columns)


def bindings_of(variables: tuple[typed.BoundVariable, ...]) -> tuple[ir.Binding, ...]:
    return tuple(ir.Binding(variable.name, variable_type(variable)) for variable in variables)


def variable_type(variable: typed.BoundVariable) -> TypeRef | None:
    """The type whose rows a variable stands for; a path has none."""
    return None if isinstance(variable.type, typed.PathType) else type_ref(variable.type)


def _leading(read: typed.TypedRead) -> typed.Expr | None:
    """The first sort key, with an alias resolved."""
    if not read.order:
        return None
    key = read.order[0].key
    assert not isinstance(key, typed.UnsupportedOrder)
    return read.outputs[key.index].expr if isinstance(key, typed.OutputKey) else key


# match


def match_plan(block: typed.Block, variables: tuple[typed.BoundVariable, ...], filler: Filler) -> ir.LogicalPlan:
    """A block, part by part. Its first pattern starts from the outer rows, each later part from the rows before it."""
    plan: ir.LogicalPlan | None = None
    for part in block.parts:
        match part:
            case typed.Pattern():
                plan = _pattern(part, plan, block.outer, variables, filler)
            case typed.OptionalBlock(inner, binds):
                before = ir.LogicalArgument(block.outer) if plan is None else plan
                plan = ir.LogicalOptional(before, ir.Inner(match_plan(inner, variables, filler), inner.outer), binds)
            case _:
                assert_never(part)
    assert plan is not None
    return plan


def _pattern(
    pattern: typed.Pattern,
    before: ir.LogicalPlan | None,
    outer: tuple[int, ...],
    variables: tuple[typed.BoundVariable, ...],
    filler: Filler,
) -> ir.LogicalPlan:
    # Declared slots come first: without statistics a component is searched from its first binding.
    undeclared = (slot for slot in pattern.nodes if slot not in pattern.declared)
    slots = (*(slot for slot in pattern.declared if slot in pattern.nodes), *undeclared)
    scans = tuple(_scan(slot, variables[slot]) for slot in slots)
    if before is not None and not scans and not pattern.links:
        plan = before
    else:
        argument = outer if before is None else ()
        plan = ir.LogicalPattern(scans, tuple(_link(link) for link in pattern.links), argument, before)
    if pattern.conditions:
        plan = ir.LogicalFilter(plan, tuple(predicate(condition, filler) for condition in pattern.conditions))
    for test in pattern.tests:
        inners = tuple(ir.Inner(match_plan(block, variables, filler), block.outer) for block in test.blocks)
        plan = ir.LogicalSemiJoin(plan, inners, test.wanted)
    return plan


def _scan(slot: int, variable: typed.BoundVariable) -> ir.LogicalScan:
    type_ = variable_type(variable)
    assert type_ is not None
    return ir.LogicalScan(slot, type_)


def _link(link: typed.Link) -> ir.Link:
    # An edge between two different types cannot be followed twice: it has one hop at most.
    high = link.high if link.edges[0].source == link.edges[0].target else 1
    edges = tuple(type_ref(edge) for edge in link.edges)
    return ir.Link(edges, link.left, link.right, link.direction, link.low, high, link.edge_slot, path=link.path)


def predicate(test: typed.Test, filler: Filler) -> ir.Predicate:
    """A test with its operands filled in."""
    match test:
        case typed.Condition():
            return _condition(test, filler)
        case typed.InList(item, options):
            values = filler.value(options).value
            assert values is None or isinstance(values, tuple)
            return ir.UNKNOWN if values is None else listed(filler.expr(item), typed.type_of(item), values)
        case typed.IsNull(value):
            return ir.IsNull(filler.expr(value))
        case typed.AllOf(terms):
            return ir.AllOf(tuple(predicate(term, filler) for term in terms))
        case typed.AnyOf(terms):
            return ir.AnyOf(tuple(predicate(term, filler) for term in terms))
        case typed.Not(term):
            return ir.Not(predicate(term, filler))
        case _:
            assert_never(test)


def _condition(condition: typed.Condition, filler: Filler) -> ir.Predicate:
    left, right = filler.expr(condition.left), filler.expr(condition.right)
    match condition.operator:
        case Comparison() as operator:
            return ir.Compare(left, operator, right)
        case Containment.STARTS_WITH:
            return ir.Prefix(left, right)
        case Containment.ENDS_WITH:
            return ir.Suffix(left, right)
        case Containment.CONTAINS:
            is_list = typed.is_list(condition.left)
            return ir.Includes(left, right) if is_list else ir.Substring(left, right)
        case _:
            assert_never(condition.operator)


# return, order, skip, limit


class _Shape:
    """The part of a read after its match, with its bounds filled in."""

    def __init__(self, read: typed.TypedRead, limit: int | None, skip: int) -> None:
        self._read = read
        self._limit = limit
        self._skip = skip

    def _limited(self, plan: ir.LogicalPlan) -> ir.LogicalPlan:
        return plan if self._limit is None and not self._skip else ir.LogicalLimit(plan, self._limit, self._skip)

    def rows(self, matched: ir.LogicalPlan, filler: Filler) -> ir.LogicalPlan:
        """Rows are ordered and cut before the projection: a sort key need not be an output."""
        read = self._read
        outputs = tuple(filler.expr(output.expr) for output in read.outputs)
        keys: list[ir.SortKey] = []
        for key in read.order:
            expr = outputs[key.key.index] if isinstance(key.key, typed.OutputKey) else _sort_expr(key.key, filler)
            keys.append(ir.SortKey(expr, key.descending, key.nulls))
            if isinstance(key.key, typed.NearestScore | typed.Bm25Score | typed.RrfScore):
                break  # what follows a ranking is ignored
        leading = keys[0].key if keys else None
        plan = _ranked(matched, filler, leading if isinstance(leading, ir.Score) else None)
        # A constant has no effect beside other keys. Alone it still requests the total order that breaks ties.
        keys = [key for key in keys if not isinstance(key.key, Constant)] or keys
        if keys:
            plan = ir.LogicalOrder(plan, tuple(keys), _ties(read))
        return ir.LogicalProject(self._limited(plan), outputs)

    def cells(self, matched: ir.LogicalPlan, filler: Filler) -> ir.LogicalPlan:
        """Groups and distinct rows are result rows: they are ordered by their columns, and then cut."""
        read = self._read
        make = _grouped if read.aggregates else _projected
        leading = self._ranking(filler)
        outputs = make(read, filler)  # before the rankings are collected: an output may hold one
        first = _leading(read)
        score = filler.score(first) if isinstance(first, typed.NearestScore | typed.Bm25Score | typed.RrfScore) else None
        plan = _ranked(matched, filler, score)
        if leading is not None:
            # The groups are formed of the best rows only, in the order of the ranking.
            plan = ir.LogicalOrder(plan, (leading,), _ties(read))
            plan = plan if self._limit is None else ir.LogicalLimit(plan, self._limit)
        plan = outputs(plan)
        if read.distinct:
            plan = ir.LogicalDistinct(plan)
        order = read.order if leading is None else ()  # what follows a ranking is ignored
        keys = [ir.SortKey(ir.Cell(key.key.index), key.descending, key.nulls) for key in order if isinstance(key.key, typed.OutputKey)]
        if keys:
            plan = ir.LogicalOrder(plan, tuple(keys), ())
        return self._limited(plan)

    def _ranking(self, filler: Filler) -> ir.SortKey | None:
        """The ranking that orders the rows, if the first sort key is one."""
        if not self._read.order:
            return None
        key = self._read.order[0]
        if isinstance(key.key, typed.NearestScore | typed.Bm25Score | typed.RrfScore):
            return ir.SortKey(filler.score(key.key), key.descending)
        return None


def _sort_expr(key: typed.Expr | typed.UnsupportedOrder, filler: Filler) -> ir.Expr:
    assert not isinstance(key, typed.UnsupportedOrder)
    return filler.expr(key)


def _ties(read: typed.TypedRead) -> tuple[int, ...]:
    """Every named entity of the match, in the order of its name."""
    named = [slot for slot in _bound_in(read.block) if read.variables[slot].name != "_"]
    return tuple(sorted(named, key=lambda slot: read.variables[slot].name))


def _bound_in(block: typed.Block) -> list[int]:
    """The slots of entities that a block binds, those of its optional blocks included."""
    slots: list[int] = []
    for part in block.parts:
        match part:
            case typed.Pattern(nodes=nodes, links=links):
                slots += (*nodes, *(link.edge_slot for link in links if link.edge_slot is not None))
            case typed.OptionalBlock(inner):
                slots += _bound_in(inner)
            case _:
                assert_never(part)
    return slots


def _ranked(plan: ir.LogicalPlan, filler: Filler, leading: ir.Score | None) -> ir.LogicalPlan:
    """A `Rank` for every ranking met so far; the one that leads the order drops rows without a score."""
    for ranking, slot in filler.rankings.items():
        plan = ir.LogicalRank(plan, slot, ranking, only_candidates=leading is not None and leading.slot == slot)
    return plan


Outputs = Callable[[ir.LogicalPlan], ir.LogicalPlan]
"""Matched rows -> result rows."""


def _projected(read: typed.TypedRead, filler: Filler) -> Outputs:
    outputs = tuple(filler.expr(output.expr) for output in read.outputs)
    return lambda plan: ir.LogicalProject(plan, outputs)


def _grouped(read: typed.TypedRead, filler: Filler) -> Outputs:
    """Groups, and a projection above them where an output is computed from aggregates."""
    columns: list[ir.Expr | ir.Call] = []

    def column(output: ir.Expr | ir.Call) -> ir.Cell:
        columns.append(output)
        return ir.Cell(len(columns) - 1)

    calls: dict[typed.AggregateCall, ir.Cell] = {}

    def cells(expr: typed.Expr) -> ir.Expr:
        """An expression over aggregates, computed from their cells; the rest of it depends on no row."""
        match expr:
            case typed.AggregateCall():
                if expr not in calls:
                    calls[expr] = column(_call(expr, filler))
                return calls[expr]
            case typed.Arithmetic(left, operator, right, type_):
                return ir.Arithmetic(cells(left), operator, cells(right), type_)
            case typed.FunctionCall(function, arguments, type_):
                return ir.FunctionCall(function, tuple(cells(argument) for argument in arguments), type_)
            case _:
                return filler.expr(expr)

    outputs = tuple(cells(output.expr) if typed.has_aggregate(output.expr) else column(filler.expr(output.expr)) for output in read.outputs)
    collects = any(isinstance(output, ir.Call) and output.function is AggregateFunction.COLLECT for output in columns)
    ranked = bool(read.order) and isinstance(read.order[0].key, typed.NearestScore | typed.Bm25Score | typed.RrfScore)
    ties = _ties(read) if collects and not ranked else ()
    if outputs == tuple(ir.Cell(index) for index in range(len(columns))):
        return lambda plan: ir.LogicalAggregate(plan, tuple(columns), ties)
    return lambda plan: ir.LogicalProject(ir.LogicalAggregate(plan, tuple(columns), ties), outputs)


def _call(call: typed.AggregateCall, filler: Filler) -> ir.Call:
    argument = None if call.argument is None else filler.expr(call.argument)
    return ir.Call(call.function, argument, call.type, call.distinct)
