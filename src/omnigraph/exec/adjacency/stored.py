"""Ids and adjacencies <-> the plain arrays in which the cache stores them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.exec.adjacency.cache import Array
from omnigraph.exec.adjacency.edges import Adjacency
from omnigraph.exec.adjacency.kernels import Csr, Neighbours
from omnigraph.exec.adjacency.node_ids import Ids, Run
from omnigraph.exec.adjacency.numbering import Numbering

_TAGS: Final = "tags."
_NUMBERS: Final = "numbers."
Arrays: TypeAlias = Mapping[str, Array]


def ids_arrays(ids: Ids) -> dict[str, Array]:
    _, offsets, data = ids.texts.buffers()
    wide = np.int64 if pa.types.is_large_string(ids.texts.type) else np.int32
    start, count = ids.texts.offset, len(ids.texts)
    ends = np.frombuffer(offsets, wide)[start : start + count + 1] if count else np.zeros(1, wide)
    texts = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if data is not None else np.empty(0, np.uint8)
    valid = np.packbits(ids.texts.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
    runs = {f"{name}{at}": array for at, run in enumerate(ids.runs) for name, array in ((_TAGS, run.tags), (_NUMBERS, run.numbers))}
    return {"valid": valid, "ends": ends - ends[0], "texts": texts} | runs


def stored_ids(arrays: Arrays, numbers: Numbering) -> Ids:
    ends = arrays["ends"]
    type_ = pa.large_string() if ends.dtype == np.int64 else pa.string()
    buffers = [pa.py_buffer(arrays[name]) for name in ("valid", "ends", "texts")]
    texts = pa.Array.from_buffers(type_, len(ends) - 1, buffers)
    count = sum(name.startswith(_TAGS) for name in arrays)
    return Ids(numbers, texts, tuple(Run(arrays[f"{_TAGS}{at}"], arrays[f"{_NUMBERS}{at}"]) for at in range(count)))


def adjacency_arrays(adjacency: Adjacency) -> dict[str, Array]:
    of = adjacency.csr
    found: dict[str, Array] = {"offsets": of.stored.offsets, "targets": of.stored.targets, "edges": of.edges}
    return found if of.near is of.stored else found | {"near.offsets": of.near.offsets, "near.targets": of.near.targets}


def stored_adjacency(arrays: Arrays, edges: Numbering, near: Numbering, far: Numbering, *, square: bool) -> Adjacency:
    stored = Neighbours(arrays["offsets"], arrays["targets"])
    once = Neighbours(arrays["near.offsets"], arrays["near.targets"]) if "near.offsets" in arrays else stored
    return Adjacency(Csr(stored, arrays["edges"], once, square), edges, near, far)
