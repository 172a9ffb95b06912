"""Nothing, or bytes -> identifiers: ULIDs, random hex and content hashes, typed so that one kind of id cannot be passed for another."""

from __future__ import annotations

import os
from typing import NewType, TypeVar

TypeId = NewType("TypeId", str)
"""16 hex digits. Identifies a node or edge type. A rename does not change it."""
PropertyId = NewType("PropertyId", str)
"""16 hex digits. Identifies a property of a type. A rename does not change it."""
TableId = NewType("TableId", str)
"""`<type id>-<incarnation>`. Identifies a physical table. Dropping a type and adding it again makes a new incarnation."""
CommitId = NewType("CommitId", str)
"""A ULID. Identifies a graph commit."""
BranchName = NewType("BranchName", str)
GraphId = NewType("GraphId", str)
SchemaHash = NewType("SchemaHash", str)
OperationId = NewType("OperationId", str)

EntityName = TypeVar("EntityName", bound=tuple[str, ...])
"""The type and id of an entity, or its kind, type and id: a node type and an edge type may share a name. The keys of a mapping have one
of these types or the other, or both are in it, so it is a type variable.
"""

MAIN = BranchName("main")


def new_ulid() -> str:
    """Returns a ULID: 26 characters that sort by creation time."""
    from ulid import ULID  # imported here so that `omnigraph --help` starts quickly

    return str(ULID())


def new_commit_id() -> CommitId:
    return CommitId(new_ulid())


def new_hex16() -> str:
    """Returns 16 random hex digits, for type ids and incarnations."""
    return os.urandom(8).hex()


def content_hash(data: bytes) -> str:
    """Returns the SHA-256 that names immutable content."""
    from hashlib import sha256  # here, as above

    return sha256(data).hexdigest()


COMMIT_ID_LENGTH = 26
"""The length of a ULID in Crockford's base 32."""
