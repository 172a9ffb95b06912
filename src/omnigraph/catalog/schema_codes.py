"""Codes of the schema errors that the grammar does not find, and the constructor of those errors."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from omnigraph.errors import Kind, LanguageError, Span


class SchemaCode(StrEnum):
    """Numbers in the language reference. The parser raises the missing ones."""

    UNKNOWN_INTERFACE = "S02"
    INTERFACE_TYPE_DIFFERS = "S03"
    INTERFACES_DISAGREE = "S04"
    RESERVED_NAME = "S05"
    NULLABLE_KEY = "S09"
    ON_LIST = "S10"
    ON_VECTOR = "S11"
    ON_BLOB = "S12"
    MANY_KEYS = "S13"
    UNKNOWN_COLUMN = "S14"
    RANGE_NEEDS_NUMBER = "S15"
    CHECK_NEEDS_STRING = "S16"
    EDGE_CONSTRAINT = "S20"
    EDGE_PROPERTY_ANNOTATION = "S21"
    NODE_ANNOTATION = "S22"
    EDGE_ANNOTATION = "S23"
    REPEATED_ANNOTATION = "S24"
    BAD_EMBED = "S25"
    BAD_TEXT = "S26"
    MISPLACED_INSTRUCTION = "S27"
    BAD_RENAME = "S28"
    DUPLICATE = "S30"
    UNKNOWN_ENDPOINT = "S31"
    EDGE_NAMES_COLLIDE = "S32"
    TOO_MANY = "S33"


PARSER_CODES: Final = frozenset({"S01", "S06", "S07", "S08", "S17", "S18", "S19", "S29"})
"""The rest of S01..S33: the parser raises them, since one declaration shows them by itself."""


def refuse(code: SchemaCode, message: str, *, span: Span, hint: str | None = None, **facts: object) -> LanguageError:
    """Build the error for a schema that parses and is invalid."""
    return LanguageError(Kind.SCHEMA, message, span=span, code=code.value, hint=hint, **facts)
