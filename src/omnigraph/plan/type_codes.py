"""Codes of type errors, and the constructor of those errors."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from omnigraph.errors import Kind, LanguageError
from omnigraph.lang.grammar.cursor import near
from omnigraph.lang.tree import Syntax


class Code(StrEnum):
    """The subject of a type error. Append only: the numbers are part of the language. T16 is retired."""

    NODE_TYPE = "T1"
    MATCH_PROPERTY = "T2"
    LITERAL = "T3"
    EDGE = "T4"
    ENDPOINT = "T5"
    PROPERTY = "T6"
    OPERANDS = "T7"
    AGGREGATE_ARGUMENT = "T8"
    GROUPING = "T9"
    WRITE_TYPE = "T10"
    WRITE_PROPERTY = "T11"
    REQUIRED = "T12"
    TWICE = "T13"
    PARAMETER = "T14"
    HOPS_OR_NEAREST = "T15"
    NEAREST_LIMIT = "T17"
    NEAREST_ALIAS = "T18"
    SEARCH = "T19"
    TEXT_RANK = "T20"
    FUSION = "T21"
    UNDIRECTED = "T22"
    EDGE_VARIABLE = "T23"
    BLOB = "T24"
    CONDITION = "T25"
    OUTPUT_NAME = "T26"
    FUNCTION = "T27"
    COUNT = "T28"
    EDGES = "T29"
    OPTIONAL = "T30"
    MIXED = "D2"


NOW_PARAMETER: Final = "__nanograph_now"
"""A reserved parameter name: that of the instant of `now()`."""


def refused(code: Code | None, message: str, at: Syntax, *, hint: str | None = None) -> LanguageError:
    """Build the type error at `at` for the caller to raise."""
    return LanguageError(Kind.TYPE, message, span=at.span, code=None if code is None else code.value, hint=hint)


def nearest_name(word: str, names: Iterable[str], *, sign: str = "") -> str | None:
    """The hint for a name that is a misspelling of one of `names`, or None."""
    return near(word, tuple(names), sign=sign)
