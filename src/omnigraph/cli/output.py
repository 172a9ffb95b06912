"""Values -> text on stdout; errors -> text (and one JSON object, when asked for) on stderr. The only module that prints results."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from omnigraph.errors import LanguageError, OmniGraphError


def line(text: str) -> None:
    print(text)


def document(value: Mapping[str, object]) -> None:
    """One JSON document, indented, on stdout."""
    print(json.dumps(value, indent=2, default=str))


def error(message: str) -> None:
    print(f"Error: {message}", file=sys.stderr)


def failure(failed: OmniGraphError, *, as_json: bool) -> None:
    """An error for a person, and with --json for a program too."""
    error(str(failed))
    if as_json:
        found = {"error": failed.message, "kind": failed.kind.value, "facts": failed.facts, **_place(failed)}
        print(json.dumps(found, default=str), file=sys.stderr)


def _place(failed: OmniGraphError) -> dict[str, object]:
    """What a language error knows besides: the code of the language reference, and where the text is wrong."""
    if not isinstance(failed, LanguageError):
        return {}
    line, column = failed.position or (None, None)
    return {"code": failed.code, "line": line, "column": column}
