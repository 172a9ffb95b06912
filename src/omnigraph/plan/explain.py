"""A physical plan -> what a person reads (an indented tree) and what a program reads (JSON)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

import msgspec

from omnigraph.plan import ir, ops
from omnigraph.plan.spelling import Speller


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One operator: its name, what there is to say of it, the rows expected of it, and the steps it draws from."""

    operator: str
    facts: dict[str, object]
    rows: float
    inputs: tuple[Step, ...] = ()


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan, explained. `text` is for people; `to_json` gives the same as data. `notes` say what keeps it from a better one."""

    query: str
    columns: tuple[str, ...]
    plan: Step
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join((f"query {self.query} -> {', '.join(self.columns)}", *_lines(self.plan, 0), *self.notes))

    def to_json(self) -> dict[str, object]:
        built: dict[str, object] = msgspec.to_builtins(self)
        return built


def explain(plan: ops.ReadPlan, *, notes: Iterable[str] = ()) -> Explanation:
    spell = Speller(plan.bindings)
    return Explanation(plan.name, tuple(column.name for column in plan.columns), _step(plan.root, spell), tuple(notes))


def _lines(step: Step, depth: int) -> Iterable[str]:
    facts = "  ".join(f"{name}: {_shown(value)}" for name, value in step.facts.items())
    yield f"{'  ' * (depth + 1)}{step.operator}{'  ' + facts if facts else ''}  (~{step.rows:.0f} rows)"
    for input_ in step.inputs:
        yield from _lines(input_, depth + 1)


def _shown(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def _step(op: ops.Op, spell: Speller) -> Step:
    match op:
        case ops.Scan():
            return Step("scan", _scan_facts(op, spell), op.rows)
        case ops.Argument(bindings):
            return Step("outer rows", {"of": [spell.variable(binding) for binding in bindings]}, op.rows)
        case ops.Expand():
            return Step("expand", _expand_facts(op, spell), op.rows, (_step(op.input, spell),))
        case ops.Connect(input_, link, choice):
            return Step(
                "connect", {"link": spell.link(link), **_edge_facts(link, spell), **_route(choice)}, op.rows, (_step(input_, spell),)
            )
        case ops.CrossProduct(left, right):
            return Step("cross product", {}, op.rows, (_step(left, spell), _step(right, spell)))
        case ops.Join(left, right, pairs):
            equal = [f"{spell.expr(first)} = {spell.expr(second)}" for first, second in pairs]
            return Step("join", {"on": equal}, op.rows, (_step(left, spell), _step(right, spell)))
        case ops.AntiJoin(input_, inner, on):
            facts: dict[str, object] = {"on": [spell.variable(binding) for binding in on]}
            return Step("anti join", facts, op.rows, (_step(input_, spell), _step(inner, spell)))
        case ops.Filter() | ops.Rank() | ops.Fetch() | ops.Aggregate() | ops.Project() | ops.Sort() | ops.Limit():
            name, facts = _above(op, spell)
            return Step(name, facts, op.rows, (_step(op.input, spell),))
        case ops.Empty():
            return Step("empty", {"why": "no row can satisfy the match"}, 0.0)
        case _:
            assert_never(op)


def _above(
    op: ops.Filter | ops.Rank | ops.Fetch | ops.Aggregate | ops.Project | ops.Sort | ops.Limit, spell: Speller
) -> tuple[str, dict[str, object]]:
    match op:
        case ops.Filter(_, where):
            return "filter", {"where": [spell.predicate(predicate) for predicate in where]}
        case ops.Rank(_, slot, ranking, only_candidates, top):
            facts: dict[str, object] = {"score": f"#{slot}", "by": spell.ranking(ranking), "drops_others": only_candidates}
            return "rank", facts if top is None else {**facts, "pushed_down": f"top {top}"}
        case ops.Fetch(_, reads):
            return "fetch", {"columns": [f"{spell.variable(read.binding)}.{column}" for read in reads for column in read.columns]}
        case ops.Aggregate(_, outputs):
            return "aggregate", {"outputs": [spell.output(output) for output in outputs]}
        case ops.Project(_, outputs):
            return "project", {"outputs": [spell.expr(output) for output in outputs]}
        case ops.Sort(_, keys, ties, limit):
            facts = {"keys": [spell.sort_key(key) for key in keys], "ties": [spell.variable(binding) for binding in ties]}
            return "sort", facts if limit is None else {**facts, "limit": limit}
        case ops.Limit(_, count):
            return "limit", {"count": count}
        case _:
            assert_never(op)


def _scan_facts(scan: ops.Scan, spell: Speller) -> dict[str, object]:
    facts: dict[str, object] = {"of": f"{spell.variable(scan.binding)}: {scan.type.name}"}
    if scan.where:
        facts["pushed_down"] = [spell.predicate(predicate) for predicate in scan.where]
    facts["access"] = "full scan" if scan.index is None else f"index on {scan.index}"
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
    """Which way, and why: the two guesses side by side."""
    state = "in memory" if choice.adjacency_ready else "to be built"
    return {"route": choice.route.value, "why": f"index ~{choice.index_ms:.2g} ms, adjacency ({state}) ~{choice.adjacency_ms:.2g} ms"}
