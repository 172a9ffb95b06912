"""`omnigraph blob`: the bytes of one Blob property, whole or in part; and what is known about them without reading any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from omnigraph.cli import output
from omnigraph.cli.flags import PATH, Flags, global_flags, json_flag
from omnigraph.cli.scope import HISTORY, opened, resolve
from omnigraph.cli.whole_file import whole_file

if TYPE_CHECKING:
    from omnigraph.exec.blobs import Blob

_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_MOST: Final = 2**63 - 1

F = TypeVar("F", bound=Callable[..., Any])


@click.group()
@global_flags
def blob() -> None:
    """Read Blob properties, one at a time."""


def _selector(command: F) -> F:
    """Which blob of which graph, and when."""
    for part in (
        click.argument("entity", type=click.Choice(["node", "edge"])),
        click.argument("type_", metavar="TYPE"),
        click.argument("id_", metavar="ID"),
        click.argument("property_", metavar="PROPERTY"),
        click.option("--uri", metavar="URI", help="The graph."),
        click.option("--branch", help="The branch to read; main unless told otherwise."),
        click.option("--snapshot", metavar="COMMIT_ID", help="Main as it was at this commit, instead of a branch as it is."),
    )[::-1]:
        command = part(command)
    return command


@blob.command()
@_selector
@click.option("--offset", type=click.IntRange(0, _MOST), default=0, help="Where to begin, in bytes.")
@click.option("--length", type=click.IntRange(1, _MOST), help="How many bytes at most; all that follow unless told otherwise.")
@click.option("--out", type=PATH, metavar="PATH", help="Write to a file instead of stdout.")
@global_flags
@click.pass_obj
def get(
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
    """Print the bytes of a blob, as they are."""
    end = None if length is None else offset + length
    if end is not None and end > _MOST:
        raise click.UsageError(f"--offset {offset} and --length {length} end beyond any blob")
    target = resolve(flags, "blob get", HISTORY, uri=uri, spelled="--uri")
    with opened(target, mode="r") as graph:
        found = graph.blob(entity, type_, id_, property_, branch=_branch(branch, snapshot), at=snapshot)
        parts = _parts(found, offset, end)
        if out is None:
            for part in parts:
                output.raw(part)
            return
        first = next(parts)  # before the file is touched
        with whole_file(out) as file:
            file.write(first)
            for part in parts:
                file.write(part)


@blob.command()
@_selector
@json_flag
@global_flags
@click.pass_obj
def stat(
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
    """Print the size and the tag of a blob. No byte of it is read."""
    target = resolve(flags, "blob stat", HISTORY, uri=uri, spelled="--uri")
    on = _branch(branch, snapshot)
    with opened(target, mode="r") as graph:
        resolved = graph.snapshot(on, at=snapshot).commit_id
        found = graph.blob(entity, type_, id_, property_, branch=on, at=resolved)
    selector = {"entity": entity, "type": type_, "id": id_, "property": property_}
    asked = {"branch": on} if snapshot is None else {"snapshot": snapshot}
    if as_json:
        shown = {"kind": "managed", "size": found.size, "etag": found.etag}
        output.document({"selector": selector, **shown, "target": {**asked, "resolved_snapshot": resolved}})
    else:
        output.fields({**selector, "kind": "managed", "size": found.size, "etag": found.etag, **asked, "resolved_snapshot": resolved})


def _branch(branch: str | None, snapshot: str | None) -> str:
    if branch is not None and snapshot is not None:
        raise click.UsageError("--branch and --snapshot are mutually exclusive")
    return branch or "main"


def _parts(found: Blob, start: int, end: int | None) -> Iterator[bytes]:
    """The bytes asked for, some megabytes a time; one part at least, which may be empty."""
    stop = found.size if end is None else min(end, found.size)
    yield found.read(start, min(start + _BYTES_AT_ONCE, stop) if start < stop else None)
    for at in range(start + _BYTES_AT_ONCE, stop, _BYTES_AT_ONCE):
        yield found.read(at, min(at + _BYTES_AT_ONCE, stop))
