"""Loads whose last bytes do not fit: `python -m tests.crash.squeezed limited|full FOLDER`. It says what was heard and what is there."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.errors import OmniGraphError
from omnigraph.faults import ENVIRONMENT, Fault
from omnigraph.graph import Graph
from tests.crasher import ROOT, command
from tests.loads import ndjson
from tests.system.doomed import fill

SCHEMA = "node P {\n  k: String @key\n  bio: String\n}\n"
PAGE = 4096
_words = random.Random(1)
ROWS = [{"type": "P", "data": {"k": f"p{n}", "bio": _words.randbytes(60).hex()}} for n in range(5000)]
EARLIER = ndjson({"type": "P", "data": {"k": "earlier", "bio": "x"}})
WITHIN_FOOTER = 2_500
"""The last write of the file is larger than this. Equal rows make files that differ by up to 700 bytes: compression learns by chance."""
FREE_PAGES = (-2, -1, 0, 1, 16)
"""Room for the data file, more or less: the footer is its last two pages, and opening the graph may take a page."""


def main(doing: str, folder: str) -> None:
    print(json.dumps({"limited": limited, "full": full}[doing](Path(folder))))


def new_graph(place: Path) -> Graph:
    graph = og.init(place, schema=SCHEMA)
    graph.load(EARLIER, mode="append")
    return graph


def data_file_bytes(folder: Path) -> int:
    """How large the data file of the load becomes; found out by doing it undisturbed."""
    graph = new_graph(folder / "twin")
    graph.load(ROWS, mode="append")
    return max(path.stat().st_size for path in folder.glob("twin/nodes/*/data/*.lance"))


def limited(folder: Path) -> list[dict[str, Any]]:
    """The kernel refuses what would make a file larger than a limit, which lies within the data file's footer."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = data_file_bytes(folder)
    graph = new_graph(folder / "g")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - WITHIN_FOOTER, before[1]))
    try:
        graph.load(ROWS, mode="append")
        heard = "done"
    except OmniGraphError as error:
        heard = error.kind.value
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return [{"heard": heard, **found(folder / "g")}]


def full(folder: Path) -> list[dict[str, Any]]:
    """The file system is full while the last bytes are written, and has room again when the load goes on."""
    size = data_file_bytes(folder)
    source = folder / "rows.ndjson"
    source.write_bytes(ndjson(*ROWS))
    return [{"pages": pages, **squeezed(folder, source, -(-size // PAGE) + pages)} for pages in FREE_PAGES]


def squeezed(folder: Path, source: Path, free_pages: int) -> dict[str, Any]:
    place = folder / f"g{free_pages}"
    new_graph(place)
    ballast = folder / "ballast"
    fill(ballast)
    os.truncate(ballast, ballast.stat().st_size - free_pages * PAGE)
    job = json.dumps({"data": str(source), "mode": "append"})
    environment = {**os.environ, ENVIRONMENT: f"{Fault.WRITE_PREPARED.value}=stop"}
    with subprocess.Popen(command(f"load {job}", str(place), None), cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as writer:
        os.waitid(os.P_PID, writer.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        ballast.unlink()
        writer.send_signal(signal.SIGCONT)
        heard, _ = writer.communicate(timeout=60)
    return {"heard": heard.strip(), **found(place)}


def found(place: Path) -> dict[str, Any]:
    """What the graph shows, whether it is sound, and whether it takes the next load."""
    try:
        graph = og.open(place)
        rows = sum(1 for _ in graph.export())
        graph.load(ndjson({"type": "P", "data": {"k": "next", "bio": "x"}}), mode="merge")
        wrong = [str(finding) for finding in graph.verify() if finding.severity == "error"]
        return {"rows": rows, "after": sum(1 for _ in graph.export()), "wrong": wrong}
    except OmniGraphError as error:
        return {"rows": None, "after": None, "wrong": [f"{error.kind.value}: {error}"]}


if __name__ == "__main__":
    main(*sys.argv[1:])
