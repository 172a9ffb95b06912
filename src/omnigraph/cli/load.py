"""`omnigraph load`: files -> one commit, or a list of problems. Chooses between this process and Spark; `spark load` shares the code."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from omnigraph.cli import output
from omnigraph.cli.files import atomic_file, check_output
from omnigraph.cli.numbers import WholeNumber
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import (
    DATA,
    PATH,
    F,
    Flags,
    GraphCommand,
    GraphTarget,
    command_flags,
    confirm,
    echo_write,
    external_blobs_flag,
    graph_argument,
    message_flag,
    open_graph,
    resolve,
    takes,
    token_flag,
)
from omnigraph.cli.shapes import commit_document
from omnigraph.errors import InvalidInput, Kind, OmniGraphError, StorageError, Unsupported
from omnigraph.grid import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.exec.load.batches import Data
    from omnigraph.exec.load.load import OnProgress, Progress
    from omnigraph.graph import Graph, LoadReceipt, Mode

LOCAL_BYTES: Final = 1_000_000_000
"""Up to this input size one process is faster: Spark does several times the work, and takes seconds to start (docs/design/spark.md)."""

_FLAGS: Final = (
    click.option(
        "--mode",
        required=True,
        type=click.Choice(["overwrite", "append", "merge", "upsert"]),
        help="For ids that exist: overwrite replaces the whole type, append refuses the load, merge replaces the rows, upsert only the "
        "properties that the records name.",
    ),
    click.option("--branch", default="main", show_default=True, help="The branch to load into."),
    click.option("--from", "from_", metavar="BRANCH", help="Create the branch from this one if it does not exist."),
    token_flag,
    message_flag,
    external_blobs_flag,
    click.option("--errors", "errors_file", type=PATH, metavar="FILE", help="Write the problems of the records to this file, as NDJSON."),
    click.option(
        "--report-errors", type=WholeNumber(min=1), metavar="N", default=100, show_default=True, help="The number of problems to report."
    ),
)

_DATA_SYNTAX: Final = "--data is NDJSON files, or TYPE=FILE once for each type"


class LoadRequest(NamedTuple):
    """The arguments of one load command."""

    data: tuple[str, ...]
    mode: str
    branch: str
    from_: str | None
    token: str | None
    message: str | None
    errors_file: Path | None
    report_errors: int
    as_json: bool
    external_blobs: tuple[str, ...]
    dry_run: bool = False
    engine: str = "auto"
    master: str | None = None


def loading_flags(command: F) -> F:
    """Add the options that `load` and `spark load` share."""
    for option in reversed(_FLAGS):
        command = option(command)
    return command


def run_load(flags: Flags, target: GraphTarget, command: str, request: LoadRequest) -> None:
    """Run the load and print the receipt."""
    on_spark, why = _on_spark(request)
    if why and not flags.quiet:
        output.note(why)
    if request.errors_file is not None:
        check_output(request.errors_file)
    source = None if on_spark else _source(request.data)
    if not request.dry_run:
        echo_write(target, command)
        if request.mode == "overwrite":
            confirm(target, f"{command} --mode overwrite", as_json=request.as_json)
    mode: Mode = "r" if request.dry_run else "rw"
    opened = open_graph(target, mode=mode, for_spark=on_spark, external_blobs=request.external_blobs)
    with opened as graph, Line("load", quiet=flags.quiet) as line:
        existed = request.branch in graph.branches.list()

        def on_progress(progress: Progress) -> None:
            line.draw(_progress_text(progress, line.seconds))

        try:
            receipt = _load_on_spark(graph, request, on_progress) if source is None else _load_locally(graph, source, request, on_progress)
        except OmniGraphError as refused:
            _write_problems(refused, request.errors_file)
            raise
    _print_receipt(target.uri, receipt, request, created_from=request.from_ if not existed and not request.dry_run else None)


def _load_locally(graph: Graph, source: Data, request: LoadRequest, on_progress: OnProgress) -> LoadReceipt:
    return graph.load(
        source,
        request.mode,
        branch=request.branch,
        from_branch=request.from_,
        token=request.token,
        message=request.message,
        dry_run=request.dry_run,
        report_errors=request.report_errors,
        on_progress=on_progress,
    )


def _load_on_spark(graph: Graph, request: LoadRequest, on_progress: OnProgress) -> LoadReceipt:
    from omnigraph.spark import GraphLoad

    with spark_session(request.master) as spark:
        load = GraphLoad(
            spark,
            graph,
            branch=request.branch,
            from_branch=request.from_,
            mode=request.mode,
            token=request.token,
            message=request.message,
        )
        load = load.tables(tables) if (tables := _tables(request.data)) else load.ndjson(*request.data)
        return load.commit(report_errors=request.report_errors, on_progress=on_progress)


# -- the engine


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
    """Open a Spark session that logs to a file, which is kept and named if Spark fails. With --verbose it logs to stderr."""
    import tempfile

    from omnigraph.spark import session

    if logging.getLogger().isEnabledFor(logging.DEBUG):
        yield session(master=master)
        return
    number, log = tempfile.mkstemp(prefix="omnigraph-spark-", suffix=".log")
    os.close(number)
    kept = False
    try:
        yield session(master=master, log_file=log)
    except (StorageError, Unsupported):  # errors in records or arguments are reported in full without the log
        kept = os.path.getsize(log) > 0
        raise
    finally:
        if kept:
            output.note(f"the log of Spark is in {log}")
        else:
            os.unlink(log)


def _on_spark(request: LoadRequest) -> tuple[bool, str]:
    """Return whether Spark runs the load, and a note on the choice. The note is empty if this process runs a small load."""
    if request.engine == "local":
        if request.master is not None:
            raise click.UsageError("--master needs Spark, and --engine local does not use it: leave out one of them")
        return False, ""
    if request.engine == "spark" or request.master is not None:
        _refuse_for_spark(request)
        return True, "engine: spark, as requested"
    total_bytes = sum(os.path.getsize(path) for path in _paths(request.data) if os.path.isfile(path))
    if total_bytes <= LOCAL_BYTES or request.dry_run:
        return False, ""
    size = f"{total_bytes / 1e9:,.1f} GB of input"
    if (missing := _missing_requirement()) is not None:
        return False, f"engine: local, although Spark suits {size}: {missing}"
    return True, f"engine: spark, because of {size}; --engine local loads it in one process"


def _refuse_for_spark(request: LoadRequest) -> None:
    from omnigraph.exec.load.parts import existing_file

    if "-" in request.data:
        message = "Spark loads files, because tasks read them in parallel; use --engine local for stdin"
        raise InvalidInput(Kind.INVALID_ARGUMENT, message, data=list(request.data))
    _tables(request.data)
    if request.dry_run:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "--dry-run runs in one process: leave out --engine spark and --master")
    for path in _paths(request.data):  # before Spark starts, which takes seconds
        existing_file(path)


def _missing_requirement() -> str | None:
    """Return which requirement of Spark is not installed, or None."""
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        return "pyspark is not installed"
    from omnigraph.spark.sessions import require_java

    try:
        require_java()
    except Unsupported as missing:
        return missing.message
    return None


# -- the input


def _source(data: tuple[str, ...]) -> Data:
    """Return the argument of `Graph.load`: paths, stdin, or a mapping of types to files."""
    if tables := _tables(data):
        return tables
    if data == ("-",):
        if sys.stdin is None:
            raise InvalidInput(Kind.INVALID_ARGUMENT, "stdin (-) cannot be loaded: it is closed", data=list(data))
        return sys.stdin.buffer
    if "-" in data:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "stdin (-) cannot be loaded together with files", data=list(data))
    return [Path(part) for part in data] if len(data) > 1 else data[0]


def _tables(data: tuple[str, ...]) -> dict[str, str]:
    """Return the files of TYPE=FILE arguments by type name. Empty for NDJSON files."""
    typed = [pair for part in data if (pair := _typed(part)) is not None]
    if typed and len(dict(typed)) != len(data):
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{_DATA_SYNTAX}: not both, and no type twice", data=list(data))
    return dict(typed)


def _paths(data: tuple[str, ...]) -> list[str]:
    return [typed[1] if (typed := _typed(part)) is not None else part for part in data]


def _typed(part: str) -> tuple[str, str] | None:
    """Split `Person=people.csv`, or `node:Likes=likes.csv` if an edge type has the same name. Returns None for a plain path."""
    name, equals, path = part.partition("=")
    kind, _, bare = name.rpartition(":")
    return (name, path) if equals and kind in ("", "node", "edge") and bare.isidentifier() else None


# -- output


def _progress_text(progress: Progress, seconds: float) -> str:
    of = f" of {progress.total_bytes / 1e6:,.0f}" if progress.total_bytes else ""
    speed = progress.rows / seconds if seconds > 0 else 0.0
    records = f"{counted(progress.rows, 'record')}, " if progress.rows else ""
    pace = f", {speed:,.0f} records/s" if progress.rows else ""
    return f"{progress.stage}: {records}{progress.read_bytes / 1e6:,.0f}{of} MB{pace}"


def _write_problems(refused: OmniGraphError, path: Path | None) -> None:
    """Write all problems to a file, one JSON object a line. Without a file, add them to the error message."""
    problems = refused.facts.get("problems")
    if not isinstance(problems, tuple):
        return
    import msgspec  # here: `--help` must not load it

    if path is not None:
        with atomic_file(path) as file:
            file.writelines(json.dumps(msgspec.to_builtins(problem)).encode() + b"\n" for problem in problems)
        output.note(f"{counted(len(problems), 'problem')} written to {path}")
        return
    for problem in problems[1:]:
        refused.add_note(f"{problem} [{problem.code}]")


def _print_receipt(uri: str, receipt: LoadReceipt, request: LoadRequest, *, created_from: str | None) -> None:
    if request.as_json:
        output.document(_document(uri, receipt, created_from=created_from))
        return
    did = "would load" if request.dry_run else "loaded"
    output.line(
        f"{did} {uri} on branch {request.branch} with {request.mode}: {counted(receipt.total, 'entity')} "
        f"across {counted(len(receipt.nodes), 'node type')} and {counted(len(receipt.edges), 'edge type')}"
    )
    if receipt.edges_without_id:
        output.line(f"{counted(receipt.edges_without_id, 'new edge')} without an id: a second load adds as many again")
    if created_from is not None:
        output.line(f"branch {request.branch} created from {created_from}")


def _document(uri: str, receipt: LoadReceipt, *, created_from: str | None) -> dict[str, object]:
    return {
        "uri": uri,
        "branch": receipt.branch,
        "mode": receipt.mode.value,
        **({"base_branch": created_from} if created_from is not None else {}),
        "branch_created": created_from is not None,
        "nodes": [{"name": name, "entities_loaded": rows} for name, rows in receipt.nodes.items()],
        "edges": [{"name": name, "entities_loaded": rows} for name, rows in receipt.edges.items()],
        "total_entities": receipt.total,
        "edges_without_id": receipt.edges_without_id,
        "commit": commit_document(receipt.commit) if receipt.commit is not None else None,
    }


@click.command(cls=GraphCommand)
@graph_argument
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="FILE",
    help="NDJSON (plain, gzip or zstd; - is stdin), or TYPE=FILE for Parquet or CSV of one type. May be repeated.",
)
@loading_flags
@click.option("--dry-run", is_flag=True, help="Read and check the input. Write nothing.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Run the load in this process or on Spark. auto uses Spark for more than 1 GB of input, if it is installed.",
)
@click.option("--master", metavar="URL", help="Where Spark runs: local[2], spark://host:7077, sc://host. Implies --engine spark.")
@takes(DATA)
@command_flags
def load(
    flags: Flags,
    *,
    uri: str | None,
    data: tuple[str, ...],
    mode: str,
    branch: str,
    from_: str | None,
    token: str | None,
    message: str | None,
    external_blobs: tuple[str, ...],
    dry_run: bool,
    errors_file: Path | None,
    report_errors: int,
    engine: str,
    master: str | None,
    as_json: bool,
) -> None:
    """Load files into a branch, in one commit."""
    target = resolve(flags, "load", DATA, uri=uri)
    request = LoadRequest(
        data, mode, branch, from_, token, message, errors_file, report_errors, as_json, external_blobs, dry_run, engine, master
    )
    run_load(flags, target, "load", request)
