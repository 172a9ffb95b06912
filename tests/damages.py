"""A graph with every kind of file, the ways to damage one, and the questions asked of it afterwards: the table of damages, in one place."""

from __future__ import annotations

import base64
import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.exec.adjacency.cache import ENVIRONMENT as CACHE_ENVIRONMENT
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.manifest.model import TableRow
from omnigraph.store.damage import IndexFiles
from omnigraph.store.deep import named_files
from omnigraph.store.durable import version_file
from omnigraph.store.tables import Table
from tests.mutations import run

DIMENSION = 2_048
PICTURES = 2_048
"""So many numbers that an index on them is built and used."""
DOCS = 300
SCHEMA = f"""
node Doc {{ slug: String @key  pages: I32? @index  text: String? @index  body: Blob? }}
node Picture {{ slug: String @key  look: Vector({DIMENSION})? @index }}
edge Cites: Doc -> Doc {{ note: String? }}
"""
BLOB_BYTES = 5_000_000
"""Large enough for a file of its own."""


class World(NamedTuple):
    """A sound graph: where it is, a commit of the past that shares no file with the newest one, and what both answer."""

    uri: Path
    past: str


def _blob(seed: int) -> str:
    return "base64:" + base64.b64encode(random.Random(seed).randbytes(BLOB_BYTES)).decode()


def _content(graph: Graph, *, seed: int) -> None:
    """The same keys, other values, in new files."""
    docs = [{"type": "Doc", "data": {"slug": f"d{n:03d}", "pages": n + seed, "text": f"word{n % 7} only{n * seed}"}} for n in range(DOCS)]
    docs[4]["data"]["body"] = _blob(seed)  # type: ignore[index]
    edges = [
        {"edge": "Cites", "from": f"d{n:03d}", "to": f"d{(n * 7 + seed) % DOCS:03d}", "data": {"id": f"e{n:03d}", "note": f"n{n * seed}"}}
        for n in range(DOCS)
    ]
    graph.load([*docs, *edges], mode="overwrite")
    looks = np.random.default_rng(seed).normal(size=(PICTURES, DIMENSION)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(looks.ravel()), DIMENSION)
    graph.load({"Picture": pa.table({"slug": [f"p{n:04d}" for n in range(PICTURES)], "look": column})}, mode="overwrite")


def _indexed_anew(graph: Graph) -> Graph:
    """Builds indexes beside those that earlier commits show."""
    kept = {folder: folder.with_name("kept") for folder in Path(graph.uri).glob("*/*/_indices")}
    for folder, aside in kept.items():
        folder.rename(aside)
    fresh = og.open(graph.uri)
    fresh.ensure_indices()
    for folder, aside in kept.items():
        for index in aside.iterdir():
            index.rename(folder / index.name)
        aside.rmdir()
    return og.open(graph.uri)


def build(folder: Path) -> World:
    """Needs `OMNIGRAPH_FSYNC=off` and a cache directory in the environment."""
    graph = og.init(folder / "sound", schema=SCHEMA)
    _content(graph, seed=1)
    graph.ensure_indices()
    run(graph, "delete Doc where pages > 280")
    graph.tags.create("v1")
    past = graph.snapshot().commit_id
    _content(graph, seed=2)
    graph = _indexed_anew(graph)
    run(graph, "delete Doc where pages > 270")
    graph.branches.create("work")
    run(graph, 'update Doc set { pages: 7 } where slug = "d010"', branch="work")
    return World(folder / "sound", past)


def pending_write(uri: Path) -> None:
    """Leaves the intent of a writer that died between two tables."""
    graph = og.open(uri)
    try:
        with armed(Fault.WRITE_BETWEEN_TABLES):
            graph.mutate('query q() { insert Doc { slug: "late" }\n insert Cites { from: "d001", to: "late" } }')
    except SimulatedCrash:
        return
    raise AssertionError("the writer lived")


