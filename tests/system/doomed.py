"""A child that meets trouble with a graph and reports how it was told: `python -m tests.system.doomed DOING URI`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from omnigraph.errors import OmniGraphError
from omnigraph.ids import new_ulid
from omnigraph.manifest.birth import open_graph
from omnigraph.store.root import open_root
from tests.graphs import add, ids_in, make, note, reopen

NOBODY = 65534


def main(doing: str, uri: str) -> None:
    print(json.dumps(DOINGS[doing](uri)))


def without_rights(uri: str) -> dict[str, object]:
    """Root may do anything, so root becomes nobody first, who may not be able to import: what is imported late comes now."""
    new_ulid()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    reader = open_graph(open_root(uri), writable=False)
    return {
        "init": told(lambda: make(f"{uri}-new")),
        "open": told(lambda: reopen(uri)),
        "publish": told(lambda: note(reader, "no")),
        "write": told(lambda: add(reader, "no")),
        "read": sorted(ids_in(reader)),
        "left": files(Path(uri).parent),
    }


def full_disk(uri: str) -> dict[str, object]:
    """A file system of a megabyte: fill it, fail, make room, go on."""
    manifest = make(uri)
    add(manifest, "kept")
    ballast = Path(uri).parent / "ballast"
    fill(ballast)
    before = manifest.snapshot()
    report: dict[str, object] = {
        "publish": told(lambda: note(manifest, "x" * 200_000)),
        "write": told(lambda: add(manifest, *(f"id-{n:09d}" for n in range(20_000)))),
        "init": told(lambda: make(f"{uri}-new")),
        "left": [name for name in os.listdir(Path(uri).parent) if name not in ("ballast", Path(uri).name)],
        "unchanged": reopen_quietly(uri) == before,
    }
    ballast.unlink()
    report["after"] = note(reopen(uri), "room again").commit.message
    report["kept"] = sorted(ids_in(reopen(uri)))
    return report


def reopen_quietly(uri: str) -> object:
    return open_graph(open_root(uri), writable=False).snapshot()


def fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, b"x" * 4096)
    except OSError:
        os.close(descriptor)


def told(work: Callable[[], object]) -> object:
    """(kind, message) of the typed error; anything else ends this process with its traceback, and so fails the test."""
    try:
        return repr(work())
    except OmniGraphError as error:
        return [error.kind.value, error.message]


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if "__locks" not in path.parts)


DOINGS = {"without rights": without_rights, "full disk": full_disk}

if __name__ == "__main__":
    main(*sys.argv[1:])
