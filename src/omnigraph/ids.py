"""Names for things: ULIDs, content hashes, and NewTypes so that one id cannot be passed for another."""

from __future__ import annotations

import hashlib
import secrets
from typing import NewType

TypeId = NewType("TypeId", str)
"""16 hex digits: one node or edge type, through all its renames."""
PropertyId = NewType("PropertyId", str)
"""16 hex digits: one property of one type, through all its renames."""
TableId = NewType("TableId", str)
"""`<type id>-<incarnation>`: one physical table; drop and re-add mints a new incarnation."""
CommitId = NewType("CommitId", str)
"""A ULID: one graph commit."""
BranchName = NewType("BranchName", str)
GraphId = NewType("GraphId", str)
SchemaHash = NewType("SchemaHash", str)
OperationId = NewType("OperationId", str)

MAIN = BranchName("main")


def new_ulid() -> str:
    """A ULID: 26 characters, sortable by the time it was minted."""
    from ulid import ULID  # imported here so that `omnigraph --help` stays quick

    return str(ULID())


def new_commit_id() -> CommitId:
    return CommitId(new_ulid())


def new_hex16() -> str:
    """16 random hex digits: type ids and incarnations."""
    return secrets.token_hex(8)


def content_hash(data: bytes) -> str:
    """The hash by which immutable content is named."""
    return hashlib.sha256(data).hexdigest()


COMMIT_ID_LENGTH = 26
"""A ULID in Crockford's base 32."""
