"""Tables for people: aligned by display width, whole in a pipe, and never wider or longer than a terminal can show."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from omnigraph.cli.history import age
from omnigraph.cli.screen import Screen, Style, screen_of
from omnigraph.cli.table import NARROWEST, ROWS_ON_A_TERMINAL, blocks, counted, printable, shorten, table, width_of

PIPE = Screen()
FAMILY = "👩\u200d👩\u200d👧"


def lines(rows: list[list[object]], screen: Screen = PIPE, columns: tuple[str, ...] = ("name", "born")) -> list[str]:
    return list(table(columns, rows, len(rows), screen))


def test_columns_are_aligned_by_the_cells_that_characters_take() -> None:
    rows: list[list[object]] = [["Ada", 1], ["日本語", 2], [FAMILY, 3], ["e\u0301tude", 4], ["🇩🇪 x", 5]]
    shown = lines(rows)
    bars = {wcswidth(line.partition("|")[0]) for line in shown if "|" in line}
    assert bars == {NARROWEST + 1}
    assert shown[3] == "日本語   |        2"
    assert {wcswidth(line) for line in shown[2:]} == {2 * NARROWEST + 3}


def test_numbers_stand_to_the_right_under_their_name_and_nulls_among_them_too() -> None:
    assert lines([["Ada", 1815], ["Grace", None], ["Alan", -3.5]]) == [
        "name     |     born",
        "---------+---------",
        "Ada      |     1815",
        "Grace    |     null",
        "Alan     |     -3.5",
    ]


@pytest.mark.parametrize("values", [[1, "2"], [True, False], [None, None], [[1], [2]]])
def test_what_is_not_all_numbers_stands_to_the_left(values: list[object]) -> None:
    shown = lines([["a", value] for value in values])
    assert shown[0] == "name     | born"
    assert all(line[11] != " " for line in shown[2:])


def test_a_pipe_gets_every_row_and_every_value_whole() -> None:
    rows: list[list[object]] = [["x" * 5_000, n] for n in range(5_000)]
    shown = lines(rows)
    assert len(shown) == 5_002
    assert shown[-1].startswith("x" * 5_000 + " | ")


def test_a_terminal_gets_the_first_rows_and_a_note() -> None:
    rows: list[list[object]] = [["x", n] for n in range(12_345)]
    shown = lines(rows, Screen(80))
    assert len(shown) == 2 + ROWS_ON_A_TERMINAL + 1
    assert shown[-1] == "(200 of 12,345 rows shown; a pipe or a file gets all)"
    assert lines(rows[:200], Screen(80))[-1] == "x        |      199"


def test_the_widest_columns_give_way_first() -> None:
    shown = lines([["short", "y" * 100, "z" * 100]], Screen(40), ("a", "b", "c"))
    assert shown[2] == f"short    | {'y' * 12}… | {'z' * 12}…"
    assert len(shown[2]) == 40


def test_columns_without_room_are_left_out_and_the_note_says_so() -> None:
    columns = tuple(f"column{n}" for n in range(9))
    shown = lines([[n * 1_000_000 for n in range(9)]], Screen(40), columns)
    assert shown[0] == " column0 |  column1 |  column2 | …"
    assert shown[-1] == "(3 of 9 columns shown; the terminal is too narrow for more)"


@given(
    st.lists(st.lists(st.text(max_size=30) | st.integers() | st.none(), min_size=3, max_size=3), max_size=5),
    st.integers(NARROWEST, 120),
)
def test_no_row_is_wider_than_the_terminal_and_all_columns_are_aligned(rows: list[list[object]], width: int) -> None:
    shown = [line for line in lines(rows, Screen(width), ("a", "b", "c")) if not line.startswith("(")]
    assert all(width_of(line) <= width for line in shown)


def test_control_characters_are_escaped_and_joined_emoji_are_not() -> None:
    assert printable("a\x1b[2J\nb\u202e") == r"a\x1b[2J\nb\u202e"
    assert printable(f"{FAMILY} 日\u3000本 a\u00a0b") == f"{FAMILY} 日\u3000本 a\u00a0b"
    assert lines([["two\nlines", 1]])[2] == "two\\nlines |        1"


@pytest.mark.parametrize(
    ("text", "width", "cut"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("日本語", 5, "日本…"), ("日本語", 4, "日…"), (FAMILY * 3, 4, FAMILY + "…")],
)
def test_a_text_is_cut_between_characters(text: str, width: int, cut: str) -> None:
    assert shorten(text, width) == cut


def test_blocks_have_every_value_whole_also_on_a_terminal() -> None:
    assert list(blocks(["a", "b"], [["x" * 300, None], [1, 2]], 2, Screen(20))) == [
        "row 1",
        f"a: {'x' * 300}",
        "b: null",
        "",
        "row 2",
        "a: 1",
        "b: 2",
    ]
    assert list(blocks(["a"], [], 0, PIPE)) == ["(no rows)"]
    assert list(table(["a"], [], 0, PIPE)) == ["a", "--------"]
    assert list(table([], [], 0, PIPE)) == ["(no rows)"]


def test_colours_do_not_move_columns() -> None:
    rows: list[list[object]] = [["Ada", None], ["Alan", 7]]
    plain, coloured = lines(rows, Screen(80)), lines(rows, Screen(80, colours=True))
    assert coloured[0] == "\x1b[1mname\x1b[0m     |     \x1b[1mborn\x1b[0m"
    assert coloured[2] == "Ada      |     \x1b[2mnull\x1b[0m"
    codes = [f"\x1b[{style}m" for style in (*Style, "0")]
    for code in codes:
        coloured = [line.replace(code, "") for line in coloured]
    assert coloured == plain


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "screen"),
    [
        ({}, Screen(80, colours=True)),
        ({"COLUMNS": "33"}, Screen(33, colours=True)),
        ({"COLUMNS": "none"}, Screen(80, colours=True)),
        ({"NO_COLOR": "1"}, Screen(80)),
        ({"NO_COLOR": ""}, Screen(80, colours=True)),
        ({"TERM": "dumb"}, Screen(80)),
    ],
)
def test_a_terminal_has_a_width_and_colours_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], screen: Screen
) -> None:
    for name in ("COLUMNS", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert screen_of(Terminal()) == screen
    assert screen_of(io.StringIO()) == screen_of(None) == PIPE


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7_199, "1 hour ago"),
        (86_400 * 40, "1 month ago"),
        (86_400 * 800, "2 years ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: int, text: str) -> None:
    assert age(timedelta(seconds=seconds)) == text


def test_one_is_one() -> None:
    assert (counted(0, "row"), counted(1, "row"), counted(2, "branch", "branches")) == ("0 rows", "1 row", "2 branches")
