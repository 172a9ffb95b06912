"""A case's schema and a step -> what the compiler alone says of it. Pure: no engine, no files, no clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, assert_never

import msgspec

from omnigraph.catalog import Catalog, build_catalog
from omnigraph.catalog.evolve import Evolution, plan_schema
from omnigraph.errors import LanguageError, OmniGraphError, Position
from omnigraph.lang import Source, located, parse_queries, parse_schema, select_query
from omnigraph.plan.check import check_mutation, check_read
from omnigraph.plan.explain import explain
from omnigraph.plan.lint import SchemaSource, lint
from omnigraph.plan.params import bind_parameters
from omnigraph.plan.planner import plan_read
from omnigraph.plan.typed import TypedRead
from omnigraph.plan.writes import plan_mutation
from tests.harness.cases import Accept, Action, Apply, Explain, Export, Lint, Load, Mutation, Query, Wanted
from tests.harness.document import Section
from tests.harness.outcome import Accepted, Document, Explained, Failure, Outcome, PlannedSteps, failure_of

NOW_MS: Final = 1_717_200_000_000
"""What `now()` means while a query is only planned."""


class Compiled(msgspec.Struct, frozen=True):
    """`outcome` is what the compiler says; `runs` that the rest is for an engine to say.

    `catalog` holds from the next step on, and `read` are the columns a read will have.
    """

    catalog: Catalog
    outcome: Outcome | None = None
    runs: bool = False
    read: TypedRead | None = None


def accept(parts: Sequence[Section]) -> Accepted | Failure:
    """The meaning of a schema in parts, or its refusal, placed in the part where it stands."""
    text = joined(parts)
    try:
        schema = parse_schema(text, name="schema")
        with located(Source(text, "schema")):
            return Accepted(build_catalog(schema, mint=_minting(1)))
    except LanguageError as error:
        return _placed(failure_of(error), parts)


def joined(parts: Sequence[Section]) -> str:
    """The texts of several sections as one."""
    return "\n".join(part.text for part in parts)


def compile_step(action: Action, catalog: Catalog, accepted: Accepted) -> Compiled:
    """Parse, check and plan one step under the schema that holds now; `accepted` is the case's own."""
    match action:
        case Accept():
            return Compiled(catalog, accepted)
        case Query() | Explain():
            return _settled(catalog, lambda: _read(action, catalog))
        case Mutation():
            return _settled(catalog, lambda: _mutation(action, catalog))
        case Lint(text):
            report = lint(text.text, catalog, query_path="query", schema_source=SchemaSource("file", "schema"))
            return Compiled(catalog, Document(_json(report)))
        case Load() | Export():
            return Compiled(catalog, runs=True)
        case Wanted(text, allow_data_loss):
            return _settled(catalog, lambda: _wanted(text, catalog, allow_data_loss=allow_data_loss))
        case Apply(text, allow_data_loss):
            return _settled(catalog, lambda: _applied(text, catalog, allow_data_loss=allow_data_loss))
        case _:
            assert_never(action)


def _settled(catalog: Catalog, work: Callable[[], Compiled]) -> Compiled:
    """The work's result, or its refusal as an outcome."""
    try:
        return work()
    except OmniGraphError as error:
        return Compiled(catalog, failure_of(error))


def _read(action: Query | Explain, catalog: Catalog) -> Compiled:
    source = Source(action.text.text, "query")
    query = select_query(parse_queries(source.text, name=source.name), action.name)
    with located(source):
        read = check_read(query, catalog)
        plan = plan_read(read, bind_parameters(read.parameters, action.params), now_ms=NOW_MS)
    if isinstance(action, Explain):
        return Compiled(catalog, Explained(explain(plan).text))
    return Compiled(catalog, runs=True, read=read)


def _mutation(action: Mutation, catalog: Catalog) -> Compiled:
    source = Source(action.text.text, "query")
    query = select_query(parse_queries(source.text, name=source.name), action.name)
    with located(source):
        mutation = check_mutation(query, catalog)
        plan_mutation(mutation, bind_parameters(mutation.parameters, action.params), now_ms=NOW_MS)
    return Compiled(catalog, runs=True)


def _wanted(text: Section, catalog: Catalog, *, allow_data_loss: bool) -> Compiled:
    return Compiled(catalog, _steps(_evolution(text, catalog, allow_data_loss=allow_data_loss)))


def _applied(text: Section, catalog: Catalog, *, allow_data_loss: bool) -> Compiled:
    evolution = _evolution(text, catalog, allow_data_loss=allow_data_loss)
    return Compiled(evolution.catalog if evolution.plan.supported else catalog, _steps(evolution), runs=True)


def _evolution(text: Section, catalog: Catalog, *, allow_data_loss: bool) -> Evolution:
    schema = parse_schema(text.text, name="schema")
    with located(Source(text.text, "schema")):
        return plan_schema(catalog, schema, mint=_minting(2), allow_data_loss=allow_data_loss)


def _steps(evolution: Evolution) -> PlannedSteps:
    return PlannedSteps(tuple(_json(step) for step in evolution.plan.steps))


def _json(value: msgspec.Struct) -> object:
    """The value as a program reads it that only knows JSON."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _placed(failure: Failure, parts: Sequence[Section]) -> Failure:
    """The failure with its line counted from the start of the part it stands in."""
    if failure.position is None:
        return failure
    line = failure.position.line
    for part in parts:
        height = part.text.count("\n") + 1
        if line <= height:
            break
        line -= height
    return msgspec.structs.replace(failure, position=Position(line, failure.position.column))


def _minting(generation: int) -> Callable[[], str]:
    """Ids that are the same in every run, and differ between generations of a schema."""
    numbers = count(generation << 32)
    return lambda: f"{next(numbers):016x}"
