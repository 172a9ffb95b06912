"""The narration of the tour -> lines on stdout: chapters with their time, sentences, small tables."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

WIDTH = 110


@contextmanager
def chapter(title: str) -> Iterator[None]:
    """Print a heading before the block, and the elapsed time after it."""
    heading(title)
    began = time.monotonic()
    yield
    took = f"{time.monotonic() - began:.1f} s"
    print(f"{took:>{WIDTH}}", flush=True)


def heading(title: str) -> None:
    print(f"\n\033[1m{title}\033[0m" if _coloured() else f"\n{title}", flush=True)


def empty_folder(folder: Path, *, ours: str) -> Path:
    """Make an empty folder for a run. One with files is emptied only if `ours`, the graph of an earlier run, is in it."""
    if folder.exists() and not (folder / ours).exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} holds files of another program; give another directory")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def tell(text: str) -> None:
    for line in text.splitlines():
        print(f"  {line}".rstrip(), flush=True)


def table(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows under the names of their columns. Numbers are aligned to the right."""
    shown = [{name: _cell(value) for name, value in row.items()} for row in rows]
    if not shown:
        tell("(no rows)")
        return
    widths = {name: max(len(name), *(len(row[name]) for row in shown)) for name in shown[0]}
    right = {name: {"number"} <= {_kind(row[name]) for row in shown} <= {"number", "null"} for name in widths}
    tell("  ".join(_placed(name, widths[name], right=right[name]) for name in widths).rstrip())
    tell("  ".join("-" * width for width in widths.values()))
    for row in shown:
        tell("  ".join(_placed(row[name], widths[name], right=right[name]) for name in widths).rstrip())


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case float():
            return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
        case int() if abs(value) >= 100_000:
            return f"{value:,}"
        case list():
            return ", ".join(map(_cell, value))
        case _:
            return str(value)


def _kind(cell: str) -> str:
    if cell == "-":
        return "null"
    return "number" if cell.replace(",", "").replace(".", "", 1).lstrip("-").isdigit() else "text"


def _placed(cell: str, width: int, *, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)


def _coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ
