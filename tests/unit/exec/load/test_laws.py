"""Laws of loading: an export loaded again is the same graph; how a load is split does not matter; a bad one changes nothing."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from omnigraph.store.root import FSYNC_ENVIRONMENT

SCHEMA = """
node Item {
  code: String @key
  count: I32?   big: U64?   ratio: F32?   exact: F64?   on: Bool?   day: Date?   at: DateTime?
  size: enum(small, large)?   tags: [String]?   marks: [I64]?   vec: Vector(2)?   body: Blob?   nick: String? @unique
  @range(count, -1000..1000)
}
node Pair { a: String  n: I32  @key(a, n) }
node Loose { text: String? }
edge Links: Item -> Item @card(0..6) { weight: F64?  @unique(weight) }
edge Holds: Item -> Pair
"""

Record = dict[str, Any]

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
floats32 = st.floats(width=32, allow_nan=False, allow_infinity=False)
floats64 = st.floats(allow_nan=False, allow_infinity=False)
millis = st.integers(-(2**40), 2**41)


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


items = st.fixed_dictionaries(
    {"code": words},
    optional={
        "count": optional(st.integers(-1000, 1000)),
        "big": optional(st.integers(0, 2**64 - 1)),
        "ratio": optional(floats32),
        "exact": optional(floats64),
        "on": optional(st.booleans()),
        "day": optional(st.integers(-100_000, 100_000)),
        "at": optional(millis),
        "size": optional(st.sampled_from(["small", "large"])),
        "tags": optional(st.lists(words, max_size=3)),
        "marks": optional(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
        "vec": optional(st.lists(floats32, min_size=2, max_size=2)),
        "body": optional(st.sampled_from(["base64:", "base64:cmVlbA==", "base64:AAEC"])),
    },
)


@st.composite
def graphs(draw: st.DrawFn) -> list[Record]:
    """The records of a sound graph, each with an id, so that two loads of it are equal in every bit."""
    found = draw(st.lists(items, unique_by=lambda item: item["code"], min_size=1, max_size=8))
    for n, item in enumerate(found):
        if draw(st.booleans()):
            item["nick"] = f"nick {n}"
    pairs = draw(st.lists(st.tuples(words, st.integers(-5, 5)), unique=True, max_size=4))
    records: list[Record] = [{"type": "Item", "data": item} for item in found]
    records += [{"type": "Pair", "data": {"a": a, "n": n}} for a, n in pairs]
    records += [
        {"type": "Loose", "data": {"id": f"loose-{n}", "text": text}} for n, text in enumerate(draw(st.lists(optional(words), max_size=3)))
    ]
    codes = st.sampled_from([item["code"] for item in found])
    for n, (source, target) in enumerate(draw(st.lists(st.tuples(codes, codes), max_size=6))):
        records.append({"edge": "Links", "from": source, "to": target, "data": {"id": f"link-{n}", "weight": n / 8}})
    if pairs:
        ids = st.sampled_from([json.dumps([a, str(n)], ensure_ascii=False, separators=(",", ":")) for a, n in pairs])
        for n, (source, target) in enumerate(draw(st.lists(st.tuples(codes, ids), max_size=3))):
            records.append({"edge": "Holds", "from": source, "to": target, "data": {"id": f"hold-{n}"}})
    return records


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


@pytest.fixture(scope="module")
def places() -> Iterator[Iterator[Path]]:
    """Fresh folders, as many as an example asks for."""
    with tempfile.TemporaryDirectory() as folder:
        yield (Path(folder) / str(n) for n in range(10**6))


def made(place: Path) -> Graph:
    return og.init(place, schema=SCHEMA)


def exported(graph: Graph) -> list[str]:
    return list(graph.export())


def edges_last(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: "edge" in record)


@given(records=graphs(), chance=st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_an_export_loaded_again_is_the_same_graph(places: Iterator[Path], records: list[Record], chance: random.Random) -> None:
    """load(export(g)) == g, whatever the order of the records was."""
    chance.shuffle(records)
    first, second = made(next(places)), made(next(places))
    first.load(iter(records), mode="append")
    lines = exported(first)
    assert len(lines) == len(records)
    second.load(iter(lines), mode="overwrite")
    assert exported(second) == lines
    assert second.verify() == []


@given(records=graphs(), cuts=st.lists(st.integers(0, 30), max_size=4), chance=st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_how_a_load_is_split_does_not_matter(places: Iterator[Path], records: list[Record], cuts: list[int], chance: random.Random) -> None:
    """One batch, or nodes and then edges in any split, with merge: records have distinct keys, so the graph is the same."""
    whole, split = made(next(places)), made(next(places))
    whole.load(iter(records), mode="merge")
    chance.shuffle(records)
    ordered = edges_last(records)
    bounds = [0, *sorted(min(cut, len(ordered)) for cut in cuts), len(ordered)]
    for start, end in pairwise(bounds):
        split.load(iter(ordered[start:end]), mode="merge")
    assert exported(split) == exported(whole)


FAULTS: tuple[Record, ...] = (
    {"type": "Item", "data": {}},
    {"type": "Item", "data": {"code": "bad", "count": 1001}},
    {"type": "Item", "data": {"code": "bad", "count": 1.5}},
    {"type": "Item", "data": {"code": "bad", "size": "huge"}},
    {"type": "Item", "data": {"code": "bad", "vec": [1]}},
    {"type": "Item", "data": {"code": "bad", "vec": [1, None]}},
    {"type": "Item", "data": {"code": "bad", "tags": [None]}},
    {"type": "Item", "data": {"code": "bad", "body": "base64:!"}},
    {"type": "Item", "data": {"code": "bad", "body": "https://example.com/x"}},
    {"type": "Item", "data": {"code": "bad", "id": "good"}},
    {"type": "Item", "data": {"code": "bad", "colour": "red"}},
    {"type": "Nothing", "data": {}},
    {"edge": "Links", "from": "nobody at all", "to": "nobody at all"},
    {"edge": "Links", "from": "nobody at all", "to": "nobody at all", "data": {"src": "x"}},
    {"edge": "Holds", "from": 3, "to": "x"},
    {"type": "Loose", "edge": "Links", "data": {}},
    {"type": "Loose", "data": []},
)


@given(
    records=graphs(),
    fault=st.sampled_from(FAULTS) | st.just("again"),
    at=st.integers(0, 30),
    mode=st.sampled_from(["append", "merge", "overwrite"]),
)
@settings(max_examples=30, deadline=None)
def test_a_batch_with_any_fault_changes_nothing(
    places: Iterator[Path], records: list[Record], fault: Record | str, at: int, mode: str
) -> None:
    graph = made(next(places))
    graph.load(iter([{"type": "Item", "data": {"code": "here before"}}]), mode="append")
    before, lines = graph.snapshot(), exported(graph)
    bad = records[0] if fault == "again" else fault
    mixed: Any = iter([*records[:at], bad, *records[at:]])
    with pytest.raises(OmniGraphError) as caught:
        graph.load(mixed, mode=mode)
    problems: tuple[Any, ...] = caught.value.facts["problems"]  # type: ignore[assignment]
    assert all(problem.code and problem.record is not None for problem in problems)
    assert (graph.snapshot(), exported(graph)) == (before, lines)
