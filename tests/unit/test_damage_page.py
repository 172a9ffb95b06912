"""The page about damaged files is that of the table which the tests check."""

from __future__ import annotations

from scripts.damages import PAGE, page


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == page(), "run `python -m scripts.damages`"
