"""`omnigraph info`: facts about a graph."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import DIRECT, opened, resolve


@click.command()
@click.argument("uri", required=False)
@json_flag
@global_flags
@click.pass_obj
def info(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print where a graph is, its format, and how much it holds on main."""
    with opened(resolve(flags, "info", DIRECT, uri=uri), mode="r") as graph:
        found = graph.info()
    facts = {
        "uri": found.uri,
        "graph_id": found.graph_id,
        "format": found.format,
        "fsync": found.fsync,
        "branches": found.branches,
        "commits": found.commits,
        "python": found.python,
    }
    tables = dict(sorted(found.tables.items()))
    if as_json:
        output.document({**facts, "tables": tables})
        return
    output.fields({**facts, **tables})
