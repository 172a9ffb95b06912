"""A process that fills a graph, or that waits for a line, then writes one-row upserts for some seconds and prints what it did as JSON.

It is run by its path, with the source tree to measure in PYTHONPATH, so that it can run on a tree that does not contain it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

import omnigraph as og

UPSERT = "query put($name: String, $n: I64) { insert Person { name: $name, n: $n } }"


def fill(place: str, rows: int) -> None:
    graph = og.init(place, schema="node Person { name: String @key  n: I64? }")
    graph.load(({"type": "Person", "data": {"name": f"person-{n:07d}", "n": n}} for n in range(rows)), mode="append")
    graph.ensure_indices()


def main(place: str, rows: int, seconds: float) -> None:
    graph = og.open(place)
    chance = random.Random(os.getpid())

    def write() -> None:
        graph.mutate(UPSERT, params={"name": f"person-{chance.randrange(rows):07d}", "n": 1})

    write()
    print("ready", flush=True)
    sys.stdin.readline()
    waits: list[float] = []
    before, began = os.times(), time.monotonic()
    while (now := time.monotonic()) < began + seconds:
        write()
        waits.append(time.monotonic() - now)
    after = os.times()
    answer = {
        "commits": len(waits),
        "seconds": time.monotonic() - began,
        "user": after.user - before.user,
        "system": after.system - before.system,
        "waits": waits,
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        fill(sys.argv[1], int(sys.argv[2]))
    else:
        main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
