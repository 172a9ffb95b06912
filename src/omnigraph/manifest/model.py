"""Tables, head, commits and schemas -> their rows in `__manifest`, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa

from omnigraph.errors import FormatError, Kind
from omnigraph.ids import MAIN, BranchName, CommitId, OperationId, SchemaHash, TableId, TypeId, content_hash
from omnigraph.store.bases import home
from omnigraph.store.checksums import Blocks, Checksums, is_intact, sealed
from omnigraph.store.ledger import ROWS
from omnigraph.store.origins import RowOrigin
from omnigraph.store.tables import TableRef

FORMAT: Final = 1
"""The version of the storage format. A change of the stored bytes needs a new number and a design note."""

RECOVERY_ACTOR: Final = "omnigraph:recovery"
HEAD: Final = "head"
TABLE: Final = "table:"
SCHEMA: Final = "schema:"
COMMIT: Final = "commit:"
TOKEN: Final = "token:"
ORIGIN: Final = "origin:"


class CommitKind(StrEnum):
    """The operation that made a commit."""

    GENESIS = "genesis"
    MUTATE = "mutate"
    LOAD = "load"
    MERGE = "merge"
    REVERT = "revert"
    TRANSACTION = "transaction"
    SCHEMA = "schema"
    INDEX = "index"
    OPTIMIZE = "optimize"
    COPY = "copy"
    RECOVERY = "recovery"
    REPAIR = "repair"

    @property
    def moves_rows_only(self) -> bool:
        """Whether a commit of this kind changes files and no entity."""
        return self in (CommitKind.INDEX, CommitKind.OPTIMIZE)


class TableRow(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The version of a table that a branch shows. `native` is the Lance branch that contains it; None is the main line of the table.

    `owner` is the native name of the graph branch that may commit there (None is main). A branch inherits a table that it
    shows and does not own, and forks it on its first write.
    """

    id: TableId
    alias: str
    path: str
    version: int
    rows: int
    native: str | None = None
    owner: str | None = None
    dropped: bool = False
    floor: int = 0
    """Versions of this native branch below `floor` are reclaimed as soon as no other branch shows them."""
    tidied: int = 0
    """The version that the last `optimize` made. The commits since then have left small fragments."""
    former: tuple[str, ...] = ()
    """Native branches that earlier commits of the branch show. A merge replaced them by the table of another branch."""

    @property
    def homes(self) -> tuple[str, ...]:
        """The directories of the native branches that the branch needs for its newest commit and for earlier ones."""
        return (self.ref.home, *(home(self.path, native) for native in self.former))

    def replaced_by(self, other: TableRow, *, branch: str | None) -> TableRow:
        """The table of another branch, shown in place of this one by the branch with the native name `branch`."""
        own = (self.native,) if self.owner == branch and self.native is not None else ()
        return msgspec.structs.replace(other, former=(*self.former, *own))

    @cached_property
    def ref(self) -> TableRef:
        return TableRef(self.path, self.native, self.version)


class Head(msgspec.Struct, frozen=True):
    """The current commit of a branch. Every publish rewrites this row, so two concurrent publishes on one branch conflict here."""

    commit: CommitId
    schema: SchemaHash
    committed_at: datetime
    epoch: int
    summed: int = 0
    """Commits that were written at this version or later record the checksum of every file that the branch shows."""


class TableChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The change of one table in a commit. None means that the table does not exist."""

    id: TableId
    alias: str
    before: int | None = None
    after: int | None = None


class Resolution(StrEnum):
    """The outcome of a write that its writer did not finish."""

    ROLLED_FORWARD = "rolled_forward"
    ROLLED_BACK = "rolled_back"
    DISCARDED = "discarded"


class Audit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The record of a recovered write: which one, how it ended, and who ended it.

    It is part of the publish that ends the write, so there is exactly one (W-45, G-13).
    """

    operation: OperationId
    outcome: Resolution
    writer: CommitKind
    actor: str | None = None
    tables: tuple[TableChange, ...] = ()
    by: str = RECOVERY_ACTOR


