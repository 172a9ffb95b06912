"""`omnigraph recovery`: interrupted writes, and what became of them."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import DIRECT, opened, resolve
from omnigraph.cli.shapes import recovery_document


@click.group()
@global_flags
def recovery() -> None:
    """Look at interrupted writes, and what became of them."""


@recovery.command("list")
@click.argument("uri", required=False)
@json_flag
@global_flags
@click.pass_obj
def list_(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print the interrupted writes that somebody finished or undid, the newest first."""
    with opened(resolve(flags, "recovery", DIRECT, uri=uri), mode="r") as graph:
        found = graph.recoveries()
    if as_json:
        output.document({"recoveries": [recovery_document(one) for one in found]})
        return
    for one in found:
        actor = f" actor={one.actor}" if one.actor is not None else ""
        output.line(
            f"{one.at.isoformat()} {one.outcome} {one.writer} graph_branch={one.branch} "
            f"commit={one.commit_id} operation={one.operation_id}{actor}"
        )
    if not found:
        output.line("(no interrupted writes)")
