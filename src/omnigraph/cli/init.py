"""`omnigraph init`: a schema file and a place -> a new graph."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli import output
from omnigraph.cli.engine import without_pandas
from omnigraph.cli.flags import PATH, Flags, global_flags, json_flag
from omnigraph.cli.scope import BIRTH, resolve


@click.command()
@click.argument("uri")
@click.option("--schema", "schema_file", type=PATH, metavar="FILE", required=True, help="The graph's schema (.pg).")
@json_flag
@global_flags
@click.pass_obj
def init(flags: Flags, *, uri: str, schema_file: Path, as_json: bool) -> None:
    """Make a graph at URI, a place that holds none."""
    from omnigraph.cli.files import read_source
    from omnigraph.cli.texts import shown_in

    target = resolve(flags, "init", BIRTH, uri=uri)
    schema = read_source(schema_file, what="schema file")
    with without_pandas():
        from omnigraph.graph import init as make  # after the cheap ways to fail

    with shown_in(schema):
        graph = make(target.uri, schema=schema.text, storage_options=flags.storage_options)
    if as_json:
        output.document({"uri": target.uri, "graph_id": graph.info().graph_id})
    else:
        output.line(f"initialized {target.uri}")
