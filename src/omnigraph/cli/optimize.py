"""`omnigraph optimize`: a graph -> one commit with compacted tables and indexes that cover them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import (
    DIRECT,
    Flags,
    GraphCommand,
    command_flags,
    echo_write,
    graph_argument,
    message_flag,
    open_graph,
    resolve,
    takes,
    token_flag,
)
from omnigraph.cli.shapes import optimized_document
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.exec.upkeep.optimize import OptimizedTable, OptimizeProgress


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch whose tables are compacted.")
@message_flag
@token_flag
@takes(DIRECT)
@command_flags
def optimize(flags: Flags, *, uri: str | None, branch: str, message: str | None, token: str | None, as_json: bool) -> None:
    """Compact tables and bring their indexes up to date."""
    target = resolve(flags, "optimize", DIRECT, uri=uri)
    echo_write(target, "optimize")
    with open_graph(target, mode="rw") as graph, Line("optimize", quiet=flags.quiet) as line:
        found = graph.optimize(branch, message=message, token=token, on_progress=lambda progress: line.draw(_progress(progress)))
    if as_json:
        output.document({"uri": target.uri, **optimized_document(found)})
        return
    output.line(f"optimize {target.uri} — {counted(len(found.tables), 'dataset')}")
    for table in found.tables:
        output.line(f"{table.table}: {_line(table)}")
        for index in table.pending:
            if index.reason is not None and index.reason != "no_rows":
                output.line(f"{table.table}: index on {index.column} pending ({index.reason.text})")


def _progress(progress: OptimizeProgress) -> str:
    work = counted(progress.fragments, "fragment") if progress.fragments else "indexes"
    return f"{progress.at} of {progress.of}: {progress.table}, {work}, {counted(progress.rows, 'row')}"


def _line(table: OptimizedTable) -> str:
    match table.state:
        case "needs_repair":
            return f"skipped (needs repair: the graph shows version {table.version}, and the table is at version {table.head})"
        case "inherited":
            return "skipped (belongs to another branch)"
        case "unchanged":
            return "no-op"
        case _:
            built = sum(index.state == "built" for index in table.indexes)
            indexes = f", {counted(built, 'index')}" if built else ""
            return f"frags {table.fragments_before} → {table.fragments_after}{indexes} ✓"
