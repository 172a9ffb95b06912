"""From promise to proof and back: the behaviours that tests and code cite are those that the page explains."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "dev" / "behaviours.md"
ID = re.compile(r"\b(?:REC|RT|[ABCDFGKLOPTWXYZ])-\d\d\b")


def cited() -> set[str]:
    files = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".gqt", ".pgt")]
    return {found for path in files for found in ID.findall(path.read_text())}


def test_every_cited_behaviour_is_explained() -> None:
    explained = set(re.findall(rf"^\| ({ID.pattern}) \|", PAGE.read_text(), re.MULTILINE))
    substrate = {found for found in cited() if found.startswith("P-")}
    assert len(explained) > 100, "the page was not found, or its form has changed"
    assert cited() - substrate - explained == set()


def test_substrate_facts_are_on_their_own_page() -> None:
    facts = set(ID.findall((ROOT / "docs" / "dev" / "substrate.md").read_text()))
    assert {found for found in cited() if found.startswith("P-")} <= facts
