"""`omnigraph load`: files -> one commit by the engine that suits them, or a list of problems. `spark load` shares all but its options."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from omnigraph.cli import output
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DATA, PATH, F, Flags, Target, confirm, echo_write, global_flags, json_flag, opened, resolve
from omnigraph.cli.shapes import commit_document
from omnigraph.cli.spark_session import spark_session
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, Unsupported

if TYPE_CHECKING:
    from omnigraph.exec.load.load import OnProgress, Progress
    from omnigraph.exec.load.read import Data
    from omnigraph.graph import Graph, LoadReceipt

LOCAL_BYTES: Final = 1_000_000_000
"""Up to so much input one process is quicker: Spark costs several times the work, and seconds before it begins (docs/design/spark.md)."""

_FLAGS: Final = (
    click.option(
        "--mode",
        required=True,
        type=click.Choice(["overwrite", "append", "merge"]),
        help="What becomes of rows whose ids are there: replaced with their whole type, refused, or replaced one by one.",
    ),
    click.option("--branch", default="main", show_default=True, help="The branch to load into."),
    click.option("--from", "from_", metavar="BRANCH", help="Make the branch from this one if it is not there."),
    click.option("--token", help="A name for this load: run again with the same one, it answers with the first commit and writes nothing."),
    click.option("--errors", "errors_file", type=PATH, metavar="FILE", help="Where to write what is wrong with the records, as NDJSON."),
    click.option("--report-errors", type=click.IntRange(min=1), default=100, show_default=True, help="How many problems to report."),
)

_MEANT: Final = "--data is one NDJSON file, or TYPE=FILE as often as there are types"


class Wanted(NamedTuple):
    """A load as the command line asks for it."""

    data: tuple[str, ...]
    mode: str
    branch: str
    from_: str | None
    token: str | None
    errors_file: Path | None
    report_errors: int
    as_json: bool
    dry_run: bool = False
    engine: str = "auto"
    master: str | None = None


def loading_flags(command: F) -> F:
    """What both commands take."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


def land(flags: Flags, target: Target, command: str, wanted: Wanted) -> None:
    """Run the load and say what became of it."""
    on_spark, why = _on_spark(wanted)
    if why and not flags.quiet:
        output.note(why)
    source = None if on_spark else _source(wanted.data)
    if not wanted.dry_run:
        echo_write(target, command)
        if wanted.mode == "overwrite":
            confirm(target, f"{command} --mode overwrite", as_json=wanted.as_json)
    with opened(target, mode="r" if wanted.dry_run else "rw", for_spark=on_spark) as graph, Line(quiet=flags.quiet) as line:
        existed = wanted.branch in graph.branches.list()

        def on_progress(progress: Progress) -> None:
            line.draw(_drawn(progress, line.seconds))

        try:
            receipt = _by_spark(graph, wanted, on_progress) if source is None else _here(graph, source, wanted, on_progress)
        except OmniGraphError as refused:
            _write_problems(refused, wanted.errors_file)
            raise
    _say(target.uri, receipt, wanted, made_from=wanted.from_ if not existed and not wanted.dry_run else None)


def _here(graph: Graph, source: Data, wanted: Wanted, on_progress: OnProgress) -> LoadReceipt:
    return graph.load(
        source,
        wanted.mode,
        branch=wanted.branch,
        from_branch=wanted.from_,
        token=wanted.token,
        dry_run=wanted.dry_run,
        report_errors=wanted.report_errors,
        on_progress=on_progress,
    )


def _by_spark(graph: Graph, wanted: Wanted, on_progress: OnProgress) -> LoadReceipt:
    from omnigraph.spark import GraphLoad

    with spark_session(wanted.master) as spark:
        load = GraphLoad(spark, graph, branch=wanted.branch, from_branch=wanted.from_, mode=wanted.mode, token=wanted.token)
        load = load.tables(tables) if (tables := _tables(wanted.data)) else load.ndjson(*wanted.data)
        return load.commit(report_errors=wanted.report_errors, on_progress=on_progress)


# -- which engine


def _on_spark(wanted: Wanted) -> tuple[bool, str]:
    """Whether Spark does it, and what to say about it: nothing when one process does a small load, as anybody would expect."""
    if wanted.engine == "local":
        if wanted.master is not None:
            raise InvalidInput(Kind.INVALID_ARGUMENT, "--master says where Spark runs, and --engine local that it does not")
        return False, ""
    if wanted.engine == "spark" or wanted.master is not None:
        _refuse_for_spark(wanted)
        return True, "engine: spark, as asked for"
    total_bytes = sum(os.path.getsize(path) for path in _paths(wanted.data) if os.path.isfile(path))
    if total_bytes <= LOCAL_BYTES or wanted.dry_run:
        return False, ""
    size = f"{total_bytes / 1e9:,.1f} GB of input"
    if (lacking := _lacking()) is not None:
        return False, f"engine: local, though {size} would suit Spark: {lacking}"
    return True, f"engine: spark, because of {size}; --engine local loads it in one process"


