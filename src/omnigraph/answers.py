"""What a graph answers with: plain values about writes, snapshots, recoveries and itself. They never change."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from omnigraph.exec.load.mode import LoadMode
from omnigraph.manifest.model import Commit, CommitKind, Resolution, TableChange

Mode = Literal["r", "rw"]


class Receipt(msgspec.Struct, frozen=True):
    """What a mutation did. No commit: it matched nothing, and nothing was written."""

    affected_nodes: int
    affected_edges: int
    commit: Commit | None


class LoadReceipt(msgspec.Struct, frozen=True):
    """What a load brought: rows by type. No commit: it was a dry run."""

    branch: str
    mode: LoadMode
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    total: int
    commit: Commit | None


class TableState(msgspec.Struct, frozen=True):
    """One table as a branch shows it. `native_branch` is the Lance branch that holds it; None is the table's own trunk."""

    kind: str
    type_name: str
    path: str
    version: int
    native_branch: str | None
    rows: int


class Snapshot(msgspec.Struct, frozen=True):
    """What a branch shows at one moment of its history. It never changes."""

    branch: str
    commit_id: str
    manifest_version: int
    tables: tuple[TableState, ...]

    def table(self, type_name: str, *, kind: str = "node") -> TableState | None:
        """The table of a type; an edge type may share its name with a node type, so the kind is part of the question."""
        return next((table for table in self.tables if (table.kind, table.type_name) == (kind, type_name)), None)


class Recovery(msgspec.Struct, frozen=True):
    """One interrupted write that somebody finished or undid: what it was, whose, and what became of it."""

    operation_id: str
    outcome: Resolution
    writer: CommitKind
    actor: str | None
    branch: str
    at: datetime
    tables: tuple[TableChange, ...]
    commit_id: str
    recovered_by: str


class Info(msgspec.Struct, frozen=True):
    """Facts about an open graph."""

    uri: str
    graph_id: str
    format: int
    mode: Mode
    fsync: bool
    branches: int
    commits: int
    tables: Mapping[str, int]
    python: str
