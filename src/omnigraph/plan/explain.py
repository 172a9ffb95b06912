"""A physical plan -> an indented tree for a person, and JSON for a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, assert_never

import msgspec

from omnigraph.grid import counted
from omnigraph.plan import ir, ops
from omnigraph.plan.spelling import Speller


class RouteTaken(msgspec.Struct, frozen=True):
    """How often a link was followed by one route, from how many nodes, and the time it took."""

    route: str
    calls: int
    nodes: int
    ms: float


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """The measurements of an operator: its output rows and its time, including that of its inputs.

    `adjacency_ms` is the time until the adjacency of its link was ready: in memory, mapped from the cache, or built.
    """

    rows: int
    ms: float
    routes: tuple[RouteTaken, ...] = ()
    adjacency_ms: float = 0.0


_MANY: Final = 1e15
"""An estimate above it is shown as this number: the product of many large types can be infinite."""
MeasuredOf = Callable[[ops.Op], Measured | None]
"""An operator -> its measurements, None if it did not run."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operator: its name, its facts, its estimated rows and its inputs.

    `actual` are its measurements if the plan ran.
    """

    operator: str
    facts: dict[str, object]
    rows: float
    inputs: tuple[Step, ...] = ()
    actual: Measured | None = None


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan, explained. `text` is for people; `to_json` returns the same as data. `notes` name what prevents a better plan."""

    query: str
    columns: tuple[str, ...]
    plan: Step
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The plan for people, one operator a line."""
        return "\n".join(
            (f"{f'query {self.query}' if self.query else 'query'} -> {', '.join(self.columns)}", *_lines(self.plan, 0), *self.notes)
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def to_json(self) -> dict[str, object]:
        """Return the plan as data."""
        built: dict[str, object] = msgspec.to_builtins(self)
        return built


def explain(plan: ops.ReadPlan, *, notes: Iterable[str] = (), measured: MeasuredOf = lambda _: None) -> Explanation:
    """Explain a plan. With `measured`, measurements are shown beside the estimates."""
    root = _Steps(Speller(plan.bindings), measured).step(plan.root)
    return Explanation(plan.name, tuple(column.name for column in plan.columns), root, tuple(notes))


def _lines(step: Step, depth: int) -> Iterable[str]:
    facts = "  ".join(f"{name}: {_shown(value)}" for name, value in step.facts.items())
    taken = f"  taken: {_taken(step.actual)}" if step.actual is not None and step.actual.routes else ""
    actual = f"; {counted(step.actual.rows, 'row')} in {step.actual.ms:.1f} ms" if step.actual is not None else ""
    rows = counted(round(min(step.rows, _MANY)), "row")
    yield f"{'  ' * (depth + 1)}{step.operator}{'  ' + facts if facts else ''}{taken}  (~{rows}{actual})"
    for input_ in step.inputs:
        yield from _lines(input_, depth + 1)


def _taken(actual: Measured) -> str:
    """The routes of a link, and the adjacency if it was needed."""
    routes = [f"{route.route} from {counted(route.nodes, 'node')} in {route.ms:.1f} ms" for route in actual.routes]
    return ", ".join([*routes, *([f"adjacency at hand in {actual.adjacency_ms:.1f} ms"] if actual.adjacency_ms else [])])


def _shown(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


class _Steps:
    """Operators -> steps, with their measurements if they ran."""

    def __init__(self, spell: Speller, measured: MeasuredOf) -> None:
        self._spell: Final = spell
        self._measured: Final = measured

    def step(self, op: ops.Op) -> Step:
        name, facts, inputs = self._described(op)
        return Step(name, facts, op.rows, tuple(self.step(input_) for input_ in inputs), self._measured(op))

    def _described(self, op: ops.Op) -> tuple[str, dict[str, object], tuple[ops.Op, ...]]:
        spell = self._spell
        match op:
            case ops.Scan():
                return "scan", _scan_facts(op, spell), ()
            case ops.Argument(bindings):
                return "outer rows", {"of": [spell.variable(binding) for binding in bindings]}, ()
            case ops.Expand():
                return "expand", _expand_facts(op, spell), (op.input,)
            case ops.Connect(input_, link, choice):
                return "connect", {"link": spell.link(link), **_edge_facts(link, spell), **_route(choice)}, (input_,)
            case ops.CrossProduct(left, right):
                return "cross product", {}, (left, right)
            case ops.Join(left, right, pairs):
                return "join", {"on": [f"{spell.expr(first)} = {spell.expr(second)}" for first, second in pairs]}, (left, right)
            case ops.SemiJoin(input_, inners, wanted):
                on = sorted({binding for inner in inners for binding in inner.on})
                name = "semi join" if wanted else "anti join"
                return name, {"on": [spell.variable(binding) for binding in on]}, (input_, *(inner.root for inner in inners))
            case ops.Optional(input_, inner, binds):
                on_and_binds = {"on": [spell.variable(at) for at in inner.on], "binds": [spell.variable(at) for at in binds]}
                return "optional", {key: value for key, value in on_and_binds.items() if value}, (input_, inner.root)
            case (
                ops.Filter()
                | ops.Paths()
                | ops.Rank()
                | ops.Fetch()
                | ops.Aggregate()
                | ops.Project()
                | ops.Distinct()
                | ops.Sort()
                | ops.Limit()
            ):
                return *_above(op, spell), (op.input,)
            case ops.Empty():
                return "empty", {"why": "no row can satisfy the match"}, ()
            case _:
                assert_never(op)


def _above(
    op: ops.Filter | ops.Paths | ops.Rank | ops.Fetch | ops.Aggregate | ops.Project | ops.Distinct | ops.Sort | ops.Limit, spell: Speller
) -> tuple[str, dict[str, object]]:
    match op:
        case ops.Filter(_, where):
            return "filter", {"where": [spell.predicate(predicate) for predicate in where]}
        case ops.Rank(_, slot, ranking, only_candidates, top, index):
            facts: dict[str, object] = {"score": f"#{slot}", "by": spell.ranking(ranking), "drops_others": only_candidates}
            if top is not None:
                facts["pushed_down"] = f"top {top}"
            if isinstance(index, ops.WordLookup):
                facts["access"] = f"full-text index on {index.column}"
            elif index is not None:
                facts["access"] = f"vector index on {index.column}, approximate"
                facts["recall_settings"] = f"{index.probes} probes, best {index.refine} x {top} compared exactly"
            return "rank", facts
        case ops.Fetch(_, reads):
            return "fetch", {"columns": [f"{spell.variable(read.binding)}.{column}" for read in reads for column in read.columns]}
        case ops.Aggregate(_, outputs):
            return "aggregate", {"outputs": [spell.output(output) for output in outputs]}
        case ops.Project(_, outputs):
            return "project", {"outputs": [spell.expr(output) for output in outputs]}
        case ops.Paths(_, link, columns, choice):
            return "shortest paths", {"link": spell.link(link), "columns": list(columns), **_route(choice)}
        case ops.Distinct():
            return "distinct", {}
        case ops.Sort(_, keys, ties, limit, skip):
            facts = {"keys": [spell.sort_key(key) for key in keys], "ties": [spell.variable(binding) for binding in ties]}
            return "sort", {**facts, **_bounds(limit, skip, "limit")}
        case ops.Limit(_, count, skip):
            return "limit", _bounds(count, skip, "count")
        case _:
            assert_never(op)


def _bounds(count: int | None, skip: int, name: str) -> dict[str, object]:
    return {**({} if count is None else {name: count}), **({"skip": skip} if skip else {})}


def _scan_facts(scan: ops.Scan, spell: Speller) -> dict[str, object]:
    facts: dict[str, object] = {"of": f"{spell.variable(scan.binding)}: {scan.type.name}"}
    if scan.where:
        facts["pushed_down"] = [spell.predicate(predicate) for predicate in scan.where]
    facts["access"] = f"index on {', '.join(scan.indexes)}" if scan.indexes else "full scan"
    if scan.columns:
        facts["columns"] = list(scan.columns)
    return facts


def _expand_facts(op: ops.Expand, spell: Speller) -> dict[str, object]:
    facts: dict[str, object] = {"link": spell.link(op.link), "to": f"{spell.variable(op.target.binding)}: {op.target.type.name}"}
    if op.reverse:
        facts["from"] = "right"
    facts.update(_edge_facts(op.link, spell))
    if op.target.where:
        facts["pushed_down"] = [spell.predicate(predicate) for predicate in op.target.where]
        facts["applied"] = f"{op.restrict} the walk"
    if op.target.columns:
        facts["columns"] = list(op.target.columns)
    facts.update(_route(op.choice))
    return facts


def _edge_facts(link: ir.Link, spell: Speller) -> dict[str, object]:
    facts: dict[str, object] = {}
    if link.where:
        facts["edge_pushed_down"] = [spell.predicate(predicate) for predicate in link.where]
    if link.columns:
        facts["edge_columns"] = list(link.columns)
    return facts


def _route(choice: ops.RouteChoice) -> dict[str, object]:
    """The chosen route, and the estimates it was chosen by."""
    guesses = f"{choice.lookup} ~{_ms(choice.lookup_ms)} ms, adjacency ({choice.adjacency}) ~{_ms(choice.adjacency_ms)} ms"
    return {"route": choice.route.value, "why": guesses}


def _ms(guess: float) -> str:
    return f"{guess:.2g}" if guess < 99 else f"{guess:.0f}"
