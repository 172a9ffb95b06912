"""Every kind of file that Lance writes for us is whole when it is, and is not when it was cut anywhere."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import lance  # noqa: F401  # registers its types
import pyarrow as pa
import pytest

from omnigraph.errors import Kind, StorageError
from omnigraph.store import stage
from omnigraph.store.durable import NewFile, is_whole, settle
from omnigraph.store.index import IndexSpec, LanceIndexKind, build
from omnigraph.store.root import Root
from omnigraph.store.tables import Table, TableRef, create_table, open_dataset
from omnigraph.store.take import blob_files
from tests.unit.store.tables import place

COLUMNS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("words", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), 4)),
        pa.field("body", pa.large_binary()),
    ]
)
MANY = 70_000


def rows(start: int, stop: int) -> pa.Table:
    count = stop - start
    bodies = [b"x" * 300_000 if at < 2 else b"y" for at in range(count)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([float(at % 97) + 1 for at in range(4 * count)], pa.float32()), 4)
    ids = [f"r{at}" for at in range(start, stop)]
    return pa.Table.from_arrays(
        [pa.array(ids), pa.array(["some words"] * count), vectors, pa.array(bodies, pa.large_binary())], schema=COLUMNS
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A table with files of every kind: data, blobs, few and many deletions, three kinds of index, versions."""
    root = place(tmp_path_factory.mktemp("endings"))
    table = create_table(root, "nodes/t", COLUMNS)
    changes: tuple[Callable[[Table], stage.Staged | None], ...] = (
        lambda table: stage.append(table, rows(0, MANY)),
        lambda table: stage.append(table, rows(MANY, MANY + 300)),
        lambda table: build(
            table,
            [
                IndexSpec("id", LanceIndexKind.BTREE, "a"),
                IndexSpec("words", LanceIndexKind.INVERTED, "b"),
                IndexSpec("vector", LanceIndexKind.VECTOR, "c", {"metric": "cosine"}),
            ],
        ),
        lambda table: stage.delete_keys(table, pa.array([f"r{at}" for at in range(0, MANY, 2)])),
        lambda table: stage.delete_keys(table, pa.array([f"r{MANY + 1}"])),
    )
    for change in changes:
        staged = change(table)
        assert staged is not None
        table = stage.commit(staged)
    return root


def kinds(root: Root) -> dict[str, list[Path]]:
    found = defaultdict(list)
    for base, _, files in os.walk(root.uri):
        for name in files:
            if Path(name).suffix not in (".txn", ".json"):  # Lance does without either
                found[Path(name).suffix].append(Path(base, name))
    return found


def judged(path: Path) -> bool:
    with path.open("rb") as file:
        return is_whole(file.fileno(), path.name, path.stat().st_size)


def test_every_file_is_whole_and_no_part_of_one_is(written: Root, tmp_path: Path) -> None:
    found = kinds(written)
    assert set(found) == {".lance", ".idx", ".arrow", ".bin", ".manifest", ".blob"}
    for suffix, paths in found.items():
        for path in paths:
            assert judged(path), path
        body = paths[0].read_bytes()
        cuts = {0} if suffix == ".blob" else {0, 1, 7, 15, 16, len(body) // 2, len(body) - 1, len(body) - 4, len(body) - 16}
        for cut in sorted(cuts):
            part = tmp_path / f"part{suffix}"
            part.write_bytes(body[: max(cut, 0)])
            assert not judged(part), (suffix, cut, len(body))


def test_blob_files_are_as_long_as_their_rows_say(written: Root) -> None:
    before_deletions = TableRef("nodes/t", None, 3)
    table = Table(written, before_deletions, open_dataset(written, before_deletions))
    expected = {file.path: file.size for file in blob_files(table, [fragment.fragment_id for fragment in table.dataset.get_fragments()])}
    there = {str(path.relative_to(written.uri)): path.stat().st_size for path in kinds(written)[".blob"]}
    assert expected == there


def test_a_short_file_is_named_with_both_sizes(tmp_path: Path) -> None:
    root = place(tmp_path)
    (tmp_path / "graph").mkdir()
    (tmp_path / "graph" / "a.lance").write_bytes(b"0123LANC")
    settle(root, [NewFile("a.lance", 8)])
    for wrong in (NewFile("a.lance", 9), NewFile("b.lance", 8)):
        with pytest.raises(StorageError) as refused:
            settle(root, [wrong])
        assert refused.value.kind is Kind.TORN_FILE
        assert refused.value.facts["expected"] == wrong.size
