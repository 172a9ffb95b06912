"""The publication core at work: a graph is born, written, raced for, branched, looked at in the past, killed and reopened.

`./demo` runs this. Everything it prints it has just done, with real processes, on a graph in a temporary folder.
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

import msgspec
import pyarrow as pa

from omnigraph.errors import OmniGraphError
from omnigraph.ids import MAIN, BranchName
from omnigraph.manifest.birth import NewTable, create_graph, new_table_id, open_graph
from omnigraph.manifest.branches import create_branch
from omnigraph.manifest.model import CommitKind, SchemaText
from omnigraph.manifest.publish import Expect, Publication, Published, hold, publish
from omnigraph.manifest.read import Manifest
from omnigraph.store import stage
from omnigraph.store.refs import create_ref, fresh_ref
from omnigraph.store.root import open_root
from omnigraph.store.tables import TableRef, Tables

PERSON = "node:Person"
COLUMNS = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("born", pa.int64())])
SCHEMA = SchemaText("node Person { born: I64 }\n", "{}")
PROCESSES, WRITES = 4, 10


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        writer(*sys.argv[2:])
        return
    with tempfile.TemporaryDirectory(prefix="omnigraph-demo-") as folder:
        story(Path(folder) / "graph.omni")


def story(place: Path) -> None:
    say(f"A graph is born, in one commit, at {place}")
    people = NewTable(new_table_id("0" * 16), PERSON, "nodes", COLUMNS)
    graph = create_graph(open_root(place), schema=SCHEMA, tables=[people], actor="ada")
    show(graph)

    say("Two people are written: staged, fenced, committed, and published by one compare-and-swap")
    first = write(graph, {"ada": 1815, "grace": 1906})
    show(graph)

    say(f"{PROCESSES} processes write {WRITES} times each, all to main, all at once")
    began = time.perf_counter()
    acknowledged = race(place)
    took = time.perf_counter() - began
    chain = graph.commits()
    straight = all(child.parents == (parent.id,) for child, parent in pairwise(chain))
    tell(f"{acknowledged} writes acknowledged in {took:.1f} s")
    tell(f"main has {len(chain)} commits, in one chain: {straight}; {people_in(graph)} people")

    say("A branch: nothing is copied, main does not notice")
    create_branch(graph, "work")
    write(graph, {"linus": 1969}, branch=BranchName("work"))
    tell(f"people on main: {people_in(graph)}, on work: {people_in(graph, branch=BranchName('work'))}")

    say(f"A look back, at commit {first.commit.id}")
    past = graph.snapshot(at=first.commit.id).state.table(PERSON)
    assert past is not None
    tell(f"there were {past.rows} people: {', '.join(sorted(names(graph, past.ref)))}")

    say("A writer is killed in the middle of a publish (kill -9)")
    before = graph.commits(limit=1)[0]
    kill_one(place)
    again = open_graph(open_root(place))
    tell(f"the graph opens at commit {again.commits(limit=1)[0].id}, as it was: {again.commits(limit=1)[0] == before}")
    tell("its table was committed but never published, so nobody sees its row; the next writer is told, and nothing is folded in:")
    try:
        write(again, {"mallory": 1999})
    except OmniGraphError as error:
        tell(f"  {error.kind.value}: {error.message}")

    say("Try next: the tour in README.md, and `python -m bench.micro publish`")


def writer(place: str, name: str) -> None:
    graph = open_graph(open_root(place))
    for n in range(WRITES):
        write(graph, {f"{name}-{n}": n})
        print("acknowledged", flush=True)


def race(place: Path) -> int:
    running = [start(place, f"process-{n}") for n in range(PROCESSES)]
    return sum(process.communicate()[0].count("acknowledged") for process in running)


def kill_one(place: Path) -> None:
    process = start(place, "victim", OMNIGRAPH_FAULT="publish.before_commit=kill")
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def start(place: Path, name: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.core", "write", str(place), name]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def write(graph: Manifest, born: dict[str, int], *, branch: BranchName = MAIN) -> Published:
    """Lock, stage, commit the table, publish. The write protocol adds the sidecar that lets the next writer heal a crash."""
    rows = pa.table({"id": list(born), "born": list(born.values())}, schema=COLUMNS)
    with hold(graph, branch) as grant:
        found, _, state = graph.look(branch)
        before = state.table(PERSON)
        assert before is not None
        table = Tables(graph.root).open(before.ref)
        if before.owner != found.native:  # the first touch of an inherited table forks it
            table = create_ref(table, fresh_ref(branch))
        staged = stage.upsert(table, rows)
        assert staged is not None
        moved = stage.commit(staged).ref
        rows_now = before.rows + staged.counts.inserted
        after = msgspec.structs.replace(before, native=moved.branch, owner=found.native, version=moved.version, rows=rows_now)
        expect = Expect(branch=found, epoch=grant.epoch, tables={before.id: before.version})
        return publish(graph, Publication(CommitKind.MUTATE, tables=(after,), expect=expect, actor="demo"), branch=branch)


def people_in(graph: Manifest, *, branch: BranchName = MAIN) -> int:
    row = graph.snapshot(branch).state.table(PERSON)
    assert row is not None
    return len(names(graph, row.ref))


def names(graph: Manifest, ref: TableRef) -> list[str]:
    return Tables(graph.root).open(ref).scan(["id"]).read_all().column("id").to_pylist()


def show(graph: Manifest) -> None:
    snapshot = graph.snapshot()
    for row in snapshot.state.tables.values():
        tell(f"main is at commit {snapshot.commit}, manifest version {snapshot.version}")
        tell(f"{row.alias} is at version {row.version} with {row.rows} rows")


def say(text: str) -> None:
    print(f"\n* {text}", flush=True)


def tell(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    main()
