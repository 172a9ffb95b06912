"""INV-13: reads compare files with their recorded checksums: once, only what they need, and before anything leaves or is written again."""

from __future__ import annotations

import base64
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import Kind, StorageError
from omnigraph.faults import Fault, SimulatedCrash, armed
from omnigraph.graph import Graph
from omnigraph.manifest.recorded import SPAN
from omnigraph.store.checked import WRONG, CheckedFiles, WrongChecksum
from omnigraph.store.checksums import BLOCK_BYTES, FileSum, checksum
from omnigraph.store.deep import named_files
from omnigraph.store.durable import version_file
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.tables import Table, one_of
from tests.mutations import run

SCHEMA = "node Doc { slug: String @key  pages: I32? @index  text: String?  body: Blob? }\nedge Cites: Doc -> Doc { note: String? }"
BY_KEY = 'query q() { match { $d: Doc { slug: "d00007" } } return { $d.text } }'
ALL = "query q() { match { $d: Doc } return { $d.slug, $d.pages, $d.text } }"


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests are about flushes."""
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def docs(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    texts = [f"a text that says {n}" for n in numbers]
    return pa.table({"slug": [f"d{n:05d}" for n in numbers], "pages": pa.array(numbers, pa.int32()), "text": texts})


def make(place: Path, *, parts: int = 4, rows: int = 5_000, auto_upkeep: bool = True) -> Graph:
    """A graph with several fragments that are too large to be folded."""
    graph = og.init(place, schema=SCHEMA, auto_upkeep=auto_upkeep)
    for part in range(parts):
        graph.load({"Doc": docs(part * rows, rows)}, mode="append")
    graph.load([{"edge": "Cites", "from": f"d{n:05d}", "to": f"d{n + 1:05d}", "data": {"note": f"n{n}"}} for n in range(50)])
    return graph


def table_of(graph: Graph, alias: str = "node:Doc", *, branch: str = "main") -> Table:
    row = graph.engine.snapshot(branch).state.table(alias)
    assert row is not None
    return graph.engine.tables.open(row.ref)


def data_files(graph: Graph, alias: str = "node:Doc") -> list[Path]:
    files = named_files(table_of(graph, alias)).values()
    return [Path(graph.uri) / file.path for each in files for file in each if file.path.endswith(".lance")]


def flip(file: Path, at: float = 0.3) -> None:
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    file.write_bytes(data)


def refused(graph: str | Graph, ask: Callable[[Graph], object]) -> StorageError:
    """Asks a process that has read nothing yet."""
    with pytest.raises(StorageError) as caught:
        ask(og.open(graph.uri if isinstance(graph, Graph) else graph))
    assert caught.value.kind is Kind.CORRUPT
    assert caught.value.facts["reason"] == WRONG
    return caught.value


def compared(graph: Graph, ask: Callable[[], object]) -> int:
    """How many bytes were read to compare them."""
    before = graph.engine.root.checked.read_bytes
    ask()
    return graph.engine.root.checked.read_bytes - before


# -- how much


def test_a_second_read_compares_nothing(tmp_path: Path) -> None:
    make(tmp_path / "g").ensure_indices()
    graph = og.open(tmp_path / "g", mode="r")
    for text in (BY_KEY, ALL):
        assert compared(graph, lambda text=text: graph.query(text).rows) > 0  # type: ignore[misc]  # mypy does not infer defaults
        assert compared(graph, lambda text=text: graph.query(text).rows) == 0  # type: ignore[misc]


def test_what_a_process_wrote_is_not_compared(tmp_path: Path) -> None:
    graph = make(tmp_path / "g")
    assert compared(graph, lambda: graph.query(ALL).rows) == 0


def test_a_lookup_compares_the_fragment_that_has_the_row_and_no_other(tmp_path: Path) -> None:
    graph = make(tmp_path / "g", parts=8)
    graph.ensure_indices()
    index = sum(file.stat().st_size for file in Path(graph.uri).glob("nodes/*/_indices/**/*") if file.is_file())
    first, *others = sorted(data_files(graph), key=lambda file: file.stat().st_mtime_ns)
    versions = sum(file.stat().st_size for file in Path(graph.uri).glob("*/*/_versions/*.manifest"))
    fresh = og.open(graph.uri, mode="r")
    assert compared(fresh, lambda: fresh.query(BY_KEY).rows) <= first.stat().st_size + index + versions
    assert fresh.engine.root.checked.is_right(str(first.relative_to(graph.uri)))
    assert not any(fresh.engine.root.checked.is_right(str(file.relative_to(graph.uri))) for file in others)
    for file in others:
        flip(file)
    assert og.open(graph.uri, mode="r").query(BY_KEY).rows == [{"d.text": "a text that says 7"}]


def test_lance_is_asked_once_whether_an_index_finds_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan of a filter says what is left to compare. It does not depend on the texts, but may on their number."""
    graph = make(tmp_path / "g", parts=2)
    graph.ensure_indices()
    graph.load({"Doc": docs(20_000, 5_000)}, mode="append")  # outside of the index
    asked: list[str] = []
    plans = lance.LanceScanner.explain_plan

    def noted(scanner: lance.LanceScanner) -> str:
        asked.append(plans(scanner))
        return asked[-1]

    monkeypatch.setattr(lance.LanceScanner, "explain_plan", noted)
    table = table_of(og.open(graph.uri, mode="r"))
    for texts in (["d00007"], ["it's", "d20001"], ["', '", "d00001"], ["d0", "d00001", "d00002", "d00003"], ["d00001", "d20002", "x", "y"]):
        found = table.scan(["slug"], where=one_of("slug", pa.array(texts))).read_all().column("slug").to_pylist()
        assert sorted(found) == sorted(text for text in texts if len(text) == 6)
    assert len(asked) == 2
    for where in ("slug = 'd00007'", f"{one_of('slug', pa.array(['d00007']))} AND pages < 9"):
        assert table.scan(["slug"], where=where).read_all().num_rows == 1
    assert len(asked) == 4


