"""`omnigraph branch`: make, list and remove branches."""

from __future__ import annotations

import click

from omnigraph.cli import output
from omnigraph.cli.flags import Flags, global_flags, json_flag
from omnigraph.cli.scope import DATA, Target, confirm, echo_write, opened, resolve

_uri = click.option("--uri", metavar="URI", help="The graph.")


@click.group()
@global_flags
def branch() -> None:
    """Make, list and remove branches."""


@branch.command()
@click.argument("name")
@click.option("--from", "from_", metavar="BRANCH", default="main", show_default=True, help="The branch it starts as.")
@_uri
@json_flag
@global_flags
@click.pass_obj
def create(flags: Flags, *, name: str, from_: str, uri: str | None, as_json: bool) -> None:
    """Make a branch. Nothing is copied."""
    target = _target(flags, uri)
    echo_write(target, "branch create")
    with opened(target, mode="rw") as graph:
        made = graph.branches.create(name, from_=from_)
    if as_json:
        output.document({"uri": target.uri, "from": from_, "name": made, "actor_id": flags.actor})
    else:
        output.line(f"created branch {made} from {from_}")


@branch.command("list")
@_uri
@json_flag
@global_flags
@click.pass_obj
def list_(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print the names of all branches, sorted."""
    with opened(_target(flags, uri), mode="r") as graph:
        names = sorted(graph.branches.list())
    if as_json:
        output.document({"branches": names})
    else:
        for name in names:
            output.line(name)


@branch.command()
@click.argument("name")
@_uri
@json_flag
@global_flags
@click.pass_obj
def delete(flags: Flags, *, name: str, uri: str | None, as_json: bool) -> None:
    """Remove a branch and the versions of tables that only it has."""
    target = _target(flags, uri)
    echo_write(target, "branch delete")
    confirm(target, "branch delete", as_json=as_json)
    with opened(target, mode="rw") as graph:
        graph.branches.delete(name)
    if as_json:
        output.document({"uri": target.uri, "name": name, "actor_id": flags.actor})
    else:
        output.line(f"deleted branch {name}")


def _target(flags: Flags, uri: str | None) -> Target:
    return resolve(flags, "branch", DATA, uri=uri, spelled="--uri")
