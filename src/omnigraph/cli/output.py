"""Values -> text on stdout; errors -> text (and one JSON object, when asked for) on stderr. The only module that prints results."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from omnigraph.errors import OmniGraphError


def line(text: str) -> None:
    print(text)


def document(value: Mapping[str, object]) -> None:
    """One JSON document, indented, on stdout."""
    print(json.dumps(value, indent=2, default=str))


def error(message: str) -> None:
    print(f"Error: {message}", file=sys.stderr)


def failure(failed: OmniGraphError, *, as_json: bool) -> None:
    """An error for a person, and with --json for a program too."""
    error(failed.message)
    if as_json:
        print(json.dumps({"error": failed.message, "kind": failed.kind.value, "facts": failed.facts}, default=str), file=sys.stderr)
