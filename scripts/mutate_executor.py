"""Mutants of the executor, each in a copy of the source -> the seed of the differential suites that detects each.

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
READS = """
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
CHANGES = """
import sys, tempfile
from pathlib import Path
from tests.harness.differential_changes import check_changes
for seed in range(int(sys.argv[1])):
    with tempfile.TemporaryDirectory() as folder:
        try:
            failure = check_changes(seed, Path(folder) / "graph").failure
        except Exception as error:
            failure = f"seed {seed}\\n{error!r}"
    if failure is not None:
        lines = failure.strip().splitlines()
        print(f"{lines[0]}: {lines[-1][:60]}")
        sys.exit(1)
"""


class Mutant(NamedTuple):
    """A rule of the language, the source text that implements it, and the text that breaks it. `suite` is the program that detects it."""

    rule: str
    file: str
    text: str
    instead: str
    suite: str = READS


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
    Mutant(
        "an or holds where one term does (in memory)",
        "exec/read/conditions.py",
        "                every = isinstance(predicate, ir.AllOf) is wanted\n",
        "                every = True\n",
    ),
    Mutant(
        "an or holds where one term does (pushed down)",
        "exec/read/predicate.py",
        '"AND" if isinstance(predicate, ir.AllOf) is wanted else "OR")',
        '"AND")',
        CHANGES,
    ),
    Mutant(
        "not of unknown is unknown (in memory)",
        "exec/read/conditions.py",
        "    chosen = answer if wanted else pc.invert(answer)\n    return np.asarray(pc.fill_null(chosen, fill_value=False)",
        "    chosen = answer if wanted else pc.invert(answer)\n    return np.asarray(pc.fill_null(chosen, fill_value=not wanted)",
    ),
    Mutant(
        "not turns a condition round (pushed down)",
        "exec/read/predicate.py",
        "            return _where(term, wanted=not wanted)\n",
        "            return _where(term, wanted=wanted)\n",
    ),
    Mutant(
        "null is not in a list, and not outside of it (in memory)",
        "exec/read/conditions.py",
        "        return found if wanted else is_valid(column) & ~found\n",
        "        return found if wanted else ~found\n",
    ),
    Mutant(
        "null is not in a list, and not outside of it (pushed down)",
        "exec/read/predicate.py",
        'f"{name} IN ({items})" if wanted else f"{name} IS NOT NULL AND {name} NOT IN ({items})"',
        'f"{name} IN ({items})" if wanted else f"{name} IS NULL OR {name} NOT IN ({items})"',
        CHANGES,
    ),
    Mutant(
        "null is outside of an empty list",
        "plan/coercion.py",
        "    if not values:\n        return Known(truth=False)\n    if isinstance(item, Field):\n",
        "    if not values:\n        return UNKNOWN\n    if isinstance(item, Field):\n",
    ),
    Mutant(
        "is null is never unknown (in memory)",
        "exec/read/conditions.py",
        "                return is_valid(evaluate(value, count, read)) ^ wanted\n",
        "                return np.full(count, not wanted)\n",
    ),
    Mutant(
        "is null is never unknown (pushed down)",
        "exec/read/predicate.py",
        """IS {'NULL' if wanted else 'NOT NULL'}\"""",
        """IS {'NULL'}\"""",
    ),
    Mutant(
        "a text ends with a part of itself",
        "exec/read/conditions.py",
        "read, pc.ends_with, np.strings.endswith, wanted=wanted)",
        "read, pc.match_substring, np.strings.endswith, wanted=wanted)",
    ),
    Mutant(
        "a remainder has the sign of the dividend",
        "exec/read/arithmetic.py",
        "            found = one._replace(magnitude=one.magnitude % np.maximum(other.magnitude, 1))\n",
        "            found = other._replace(magnitude=one.magnitude % np.maximum(other.magnitude, 1))\n",
    ),
    Mutant(
        "a quotient by zero is null",
        "exec/read/arithmetic.py",
        "    return pc.divide(left, pc.if_else(pc.equal(right, 0.0), pa.scalar(None, pa.float64()), right))\n",
        "    return pc.divide(left, right)\n",
    ),
    Mutant(
        "a difference is no sum",
        "exec/read/arithmetic.py",
        "            found = _sum(one, other._replace(negative=~other.negative))\n",
        "            found = _sum(one, other)\n",
    ),
    Mutant(
        "two texts are joined without anything between",
        "exec/read/arithmetic.py",
        'pa.scalar("", type_))',
        'pa.scalar(" ", type_))',
    ),
    Mutant(
        "half is rounded away from zero",
        "exec/read/arithmetic.py",
        "    units = below + (high - below - 0.5 >= -low)\n",
        "    units = below + (high - below - 0.5 > -low)\n",
    ),
    Mutant(
        "upper is not lower",
        "exec/read/expressions.py",
        "            return pc.utf8_upper(first)\n",
        "            return pc.utf8_lower(first)\n",
    ),
    Mutant(
        "a substring counts characters from 0",
        "exec/read/expressions.py",
        "    first = np.clip(clipped(start, _LONGEST), 0, longest)\n",
        "    first = np.clip(clipped(start, _LONGEST), 1, longest)\n",
    ),
    Mutant(
        "coalesce is the first value that is not null",
        "exec/read/expressions.py",
        "        found = pc.coalesce(found, converted(wanted, type_))\n",
        "        found = pc.coalesce(converted(column, type_), found)\n",
    ),
    Mutant(
        "years before 1970 count, too",
        "exec/read/expressions.py",
        '            return dates.astype("datetime64[Y]").astype(np.int64) + 1970\n',
        '            return np.abs(dates.astype("datetime64[Y]").astype(np.int64)) + 1970\n',
    ),
    Mutant(
        "an hour is one of a day",
        "exec/read/expressions.py",
        "// _HOUR_MS % 24, mask",
        "// _HOUR_MS % 12, mask",
    ),
    Mutant(
        "either holds where any block has a row",
        "exec/read/join.py",
        "    for on, inner in inners:\n",
        "    for on, inner in inners[:1]:\n",
    ),
    Mutant(
        "a block that can have no row keeps no row",
        "plan/rules/fold_constants.py",
        "        return EMPTY if plan.wanted else plan.input\n",
        "        return plan.input if plan.wanted else EMPTY\n",
    ),
    Mutant(
        "exists keeps the rows with a partner",
        "exec/read/join.py",
        "    return rows.keep(found if wanted else ~found)\n",
        "    return rows.keep(~found)\n",
    ),
    Mutant(
        "a walk from a null entity finds nothing",
        "exec/read/expand.py",
        "        rows = batch.bound(*(binding for binding, _ in ends))\n",
        "        rows = batch\n",
    ),
    Mutant(
        "distinct rows come once",
        "exec/read/run.py",
        "            rows.add(cells)\n            self._memory.add(rows.nbytes - before",
        "            yield cells\n            self._memory.add(rows.nbytes - before",
    ),
    Mutant(
        "skipped rows are left out of rows without an order",
        "exec/read/run.py",
        "                return window(rows, skip=skip, count=count)\n",
        "                return window(rows, skip=0, count=count)\n",
    ),
    Mutant(
        "nulls stand where the order says",
        "exec/read/order.py",
        "        return self.nulls is NullOrder.FIRST if self.nulls is not None else not self.descending\n",
        "        return not self.descending\n",
    ),
    Mutant(
        "collect leaves nulls out",
        "exec/read/aggregate.py",
        "        self._held.add(table.filter(present) if table.column(_VALUE).null_count else table)\n",
        "        self._held.add(table)\n",
    ),
    Mutant(
        "collect has the order of the ids",
        "exec/read/aggregate.py",
        '        self._ties: Final = {f"t{binding}": binding for binding in ties} if collects else {}\n',
        '        self._ties: Final = {f"t{binding}": binding for binding in reversed(ties)} if collects else {}\n',
    ),
    Mutant(
        "a sum of integers is exact",
        "exec/read/aggregate.py",
        "    highs, lows = highs + (lows >> _HALF), lows & _LOW\n",
        "    lows = lows & _LOW\n",
    ),
    Mutant(
        "a path is a shortest one",
        "exec/read/paths.py",
        "            closer = met.to_right[owners * self._size + reached] == lengths[owners] - position + 1\n",
        "            closer = met.to_right[owners * self._size + reached] >= 1\n",
    ),
    Mutant(
        "of several paths the one with the smallest ids",
        "exec/read/paths.py",
        "np.lexsort((self._ranks(nodes[several]), owners[several]))",
        "np.lexsort((-self._ranks(nodes[several]), owners[several]))",
    ),
    Mutant(
        "of several edges of a path the one with the smallest id",
        "exec/read/paths.py",
        "    order = np.lexsort((ranked(ids), at[used]))\n",
        "    order = np.lexsort((-ranked(ids), at[used]))\n",
    ),
    Mutant(
        "a path over a self-edge may be one longer than the distance",
        "exec/read/paths.py",
        "            emitted[near] = self._loops(rights[part][near])\n",
        "            emitted[near] = False\n",
    ),
    Mutant(
        "a link over several edges follows each of them (adjacency)",
        "exec/read/routes.py",
        "        self._csrs: Final = tuple(csr for csrs in types for csr in csrs)\n",
        "        self._csrs: Final = tuple(types[0])\n",
    ),
    Mutant(
        "an interface has the rows of all of its types",
        "exec/read/entity_union.py",
        "        left = limit\n        for part, base in zip(self._parts, self._bases.tolist(), strict=False):\n",
        "        left = limit\n        for part, base in zip(self._parts[:1], self._bases.tolist(), strict=False):\n",
    ),
    Mutant(
        "each row of an interface has its own type",
        "exec/read/entity_union.py",
        '        return np.searchsorted(self._bases, numbers, side="right") - 1\n',
        '        return np.minimum(np.searchsorted(self._bases, numbers, side="right") - 1, 0)\n',
    ),
    Mutant(
        "a change is made once for each combination",
        "exec/write/matches.py",
        "        return rows if len(first) == len(rows) else rows.take(first)\n",
        "        return rows\n",
        CHANGES,
    ),
    Mutant(
        "two values for one entity are refused",
        "exec/write/assignment.py",
        "        if len(wrong := true_at(pc.invert(pc.fill_null(same, fill_value=False)))):\n",
        "        if len(wrong := true_at(pc.invert(pc.fill_null(same, fill_value=True)))) > len(ids):\n",
        CHANGES,
    ),
    Mutant(
        "a match sees the statements before it",
        "exec/write/matches.py",
        "    if changed:\n",
        "    if False:\n",
        CHANGES,
    ),
    Mutant(
        "a matched update sets the entity that was matched",
        "exec/write/mutate.py",
        "                at = pa.array(known.find(batch.column(ID)))\n",
        "                at = pa.array(known.find(batch.column(ID))[::-1])\n",
        CHANGES,
    ),
    Mutant(
        "edges go with their nodes",
        "exec/write/mutate.py",
        "((cascade.at_source, SOURCE), (cascade.at_target, TARGET)) if at_end]",
        "((cascade.at_source, SOURCE), (cascade.at_target, TARGET)) if at_end][:1]",
        CHANGES,
    ),
    Mutant(
        "create refuses what is there",
        "exec/write/mutate.py",
        "            if change.insertion is Insertion.CREATE:\n",
        "            if False:\n",
        CHANGES,
    ),
    Mutant(
        "an upsert keeps what it does not name",
        "exec/write/mutate.py",
        "{**columns, **kept, **embedded(",
        "{**columns, **embedded(",
        CHANGES,
    ),
    Mutant(
        "an upsert finds an edge by its ends",
        "exec/write/mutate.py",
        "        ids = pc.if_else(pa.array(absent), fresh, old.column(ID))\n",
        "        ids = fresh\n",
        CHANGES,
    ),
    Mutant(
        "an update changes the rows that satisfy its condition",
        "exec/write/mutate.py",
        "            for batch in matching_rows(image, columns, where, carried=carried):\n",
        "            for batch in matching_rows(image, columns, where, carried=carried):\n                batch = batch.slice(1)\n",
        CHANGES,
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
        done = subprocess.run(
            [sys.executable, "-c", READS if mutant is None else mutant.suite, str(seeds)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
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
