"""The intent of a write -> a file in `__recovery/`, durable before the first effect; later writers list and read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from omnigraph.errors import FormatError, Kind
from omnigraph.ids import CommitId, OperationId, SchemaHash
from omnigraph.manifest.model import Commit, CommitKind, Resolution, SchemaText, TableRow
from omnigraph.manifest.registry import Branch
from omnigraph.store.checksums import is_intact, sealed
from omnigraph.store.objects import First, Objects
from omnigraph.store.tables import TableRef

DIRECTORY: Final = "__recovery"
FORMAT: Final = 3
_READ: Final = (1, 2, 3)
"""Format 2 adds `merged` and `copied`. A release that knows only format 1 would finish a merge without them, so it must refuse. Format 3
adds `then`: an older release would take the second commit of a table for that of another program.
"""


class TableIntent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One table that a write commits to, once or twice: from `before` to the next versions of native branch `native`.

    Both uuids are generated before the first effect. `uuid` identifies the commit of this write (REC-34), and
    `restore_uuid` the restore by an earlier recovery of this intent (REC-29).
    """

    before: TableRow
    native: str | None
    uuid: str
    restore_uuid: str
    alias: str | None = None
    """The name of the table after the write, if it changes."""
    drops: bool = False
    """The table is no longer visible after the write."""
    gives_up: bool = False
    """The earlier versions of the table may be reclaimed after this commit."""
    shown: int | None = None
    """The version that the branch shows before the write, if `before` is the table of a merged branch."""
    then: str | None = None
    """The uuid of the second commit, if the write makes two. Neither is published without the other."""

    @property
    def creates_ref(self) -> bool:
        """Whether this write is the first on the table in its branch: it creates the native branch, and a rollback removes it."""
        return self.native != self.before.native

    @property
    def base(self) -> TableRef:
        """The version that the commit starts from, on the native branch it goes to."""
        return TableRef(self.before.path, self.native, self.before.version)

    @property
    def uuids(self) -> tuple[str, ...]:
        """The uuids of all its commits, in order."""
        return (self.uuid,) if self.then is None else (self.uuid, self.then)

    @property
    def made(self) -> TableRef:
        """The version after all its commits."""
        return self.base.at(self.before.version + len(self.uuids))


class TableBirth(msgspec.Struct, frozen=True):
    """One table that a write creates: its row, and the uuid that identifies its first version as this write's (RT-44)."""

    row: TableRow
    uuid: str


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """All data that another process needs to finish or undo the write."""

    format: int
    operation: OperationId
    branch: Branch
    parent: CommitId
    schema: SchemaHash
    commit: CommitId
    rollback: CommitId
    kind: CommitKind
    at: datetime
    tables: tuple[TableIntent, ...]
    actor: str | None = None
    message: str | None = None
    token: str | None = None
    digest: str | None = None
    counts: Mapping[str, int] = {}
    births: tuple[TableBirth, ...] = ()
    restated: tuple[TableRow, ...] = ()
    """Rows that change although their table does not: it was renamed, or dropped."""
    new_schema: SchemaText | None = None
    adopted: tuple[TableRow, ...] = ()
    """Rows of tables that another branch owns and that this branch shows from now on."""
    merged: CommitId | None = None
    """The head of the merged branch, which is the second parent of the commit."""
    copied: tuple[Commit, ...] = ()
    """The commits of the merged branch that the target does not have."""
    way: Resolution | None = None
    """The recorded decision to roll forward or back. On an object store the process that decided may be paused until after its lease has
    expired. On a disk a failed flush leaves only the rollback, because the committed files may not survive a power cut.
    """

    @property
    def has_effects(self) -> bool:
        """Whether the write has effects to undo. A publish alone is atomic and has none. It has an intent all the same, which
        distinguishes a version file that a power cut tore before its publish was complete from one that was damaged later.
        """
        return bool(self.tables or self.births)


def arm(objects: Objects, intent: Intent, *, first: First | None = None) -> None:
    """Make the intent durable. INV-9: before the first effect that another process may have to undo. `first`: see `Objects.put`."""
    objects.put(path_of(intent.operation), sealed(msgspec.json.encode(intent)), sync=True, first=first)


def decide(objects: Objects, intent: Intent, way: Resolution, *, check: Callable[[], None]) -> Resolution | None:
    """Record the decision on an intent before its first step. Returns the decision in force, or None if the intent no longer exists.

    A rollback is final. A recovery that was paused while its successor rolled forward finds the record changed, and one that
    rolls forward finds that another has begun to undo. On a disk nothing is recorded: the process holds the lock until it is
    done or has ended.
    """
    path = path_of(intent.operation)
    while not objects.is_local:
        if (found := objects.get_versioned(path)) is None:
            return None
        standing = _decode(found[0], f"{objects.uri}/{path}").way
        if standing in (way, Resolution.ROLLED_BACK):
            return standing
        check()  # after the read: a process that lost its lease before the read has an old record or none
        if objects.put_if_match(path, sealed(msgspec.json.encode(msgspec.structs.replace(intent, way=way))), found[1]) is not None:
            return way
    return way


def disarm(objects: Objects, intent: Intent) -> None:
    objects.delete(path_of(intent.operation))


def pending(objects: Objects) -> list[Intent]:
    """Return all intents, oldest first. An intent that disappears during the listing was finished by its writer (REC-26)."""
    paths = [path for path in objects.list(DIRECTORY) if path.endswith(".json")]
    return [intent for path in paths if (intent := read_intent(objects, path)) is not None]


def read_intent(objects: Objects, path: str) -> Intent | None:
    body = objects.get_if_exists(path)
    return None if body is None else _decode(body, f"{objects.uri}/{path}")


def _decode(body: bytes, where: str) -> Intent:
    try:
        found = msgspec.json.decode(body, type=_Stamp).format
        if found in _READ:
            if not is_intact(body):
                raise msgspec.DecodeError("it does not match its checksum")
            return msgspec.json.decode(body, type=Intent)
    except msgspec.DecodeError as error:
        unreadable = f"the intent {where} cannot be decoded ({error}), and its write may be incomplete; restore the file from a backup"
        raise FormatError(Kind.CORRUPT, unreadable, path=where) from error
    newer = f"the intent {where} has format {found}, and this release reads format {FORMAT}; open the graph with the release that wrote it"
    raise FormatError(Kind.FORMAT_NEWER, newer, path=where)


class _Stamp(msgspec.Struct):
    format: int


def path_of(operation: OperationId) -> str:
    return f"{DIRECTORY}/{operation}.json"
