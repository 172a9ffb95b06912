"""`omnigraph branch`, `tag`, `commit` and `snapshot`: a graph -> its branches, tags, commits and table versions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from omnigraph.cli import output
from omnigraph.cli.commit_graph import Node, draw
from omnigraph.cli.numbers import WholeNumber
from omnigraph.cli.queries import parse_moment
from omnigraph.cli.scope import (
    DATA,
    HISTORY,
    READ,
    Flags,
    GraphCommand,
    GraphGroup,
    GraphTarget,
    command_flags,
    confirm,
    echo_write,
    global_flags,
    graph_argument,
    open_graph,
    resolve,
    takes,
)
from omnigraph.cli.shapes import commit_document, counts_text, described_commit, snapshot_document, tag_document
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.answers import CommitGraph
    from omnigraph.manifest.model import Commit


@click.group(cls=GraphGroup)
@global_flags
def branch() -> None:
    """Create, list and delete branches."""


@branch.command("create")
@click.argument("name")
@click.option("--from", "from_", metavar="BRANCH", default="main", show_default=True, help="The branch to start from.")
@click.option("--at", metavar="ID", help="Start from the past: a commit id, a tag, or a manifest version or a time of --from.")
@graph_argument
@takes(DATA)
@command_flags
def branch_create(flags: Flags, *, name: str, from_: str, at: str | None, uri: str | None, as_json: bool) -> None:
    """Create a branch. No data is copied."""
    target = _target(flags, uri)
    echo_write(target, "branch create")
    with open_graph(target, mode="rw") as graph:
        made = graph.branches.create(name, from_=from_, at=parse_moment(at))
        shown = {} if at is None else {"graph_commit_id": graph.snapshot(made).commit_id}
    if as_json:
        output.document({"uri": target.uri, "from": from_, "name": made, **shown, "actor_id": flags.actor})
    else:
        output.line(f"created branch {made} from {' '.join(shown.values()) or from_}")


@branch.command("list")
@graph_argument
@takes(READ)
@command_flags
def branch_list(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print the names of all branches, sorted."""
    with open_graph(resolve(flags, "branch", READ, uri=uri), mode="r") as graph:
        names = sorted(graph.branches.list())
    if as_json:
        output.document({"branches": names})
    else:
        for name in names:
            output.line(name)


@branch.command("delete")
@click.argument("name")
@graph_argument
@takes(DATA)
@command_flags
def branch_delete(flags: Flags, *, name: str, uri: str | None, as_json: bool) -> None:
    """Delete a branch and the table versions that only it uses."""
    target = _target(flags, uri)
    echo_write(target, "branch delete")
    confirm(target, "branch delete", as_json=as_json)
    with open_graph(target, mode="rw") as graph:
        graph.branches.delete(name)
    if as_json:
        output.document({"uri": target.uri, "name": name, "actor_id": flags.actor})
    else:
        output.line(f"deleted branch {name}")


def _target(flags: Flags, uri: str | None) -> GraphTarget:
    return resolve(flags, "branch", DATA, uri=uri)


@click.group(cls=GraphGroup)
@global_flags
def tag() -> None:
    """Create, list and delete tags: names of commits."""


@tag.command("create")
@click.argument("name")
@click.option("--branch", default="main", show_default=True, help="The branch whose newest commit is tagged.")
@click.option("--at", metavar="ID", help="The commit to tag: a commit id, a tag, or a manifest version or a time of --branch.")
@click.option("--message", metavar="TEXT", help="A text that is stored with the tag.")
@graph_argument
@takes(DATA)
@command_flags
def tag_create(flags: Flags, *, name: str, branch: str, at: str | None, message: str | None, uri: str | None, as_json: bool) -> None:
    """Give a commit a name. As long as the tag exists, what the commit shows is kept."""
    target = resolve(flags, "tag", DATA, uri=uri)
    echo_write(target, "tag create")
    with open_graph(target, mode="rw") as graph:
        made = graph.tags.create(name, branch=branch, at=parse_moment(at), message=message)
    if as_json:
        output.document({"uri": target.uri, **tag_document(made)})
    else:
        output.line(f"tagged commit {made.commit_id} as {made.name}")


