"""`omnigraph ensure-indices`: a branch -> the indexes its schema asks for, built in one commit, and what is still to come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DATA, echo_write, opened, resolve
from omnigraph.cli.shapes import indexes_document

if TYPE_CHECKING:
    from omnigraph.exec.indices import ColumnIndex, IndexProgress


@click.command("ensure-indices")
@click.argument("uri", required=False)
@click.option("--branch", default="main", show_default=True, help="The branch whose tables are indexed.")
@json_flag
@global_flags
@click.pass_obj
def ensure_indices(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Build the indexes that the schema asks for and the tables lack."""
    target = resolve(flags, "ensure-indices", DATA, uri=uri)
    echo_write(target, "ensure-indices")
    with opened(target, mode="rw") as graph, Line(quiet=flags.quiet) as line:
        found = graph.ensure_indices(branch, on_progress=lambda progress: line.draw(_drawn(progress)))
    if as_json:
        output.document({"uri": target.uri, **indexes_document(found)})
        return
    output.line(
        f"indexes of {target.uri} on branch {branch}: {len(found.built)} built, {len(found.present)} present, {len(found.pending)} pending"
    )
    for index in found.indexes:
        output.line(_shown(index))


def _drawn(progress: IndexProgress) -> str:
    return f"{progress.at} of {progress.of}: {progress.table} ({', '.join(progress.columns)}), {progress.rows:,} rows"


def _shown(index: ColumnIndex) -> str:
    line = f"{index.state:<7} {index.kind:<9} {index.table}.{index.column}"
    if index.reason is not None:
        return f"{line}: {index.reason.text}"
    if index.damage is not None:
        return f"{line}: instead of a damaged one ({index.damage})"
    return f"{line}: {index.uncovered_rows} rows not covered yet" if index.uncovered_rows else line
