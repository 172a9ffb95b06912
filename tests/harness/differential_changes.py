"""Seeds -> random graphs and mutations, made by the engine and by brute force, and the first one on which the two disagree."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, OmniGraphError
from omnigraph.graph import Graph
from tests.harness.brute import Data, TooManyRows, change, read_lines, write_lines
from tests.harness.landing import land
from tests.harness.random.changes import RandomChange, random_change, with_unique_edge
from tests.harness.random.graphs import LARGE, random_graph

MUTATIONS: Final = 25
"""How many a graph of its own is changed by."""
NOW_MS: Final = 1_790_000_000_000
STEPS: Final = 30_000
ULID: Final = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


class ChangeReport(msgspec.Struct, frozen=True):
    """What a seed came to: how many mutations brute force refuses, and the first that the engine got wrong."""

    refused: int
    failure: str | None


def check_changes(seed: int, folder: Path) -> ChangeReport:
    """Change a graph by one mutation after another, until one is made differently."""
    schema, catalog, data = with_unique_edge(random_graph(seed + seed // (LARGE - 1)))
    graph = land(folder, schema, data)
    if seed % 2:
        graph.ensure_indices()
    refused = 0
    for number in range(MUTATIONS):
        made = random_change(Random(f"change {seed} {number}"), catalog, data)
        try:
            expected, after = _outcome_of_brute(made, catalog, data)
        except TooManyRows:
            continue
        actual = _outcome_of_engine(made, graph)
        found = stored(graph, catalog)
        wanted, there = told(after, catalog), told(found, catalog)
        if actual != expected or there != wanted:
            shown = f"{schema}\n{write_lines(data, catalog)}\n{made.text}\n{made.params}"
            missing, surplus = wanted - there, there - wanted
            difference = f"expected {expected}, got {actual}; missing {sorted(missing)}, surplus {sorted(surplus)}"
            return ChangeReport(refused, f"seed {seed}, mutation {number}\n{shown}\n{difference}")
        refused += isinstance(expected, Kind)
        data = found  # with the ids that the engine made up
    return ChangeReport(refused, None)


def stored(graph: Graph, catalog: Catalog) -> Data:
    return read_lines("\n".join(graph.export()), catalog)


def told(data: Data, catalog: Catalog) -> Counter[str]:
    """The rows as lines; ids that were made up are all alike."""
    lines = filter(None, write_lines(data, catalog).split("\n"))
    return Counter(ULID.sub("<ulid>", json.dumps(json.loads(line), sort_keys=True)) for line in lines)


def _outcome_of_brute(made: RandomChange, catalog: Catalog, data: Data) -> tuple[object, Data]:
    """What it counts and what is there afterwards, or how it is refused."""
    try:
        changed = change(made.text, made.params, catalog=catalog, data=data, now_ms=NOW_MS, steps=STEPS)
    except OmniGraphError as error:
        return error.kind, data
    return (changed.nodes, changed.edges, changed.committed), changed.data


def _outcome_of_engine(made: RandomChange, graph: Graph) -> object:
    try:
        receipt = graph.mutate(made.text, params=made.params)
    except OmniGraphError as error:
        return error.kind
    return receipt.affected_nodes, receipt.affected_edges, receipt.commit is not None
