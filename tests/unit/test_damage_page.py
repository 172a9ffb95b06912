"""The page about damaged files is that of the table which the tests check."""

from __future__ import annotations

from scripts.damages import PAGE, page


def test_the_page_is_current() -> None:
    is_current = PAGE.read_text() == page()  # a difference of whole pages would hide the rest of a report
    assert is_current, "run `python -m scripts.damages`"
