"""What went wrong -> a typed error: the class says what the caller should do, `kind` is the stable code."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """Stable codes. Append only: a code, once released, keeps its name and meaning."""

    # mend the text
    SYNTAX = "syntax"
    SCHEMA = "schema"
    TYPE = "type"
    # mend the data or the call
    INVALID_ARGUMENT = "invalid_argument"
    INVALID_BRANCH_NAME = "invalid_branch_name"
    BRANCH_NAME_OVERLAPS = "branch_name_overlaps"
    VALIDATION = "validation"
    BLOB_POLICY = "external_blob_policy"
    BLOB_RANGE = "blob_range_not_satisfiable"
    CHANGE_CURSOR = "change_cursor_rejected"
    NOT_EMPTY = "folder_not_empty"
    # it is not there
    NOT_A_GRAPH = "not_a_graph"
    BRANCH_NOT_FOUND = "branch_not_found"
    COMMIT_NOT_FOUND = "commit_not_found"
    VERSION_NOT_FOUND = "version_not_found"
    TABLE_NOT_FOUND = "table_not_found"
    OBJECT_NOT_FOUND = "object_not_found"
    VERSION_RECLAIMED = "historical_version_reclaimed"
    CHANGE_FEED_GAP = "change_feed_gap"
    NO_PARENT = "commit_has_no_parent"
    # look again, then decide
    KEY_CONFLICT = "key_conflict"
    READ_SET_CHANGED = "read_set_changed"
    VERSION_MISMATCH = "expected_version_mismatch"
    SCHEMA_CHANGED = "schema_changed"
    BRANCH_REPLACED = "branch_replaced"
    FENCED = "fenced"
    CONTENTION = "contention"
    MERGE_CONFLICTS = "merge_conflicts"
    PRECONDITION_FAILED = "precondition_failed"
    SCHEMA_BOUNDARY = "change_schema_boundary"
    ALREADY_INITIALIZED = "already_initialized"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_HAS_CHILDREN = "branch_has_children"
    # a bound was reached
    RESOURCE_LIMIT = "resource_limit_exceeded"
    LOCK_TIMEOUT = "lock_timeout"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    # somebody must finish a write first
    RECOVERY_REQUIRED = "recovery_required"
    # the bytes
    STORAGE = "storage"
    STORAGE_PERMISSION = "storage_permission"
    STORAGE_FULL = "storage_full"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    STORAGE_CONFIGURATION = "storage_configuration"
    STORAGE_UNSUPPORTED = "storage_unsupported"
    DRIFT = "uncovered_drift"
    INITIALIZATION_COMMITTED = "initialization_committed"
    INITIALIZATION_INDETERMINATE = "initialization_indeterminate"
    BLOB_SOURCE = "external_blob_source"
    BLOB_INTEGRITY = "blob_integrity"
    CORRUPT = "corrupt"
    TORN_FILE = "torn_file"
    # another format
    FORMAT_OLDER = "format_older"
    FORMAT_NEWER = "format_newer"
    GRAPH_MOVED = "graph_moved"
    # not allowed, not possible
    POLICY_DENIED = "policy_denied"
    UNSUPPORTED = "unsupported"
    FORKED_PROCESS = "forked_process"
    READ_ONLY = "read_only"


class Outcome(StrEnum):
    """What became of the effect that failed. "Unknown" must never look like "did not happen"."""

    DID_NOT_HAPPEN = "did_not_happen"
    HAPPENED = "happened"
    UNKNOWN = "unknown"


_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s\"'<>]*@")


def redacted(text: str) -> str:
    """A text without the user names and passwords that URIs in it carry, as in `http://user:secret@host`."""
    return _CREDENTIALS.sub("***@", text)


def _scrub(error: BaseException | None) -> None:
    """Take credentials out of a foreign error's own words, and of what it was raised from: they are printed with an error of ours."""
    while error is not None and not isinstance(error, OmniGraphError):
        if error.args and isinstance(error.args[0], str) and (clean := redacted(error.args[0])) != error.args[0]:
            error.args = (clean, *error.args[1:])
        error = error.__cause__ or error.__context__


class OmniGraphError(Exception):
    """The root. `kind` is for programs, `message` for people, `facts` are the data behind the message.

    `outcome` says what became of the effect that was asked for. Most errors are raised before any.
    """

    outcome: Outcome = Outcome.DID_NOT_HAPPEN

    def __init__(self, kind: Kind, message: str, **facts: object) -> None:
        super().__init__(message)
        _scrub(sys.exception())
        self.kind: Final = kind
        self.message: Final = message
        self.facts: Final = facts


class Span(NamedTuple):
    """Where something stands in a text: characters `start` up to, not including, `end`."""

    start: int
    end: int


class Position(NamedTuple):
    """A place for people: both count from 1, columns in characters."""

    line: int
    column: int


# How the message of a language error begins, so that a reader knows which stage refused the text.
FAMILY: Final[dict[Kind, str]] = {Kind.SYNTAX: "parse error", Kind.SCHEMA: "catalog error", Kind.TYPE: "type error"}


