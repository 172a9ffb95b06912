"""Comparing: what is the same, what is not, and how the difference is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.model import TypeKind
from omnigraph.errors import Kind, Position
from tests.harness import expect, outcome
from tests.harness.compare import cell_matches, compare, projected
from tests.harness.document import Section
from tests.harness.engine import Counts, Table
from tests.harness.show import side_by_side
from tests.harness.tables import cell_text, read_table, value_text

ULIDS = ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01BX5ZZKBKACTAV9WEVGEMMVRZ")


def rows(text: str, *, ordered: bool = False) -> expect.Rows:
    return read_table(Section("rows", "ordered" if ordered else "", text, "some.gqt", 1))


def table(*lines: list[Any], columns: str = "a b") -> Table:
    return Table(tuple(columns.split()), tuple(tuple(line) for line in lines))


def differs(expected: expect.Expected, actual: outcome.Outcome) -> str | None:
    difference = compare(expected, actual)
    return None if difference is None else difference.reason


DISTINCT: list[Any] = [None, "", [], "null", 0, 0.0, "0", False, True, 1, 1.0, "1", [1], [1.0], ["1"], [None], {}]


@pytest.mark.parametrize("written", DISTINCT, ids=repr)
def test_values_that_look_alike_are_told_apart(written: object) -> None:
    assert [value for value in DISTINCT if cell_matches(expect.Exactly(written), value)] == [written]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(st.lists(st.lists(json_values, min_size=2, max_size=2), max_size=4))
def test_a_table_written_as_it_is_shown_matches_itself(lines: list[list[Any]]) -> None:
    """Law: read(show(table)) = table, whatever stands in the cells."""
    text = "\n".join(["a | b", *(" | ".join(map(value_text, line)) for line in lines)])
    read = rows(text, ordered=True)
    assert [[cell_text(cell) for cell in row] for row in read.rows] == [[value_text(value) for value in line] for line in lines]
    assert compare(read, table(*lines)) is None


@given(st.lists(st.sampled_from([(1, "x"), (2, "x"), (2, "y")]), max_size=5), st.randoms())
def test_rows_are_a_bag_unless_ordered(lines: list[tuple[int, str]], random: Any) -> None:
    shuffled = random.sample(lines, len(lines))
    read = rows("\n".join(["a | b", *(" | ".join(map(value_text, line)) for line in lines)]))
    assert compare(read, table(*map(list, shuffled))) is None
    assert compare(read, table(*map(list, shuffled), [3, "z"])) is not None
    if lines:
        assert compare(read, table(*map(list, shuffled[1:]))) is not None


def test_order_counts_when_asked_for() -> None:
    text = 'a | b\n1 | "x"\n2 | "y"'
    assert differs(rows(text), table([2, "y"], [1, "x"])) is None
    assert differs(rows(text, ordered=True), table([2, "y"], [1, "x"])) == "other rows, or in another order"


def test_a_bag_counts_how_often() -> None:
    assert differs(rows("a\n1\n1"), table([1], columns="a")) == "other rows"
    assert differs(rows("a\n1"), table([1], [1], columns="a")) == "other rows"


def test_columns_are_compared_by_name_and_order() -> None:
    assert differs(rows("a | b"), table(columns="b a")) == "other columns"
    assert differs(rows("a | b"), table()) is None


def test_a_bar_in_a_text_is_no_end_of_a_cell() -> None:
    assert compare(rows('a | b\n"x|y" | "z"'), table(["x|y", "z"])) is None


@pytest.mark.parametrize(
    ("value", "same"), [(8.26666, True), (8.26675, True), (8.26664, False), (8.2668, False), (8, False), (None, False)]
)
def test_about_is_as_close_as_the_digits_written(value: object, same: bool) -> None:
    assert (differs(rows("a\n~8.2667"), table([value], columns="a")) is None) is same


def test_rows_make_room_for_each_other() -> None:
    """`~1.0` takes the row that the exact row does not need."""
    assert compare(rows("a\n~1.0\n1.0"), table([1.0], [1.01], columns="a")) is None
    assert compare(rows("a\n~1.0\n1.0"), table([1.01], [1.01], columns="a")) is not None


def test_a_ulid_is_any_but_each_is_another() -> None:
    text = "a | b\n<ulid> | 1\n<ulid> | 1"
    assert compare(rows(text), table([ULIDS[0], 1], [ULIDS[1], 1])) is None
    assert differs(rows(text), table([ULIDS[0], 1], [ULIDS[0], 1])) == f"{ULIDS[0]!r} stands in two <ulid> cells"
    assert differs(rows(text), table(["alien", 1], [ULIDS[1], 1])) == "other rows"


def failure(message: str = "type error: T6: variable `$g` is not bound", code: str | None = "T6") -> outcome.Failure:
    return outcome.Failure(Kind.TYPE, code, message, Position(1, 40), message, "did you mean `$f`?")


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (expect.Error("T6", ("`$g` is not bound",), Position(1, 40)), None),
        (expect.Error("T6", ("variable", "bound")), None),
        (expect.Error("type", ("bound",)), None),
        (expect.Error("T5", ("bound",)), "another code"),
        (expect.Error("syntax", ("bound",)), "another code"),
        (expect.Error("T6", ("bound",), Position(1, 41)), "another place"),
        (expect.Error("T6", ("bound", "missing")), "another message"),
        (expect.Error("T6", ("bound",), hint="`$f`"), None),
        (expect.Error("T6", ("bound",), hint="`$h`"), "another hint"),
        (expect.Error("T5", ("missing",), Position(2, 1)), "another code and another place and another message"),
    ],
)
def test_errors_by_code_place_and_message(expected: expect.Error, reason: str | None) -> None:
    assert differs(expected, failure()) == reason


def test_success_is_no_error_and_an_error_no_success() -> None:
    assert differs(expect.Error("T6", ("x",)), Table(("a",), ())) == "an error was expected, but it succeeded"
    for expected in (rows("a"), expect.Affected(0, 0), expect.Nothing(), expect.Facts((), ()), expect.Steps(())):
        assert differs(expected, failure()) == "it was refused"


def test_counts() -> None:
    assert differs(expect.Affected(1, 2), Counts(1, 2, committed=True)) is None
    assert differs(expect.Affected(1, 2, committed=False), Counts(1, 2, committed=True)) == "other counts"
    assert differs(expect.Affected(1, 2), Counts(1, 3, committed=True)) == "other counts"
    loaded = expect.Loaded(((TypeKind.NODE, "A", 1),))
    assert differs(loaded, outcome.LoadCounts({(TypeKind.NODE, "A"): 1})) is None
    assert differs(loaded, outcome.LoadCounts({(TypeKind.EDGE, "A"): 1})) == "other counts"


def test_documents_are_compared_as_far_as_they_are_written() -> None:
    actual = outcome.Document({"status": "ok", "errors": 0, "results": [{"name": "a", "kind": "read"}]})
    assert differs(expect.Report({"errors": 0, "results": [{"name": "a"}]}), actual) is None
    assert differs(expect.Report({"error": None}), actual) is None
    assert differs(expect.Report({"errors": 0.0}), actual) is not None
    assert differs(expect.Report({"errors": None}), actual) is not None
    assert differs(expect.Report({"results": []}), actual) is not None
    assert differs(expect.Report({"missing": 1}), actual) is not None


def test_exports_are_compared_whole_and_in_order() -> None:
    line = '{"edge":"E","data":{"id":"' + ULIDS[0] + '","w":1.0}}'
    assert differs(expect.Lines(({"edge": "E", "data": {"id": "<ulid>", "w": 1.0}},)), outcome.Exported((line,))) is None
    assert differs(expect.Lines(({"edge": "E", "data": {"id": "<ulid>"}},)), outcome.Exported((line,))) == "other lines"
    assert differs(expect.Lines(({"data": {"id": "<ulid>", "w": 1.0}, "edge": "E"},)), outcome.Exported((line,))) == "other lines"
    assert differs(expect.Lines(({"edge": "E", "data": {"id": "<ulid>", "w": 1}},)), outcome.Exported((line,))) == "other lines"
    assert differs(expect.Lines(()), outcome.Exported((line,))) == "other lines"


def test_steps_are_all_of_them() -> None:
    actual = outcome.PlannedSteps(({"kind": "add_type", "name": "A"}, {"kind": "add_type", "name": "B"}))
    assert differs(expect.Steps(({"kind": "add_type"}, {"kind": "add_type", "name": "B"})), actual) is None
    assert differs(expect.Steps(({"kind": "add_type", "name": "A"},)), actual) == "another plan"
    assert differs(expect.Steps(({"kind": "add_type", "name": "B"}, {"kind": "add_type", "name": "A"})), actual) == "another plan"


def test_a_plan_is_compared_line_by_line_as_far_as_each_is_written() -> None:
    actual = outcome.Explained("query q\n  scan  of: A  (~3 rows)")
    assert differs(expect.PlanText("query q\n  scan  of: A"), actual) is None
    assert differs(expect.PlanText("query q\n scan"), actual) == "another plan"
    assert differs(expect.PlanText("query q"), actual) == "another plan"
    assert differs(expect.PlanText("query q\n  scan\n  scan"), actual) == "another plan"


def test_projection_keeps_what_it_is_asked_for() -> None:
    assert projected({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 0}}) == {"b": {"d": 3}}
    assert projected([1, 2], [1]) == [1, 2]


def test_the_drawing_has_both_sides_and_marks_what_differs() -> None:
    difference = compare(rows('a | b\n1 | "x"\n2 | "y"'), table([1, "x"], [2, "z"]))
    assert difference is not None
    assert side_by_side(difference.pairs).split("\n") == [
        "  expected | actual",
        "  a | b    | a | b",
        '  1 | "x"  | 1 | "x"',
        '! 2 | "y"  |',
        '!          | 2 | "z"',
    ]


def test_long_lines_are_continued_below() -> None:
    difference = compare(expect.PlanText("x" * 100), outcome.Explained("y" * 100))
    assert difference is not None
    drawn = side_by_side(difference.pairs).split("\n")
    assert drawn[1] == f"! {'x' * 76} | {'y' * 76}"
    assert drawn[2] == f"! {'x' * 24}{' ' * 52} | {'y' * 24}"
