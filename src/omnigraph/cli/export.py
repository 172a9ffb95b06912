"""`omnigraph export`: one snapshot of a graph -> NDJSON on stdout, or in a file that is whole the moment it is there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import click

from omnigraph.cli import output
from omnigraph.cli.flags import PATH, Flags, global_flags
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import DATA, opened, resolve
from omnigraph.cli.whole_file import whole_file

_LINES_AT_ONCE: Final = 1_000


@click.command()
@click.argument("uri", required=False)
@click.option("--branch", default="main", show_default=True, help="The branch to export.")
@click.option("--at", metavar="COMMIT_ID", help="This commit, of whatever branch, instead of the newest.")
@click.option("--type", "types", multiple=True, metavar="NAME", help="Only the node and edge type of this name. May be given many times.")
@click.option("--output", "path", type=PATH, metavar="FILE", help="Write to a file instead of stdout. It is replaced when all is there.")
@click.option("--jsonl", is_flag=True, hidden=True)
@global_flags
@click.pass_obj
def export(flags: Flags, *, uri: str | None, branch: str, at: str | None, types: tuple[str, ...], path: Path | None, jsonl: bool) -> None:
    """Print one snapshot as NDJSON: edges, then nodes, by type and id."""
    if jsonl:
        output.note("warning: --jsonl is deprecated; an export is always NDJSON")
    target = resolve(flags, "export", DATA, uri=uri)
    with opened(target, mode="r") as graph:
        lines = graph.export(branch, at=at, types=types or None)
        if path is None:
            for data, _ in _blocks(lines):
                output.raw(data)
            return
        rows = 0
        with whole_file(path) as file, Line(quiet=flags.quiet) as line:
            for data, count in _blocks(lines):
                file.write(data)
                rows += count
                line.draw(f"export: {rows:,} records, {file.tell() / 1e6:,.0f} MB, {rows / max(line.seconds, 1e-9):,.0f} records/s")
    output.note(f"exported {rows} records to {path}")


def _blocks(lines: Iterator[str]) -> Iterator[tuple[bytes, int]]:
    """Some lines as the bytes of a file, and how many they are."""
    while block := list(islice(lines, _LINES_AT_ONCE)):
        yield ("\n".join(block) + "\n").encode(), len(block)
