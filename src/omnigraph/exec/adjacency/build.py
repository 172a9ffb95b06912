"""Ends of edges as node numbers -> both directions of an adjacency."""

from __future__ import annotations

from typing import Final

import numpy as np

from omnigraph.exec.adjacency.kernels import Csr, Ints, Narrow, Neighbours

_WIDE: Final = 1 << 31


def csr(near: Ints, far: Ints, edges: Ints, *, rows: int, columns: int, square: bool) -> Csr:
    """Edges `near[i] -> far[i]`, numbered `edges[i]`, as a Csr over `rows` nodes that reach `columns` others."""
    order = _grouped(far, columns)
    order = order[_grouped(near[order], rows)]
    return sorted_csr(near[order], far[order], edges[order], rows=rows, square=square)


def sorted_csr(near: Ints, far: Ints, edges: Ints, *, rows: int, square: bool) -> Csr:
    """The same from edges that are sorted already, by the near end and then by the far one."""
    stored = Neighbours(_offsets(near, rows), _narrow(far))
    first = np.ones(len(near), np.bool_)
    np.logical_or(near[1:] != near[:-1], far[1:] != far[:-1], out=first[1:])
    once = stored if first.all() else Neighbours(_offsets(near[first], rows), _narrow(far[first]))
    return Csr(stored, _narrow(edges), once, square)


def _grouped(keys: Ints, size: int) -> Ints:
    """A stable order by small keys: sorting key and position as one integer takes a fifth of what argsort takes."""
    bits = max(1, len(keys)).bit_length()
    if max(1, size).bit_length() + bits > 63:
        return np.argsort(keys, kind="stable")
    packed = np.sort((keys << bits) | np.arange(len(keys)))
    return packed & ((1 << bits) - 1)


def _offsets(near: Ints, rows: int) -> Ints:
    offsets = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(near, minlength=rows), out=offsets[1:])
    return offsets


def _narrow(numbers: Ints) -> Narrow:
    """Half the bytes where the numbers allow it."""
    fits = not len(numbers) or int(numbers.max()) < _WIDE
    return numbers.astype(np.int32) if fits else numbers
