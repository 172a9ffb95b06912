"""The tour that `./demo` runs: a graph is made, written, raced for, branched, looked at in the past, killed, and heals itself.

Everything it prints it has just done, with real processes, on a graph in a temporary folder.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import omnigraph as og

SCHEMA = """\
node Person { name: String @key  born: I32?  field: String? }
node Paper  { title: String @key  year: I32? }
edge Wrote: Person -> Paper
edge Knows: Person -> Person { since: Date? }
"""

FIRST = """
query first() {
  insert Person { name: "Ada",   born: 1815, field: "mathematics" }
  insert Person { name: "Grace", born: 1906, field: "computing" }
  insert Paper  { title: "Notes on the Analytical Engine", year: 1843 }
  insert Wrote  { from: "Ada", to: "Notes on the Analytical Engine" }
  insert Knows  { from: "Ada", to: "Grace", since: date("1906-12-09") }
}
"""
ADD = "query add($name: String, $born: I32?) { insert Person { name: $name, born: $born } }"
RENAME = 'query rename($field: String) { update Person set { field: $field } where name = "Ada" }'
LEAVE = 'query leave() { delete Person where name = "Ada" }'
PROCESSES, WRITES = 4, 10


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        writer(*sys.argv[2:])
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        story(Path(folder) / "graph.omni")


def story(place: Path) -> None:
    say(f"A graph is made from a schema, at {place}")
    for line in SCHEMA.splitlines():
        tell(line)
    graph = og.init(place, schema=SCHEMA, actor="act-demo")
    show(graph)

    say("One mutation of five statements is one commit")
    first = graph.mutate(FIRST)
    tell(f"{first.affected_nodes} nodes and {first.affected_edges} edges")
    show(graph)

    say(f"{PROCESSES} processes write {WRITES} times each, all to main, all at once")
    began = time.perf_counter()
    acknowledged = race(place)
    tell(f"{acknowledged} writes acknowledged in {time.perf_counter() - began:.1f} s")
    chain = graph.commits()
    tell(f"main has {len(chain)} commits, in one chain: {all(a.parents == (b.id,) for a, b in pairwise(chain))}")

    say("A branch copies nothing; deleting Ada there takes her edges along, and main does not notice")
    graph.branches.create("what-if")
    gone = graph.mutate(LEAVE, branch="what-if")
    tell(f"{gone.affected_nodes} node and {gone.affected_edges} edges deleted on what-if")
    tell(f"people on main: {people(graph)}, on what-if: {people(graph, 'what-if')}")

    say("A look back")
    then = graph.snapshot(at=first.commit.id if first.commit else None)
    tell(f"at commit {then.commit_id} there were {rows(then, 'Person')} people; now there are {people(graph)}")

    say("A write whose condition no longer holds is refused")
    try:
        graph.mutate(RENAME, params={"field": "poetry"}, if_commit=then.commit_id)
    except og.PreconditionFailed as error:
        tell(f"{error.kind}: {error.message}")

    say("A writer is killed (kill -9) after its tables were committed and before anything was published")
    before = people(graph)
    kill_one(place)
    tell(f"nobody sees its row: still {people(graph)} people" if people(graph) == before else "half a write is visible!")
    graph.mutate(ADD, params={"name": "the next writer"})
    (healed,) = graph.recoveries()
    tell(f"the next write healed the graph: {healed.outcome}, then added its own: {people(graph)} people")
    tell(f"the whole graph checks out: {graph.verify() == []}")

    say("Try next: the tour in README.md, `omnigraph --help`, `python -m bench.micro publish`")


def writer(place: str, name: str) -> None:
    graph = og.open(place, actor=name)
    for n in range(WRITES):
        graph.mutate(ADD, params={"name": f"{name}-{n}", "born": 1900 + n})
        print("acknowledged", flush=True)


def race(place: Path) -> int:
    running = [start(place, f"process-{n}") for n in range(PROCESSES)]
    return sum(process.communicate()[0].count("acknowledged") for process in running)


def kill_one(place: Path) -> None:
    process = start(place, "victim", OMNIGRAPH_FAULT="write.committed=kill")
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def start(place: Path, name: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.tour", "write", str(place), name]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def people(graph: og.Graph, branch: str = "main") -> int:
    return rows(graph.snapshot(branch), "Person")


def rows(snapshot: og.Snapshot, type_name: str) -> int:
    table = snapshot.table(type_name)
    assert table is not None
    return table.rows


def show(graph: og.Graph) -> None:
    snapshot = graph.snapshot()
    counts = ", ".join(f"{table.type_name} {table.rows}" for table in snapshot.tables)
    tell(f"main is at commit {snapshot.commit_id}, version {snapshot.manifest_version}: {counts}")


def say(text: str) -> None:
    print(f"\n* {text}", flush=True)


def tell(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    main()
