"""The user's language reference is true: its examples parse, and its error looks as drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.errors import LanguageError
from omnigraph.lang import parse_queries, parse_schema

REFERENCE = (Path(__file__).parents[3] / "docs/user/language.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)


def test_every_example_parses() -> None:
    assert all(parse_schema(text).declarations for text in blocks("pg"))
    assert all(parse_queries(text).queries for text in blocks("gq"))
    assert len(blocks("pg")) >= 1
    assert len(blocks("gq")) >= 4


def test_the_error_is_drawn_as_shown() -> None:
    with pytest.raises(LanguageError) as caught:
        parse_queries("query q() { match { $f: Film }\n  retrun { $f.slug } }", name="films.gq")
    assert f"{caught.value}\n" in blocks("text")


@pytest.mark.parametrize("code", ["S01", "S06", "S07", "S08", "S17", "S18", "S19", "S29", "Q000"])
def test_every_code_of_the_parsers_is_listed(code: str) -> None:
    assert f"| `{code}` |" in REFERENCE
