"""A one-row write through stage, fence, commit and publish, next to a bare Lance append and a bare swap of a 20-row fragment.

The bare operations are the cost of Lance alone for half the work: no fence, no lock, no precondition, no commit row, no history.
Ours is measured with and without fsync; theirs never call it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from bench.report import interleaved, save, show
from omnigraph.manifest.birth import NewTable, create_graph, new_table_id
from omnigraph.manifest.model import CommitKind, SchemaText
from omnigraph.manifest.publish import Preconditions, Publication, hold, publish
from omnigraph.store import stage
from omnigraph.store.root import FSYNC_ENVIRONMENT, open_root
from omnigraph.store.tables import Tables

import lance  # isort: skip  (after omnigraph.store, which quiets its log)
from lance import LanceDataset, LanceOperation  # isort: skip
from lance.fragment import write_fragments  # isort: skip

COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64())])
STATE_ROWS = 20
HISTORY = (10, 1_000)
RUNS = 60


def row(at: int) -> pa.Table:
    return pa.table({"id": [f"row-{at}"], "n": [at]}, schema=COLUMNS)


def bare_append(folder: Path) -> Callable[[], object]:
    numbers = count()
    held: list[Any] = [lance.write_dataset(row(next(numbers)), str(folder / "append"))]

    def work() -> None:
        transaction = write_fragments(row(next(numbers)), held[0], return_transaction=True)
        held[0] = LanceDataset.commit(held[0], transaction)

    return work


def bare_swap(folder: Path) -> Callable[[], object]:
    state = pa.table({"object_id": [f"table:{n:040d}" for n in range(STATE_ROWS)], "body": ["x" * 150] * STATE_ROWS})
    held: list[Any] = [lance.write_dataset(state, str(folder / "swap"))]

    def work() -> None:
        old = held[0].get_fragments()[-1].fragment_id
        change = LanceOperation.Update(removed_fragment_ids=[old], updated_fragments=[], new_fragments=write_fragments(state, held[0]))
        held[0] = LanceDataset.commit(held[0], lance.Transaction(held[0].version, change), max_retries=0)

    return work


def our_write(folder: Path, *, fsync: bool, history: int) -> Callable[[], object]:
    """Create a graph of 19 tables (20 state rows with head) and `history` commits."""
    os.environ[FSYNC_ENVIRONMENT] = "off"
    names = [NewTable(new_table_id(f"{n:016x}"), f"node:T{n}", "nodes", COLUMNS) for n in range(STATE_ROWS - 1)]
    place = folder / f"graph-{fsync}-{history}"
    manifest = create_graph(open_root(place), schema=SchemaText("", ""), tables=names)
    for _ in range(history):
        publish(manifest, Publication(CommitKind.LOAD))
    os.environ[FSYNC_ENVIRONMENT] = "on" if fsync else "off"
    from omnigraph.manifest.birth import open_graph

    manifest = open_graph(open_root(place))
    tables, numbers = Tables(manifest.root), count()

    def work() -> None:
        with hold(manifest) as grant:
            found, _, state = manifest.look()
            before = state.tables[names[0].id]
            staged = stage.append(tables.open(before.ref), row(next(numbers)))
            assert staged is not None
            moved = tables.keep(stage.commit(staged))
            after = msgspec.structs.replace(before, version=moved.ref.version, rows=before.rows + 1)
            expect = Preconditions(branch=found, epoch=grant.epoch, tables={before.id: before.version})
            publish(manifest, Publication(CommitKind.MUTATE, tables=(after,), expect=expect))

    return work


def main(arguments: Sequence[str] = ()) -> None:
    argparse.ArgumentParser(prog="python -m bench.micro publish", description=__doc__).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        works = {"bare append": bare_append(folder), "bare swap": bare_swap(folder)}
        for history in HISTORY:
            for fsync in (False, True):
                works[_label(fsync, history)] = our_write(folder, fsync=fsync, history=history)
        timings = interleaved(works, runs=RUNS)
    bare = timings["bare append"].median_ms + timings["bare swap"].median_ms
    ratios = {label: timing.median_ms / bare for label, timing in timings.items() if label.startswith("ours")}
    show("one-row write, median of interleaved runs", list(timings.values()))
    print(f"\n  bare append + bare swap {bare:29.2f} ms")
    for label, ratio in ratios.items():
        print(f"  {label:46s} {ratio:9.2f} times their sum   (target: at most 3)")
    save("micro-publish", {"timings": [timing._asdict() for timing in timings.values()], "bare_sum_ms": bare, "ratios": ratios})


def _label(fsync: bool, history: int) -> str:
    return f"ours, {history} commits of history, fsync {'on' if fsync else 'off'}"
