"""Values of the engine -> the documents that `--json` prints. Programs rely on their names and units."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from omnigraph.ids import MAIN

if TYPE_CHECKING:
    from omnigraph.exec.upkeep.embeddings import Embeddings
    from omnigraph.exec.upkeep.indices import Indexes
    from omnigraph.graph import Recovery, Snapshot, TableState
    from omnigraph.manifest.model import Commit

Document = dict[str, object]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(moment: datetime) -> int:
    """Return the microseconds since 1970. Integer arithmetic is exact; a float is not."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def commit_document(commit: Commit) -> Document:
    """Return the document of a commit. `graph_branch` is null on main."""
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
    return {
        "graph_branch": snapshot.branch,
        "graph_manifest_version": snapshot.manifest_version,
        "internal_schema_version": format_number,
        "datasets": [_dataset(table) for table in snapshot.tables],
    }


def _dataset(table: TableState) -> Document:
    return {
        "entity_kind": table.kind,
        "type_name": table.type_name,
        "dataset_path": table.path,
        "published_dataset_version": table.version,
        "native_dataset_branch": table.native_branch,
        "entity_count": table.rows,
    }


def recovery_document(recovery: Recovery) -> Document:
    return {
        "operation_id": recovery.operation_id,
        "outcome": recovery.outcome.value,
        "writer": recovery.writer.value,
        "actor_id": recovery.actor,
        "recovered_by": recovery.recovered_by,
        "graph_branch": recovery.branch,
        "graph_commit_id": recovery.commit_id,
        "created_at": microseconds(recovery.at),
        "datasets": [{"type_key": table.alias, "before": table.before, "after": table.after} for table in recovery.tables],
    }


def indexes_document(found: Indexes) -> Document:
    return {
        "graph_branch": found.branch,
        "built": len(found.built),
        "present": len(found.present),
        "pending": len(found.pending),
        "indexes": [
            {
                "type_key": index.table,
                "property": index.column,
                "kind": index.kind.value,
                "state": index.state.value,
                "reason": index.reason.value if index.reason is not None else None,
                "uncovered_entities": index.uncovered_rows,
                "damage": index.damage,
            }
            for index in found.indexes
        ],
        "commit": commit_document(found.commit) if found.commit is not None else None,
    }


def embeddings_document(found: Embeddings) -> Document:
    return {
        "graph_branch": found.branch,
        "embedded": found.embedded,
        "pending": found.pending,
        "properties": [
            {
                "type_key": each.table,
                "property": each.property,
                "model": each.model,
                "embedded": each.embedded,
                "pending": each.pending,
                "without_text": each.without_text,
            }
            for each in found.properties
        ],
        "commit": commit_document(found.commit) if found.commit is not None else None,
    }
