"""The page that shows the crash matrix is what the matrix says now."""

from __future__ import annotations

from scripts.crash_matrix import PAGE, page


def test_the_page_is_what_the_script_would_write() -> None:
    is_current = PAGE.read_text() == page()  # a difference of whole pages would hide the rest of a report
    assert is_current, "run `python -m scripts.crash_matrix`"
