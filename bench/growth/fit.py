"""Costs at several sizes -> the exponent of their growth.

A cost is `fixed + c * n^p`. The fixed part is measured: the same process runs the operation on a few rows first.
The exponent of a linear operation is the slope of log(cost - fixed) over log(n), by least squares, from the largest size down to the last
at which the rest is at least 30 ms and at least the fixed part: a smaller rest is noise. The cost of a flat operation is all fixed, so
nothing is subtracted and all sizes count. With fewer than two sizes that count, the exponent is 0: an operation that costs
milliseconds at the largest size has not grown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from bench.growth.operation import LIMITS, Kind

NOTICEABLE_SECONDS: Final = 0.03


class Measured(NamedTuple):
    """One operation at one size. `peak_bytes` is the peak memory of the process tree minus its memory before the run."""

    n: int
    cpu_seconds: float
    wall_seconds: float
    fixed_seconds: float
    peak_bytes: int
    data_bytes: int


def exponent(kind: Kind, sizes: Sequence[Measured]) -> float:
    if kind is Kind.FLAT:
        return slope([(size.n, max(size.cpu_seconds, 1e-6)) for size in sizes])
    large = takewhile(_counts, reversed(sizes))
    return slope([(size.n, size.cpu_seconds - size.fixed_seconds) for size in large])


def _counts(size: Measured) -> bool:
    return size.cpu_seconds - size.fixed_seconds >= max(NOTICEABLE_SECONDS, size.fixed_seconds)


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares of log y over log x."""
    if len(points) < 2:
        return 0.0
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((at - x) ** 2 for at in xs)
    return sum((at - x) * (value - y) for at, value in zip(xs, ys, strict=True)) / spread if spread else 0.0


def grows_too_fast(kind: Kind, sizes: Sequence[Measured]) -> bool:
    return exponent(kind, sizes) > LIMITS[kind]


def memory_ratio(sizes: Sequence[Measured]) -> float:
    """Peak memory as a multiple of the data, at the largest size."""
    largest = sizes[-1]
    return largest.peak_bytes / max(largest.data_bytes, 1)


def memory_per_byte(sizes: Sequence[Measured]) -> float:
    """Return the bytes of memory for each additional byte of data, between the two largest sizes. Near 0 if memory is bounded."""
    if len(sizes) < 2:
        return memory_ratio(sizes)
    before, largest = sizes[-2:]
    return (largest.peak_bytes - before.peak_bytes) / max(largest.data_bytes - before.data_bytes, 1)


def lowest(runs: Sequence[Measured]) -> Measured:
    """Return the cheapest run of one size. Other load on the machine only adds cost."""
    return min(runs, key=lambda run: run.cpu_seconds)
