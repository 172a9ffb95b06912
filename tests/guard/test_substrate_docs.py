"""The page of substrate facts and the guards name each other, and nobody raises the pin without reading them."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "dev" / "substrate.md").read_text(encoding="utf-8")
GUARDS = {path.stem: path.read_text(encoding="utf-8") for path in HERE.glob("test_substrate_*.py") if path.stem != "test_substrate_docs"}


def test_every_guard_is_on_the_page_in_the_section_of_its_file_and_the_other_way_round() -> None:
    """A fact without a guard is a hope; a guard without a reason is a riddle."""
    sections = dict(re.findall(r"^## [^\n]*\(`(\w+)`\)\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
    on_the_page = {f"test_substrate_{topic}": set(re.findall(r"`(test_\w+)`", text)) for topic, text in sections.items()}
    in_the_tests = {stem: set(re.findall(r"^def (test_\w+)\(", source, flags=re.MULTILINE)) for stem, source in GUARDS.items()}
    assert on_the_page == in_the_tests
    assert all(in_the_tests.values())


def test_every_numbered_fact_is_guarded() -> None:
    """P-01 to P-22, each cited by at least one docstring and on the page."""
    numbers = [f"P-{number:02}" for number in range(1, 23)]
    sources = "\n".join(GUARDS.values())
    assert [number for number in numbers if number not in sources or number not in PAGE] == []


def test_the_pin_is_the_release_these_facts_were_measured_on() -> None:
    """Raising it is a decision: run the guards, change what follows, then this line and the page."""
    assert version("pylance") == "14.0.2"
    assert "**14.0.2**" in PAGE
