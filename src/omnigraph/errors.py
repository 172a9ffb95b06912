"""A failure -> a typed error: the class says what the caller can do, `kind` is the stable code."""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple


class Kind(StrEnum):
    """Stable codes. Append only: a released code keeps its name and meaning."""

    # the text is invalid
    SYNTAX = "syntax"
    SCHEMA = "schema"
    TYPE = "type"
    # the data or an argument is invalid
    INVALID_ARGUMENT = "invalid_argument"
    INVALID_BRANCH_NAME = "invalid_branch_name"
    BRANCH_NAME_OVERLAPS = "branch_name_overlaps"
    INVALID_TAG_NAME = "invalid_tag_name"
    VALIDATION = "validation"
    BLOB_POLICY = "external_blob_policy"
    BLOB_SOURCE = "external_blob_source"
    BLOB_RANGE = "blob_range_not_satisfiable"
    NOT_EMPTY = "folder_not_empty"
    NUMERIC_OVERFLOW = "numeric_overflow"
    AMBIGUOUS_UPDATE = "ambiguous_update"
    AMBIGUOUS_COMMIT = "ambiguous_commit"
    TOKEN_REUSED = "token_reused"
    TRANSACTION_NOT_OPEN = "transaction_not_open"
    CHANGE_CURSOR_REJECTED = "change_cursor_rejected"
    BASELINE_NOT_READ = "baseline_not_read"
    GRAPH_CLOSED = "graph_closed"
    # the object does not exist
    NOT_A_GRAPH = "not_a_graph"
    BRANCH_NOT_FOUND = "branch_not_found"
    COMMIT_NOT_FOUND = "commit_not_found"
    TAG_NOT_FOUND = "tag_not_found"
    VERSION_NOT_FOUND = "version_not_found"
    TABLE_NOT_FOUND = "table_not_found"
    OBJECT_NOT_FOUND = "object_not_found"
    VERSION_RECLAIMED = "historical_version_reclaimed"
    CHANGE_FEED_GAP = "change_feed_gap"
    # conflict with the current state of the graph
    KEY_CONFLICT = "key_conflict"
    READ_SET_CHANGED = "read_set_changed"
    VERSION_MISMATCH = "expected_version_mismatch"
    SCHEMA_CHANGED = "schema_changed"
    BRANCH_REPLACED = "branch_replaced"
    FENCED = "fenced"
    CONTENTION = "contention"
    PRECONDITION_FAILED = "precondition_failed"
    ALREADY_INITIALIZED = "already_initialized"
    BRANCH_EXISTS = "branch_exists"
    BRANCH_HAS_CHILDREN = "branch_has_children"
    BRANCH_HAS_TAGS = "branch_has_tags"
    TAG_EXISTS = "tag_exists"
    TAG_REPLACED = "tag_replaced"
    MERGE_CONFLICTS = "merge_conflicts"
    PARENTLESS_COMMIT = "parentless_commit"
    SCHEMA_BOUNDARY = "schema_boundary"
    # a limit was reached
    RESOURCE_LIMIT = "resource_limit_exceeded"
    LOCK_TIMEOUT = "lock_timeout"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    # an interrupted write must be resolved first
    RECOVERY_REQUIRED = "recovery_required"
    # storage
    STORAGE = "storage"
    STORAGE_PERMISSION = "storage_permission"
    STORAGE_FULL = "storage_full"
    STORAGE_UNAVAILABLE = "storage_unavailable"
    STORAGE_CONFIGURATION = "storage_configuration"
    STORAGE_UNSUPPORTED = "storage_unsupported"
    DRIFT = "uncovered_drift"
    BLOB_INTEGRITY = "blob_integrity"
    CORRUPT = "corrupt"
    TORN_FILE = "torn_file"
    # embedding
    EMBEDDING_MISSING = "embedding_provider_missing"
    EMBEDDING_CONFIGURATION = "embedding_configuration"
    EMBEDDING_MODEL = "embedding_model_mismatch"
    EMBEDDING_UNAVAILABLE = "embedding_unavailable"
    EMBEDDING_REFUSED = "embedding_refused"
    EMBEDDING_INVALID = "embedding_invalid"
    # format and location
    FORMAT_OLDER = "format_older"
    FORMAT_NEWER = "format_newer"
    # not possible
    UNSUPPORTED = "unsupported"
    FORKED_PROCESS = "forked_process"
    READ_ONLY = "read_only"


class Outcome(StrEnum):
    """Whether the requested effect took place. `UNKNOWN` is never reported as `DID_NOT_HAPPEN`."""

    DID_NOT_HAPPEN = "did_not_happen"
    HAPPENED = "happened"
    UNKNOWN = "unknown"


_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s\"'<>]*@")


def redacted(text: str) -> str:
    """Return the text with user names and passwords in URIs (`http://user:secret@host`) replaced by `***`."""
    return _CREDENTIALS.sub("***@", text)


