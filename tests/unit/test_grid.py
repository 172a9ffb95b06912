"""Tables for people: alignment by display width, numbers to the right, lines that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.grid import counted, display_width, escaped, fitted, table_lines


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("abc", 3), ("名前", 4), ("é", 1), ("e\u0301", 1), ("🙂", 2), ("Ａ", 2), ("…", 1), ("👩\u200d🔬", 2)],
)
def test_a_wide_character_takes_two_columns_and_an_accent_none(text: str, width: int) -> None:
    assert display_width(text) == width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("名前です", 8, "名前です"),
        ("名前です", 7, "名前で…"),
        ("名前です", 6, "名前…"),
        ("名前です", 1, "…"),
    ],
)
def test_a_text_is_cut_by_the_columns_it_takes(text: str, width: int, shown: str) -> None:
    assert fitted(text, width) == shown


def test_numbers_are_to_the_right_and_texts_to_the_left() -> None:
    rows: list[list[object]] = [["Ada", 1815, 1.5, True, None], ["名前", None, 22.25, False, None]]
    assert list(table_lines(["name", "born", "score", "alive", "none"], rows)) == [
        "name     |     born |    score | alive    | none",
        "---------+----------+----------+----------+---------",
        "Ada      |     1815 |      1.5 | true     | null",
        "名前     |     null |    22.25 | false    | null",
    ]


def test_cells_show_control_characters_and_nested_values() -> None:
    rows: list[list[object]] = [["a\nb\x1b[31m"], [["x", 1]], [{"k": "ü"}]]
    lines = list(table_lines(["t"], rows))
    assert lines[2:] == [r"a\nb\x1b[31m", '["x", 1]', '{"k": "ü"}']
    assert escaped("a\u200db") == "a\u200db"


def test_columns_are_narrowed_and_the_last_left_out_to_fit() -> None:
    rows = [["a" * 50, "b" * 30, "c"]]
    narrowed = list(table_lines(["one", "two", "three"], rows, width=60))
    assert {len(line) <= 60 for line in narrowed} == {True}
    assert narrowed[2] == f"{'a' * 22}… | {'b' * 22}… | c"
    few = list(table_lines([f"column{n}" for n in range(9)], [[n] * 9 for n in range(2)], width=40))
    assert few == [
        " column0 |  column1 |  column2 | …",
        "---------+----------+----------+--",
        "       0 |        0 |        0 | …",
        "       1 |        1 |        1 | …",
    ]
    assert list(table_lines(["only"], [["x" * 30]], width=10))[2] == "xxxxxxxxx…"


@given(
    columns=st.integers(1, 6),
    width=st.integers(12, 90),
    texts=st.lists(st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "So"]), max_size=40), min_size=6, max_size=6),
)
def test_no_line_is_wider_than_asked(columns: int, width: int, texts: list[str]) -> None:
    rows = [[texts[(row + at) % 6] for at in range(columns)] for row in range(3)]
    lines = list(table_lines([f"c{at}" for at in range(columns)], rows, width=width))
    assert max(map(display_width, lines)) <= width


def test_a_count_has_its_noun() -> None:
    assert [counted(0, "row"), counted(1, "row"), counted(12345, "row")] == ["0 rows", "1 row", "12,345 rows"]
    assert [counted(2, noun) for noun in ("entity", "key", "index", "branch")] == ["2 entities", "2 keys", "2 indexes", "2 branches"]
