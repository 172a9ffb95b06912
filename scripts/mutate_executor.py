"""Mutants of the executor, each in a copy of the source -> the seed of the differential suite that detects each.

`python scripts/mutate_executor.py [name ...]` prints a table. It exits with 1 if a mutant survives or the suite fails without a mutant.
Run it by hand: it takes some seconds for each seed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
SEEDS = 12
PROGRAM = """
import sys, tempfile
from pathlib import Path
from tests.harness.differential import check_seed
for seed in range(int(sys.argv[1])):
    with tempfile.TemporaryDirectory() as folder:
        report = check_seed(seed, Path(folder) / "graph")
    for failure in report.failures[:1]:
        reason = failure.reason.strip().splitlines()[-1][:60]
        print(f"seed {seed}, query {failure.number} ({failure.route or 'automatic'}), {len(report.failures)} of {report.queries}: {reason}")
        sys.exit(1)
"""


class Mutant(NamedTuple):
    """A rule of the language, the source text that implements it, and the text that breaks it."""

    rule: str
    file: str
    text: str
    instead: str


MUTANTS = (
    Mutant(
        "parallel edges are one way (looked up)",
        "exec/read/walk.py",
        "    keys = sorted_once(found.origin * width + found.reached)\n",
        "    keys = np.sort(found.origin * width + found.reached)\n",
    ),
    Mutant(
        "parallel edges are several edges when bound",
        "exec/read/expand.py",
        "        return self.finder.hops(reach.walked, nodes)\n",
        "        met = self.finder.hops(reach.walked, nodes)\n"
        "        return FoundEdges(*(part[np.unique(met.origin * (1 << 32) + met.reached, return_index=True)[1]] for part in met))\n",
    ),
    Mutant(
        "a search never returns to its start",
        "exec/read/walk.py",
        "    visited = origin * width + at\n",
        "    visited = np.zeros(0, np.int64)\n",
    ),
    Mutant(
        "a self-edge emits its node (looked up)",
        "exec/read/walk.py",
        "            emitted += [origin[loops] * width + at[loops], new]\n",
        "            emitted += [new]\n",
    ),
    Mutant(
        "a self-edge emits its node (adjacency)",
        "exec/adjacency/kernels.py",
        "            loops |= linked(csr.near, nodes, nodes)\n",
        "            loops |= linked(csr.near, nodes, nodes) & False\n",
    ),
    Mutant(
        "an undirected self-edge is bound once (adjacency)",
        "exec/read/routes.py",
        "        yield found if not number else found.keep(reached != nodes[origin])",
        "        yield found",
    ),
    Mutant(
        "null matches nothing, not even `!=`",
        "exec/read/conditions.py",
        "    return is_valid(left, right) & (found if wanted else ~found)\n",
        "    return found if wanted else ~found\n",
    ),
    Mutant(
        "integers and floats compare by value",
        "exec/read/conditions.py",
        '    if wide_left and right.dtype.kind == "f":\n',
        "    if False:\n",
    ),
    Mutant(
        "both zeros are one group",
        "exec/read/encoding.py",
        "    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column\n",
        "    return column\n",
    ),
    Mutant(
        "ties are broken in the order of names",
        "exec/read/run.py",
        "            for binding in op.ties\n",
        "            for binding in reversed(op.ties)\n",
    ),
    Mutant(
        "nulls are the smallest",
        "exec/read/order.py",
        '"at_start" if self.nulls_first else "at_end"',
        '"at_end" if self.nulls_first else "at_start"',
    ),
    Mutant(
        "limit cuts an order",
        "exec/read/order.py",
        "    return _break_ties(by_keys, starts, ties)[:limit]\n",
        "    return _break_ties(by_keys, starts, ties)\n",
    ),
    Mutant(
        "count leaves nulls out",
        "exec/read/aggregate.py",
        "        case AggregateFunction.COUNT:\n            return [column.is_valid().cast(pa.int64())]\n",
        "        case AggregateFunction.COUNT:\n            return [pa.repeat(pa.scalar(1, pa.int64()), len(column))]\n",
    ),
    Mutant(
        "a row without a partner stays, one with a partner goes",
        "exec/read/join.py",
        "        found[part.bindings[OUTER_ROW]] = True\n",
        "        found[part.bindings[OUTER_ROW][:1]] = True\n",
    ),
    Mutant(
        "a row without a row of the optional block stays",
        "exec/read/join.py",
        "    if alone.count:\n",
        "    if False:\n",
    ),
    Mutant(
        "a null entity is not counted",
        "exec/read/aggregate.py",
        "        counts = counts * (numbers != NULL_ENTITY)\n",
        "        pass\n",
    ),
    Mutant(
        "equal values count once where they are distinct",
        "exec/read/aggregate.py",
        "        if not self._call.distinct:\n            return table\n",
        "        return table\n",
    ),
    Mutant(
        "skipped rows are left out of an order",
        "exec/read/run.py",
        "for start in range(skip, rows.count, BATCH))\n",
        "for start in range(0, rows.count, BATCH))\n",
    ),
)


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.rule for name in names)]
    if (wrong := first_disagreement(None, 2)) is not None:
        print(f"failure without a mutant: {wrong}")
        return 1
    print("| broken rule | detected by |\n|---|---|", flush=True)
    survivors = 0
    for mutant in chosen:
        found = first_disagreement(mutant, SEEDS)
        survivors += found is None
        print(f"| {mutant.rule} | {found or '**survives**'} |", flush=True)
    return 1 if survivors else 0


def first_disagreement(mutant: Mutant | None, seeds: int) -> str | None:
    """Run seeds on a copy of the source with the mutant. Returns the first disagreement, or None."""
    with tempfile.TemporaryDirectory(prefix="omnigraph-mutant-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy)
        if mutant is not None:
            apply(mutant, copy / "omnigraph" / mutant.file)
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMNIGRAPH_CACHE": f"{folder}/cache"}
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(seeds)], env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        if not done.stdout.strip():
            raise SystemExit(f"the suite exited with {done.returncode} without output:\n{done.stderr}")
        return done.stdout.strip().splitlines()[-1]


def apply(mutant: Mutant, file: Path) -> None:
    text = file.read_text()
    if text.count(mutant.text) != 1:
        raise SystemExit(
            f"{mutant.file} has the text of {mutant.rule!r} {text.count(mutant.text)} times instead of once; update this script"
        )
    file.write_text(text.replace(mutant.text, mutant.instead))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
