"""Six processes that write one-row upserts to one branch -> commits per second, the wait for one commit, and its CPU time.

With `--beside PATH` another checkout is measured in turn, so that other load affects both equally. Each has a graph that it filled itself:
older ones do not read the graphs of newer ones.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.child import compiled
from bench.micro.write import ROWS
from bench.report import save

HERE = Path(__file__).resolve().parent.parent.parent


class Round(NamedTuple):
    """What all processes did in one round. CPU times are milliseconds for each commit."""

    tree: str
    commits_per_second: float
    median_wait_ms: float
    longest_wait_ms: float
    user_ms: float
    system_ms: float


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-P", str(HERE / "bench" / "writer.py"), *map(str, arguments)]


def environment(tree: Path) -> dict[str, str]:
    return {**compiled(), "PYTHONPATH": str(tree / "src")}


def measure(tree: Path, graph: Path, *, processes: int, rows: int, seconds: float) -> Round:
    children = [
        subprocess.Popen(command(graph, rows, seconds), env=environment(tree), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    pipes = [(child.stdin, child.stdout) for child in children if child.stdin is not None and child.stdout is not None]
    for _, out in pipes:
        if out.readline() != "ready\n":
            raise SystemExit("a writer failed")
    for into, _ in pipes:
        into.write("go\n")
        into.flush()
    answers = [json.loads(out.readline()) for _, out in pipes]
    for child in children:
        child.communicate()
    waits = [wait for answer in answers for wait in answer["waits"]]
    return Round(
        tree.name,
        len(waits) / max(answer["seconds"] for answer in answers),
        statistics.median(waits) * 1e3,
        max(waits) * 1e3,
        sum(answer["user"] for answer in answers) / len(waits) * 1e3,
        sum(answer["system"] for answer in answers) / len(waits) * 1e3,
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench.scenario writers", description=__doc__)
    parser.add_argument("--beside", type=Path, action="append", default=[], help="another checkout, measured in turn")
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=ROWS)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trees = [HERE, *(tree.resolve() for tree in asked.beside)]
        for at, tree in enumerate(trees):
            subprocess.run(command(folder / f"graph-{at}", asked.rows), env=environment(tree), check=True)
        rounds: list[Round] = []
        for _ in range(asked.rounds):
            for at, tree in enumerate(trees):
                shutil.copytree(folder / f"graph-{at}", folder / "copy")
                done = measure(tree, folder / "copy", processes=asked.processes, rows=asked.rows, seconds=asked.seconds)
                shutil.rmtree(folder / "copy")
                rounds.append(done)
                print(
                    f"  {done.tree:20s} {done.commits_per_second:7.1f} commits/s   wait {done.median_wait_ms:7.1f} ms, at most "
                    f"{done.longest_wait_ms:7.1f}   CPU {done.user_ms:6.1f} + {done.system_ms:5.1f} ms a commit",
                    flush=True,
                )
    print(f"\n{asked.processes} processes on one branch of {asked.rows:,} rows, {asked.rounds} rounds of {asked.seconds:g} s")
    for tree in dict.fromkeys(each.tree for each in rounds):
        rates = sorted(each.commits_per_second for each in rounds if each.tree == tree)
        print(f"  {tree:20s} median {statistics.median(rates):7.1f} commits/s   from {rates[0]:.1f} to {rates[-1]:.1f}")
    save("scenario-writers", {"rounds": [each._asdict() for each in rounds], "processes": asked.processes, "rows": asked.rows})