class Commit(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change of the graph. It created `manifest_version` on the native branch `native` (None is main)."""

    id: CommitId
    parents: tuple[CommitId, ...]
    branch: BranchName
    manifest_version: int
    created_at: datetime
    kind: CommitKind
    schema: SchemaHash
    native: str | None = None
    actor: str | None = None
    message: str | None = None
    token: str | None = None
    digest: str | None = None
    """A hash of what the write with this token was asked to do. Older commits, and writes that cannot be compared, have none."""
    tables: tuple[TableChange, ...] = ()
    counts: Mapping[str, int] = {}
    """The counts in the result of the write, stored for a retry with the same token."""
    audit: Audit | None = None
    checksums: Checksums = {}
    """The checksums of the files that the commit added, on a disk; of version files of the commit before it; and at times of all files
    that the branch shows.
    """
    blocks: Blocks = {}
    """Those of the blocks of larger files."""

    def __repr__(self) -> str:
        by = f" by {self.actor}" if self.actor is not None else ""
        said = f": {self.message!r}" if self.message is not None else ""
        return f"Commit({self.id} on {self.branch}, {self.kind}{by} at {self.created_at.isoformat(timespec='seconds')}{said})"


class TokenCommit(msgspec.Struct, frozen=True):
    """The commit of an idempotency token."""

    commit: CommitId


class SchemaText(msgspec.Struct, frozen=True):
    """An accepted schema: its source text, and its compiled form with stable ids. Both are opaque here; the hash identifies them."""

    source: str
    ir: str

    @property
    def hash(self) -> SchemaHash:
        return SchemaHash(content_hash(msgspec.json.encode(self)))


class State(msgspec.Struct, frozen=True):
    """The mutable state of one branch. A publish replaces it as a whole."""

    head: Head
    tables: Mapping[TableId, TableRow]

    def table(self, alias: str) -> TableRow | None:
        """Return the live table of that name, or None."""
        return next((row for row in self.tables.values() if row.alias == alias and not row.dropped), None)

    def table_of(self, type_id: TypeId) -> TableRow | None:
        """Return the live table of a type, or None. By id, because names can change."""
        return next((row for row in self.tables.values() if row.id.startswith(type_id) and not row.dropped), None)


def now() -> datetime:
    return datetime.now(UTC)


# -- rows


def state_rows(state: State, *, born: int) -> pa.Table:
    return _rows([(HEAD, state.head), *((TABLE + row.id, row) for row in state.tables.values())], born=born)


def fact_rows(
    commit: Commit | None, schemas: Iterable[SchemaText], *, copied: Iterable[Commit] = (), origins: Iterable[RowOrigin] = (), born: int
) -> pa.Table:
    """Return the rows that a publish adds: its commit, its idempotency token, new schemas, commits copied by a merge, and the origins of
    rewritten fragments.
    """
    items: list[tuple[str, msgspec.Struct]] = [(COMMIT + c.id, c) for c in (*([commit] if commit is not None else []), *copied)]
    if commit is not None and commit.token is not None:
        items.append((token_id(commit.native, commit.token), TokenCommit(commit.id)))
    return _rows([*items, *((SCHEMA + s.hash, s) for s in schemas), *((ORIGIN + origin.file, origin) for origin in origins)], born=born)


def token_id(native: str | None, token: str) -> str:
    """Return the row id of a token. A token belongs to one branch: the same call on a branch created later is another write."""
    return f"{TOKEN}{native or MAIN}:{token}"


def _rows(items: list[tuple[str, msgspec.Struct]], *, born: int) -> pa.Table:
    return pa.table(
        [
            pa.array([object_id for object_id, _ in items], pa.string()),
            pa.array([born] * len(items), pa.int64()),
            pa.array([sealed(msgspec.json.encode(item), of=_place(object_id, born)).decode() for object_id, item in items], pa.string()),
        ],
        schema=ROWS,
    )


def check_rows(rows: pa.Table) -> None:
    """Check the checksum of every row. Raises FormatError at the first that does not match."""
    for _ in _bodies(rows):
        pass


def read_state(rows: pa.Table) -> State:
    head: Head | None = None
    tables: dict[TableId, TableRow] = {}
    for object_id, body in _bodies(rows):
        if object_id == HEAD:
            head = _decode(body, Head, object_id)
        else:
            row = _decode(body, TableRow, object_id)
            tables[row.id] = row
    if head is None:
        raise FormatError(Kind.CORRUPT, "the newest fragment of __manifest contains no head row; check the graph with `omnigraph verify`")
    return State(head, tables)


def read_commits(rows: pa.Table) -> list[Commit]:
    return [_decode(body, Commit, object_id) for object_id, body in _bodies(rows)]


class _CommitSums(msgspec.Struct):
    checksums: Checksums = {}
    blocks: Blocks = {}


def read_checksums(rows: pa.Table) -> Iterator[tuple[Checksums, Blocks]]:
    """The checksums that commits recorded. The rest of them is not decoded."""
    for object_id, body in _bodies(rows):
        found = _decode(body, _CommitSums, object_id)
        yield found.checksums, found.blocks


def read_origins(rows: pa.Table) -> dict[str, RowOrigin]:
    found = (_decode(body, RowOrigin, object_id) for object_id, body in _bodies(rows))
    return {origin.file: origin for origin in found}


def read_receipt(rows: pa.Table) -> TokenCommit | None:
    return next((_decode(body, TokenCommit, object_id) for object_id, body in _bodies(rows)), None)


def read_schema(rows: pa.Table) -> SchemaText | None:
    return next((_decode(body, SchemaText, object_id) for object_id, body in _bodies(rows)), None)


def _bodies(rows: pa.Table) -> Iterator[tuple[str, str]]:
    """The id and the body of each row, if it matches its checksum. Rows of the first builds have none."""
    for object_id, born, body in zip(*(rows.column(name).to_pylist() for name in ROWS.names), strict=True):
        if not is_intact(body.encode(), of=_place(object_id, born)):
            raise FormatError(
                Kind.CORRUPT,
                f"row {object_id!r} of __manifest does not match its checksum: a byte of it changed after it was written; "
                "restore __manifest from a backup",
                object_id=object_id,
            )
        yield object_id, body


def _place(object_id: str, born: int) -> str:
    """The other columns of a row, which its checksum covers too."""
    return f"{object_id} {born} "


def _decode(body: str, struct: type[Any], object_id: str) -> Any:
    try:
        return msgspec.json.decode(body, type=struct)
    except msgspec.DecodeError as error:
        raise FormatError(
            Kind.CORRUPT,
            f"row {object_id!r} of __manifest cannot be decoded: {error}; check the graph with `omnigraph verify`",
            object_id=object_id,
        ) from error
