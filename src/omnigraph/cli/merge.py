"""`omnigraph branch merge` and `commit revert`: a graph and a branch or a commit -> one commit, or the conflicts as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from omnigraph.cli import output
from omnigraph.cli.files import atomic_file
from omnigraph.cli.history import branch, commit
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DATA, PATH, Flags, command_flags, echo_write, graph_argument, open_graph, resolve, takes, token_flag
from omnigraph.cli.shapes import commit_document, conflict_document
from omnigraph.errors import InvalidInput, Kind, MergeConflicts
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.exec.history.conflicts import Conflict
    from omnigraph.exec.history.merge import MergeResult

_COLUMNS: Final = ("kind", "type", "id", "property", "base", "ours", "theirs")
_DELETED: Final = "(deleted)"
_ABSENT: Final = "(absent)"


def _settling(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        token_flag,
        click.option("--message", metavar="TEXT", help="The message of the commit."),
        click.option(
            "--resolve",
            "resolve_file",
            metavar="FILE",
            type=PATH,
            help="A JSON file of conflicts, as --json prints them, each with a `choice`: ours or theirs.",
        ),
        click.option("--theirs", is_flag=True, help="Settle every conflict between entities for the other side."),
        click.option("--ours", is_flag=True, help="Settle every conflict between entities for the branch that is written."),
        click.option(
            "--strategy",
            type=click.Choice(["entity", "property"]),
            default="entity",
            show_default=True,
            help="`property` merges entities of which both sides changed different properties.",
        ),
    ):
        command = option(command)
    return command


@branch.command("merge")
@click.argument("source")
@click.option("--into", metavar="BRANCH", default="main", show_default=True, help="The branch that is written.")
@_settling
@click.option("--delete-branch", is_flag=True, help="Delete SOURCE after the merge.")
@click.option("--dry-run", is_flag=True, help="Print what the merge would do, and its conflicts. Writes nothing to the graph.")
@click.option(
    "--conflicts",
    "conflicts_file",
    metavar="FILE",
    type=PATH,
    help="With --dry-run: write all conflicts to a JSON file. With a `choice` in each, --resolve takes it.",
)
@graph_argument
@takes(DATA)
@command_flags
def branch_merge(
    flags: Flags,
    *,
    source: str,
    into: str,
    strategy: str,
    ours: bool,
    theirs: bool,
    resolve_file: Path | None,
    message: str | None,
    token: str | None,
    delete_branch: bool,
    dry_run: bool,
    conflicts_file: Path | None,
    uri: str | None,
    as_json: bool,
) -> None:
    """Merge SOURCE into another branch, as one commit."""
    if conflicts_file is not None and not dry_run:
        raise click.UsageError("--conflicts needs --dry-run: a merge with conflicts writes nothing to the graph")
    on_conflict = _settled(ours=ours, theirs=theirs)
    written: int | None = None
    target = resolve(flags, "branch", DATA, uri=uri)
    if not dry_run:
        echo_write(target, "branch merge")
    with open_graph(target, mode="r" if dry_run else "rw") as graph, _conflicts_as_table(as_json=as_json), Line("merge", quiet=flags.quiet):
        choices = _choices(resolve_file)
        merged = graph.merge(
            source,
            into,
            strategy=strategy,
            on_conflict=on_conflict,
            resolve=choices,
            message=message,
            token=token,
            delete_source=delete_branch and not dry_run,
            dry_run=dry_run,
        )
        if conflicts_file is not None:
            every = graph.merge_conflicts(source, into, strategy=strategy, on_conflict=on_conflict, resolve=choices)
            written = _write_conflicts(conflicts_file, every)
    if as_json:
        output.document(_document(merged, source, into, flags.actor, dry_run=dry_run))
        return
    would = "would merge" if dry_run else "merged"
    output.line(f"{would} {source} into {into}: {merged.outcome}")
    if merged.inserted or merged.updated or merged.deleted:
        output.line(f"{merged.inserted} inserted, {merged.updated} updated, {merged.deleted} deleted")
    if written is None:
        _print_conflicts(merged.conflicts, merged.conflict_count)
    else:
        output.line(f"{counted(written, 'conflict')} written to {conflicts_file}")
    if merged.branch_deleted:
        output.line(f"deleted branch {source}")
    elif merged.branch_deleted is False:
        output.note(f"warning: merged, but could not delete branch {source!r}: {merged.branch_delete_error}")


@commit.command("revert")
@click.argument("commit_id")
@click.option("--branch", "on", default="main", show_default=True, help="The branch that is written.")
@_settling
@graph_argument
@takes(DATA)
@command_flags
def commit_revert(
    flags: Flags,
    *,
    commit_id: str,
    on: str,
    strategy: str,
    ours: bool,
    theirs: bool,
    resolve_file: Path | None,
    message: str | None,
    token: str | None,
    uri: str | None,
    as_json: bool,
) -> None:
    """Undo one commit, in a new commit on a branch."""
    on_conflict = _settled(ours=ours, theirs=theirs)
    target = resolve(flags, "commit", DATA, uri=uri)
    echo_write(target, "commit revert")
    with open_graph(target, mode="rw") as graph, _conflicts_as_table(as_json=as_json), Line("revert", quiet=flags.quiet):
        done = graph.revert(
            commit_id, on, strategy=strategy, on_conflict=on_conflict, resolve=_choices(resolve_file), message=message, token=token
        )
    if as_json:
        made = commit_document(done.commit) if done.commit is not None else None
        counts = {"inserted": done.inserted, "updated": done.updated, "deleted": done.deleted}
        output.document({"reverted": done.reverted, "branch": on, **counts, "actor_id": flags.actor, "commit": made})
    elif done.commit is None:
        output.line(f"nothing of {done.reverted} is left to undo on {on}")
    else:
        output.line(f"reverted {done.reverted} on {on}: {done.inserted} inserted, {done.updated} updated, {done.deleted} deleted")


def _settled(*, ours: bool, theirs: bool) -> str:
    if ours and theirs:
        raise click.UsageError("--ours and --theirs exclude each other: --resolve settles single conflicts")
    return "ours" if ours else "theirs" if theirs else "fail"


def _choices(file: Path | None) -> dict[tuple[str, ...], str] | None:
    if file is None:
        return None
    from omnigraph.exec.history.conflicts import read_choices

    try:
        data = file.read_bytes()
    except OSError as error:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"cannot read {file}: {error.strerror}", path=str(file)) from error
    return read_choices(data, name=str(file))


def _write_conflicts(path: Path, conflicts: Iterator[Conflict]) -> int:
    """Write a JSON list, one conflict a line, as they come. Those that a choice can settle have one, which is null."""
    import msgspec

    count = 0
    with atomic_file(path) as file:
        for count, conflict in enumerate(conflicts, 1):
            choice = {"choice": None} if conflict.base or conflict.ours or conflict.theirs else {}
            file.write((b",\n" if count > 1 else b"[\n") + msgspec.json.encode({**choice, **conflict_document(conflict)}))
        file.write(b"\n]\n" if count else b"[]\n")
    return count


def _document(merged: MergeResult, source: str, into: str, actor: str | None, *, dry_run: bool) -> dict[str, object]:
    document: dict[str, object] = {
        "source": source,
        "target": into,
        "outcome": str(merged.outcome),
        "inserted": merged.inserted,
        "updated": merged.updated,
        "deleted": merged.deleted,
        "actor_id": actor,
        "commit": commit_document(merged.commit) if merged.commit is not None else None,
    }
    if dry_run:
        document |= {"conflicts": [conflict_document(one) for one in merged.conflicts], "conflict_count": merged.conflict_count}
    if merged.branch_deleted is not None:
        document["branch_deleted"] = merged.branch_deleted
    if merged.branch_delete_error is not None:
        document["branch_delete_error"] = merged.branch_delete_error
    return document


@contextmanager
def _conflicts_as_table(*, as_json: bool) -> Iterator[None]:
    """Print the conflicts of a failed merge before its error. With --json the error carries them."""
    try:
        yield
    except MergeConflicts as error:
        conflicts: Any = error.facts["conflicts"]
        count: Any = error.facts["count"]
        if not as_json:
            _print_conflicts(conflicts, count)
        raise


def _print_conflicts(conflicts: Sequence[Conflict], count: int) -> None:
    if not count:
        return
    rows = [row for conflict in conflicts for row in _rows(conflict)]
    output.rows("table", counted(count, "conflict"), _COLUMNS, rows)


def _rows(conflict: Conflict) -> list[tuple[object, ...]]:
    """One row for each property that differs between the two sides, with its three values."""
    head = (str(conflict.kind), conflict.type_name, conflict.id or "")
    sides = (conflict.base, conflict.ours, conflict.theirs)
    if all(side is None for side in sides):
        return [(*head, ", ".join(conflict.properties), "", conflict.message, "")]
    names = conflict.properties or [
        name
        for name in dict.fromkeys(name for side in sides if side is not None for name in side.properties)
        if conflict.ours is None or conflict.theirs is None or conflict.ours.properties.get(name) != conflict.theirs.properties.get(name)
    ]
    if conflict.ours is None or conflict.theirs is None:
        before = conflict.base.properties if conflict.base is not None else {}
        left = conflict.ours or conflict.theirs
        assert left is not None
        names = [name for name in names if left.properties.get(name) != before.get(name)]
    gone = _DELETED if conflict.base is not None else _ABSENT
    return [
        (*head, name, *(side.properties.get(name) if side is not None else gone for side in sides)) for name in names or ["(endpoints)"]
    ]