@tag.command("list")
@graph_argument
@takes(HISTORY)
@command_flags
def tag_list(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print all tags, sorted by name."""
    with open_graph(resolve(flags, "tag", HISTORY, uri=uri), mode="r") as graph:
        tags = graph.tags.list()
    if as_json:
        output.document({"tags": [tag_document(found) for found in tags]})
        return
    for found in tags:
        message = f" {found.message}" if found.message is not None else ""
        output.line(f"{found.name} {found.commit_id} graph_branch={found.branch}{message}")


@tag.command("delete")
@click.argument("name")
@graph_argument
@takes(DATA)
@command_flags
def tag_delete(flags: Flags, *, name: str, uri: str | None, as_json: bool) -> None:
    """Delete a tag. Its commit stays in the history."""
    target = resolve(flags, "tag", DATA, uri=uri)
    echo_write(target, "tag delete")
    confirm(target, "tag delete", as_json=as_json)
    with open_graph(target, mode="rw") as graph:
        graph.tags.delete(name)
    if as_json:
        output.document({"uri": target.uri, "name": name, "actor_id": flags.actor})
    else:
        output.line(f"deleted tag {name}")


@click.group(cls=GraphGroup)
@global_flags
def commit() -> None:
    """Show the history of a graph."""


@commit.command("list")
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch whose history is printed.")
@click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Print the newest N commits.")
@click.option("--since", metavar="TIME", help="Only commits of this time (ISO 8601) or later.")
@click.option("--type", "types", metavar="TYPE", multiple=True, help="Only commits that changed this type. May be repeated.")
@takes(HISTORY)
@command_flags
def commit_list(
    flags: Flags, *, uri: str | None, branch: str, limit: int | None, since: str | None, types: tuple[str, ...], as_json: bool
) -> None:
    """Print the commits of a branch, newest first, one a line."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        commits = graph.commits(branch, limit=limit, since=since, types=types or None)
        if as_json:
            output.document({"commits": [described_commit(found) for found in commits]})
            return
        known = graph.commit_graph(limit=0)
    labels = _labels(known)
    rows = [
        (found.id[: known.id_length], age(found.created_at), found.actor or "-", str(found.kind), counts_text(found.counts))
        for found in commits
    ]
    for row, found in zip(output.aligned(rows), commits, strict=True):
        output.line(f"{row}  {_marks(labels.get(found.id, []))}{_first_line(found)}".rstrip())


@commit.command("show")
@click.argument("commit_id")
@graph_argument
@takes(HISTORY)
@command_flags
def commit_show(flags: Flags, *, commit_id: str, uri: str | None, as_json: bool) -> None:
    """Print one commit, of any branch, and the tables that it changed. The beginning of its id is enough."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        found = graph.commit(commit_id)
        marks = _labels(graph.commit_graph(limit=0)).get(found.id, [])
    tables = [{"type_key": change.alias, "before": change.before, "after": change.after} for change in found.tables]
    if as_json:
        output.document({**described_commit(found), "token": found.token, "marks": marks, "tables": tables})
        return
    output.fields(
        {
            **commit_document(found),
            "graph_branch": found.branch,
            "created_at": found.created_at.isoformat(),
            "kind": found.kind,
            "changed": counts_text(found.counts) or None,
            "marks": ", ".join(marks) or None,
            "token": found.token,
            "message": found.message,
        }
    )
    for table in tables:
        was, now = (f"version {table[side]}" if table[side] is not None else "absent" for side in ("before", "after"))
        output.line(f"table {table['type_key']}: {was} -> {now}")


@commit.command("graph")
@graph_argument
@click.option("--branch", "branches", metavar="BRANCH", multiple=True, help="Draw this branch only. May be repeated. The default is all.")
@click.option("--limit", type=WholeNumber(min=1), metavar="N", help="Draw the newest N commits.")
@takes(HISTORY)
@command_flags
def commit_graph(flags: Flags, *, uri: str | None, branches: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Draw the commits of all branches, newest first. Beside each are branches, tags, time, actor and message."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        found = graph.commit_graph(branches or None, limit=limit)
    labels = _labels(found)
    if as_json:
        commits = [described_commit(one) for one in found.commits]
        output.document({"commits": commits, "branches": dict(found.heads), "tags": dict(found.tags)})
        return
    for drawn in draw(Node(one.id, one.parents, _beside(one, found.id_length, labels.get(one.id, []))) for one in found.commits):
        output.line(drawn)


def _labels(found: CommitGraph) -> dict[str, list[str]]:
    """The branches and tags that stand at each commit."""
    labels: dict[str, list[str]] = {}
    for names in (found.heads, {f"tag: {name}": at for name, at in found.tags.items()}):
        for name, at in names.items():
            labels.setdefault(at, []).append(name)
    return labels


def _marks(labels: list[str]) -> str:
    return f"({', '.join(labels)}) " if labels else ""


def _first_line(commit: Commit) -> str:
    return next(iter((commit.message or "").splitlines()), "")


def age(moment: datetime) -> str:
    """How long ago something was, as a person says it."""
    seconds = (datetime.now(UTC) - moment).total_seconds()
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min ago"
    if seconds < 86_400:
        return f"{seconds // 3600:.0f} h ago"
    days = int(seconds // 86_400)
    return f"{counted(days, 'day')} ago" if days < 30 else moment.astimezone(UTC).strftime("%Y-%m-%d")


def _beside(commit: Commit, length: int, labels: list[str]) -> str:
    """The text beside a commit in the drawing."""
    when = commit.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    actor = f" {commit.actor}" if commit.actor is not None else ""
    return f"{commit.id[:length]} {when}{actor} {_marks(labels)}{_first_line(commit) or f'[{commit.kind}]'}"


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch to show.")
@takes(READ)
@command_flags
def snapshot(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Print the version and row count of every table."""
    target = resolve(flags, "snapshot", READ, uri=uri)
    from omnigraph.manifest.model import FORMAT

    with open_graph(target, mode="r") as graph:
        found = snapshot_document(graph.snapshot(branch), format_number=FORMAT)
    if as_json:
        output.document(found)
        return
    datasets = found.pop("datasets")
    output.fields(found)
    assert isinstance(datasets, list)
    for dataset in datasets:
        output.line(
            f"{dataset['entity_kind']} type '{dataset['type_name']}' published_dataset_version={dataset['published_dataset_version']} "
            f"native_dataset_branch={dataset['native_dataset_branch'] or 'main'} entities={dataset['entity_count']}"
        )
