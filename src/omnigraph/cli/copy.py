"""`omnigraph copy`: a graph -> a second one at an empty place that shows the same."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import COPYING, Target, echo_write, opened, resolve


@click.command()
@click.argument("source")
@click.argument("target")
@click.option(
    "--branch", help="Copy only what this branch shows; it becomes the copy's main. Every branch is copied unless told otherwise."
)
@json_flag
@global_flags
@click.pass_obj
def copy(flags: Flags, *, source: str, target: str, branch: str | None, as_json: bool) -> None:
    """Copy a graph, with its branches and without its history, to an empty place."""
    there = resolve(flags, "copy", COPYING, uri=source, spelled="SOURCE")
    place = resolve(flags, "copy", COPYING, uri=target, spelled="TARGET")
    echo_write(Target(place.uri, flags), "copy")
    with opened(there, mode="r") as graph:
        made = graph.copy_to(place.uri, branch=branch, storage_options=flags.storage_options)
    info = made.info()
    if as_json:
        output.document({"uri": place.uri, "source": there.uri, "graph_id": info.graph_id, "branches": made.branches.list()})
    else:
        output.line(f"copied {there.uri} to {place.uri}: {info.branches} branches, {sum(info.tables.values())} entities on main")
