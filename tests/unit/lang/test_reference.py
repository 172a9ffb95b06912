"""The user's language reference is true: its examples parse, and its error looks as drawn."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from omnigraph.catalog.schema_codes import PARSER_CODES
from omnigraph.errors import LanguageError
from omnigraph.lang import parse_queries, parse_schema
from omnigraph.lang.grammar.query_file import GRAMMAR_CODE
from omnigraph.plan.type_codes import Code

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


@pytest.mark.parametrize("code", [*sorted(PARSER_CODES), GRAMMAR_CODE, *Code])
def test_every_code_of_the_parsers_and_of_the_type_checker_is_listed_once(code: str) -> None:
    assert REFERENCE.count(f"\n- `{code}`: ") == 1
