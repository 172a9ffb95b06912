"""A table of many small fragments -> a staged compaction, whose commit moves HEAD by a chain of two versions."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from lance.optimize import Compaction

from omnigraph.errors import ConflictError, Kind, OmniGraphError, Outcome
from omnigraph.faults import Fault, reach
from omnigraph.store.durable import NewFile, settle, settle_visible, version_file
from omnigraph.store.failure import lance_error, raised_by_lance
from omnigraph.store.process import refuse_forked_child
from omnigraph.store.tables import Table, open_dataset

CHAIN: Final = 2
"""How many versions a compaction adds: it reserves fragment ids, then rewrites. Lance chooses their uuids."""


class StagedCompaction(msgspec.Struct, frozen=True):
    """Rewritten files that are not committed, and the version they were made from."""

    table: Table
    rewrites: tuple[Any, ...]
    fragments_before: int
    fragments_after: int


def stage_compaction(table: Table, *, target_rows: int = 1_048_576) -> StagedCompaction | None:
    """Rewrites small fragments into large ones. Returns None if there is nothing to compact."""
    try:
        plan = Compaction.plan(table.dataset, options={"target_rows_per_fragment": target_rows})
        inherited = _inherited(table.dataset)
        tasks = [task for task in plan.tasks if inherited.isdisjoint(fragment.id for fragment in task.fragments)]
        rewrites = tuple(task.execute(table.dataset) for task in tasks)
    except raised_by_lance() as error:
        raise table.failed(error, doing="compact") from error
    if not rewrites:
        return None
    removed = sum(rewrite.metrics.fragments_removed for rewrite in rewrites)
    added = sum(rewrite.metrics.fragments_added for rewrite in rewrites)
    return StagedCompaction(table, rewrites, removed, added)


def _inherited(dataset: Any) -> set[int]:
    """Fragments covered by an index whose files are in a parent branch. They must not be rewritten.

    If one is rewritten, Lance writes the updated index into the branch but still looks for it in the parent. Every later query with
    that index then fails.
    """
    return {
        int(fragment)
        for index in dataset.describe_indices()
        for segment in index.segments
        if segment.base_id is not None
        for fragment in segment.fragment_ids
    }


def commit_compaction(staged: StagedCompaction) -> Table:
    """Moves HEAD along the chain, and verifies by the data files that no other commit came between."""
    refuse_forked_child()
    table, ref = staged.table, staged.table.ref
    if table.head() != ref.version:
        moved = f"{ref.path} moved past version {ref.version} while it was compacted; retry"
        raise ConflictError(Kind.READ_SET_CHANGED, moved, table=ref.path, expected=ref.version)
    home = ref.home
    settle(table.root, [NewFile(f"{home}/{path}", size) for path, size in _new_data_files(staged).items()])
    handle = open_dataset(table.root, ref)  # a separate handle, because Compaction.commit advances the handle it is given
    reach(Fault.STAGE_BEFORE_COMMIT)
    try:
        Compaction.commit(handle, list(staged.rewrites))
    except raised_by_lance() as error:
        # The first of the two commits may have succeeded. Only an unmoved HEAD on a disk proves that none did.
        still = table.root.is_local and table.head() == ref.version
        outcome = Outcome.DID_NOT_HAPPEN if still else Outcome.UNKNOWN
        raise lance_error(error, doing="commit the compaction of", path=table.root.of(ref.home), outcome=outcome) from error
    reach(Fault.STAGE_AFTER_COMMIT)
    after = ref.at(handle.version)
    if handle.version != ref.version + CHAIN or _data_files(handle) != _expected(staged):
        drift = f"the compaction of {ref.path} from version {ref.version} ended at version {handle.version} with files of another writer"
        raise OmniGraphError(Kind.DRIFT, drift, table=ref.path, expected=ref.version + CHAIN, actual=handle.version)
    versions = [version_file(version) for version in range(ref.version + 1, handle.version + 1)]
    settle_visible(table.root, [f"{home}/{file}" for file in (*_new_index_files(staged, handle), *versions)])
    return Table(table.root, after, open_dataset(table.root, after))


def _expected(staged: StagedCompaction) -> set[str]:
    """The data files of the base, without the rewritten ones, with the new ones. The names of the new files are unique.

    The transactions cannot be compared instead, because pylance cannot read back a rewrite that updated an index.
    """
    rewritten = {file for rewrite in staged.rewrites for file, _ in _named(rewrite, "original_fragments")}
    return (_data_files(staged.table.dataset) - rewritten) | set(_new_data_files(staged))


def _data_files(dataset: Any) -> set[str]:
    return {f"data/{file.path}" for fragment in dataset.get_fragments() for file in fragment.metadata.files}


def _new_data_files(staged: StagedCompaction) -> dict[str, int | None]:
    """The data files of the rewritten rows, with their sizes."""
    return dict(file for rewrite in staged.rewrites for file in _named(rewrite, "new_fragments"))


def _named(rewrite: Any, side: str) -> list[tuple[str, int | None]]:
    fragments = json.loads(rewrite.json())[side]
    return [(f"data/{file['path']}", file.get("file_size_bytes")) for fragment in fragments for file in fragment["files"]]


def _new_index_files(staged: StagedCompaction, after: Any) -> list[str]:
    """The files of indexes that Lance rewrote, because the rows they cover have new addresses."""
    root, home = staged.table.root, staged.table.ref.home
    new = _segments(after) - _segments(staged.table.dataset)
    return [file.removeprefix(f"{home}/") for uuid in sorted(new) for file in root.objects.list(f"{home}/_indices/{uuid}")]


def _segments(dataset: Any) -> set[str]:
    return {str(segment.uuid) for index in dataset.describe_indices() for segment in index.segments}
