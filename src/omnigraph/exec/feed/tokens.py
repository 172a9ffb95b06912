"""Positions in the history of a branch -> opaque texts that callers keep, and back.

A token is the base64url of a JSON document and its SHA-256. The hash finds a damaged token; it keeps no secret. A token is valid in every
process: nothing about it is stored in the graph (D-21).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final, Literal, TypeVar

import msgspec

from omnigraph.exec.history.diff import ChangeFilter, ChangePlace, cursor_rejected
from omnigraph.ids import BranchName, CommitId, GraphId
from omnigraph.manifest.registry import Branch

LONGEST_TOKEN: Final = 4_096
_DIGEST_BYTES: Final = 32
_SCOPE_BYTES: Final = 16


class CommitPageToken(msgspec.Struct, frozen=True, tag_field="kind", tag="commit-page"):
    """A page of one commit that ended before the commit did."""

    graph: GraphId
    scope: str
    commit: CommitId
    place: ChangePlace
    version: Literal[1] = 1


class FeedCursor(msgspec.Struct, frozen=True, tag_field="kind", tag="feed-cursor"):
    """A commit of a branch. The feed goes on with the commit after it. `native` is the incarnation of the branch."""

    graph: GraphId
    scope: str
    branch: BranchName
    native: str | None
    commit: CommitId
    at: int
    """A manifest version at which the commit was the newest."""
    version: Literal[1] = 1


class FeedPageToken(msgspec.Struct, frozen=True, tag_field="kind", tag="feed-page"):
    """A page of the feed that ended inside a commit: the one after `cursor`. `cut` is the newest commit that the poll saw."""

    cursor: FeedCursor
    place: ChangePlace
    cut: CommitId
    cut_at: int
    version: Literal[1] = 1


Token = CommitPageToken | FeedCursor | FeedPageToken
T = TypeVar("T", CommitPageToken, FeedCursor, FeedPageToken)
_NAMES: Final = {CommitPageToken: "a page token of a commit", FeedCursor: "a cursor", FeedPageToken: "a page token of a feed"}


def encode(token: Token) -> str:
    body = msgspec.json.encode(token)
    return base64.urlsafe_b64encode(body + hashlib.sha256(body).digest()).decode().rstrip("=")


def decode(text: str, wanted: type[T]) -> T:
    """Return the token of a text. Raises ChangeCursorRejected if the text is none, or one of another kind (D-15, D-20)."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_TOKEN:
        raise cursor_rejected("malformed", "it is not a text of at most 4096 characters")
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            raise cursor_rejected("malformed", "it is damaged, or was not made by OmniGraph")
        token: Token = msgspec.json.decode(body, type=Token)
    except (ValueError, binascii.Error, msgspec.MsgspecError) as error:
        raise cursor_rejected("malformed", "it is damaged, or was made by another release") from error
    if not isinstance(token, wanted):
        raise cursor_rejected("kind", f"it is {_NAMES[type(token)]}, and this takes {_NAMES[wanted]}")
    return token


def scope_of(wanted: ChangeFilter) -> str:
    """Return a short text that is the same for equal filters only."""
    names = [None if each is None else sorted(each) for each in (wanted.kinds, wanted.types, wanted.ops)]
    return hashlib.sha256(msgspec.json.encode(names)).digest()[:_SCOPE_BYTES].hex()


def check_scope(token: CommitPageToken | FeedCursor, *, graph: GraphId, scope: str) -> None:
    if token.graph != graph:
        raise cursor_rejected("graph", "it belongs to another graph")
    if token.scope != scope:
        raise cursor_rejected("filter", "it was made with other kinds, types or operations; pass the same ones again")


def check_branch(cursor: FeedCursor, branch: Branch) -> None:
    """Refuse a cursor of another branch, or of an earlier branch of the same name (D-20)."""
    if cursor.branch != branch.name:
        raise cursor_rejected("branch", f"it belongs to branch {cursor.branch!r}, not to {branch.name!r}", branch=cursor.branch)
    if cursor.native != branch.native:
        raise cursor_rejected("incarnation", f"branch {branch.name!r} was deleted and created again since", branch=branch.name)