def _refuse_for_spark(wanted: Wanted) -> None:
    from omnigraph.exec.load.parts import existing_file

    if "-" in wanted.data:
        message = "Spark loads files, which many can read side by side; stdin is loaded by --engine local"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, data=list(wanted.data))
    _tables(wanted.data)
    if wanted.dry_run:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "--dry-run reads and checks in one process: leave out --engine spark and --master")
    for path in _paths(wanted.data):  # Spark takes seconds to start, and would find out only then
        existing_file(path)


def _lacking() -> str | None:
    """What Spark would need and is not here."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    from omnigraph.spark.sessions import require_java

    try:
        require_java()
    except Unsupported as missing:
        return missing.message
    return None


# -- what is loaded


def _source(data: tuple[str, ...]) -> Data:
    """What `Graph.load` takes: one path, stdin, or a mapping of types to files."""
    if tables := _tables(data):
        return tables
    if len(data) > 1:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{_MEANT}, and with --engine spark as many NDJSON files as there are", data=list(data))
    return sys.stdin.buffer if data[0] == "-" else data[0]


def _tables(data: tuple[str, ...]) -> dict[str, str]:
    """The files by the names of their types, if that is what they are."""
    typed = [pair for part in data if (pair := _typed(part)) is not None]
    if typed and len(dict(typed)) != len(data):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{_MEANT}: not both, and no type twice", data=list(data))
    return dict(typed)


def _paths(data: tuple[str, ...]) -> list[str]:
    return [typed[1] if (typed := _typed(part)) is not None else part for part in data]


def _typed(part: str) -> tuple[str, str] | None:
    """`Person=people.csv`, and `node:Likes=likes.csv` where an edge type has the name too."""
    name, equals, path = part.partition("=")
    kind, _, bare = name.rpartition(":")
    return (name, path) if equals and kind in ("", "node", "edge") and bare.isidentifier() else None


# -- what is said


def _drawn(progress: Progress, seconds: float) -> str:
    of = f" of {progress.total_bytes / 1e6:,.0f}" if progress.total_bytes else ""
    speed = progress.rows / seconds if seconds > 0 else 0.0
    records = f"{progress.rows:,} records, " if progress.rows else ""
    pace = f", {speed:,.0f} records/s" if progress.rows else ""
    return f"{progress.stage}: {records}{progress.read_bytes / 1e6:,.0f}{of} MB{pace}"


def _write_problems(refused: OmniGraphError, path: Path | None) -> None:
    """The whole list, one problem a line: to a file for programs, else below the error for the person."""
    problems = refused.facts.get("problems")
    if not isinstance(problems, tuple):
        return
    import msgspec  # here: help must not pay for it

    if path is not None:
        path.write_text("".join(json.dumps(msgspec.to_builtins(problem)) + "\n" for problem in problems), "utf-8")
        output.note(f"{len(problems)} problems written to {path}")
        return
    for problem in problems[1:]:
        refused.add_note(f"{problem} [{problem.code}]")


def _say(uri: str, receipt: LoadReceipt, wanted: Wanted, *, made_from: str | None) -> None:
    if wanted.as_json:
        output.document(_document(uri, receipt, made_from=made_from))
        return
    did = "would load" if wanted.dry_run else "loaded"
    output.line(
        f"{did} {uri} on branch {wanted.branch} with {wanted.mode}: {receipt.total} entities across {len(receipt.nodes)} node types "
        f"and {len(receipt.edges)} edge types"
    )
    if made_from is not None:
        output.line(f"branch {wanted.branch} created from {made_from}")


def _document(uri: str, receipt: LoadReceipt, *, made_from: str | None) -> dict[str, object]:
    return {
        "uri": uri,
        "branch": receipt.branch,
        "mode": receipt.mode.value,
        **({"base_branch": made_from} if made_from is not None else {}),
        "branch_created": made_from is not None,
        "nodes": [{"name": name, "entities_loaded": rows} for name, rows in receipt.nodes.items()],
        "edges": [{"name": name, "entities_loaded": rows} for name, rows in receipt.edges.items()],
        "total_entities": receipt.total,
        "commit": commit_document(receipt.commit) if receipt.commit is not None else None,
    }


@click.command()
@click.argument("uri", required=False)
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="FILE",
    help="NDJSON (plain, gzip or zstd; - is stdin), or TYPE=FILE for one type's Parquet or CSV. TYPE=FILE may be given many times.",
)
@loading_flags
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Who does the work: this process, or Spark. auto: Spark past 1 GB of input, if it is installed.",
)
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host. Means --engine spark.")
@json_flag
@global_flags
@click.pass_obj
def load(
    flags: Flags,
    *,
    uri: str | None,
    data: tuple[str, ...],
    mode: str,
    branch: str,
    from_: str | None,
    token: str | None,
    dry_run: bool,
    errors_file: Path | None,
    report_errors: int,
    engine: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Load files into a branch, in one commit."""
    target = resolve(flags, "load", DATA, uri=uri)
    wanted = Wanted(data, mode, branch, from_, token, errors_file, report_errors, as_json, dry_run, engine, master)
    land(flags, target, "load", wanted)
