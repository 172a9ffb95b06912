"""Random loads, one after another, in every mode: the engine refuses and stores what brute force does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from omnigraph.catalog import Catalog
from omnigraph.catalog.model import EdgeType, EntityType, NodeType
from omnigraph.errors import OmniGraphError
from omnigraph.exec.load.mode import LoadMode
from omnigraph.graph import Graph
from tests.differential.seeds import LOADS, LOADS_PER_GRAPH
from tests.harness.brute import Data, write_lines
from tests.harness.brute.data import Row, shown_value
from tests.harness.brute.loads import load
from tests.harness.differential_changes import stored, told
from tests.harness.landing import land
from tests.harness.random.changes import with_unique_edge
from tests.harness.random.graphs import LARGE, random_graph

Keys = Mapping[str, tuple[str, ...]]


class Loads:
    """Makes records around rows that exist, so that they meet."""

    def __init__(self, rng: Random, catalog: Catalog, data: Data) -> None:
        self._rng = rng
        self._catalog = catalog
        self._data = data

    def lines(self) -> str:
        entities: tuple[EntityType, ...] = (*self._catalog.nodes, *self._catalog.edges)
        some = self._rng.sample(entities, min(len(entities), 2))
        records: dict[object, str] = {}
        for entity in self._rng.choices(some, k=self._rng.choice((1, 2, 4, 8))):
            record = self._record(entity)
            if record is not None:  # the same key is rarely twice in one load: all such loads are refused
                records[record[0] if self._rng.random() < 0.98 else len(records)] = record[1]
        return "\n".join(records.values())

    def _record(self, entity: EntityType) -> tuple[object, str] | None:
        row = self._row(entity)
        if row is None:
            return None
        names = [property_.name for property_ in entity.properties]
        key = entity.key.columns if isinstance(entity, NodeType) and entity.key is not None else ()
        named = {name for name in names if name in key or self._rng.random() < 0.6}
        other = self._row(entity) or row
        values = {
            name: self._shown(entity, name, row if name in key or self._rng.random() < 0.3 else other) for name in names if name in named
        }
        id_ = self._id(row) if not key else None
        data = {**({"id": id_} if id_ is not None else {}), **values}
        if isinstance(entity, NodeType):
            return (entity.name, row["id"]), json.dumps({"type": entity.name, "data": data})
        ends = {end: self._end(name, row[column]) for end, name, column in (("from", entity.source, "src"), ("to", entity.target, "dst"))}
        return (entity.name, id_ or (row["src"], row["dst"])), json.dumps({"edge": entity.name, **ends, "data": data})

    def _row(self, entity: EntityType) -> Row | None:
        """A row that exists, or an edge between nodes that do."""
        rows = self._data.rows(entity)
        if isinstance(entity, EdgeType) and (not rows or self._rng.random() < 0.3):
            sources, targets = self._data.nodes[entity.source], self._data.nodes[entity.target]
            if not sources or not targets:
                return None
            ends = {"src": self._rng.choice(sources)["id"], "dst": self._rng.choice(targets)["id"]}
            return {"id": f"new{self._rng.randrange(10)}", **ends, **{property_.name: None for property_ in entity.properties}}
        return self._rng.choice(rows) if rows else None

    def _id(self, row: Row) -> str | None:
        chance = self._rng.random()
        return str(row["id"]) if chance < 0.55 else f"new{self._rng.randrange(10)}" if chance < 0.7 else None

    def _end(self, node_name: str, id_: object) -> object:
        """The id of a node, or its key as it is."""
        node = self._catalog.node(node_name)
        row = next((row for row in self._data.nodes[node_name] if row["id"] == id_), None)
        if node is None or node.key is None or row is None or self._rng.random() < 0.6:
            return id_
        parts = {name: self._shown(node, name, row) for name in node.key.in_declared_order}
        if len(parts) == 1:
            return id_ if isinstance(value := next(iter(parts.values())), str) else value
        return parts if self._rng.random() < 0.5 else list(parts.values())

    def _shown(self, entity: EntityType, name: str, row: Row) -> Any:
        property_ = entity.property(name)
        assert property_ is not None
        return shown_value(row[name], property_.type)


def outcome_of_brute(lines: str, mode: LoadMode, catalog: Catalog, data: Data) -> Data | None:
    keys: Keys = {node.name: node.key.in_declared_order for node in catalog.nodes if node.key is not None}
    try:
        return load(lines, mode, catalog=catalog, data=data, keys=keys)[0]
    except OmniGraphError:
        return None


def outcome_of_engine(lines: str, mode: LoadMode, graph: Graph) -> bool:
    try:
        graph.load(lines.encode(), mode)
    except OmniGraphError:
        return False
    return True


@pytest.mark.parametrize("seed", LOADS)
def test_the_engine_loads_what_brute_force_does(seed: int, tmp_path: Path) -> None:
    """L2-30, L2-31, L2-32."""
    schema, catalog, data = with_unique_edge(random_graph(seed + seed // (LARGE - 1)))
    graph = land(tmp_path / "graph", schema, data)
    if seed % 2:
        graph.ensure_indices()
    outcomes: Counter[tuple[LoadMode, bool]] = Counter()
    for number in range(LOADS_PER_GRAPH):
        rng = Random(f"load {seed} {number}")
        mode = rng.choice((*LoadMode, LoadMode.UPSERT, LoadMode.UPSERT, LoadMode.MERGE))
        lines = Loads(rng, catalog, data).lines()
        after = outcome_of_brute(lines, mode, catalog, data)
        shown = f"seed {seed}, load {number}, {mode}\n{schema}\n{write_lines(data, catalog)}\n\n{lines}"
        assert outcome_of_engine(lines, mode, graph) is (after is not None), shown
        found = stored(graph, catalog)
        assert told(found, catalog) == told(data if after is None else after, catalog), shown
        outcomes[mode, after is not None] += 1
        data = found
    assert sum(count for (mode, landed), count in outcomes.items() if landed and mode.replaces) >= LOADS_PER_GRAPH // 8, outcomes
