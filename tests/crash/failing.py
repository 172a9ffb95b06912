"""Every writer x every way in which one of its system calls can fail: the declarations that the tests run and the page shows."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import NamedTuple

import omnigraph as og
from omnigraph.errors import NotFound
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import MAIN
from omnigraph.store.index import existing
from tests.loads import ndjson


class Call(IntEnum):
    """The classes of system calls, in the order of shim.c."""

    WRITE = 0
    FSYNC = 1
    RENAME = 2
    LINK = 3
    UNLINK = 4
    CREATE = 5
    MKDIR = 6


class Mode(IntEnum):
    """What becomes of the n-th call, in the order of shim.c."""

    FAIL = 0
    SHORT = 1
    SHORT_THEN_FAIL = 2
    FAIL_FROM = 3


class Heard(StrEnum):
    """What the caller was told."""

    RECEIPT = "receipt"
    DID_NOT_HAPPEN = "did_not_happen"
    HAPPENED = "happened"
    UNKNOWN = "unknown"


class Failure(NamedTuple):
    """One way to fail, what a caller may hear of it, and which telling calls it meets by default: every `share`-th from `first` on."""

    name: str
    call: Call
    mode: Mode
    errno: int
    hears: frozenset[Heard]
    first: int = 0
    share: int = 1


UNNOTICED = frozenset({Heard.RECEIPT})
"""The rest is written by the next call."""
CERTAIN = frozenset({Heard.RECEIPT, Heard.DID_NOT_HAPPEN})
"""A receipt where nothing rests on the call, or where the writer could finish all the same."""
NO_RECEIPT = frozenset({Heard.DID_NOT_HAPPEN, Heard.UNKNOWN})
"""A failed flush is never acknowledged: what is visible need not be durable."""
ANYTHING = frozenset({Heard.RECEIPT, Heard.DID_NOT_HAPPEN, Heard.UNKNOWN})

FAILURES = (
    Failure("short write", Call.WRITE, Mode.SHORT, 0, UNNOTICED, share=8),
    Failure("short write, then ENOSPC", Call.WRITE, Mode.SHORT_THEN_FAIL, errno.ENOSPC, CERTAIN, share=4),
    Failure("ENOSPC on write", Call.WRITE, Mode.FAIL, errno.ENOSPC, CERTAIN, first=0, share=3),
    Failure("EDQUOT on write", Call.WRITE, Mode.FAIL, errno.EDQUOT, CERTAIN, first=1, share=3),
    Failure("EIO on write", Call.WRITE, Mode.FAIL, errno.EIO, CERTAIN, first=2, share=3),
    Failure("ENOSPC on every write from there", Call.WRITE, Mode.FAIL_FROM, errno.ENOSPC, ANYTHING, share=6),
    Failure("EIO on fsync", Call.FSYNC, Mode.FAIL, errno.EIO, NO_RECEIPT),
    Failure("EIO on every fsync from there", Call.FSYNC, Mode.FAIL_FROM, errno.EIO, NO_RECEIPT, share=6),
    Failure("EIO on rename", Call.RENAME, Mode.FAIL, errno.EIO, CERTAIN, share=2),
    Failure("EIO on link", Call.LINK, Mode.FAIL, errno.EIO, CERTAIN),
    Failure("EIO on unlink", Call.UNLINK, Mode.FAIL, errno.EIO, CERTAIN),
    Failure("ENOSPC on create", Call.CREATE, Mode.FAIL, errno.ENOSPC, CERTAIN | {Heard.HAPPENED}, share=4),
    Failure("ENOSPC on mkdir", Call.MKDIR, Mode.FAIL, errno.ENOSPC, CERTAIN, share=2),
)


class Writer(NamedTuple):
    """One writer: the world it starts from, what it does there, and the classes of system calls that it makes.

    The graph lies in `folder / GRAPH`, a copy of it in `folder / COPY`.
    """

    name: str
    world: Callable[[Path], object]
    write: Callable[[Path, Graph | None], object]
    calls: frozenset[Call]
    heals: bool = False
    """It resolves what another left: what it fails to do, the next writer does."""

    @property
    def opens(self) -> bool:
        """Does it write to a graph that is open?"""
        return not self.heals and self.world is not nothing


GRAPH = "g"
COPY = "copy"
WORK = "work"
BIG = 2000
"""Rows of a load: enough for a data file of several writes."""

SCHEMA = "node P {\n  k: String @key\n  bio: String?\n}\nedge E: P -> P\n"
WIDER = "node P {\n  k: String @key\n  bio: String?\n  age: I32?\n}\nnode Q {\n  k: String @key\n}\nedge E: P -> P\n"
NARROWER = "node P {\n  k: String @key\n}\nedge E: P -> P\n"

_words = random.Random(7)


def person(key: str, bio: str) -> dict[str, object]:
    return {"type": "P", "data": {"k": key, "bio": bio}}


FEW = ndjson(person("a", "x"), person("b", "y"), person("c", "z"), {"edge": "E", "from": "a", "to": "b", "data": {"id": "e"}})
MANY = ndjson(*(person(f"p{n}", _words.randbytes(60).hex()) for n in range(BIG)), person("a", "again"), person("b", "again"))
PARTS = MANY + ndjson({"type": "P", "data": {"k": "c"}}, {"edge": "E", "from": "a", "to": "c", "data": {"id": "e"}})
"""The row c keeps what it has."""
NEW = ndjson(*(person(f"p{n}", _words.randbytes(60).hex()) for n in range(BIG)))

INTERRUPTED = ndjson(person("d", "d"), {"edge": "E", "from": "a", "to": "c", "data": {"id": "f"}})
"""What a writer of two tables dies of."""

NEXT = 'query next() { insert P { k: "next" } }'


def few(folder: Path) -> Graph:
    graph = og.init(folder / GRAPH, schema=SCHEMA)
    graph.load(FEW, mode="append")
    return graph


def scattered(folder: Path) -> Graph:
    """Two fragments of people, without an index."""
    graph = few(folder)
    graph.load(ndjson(person("d", "d")), mode="append")
    return graph


def branched(folder: Path) -> Graph:
    graph = few(folder)
    graph.branches.create(WORK)
    return graph


def nothing(folder: Path) -> None:
    return None


def interrupted(point: Fault, after: int) -> Callable[[Path], Graph]:
    """A graph in which a writer of two tables died at `point`."""

    def world(folder: Path) -> Graph:
        graph = few(folder)
        with armed(point, after=after):
            try:
                graph.load(INTERRUPTED, mode="append")
            except SimulatedCrash:
                return graph
        raise AssertionError("it did not die")

    return world


def _open(graph: Graph | None) -> Graph:
    assert graph is not None
    return graph


ALL = frozenset(Call)
WRITERS = (
    Writer("upsert of one row", few, lambda _, g: _open(g).mutate('query w() { insert P { k: "n", bio: "n" } }'), ALL),
    Writer("delete", few, lambda _, g: _open(g).mutate('query w() { delete P where k = "c" }'), ALL),
    Writer("load append", few, lambda _, g: _open(g).load(NEW, mode="append"), ALL),
    Writer("load merge", few, lambda _, g: _open(g).load(MANY, mode="merge"), ALL),
    Writer("load upsert", few, lambda _, g: _open(g).load(PARTS, mode="upsert"), ALL),
    Writer("load overwrite", few, lambda _, g: _open(g).load(MANY, mode="overwrite"), ALL),
    Writer("ensure_indices", few, lambda _, g: _open(g).ensure_indices(), ALL),
    Writer("optimize", scattered, lambda _, g: _open(g).optimize(), ALL),
    Writer("apply_schema", few, lambda _, g: _open(g).apply_schema(WIDER), ALL),
    Writer("apply_schema, hard drop", few, lambda _, g: _open(g).apply_schema(NARROWER, allow_data_loss=True), ALL),
    Writer("branch create", few, lambda _, g: _open(g).branches.create(WORK), ALL),
    Writer("first touch of a branch", branched, lambda _, g: _open(g).load(ndjson(person("n", "n")), branch=WORK), ALL),
    Writer("branch delete", branched, lambda _, g: _open(g).branches.delete(WORK), ALL - {Call.LINK, Call.MKDIR}),
    Writer("init", nothing, lambda folder, _: og.init(folder / GRAPH, schema=SCHEMA), ALL),
    Writer("copy_to", branched, lambda folder, g: _open(g).copy_to(folder / COPY), ALL),
    Writer(
        "recovery of a writer that died at write.committed",
        interrupted(Fault.WRITE_COMMITTED, 1),
        lambda folder, _: og.open(folder / GRAPH),
        ALL,
        heals=True,
    ),
    Writer(
        "recovery of a writer that died at write.between_tables",
        interrupted(Fault.WRITE_BETWEEN_TABLES, 1),
        lambda folder, _: og.open(folder / GRAPH),
        ALL,
        heals=True,
    ),
)

Shown = dict[str, list[str]]


def shown(graph: Graph) -> Shown:
    """Per branch its schema and rows; and the indexes that its tables have."""
    found: Shown = {}
    tables = graph.engine.tables
    for branch in (MAIN, *graph.branches.list()):
        snapshot = graph.engine.snapshot(branch)
        found[branch] = [graph.schema_of(branch), *graph.export(branch)]
        for row in snapshot.state.tables.values():
            if not row.dropped:
                found[branch] += sorted(f"{row.alias}: {index.name.rpartition('_')[0]}" for index in existing(tables.open(row.ref)))
    return found


Images = dict[str, Shown | None]


def images(folder: Path) -> Images:
    """What a reader sees of the graph and of its copy. None: there is no graph."""
    found: Images = {}
    for place in (GRAPH, COPY):
        try:
            found[place] = shown(og.open(folder / place, mode="r"))
        except NotFound:
            found[place] = None
    return found


def without_next(seen: Images) -> Images:
    """The images before the next write, which is part of what `seen` shows."""
    graph = seen[GRAPH]
    assert graph is not None
    lines = graph["main"]
    kept = [line for line in lines if '"next"' not in line]
    assert len(kept) == len(lines) - 1
    return {**seen, GRAPH: {**graph, "main": kept}}


def differences(seen: Images, allowed: dict[str, Images]) -> str:
    """How what is seen differs from each image that was allowed."""
    shows = []
    for name, image in allowed.items():
        lacks, has = _lines(image) - _lines(seen), _lines(seen) - _lines(image)
        shows.append(f"not {name}: lacks {sorted(lacks)[:2]}, has {sorted(has)[:2]}")
    return "; ".join(shows)


def _lines(found: Images) -> set[str]:
    branches = [(place, branch, lines) for place, shown in found.items() for branch, lines in (shown or {"-": ["no graph"]}).items()]
    return {f"{place}/{branch}: {line}" for place, branch, lines in branches for line in lines}