def cleaned(uri: Path) -> None:
    """Forgets all commits but the newest ones and the tagged one."""
    og.open(uri).cleanup(keep=1)


def copy(world: World, to: Path) -> Path:
    """Lance replaces files and never changes one, so links do."""
    shutil.copytree(world.uri, to, copy_function=os.link)
    return to


# -- files


class When(StrEnum):
    """Which commits show the file."""

    TIP = "tip"
    PAST = "past"


class Place(NamedTuple):
    """A graph to be damaged, and a commit of its past."""

    uri: Path
    past: str

    def table(self, when: When, alias: str) -> tuple[TableRow, Table]:
        graph = og.open(self.uri, mode="r")
        snapshot = graph.engine.manifest.snapshot(at=self.past if when is When.PAST else None)
        row = snapshot.state.table(alias)
        assert row is not None
        return row, graph.engine.tables.open(row.ref)

    def ledger(self, when: When) -> Table:
        graph = og.open(self.uri, mode="r")
        if when is When.PAST:
            return graph.engine.manifest.past(BranchName("main"), self.past)[1].as_table()
        return graph.engine.manifest.look()[1].as_table()


Pick = Callable[[Place, When], Path]


def _version(alias: str) -> Pick:
    def pick(place: Place, when: When) -> Path:
        row, _ = place.table(when, alias)
        return place.uri / row.ref.home / version_file(row.version)

    return pick


def _named(ending: str) -> Pick:
    def pick(place: Place, when: When) -> Path:
        _, table = place.table(when, "node:Doc")
        files = [place.uri / file.path for files in named_files(table).values() for file in files if file.path.endswith(ending)]
        return max(files, key=lambda file: file.stat().st_size)

    return pick


def _blob_file(place: Place, when: When) -> Path:
    data = _named(".lance")(place, when)
    (found,) = data.with_suffix("").glob("*.blob")
    return found


def _index(alias: str, column: str, is_wanted: Callable[[IndexFiles], bool]) -> Pick:
    def pick(place: Place, when: When) -> Path:
        _, table = place.table(when, alias)
        (index,) = [index for index in table.indexes if index.column == column and is_wanted(index)]
        return max((place.uri / index.directory).iterdir(), key=lambda file: file.stat().st_size)

    return pick


def _transaction(place: Place, when: When) -> Path:
    row, _ = place.table(when, "node:Doc")
    (found,) = (place.uri / row.ref.home / "_transactions").glob(f"{row.version - 1}-*.txn")
    return found


def _state(place: Place, when: When) -> Path:
    """The fragment of `__manifest` that holds the state of a branch."""
    table = place.ledger(when)
    return place.uri / list(named_files(table).values())[-1][0].path


def _facts(place: Place, when: When) -> Path:
    """The largest fragment of `__manifest` with commits."""
    files = [place.uri / files[0].path for files in list(named_files(place.ledger(when)).values())[:-1]]
    return max(files, key=lambda file: file.stat().st_size)


def _manifest_version(place: Place, when: When) -> Path:
    ledger = place.ledger(when)
    return place.uri / ledger.ref.home / version_file(ledger.ref.version)


def _one(pattern: str) -> Pick:
    def pick(place: Place, _: When) -> Path:
        (found,) = place.uri.glob(pattern)
        return found

    return pick


def _cache(place: Place, _: When) -> Path:
    files = [file for file in Path(os.environ[CACHE_ENVIRONMENT]).rglob("*") if file.is_file()]
    return max(files, key=lambda file: file.stat().st_size)


class Item(NamedTuple):
    """A kind of file: its name in the table, how one is found, and when it can be damaged."""

    name: str
    pick: Pick
    whens: tuple[When, ...] = (When.TIP, When.PAST)
    prepare: Callable[[Path], None] | None = None
    """What makes the file, in a graph that has none."""


