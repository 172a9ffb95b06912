"""`omnigraph load`: files -> one commit, or a list of what is wrong with them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.flags import PATH, Flags, global_flags, json_flag
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DATA, confirm, echo_write, opened, resolve
from omnigraph.cli.shapes import commit_document
from omnigraph.errors import InvalidInput, Kind, OmniGraphError

if TYPE_CHECKING:
    from omnigraph.exec.load.load import Progress
    from omnigraph.exec.load.read import Data
    from omnigraph.graph import LoadReceipt


@click.command()
@click.argument("uri", required=False)
@click.option(
    "--data",
    required=True,
    multiple=True,
    metavar="FILE",
    help="NDJSON (plain, gzip or zstd; - is stdin), or TYPE=FILE for one type's Parquet or CSV. TYPE=FILE may be given many times.",
)
@click.option(
    "--mode",
    required=True,
    type=click.Choice(["overwrite", "append", "merge"]),
    help="What becomes of rows whose ids are there: replaced with their whole type, refused, or replaced one by one.",
)
@click.option("--branch", default="main", show_default=True, help="The branch to load into.")
@click.option("--from", "from_", metavar="BRANCH", help="Make the branch from this one if it is not there.")
@click.option("--token", help="A name for this load: run again with the same one, it answers with the first commit and writes nothing.")
@click.option("--dry-run", is_flag=True, help="Read and check everything, write nothing.")
@click.option("--errors", "errors_file", type=PATH, metavar="FILE", help="Where to write what is wrong with the records, as NDJSON.")
@click.option("--report-errors", type=click.IntRange(min=1), default=100, show_default=True, help="How many problems to report.")
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
    as_json: bool,
) -> None:
    """Load files into a branch, in one commit."""
    target = resolve(flags, "load", DATA, uri=uri)
    source = _source(data)
    if not dry_run:
        echo_write(target, "load")
        if mode == "overwrite":
            confirm(target, "load --mode overwrite", as_json=as_json)
    with opened(target, mode="r" if dry_run else "rw") as graph, Line(quiet=flags.quiet) as line:
        existed = branch in graph.branches.list()
        try:
            receipt = graph.load(
                source,
                mode,
                branch=branch,
                from_branch=from_,
                token=token,
                dry_run=dry_run,
                report_errors=report_errors,
                on_progress=lambda progress: line.draw(_drawn(progress, line.seconds)),
            )
        except OmniGraphError as refused:
            _write_problems(refused, errors_file)
            raise
    made_from = from_ if not existed and not dry_run else None
    if as_json:
        output.document(_document(target.uri, receipt, made_from=made_from))
        return
    did = "would load" if dry_run else "loaded"
    output.line(
        f"{did} {target.uri} on branch {branch} with {mode}: {receipt.total} entities across {len(receipt.nodes)} node types "
        f"and {len(receipt.edges)} edge types"
    )
    if made_from is not None:
        output.line(f"branch {branch} created from {made_from}")


def _source(data: tuple[str, ...]) -> Data:
    """What `Graph.load` takes: one path, stdin, or a mapping of types to files."""
    typed = {name: path for name, equals, path in (part.partition("=") for part in data) if equals and name.isidentifier()}
    if len(typed) == len(data):
        return typed
    if typed or len(data) > 1:
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, "--data is one NDJSON file, or TYPE=FILE as often as there are types; these are neither", data=list(data)
        )
    return sys.stdin.buffer if data[0] == "-" else data[0]


def _drawn(progress: Progress, seconds: float) -> str:
    of = f" of {progress.total_bytes / 1e6:,.0f}" if progress.total_bytes else ""
    speed = progress.rows / seconds if seconds > 0 else 0.0
    return f"{progress.stage}: {progress.rows:,} records, {progress.read_bytes / 1e6:,.0f}{of} MB, {speed:,.0f} records/s"


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
