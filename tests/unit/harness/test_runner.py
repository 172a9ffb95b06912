"""Verdicts: what the compiler decides alone, what waits for an engine, and what an engine is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from omnigraph.catalog.model import TypeKind
from omnigraph.errors import InvalidInput, Kind
from tests.harness.cases import Case, read_cases
from tests.harness.document import MalformedSpec
from tests.harness.engine import Counts, Engine, SpecGraph, Table
from tests.harness.runner import Failed, Passed, Pending, Verdict, run_case

SCHEMA = "--- schema\nnode A { x: I32 @key  y: F64?  t: DateTime? }\n"
READ = "--- query\nquery q() { match { $a: A } return { $a.x as x, $a.y as y } }\n"


def case(text: str) -> Case:
    (only,) = read_cases(f"=== a\n{SCHEMA}{text}", path="some.gqt", fixtures={})
    return only


def verdict(text: str, engine: Engine | None = None) -> Verdict:
    return run_case(case(text), engine=engine)


def reason(found: Verdict) -> str:
    assert isinstance(found, Failed)
    return found.difference.reason


class Canned:
    """A graph that knows one answer to everything, and remembers what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[object, ...]] = []

    def graph(self, schema: str, data: str) -> SpecGraph:
        self.asked.append(("graph", schema, data))
        return self

    def _answered(self, *asked: object) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def query(self, source: str, *, name: str | None, params: object) -> Table:
        return self._answered("query", name, params)  # type: ignore[no-any-return]  # the test's own answer

    def mutate(self, source: str, *, name: str | None, params: object) -> Counts:
        return self._answered("mutate", name, params)  # type: ignore[no-any-return]  # the test's own answer

    def load(self, lines: str, *, mode: str) -> Mapping[tuple[TypeKind, str], int]:
        return self._answered("load", lines, mode)  # type: ignore[no-any-return]  # the test's own answer

    def export(self, types: tuple[str, ...]) -> Iterable[str]:
        return self._answered("export", types)  # type: ignore[no-any-return]  # the test's own answer

    def apply_schema(self, source: str, *, allow_data_loss: bool) -> None:
        self.asked.append(("apply", source, allow_data_loss))

    def close(self) -> None:
        self.asked.append(("close",))


def test_a_read_waits_for_an_engine() -> None:
    assert verdict(READ + "--- rows\nx | y\n1 | 2.0\n") == Pending()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (READ + "--- rows\nx | z\n", "other columns"),
        (READ + "--- rows\nx | y\n1 | 2\n", "no value of column `y` looks like this"),
        (READ + "--- rows\nx | y\nnull | 2.0\n", "no value of column `x` looks like this"),
        (READ + '--- rows\nx | y\n"1" | 2.0\n', "no value of column `x` looks like this"),
        (READ + "--- rows\nx | y\n~1.0 | null\n", "no value of column `x` looks like this"),
        (READ + "--- error T6\nx\n", "an error was expected, but it succeeded"),
        (READ + "--- error type\nx\n", "an error was expected, but it succeeded"),
        ("--- query\nquery q() { match { $a: B } return { $a } }\n--- rows\na\n", "it was refused"),
        ("--- query\nquery q() { match { $a: A } }\n--- rows\na\n", "it was refused"),
        ("--- mutation\nquery q() { insert A { x: 1 } insert A { z: 1 } }\n", "it was refused"),
        ("--- mutation\nquery q($x: I32) { insert A { x: $x } }\n--- affected\nnodes: 1\nedges: 0\n", "it was refused"),
        ('--- query\nquery q() { match { $a: A } return { $a.t as t } }\n--- rows\nt\n"2024-01-01"\n', "no value of column `t`"),
        ("--- apply\nnode A { x: I32 @key  y: F64?  t: DateTime?  z: I32? }\n--- steps\n", "another plan"),
        ("--- apply\nnode a { }\n", "it was refused"),
    ],
)
def test_a_broken_case_fails_before_there_is_an_engine(text: str, why: str) -> None:
    assert why in reason(verdict(text))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "some.gqt:5: a line of data is one JSON object"),
        ('{"data":{}}', 'an object with a "type" or an "edge"'),
        ('{"type":"B"}', "the schema has no node type 'B'"),
        ('{"type":"A","data":{"x":1,"z":1}}', "node type A has no property 'z'"),
        ('{"type":"A","data":{"y":1.0}}', "node type A needs property 'x'"),
        ('{"type":"A","data":[]}', '"data" is an object'),
    ],
)
def test_broken_data_fails_before_there_is_an_engine(line: str, why: str) -> None:
    for section in ("data", "load merge"):
        with pytest.raises(MalformedSpec) as caught:
            verdict(f"--- {section}\n{line}\n" + READ + "--- rows\nx | y\n")
        assert why in caught.value.message
    assert verdict(f"--- load merge\n{line}\n--- error validation\nno\n") == Pending()


