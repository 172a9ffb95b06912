"""`omnigraph cleanup`: a graph and a retention policy -> what can be removed, and with `--confirm` its removal."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import click

from omnigraph.cli import output
from omnigraph.cli.numbers import WholeNumber
from omnigraph.cli.progress import Line
from omnigraph.cli.scope import (
    DIRECT,
    Flags,
    GraphCommand,
    confirm,
    echo_write,
    global_flags,
    graph_argument,
    json_flag,
    open_graph,
    resolve,
    takes,
)
from omnigraph.errors import InvalidInput, Kind
from omnigraph.grid import counted

if TYPE_CHECKING:
    from omnigraph.exec.upkeep.cleanup import Cleanup

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION: Final = re.compile(r"(\d+)(.*)")


@click.command(cls=GraphCommand)
@graph_argument
@click.option("--keep", type=WholeNumber(min=1), metavar="N", help="Keep the newest N commits of each branch readable.")
@click.option("--older-than", metavar="DURATION", help="Keep commits that were the newest less than this ago, such as 12h, 7d or 2w.")
@click.option("--confirm", "confirmed", is_flag=True, help="Remove it. Without this, only print what would be removed.")
@json_flag
@takes(DIRECT)
@global_flags
@click.pass_context
def cleanup(context: click.Context, *, uri: str | None, keep: int | None, older_than: str | None, confirmed: bool, as_json: bool) -> None:
    """Remove old versions. They are those that no branch and no tag needs, and what interrupted writers left."""
    flags: Flags = context.obj
    target = resolve(flags, "cleanup", DIRECT, uri=uri)
    if keep is None and older_than is None:
        raise InvalidInput(Kind.INVALID_ARGUMENT, "cleanup needs a policy: give --keep N, --older-than DURATION, or both")
    age = None if older_than is None else _duration(older_than)
    if confirmed:
        confirm(target, "cleanup", as_json=as_json)
        echo_write(target, "cleanup")
    with open_graph(target, mode="rw" if confirmed else "r") as graph, Line("cleanup", quiet=flags.quiet) as line:
        found = graph.cleanup(
            keep=keep,
            older_than=age,
            dry_run=not confirmed,
            on_progress=lambda progress: line.draw(f"{progress.at} of {progress.of}: {progress.table}"),
        )
    if as_json:
        seconds = None if age is None else int(age.total_seconds())
        output.document({"uri": target.uri, "confirm": confirmed, "keep_versions": keep, "older_than_secs": seconds, **_document(found)})
    elif confirmed:
        _print(found, target.uri, output.line)
    else:
        _print(found, target.uri, output.note)
        output.note("this is a preview: nothing was removed; pass --confirm to remove it")
    if any(table.error is not None for table in found.tables):
        context.exit(1)


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{text!r} is not a duration; give a number and a unit, such as 12h, 7d or 2w")
    unit = found[2].strip() or "s"
    if unit not in _UNITS:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"unknown duration unit {unit!r}. Supported: {', '.join(_UNITS)}", unit=unit)
    try:
        return timedelta(seconds=int(found[1]) * _UNITS[unit])
    except OverflowError:
        raise InvalidInput(Kind.INVALID_ARGUMENT, f"{text!r} is too long a time") from None


def _document(found: Cleanup) -> dict[str, object]:
    return {
        "bytes_removed": found.size_bytes,
        "old_versions_removed": found.versions,
        "datasets": [
            {
                "type_key": table.table,
                "bytes_removed": table.size_bytes,
                "old_versions_removed": table.versions,
                "error": table.error,
            }
            for table in found.tables
        ],
        "forks_removed": list(found.forks),
        "transactions_removed": len(found.transactions),
    }


def _print(found: Cleanup, uri: str, put: Callable[[str], None]) -> None:
    put(f"cleanup {uri} — {counted(found.versions, 'version')}, {counted(found.size_bytes, 'byte')}")
    for table in found.tables:
        error = f"; ERROR {table.error}" if table.error else ""
        put(f"{table.table}: {counted(table.versions, 'version')}, {counted(table.size_bytes, 'byte')}{error}")
    for fork in found.forks:
        put(f"unused fork: {fork}")
    if found.transactions:
        put(f"transactions of ended processes: {len(found.transactions)}")
