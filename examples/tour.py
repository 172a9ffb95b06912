"""The tour that `./demo` runs: a graph of a museum is loaded by Spark, queried, branched and changed, and recovers from a killed writer.

Every line that it prints reports work that was just done, with real processes and real Spark. It works in the given directory (`.demo`
by default), which it empties first and leaves for inspection.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

import omnigraph as og
from examples.museum import make_data
from examples.printing import chapter, empty_folder, table, tell

HOME = Path(__file__).resolve().parent / "museum"
SCHEMA = (HOME / "schema.pg").read_text()
QUERIES = (HOME / "queries.gq").read_text()
NUMBER, MASTER = "1950.1348", "Ottilie Holm"
PROCESSES, WRITES = 3, 5
BAD = """\
{"type": "Work", "data": {"number": "2026.9001", "title": "Doors", "medium": "marzipan", "status": "in_store", "acquired": "2026-03-01"}}
{"type": "Work", "data": {"number": "tomorrow", "title": "", "medium": "oil", "status": "in_store", "acquired": "2026-03-01", "made": 3026}}
{"type": "Room", "data": {"code": "T99", "wing": "tower"}}
{"type": "Inspection", "data": {"day": "2026-02-30", "grade": "a", "inspector": "Ivo Roth"}}
{"edge": "Made", "from": "Ottilie Holm", "to": "2026.9001"
"""
DANGLING = """\
{"edge": "HangsIn", "from": "1950.1348", "to": "E02", "data": {"since": "2026-03-01"}}
{"edge": "HangsIn", "from": "1950.1382", "to": "the cellar", "data": {"since": "2026-03-01"}}
"""


def main() -> None:
    if sys.argv[1:2] == ["write"]:
        writer(*sys.argv[2:])
        return
    folder = empty_folder(Path(sys.argv[1] if len(sys.argv) > 1 else ".demo"), ours="museum.omni")
    began = time.monotonic()
    graph = create(folder)
    first = load_with_spark(graph, folder)
    run_queries(graph)
    write_concurrently(graph)
    branch_and_change(graph)
    read_the_past(graph, first)
    load_invalid_files(graph, folder)
    change_schema_on_a_branch(graph)
    kill_and_recover(graph)
    verify_and_export(graph, folder)
    tell(f"\nFinished in {time.monotonic() - began:.0f} s. The graph is in {folder / 'museum.omni'}; the next run deletes it.")
    next_steps(folder)


def create(folder: Path) -> og.Graph:
    with chapter("1. Create a graph from a schema"):
        graph = og.init(folder / "museum.omni", schema=SCHEMA, actor="act-demo")
        tell("examples/museum/schema.pg has types with keys, enums, ranges, patterns and cardinalities, for example")
        tell(SCHEMA[SCHEMA.index("node Work") : SCHEMA.index("node Room")].strip())
        tell(f"One Lance table for each type in {folder / 'museum.omni'}: {len(graph.snapshot().tables)} tables, all empty.")
    return graph


def load_with_spark(graph: og.Graph, folder: Path) -> str:
    """Load all records. Returns the id of the commit."""
    with chapter("2. Load a file of many types with Spark, in one commit"):
        file = folder / "museum.ndjson"
        count = make_data.write_ndjson(file)
        tell(f"{count:,} records, {file.stat().st_size / 1e6:.1f} MB of NDJSON, nodes and edges of {len(graph.snapshot().tables)} types")
        from omnigraph.exec.load.load import Progress
        from omnigraph.spark import GraphLoad, session

        began = time.monotonic()
        spark = session(master="local[2]", memory="1g", log_file=folder / "spark.log")
        tell(f"Spark started in {time.monotonic() - began:.1f} s (local[2]; the same job runs on a cluster)")
        began = time.monotonic()
        stages: list[str] = []

        def progress(now: Progress) -> None:
            if now.stage not in stages:
                stages.append(now.stage)
                tell(f"  {now.stage} ...")

        receipt = GraphLoad(spark, graph, mode="append", token="museum-1").ndjson(file).commit(on_progress=progress)
        spark.stop()
        assert receipt.commit is not None
        tell(f"one commit, {receipt.commit.id}, in {time.monotonic() - began:.1f} s, every record checked:")
        tell("  " + ", ".join(f"{name} {rows:,}" for name, rows in {**receipt.nodes, **receipt.edges}.items()))
    return receipt.commit.id


def run_queries(graph: og.Graph) -> None:
    with chapter("3. Run four queries (examples/museum/queries.gq)"):
        ask(graph, "A lookup by key", "work", number=NUMBER)
        ask(graph, "Two hops: borrowers of works of an artist", "borrowers", artist="Sibylle Falk")
        ask(
            graph,
            f"Up to three hops and a negation: pupils in the school of {MASTER} without a work on display",
            "hidden_school",
            master=MASTER,
        )
        ask(graph, "An aggregate: works on display in each wing", "walls")


def write_concurrently(graph: og.Graph) -> None:
    with chapter(f"4. Write to one branch from {PROCESSES} processes at once, {WRITES} times each"):
        before = len(graph.commits())
        running = [start(graph, f"process-{n}") for n in range(PROCESSES)]
        acknowledged = sum(process.communicate()[0].count("acknowledged") for process in running)
        tell(f"{acknowledged} writes acknowledged, {len(graph.commits()) - before} commits in one line of history, no retries by callers")


def branch_and_change(graph: og.Graph) -> None:
    with chapter("5. Create a branch without copying data; its changes are not visible on main"):
        graph.branches.create("new-hang")
        down = graph.mutate(QUERIES, "take_down", {"number": NUMBER}, branch="new-hang")
        up = graph.mutate(QUERIES, "hang", {"number": NUMBER, "room": "T01", "day": "2026-03-01"}, branch="new-hang")
        gone = graph.mutate(QUERIES, "forget", {"artist": MASTER}, branch="new-hang")
        tell(f"take_down {NUMBER}: {down.affected_edges} edge; hang it in T01: {up.affected_nodes} node, {up.affected_edges} edge")
        tell(f"forget {MASTER}: {gone.affected_nodes} node and its {gone.affected_edges} edges")
        for branch in ("main", "new-hang"):
            room = graph.query(QUERIES, "work", {"number": NUMBER}, branch=branch).rows[0]["room"]
            tell(f"  {branch:8s} shows the work in {room}, and {graph.snapshot(branch).table('Artist').rows} artists")  # type: ignore[union-attr]


def read_the_past(graph: og.Graph, first: str) -> None:
    with chapter("6. Read an older snapshot"):
        now = graph.snapshot()
        then = graph.snapshot(at=first)
        tell(
            f"main ({len(graph.commits())} commits) is at version {now.manifest_version}; after the load it was at {then.manifest_version}"
        )
        ask(graph, "Works by status, now", "statuses")
        ask(graph, f"Works by status at commit {first} (a version or a time works too)", "statuses", at=first)


def load_invalid_files(graph: og.Graph, folder: Path) -> None:
    with chapter("7. Load invalid files: nothing is written, and every problem is reported"):
        for name, text in (("bad.ndjson", BAD), ("dangling.ndjson", DANGLING)):
            file = folder / name
            file.write_text(text)
            before = graph.snapshot().commit_id
            try:
                graph.load(file, mode="append")
            except og.InvalidInput as error:
                problems = error.facts["problems"]
                assert isinstance(problems, tuple)
                tell(f"{name}: {len(problems)} problems, nothing was written: {graph.snapshot().commit_id == before}")
                for problem in problems:
                    tell(f"  line {problem.line} [{problem.code}] {problem.message}")


def change_schema_on_a_branch(graph: og.Graph) -> None:
    with chapter("8. Change the schema on a branch; main keeps its own"):
        text = SCHEMA.replace("porcelain, tapestry", "photograph, porcelain, tapestry").replace(
            "  value: I64?\n", "  value: I64?\n  provenance: String?\n"
        )
        graph.branches.create("photography")
        done = graph.apply_schema(text, branch="photography")
        for step in done.steps:
            tell(f"  {describe(step)}")
        insert = (
            'query add() { insert Work { number: "2026.1", title: "Harbour", medium: "photograph", status: "in_store", '
            'acquired: date("2026-03-01"), provenance: "gift" } }'
        )
        graph.mutate(insert, branch="photography")
        tell("a photograph is accepted on photography; on main:")
        try:
            graph.mutate(insert)
        except og.OmniGraphError as error:
            tell(f"  {error.kind}: {error.message}")


def kill_and_recover(graph: og.Graph) -> None:
    with chapter("9. Kill a writer (kill -9) between the commit of its tables and their publication"):
        before = rows_of(graph.snapshot(), "Work")
        victim = start(graph, "victim", OMNIGRAPH_FAULT="write.committed=kill")
        victim.communicate()
        assert victim.returncode == -signal.SIGKILL
        tell(f"the process died (signal {-victim.returncode}); readers see the old snapshot: {rows_of(graph.snapshot(), 'Work') == before}")
        graph.mutate(QUERIES, "acquire", work("survivor", 0))
        recovery = graph.recoveries()[0]
        touched = ", ".join(change.alias for change in recovery.tables)
        tell(f"the next writer completed the interrupted write ({recovery.outcome}, {touched}),")
        tell(f"then its own: {before} works before, {rows_of(graph.snapshot(), 'Work')} now. No repair command is needed.")


def verify_and_export(graph: og.Graph, folder: Path) -> None:
    with chapter("10. Verify, export, and load the export again"):
        findings = graph.verify()
        tell(f"verify: {findings or 'no errors in any table, branch or commit'}")
        file = folder / "export.ndjson"
        with file.open("w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" if not line.endswith("\n") else line for line in graph.export())
        again = og.init(folder / "again.omni", schema=SCHEMA)
        receipt = again.load(file, mode="append")
        same = {t.type_name: t.rows for t in again.snapshot().tables} == {t.type_name: t.rows for t in graph.snapshot().tables}
        tell(f"export: {file.stat().st_size / 1e6:.1f} MB of NDJSON")
        tell(f"loaded into a second graph: {receipt.total:,} records, the same rows: {same}")


def next_steps(folder: Path) -> None:
    place = folder / "museum.omni"
    print(f"""
Try next:
  source .venv/bin/activate
  omnigraph query walls --query examples/museum/queries.gq --store {place}
  omnigraph commit list {place}
  omnigraph branch list --uri {place}
  omnigraph load --data {folder / "bad.ndjson"} --mode append --store {place}
  python -m examples.museum.make_data /tmp/museum       # the same data, as NDJSON and as Parquet tables
  README.md, docs/user/spark.md""")


# -- parts


def ask(graph: og.Graph, title: str, name: str, *, at: str | None = None, **params: object) -> None:
    began = time.monotonic()
    result = graph.query(QUERIES, name, params, at=at)
    shown = ", ".join(f"{key} = {value!r}" for key, value in params.items())
    tell(f"\n{title}: {name}({shown})   {(time.monotonic() - began) * 1000:.0f} ms")
    table(result.rows)


def writer(place: str, name: str) -> None:
    """Add works in another process. Prints a line for each acknowledged write."""
    graph = og.open(place, actor=name)
    for n in range(WRITES):
        graph.mutate(QUERIES, "acquire", work(name, n))
        print("acknowledged", flush=True)


def work(who: str, n: int) -> dict[str, object]:
    number = f"2026.{sum(who.encode()) * 100 + n}"
    return {"number": number, "title": f"Gift {n + 1} of {who}", "artist": MASTER, "day": "2026-03-01"}


def start(graph: og.Graph, name: str, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "examples.tour", "write", graph.uri, name]
    return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)


def describe(step: msgspec.Struct) -> str:
    """Return a step of a schema plan as one line."""
    facts = msgspec.to_builtins(step)
    return f"{facts.pop('kind')}: " + ", ".join(str(value) for value in facts.values() if isinstance(value, str))


def rows_of(snapshot: og.Snapshot, type_name: str) -> int:
    state = snapshot.table(type_name)
    assert state is not None
    return state.rows


if __name__ == "__main__":
    main()
