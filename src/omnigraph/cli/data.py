"""`omnigraph export`, `copy` and `blob`: a graph -> NDJSON, a second graph, or the bytes of one property."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from omnigraph.cli import output
from omnigraph.cli.files import atomic_file
from omnigraph.cli.numbers import WholeNumber
from omnigraph.cli.progress import Line, until_first
from omnigraph.cli.scope import (
    COPY,
    EXPORT,
    HISTORY,
    PATH,
    F,
    Flags,
    GivenOnce,
    GraphCommand,
    GraphGroup,
    GraphTarget,
    command_flags,
    echo_write,
    global_flags,
    graph_argument,
    open_graph,
    resolve,
    takes,
)
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.exec.blobs import Blob

_LINES_AT_ONCE: Final = 1_000


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--branch", default="main", show_default=True, help="The branch to export.")
@click.option("--at", metavar="COMMIT_ID", help="The commit to export, of any branch. The default is the newest commit of the branch.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Export only this node or edge type. May be repeated.")
@click.option("--output", "path", type=PATH, metavar="FILE", help="Write to a file instead of stdout. The file is replaced atomically.")
@click.option("--jsonl", is_flag=True, hidden=True)
@takes(EXPORT)
@global_flags
@click.pass_obj
def export(flags: Flags, *, uri: str | None, branch: str, at: str | None, types: tuple[str, ...], path: Path | None, jsonl: bool) -> None:
    """Print one snapshot as NDJSON. Edges come before nodes, and both are sorted by type and id."""
    if jsonl:
        output.note("warning: --jsonl is deprecated; an export is always NDJSON")
    target = resolve(flags, "export", EXPORT, uri=uri)
    with open_graph(target, mode="r") as graph:
        lines = graph.export(branch, at=at, types=types or None)
        if path is None and output.is_terminal():
            for data, _ in line_blocks(until_first(lines, "export", quiet=flags.quiet)):
                output.raw(data)
            return
        rows, size = 0, 0
        with nullcontext() if path is None else atomic_file(path) as file, Line("export", quiet=flags.quiet) as line:
            for data, count in line_blocks(lines):
                output.raw(data) if file is None else file.write(data)
                rows, size = rows + count, size + len(data)
                line.draw(f"export: {counted(rows, 'record')}, {size / 1e6:,.0f} MB, {rows / max(line.seconds, 1e-9):,.0f} records/s")
    if path is None:
        return
    output.note(f"exported {counted(rows, 'record')} to {path}")


def line_blocks(lines: Iterator[str]) -> Iterator[tuple[bytes, int]]:
    """Join the lines into blocks of bytes. Yields each block with its number of lines."""
    while block := list(islice(lines, _LINES_AT_ONCE)):
        yield ("\n".join(block) + "\n").encode(), len(block)


@click.command(cls=GivenOnce)
@click.argument("source")
@click.argument("target")
@click.option("--branch", help="Copy only this branch, as the main branch of the copy. By default every branch is copied.")
@takes(COPY)
@command_flags
def copy(flags: Flags, *, source: str, target: str, branch: str | None, as_json: bool) -> None:
    """Copy a graph to an empty location. Its branches are copied, and its history is not."""
    there = resolve(flags, "copy", COPY, uri=source, spelled="SOURCE")
    place = resolve(flags, "copy", COPY, uri=target, spelled="TARGET")
    echo_write(GraphTarget(place.uri, flags), "copy")
    with open_graph(there, mode="r") as graph, Line("copy", quiet=flags.quiet) as line:
        made = graph.copy_to(
            place.uri,
            branch=branch,
            storage_options=flags.storage_options,
            on_progress=lambda progress: line.draw(f"copy: {progress.where}, {counted(progress.rows, 'row')}"),
        )
    info = made.info()
    if as_json:
        output.document({"uri": place.uri, "source": there.uri, "graph_id": info.graph_id, "branches": made.branches.list()})
    else:
        output.line(
            f"copied {there.uri} to {place.uri}: {counted(info.branches, 'branch')}, {counted(sum(info.tables.values()), 'entity')} on main"
        )


_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_MOST: Final = 2**63 - 1


@click.group(cls=GraphGroup)
@global_flags
def blob() -> None:
    """Read one Blob property."""


def _selector(command: F) -> F:
    """Add the arguments and options that select one blob of one snapshot."""
    for part in (
        click.argument("entity", type=click.Choice(["node", "edge"])),
        click.argument("type_", metavar="TYPE"),
        click.argument("id_", metavar="ID"),
        click.argument("property_", metavar="PROPERTY"),
        graph_argument,
        click.option("--branch", help="The branch to read.  [default: main]"),
        click.option("--snapshot", metavar="COMMIT_ID", help="The commit to read, instead of the newest commit of a branch."),
    )[::-1]:
        command = part(command)
    return command


@blob.command("get")
@_selector
@click.option("--offset", type=WholeNumber(min=0, max=_MOST), metavar="BYTES", default=0, help="The first byte to read.")
@click.option("--length", type=WholeNumber(min=1, max=_MOST), metavar="BYTES", help="At most so many bytes. The default is the rest.")
@click.option("--out", type=PATH, metavar="PATH", help="Write to a file instead of stdout.")
@takes(HISTORY)
@global_flags
@click.pass_obj
def blob_get(
    flags: Flags,
    *,
    entity: str,
    type_: str,
    id_: str,
    property_: str,
    uri: str | None,
    branch: str | None,
    snapshot: str | None,
    offset: int,
    length: int | None,
    out: Path | None,
) -> None:
    """Print the bytes of a blob, unchanged."""
    end = None if length is None else offset + length
    if end is not None and end > _MOST:
        raise click.UsageError(f"--offset {offset} and --length {length} end beyond any blob")
    target = resolve(flags, "blob get", HISTORY, uri=uri)
    with open_graph(target, mode="r") as graph:
        found = graph.blob(entity, type_, id_, property_, branch=_branch_of(branch, snapshot), at=snapshot)
        parts = _parts(found, offset, end)
        if out is None:
            for part in parts:
                output.raw(part)
            return
        first = next(parts)  # a failing read must leave an existing file as it is
        with atomic_file(out) as file:
            file.write(first)
            for part in parts:
                file.write(part)


@blob.command("stat")
@_selector
@takes(HISTORY)
@command_flags
def blob_stat(
    flags: Flags,
    *,
    entity: str,
    type_: str,
    id_: str,
    property_: str,
    uri: str | None,
    branch: str | None,
    snapshot: str | None,
    as_json: bool,
) -> None:
    """Print the size and the etag of a blob. The blob itself is not read."""
    target = resolve(flags, "blob stat", HISTORY, uri=uri)
    on = _branch_of(branch, snapshot)
    with open_graph(target, mode="r") as graph:
        resolved = graph.snapshot(on, at=snapshot).commit_id
        found = graph.blob(entity, type_, id_, property_, branch=on, at=resolved)
    selector = {"entity": entity, "type": type_, "id": id_, "property": property_}
    asked = {"branch": on} if snapshot is None else {"snapshot": snapshot}
    if as_json:
        shown = {"kind": "managed", "size": found.size, "etag": found.etag}
        output.document({"selector": selector, **shown, "target": {**asked, "resolved_snapshot": resolved}})
    else:
        output.fields({**selector, "kind": "managed", "size": found.size, "etag": found.etag, **asked, "resolved_snapshot": resolved})


def _branch_of(branch: str | None, snapshot: str | None) -> str:
    if branch is not None and snapshot is not None:
        raise click.UsageError("--branch and --snapshot are mutually exclusive")
    return branch or "main"


def _parts(found: Blob, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the requested bytes in parts of 4 MiB. Yields at least one part, which may be empty."""
    stop = found.size if end is None else min(end, found.size)
    yield found.read(start, min(start + _BYTES_AT_ONCE, stop) if start < stop else None)
    for at in range(start + _BYTES_AT_ONCE, stop, _BYTES_AT_ONCE):
        yield found.read(at, min(at + _BYTES_AT_ONCE, stop))
