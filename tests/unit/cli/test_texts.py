"""Queries and parameters from outside: read as they are meant, or refused with the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cli.files import read_source
from omnigraph.cli.queries import query_named, read_params
from omnigraph.errors import InvalidInput, LanguageError
from omnigraph.lang import Source


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfnode")
    assert read_source(tmp_path / "f", what="schema file").text == "node"


TWO = Source("query a() { delete P where x = 1 }\nquery b() { delete P where x = 1 }", "two.gq")


def test_a_query_is_found_by_name_or_alone() -> None:
    assert query_named(TWO, "b") == "b"
    assert query_named(Source("query a() { delete P where x = 1 }", "f"), None) == "a"


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (TWO, None, "two.gq: the text has 2 queries: a, b; name one of them (NAME, the command's argument)"),
        (TWO, "c", "two.gq: query 'c' not found; the text has 2 queries: a, b"),
        (Source("", "no.gq"), None, "no.gq: the text has no query"),
        (Source("", "no.gq"), "c", "no.gq: query 'c' not found; the text has no query"),
    ],
)
def test_a_query_that_is_not_there(source: Source, name: str | None, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        query_named(source, name)
    assert refused.value.message == message


def test_a_text_that_does_not_parse_shows_its_file_and_place() -> None:
    with pytest.raises(LanguageError) as refused:
        query_named(Source("query a() {\n  remove P\n}", "bad.gq"), None)
    shown = str(refused.value).splitlines()
    assert shown[0].startswith("bad.gq:2:3: parse error: ")
    assert shown[1:3] == ["  2 |   remove P", "    |   ^^^^^^"]


# -- parameters


def test_parameters_come_as_text_or_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"n": 18446744073709551615}')
    assert read_params(None, None) is None
    assert read_params('{"a": [1.5, null]}', None) == {"a": [1.5, None]}
    assert read_params(None, tmp_path / "p.json") == {"n": 2**64 - 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "--params:1:7: invalid JSON: Expecting value"),
        ('{\n"a": 1,}', "--params:2:"),
        ("", "--params:1:1: invalid JSON: Expecting value"),
        ("[1]", "--params: params must be a JSON object"),
        ('{"a": NaN}', "--params: invalid JSON: NaN is not a JSON number"),
        ('{"a": ' + "9" * 5000 + "}", "--params: invalid JSON: "),
        ("[" * 100_000, "--params: invalid JSON: it is nested too deeply"),
    ],
    ids=["value", "second line", "nothing", "array", "NaN", "long number", "deep"],
)
def test_parameters_that_are_no_json(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_params(text, None)
    assert refused.value.message.startswith(message)


def test_a_parameter_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"p\.json:1:2: invalid JSON"):
        read_params(None, tmp_path / "p.json")
