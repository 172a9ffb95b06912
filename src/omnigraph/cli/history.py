"""`omnigraph branch`, `tag`, `commit` and `snapshot`: a graph -> its branches, tags, commits and table versions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import click

from omnigraph.cli import output
from omnigraph.cli.commit_graph import Node, draw
from omnigraph.cli.queries import parse_moment
from omnigraph.cli.scope import DATA, HISTORY, Flags, GraphTarget, command_flags, confirm, echo_write, global_flags, open_graph, resolve
from omnigraph.cli.shapes import commit_document, snapshot_document, tag_document
from omnigraph.cli.table import counted

if TYPE_CHECKING:
    from omnigraph.answers import CommitGraph
    from omnigraph.manifest.model import Commit

graph_option = click.option("--uri", metavar="URI", help="The graph.")


@click.group()
@global_flags
def branch() -> None:
    """Create, list and delete branches."""


@branch.command("create")
@click.argument("name")
@click.option("--from", "from_", metavar="BRANCH", default="main", show_default=True, help="The branch to start from.")
@click.option("--at", metavar="ID", help="Start from the past: a commit id of any branch, or a manifest version or a time of --from.")
@graph_option
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
@graph_option
@command_flags
def branch_list(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print the names of all branches, sorted; on a terminal also their newest commits."""
    with open_graph(_target(flags, uri), mode="r") as graph:
        if not as_json and output.is_terminal():
            found = graph.commit_graph()
            newest = {name: graph.commit(head) for name, head in sorted(found.heads.items())}
            rows = [(name, *_told(commit, found.id_length, ())) for name, commit in newest.items()]
            output.rows("table", counted(len(rows), "branch", "branches"), ("branch", *_COMMIT_COLUMNS), rows, count=len(rows))
            return
        names = sorted(graph.branches.list())
    if as_json:
        output.document({"branches": names})
    else:
        for name in names:
            output.line(name)


@branch.command("delete")
@click.argument("name")
@graph_option
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
    return resolve(flags, "branch", DATA, uri=uri, spelled="--uri")


@click.group()
@global_flags
def tag() -> None:
    """Create, list and delete tags: names of commits."""


@tag.command("create")
@click.argument("name")
@click.option("--branch", default="main", show_default=True, help="The branch whose newest commit is tagged.")
@click.option("--at", metavar="ID", help="The commit to tag: a commit id of any branch, or a manifest version or a time of --branch.")
@click.option("--message", metavar="TEXT", help="A text that is stored with the tag.")
@graph_option
@command_flags
def tag_create(flags: Flags, *, name: str, branch: str, at: str | None, message: str | None, uri: str | None, as_json: bool) -> None:
    """Give a commit a name. As long as the tag exists, what the commit shows is kept."""
    target = resolve(flags, "tag", DATA, uri=uri, spelled="--uri")
    echo_write(target, "tag create")
    with open_graph(target, mode="rw") as graph:
        made = graph.tags.create(name, branch=branch, at=parse_moment(at), message=message)
    if as_json:
        output.document({"uri": target.uri, **tag_document(made)})
    else:
        output.line(f"tagged commit {made.commit_id} as {made.name}")


@tag.command("list")
@graph_option
@command_flags
def tag_list(flags: Flags, *, uri: str | None, as_json: bool) -> None:
    """Print all tags, sorted by name."""
    with open_graph(resolve(flags, "tag", HISTORY, uri=uri, spelled="--uri"), mode="r") as graph:
        tags = graph.tags.list()
    if as_json:
        output.document({"tags": [tag_document(found) for found in tags]})
        return
    for found in tags:
        message = f" {found.message}" if found.message is not None else ""
        output.line(f"{found.name} {found.commit_id} graph_branch={found.branch}{message}")


@tag.command("delete")
@click.argument("name")
@graph_option
@command_flags
def tag_delete(flags: Flags, *, name: str, uri: str | None, as_json: bool) -> None:
    """Delete a tag. Its commit stays in the history."""
    target = resolve(flags, "tag", DATA, uri=uri, spelled="--uri")
    echo_write(target, "tag delete")
    confirm(target, "tag delete", as_json=as_json)
    with open_graph(target, mode="rw") as graph:
        graph.tags.delete(name)
    if as_json:
        output.document({"uri": target.uri, "name": name, "actor_id": flags.actor})
    else:
        output.line(f"deleted tag {name}")


@click.group()
@global_flags
def commit() -> None:
    """Show the history of a graph."""