class LanguageError(OmniGraphError):
    """Mend the text: a schema, query or mutation that does not parse or does not type.

    Raise it with the offending node's `span`; `omnigraph.lang.located` adds `position` and `rendered` where the text is
    at hand. `code` is the number in the language reference (S06, T12, Q000); type errors show it in their message.
    """

    def __init__(
        self, kind: Kind, message: str, *, span: Span | None = None, code: str | None = None, hint: str | None = None, **facts: object
    ) -> None:
        shown = f"{code}: {message}" if code is not None and kind is Kind.TYPE else message
        super().__init__(kind, f"{FAMILY[kind]}: {shown}", **facts)
        self.span: Final = span
        self.code: Final = code
        self.hint: Final = hint
        self.position: Position | None = None
        self.rendered: str | None = None

    def __str__(self) -> str:
        return self.rendered or self.message


class InvalidInput(OmniGraphError):
    """Mend the data or the arguments."""


class NotFound(OmniGraphError):
    """The thing named is not there (any more)."""


class ConflictError(OmniGraphError):
    """Somebody else was faster, or the world is not as you said: look again, then decide."""


class KeyConflict(ConflictError):
    """An append met an id that exists."""


class ReadSetChanged(ConflictError):
    """What the work was planned on has moved; nothing was done."""


class ExpectedVersionMismatch(ConflictError):
    """A table is not at the version the publisher expected: facts `table`, `expected`, `actual`."""


class MergeConflicts(ConflictError):
    """Two branches changed the same things differently: fact `conflicts`."""


class PreconditionFailed(ConflictError):
    """`if_commit` no longer holds: facts `branch`, `expected`, `actual`."""


class LimitError(OmniGraphError):
    """A stated bound was reached before any effect."""


class ResourceLimitExceeded(LimitError):
    """Facts `resource`, `limit`, `actual`."""


class RecoveryRequired(OmniGraphError):
    """A write is half way and could not be resolved here: fact `operation_id`. Its own caller gets the outcome "unknown"."""

    def __init__(self, kind: Kind, message: str, *, outcome: Outcome = Outcome.DID_NOT_HAPPEN, **facts: object) -> None:
        super().__init__(kind, message, outcome=outcome.value, **facts)
        self.outcome = outcome


class StorageError(OmniGraphError):
    """The bytes below us failed. `outcome` says whether the effect happened.

    Its words often come from below, where endpoints are written out: no password in a URI gets past here.
    """

    def __init__(self, kind: Kind, message: str, *, outcome: Outcome = Outcome.DID_NOT_HAPPEN, **facts: object) -> None:
        clean = {name: redacted(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        super().__init__(kind, redacted(message), outcome=outcome.value, **clean)
        self.outcome = outcome


class FormatError(OmniGraphError):
    """A graph this release must not touch."""


class PolicyDenied(OmniGraphError):
    """A policy said no."""


class Unsupported(OmniGraphError):
    """Not possible here, and trying again will not help."""


class Status:
    """How one error class leaves a process (`exit_code`) and a server (`http`)."""

    __slots__ = ("exit_code", "http")

    def __init__(self, *, exit_code: int, http: int) -> None:
        self.exit_code: Final = exit_code
        self.http: Final = http


# The one table. A class without a row takes its parent's; a kind may refine its class's HTTP status.
STATUS: Final[dict[type[OmniGraphError], Status]] = {
    OmniGraphError: Status(exit_code=1, http=500),
    LanguageError: Status(exit_code=1, http=400),
    InvalidInput: Status(exit_code=1, http=400),
    NotFound: Status(exit_code=1, http=404),
    ConflictError: Status(exit_code=1, http=409),
    PreconditionFailed: Status(exit_code=4, http=412),
    LimitError: Status(exit_code=1, http=413),
    RecoveryRequired: Status(exit_code=1, http=503),
    StorageError: Status(exit_code=1, http=500),
    FormatError: Status(exit_code=1, http=409),
    PolicyDenied: Status(exit_code=1, http=403),
    Unsupported: Status(exit_code=1, http=400),
}

HTTP_BY_KIND: Final[dict[Kind, int]] = {
    Kind.CHANGE_FEED_GAP: 410,
    Kind.BLOB_RANGE: 416,
    Kind.BLOB_SOURCE: 424,
    Kind.LOCK_TIMEOUT: 503,
    Kind.TIMEOUT: 504,
    Kind.STORAGE_UNAVAILABLE: 503,
}


def status_of(error: OmniGraphError) -> Status:
    """The exit code and HTTP status of an error: its class's row, or the nearest parent's."""
    for cls in type(error).__mro__:
        if cls in STATUS:
            row = STATUS[cls]
            return Status(exit_code=row.exit_code, http=HTTP_BY_KIND.get(error.kind, row.http))
    raise AssertionError("OmniGraphError itself has a row")
