"""Values of the engine -> the documents that `--json` prints. Programs rely on their names and units."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from omnigraph.grid import counted
from omnigraph.ids import MAIN

if TYPE_CHECKING:
    from omnigraph.exec.history.changes import EntityChange, EntityImage
    from omnigraph.exec.history.conflicts import Conflict
    from omnigraph.exec.upkeep.embeddings import Embeddings
    from omnigraph.exec.upkeep.indices import Indexes
    from omnigraph.exec.upkeep.optimize import Optimized
    from omnigraph.exec.upkeep.repair import RepairReport
    from omnigraph.exec.upkeep.verify import Finding
    from omnigraph.graph import Recovery, Snapshot, TableState, Tag
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


def described_commit(commit: Commit) -> Document:
    """Return the document of a commit with its kind, its message and its counts."""
    return {**commit_document(commit), "kind": commit.kind.value, "message": commit.message, "counts": dict(commit.counts)}


def counts_text(counts: Mapping[str, int]) -> str:
    """Return what a commit changed, in words: `1 node`, `3 Person, 2 Knows`, `2 inserted`. Zeros are left out."""
    nouns = {"affected_nodes": "node", "affected_edges": "edge"}
    some = [(name, count) for name, count in counts.items() if count and name != "edges_without_id"]
    return ", ".join(
        counted(count, nouns[name]) if name in nouns else f"{count:,} {name.rpartition(':')[2].replace('_', ' ')}" for name, count in some
    )


def tag_document(tag: Tag) -> Document:
    """Return the document of a tag. `graph_branch` is the branch that made the commit, null for main."""
    return {
        "name": tag.name,
        "graph_commit_id": tag.commit_id,
        "graph_branch": None if tag.branch == MAIN else tag.branch,
        "actor_id": tag.actor,
        "created_at": microseconds(tag.created_at),
        "message": tag.message,
    }


def cause_document(commit: Commit) -> Document:
    """Return the document of a commit as the cause of changes. Members that do not apply are left out."""
    first, merged = (*commit.parents, None, None)[:2]
    cause: Document = {
        "graph_commit_id": commit.id,
        "parent_commit_id": first,
        "merged_parent_commit_id": merged,
        "authored_branch": commit.branch,
        "actor_id": commit.actor,
        "authored_at": microseconds(commit.created_at),
    }
    return {name: value for name, value in cause.items() if value is not None}


def change_document(change: EntityChange) -> Document:
    """Return the document of one change: an insert has only `after`, a delete only `before`."""
    images = {name: image_document(image) for name, image in (("before", change.before), ("after", change.after)) if image is not None}
    type_ = {"id": change.type_id, "name": change.type_name}
    return {"kind": str(change.kind), "type": type_, "id": change.id, "op": str(change.op), **images}


def image_document(image: EntityImage) -> Document:
    ends = image.endpoints
    return {"properties": dict(image.properties), **({"endpoints": {"from": ends.from_, "to": ends.to}} if ends is not None else {})}


def conflict_document(conflict: Conflict) -> Document:
    """Return the document of a conflict. Sides on which the entity does not exist are null."""
    images = {"base": conflict.base, "ours": conflict.ours, "theirs": conflict.theirs}
    return {
        "kind": str(conflict.kind),
        "entity_kind": str(conflict.entity_kind),
        "type_name": conflict.type_name,
        "id": conflict.id,
        "properties": list(conflict.properties),
        "message": conflict.message,
        **{name: image_document(image) if image is not None else None for name, image in images.items()},
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


def optimized_document(found: Optimized) -> Document:
    changed = {change.alias for change in found.commit.tables} if found.commit is not None else set()
    return {
        "graph_branch": found.branch,
        "datasets": [
            {
                "type_key": table.table,
                "fragments_removed": table.fragments_removed,
                "fragments_added": table.fragments_added,
                "entities_rewritten": table.rows_rewritten,
                "indexes_built": sum(index.state == "built" for index in table.indexes),
                "committed": table.table in changed,
                "skipped": table.state.value if table.state in ("inherited", "needs_repair") else None,
                "published_dataset_version": table.version,
                "lance_head_version": table.head,
                "pending_indexes": [
                    {"property": index.column, "reason": index.reason.value if index.reason is not None else None}
                    for index in table.pending
                ],
            }
            for table in found.tables
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


def finding_document(finding: Finding) -> Document:
    return {
        "severity": finding.severity.value,
        "code": finding.code,
        "message": finding.message,
        "where": finding.where,
        "remedy": finding.remedy or None,
        "path": finding.path or None,
        "tables": list(finding.tables),
        "branches": list(finding.branches),
        "commits": list(finding.commits),
    }


def repair_document(found: RepairReport) -> Document:
    return {
        "branch": found.branch,
        "confirm": found.confirm,
        "force": found.force,
        "graph_manifest_version": found.commit.manifest_version if found.commit is not None else None,
        "datasets": [
            {
                "type_key": table.table,
                "published_dataset_version": table.published_version,
                "lance_head_version": table.head_version,
                "classification": table.classification.value,
                "action": table.action.value,
                "operations": list(table.operations),
                "indexes": list(table.indexes),
                "error": table.error,
            }
            for table in found.tables
        ],
        "lost": [finding_document(finding) for finding in found.lost],
    }
