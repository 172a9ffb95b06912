"""`python -m bench.growth`: measure every operation, print a line for each, and exit with 1 if one grows too fast."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import bench.growth
from bench.growth.fit import Measured, exponent, grows_too_fast, lowest, memory_per_byte, memory_ratio
from bench.growth.measure import measure, operations_like
from bench.growth.operation import LIMITS, Kind, Operation
from bench.growth.operations import OPERATIONS
from bench.report import save

FACTORS = (1, 3, 9, 27)
AGAIN = 4
"""How often an operation that seems to grow too fast is measured again. The lowest cost of each size counts."""
DOUBT = 0.4
"""An excess over the limit that noise can explain. An operation with a larger excess is not measured again, unless it is quick."""
QUICK_SECONDS = 1.0
"""Other load on the machine can change the cost of an operation that takes less than this by any factor."""
HEADER = (
    f"{'operation':44s} {'kind':6s} {'sizes':>18s}  {'CPU seconds':>31s} {'wall':>7s} {'peak MB':>8s} {'x data':>7s} {'x more':>7s}  grows"
)


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _arguments().parse_args(arguments)
    facts, too_fast, busy = [], [], os.getloadavg()[0]
    if not chosen.json:
        print(HEADER)
    with tempfile.TemporaryDirectory(prefix="growth-", dir=chosen.folder) as name:
        for operation in operations_like(OPERATIONS, chosen.only):
            sizes = chosen.sizes or [operation.base * factor for factor in FACTORS]
            found = settled(partial(measure, operation, sizes, Path(name), one_process=chosen.quick), operation.kind)
            facts.append(_facts(operation, found))
            if grows_too_fast(operation.kind, found):
                too_fast.append(operation.name)
            print(json.dumps(facts[-1]) if chosen.json else _line(operation, found), flush=True)
    save("growth", {"load_average": busy, "operations": facts, "too_fast": too_fast}, quiet=chosen.json)
    if too_fast and not chosen.json:
        print(f"{len(too_fast)} of {len(facts)} grow too fast: {', '.join(too_fast)}")
    return 1 if too_fast else 0


def settled(measured: Callable[[], list[Measured]], kind: Kind) -> list[Measured]:
    """Return the costs at all sizes. Repeats a measurement that exceeds the limit, because load on the machine only adds cost."""
    found = measured()
    for _ in range(AGAIN):
        excess = exponent(kind, found) - LIMITS[kind]
        if excess <= 0 or (excess > DOUBT and found[-1].cpu_seconds > QUICK_SECONDS):
            break
        found = [lowest(pair) for pair in zip(found, measured(), strict=True)]
    return found


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=bench.growth.__doc__)
    parser.add_argument("--only", metavar="PATTERN", help="only operations whose name matches this regular expression")
    parser.add_argument("--sizes", type=_sizes, metavar="N,N,...", help="use these sizes for every operation")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one process for all sizes of an operation: takes half the time, memory is approximate",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each operation instead of a table")
    parser.add_argument("--folder", metavar="PATH", help="directory for temporary graphs and files (default: that of the system)")
    return parser


def _sizes(text: str) -> list[int]:
    return sorted(int(part) for part in text.split(","))


def _line(operation: Operation, sizes: Sequence[Measured]) -> str:
    seconds = " ".join(f"{size.cpu_seconds:7.3f}" for size in sizes)
    span = f"{sizes[0].n:,}..{sizes[-1].n:,}"
    mark = "  TOO FAST" if grows_too_fast(operation.kind, sizes) else ""
    memory = f"{sizes[-1].peak_bytes / 2**20:8.0f} {_ratio(memory_ratio(sizes), sizes)} {_ratio(memory_per_byte(sizes), sizes)}"
    return (
        f"{operation.name:44s} {operation.kind:6s} {span:>18s}  {seconds:>31s} {sizes[-1].wall_seconds:7.2f} {memory}  "
        f"n^{exponent(operation.kind, sizes):.2f}{mark}"
    )


def _ratio(value: float, sizes: Sequence[Measured]) -> str:
    return f"{value:7.1f}" if sizes[-1].data_bytes else f"{'-':>7s}"


def _facts(operation: Operation, sizes: Sequence[Measured]) -> dict[str, Any]:
    return {
        "name": operation.name,
        "kind": operation.kind,
        "limit": LIMITS[operation.kind],
        "exponent": exponent(operation.kind, sizes),
        "too_fast": grows_too_fast(operation.kind, sizes),
        "peak_times_data": memory_ratio(sizes) if sizes[-1].data_bytes else None,
        "peak_per_further_byte": memory_per_byte(sizes) if sizes[-1].data_bytes else None,
        "sizes": [size._asdict() for size in sizes],
    }


if __name__ == "__main__":
    raise SystemExit(main())