def _scrub(error: BaseException | None) -> None:
    """Remove credentials from a foreign error and from its causes: a traceback prints them together with our error."""
    while error is not None and not isinstance(error, OmniGraphError):
        if error.args and isinstance(error.args[0], str) and (clean := redacted(error.args[0])) != error.args[0]:
            error.args = (clean, *error.args[1:])
        error = error.__cause__ or error.__context__


VALUE_CHARACTERS: Final = 200
"""How much of one value of the input a message repeats."""
MESSAGE_CHARACTERS: Final = 2_000
"""The longest message, and the longest text among the facts."""


def shortened(text: str, limit: int = MESSAGE_CHARACTERS) -> str:
    """Return the text, or the beginning and the end of one that is longer than `limit` characters, with its length between them."""
    if len(text) <= limit:
        return text
    gap = f"… ({len(text):,} characters) …"
    last = (limit - len(gap)) // 4
    return f"{text[: limit - len(gap) - last]}{gap}{text[len(text) - last :]}"


_LONG_VALUE: Final = re.compile(
    "|".join(rf"{quote}(?:\\.|[^{quote}\\\n]){{{VALUE_CHARACTERS},}}+{quote}" for quote in "'\"`") + rf"|\S{{{VALUE_CHARACTERS + 1},}}+"
)
"""A text between quotes, as `repr` writes it, or one without a space."""


def bounded(message: str) -> str:
    """Return the message with every long value in it shortened. It repeats the input, which may be of any length."""
    start = shortened(message, 100 * MESSAGE_CHARACTERS)  # so that the search takes no time
    return shortened(_LONG_VALUE.sub(lambda found: shortened(found.group(), VALUE_CHARACTERS), start))


def _told(message: str, facts: Mapping[str, object]) -> str:
    """Return the message with long values of the input shortened: those among the facts, and whatever else is long."""
    for fact in facts.values():
        if isinstance(fact, str) and len(fact) > VALUE_CHARACTERS:
            for spelled in (fact, repr(fact)[1:-1]):
                message = message.replace(spelled, shortened(spelled, VALUE_CHARACTERS))
    return _visible(bounded(message))


def _visible(message: str) -> str:
    """Return the message with control characters of the input escaped, so that a name in it cannot control a terminal."""
    if message.isprintable():
        return message
    return "".join(char if char.isprintable() or char in "\n\t\u200c\u200d" else char.encode("unicode_escape").decode() for char in message)


