"""`omnigraph commit`: the history of a branch, and one commit of it."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import HISTORY, opened, resolve
from omnigraph.cli.shapes import commit_document


@click.group()
@global_flags
def commit() -> None:
    """Look at the history of a graph."""


@commit.command("list")
@click.argument("uri", required=False)
@click.option("--branch", default="main", show_default=True, help="Whose history.")
@json_flag
@global_flags
@click.pass_obj
def list_(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Print the commits of a branch, the newest first."""
    with opened(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        commits = graph.commits(branch)
    if as_json:
        output.document({"commits": [commit_document(found) for found in commits]})
        return
    for found in commits:
        actor = f" actor={found.actor}" if found.actor is not None else ""
        output.line(f"{found.id} graph_branch={found.branch} graph_manifest_version={found.manifest_version}{actor}")


@commit.command()
@click.argument("commit_id")
@click.option("--uri", metavar="URI", help="The graph.")
@json_flag
@global_flags
@click.pass_obj
def show(flags: Flags, *, commit_id: str, uri: str | None, as_json: bool) -> None:
    """Print one commit, of any branch."""
    with opened(resolve(flags, "commit", HISTORY, uri=uri, spelled="--uri"), mode="r") as graph:
        found = graph.commit(commit_id)
    if as_json:
        output.document(commit_document(found))
        return
    output.fields({**commit_document(found), "graph_branch": found.branch, "created_at": found.created_at.isoformat()})