@commit.command("list")
@click.argument("uri", required=False)
@click.option("--branch", default="main", show_default=True, help="The branch whose history is printed.")
@command_flags
def commit_list(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Print the commits of a branch, newest first."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        commits = graph.commits(branch)
        if as_json:
            output.document({"commits": [commit_document(found) for found in commits]})
            return
        found = graph.commit_graph()
    labels = _labels(found)
    rows = (_told(one, found.id_length, labels.get(one.id, ())) for one in commits)
    output.rows("table", f"{counted(len(commits), 'commit')} of branch {branch}", _COMMIT_COLUMNS, rows, count=len(commits))


_COMMIT_COLUMNS: Final = ("commit", "made", "actor", "kind", "changes", "message")


def _told(commit: Commit, length: int, labels: Sequence[str]) -> tuple[str, ...]:
    """Return a commit as the cells of a table: on a terminal with a short id and its age, elsewhere with its whole id and its time."""
    if output.is_terminal():
        made = (commit.id[:length], age(datetime.now(UTC) - commit.created_at))
    else:
        made = (str(commit.id), commit.created_at.astimezone(UTC).isoformat(timespec="seconds"))
    names = f"({', '.join(labels)}) " if labels else ""
    said = next(iter((commit.message or "").splitlines()), "")
    return (*made, commit.actor or "", commit.kind.value, _counts(commit), f"{names}{said}".rstrip())


def _counts(commit: Commit) -> str:
    """The counts of a commit that are not zero: `2 nodes, 1 edge`, `3 Person`, `7 indexes built`."""
    shown = []
    for name, count in commit.counts.items():
        words = name.rpartition(":")[2].removeprefix("affected_").replace("_", " ")
        if count:
            shown.append(f"{count} {words.removesuffix('s') if count == 1 and words in ('nodes', 'edges') else words}")
    return ", ".join(shown)


_UNITS: Final = (("year", 365 * 86_400), ("month", 30 * 86_400), ("day", 86_400), ("hour", 3_600), ("minute", 60))


def age(passed: timedelta) -> str:
    """Return how long ago something was, in its largest unit."""
    seconds = int(passed.total_seconds())
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    return "just now"


def _labels(found: CommitGraph) -> dict[str, list[str]]:
    """Return the branches and tags that stand at each commit."""
    labels: dict[str, list[str]] = {}
    for names in (found.heads, {f"tag: {name}": at for name, at in found.tags.items()}):
        for name, at in names.items():
            labels.setdefault(at, []).append(name)
    return labels


@commit.command("show")
@click.argument("commit_id")
@graph_option
@command_flags
def commit_show(flags: Flags, *, commit_id: str, uri: str | None, as_json: bool) -> None:
    """Print one commit, of any branch. The beginning of its id is enough."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri, spelled="--uri"), mode="r") as graph:
        found = graph.commit(commit_id)
    if as_json:
        output.document(commit_document(found))
        return
    output.fields(
        {**commit_document(found), "graph_branch": found.branch, "created_at": found.created_at.isoformat(), "message": found.message}
    )


@commit.command("graph")
@click.argument("uri", required=False)
@click.option("--branch", "branches", metavar="BRANCH", multiple=True, help="Draw this branch only. May be repeated. The default is all.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Draw the newest N commits.")
@command_flags
def commit_graph(flags: Flags, *, uri: str | None, branches: tuple[str, ...], limit: int | None, as_json: bool) -> None:
    """Draw the commits of all branches, the newest first, with branches, tags, times, actors and messages."""
    with open_graph(resolve(flags, "commit", HISTORY, uri=uri), mode="r") as graph:
        found = graph.commit_graph(branches or None, limit=limit)
    labels = _labels(found)
    if as_json:
        commits = [{**commit_document(one), "kind": one.kind.value, "message": one.message} for one in found.commits]
        output.document({"commits": commits, "branches": dict(found.heads), "tags": dict(found.tags)})
        return
    for drawn in draw(Node(one.id, one.parents, _beside(one, found.id_length, labels.get(one.id, []))) for one in found.commits):
        output.line(drawn)


def _beside(commit: Commit, length: int, labels: list[str]) -> str:
    """The text beside a commit in the drawing."""
    when = commit.created_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    actor = f" {commit.actor}" if commit.actor is not None else ""
    names = f" ({', '.join(labels)})" if labels else ""
    said = next(iter((commit.message or "").splitlines()), "") or f"[{commit.kind}]"
    return f"{commit.id[:length]} {when}{actor}{names} {said}"


@click.command()
@click.argument("uri", required=False)
@click.option("--branch", default="main", show_default=True, help="The branch to show.")
@command_flags
def snapshot(flags: Flags, *, uri: str | None, branch: str, as_json: bool) -> None:
    """Print the version and the row count of every table of a branch."""
    target = resolve(flags, "snapshot", DATA, uri=uri)
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
