"""A process whose system calls fail on request: `python -m tests.crash.failing_child SHIM`, one JSON request and one answer a line."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.graph import Graph
from tests.crash.failing import GRAPH, NEXT, WRITERS, Heard, Writer

BY_NAME = {writer.name: writer for writer in WRITERS}


class Shim:
    """The library, loaded and installed."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self.installed = self._library.shim_install() == 0

    def arm(self, folder: Path, call: int, mode: int, nth: int, errno: int) -> None:
        self._library.shim_arm(f"{folder}/".encode(), call, mode, ctypes.c_long(nth), errno)

    def disarm(self) -> list[tuple[int, bool, str]]:
        """The calls that were counted: class, whether it was made to fail, path."""
        self._library.shim_disarm()
        found: list[tuple[int, bool, str]] = []
        failed, path = ctypes.c_int(), ctypes.c_char_p()
        while (call := self._library.shim_call(ctypes.c_long(len(found)), ctypes.byref(failed), ctypes.byref(path))) >= 0:
            found.append((call, bool(failed.value), (path.value or b"").decode()))
        return found


def main(shim: str) -> None:
    library = Shim(shim)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever anybody prints is not an answer
    print(json.dumps({"installed": library.installed}), file=answers)
    for line in sys.stdin:
        print(json.dumps(answer(library, json.loads(line))), file=answers)


def answer(shim: Shim, request: dict[str, Any]) -> dict[str, Any]:
    writer, folder = BY_NAME[request["writer"]], Path(request["folder"])
    graph = world(writer, folder)
    if request["world_only"]:
        return {}
    shim.arm(folder, *request["failing"])
    told: dict[str, Any] = {}
    try:
        writer.write(folder, graph)
        told = {"heard": Heard.RECEIPT}
    except OmniGraphError as error:
        told = {"heard": heard(error), "kind": error.kind.value, "message": str(error)}
    except BaseException as error:  # noqa: BLE001  # an untyped error is what the parent must hear of
        told = {"heard": f"untyped {type(error).__name__}", "message": str(error)[:500]}
    finally:
        told["calls"] = shim.disarm()
    if request["goes_on"] and graph is not None:
        told["next"] = go_on(graph)
    return told


def world(writer: Writer, folder: Path) -> Graph | None:
    """The writer's world: made once, and copied to where it was made."""
    template = folder.with_name("world")
    if not template.exists():
        folder.mkdir()
        writer.world(folder)
        folder.rename(template)
    shutil.copytree(template, folder)
    return og.open(folder / GRAPH) if writer.opens else None


def heard(error: OmniGraphError) -> Heard:
    """What an error says about the effect."""
    return Heard(error.outcome.value)


def go_on(graph: Graph) -> str | None:
    """The next write, on the handle that met the failure; what went wrong with it."""
    try:
        graph.mutate(NEXT)
    except BaseException as error:  # noqa: BLE001  # reported, whatever it is
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
