"""`omnigraph changes`: a graph and a cursor -> what was committed since, once or as it comes; the rows of a branch and a cursor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli import output
from omnigraph.cli.changes import change_filters, print_cause, print_changes
from omnigraph.cli.data import line_blocks
from omnigraph.cli.files import atomic_file, check_output
from omnigraph.cli.numbers import Seconds, WholeNumber
from omnigraph.cli.progress import Line, until_first
from omnigraph.cli.scope import HISTORY, PATH, Flags, GraphGroup, command_flags, global_flags, graph_argument, open_graph, resolve, takes
from omnigraph.cli.shapes import Document, cause_document, change_document
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.exec.feed.pages import ChangeBlock, ChangePage
    from omnigraph.graph import Graph


@click.group(cls=GraphGroup)
@global_flags
def changes() -> None:
    """Follow what is committed on a branch."""


def _position(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say where a feed begins, and how large its pages are."""
    for option in (
        click.option("--branch", default="main", show_default=True, help="The branch whose commits are printed."),
        click.option("--cursor", metavar="CURSOR", help="Begin after this cursor."),
        click.option("--cursor-file", type=PATH, metavar="FILE", help="Begin after the cursor in FILE, if it exists; then replace it."),
        click.option("--start", metavar="START", help="Begin at now (the default), at the beginning, or after:COMMIT_ID."),
        click.option(
            "--limit",
            type=WholeNumber(min=1),
            metavar="N",
            default=1_000,
            show_default=True,
            help="The number of changes that are read at once.",
        ),
    )[::-1]:
        command = option(command)
    return command


@changes.command("poll")
@_position
@change_filters
@graph_argument
@takes(HISTORY)
@command_flags
def poll(flags: Flags, *, cursor_file: Path | None, uri: str | None, as_json: bool, **asked: Any) -> None:
    """Print the changes after a cursor, and the next cursor. Commits come with their changes, the oldest first."""
    with open_graph(resolve(flags, "changes poll", HISTORY, uri=uri), mode="r") as graph:
        read = _until_cursor(_follow(graph, cursor_file, wait=0, **asked))
        pages = _Pages(until_first(read, "changes", quiet=flags.quiet))  # a poll that is refused prints nothing
        if as_json:
            output.members(pages.members())
        else:
            pages.print()
        output.flush()
        _keep(cursor_file, pages.last)


@changes.command("follow")
@_position
@click.option("--wait", type=Seconds(min=0), metavar="SECONDS", help="End if there is no commit for so long. By default it never ends.")
@change_filters
@graph_argument
@takes(HISTORY)
@command_flags
def follow(flags: Flags, *, cursor_file: Path | None, uri: str | None, as_json: bool, **asked: Any) -> None:
    """Print commits as `poll` does, and wait for new ones. With --json, each page is one line."""
    with open_graph(resolve(flags, "changes follow", HISTORY, uri=uri), mode="r") as graph:
        for page in _follow(graph, cursor_file, **asked):
            if as_json:
                output.compact(_page_document(page))
            else:
                _Pages(iter([page])).print()
            output.flush()
            _keep(cursor_file, page)


@changes.command("baseline")
@click.option("--out", type=PATH, metavar="FILE", required=True, help="The file for the rows, as NDJSON. It is replaced atomically.")
@click.option("--branch", default="main", show_default=True, help="The branch whose rows are written.")
@click.option("--cursor-file", type=PATH, metavar="FILE", help="Write the cursor to FILE, after the rows.")
@change_filters
@graph_argument
@takes(HISTORY)
@command_flags
def baseline(
    flags: Flags,
    *,
    out: Path,
    branch: str,
    cursor_file: Path | None,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    uri: str | None,
    as_json: bool,
) -> None:
    """Write the rows of a branch to a file, and print a cursor. The feed goes on after them from there."""
    with open_graph(resolve(flags, "changes baseline", HISTORY, uri=uri), mode="r") as graph:
        rows = graph.changes.baseline(branch, kinds=kinds or None, types=types or None, ops=ops or None)
        written = 0
        with atomic_file(out) as file, Line("baseline", quiet=flags.quiet) as line:
            for data, count in line_blocks(iter(rows)):
                file.write(data)
                written += count
                line.draw(f"baseline: {counted(written, 'record')}")
        cursor = rows.cursor
        if cursor_file is not None:
            _write_cursor(cursor_file, cursor)
    said = {"snapshot_commit_id": rows.commit_id, "resume_cursor": cursor}
    if as_json:
        output.document(said)
    else:
        output.fields({"snapshot": out, **said})


