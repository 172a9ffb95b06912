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
    return _csr_arrays("out", adjacency.out) | _csr_arrays("into", adjacency.into)


def stored_adjacency(arrays: Arrays, edges: Numbering, sources: Numbering, targets: Numbering, *, square: bool) -> Adjacency:
    return Adjacency(_stored_csr(arrays, "out", square=square), _stored_csr(arrays, "into", square=square), edges, sources, targets)


def _csr_arrays(name: str, of: Csr) -> dict[str, Array]:
    found: dict[str, Array] = {f"{name}.offsets": of.stored.offsets, f"{name}.targets": of.stored.targets, f"{name}.edges": of.edges}
    if of.near is not of.stored:
        found |= {f"{name}.near.offsets": of.near.offsets, f"{name}.near.targets": of.near.targets}
    return found


def _stored_csr(arrays: Arrays, name: str, *, square: bool) -> Csr:
    stored = Neighbours(arrays[f"{name}.offsets"], arrays[f"{name}.targets"])
    apart = f"{name}.near.offsets" in arrays
    near = Neighbours(arrays[f"{name}.near.offsets"], arrays[f"{name}.near.targets"]) if apart else stored
    return Csr(stored, arrays[f"{name}.edges"], near, square)
