"""A match of a mutation, a snapshot and the changes so far -> for each change, the combinations of variables to apply it for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from omnigraph.errors import Kind, ResourceLimitExceeded
from omnigraph.exec.engine import Engine
from omnigraph.exec.read.aggregate import MERGE_ROWS, Merged
from omnigraph.exec.read.encoding import encoded
from omnigraph.exec.read.rows import Cells, ColumnKey
from omnigraph.exec.read.run import MEMORY_BYTES, stream
from omnigraph.exec.read.view import PendingView, View
from omnigraph.exec.read.watch import Watch
from omnigraph.exec.write.assignment import ONCE, Driving
from omnigraph.exec.write.image import Image
from omnigraph.ids import TypeId
from omnigraph.manifest.read import BranchSnapshot
from omnigraph.plan.planner import plan_logical
from omnigraph.plan.touched import matched_types
from omnigraph.plan.writes import Change, MatchedChange, MatchedChanges, fields_of_change
from omnigraph.store.tables import Table, table_in_memory


def combinations(
    engine: Engine, statement: MatchedChanges, snapshot: BranchSnapshot, images: Mapping[TypeId, Image]
) -> Iterator[tuple[Change, Driving]]:
    """Run the match once. Yields the changes that have a combination, in order."""
    places = {(field.binding, field.column): at for at, field in enumerate(statement.fields)}
    wanted = [_Combinations(change, places) for change in statement.changes]
    for cells in _rows(engine, statement, snapshot, images):
        for each in wanted:
            each.add(cells)
    for each in wanted:
        if (driving := each.driving()) is not None:
            yield each.change, driving


def _rows(engine: Engine, statement: MatchedChanges, snapshot: BranchSnapshot, images: Mapping[TypeId, Image]) -> Iterator[Cells]:
    catalog = engine.catalog(snapshot)
    types = {entity.id for entity in matched_types(statement.match.variables, statement.match.block, catalog)}
    changed = {type_: image for type_, image in images.items() if type_ in types and image.is_changed}
    view: View = engine.view(snapshot)
    if changed:
        view = PendingView(view, {type_: _held(image) for type_, image in changed.items()})
    statistics = engine.surveyor.statistics(
        snapshot, catalog, types=types, availability=view.availability, spent_ms=view.spent_ms, known=view.known_edges
    )
    return stream(plan_logical(statement.read, statistics), view, watch=Watch())


def _held(image: Image) -> Table:
    """The rows of a type with the changes so far, in memory. A match reads no blobs."""
    columns = [name for name in image.schema.names if name not in image.blobs]
    return table_in_memory(image.table.root, image.table.scan(columns, overlay=image.overlay).read_all())


class _Combinations:
    """The distinct combinations of the variables that one change uses, with the columns that it reads."""

    def __init__(self, matched: MatchedChange, places: Mapping[ColumnKey, int]) -> None:
        self.change = matched.change
        self._keys = list(dict.fromkeys((field.binding, field.column) for field in (*fields_of_change(matched.change), *matched.identity)))
        self._keys = [key for key in self._keys if key in places]
        self._at = [places[key] for key in self._keys]
        self._identity = [_name(self._keys.index((field.binding, field.column))) for field in matched.identity]
        self._held = Merged(self._distinct, MERGE_ROWS)
        self._met = False

    def add(self, cells: Cells) -> None:
        self._met = True
        if not self._identity:
            return
        self._held.add(pa.table({_name(key): cells.columns[at] for key, at in enumerate(self._at)}))
        if self._held.nbytes > MEMORY_BYTES:
            raise ResourceLimitExceeded(
                Kind.RESOURCE_LIMIT,
                f"the rows to change need more than the {MEMORY_BYTES} bytes that a query may hold; narrow the match",
                resource="query memory in bytes",
                limit=MEMORY_BYTES,
                actual=self._held.nbytes,
            )

    def driving(self) -> Driving | None:
        if not self._met:
            return None
        if not self._identity:
            return ONCE
        rows = self._held.table()
        return Driving(len(rows), dict(zip(self._keys, rows.columns, strict=True)))

    def _distinct(self, rows: pa.Table) -> pa.Table:
        """The first row of each combination. The other columns depend on it."""
        places = pa.array(np.arange(len(rows)))
        keys = pa.table({**{name: encoded(rows.column(name)) for name in self._identity}, "place": places})
        first = keys.group_by(self._identity, use_threads=False).aggregate([("place", "min")]).column("place_min")
        return rows if len(first) == len(rows) else rows.take(first)


def _name(at: int) -> str:
    return str(at)
