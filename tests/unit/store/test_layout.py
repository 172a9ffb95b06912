"""Where the bytes of rows are in a file of Lance: found by decoding its metadata, and compared with the bytes that are there."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.store.layout import FileLayout, layout_of
from omnigraph.store.tables import FILE_FORMAT

ROWS = 5_000


def written(folder: Path, column: pa.Array) -> Path:
    """The data file of a table with a column of texts and this one."""
    table = pa.table({"name": [f"n{at}" for at in range(len(column))], "value": column})
    lance.write_dataset(table, str(folder), data_storage_version=FILE_FORMAT)
    (file,) = folder.glob("data/*.lance")
    return file


def layout(file: Path) -> FileLayout:
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return layout_of(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def vectors(dimension: int, *, nulls: bool) -> pa.Array:
    numbers = np.random.default_rng(1).normal(size=ROWS * dimension).astype(np.float32)
    mask = pa.array([nulls and at % 7 == 0 for at in range(ROWS)])
    return pa.FixedSizeListArray.from_arrays(pa.array(numbers), dimension, mask=mask)


@pytest.mark.parametrize("nulls", [False, True], ids=["no nulls", "nulls"])
@pytest.mark.parametrize("dimension", [64, 100, 384])
def test_the_bytes_of_single_vectors(tmp_path: Path, dimension: int, nulls: bool) -> None:
    """INV-13: What a read of a row uses is within what is compared for it, and is little more than the row."""
    column = vectors(dimension, nulls=nulls)
    file = written(tmp_path / "t", column)
    found, body = layout(file), file.read_bytes()
    assert all(page.stride >= 4 * dimension for page in found.columns[1])
    for at in (0, 1, 8, 1_000, ROWS - 1):
        extents = list(found.extents(1, at, at))
        assert sum(end - first for first, end in extents) <= 4 * dimension + 4
        if (value := column[at].as_py()) is not None:
            assert np.array(value, np.float32).tobytes() in b"".join(body[first:end] for first, end in extents)
    every = list(found.extents(1, 0, ROWS - 1))
    assert sum(end - first for first, end in every) == sum(page.rows * page.stride for page in found.columns[1])
    run = b"".join(body[first:end] for first, end in found.extents(1, 10, 12))
    assert all(np.array(column[at].as_py(), np.float32).tobytes() in run for at in (10, 11, 12))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(ROWS), pa.int64()),
        pa.array([f"text {at}" for at in range(ROWS)]),
        pa.array(["long text " * 100 + str(at) for at in range(ROWS)]),
        pa.array([[float(at)] * (at % 5) for at in range(ROWS)], pa.list_(pa.float32())),
        pa.array([[1.0] * (at % 300) for at in range(ROWS)], pa.list_(pa.float32())),
        vectors(2, nulls=True),
    ],
    ids=["numbers", "texts", "long texts", "lists", "long lists", "short vectors"],
)
def test_of_other_columns_whole_pages(tmp_path: Path, column: pa.Array) -> None:
    found = layout(written(tmp_path / "t", column))
    pages = found.columns[1]
    assert pages
    assert all(page.stride == 0 for page in pages)
    assert set(found.extents(1, 3, 3)) == set(pages[0].extents)