FILES = {
    "version": Item("version file of a table", _version("node:Doc")),
    "data": Item("data file", _named(".lance")),
    "deletions": Item("deletion file", _named(".arrow")),
    "blob": Item("file of a large blob", _blob_file),
    "btree": Item("B-tree", _index("node:Doc", "pages", lambda index: index.is_scalar)),
    "text": Item("full-text index", _index("node:Doc", "text", lambda index: index.is_text)),
    "vector": Item("vector index", _index("node:Picture", "look", lambda index: index.is_vector)),
    "transaction": Item("transaction file", _transaction),
    "state": Item("`__manifest`: state", _state),
    "facts": Item("`__manifest`: commits and schemas", _facts, (When.TIP,)),
    "manifest_version": Item("`__manifest`: version file", _manifest_version),
    "hint": Item("version hint", _one("__manifest/_versions/latest_version_hint.json"), (When.TIP,)),
    "branch": Item("branch", _one("__branches/work.json"), (When.TIP,)),
    "native": Item("native branch of a table", _one("nodes/*/_refs/branches/*.json"), (When.TIP,)),
    "manifest_native": Item("native branch of `__manifest`", _one("__manifest/_refs/branches/*.json"), (When.TIP,)),
    "tag": Item("tag", _one("__tags/v1.json"), (When.PAST,)),
    "intent": Item("intent of an interrupted write", _one("__recovery/*.json"), (When.TIP,), pending_write),
    "floor": Item("retention floor, left by a cleanup", _one("__manifest/_floor.json"), (When.TIP,), cleaned),
    "schema": Item("copy of the schema, `_schema.pg`", _one("_schema.pg"), (When.TIP,)),
    "cache": Item("cached adjacency", _cache, (When.TIP,)),
}


# -- damage


class Harm(StrEnum):
    """What happens to a file."""

    REMOVED = "removed"
    TRUNCATED = "truncated"
    FLIPPED = "flipped"


# -- questions


def _rows(text: str, *, vector: bool = False) -> Callable[[Graph, str | None], object]:
    params = {"v": [1.0] * DIMENSION} if vector else None
    head = f"query q($v: Vector({DIMENSION}))" if vector else "query q()"
    return lambda graph, at: sorted(map(repr, graph.query(f"{head} {{ {text} }}", params=params, at=at).rows))


QUESTIONS: dict[str, Callable[[Graph, str | None], object]] = {
    "by key": _rows('match { $d: Doc { slug: "d042" } } return { $d.pages, $d.text }'),
    "by index": _rows("match { $d: Doc  $d.pages < 20 } return { $d.slug }"),
    "words": _rows('match { $d: Doc  search($d.text, "only84") } return { $d.slug }'),
    "nearest": _rows("match { $p: Picture } return { $p.slug } order { nearest($p.look, $v) } limit 5", vector=True),
    "edges": _rows('match { $d: Doc { slug: "d042" }  $d cites{1,3} $e } return { $e.slug }'),
    "export": lambda graph, at: list(graph.export(at=at, types=["Doc", "Cites"])),
    "blob": lambda graph, at: graph.blob("node", "Doc", "d004", "body", at=at).read(),
    "commits": lambda graph, _: [commit.id for commit in graph.commits()],
    "branch": lambda graph, _: sorted(
        map(repr, graph.query("query q() { match { $d: Doc } return { $d.slug, $d.pages } }", branch="work").rows)
    ),
    "tag": lambda graph, _: graph.snapshot(at="v1").commit_id,
    "diff": lambda graph, at: repr(sorted(map(repr, graph.diff("v1", "main", types=["Doc"])))) if at is None else None,
}


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told.append(record.getMessage())


@contextmanager
def listening() -> Iterator[list[str]]:
    handler, logger = Heard(), logging.getLogger("omnigraph")
    logger.addHandler(handler)
    try:
        yield handler.told
    finally:
        logger.removeHandler(handler)


RIGHT, WARNED, WRONG = "right", "right, with a warning", "**wrong**"


