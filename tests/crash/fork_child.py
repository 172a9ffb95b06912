"""A process that uses a branch while others clean up, delete it and create it anew: `main(URI, DOING, COUNT)`.

Prints what it saw or what was acknowledged, one JSON value a line.
"""

from __future__ import annotations

import json

import omnigraph as og
from omnigraph.errors import Kind, OmniGraphError
from tests.forks import Forked

SCHEMA = "node Person { name: String @key }\nnode Firm { name: String @key }"
NAMES = "match { $p: Person } return { $p.name as name } order { name }"
WORK = "work"
GONE = (Kind.BRANCH_NOT_FOUND, Kind.BRANCH_REPLACED, Kind.VERSION_RECLAIMED)
"""What a user of a branch may be told if it is deleted, or deleted and created anew, meanwhile."""


def main(uri: str, doing: str, count: str) -> None:
    graph = og.open(uri)
    act = {"clean": _clean, "read": _read, "past": _past, "write": _write, "touch": _touch, "replace": _replace}[doing]
    for n in range(int(count)):
        try:
            said = act(graph, n)
        except OmniGraphError as error:
            if error.kind not in GONE:
                raise
            said = error.kind.value
        print(json.dumps(said), flush=True)


def _clean(graph: og.Graph, n: int) -> object:
    """The errors of a cleanup that keeps one commit, and how many versions of native branches it removed."""
    done = graph.cleanup(keep=1)
    return [[table.error for table in done.tables if table.error is not None], done.versions]


def _read(graph: og.Graph, n: int) -> object:
    """What the branch shows: by a handle that knows it, and by a new one in turn."""
    reader = og.open(graph.uri, mode="r") if n % 2 else graph
    return names(reader)


def _past(graph: og.Graph, n: int) -> object:
    """What a commit of the branch shows, that a cleanup may be about to forget."""
    commit = graph.commits(WORK)[0].id
    return sorted(json.loads(line)["data"]["name"] for line in graph.export(WORK, at=commit, types=["Person"]))


def _write(graph: og.Graph, n: int) -> object:
    """A row that was acknowledged. Each write is a version of the native branch of the table."""
    graph.mutate(f'query q() {{ insert Person {{ name: "w{n:03}" }} }}', branch=WORK)
    return f"w{n:03}"


def _touch(graph: og.Graph, n: int) -> object:
    """A branch of the branch: created, written for the first time, read, and deleted every second time."""
    name = f"b{n}"
    graph.branches.create(name, from_=WORK)
    graph.mutate(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=name)
    seen = names(graph, name)
    if n % 2:
        graph.branches.delete(name)
    return seen


def _replace(graph: og.Graph, n: int) -> object:
    """Delete the branch, create one of its name, and write to it three times."""
    graph.branches.delete(WORK)
    graph.branches.create(WORK)
    for part in range(3):
        graph.mutate(f'query q() {{ insert Person {{ name: "life{n:03}-{part}" }} }}', branch=WORK)
    return f"life{n:03}"


def names(graph: og.Graph, branch: str = WORK) -> list[str]:
    return [row["name"] for row in graph.query(NAMES, branch=branch).rows]


def start(uri: str, doing: str, count: int) -> Forked:
    return Forked("tests.crash.fork_child", uri, doing, str(count))
