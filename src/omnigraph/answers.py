"""The values that methods of a graph return: receipts of writes, snapshots, recoveries, facts. All are immutable."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

import msgspec

from omnigraph.exec.load.mode import LoadMode
from omnigraph.grid import counted
from omnigraph.manifest.model import Commit, CommitKind, Resolution, TableChange

Mode = Literal["r", "rw"]


def _by(commit: Commit | None) -> str:
    return "no commit" if commit is None else f"commit {commit.id}"


class Receipt(msgspec.Struct, frozen=True):
    """The result of a mutation. `commit` is None if it matched nothing and wrote nothing."""

    affected_nodes: int
    affected_edges: int
    commit: Commit | None

    def __repr__(self) -> str:
        return f"Receipt({counted(self.affected_nodes, 'node')}, {counted(self.affected_edges, 'edge')}, {_by(self.commit)})"


class LoadReceipt(msgspec.Struct, frozen=True):
    """The result of a load: rows by type. `commit` is None for a dry run.

    `edges_without_id` counts the edges that a merge or an upsert added because their records have no id. The same load adds them again.
    """

    branch: str
    mode: LoadMode
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    total: int
    commit: Commit | None
    edges_without_id: int = 0

    def __repr__(self) -> str:
        loaded = ", ".join(f"{rows:,} {name}" for name, rows in {**self.nodes, **self.edges}.items()) or "nothing"
        return f"LoadReceipt({loaded} into {self.branch} by {self.mode}, {_by(self.commit)})"


class TransactionReceipt(msgspec.Struct, frozen=True):
    """The result of a transaction: how many entities it inserted, updated and deleted. `commit` is None if it changed nothing."""

    inserted: int
    updated: int
    deleted: int
    commit: Commit | None

    def __repr__(self) -> str:
        return f"TransactionReceipt({self.inserted} inserted, {self.updated} updated, {self.deleted} deleted, {_by(self.commit)})"


class TableState(msgspec.Struct, frozen=True):
    """One table of a snapshot. `native_branch` is the Lance branch that contains it; None is the main branch of the table."""

    kind: str
    type_name: str
    path: str
    version: int
    native_branch: str | None
    rows: int


class Snapshot(msgspec.Struct, frozen=True):
    """The tables of a branch at one commit. It never changes."""

    branch: str
    commit_id: str
    manifest_version: int
    tables: tuple[TableState, ...]

    def __repr__(self) -> str:
        rows = ", ".join(f"{table.rows:,} {table.type_name}" for table in self.tables)
        return f"Snapshot({self.branch} at {self.commit_id}: {rows})"

    def table(self, type_name: str, *, kind: str = "node") -> TableState | None:
        """Return the table of a type, or None. An edge type may have the same name as a node type, so `kind` selects one."""
        return next((table for table in self.tables if (table.kind, table.type_name) == (kind, type_name)), None)


class CommitGraph(msgspec.Struct, frozen=True):
    """The commits of some branches, each child before its parents, otherwise newest first; the heads of the branches, and the tags."""

    commits: tuple[Commit, ...]
    heads: Mapping[str, str]
    """Branch names and the ids of their newest commits."""
    tags: Mapping[str, str]
    """Tag names and the ids of their commits."""
    id_length: int
    """How many characters of an id name each of these commits."""

    def __repr__(self) -> str:
        return f"CommitGraph({counted(len(self.commits), 'commit')}, heads {', '.join(self.heads)})"


class Recovery(msgspec.Struct, frozen=True):
    """One interrupted write that was finished or undone later: its kind, its actor, and its outcome."""

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
