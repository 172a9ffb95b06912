"""A writer's intent -> a sidecar in `__recovery/`, durable before its first effect; listed and read by whoever comes after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from omnigraph.errors import FormatError, Kind
from omnigraph.ids import CommitId, OperationId, SchemaHash
from omnigraph.manifest.model import CommitKind, Resolution, SchemaText, TableRow
from omnigraph.manifest.registry import Branch
from omnigraph.store.objects import Objects
from omnigraph.store.tables import TableRef

FOLDER: Final = "__recovery"
FORMAT: Final = 1


class TableIntent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One table a write will commit to, once: from `before` to the next version of native branch `native`.

    Both uuids are minted before anything happens: `uuid` proves later that the commit found there is ours (REC-34), and
    `restore_uuid` that a restore was made by an earlier recovery of this very intent (REC-29).
    """

    before: TableRow
    native: str | None
    uuid: str
    restore_uuid: str
    alias: str | None = None
    """What the table is called afterwards, when that changes."""
    drops: bool = False
    """The table is not shown any more afterwards."""
    gives_up: bool = False
    """Its earlier versions are given up with this commit."""

    @property
    def creates_ref(self) -> bool:
        """A first touch: the native branch is ours to create, and ours to remove again."""
        return self.native != self.before.native

    @property
    def base(self) -> TableRef:
        """Where the commit starts from, on the native branch it goes to."""
        return TableRef(self.before.path, self.native, self.before.version)


class TableBirth(msgspec.Struct, frozen=True):
    """One table a write will create: the row that shows it, and the uuid that proves its first version ours (RT-44)."""

    row: TableRow
    uuid: str


class Intent(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that whoever finds it needs to finish or undo the write, without asking its writer."""

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
    counts: Mapping[str, int] = {}
    births: tuple[TableBirth, ...] = ()
    restated: tuple[TableRow, ...] = ()
    """Rows that change in what the graph says of a table, not in the table: it was renamed, or dropped."""
    new_schema: SchemaText | None = None
    way: Resolution | None = None
    """Which way it goes, where that must be known to others: on an object store the one that decided may sleep past its lease; on a disk
    a flush that failed leaves only the way back, because what was committed may not outlive a power cut.
    """

    @property
    def has_effects(self) -> bool:
        """Does it do anything that somebody might have to undo? A publish alone happens or does not. It is armed all the same:
        that tells a version file that a power cut tore, and that did not happen, from one that was damaged since.
        """
        return bool(self.tables or self.births)


def arm(objects: Objects, intent: Intent) -> None:
    """Make the intent durable. INV-9: before the first effect that somebody else could have to undo."""
    objects.put(path_of(intent.operation), msgspec.json.encode(intent), sync=True)


def decide(objects: Objects, intent: Intent, way: Resolution, *, check: Callable[[], None]) -> Resolution | None:
    """Record which way an intent goes before the first step on it, and what stands then; None when the intent is not there any more.

    Back is for good. A recovery that slept while its successor went forward finds the record changed, and one that goes forward
    finds that another has begun to undo. On a disk nothing is recorded: whoever decides keeps the lock until it is done or dead.
    """
    path = path_of(intent.operation)
    while not objects.is_local:
        if (found := objects.get_versioned(path)) is None:
            return None
        standing = _decode(found[0], f"{objects.uri}/{path}").way
        if standing in (way, Resolution.ROLLED_BACK):
            return standing
        check()  # after the read: whoever lost its lease before it has an old record or none
        if objects.put_if_match(path, msgspec.json.encode(msgspec.structs.replace(intent, way=way)), found[1]) is not None:
            return way
    return way


def disarm(objects: Objects, intent: Intent) -> None:
    objects.delete(path_of(intent.operation))


def pending(objects: Objects) -> list[Intent]:
    """All intents, oldest first. One that vanishes while we read was finished by its writer (REC-26)."""
    paths = [path for path in objects.list(FOLDER) if path.endswith(".json")]
    return [intent for path in paths if (intent := read_intent(objects, path)) is not None]


def read_intent(objects: Objects, path: str) -> Intent | None:
    body = objects.get_if_exists(path)
    return None if body is None else _decode(body, f"{objects.uri}/{path}")


def _decode(body: bytes, where: str) -> Intent:
    try:
        found = msgspec.json.decode(body, type=_Stamp).format
        if found == FORMAT:
            return msgspec.json.decode(body, type=Intent)
    except msgspec.DecodeError as error:
        unreadable = f"the intent {where} cannot be read ({error}), and a write may be half way; restore the file from a backup"
        raise FormatError(Kind.CORRUPT, unreadable, path=where) from error
    newer = f"the intent {where} has format {found}, this release knows {FORMAT}; finish it with the release that made it"
    raise FormatError(Kind.FORMAT_NEWER, newer, path=where)


class _Stamp(msgspec.Struct):
    format: int


def path_of(operation: OperationId) -> str:
    return f"{FOLDER}/{operation}.json"