def answers(uri: Path, at: str | None, sound: dict[str, object], *, without: str | None = None) -> frozenset[str]:
    """What the questions get: `right`, `right, with a warning`, the kind of an error, or `**wrong**`. A foreign exception passes."""
    found = set()
    for name, ask in ((name, ask) for name, ask in QUESTIONS.items() if name != without):
        with listening() as told:
            try:
                said = ask(og.open(uri, mode="r"), at)
                found.add(WRONG if said != sound[name] else WARNED if told else RIGHT)
            except og.OmniGraphError as error:
                found.add(f"`{error.kind.value}`")
    return frozenset(found)


def sound_answers(uri: Path, at: str | None) -> dict[str, object]:
    return {name: ask(og.open(uri, mode="r"), at) for name, ask in QUESTIONS.items()}


def findings(uri: Path, *, deep: bool) -> frozenset[str]:
    """The codes that `verify` returns, or the error with which the graph does not open."""
    try:
        found = og.open(uri, mode="r").verify(deep=deep)
    except og.OmniGraphError as error:
        return frozenset({f"does not open: `{error.kind.value}`"})
    for finding in found:
        assert finding.remedy, finding
    return frozenset(f"`{finding.code}`" for finding in found)


def repaired(uri: Path, at: str | None, sound: dict[str, object]) -> str:
    """What `repair` says and does, on main."""
    try:
        report = og.open(uri).repair(confirm=True)
        if report.index_commit is not None:
            og.open(uri).repair("work", confirm=True)
    except og.OmniGraphError as error:
        return f"does not open: `{error.kind.value}`"
    if report.lost:
        return "says what is lost"
    if report.refused:
        return "says what is wrong"
    if report.index_commit is not None:
        assert at is not None or answers(uri, at, sound, without="commits") == {RIGHT}
        return "builds it again"
    return "nothing"


class Cell(NamedTuple):
    """What happens after one damage. After a flip each is the set of what can happen, by where the byte is."""

    reads: frozenset[str]
    verify: frozenset[str]
    deep: frozenset[str]
    repair: frozenset[str]


def _expected() -> dict[tuple[str, When, Harm], Cell]:
    """`damages.txt`: key | time | harm | reads | verify | verify --deep | repair, several words apart by `; `, none as `-`."""
    found = {}
    for line in (Path(__file__).with_name("damages.txt")).read_text().splitlines():
        key, when, harm, *words = (part.strip() for part in line.split(" | "))
        cells = [frozenset(text.split("; ")) - {"-"} for text in words]
        found[key, When(when), Harm(harm)] = Cell(*cells)
    return found


EXPECTED = _expected()


def examine(
    world: World, sound: dict[When, dict[str, object]], item: Item, when: When, harm: Harm, folder: Path, *, flips: int
) -> list[Cell]:
    """Damages copies of a graph, one for each flip, and returns what happened."""
    cells = []
    at = world.past if when is When.PAST else None
    for turn in range(flips if harm is Harm.FLIPPED else 1):
        uri = copy(world, folder / f"{harm}-{turn}")
        if item.prepare is not None:
            item.prepare(uri)
        damage(item.pick(Place(uri, world.past), when), harm, part=(turn + 0.5) / flips)
        cells.append(
            Cell(
                answers(uri, at, sound[when]),
                findings(uri, deep=False),
                findings(uri, deep=True),
                frozenset({repaired(uri, at, sound[when])}),
            )
        )
        shutil.rmtree(uri)
    return cells


def damage(file: Path, harm: Harm, *, part: float) -> None:
    """Damages one file. `part` is the place of a flipped byte, from 0 to 1."""
    data = bytearray(file.read_bytes())
    file.unlink()  # the sound graph has a link to the same bytes
    match harm:
        case Harm.REMOVED:
            return
        case Harm.TRUNCATED:
            file.write_bytes(data[: len(data) // 2])
        case Harm.FLIPPED:
            data[int((len(data) - 1) * part)] ^= 0x10
            file.write_bytes(data)
