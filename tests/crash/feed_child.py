"""A process that keeps a copy of a branch by its change feed: `main(URI, BRANCH, FOLDER, LIMIT)`. It is killed at any moment.

The copy and its cursor are one file, which is replaced as a whole. Prints what it did to its copy, then waits for more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import omnigraph as og
from tests.feeds import apply, exported
from tests.forks import Forked

FILE = "copy.json"
ENDED = "ended"


def main(uri: str, branch: str, folder: str, limit: str) -> None:
    graph, file = og.open(uri, mode="r"), Path(folder) / FILE
    if not file.exists():
        begin(graph, branch, file)
    while True:
        try:
            keep_up(graph, branch, file, limit=int(limit))
        except (og.ChangeFeedGap, og.ConflictError) as error:  # the rules say to begin again
            print(error.kind.value, flush=True)
            begin(graph, branch, file)
        except og.ChangeCursorRejected as error:  # another branch of the same name
            print(error.facts["reason"], flush=True)
            begin(graph, branch, file)
        except og.NotFound as error:
            print(error.kind.value, flush=True)
            (Path(folder) / ENDED).touch()
            return


def begin(graph: og.Graph, branch: str, file: Path) -> None:
    baseline = graph.changes.baseline(branch)
    store(file, exported(baseline), baseline.cursor)
    print("baseline", flush=True)


def keep_up(graph: og.Graph, branch: str, file: Path, *, limit: int) -> None:
    kept = json.loads(file.read_text())
    rows = kept["rows"]
    for page in graph.changes.follow(kept["cursor"], branch=branch, limit=limit, max_commits=limit):
        for block in page.blocks:
            if block.schema is not None and "@rename_from" in block.schema:  # this copy stores names
                begin(graph, branch, file)
                return
        apply(rows, page.blocks)
        if page.cursor is not None:
            store(file, rows, page.cursor)
            print("page", flush=True)


def store(file: Path, rows: dict[str, str], cursor: str) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"rows": rows, "cursor": cursor}))
    os.replace(new, file)


def start(uri: str, branch: str, folder: Path, *, limit: int) -> Forked:
    return Forked("tests.crash.feed_child", uri, branch, str(folder), str(limit))
