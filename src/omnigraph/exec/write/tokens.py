"""What a write with a token is asked to do -> a digest, by which a token that is used again for another write is noticed.

The digest is stored in the commit. Actor, message and `if_commit` are not part of it: they do not change what is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date, datetime

from omnigraph.exec.compiled import QueryCall


def digest_of(*parts: str | bytes | None) -> str:
    """Return the SHA-256 of the parts. Each is hashed with its length, so that no two lists of parts have the same text."""
    hashed = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hashed.update(b"-" if data is None else b"%d:" % len(data))
        hashed.update(data or b"")
    return hashed.hexdigest()


def call_digest(call: QueryCall) -> str:
    """Return the digest of a mutation: its text, the name of the query, and the parameters, in any order."""
    given = call.params
    params = {str(name): value for name, value in given.items()} if isinstance(given, Mapping) else given
    return digest_of(call.source.text, call.name, json.dumps(params, sort_keys=True, default=_plain))


def _plain(value: object) -> object:
    """Return a value that JSON does not know in a form of its own. A wrong one is refused when the parameters are bound."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if hasattr(value, "tolist") and hasattr(value, "dtype"):  # numpy
        return value.tolist()
    return repr(value)