def _follow(
    graph: Graph,
    cursor_file: Path | None,
    *,
    branch: str,
    cursor: str | None,
    start: str | None,
    limit: int,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    ops: tuple[str, ...],
    wait: float | None,
) -> Iterator[ChangePage]:
    if cursor_file is not None:
        if cursor is not None:
            raise click.UsageError("--cursor and --cursor-file exclude each other")
        check_output(cursor_file)
        if os.path.exists(cursor_file):
            cursor, start = cursor_file.read_text("utf-8", "replace").strip(), None
    return graph.changes.follow(
        cursor, branch=branch, start=start, kinds=kinds or None, types=types or None, ops=ops or None, limit=limit, wait=wait
    )


def _until_cursor(pages: Iterator[ChangePage]) -> Iterator[ChangePage]:
    for page in pages:
        yield page
        if page.cursor is not None:
            return


def _keep(file: Path | None, page: ChangePage) -> None:
    """Store the cursor of what was printed. A page that ended inside a commit has none: that commit is printed again."""
    if file is not None and page.cursor is not None:
        _write_cursor(file, page.cursor)


def _write_cursor(path: Path, cursor: str) -> None:
    with atomic_file(path) as file:
        file.write(f"{cursor}\n".encode())


class _Pages:
    """Pages, with the parts of a commit put together, printed as they are read."""

    def __init__(self, pages: Iterator[ChangePage]) -> None:
        self._pages = pages
        self._last: ChangePage | None = None

    @property
    def last(self) -> ChangePage:
        assert self._last is not None, "a poll has a page"
        return self._last

    def members(self) -> Iterator[tuple[str, object]]:
        yield "blocks", (_block_document(first, parts) for first, parts in self._blocks())
        yield "cursor", self.last.cursor
        yield "caught_up", self.last.caught_up

    def print(self) -> None:
        some = False
        for first, parts in self._blocks():
            if some:
                output.line("")
            some = True
            print_cause(first.cause)
            print_changes(change for part in parts for change in part.changes)
        if not some:
            output.line("(no new commits)")
        output.line("")
        output.fields({"cursor": self.last.cursor, "next_page_token": self.last.next_page, "caught_up": self.last.caught_up})

    def _blocks(self) -> Iterator[tuple[ChangeBlock, Iterable[ChangeBlock]]]:
        for _, parts in groupby(self._read(), key=lambda block: block.cause.id):
            first = next(parts)
            yield first, chain([first], parts)  # noqa: B031  # the rest of the same parts, read as they come

    def _read(self) -> Iterator[ChangeBlock]:
        for page in self._pages:
            self._last = page
            yield from page.blocks


def _block_document(first: ChangeBlock, parts: Iterable[ChangeBlock]) -> Document:
    schema = {"schema_source": first.schema} if first.schema is not None else {}
    return {
        "cause": cause_document(first.cause),
        **schema,
        "changes": (change_document(change) for part in parts for change in part.changes),
    }


def _page_document(page: ChangePage) -> Document:
    blocks = [{**_block_document(block, [block]), "changes": list(map(change_document, block.changes))} for block in page.blocks]
    if page.cursor is None:
        return {"blocks": blocks, "next_page_token": page.next_page}
    return {"blocks": blocks, "cursor": page.cursor, "caught_up": page.caught_up}
