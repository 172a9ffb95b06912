"""The change of every touched type and the committed rows -> violations in the graph after the change.

All writers use it to check ids, `@unique`, endpoints and `@card`. It checks the final image, without rows that later ones replace.
Its cost is proportional to the change (V-16): committed rows are looked up by the keys of the change, and only a change that is large
relative to a table scans the table's key columns once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from omnigraph.catalog.model import Catalog, EdgeType, NodeType
from omnigraph.exec.problems import REPORTED
from omnigraph.exec.validate.cardinality import check_cardinality
from omnigraph.exec.validate.context import IntegrityContext
from omnigraph.exec.validate.delta import Added, Committed, CommittedTables, Delta, RowsInMemory
from omnigraph.exec.validate.endpoints import check_endpoints
from omnigraph.exec.validate.findings import Findings, merge_in_order
from omnigraph.exec.validate.identity import check_identity
from omnigraph.exec.validate.uniqueness import check_uniques

__all__ = ["BUDGET_BYTES", "Added", "Committed", "CommittedTables", "Delta", "RowsInMemory", "check_ids", "check_integrity"]

BUDGET_BYTES: Final = 512 << 20
"""How many bytes of key columns are held in memory. For more the checks take several passes."""
MOST_BYTES: Final = 1 << 30
"""An upper bound for the budget: keys are concatenated into arrays with 32-bit offsets."""


def check_integrity(
    deltas: Sequence[Delta], catalog: Catalog, committed: Committed, *, budget_bytes: int = BUDGET_BYTES, limit: int = REPORTED
) -> Findings:
    """Check ids, key conflicts, `@unique`, endpoints and `@card` of the graph after the change. `deltas` has one delta per type.

    Up to `limit` problems are described; all are counted. Rows are numbered in the order in which `added` reads them.
    """
    by_type = {delta.entity.id: _without_empty(delta) for delta in deltas}
    context = IntegrityContext(catalog, committed, by_type, min(budget_bytes, MOST_BYTES), limit)
    return merge_in_order(_all(context), limit=limit)


def check_ids(delta: Delta, catalog: Catalog, committed: Committed, *, budget_bytes: int = BUDGET_BYTES, limit: int = REPORTED) -> Findings:
    """Check only that no id occurs twice in the change of one type."""
    context = IntegrityContext(catalog, committed, {delta.entity.id: delta}, min(budget_bytes, MOST_BYTES), limit)
    return check_identity(context, delta)


def _without_empty(delta: Delta) -> Delta:
    added = None if delta.added is None or not delta.added.rows else delta.added
    deleted = None if delta.deleted is None or not len(delta.deleted) else delta.deleted
    return msgspec.structs.replace(delta, added=added, deleted=deleted)


def _all(context: IntegrityContext) -> Iterator[Findings]:
    for kind in (NodeType, EdgeType):
        for delta in context.deltas.values():
            if isinstance(delta.entity, kind):
                yield check_identity(context, delta)
                yield from check_uniques(context, delta)
    yield from check_endpoints(context)
    for delta in context.deltas.values():
        if isinstance(delta.entity, EdgeType):
            yield check_cardinality(context, delta)
