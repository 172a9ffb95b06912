"""A seed -> a social network in Parquet: people with an age, a city, a text and a vector, and edges between them.

Degrees follow a power law with exponent 2.5 at both ends. There are no parallel edges and no self-edges, so engines
that count edges and engines that count neighbours have equal counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

VECTOR = 128
WORDS = 30
CITIES = 100


class Network(NamedTuple):
    """The paths of the files, the ids, and the endpoints of all edges as positions of ids."""

    people: Path
    knows: Path
    names: pa.Array
    sources: Any
    targets: Any


def network(folder: Path, *, people: int, edges: int, seed: int = 7) -> Network:
    chance = np.random.default_rng(seed)
    names = _labels("person-", np.arange(people), width=8)
    sources, targets = _ends(chance, people, edges)
    rows = {
        "name": names,
        "age": pa.array(chance.integers(16, 90, people), pa.int32()),
        "city": _labels("city-", chance.integers(0, CITIES, people), width=3),
        "bio": _texts(chance, people),
        "vec": pa.FixedSizeListArray.from_arrays(pa.array(chance.standard_normal(people * VECTOR, np.float32)), VECTOR),
    }
    links = {
        "from": names.take(pa.array(sources)),
        "to": names.take(pa.array(targets)),
        "since": pa.array(chance.integers(1990, 2026, edges), pa.int32()),
    }
    found = Network(folder / "people.parquet", folder / "knows.parquet", names, sources, targets)
    pq.write_table(pa.table(rows), found.people)
    pq.write_table(pa.table(links), found.knows)
    return found


def _ends(chance: Any, people: int, edges: int) -> tuple[Any, Any]:
    weight = np.cumsum(np.arange(1, people + 1) ** (-2 / 3))
    who = chance.permutation(people)
    drawn = np.empty(0, np.int64)
    while len(drawn) < edges:
        ends = who[np.searchsorted(weight, chance.random((2, edges)) * weight[-1]).clip(max=people - 1)]
        pairs = (ends[0] * people + ends[1])[ends[0] != ends[1]]
        drawn = np.sort(np.concatenate([drawn, pairs]))
        drawn = drawn[np.append(True, drawn[1:] != drawn[:-1])]
    drawn = chance.permutation(drawn)[:edges]
    return drawn // people, drawn % people


def _labels(prefix: str, numbers: Any, *, width: int) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width=width, padding="0")
    return pc.binary_join_element_wise(prefix, padded, "")


def _texts(chance: Any, people: int) -> pa.Array:
    words = _labels("word", np.arange(5000), width=1).take(pa.array(chance.integers(0, 5000, people * WORDS)))
    return pc.binary_join(pa.ListArray.from_arrays(np.arange(0, people * WORDS + 1, WORDS, dtype=np.int32), words), " ")
