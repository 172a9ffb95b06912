"""Random mutations, one after another: the engine refuses, counts and stores what brute force does."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, OmniGraphError
from omnigraph.graph import Graph
from tests.differential.seeds import CHANGES, MUTATIONS
from tests.harness.brute import Data, TooManyRows, change, read_lines, write_lines
from tests.harness.landing import land
from tests.harness.random.changes import RandomChange, random_change, with_unique_edge
from tests.harness.random.graphs import LARGE, random_graph

NOW_MS = 1_790_000_000_000
STEPS = 30_000
ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def told(data: Data, catalog: Catalog) -> Counter[str]:
    """The rows as lines; ids that were made up are all alike."""
    lines = filter(None, write_lines(data, catalog).split("\n"))
    return Counter(ULID.sub("<ulid>", json.dumps(json.loads(line), sort_keys=True)) for line in lines)


def stored(graph: Graph, catalog: Catalog) -> Data:
    return read_lines("\n".join(graph.export()), catalog)


def outcome_of_brute(made: RandomChange, catalog: Catalog, data: Data) -> tuple[object, Data]:
    """What it counts and what is there afterwards, or how it is refused."""
    try:
        changed = change(made.text, made.params, catalog=catalog, data=data, now_ms=NOW_MS, steps=STEPS)
    except OmniGraphError as error:
        return error.kind, data
    return (changed.nodes, changed.edges, changed.committed), changed.data


def outcome_of_engine(made: RandomChange, graph: Graph) -> object:
    try:
        receipt = graph.mutate(made.text, params=made.params)
    except OmniGraphError as error:
        return error.kind
    return receipt.affected_nodes, receipt.affected_edges, receipt.commit is not None


@pytest.mark.parametrize("seed", CHANGES)
def test_the_engine_changes_what_brute_force_does(seed: int, tmp_path: Path) -> None:
    schema, catalog, data = with_unique_edge(random_graph(seed + seed // (LARGE - 1)))
    graph = land(tmp_path / "graph", schema, data)
    if seed % 2:
        graph.ensure_indices()
    refused: Counter[Kind] = Counter()
    for number in range(MUTATIONS):
        made = random_change(Random(f"change {seed} {number}"), catalog, data)
        try:
            expected, after = outcome_of_brute(made, catalog, data)
        except TooManyRows:
            continue
        actual = outcome_of_engine(made, graph)
        found = stored(graph, catalog)
        shown = f"seed {seed}, mutation {number}\n{schema}\n{write_lines(data, catalog)}\n{made.text}\n{made.params}"
        assert actual == expected, shown
        assert told(found, catalog) == told(after, catalog), shown
        refused.update([expected] if isinstance(expected, Kind) else [])
        data = found  # with the ids that the engine made up
    assert refused.total() < 0.5 * MUTATIONS