class OmniGraphError(Exception):
    """The root of the tree. `kind` is for programs, `message` for people; `facts` holds the data behind the message.

    `outcome` says whether the requested effect took place. Most errors are raised before any effect. A message never repeats more than
    a part of a long input. An error can be pickled and copied: a pool of processes raises it where the result is asked for.
    """

    outcome: Outcome = Outcome.DID_NOT_HAPPEN

    def __init__(self, kind: Kind, message: str, **facts: object) -> None:
        shown = _told(message, facts)
        super().__init__(shown)
        _scrub(sys.exception())
        self.kind: Final = kind
        self.message: Final = shown
        self.facts: Final[dict[str, object]] = {name: _short(fact) for name, fact in facts.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would call the class with the message alone, which fails in the process that unpickles.
        state = {**self.__dict__, "facts": {name: _picklable(fact) for name, fact in self.facts.items()}}
        return _rebuilt, (type(self), self.message, state)


def _short(fact: object) -> object:
    """Return a fact with long texts shortened, also those of a list."""
    if isinstance(fact, list | tuple) and any(isinstance(item, str) for item in fact):
        return type(fact)(map(_short, fact))
    return shortened(fact) if isinstance(fact, str) else fact


def _picklable(fact: object) -> object:
    """Return a fact, or its text form if it cannot be pickled: an argument of the caller may be anything."""
    try:
        pickle.dumps(fact)
    except Exception:  # noqa: BLE001  # whatever a foreign class raises: the error must arrive without its object
        return repr(fact)
    return fact


def _rebuilt(class_: type[OmniGraphError], message: str, state: Mapping[str, object]) -> OmniGraphError:
    """Return the error that was pickled. Its constructor, which may change the message, has run where it was raised."""
    error = class_.__new__(class_, message)
    error.__dict__.update(state)
    return error


class Span(NamedTuple):
    """A range of a text: characters `start` up to, not including, `end`."""

    start: int
    end: int


class Position(NamedTuple):
    """A position in a text for messages: both count from 1, columns in characters."""

    line: int
    column: int


# The prefix of a language error's message: it names the stage that rejected the text.
FAMILY: Final[dict[Kind, str]] = {Kind.SYNTAX: "parse error", Kind.SCHEMA: "catalog error", Kind.TYPE: "type error"}


class LanguageError(OmniGraphError):
    """Correct the text: a schema, query or mutation does not parse or does not type-check.

    Raise it with the `span` of the invalid node; `omnigraph.lang.located` adds `position` and `rendered` where the text is
    available. `code` is the number in the language reference (S06, T12, Q000); type errors show it in their message.
    """

    def __init__(
        self, kind: Kind, message: str, *, span: Span | None = None, code: str | None = None, hint: str | None = None, **facts: object
    ) -> None:
        shown = f"{code}: {message}" if code is not None and kind is Kind.TYPE else message
        super().__init__(kind, f"{FAMILY[kind]}: {shown}", **facts)
        self.span: Final = span
        self.code: Final = code
        self.hint: Final = None if hint is None else shortened(hint, 2 * VALUE_CHARACTERS)
        self.position: Position | None = None
        self.rendered: str | None = None

    def __str__(self) -> str:
        return self.rendered or self.message


class InvalidInput(OmniGraphError):
    """Correct the data or the arguments."""


class ChangeCursorRejected(InvalidInput):
    """A cursor or page token of the change feed does not belong here: fact `reason`. Begin again with a baseline, or pass the right one."""


class NotFound(OmniGraphError):
    """The named object does not exist, or no longer exists."""


class ChangeFeedGap(NotFound):
    """A commit after the cursor can no longer be read: facts `commit`, the first such one, and `cursor`. Begin again with a baseline."""


class ConflictError(OmniGraphError):
    """The graph changed, or is not in the state the caller expected: read again, then decide."""


class KeyConflict(ConflictError):
    """An append contains an id that already exists."""


class ReadSetChanged(ConflictError):
    """The data that a write was planned on has changed. Nothing was written."""


class ExpectedVersionMismatch(ConflictError):
    """A table is not at the version the publisher expected: facts `table`, `expected`, `actual`."""


class MergeConflicts(ConflictError):
    """Two branches changed the same entities differently. Facts: `conflicts`, the first of them, and `count`, of all."""


class PreconditionFailed(ConflictError):
    """`if_commit` no longer holds: facts `branch`, `expected`, `actual`."""


class LimitError(OmniGraphError):
    """A limit was reached before any effect."""


class ResourceLimitExceeded(LimitError):
    """Facts `resource`, `limit`, `actual`."""


class RecoveryRequired(OmniGraphError):
    """An interrupted write could not be resolved by this call: fact `operation_id`.

    The caller of the interrupted write itself gets the outcome `UNKNOWN`.
    """

    def __init__(self, kind: Kind, message: str, *, outcome: Outcome = Outcome.DID_NOT_HAPPEN, **facts: object) -> None:
        super().__init__(kind, message, outcome=outcome.value, **facts)
        self.outcome = outcome


class StorageError(OmniGraphError):
    """The disk or the object store failed. `outcome` says whether the effect took place.

    Messages of storage libraries contain full endpoints, so passwords in URIs are removed here.
    """

    def __init__(self, kind: Kind, message: str, *, outcome: Outcome = Outcome.DID_NOT_HAPPEN, **facts: object) -> None:
        clean = {name: redacted(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        super().__init__(kind, redacted(message), outcome=outcome.value, **clean)
        self.outcome = outcome


class EmbeddingError(OmniGraphError):
    """The embedding provider failed or gave an answer that cannot be used. Nothing was written; `ensure_embeddings` keeps what was made."""


class FormatError(OmniGraphError):
    """This release cannot read or write the graph."""


class PolicyDenied(OmniGraphError):
    """A policy forbids the operation."""


class Unsupported(OmniGraphError):
    """The operation is not possible here. A retry does not help."""


class Status:
    """The exit code of a process and the HTTP status of a server for one error class."""

    __slots__ = ("exit_code", "http")

    def __init__(self, *, exit_code: int, http: int) -> None:
        self.exit_code: Final = exit_code
        self.http: Final = http


# A class without a row takes its parent's. A kind may override the HTTP status of its class.
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
    EmbeddingError: Status(exit_code=1, http=502),
    FormatError: Status(exit_code=1, http=409),
    PolicyDenied: Status(exit_code=1, http=403),
    Unsupported: Status(exit_code=1, http=400),
}

HTTP_BY_KIND: Final[dict[Kind, int]] = {
    Kind.BLOB_RANGE: 416,
    Kind.CHANGE_FEED_GAP: 410,
    Kind.LOCK_TIMEOUT: 503,
    Kind.TIMEOUT: 504,
    Kind.STORAGE_UNAVAILABLE: 503,
    Kind.EMBEDDING_UNAVAILABLE: 503,
}


def status_of(error: OmniGraphError) -> Status:
    """Return the exit code and HTTP status of an error: the row of its class, or of the nearest parent."""
    for cls in type(error).__mro__:
        if cls in STATUS:
            row = STATUS[cls]
            return Status(exit_code=row.exit_code, http=HTTP_BY_KIND.get(error.kind, row.http))
    raise AssertionError("OmniGraphError itself has a row")
