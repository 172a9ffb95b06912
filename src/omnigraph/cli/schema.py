"""`omnigraph schema`: commands about schemas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.flags import PATH, Flags, global_flags, json_flag
from omnigraph.cli.scope import LOCAL, admit

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog


@click.group()
@global_flags
def schema() -> None:
    """Look at schemas."""


@schema.command()
@click.argument("file", type=PATH)
@json_flag
@global_flags
@click.pass_obj
def check(flags: Flags, *, file: Path, as_json: bool) -> None:
    """Say whether a schema file has a meaning, and if not, where it goes wrong."""
    admit(flags, "schema check", LOCAL)
    catalog = catalog_of(file)
    counts = {"interfaces": len(catalog.interfaces), "nodes": len(catalog.nodes), "edges": len(catalog.edges)}
    if as_json:
        output.document({"status": "ok", "schema_source": {"kind": "file", "path": str(file)}, **counts})
    else:
        output.line(f"OK    schema {file}: {', '.join(f'{count} {what}' for what, count in counts.items())}")


def catalog_of(file: Path) -> Catalog:
    """The meaning of a schema file, or the error with its place drawn."""
    from omnigraph.catalog import build_catalog  # here and below: the compiler is not needed to print help
    from omnigraph.cli.files import read_source
    from omnigraph.ids import new_hex16
    from omnigraph.lang import located, parse_schema

    source = read_source(file, what="schema file")
    tree = parse_schema(source.text, name=source.name)
    with located(source):
        return build_catalog(tree, mint=new_hex16)