def test_what_an_index_does_not_cover_is_compared_whatever_was_asked_before(tmp_path: Path) -> None:
    graph = make(tmp_path / "g", parts=2)
    graph.ensure_indices()
    covered = set(data_files(graph))
    graph.load({"Doc": docs(20_000, 5_000)}, mode="append")
    (other,) = set(data_files(graph)) - covered
    flip(other)
    fresh = og.open(graph.uri, mode="r")
    for _ in range(2):
        with pytest.raises(StorageError):
            table_of(fresh).scan(["slug"], where=one_of("slug", pa.array(["d00007"]))).read_all()


def test_of_a_large_file_only_the_columns_that_are_read_are_compared(tmp_path: Path) -> None:
    dimension, rows = 64, 40_000
    graph = og.init(tmp_path / "g", schema=f"node Doc {{ slug: String @key  look: Vector({dimension})? }}")
    looks = pa.FixedSizeListArray.from_arrays(
        pa.array(np.random.default_rng(1).normal(size=rows * dimension).astype(np.float32)), dimension
    )
    graph.load({"Doc": pa.table({"slug": [f"d{n:05d}" for n in range(rows)], "look": looks})})
    (file,) = data_files(graph)
    assert file.stat().st_size > 10 * BLOCK_BYTES
    names = "query q() { match { $d: Doc } return { count($d.slug) } }"
    fresh = og.open(graph.uri, mode="r")
    assert compared(fresh, lambda: fresh.query(names).rows) < file.stat().st_size // 3
    assert compared(fresh, lambda: fresh.query(names).rows) == 0
    flip(file, 0.5)  # in the vectors
    assert og.open(graph.uri, mode="r").query(names).rows == [{"count(d.slug)": rows}]
    refused(graph, lambda graph: graph.query("query q() { match { $d: Doc } return { $d.look } }").rows)


