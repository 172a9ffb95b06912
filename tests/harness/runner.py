"""A case, and an engine if there is one -> its verdict: passed, failed with the difference, or pending."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, assert_never

import msgspec

from omnigraph.errors import Kind, OmniGraphError
from tests.harness import expect
from tests.harness.cases import Accept, Apply, Case, Explain, Export, Lint, Load, Mutation, Query, Step, Wanted
from tests.harness.columns import check_columns
from tests.harness.compare import Difference, compare
from tests.harness.compiler import Compiled, accept, compile_step, joined
from tests.harness.engine import Engine, SpecGraph
from tests.harness.lines import check_lines
from tests.harness.outcome import Done, Exported, Failure, LoadCounts, Outcome, failure_of
from tests.harness.show import paired

_OF_THE_COMPILER: Final = frozenset({Kind.SYNTAX, Kind.SCHEMA, Kind.TYPE})
_NUMBERED: Final = re.compile(r"[STDQ][0-9]+")


class Passed(msgspec.Struct, frozen=True):
    """Everything the case says was seen to be so."""


class Pending(msgspec.Struct, frozen=True):
    """It compiles, and what can be compared without an engine is as expected; the rest needs one."""


class Failed(msgspec.Struct, frozen=True):
    """`line` of the case's file is where the expectation stands that does not hold."""

    label: str
    line: int
    difference: Difference


Verdict = Passed | Pending | Failed


def run_case(case: Case, *, engine: Engine | None) -> Verdict:
    """Compile every step; then, if one needs it, run the whole case on a graph of its own."""
    accepted = accept(case.schema)
    if isinstance(accepted, Failure):
        return _refused_schema(case, accepted)
    for section in case.data:
        if (problem := check_lines(section, accepted.catalog)) is not None:
            raise problem
    runs = False
    catalog = accepted.catalog
    for step in case.steps:
        compiled = compile_step(step.action, catalog, accepted)
        catalog = compiled.catalog
        runs = runs or compiled.runs
        if isinstance(step.action, Load) and not isinstance(step.expected, expect.Error):
            problem = check_lines(step.action.text, catalog, partial=step.action.mode == "upsert")
            if problem is not None:
                raise problem
        if (difference := _compiled_difference(step, compiled)) is not None:
            return Failed(step.label, step.line, difference)
    if not runs:
        return Passed()
    return Pending() if engine is None else _run(case, engine)


def _refused_schema(case: Case, failure: Failure) -> Verdict:
    first = case.steps[0]
    expected = first.expected if isinstance(first.action, Accept) else expect.Nothing()
    difference = compare(expected, failure)
    if difference is not None:
        return Failed("schema", first.line if isinstance(first.action, Accept) else case.line, difference)
    if len(case.steps) > 1:
        steps = Difference("nothing can follow a refused schema", paired([case.steps[1].label], []))
        return Failed(case.steps[1].label, case.steps[1].line, steps)
    return Passed()


def _compiled_difference(step: Step, compiled: Compiled) -> Difference | None:
    """What already differs. Where the engine has the last word, only what the compiler can know is compared."""
    expected, actual = step.expected, compiled.outcome
    if actual is not None:
        if compiled.runs and isinstance(expected, expect.Error):
            return None
        return compare(expected, actual)
    if isinstance(expected, expect.Error) and _compiler_should_refuse(expected):
        return compare(expected, Done())
    if isinstance(expected, expect.Rows) and compiled.read is not None:
        return check_columns(expected, compiled.read)
    return None


def _compiler_should_refuse(expected: expect.Error) -> bool:
    return _NUMBERED.fullmatch(expected.code) is not None or expected.code in _OF_THE_COMPILER


def _run(case: Case, engine: Engine) -> Verdict:
    graph = engine.graph(joined(case.schema), joined(case.data))
    try:
        for step in case.steps:
            for outcome in _outcomes(graph, step):
                if (difference := compare(step.expected, outcome)) is not None:
                    return Failed(step.label, step.line, difference)
    finally:
        graph.close()
    return Passed()


def _outcomes(graph: SpecGraph, step: Step) -> Iterator[Outcome]:
    """What the graph makes of a step; nothing where the compiler has said everything."""
    try:
        outcome = _executed(graph, step)
    except OmniGraphError as error:
        outcome = failure_of(error)
    if outcome is not None and not (isinstance(outcome, Done) and isinstance(step.expected, expect.Steps)):
        yield outcome


def _executed(graph: SpecGraph, step: Step) -> Outcome | None:
    match step.action:
        case Query(text, name, params):
            return graph.query(text.text, name=name, params=params)
        case Mutation(text, name, params):
            return graph.mutate(text.text, name=name, params=params)
        case Load(text, mode):
            return LoadCounts(graph.load(text.text, mode=mode))
        case Export(types):
            return Exported(tuple(graph.export(types)))
        case Apply(text, allow_data_loss):
            graph.apply_schema(text.text, allow_data_loss=allow_data_loss)
            return Done()
        case Accept() | Explain() | Lint() | Wanted():
            return None
        case _:
            assert_never(step.action)
