"""`omnigraph commit changes`, `commit diff` and `log`: a graph and one or two of its commits, or an entity -> what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from omnigraph.cli import output
from omnigraph.cli.history import commit
from omnigraph.cli.numbers import WholeNumber
from omnigraph.cli.progress import until_first
from omnigraph.cli.scope import HISTORY, Flags, GraphCommand, command_flags, graph_argument, open_graph, resolve, takes
from omnigraph.cli.screen import Style
from omnigraph.cli.shapes import cause_document, change_document
from omnigraph.grid import cell_text

if TYPE_CHECKING:
    from omnigraph.exec.history.changes import EntityChange, EntityImage
    from omnigraph.manifest.model import Commit

_NULL: Final = "<null>"
_ABSENT: Final = "<absent>"


def change_filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--op", "ops", type=click.Choice(["insert", "update", "delete"]), multiple=True, help="Only these. May be repeated."),
        click.option("--type", "types", metavar="TYPE", multiple=True, help="Only entities of this type. May be repeated."),
        click.option("--kind", "kinds", type=click.Choice(["node", "edge"]), multiple=True, help="Only nodes, or only edges."),
    ):
        command = option(command)
    return command


@commit.command("changes")
@click.argument("commit_id")
@click.option(
    "--limit", type=WholeNumber(min=1), metavar="N", default=1_000, show_default=True, help="The number of changes of the page of a token."
)
@click.option("--page-token", metavar="TOKEN", help="Print only the page of this token. By default all changes are printed.")
@change_filters
@graph_argument
@takes(HISTORY)
@command_flags
def commit_changes(
    flags: Flags,
    *,
    commit_id: str,
    limit: int,
    page_token: str | None,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    uri: str | None,
    as_json: bool,
) -> None:
    """Print what a commit changed, compared with its first parent."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        more: str | None = None
        if page_token is None:
            cause = graph.commit(commit_id)
            changes = graph.commit_changes(commit_id, kinds=kinds or None, types=types or None, ops=ops or None)
        else:
            page = graph.changes.commit(commit_id, page=page_token, limit=limit, kinds=kinds or None, types=types or None, ops=ops or None)
            cause, changes, more = page.cause, iter(page.changes), page.next_page
        changes = until_first(changes, "changes", quiet=flags.quiet)
        if as_json:
            token = {"next_page_token": more} if more is not None else {}
            output.document({"cause": cause_document(cause), "changes": map(change_document, changes), **token})
            return
        print_cause(cause)
        print_changes(changes)
        output.fields({"next_page_token": more})


@commit.command("diff")
@click.argument("a")
@click.argument("b")
@change_filters
@graph_argument
@takes(HISTORY)
@command_flags
def commit_diff(
    flags: Flags, *, a: str, b: str, kinds: tuple[str, ...], types: tuple[str, ...], ops: tuple[str, ...], uri: str | None, as_json: bool
) -> None:
    """Print the changes that lead from A to B. Each is a branch, a commit, or a time, which stands for main at that time."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        changes = graph.diff(a, b, kinds=kinds or None, types=types or None, ops=ops or None)
        changes = until_first(changes, "diff", quiet=flags.quiet)
        if as_json:
            output.document({"from": a, "to": b, "changes": map(change_document, changes)})
        elif not print_changes(changes):
            output.line("(no changes)")


@click.command(cls=GraphCommand)
@click.argument("type_name", metavar="TYPE")
@click.argument("entity_id", metavar="ID")
@click.option("--branch", default="main", show_default=True, help="The branch whose history is printed.")
@click.option("--kind", type=click.Choice(["node", "edge"]), help="Needed only if a node type and an edge type are called TYPE.")
@graph_argument
@takes(HISTORY)
@command_flags
def log(flags: Flags, *, type_name: str, entity_id: str, branch: str, kind: str | None, uri: str | None, as_json: bool) -> None:
    """Print the history of one entity, newest first. It says who changed it, when, and from what to what."""
    with open_graph(resolve(flags, "log", HISTORY, uri=uri), mode="r") as graph:
        entries = until_first(graph.log(type_name, entity_id, branch, kind=kind), "log", quiet=flags.quiet)
        if as_json:
            output.document(
                {"entries": ({"cause": cause_document(entry.commit), "change": change_document(entry.change)} for entry in entries)}
            )
            return
        some = False
        for entry in entries:
            some, made = True, entry.commit
            said = f" {made.message}" if made.message else ""
            output.line(f"{made.id} {made.created_at.isoformat()} {made.branch} {made.actor or '-'}{said}")
            print_changes([entry.change], indent="  ")
        if not some:
            output.line("(no commits)")


def print_cause(commit: Commit) -> None:
    names = {"graph_commit_id": "commit", "authored_branch": "branch", "parent_commit_id": "parent", "actor_id": "actor"}
    names["merged_parent_commit_id"] = "merged_parent"
    cause = {**cause_document(commit), "authored_at": commit.created_at.isoformat()}
    output.fields({names.get(name, name): value for name, value in cause.items()})


_STYLES: Final = {"insert": Style.GREEN, "update": Style.YELLOW, "delete": Style.RED}


def print_changes(changes: Iterable[EntityChange], *, indent: str = "") -> bool:
    """Print changes, and return whether there were any. On a terminal the first line of each has the colour of its operation, and long
    values are cut.
    """
    some = False
    for change in changes:
        some = True
        for at, line in enumerate(change_lines(change)):
            output.cut_line(f"{indent}{line}", None if at else _STYLES[change.op])
    return some


def change_lines(change: EntityChange) -> Iterator[str]:
    """Yield a change as lines: what happened to which entity, the nodes of an edge, and each property that differs."""
    yield f"{change.op} {change.kind} {change.type_name} {change.id}"
    ends = [f"{image.endpoints.from_} -> {image.endpoints.to}" for image in (change.before, change.after) if image and image.endpoints]
    if ends:
        yield f"  {' => '.join(dict.fromkeys(ends))}"
    before, after = _properties(change.before), _properties(change.after)
    for name in {**before, **after}:
        if change.before is None:
            yield f"  + {name}: {_text(after[name])}"
        elif change.after is None:
            yield f"  - {name}: {_text(before[name])}"
        elif before.get(name, _ABSENT) != after.get(name, _ABSENT):
            yield f"  {name}: {_text(before.get(name, _ABSENT))} -> {_text(after.get(name, _ABSENT))}"


def _properties(image: EntityImage | None) -> dict[str, Any]:
    return dict(image.properties) if image is not None else {}


def _text(value: object) -> str:
    return _NULL if value is None else cell_text(value)
