"""What the engine returns -> the documents that `--json` prints: names and units that programs rely on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from omnigraph.ids import MAIN

if TYPE_CHECKING:
    from omnigraph.graph import Recovery
    from omnigraph.manifest.model import Commit, TableRow
    from omnigraph.manifest.read import Snapshot

Document = dict[str, object]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Since 1970, exactly: a float would lose some."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def commit_document(commit: Commit) -> Document:
    """`graph_branch` is null on main."""
    first, merged = (*commit.parents, None, None)[:2]
    return {
        "graph_commit_id": commit.id,
        "graph_branch": None if commit.branch == MAIN else commit.branch,
        "graph_manifest_version": commit.manifest_version,
        "parent_commit_id": first,
        "merged_parent_commit_id": merged,
        "actor_id": commit.actor,
        "created_at": microseconds(commit.created_at),
    }


def snapshot_document(snapshot: Snapshot, *, format_number: int) -> Document:
    live = sorted((row for row in snapshot.state.tables.values() if not row.dropped), key=lambda row: row.alias)
    return {
        "graph_branch": snapshot.branch.name,
        "graph_manifest_version": snapshot.version,
        "internal_schema_version": format_number,
        "datasets": [_dataset(row) for row in live],
    }


def _dataset(row: TableRow) -> Document:
    kind, _, name = row.alias.partition(":")
    return {
        "entity_kind": kind,
        "type_name": name,
        "dataset_path": row.path,
        "published_dataset_version": row.version,
        "native_dataset_branch": row.native,
        "entity_count": row.rows,
    }


def recovery_document(recovery: Recovery) -> Document:
    audit = recovery.audit
    return {
        "operation_id": audit.operation,
        "outcome": audit.outcome.value,
        "writer": audit.writer.value,
        "actor_id": audit.actor,
        "recovered_by": audit.by,
        "graph_branch": recovery.branch,
        "graph_commit_id": recovery.commit,
        "created_at": microseconds(recovery.at),
        "datasets": [{"type_key": table.alias, "before": table.before, "after": table.after} for table in audit.tables],
    }