def test_of_large_pages_of_vectors_only_the_rows_that_are_read_are_compared(tmp_path: Path) -> None:
    dimension, rows = 128, 40_000
    graph = og.init(tmp_path / "g", schema=f"node Doc {{ slug: String @key  look: Vector({dimension}) }}")
    numbers = np.random.default_rng(1).normal(size=rows * dimension).astype(np.float32)
    looks = pa.FixedSizeListArray.from_arrays(pa.array(numbers), dimension)
    graph.load({"Doc": pa.table({"slug": [f"d{n:05d}" for n in range(rows)], "look": looks})})
    graph.ensure_indices()
    (file,) = data_files(graph)
    look = 'query q() { match { $d: Doc { slug: "d20000" } } return { $d.look } }'
    expected = graph.query(look).rows
    fresh = og.open(graph.uri, mode="r")
    index = sum(file.stat().st_size for file in Path(graph.uri).glob("nodes/*/_indices/**/*") if file.is_file())
    assert compared(fresh, lambda: fresh.query(look).rows) <= index + 6 * BLOCK_BYTES < file.stat().st_size
    own = file.read_bytes().index(numbers[20_000 * dimension : 20_001 * dimension].tobytes()) / file.stat().st_size
    flip(file, own + 0.2)  # the vector of another
    assert og.open(graph.uri, mode="r").query(look).rows == expected
    flip(file, own + 0.2)
    flip(file, own)
    refused(graph, lambda graph: graph.query(look).rows)


