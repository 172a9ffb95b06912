"""Offsets become lines and columns, and an error is drawn where it stands."""

from __future__ import annotations

import pytest

from omnigraph.errors import Kind, LanguageError, Span
from omnigraph.lang import Source, located, parse_schema, render


@pytest.mark.parametrize(
    ("text", "offset", "position"),
    [("", 0, (1, 1)), ("ab", 1, (1, 2)), ("a\nbc", 2, (2, 1)), ("a\nbc", 4, (2, 3)), ("a\r\nb", 3, (2, 1)), ("é\n→x", 3, (2, 2))],
)
def test_positions_count_lines_and_characters_from_one(text: str, offset: int, position: tuple[int, int]) -> None:
    assert Source(text, "t").position(offset) == position


def draw(text: str, start: int, end: int, *, hint: str | None = None) -> list[str]:
    return render(LanguageError(Kind.TYPE, "no", span=Span(start, end), code="T6", hint=hint), Source(text, "a.gq")).split("\n")


def test_the_drawing_shows_place_line_carets_and_hint() -> None:
    assert draw("one\ntwo three\r\n", 8, 13, hint="say four") == [
        "a.gq:2:5: type error: T6: no",
        "  2 | two three",
        "    |     ^^^^^",
        "  hint: say four",
    ]


def test_tabs_stay_tabs_so_that_carets_line_up() -> None:
    assert draw("\t\tx y", 4, 5)[1:] == ["  1 | \t\tx y", "    | \t\t  ^"]


def test_a_span_over_several_lines_is_underlined_to_the_end_of_the_first() -> None:
    assert draw("ab cd\nef", 3, 8)[2] == "    |    ^^"


def test_an_empty_span_and_the_end_of_the_text_get_one_caret() -> None:
    assert draw("ab", 2, 2)[2] == "    |   ^"
    assert draw("", 0, 0)[1:] == ["  1 | ", "    | ^"]


def test_a_long_line_is_cut_around_the_caret() -> None:
    _, line, carets = draw("x" * 5000 + "!" + "y" * 5000, 5000, 5001)
    assert len(line) < 140
    assert line[carets.index("^")] == "!"


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in "\n".join(draw("a\x1b[2Jb", 0, 1))


def test_an_error_without_a_span_is_its_message() -> None:
    error = LanguageError(Kind.SCHEMA, "nothing")
    assert render(error, Source("", "a.pg")) == "catalog error: nothing"


def test_a_later_stage_gets_its_position_from_located() -> None:
    node = parse_schema("\n node Film {}").declarations[0]
    with pytest.raises(LanguageError) as caught, located(Source("\n node Film {}", "a.pg")):
        raise LanguageError(Kind.SCHEMA, "bad name", span=node.name.span, code="S30")
    error = caught.value
    assert (error.kind, error.code, error.position, error.message) == ("schema", "S30", (2, 7), "catalog error: bad name")
    assert str(error).startswith("a.pg:2:7: catalog error: bad name\n")


def test_located_keeps_the_innermost_place() -> None:
    with pytest.raises(LanguageError) as caught, located(Source("other", "outer.gq")):
        parse_schema("node", name="inner.pg")
    assert str(caught.value).startswith("inner.pg:1:5:")
