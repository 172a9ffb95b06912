"""A branch, 1,000 updates on each side, and the merge, with 10,000 to 1,000,000 rows beside them; next to fluree and doltlite.

Targets: a branch in under 10 ms at any size; a merge faster than fluree's, and less than twice as long with 1,000,000 rows as with 10,000.
Every engine runs in a process of its own, in turn. A peer that is not installed (`pip install fluree doltlite`) is left out.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from bench.child import Cost, cost_of
from bench.report import save

SIZES = (10_000, 100_000, 1_000_000)
CHANGES = 1_000
ROUNDS = 5
SCHEMA = "node Item { key: String @key\n n: I64\n note: String? }"
PREFIX = "http://example.org/"
Steps = dict[str, list[list[float]]]
"""For each step the milliseconds and CPU milliseconds of every round."""


def rows(numbers: Any, n: int) -> pa.Table:
    return pa.table({"key": [f"k{number:08}" for number in numbers], "n": pa.array(np.full(len(numbers), n)), "note": ["x"] * len(numbers)})


def changed(count: int, turn: int, side: int) -> Any:
    """The rows that one side changes in one round, spread over all. The sides have none in common."""
    step = count // CHANGES
    return (np.arange(CHANGES) * step + 2 * turn + side) % count


class Clock:
    def __init__(self) -> None:
        self.steps: Steps = {}

    def time(self, name: str, work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = work(*arguments, **more)
        spent = [(time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3]
        self.steps.setdefault(name, []).append(spent)
        return result


def run_omnigraph(folder: str, rows_text: str) -> Steps:
    count, clock = int(rows_text), Clock()
    graph = og.init(f"{folder}/graph.omni", schema=SCHEMA)
    graph.load({"Item": rows(np.arange(count), 0)}, mode="append")
    graph.ensure_indices()
    for turn in range(ROUNDS):
        name = f"b{turn}"
        clock.time("create", graph.branches.create, name)
        theirs, ours = ({"Item": rows(changed(count, turn, side), turn + 1)} for side in (0, 1))
        clock.time("update the branch", graph.load, theirs, branch=name)
        clock.time("update main", graph.load, ours)
        merged = clock.time("merge", graph.merge, name)
        assert (merged.outcome, merged.updated) == ("merged", CHANGES)
    return clock.steps


def run_fluree(folder: str, rows_text: str) -> Steps:
    import fluree

    count, clock = int(rows_text), Clock()
    source = Path(folder) / "items.nt"
    with source.open("w") as file:
        for at in range(count):
            item = f"<{PREFIX}k{at:08}>"
            file.write(f'{item} <{PREFIX}n> "0"^^<http://www.w3.org/2001/XMLSchema#integer> .\n{item} <{PREFIX}note> "x" .\n')
    with fluree.connect(f"{folder}/fluree") as connection:
        main = connection.create("items", source=source)
        for turn in range(ROUNDS):
            branch = clock.time("create", main.branch, f"b{turn}")
            for name, ledger, side in (("update the branch", branch, 0), ("update main", main, 1)):
                data = [{"@id": f"{PREFIX}k{at:08}", f"{PREFIX}n": turn + 1} for at in changed(count, turn, side).tolist()]
                clock.time(name, ledger.upsert, data)
            clock.time("merge", main.merge, f"b{turn}", strategy="abort")
    return clock.steps


def run_doltlite(folder: str, rows_text: str) -> Steps:
    import_module("doltlite")  # from now on it is the engine of sqlite3 in this process
    import sqlite3

    count, clock = int(rows_text), Clock()
    database = sqlite3.connect(f"{folder}/items.db", isolation_level=None)

    def call(function: str, *arguments: str) -> None:
        database.execute(f"SELECT dolt_{function}({','.join('?' * len(arguments))})", arguments).fetchall()

    def write(statement: str, values: list[tuple[object, ...]]) -> None:
        database.execute("BEGIN")
        database.executemany(statement, values)
        database.execute("COMMIT")
        call("commit", "-A", "-m", "changed")

    database.execute("CREATE TABLE item(key TEXT PRIMARY KEY, n INTEGER, note TEXT)")
    write("INSERT INTO item VALUES (?, 0, 'x')", [(f"k{at:08}",) for at in range(count)])
    for turn in range(ROUNDS):
        clock.time("create", call, "branch", f"b{turn}")
        for name, branch, side in (("update the branch", f"b{turn}", 0), ("update main", "main", 1)):
            call("checkout", branch)
            values: list[tuple[object, ...]] = [(turn + 1, f"k{at:08}") for at in changed(count, turn, side).tolist()]
            clock.time(name, write, "UPDATE item SET n = ? WHERE key = ?", values)
        clock.time("merge", call, "merge", f"b{turn}")
        updated = set(changed(count, turn, 0).tolist()) | set(changed(count, turn, 1).tolist())
        assert database.execute("SELECT count(*) FROM item WHERE n = ?", (turn + 1,)).fetchone() == (len(updated),)
    return clock.steps


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scenario merge", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args(arguments)
    engines: dict[str, Callable[..., Steps]] = {"omnigraph": run_omnigraph}
    for name, run in (("fluree", run_fluree), ("doltlite", run_doltlite)):
        if find_spec(name) is not None:
            engines[name] = run
        else:
            print(f"{name} is not installed (pip install {name}): it is left out")
    costs: list[Cost] = []
    for size in options.sizes:
        for _ in range(options.repeats):
            for name, run in engines.items():
                with tempfile.TemporaryDirectory() as folder:
                    costs.append(cost_of(f"{name} {size}", run, folder, str(size)))
    for name in dict.fromkeys(cost.name for cost in costs):
        _print(name, [cost for cost in costs if cost.name == name])
    save("merge", {"changes": CHANGES, "runs": [cost._asdict() for cost in costs]})


def _print(name: str, costs: list[Cost]) -> None:
    print(f"{name} rows: peak {max(cost.peak_mb for cost in costs):.0f} MB")
    for step in costs[0].result:
        rounds = [spent for cost in costs for spent in cost.result[step]]
        wall, cpu = (statistics.median(column) for column in zip(*rounds, strict=True))
        every = " ".join(f"{spent[0]:.0f}" for spent in rounds)
        print(f"  {step:18} {wall:8.1f} ms {cpu:8.1f} CPU ms   all: {every}")