def test_of_a_large_blob_only_the_part_that_is_read_is_compared(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    whole = random.Random(1).randbytes(20 * BLOCK_BYTES)
    graph.load([{"type": "Doc", "data": {"slug": "a", "body": "base64:" + base64.b64encode(whole).decode()}}])
    (file,) = Path(graph.uri).glob("nodes/*/data/*/*.blob")
    flip(file, 0.9)
    fresh = og.open(graph.uri, mode="r")
    blob = fresh.blob("node", "Doc", "a", "body")
    assert compared(fresh, lambda: blob.read(0, 1_000)) < 3 * BLOCK_BYTES
    refused(graph, lambda graph: graph.blob("node", "Doc", "a", "body").read())


def test_an_upsert_of_one_row_compares_a_file_once(tmp_path: Path) -> None:
    make(tmp_path / "g").ensure_indices()
    graph = og.open(tmp_path / "g")
    run(graph, 'update Doc set { pages: 1 } where slug = "d00007"')
    again = [compared(graph, lambda n=n: run(graph, f'update Doc set {{ pages: {n} }} where slug = "d00007"')) for n in range(5)]  # type: ignore[misc]
    assert again == [0] * 5


# -- nothing leaves, and nothing is written again


def _transaction(graph: Graph) -> None:
    with graph.transaction() as tx:
        tx.mutate("query q() { update Doc set { pages: 5 } where pages < 10 }")


OPERATIONS: dict[str, Callable[[Graph], object]] = {
    "query": lambda graph: graph.query(ALL).rows,
    "filter": lambda graph: graph.query("query q() { match { $d: Doc  $d.pages > 3 } return { count($d) } }").rows,
    "by key": lambda graph: graph.query(BY_KEY).rows,
    "hop": lambda graph: graph.query('query q() { match { $d: Doc { slug: "d00007" }  $d cites $e } return { $e.text } }').rows,
    "export": lambda graph: list(graph.export()),
    "copy": lambda graph: graph.copy_to(Path(graph.uri).with_name("copy")),
    "diff": lambda graph: list(graph.diff("main", "other")),
    "merge": lambda graph: graph.branches.merge("other"),
    "changes": lambda graph: list(graph.commit_changes(graph.commits()[-2].id)),
    "upsert": lambda graph: graph.load({"Doc": docs(0, 2_000)}, mode="merge"),
    "transaction": _transaction,
    "feed": lambda graph: list(graph.changes.baseline()),
    "revert": lambda graph: graph.revert(graph.commits()[0].id),
    "update": lambda graph: run(graph, "update Doc set { pages: 5 } where pages < 10"),
    "optimize": lambda graph: graph.optimize(),
    "indexes": lambda graph: graph.ensure_indices(),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_changed_byte_stops(tmp_path: Path, name: str) -> None:
    """Whatever reads the file fails with an error that names it, and makes no commit: no changed byte gets a new checksum."""
    graph = make(tmp_path / "g", parts=2)
    graph.branches.create("other")
    graph.load({"Doc": docs(0, 5_000).set_column(1, "pages", pa.array(range(1, 5_001), pa.int32()))}, mode="merge", branch="other")
    run(graph, "delete Doc where pages > 9000")
    head = graph.snapshot().commit_id
    for file in data_files(graph):
        flip(file)
    error = refused(graph, OPERATIONS[name])
    assert str(error.facts["path"]).startswith(str(graph.uri))
    assert error.facts["table"] == table_of(graph).ref.path
    assert og.open(graph.uri).snapshot().commit_id == head


# -- where checksums are found


def versions(graph: Graph) -> list[Path]:
    """The version files that main shows now."""
    tables = graph.engine.snapshot().state.tables.values()
    return [Path(graph.uri) / row.ref.home / version_file(row.version) for row in tables]


def finds_each(graph: Graph, files: list[Path], ask: Callable[[Graph], object]) -> None:
    """Each of these files, changed alone, makes the question fail; unchanged, it is answered."""
    ask(og.open(graph.uri, mode="r"))
    for file in files:
        whole = file.read_bytes()
        flip(file)
        refused(graph, ask)
        file.write_bytes(whole)


def every_row(graph: Graph, branch: str = "main") -> list[str]:
    return list(graph.export(branch=branch))


def test_version_files_of_every_commit_are_compared(tmp_path: Path) -> None:
    """Those of the newest commit are noted in its version of `__manifest`, older ones in the commit after it."""
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    finds_each(graph, versions(graph), every_row)
    graph.load({"Doc": docs(0, 20)})
    finds_each(graph, versions(graph), every_row)
    graph.load([{"edge": "Cites", "from": "d00001", "to": "d00002"}])
    finds_each(graph, versions(graph), every_row)
    past = graph.commits()[1].id
    with_past = [*versions(graph)][:1]
    run(graph, "update Doc set { pages: 3 } where pages < 10")
    finds_each(graph, with_past, lambda graph: graph.query(ALL, at=past).rows)


def test_all_checksums_are_recorded_together_now_and_then(tmp_path: Path) -> None:
    """The head names the commit. A reader reads none before it, and still finds the checksums of the oldest file."""
    graph = make(tmp_path / "g", parts=2, auto_upkeep=False)
    oldest = data_files(graph)
    for n in range(SPAN + 5):
        run(graph, f'insert Doc {{ slug: "new{n}" }}')
    fresh = og.open(graph.uri, mode="r")
    head = fresh.engine.snapshot().state.head
    assert head.summed >= SPAN
    for file in oldest:
        whole = file.read_bytes()
        flip(file)
        refused(graph, every_row)
        file.write_bytes(whole)
    finds_each(graph, versions(graph), every_row)
    past = graph.commits()[-3].id
    flip(oldest[0])
    refused(graph, lambda graph: graph.query(ALL, at=past).rows)


def test_a_branch_before_its_first_commit_and_after_it(tmp_path: Path) -> None:
    graph = make(tmp_path / "g", parts=1)
    graph.branches.create("work")
    graph.branches.create("below", from_="work")
    for branch in ("work", "below"):
        finds_each(graph, [*versions(graph), *data_files(graph)], lambda graph, branch=branch: every_row(graph, branch))  # type: ignore[misc]
    run(graph, 'insert Doc { slug: "new" }', branch="work")
    own = list(Path(graph.uri).glob("nodes/*/tree/*/data/*.lance"))
    assert len(own) == 1
    finds_each(graph, [*own, *data_files(graph)], lambda graph: every_row(graph, "work"))


def test_a_branch_that_was_deleted_meanwhile_has_no_part_in_the_reads_of_others(tmp_path: Path) -> None:
    """A reader knew the branch, which showed the same versions. Its checksums are gone with it, and those of main are the same."""
    graph = make(tmp_path / "g", parts=2, rows=100)
    before, files = graph.commits()[0].id, data_files(graph)
    graph.branches.create("work")
    graph.load([{"edge": "Cites", "from": "d00009", "to": "d00001"}], branch="work")
    reader = og.open(graph.uri, mode="r")
    reader.snapshot("work")
    graph.branches.delete("work")
    run(graph, 'insert Doc { slug: "new" }')
    assert len(reader.query(ALL).rows) == len(reader.query(ALL, at=before).rows) + 1
    for file in files:
        flip(file)
    refused(graph, lambda one: one.query(ALL, at=before))


def test_a_table_that_a_merge_takes_over(tmp_path: Path) -> None:
    """Its files were recorded on the other branch, before and after the fork, and that branch may be gone."""
    graph = make(tmp_path / "g", parts=1)
    graph.branches.create("work")
    graph.apply_schema(
        SCHEMA.replace("text: String?", "text: String?  more: String?") + "\nnode Extra { name: String @key }", branch="work"
    )
    graph.load({"Extra": pa.table({"name": ["a", "b"]})}, branch="work")
    run(graph, "delete Doc where pages > 4000", branch="work")
    for n in range(SPAN + 3):  # the target records all that it shows, which these files are no part of
        run(graph, f'insert Cites {{ from: "d{n:05d}", to: "d00000" }}')
    graph.branches.merge("work")
    graph.branches.delete("work")
    row = graph.engine.snapshot().state.table("node:Extra")
    assert row is not None
    shown = [Path(graph.uri) / row.ref.home / version_file(row.version), *data_files(graph, "node:Extra"), *data_files(graph)]
    finds_each(graph, shown, every_row)


@pytest.mark.parametrize("branch", ["main", "work"])
def test_what_another_process_finished(tmp_path: Path, branch: str) -> None:
    graph = make(tmp_path / "g", parts=1)
    graph.branches.create("work")
    with pytest.raises(SimulatedCrash), armed(Fault.WRITE_COMMITTED):
        graph.load({"Doc": docs(70_000, 100)}, mode="append", branch=branch)
    fresh = og.open(graph.uri)
    run(fresh, 'insert Doc { slug: "next" }', branch=branch)
    files = [Path(graph.uri) / file.path for each in named_files(table_of(fresh, branch=branch)).values() for file in each]
    finds_each(fresh, files, lambda graph: every_row(graph, branch))


def test_a_file_without_checksums_of_its_blocks_is_compared_as_a_whole(tmp_path: Path) -> None:
    """Commits of earlier releases have none."""
    file = tmp_path / "data.lance"
    lance.write_dataset(pa.table({"n": np.random.default_rng(1).integers(0, 1 << 60, 400_000)}), tmp_path / "t", data_storage_version="2.2")
    (written,) = (tmp_path / "t" / "data").glob("*.lance")
    file.write_bytes(written.read_bytes())
    with file.open("rb") as opened:
        found = checksum(opened.fileno())
    assert len(found.blocks) > 2
    files = CheckedFiles(str(tmp_path))
    files.check("data.lance", FileSum(found.whole), table="t", extents=lambda layout: [(0, 10)])
    assert files.read_bytes == file.stat().st_size
    flip(file, 0.5)
    with pytest.raises(WrongChecksum):
        CheckedFiles(str(tmp_path)).check("data.lance", FileSum(found.whole), table="t", extents=lambda layout: [(0, 10)])
    CheckedFiles(str(tmp_path)).check("data.lance", found, table="t", extents=lambda layout: [(0, 10)])


def test_the_checksum_of_a_file_is_that_of_its_blocks_put_together(tmp_path: Path) -> None:
    for size in (0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES, 3 * BLOCK_BYTES + 12_345):
        data = random.Random(size).randbytes(size)
        (tmp_path / "file").write_bytes(data)
        with (tmp_path / "file").open("rb") as file:
            assert checksum(file.fileno()).whole == zlib.crc32(data)