def test_what_the_compiler_decides_is_decided_now() -> None:
    assert verdict("--- query\nquery q() { match { $a: B } return { $a } }\n--- error T1 at 1:25\n`B`\n") == Passed()
    assert verdict("--- query\nquery q($n: I32) { match { $a: A } return { $a } }\n--- error invalid_argument\nnot provided\n") == Passed()
    assert verdict('--- lint\nquery q() { match { $a: A } return { $a } }\n--- report\n{"status": "ok"}\n') == Passed()
    assert verdict("--- catalog\nnode A @key(x)\nnot node A @key(y)\n") == Passed()
    assert reason(verdict("--- catalog\nnode A @key(y)\n")) == "other facts"
    assert reason(verdict("--- catalog\nnot node A @key(x)\n")) == "other facts"


def test_the_failing_expectation_is_named_by_its_line() -> None:
    found = verdict(READ + "--- rows\nx | y\n" + READ + "--- rows\nx | z\n")
    assert isinstance(found, Failed)
    assert (found.label, found.line) == ("query", 10)


def test_a_refused_schema_ends_a_case() -> None:
    (refused,) = read_cases("=== a\n--- schema\nnode a\n--- error S01\na\n", path="some.gqt", fixtures={})
    assert run_case(refused, engine=None) == Passed()
    (more,) = read_cases("=== a\n--- schema\nnode a\n--- error S01\na\n" + READ + "--- rows\nx\n", path="some.gqt", fixtures={})
    assert reason(run_case(more, engine=None)) == "nothing can follow a refused schema"
    (unexpected,) = read_cases("=== a\n--- schema\nnode a\n" + READ + "--- rows\nx\n", path="some.gqt", fixtures={})
    assert reason(run_case(unexpected, engine=None)) == "it was refused"


def test_a_schema_error_is_placed_in_the_part_it_stands_in() -> None:
    fixture = "=== fixture f\n--- schema\nnode A { x: I32 }\n\n// more\nnode B { }\n"
    text = f"{fixture}=== a\nuse: f\n--- schema\n\nedge E: A -> C\n--- error S31 at 2:14\nC\n"
    (placed,) = read_cases(text, path="some.pgt", fixtures={})
    assert run_case(placed, engine=None) == Passed()


def test_an_applied_schema_holds_for_the_steps_after_it() -> None:
    text = '--- apply\nnode B @rename_from("A") { x: I32 @key  y: F64?  t: DateTime? }\n'
    assert verdict(text + "--- query\nquery q() { match { $b: B } return { $b.x as x } }\n--- rows\nx\n") == Pending()
    assert reason(verdict(text + "--- query\nquery q() { match { $b: A } return { $b.x as x } }\n--- rows\nx\n")) == "it was refused"


def test_an_engine_is_asked_for_everything_and_closed() -> None:
    engine = Canned(Table(("x", "y"), ((1, 2.0),)))
    text = (
        '--- data\n{"type":"A","data":{"x":1}}\n'
        + READ.replace("query q()", "query q($n: I32?)")
        + '--- params\n{"n": 3}\n--- rows\nx | y\n1 | 2.0\n'
    )
    assert verdict(text, engine) == Passed()
    schema = SCHEMA.split("\n")[1]
    assert engine.asked == [("graph", schema, '{"type":"A","data":{"x":1}}'), ("query", None, {"n": 3}), ("close",)]


def test_an_engine_is_not_asked_for_what_is_decided() -> None:
    engine = Canned(None)
    assert verdict("--- query\nquery q() { match { $a: B } return { $a } }\n--- error T1\n`B`\n", engine) == Passed()
    assert engine.asked == []


@pytest.mark.parametrize(
    ("text", "answer", "why"),
    [
        (READ + "--- rows\nx | y\n1 | 2.0\n", Table(("x", "y"), ((1, 2.5),)), "other rows"),
        ("--- mutation\nquery q() { insert A { x: 1 } }\n--- affected\nnodes: 1\nedges: 0\n", Counts(2, 0, committed=True), "other counts"),
        ("--- load merge\n--- loaded\nnode A: 1\n", {}, "other counts"),
        ("--- export\n--- lines\n", ['{"type":"A"}'], "other lines"),
        (READ + "--- rows\nx | y\n", InvalidInput(Kind.VALIDATION, "no"), "it was refused"),
        ("--- load merge\n--- error validation\nno\n", InvalidInput(Kind.VALIDATION, "oh"), "another message"),
        ("--- load merge\n--- error validation\nno\n", {}, "an error was expected, but it succeeded"),
    ],
)
def test_a_wrong_answer_fails_and_the_graph_is_closed(text: str, answer: Any, why: str) -> None:
    engine = Canned(answer)
    assert reason(verdict(text, engine)) == why
    assert engine.asked[-1] == ("close",)


def test_migrations_are_carried_out() -> None:
    engine = Canned(Table(("x",), ()))
    wanted = "node A { x: I32 @key  t: DateTime? }"
    text = f'--- apply allow data loss\n{wanted}\n--- steps\n{{"kind": "drop_property", "mode": "hard"}}\n'
    text += "--- query\nquery q() { match { $a: A } return { $a.x as x } }\n--- rows\nx\n"
    assert verdict(text, engine) == Passed()
    assert engine.asked[1] == ("apply", wanted, True)
