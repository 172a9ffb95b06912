"""Where records come from: files, compressed or not, open files, bytes, lines, chunks and dicts."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.errors import InvalidInput, Kind, NotFound
from omnigraph.exec.load.batches import read_batches, rereadable
from omnigraph.exec.problems import ProblemCode, Report
from tests.unit.exec.load.reading import all_types, cinema, read, rows, text

NAMES = [f"é{number}" for number in range(30)]
DATA = text(*({"type": "Person", "data": {"name": name}} for name in NAMES))
MARK = b"\xef\xbb\xbf"
ZSTD = pa.compress(DATA, codec="zstd", asbytes=True)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


@pytest.mark.parametrize(
    "given",
    [
        lambda: DATA,
        lambda: bytearray(DATA),
        lambda: memoryview(DATA),
        lambda: io.BytesIO(DATA),
        lambda: io.StringIO(DATA.decode()),
        lambda: gzip.compress(DATA),
        lambda: gzip.compress(DATA[:57]) + gzip.compress(DATA[57:]),
        lambda: io.BytesIO(ZSTD),
        lambda: pieces(DATA, 7),
        lambda: pieces(gzip.compress(DATA), 5),
        lambda: DATA.decode().splitlines(),
        lambda: iter(DATA.decode().splitlines(keepends=True)),
        lambda: ({"type": "Person", "data": {"name": name}} for name in NAMES),
    ],
)
def test_the_same_records_are_read_from_every_kind_of_source(given: Callable[[], Any]) -> None:
    assert [row["name"] for row in rows(given(), cinema())["Person"]] == NAMES


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.ndjson", DATA), ("a.ndjson.gz", gzip.compress(DATA)), ("a.zst", ZSTD), ("misnamed.txt", ZSTD)],
    ids=["plain", "gzip", "zstd", "zstd under another name"],
)
def test_files_are_decompressed_by_what_they_hold(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path / name, str(tmp_path / name)):
        assert [row["name"] for row in rows(path, cinema())["Person"]] == NAMES


def test_a_batch_names_the_file_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "bad.ndjson").write_bytes(b"\nnonsense\n")
    (problem,) = read(tmp_path / "bad.ndjson", cinema())[1]
    assert problem.where() == f"{tmp_path / 'bad.ndjson'}, line 2, column 1"


@pytest.mark.parametrize(
    "content",
    [gzip.compress(DATA)[:-20], ZSTD[:-8], gzip.compress(DATA)[:30] + b"nonsense" * 5],
    ids=["gzip", "zstd", "gzip that goes on with nonsense"],
)
def test_compressed_data_that_is_cut_short_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(content, cinema())
    assert caught.value.kind is Kind.VALIDATION
    assert "damaged or truncated" in caught.value.message


def test_what_cannot_be_a_source_is_refused_by_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is a directory"):
        read(tmp_path, cinema())
    with pytest.raises(NotFound, match="there is no file"):
        read(tmp_path / "none.ndjson", cinema())
    with pytest.raises(InvalidInput, match="cannot load from int"):
        read(3, cinema())  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidInput, match="iterable of int"):
        read([3], cinema())  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidInput, match="mixes kinds"):
        read(["{}", b"{}"], cinema())  # type: ignore[arg-type]  # that is the point
    (tmp_path / "a.parquet").write_bytes(b"PAR1....")
    with pytest.raises(InvalidInput, match="is a Parquet file"):
        read(tmp_path / "a.parquet", cinema())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_one_problem(encoding: str) -> None:
    _, problems = read(DATA.decode().encode(encoding), cinema())
    assert [(problem.code, problem.line, problem.column) for problem in problems] == [(ProblemCode.ENCODING, 1, 1)]


def test_another_encoding_is_a_problem_with_its_place() -> None:
    good = b'{"type":"Person","data":{"name":"Ada"}}\n'
    batches, problems = read(good + '{"type":"Person","data":{"name":"José"}}\n'.encode("latin-1") + good, cinema())
    assert [(problem.code, problem.line, problem.column) for problem in problems] == [(ProblemCode.ENCODING, 2, 37)]
    assert batches[0].lines.to_pylist() == [1, 3]


def test_a_byte_order_mark_at_the_beginning_is_left_out(tmp_path: Path) -> None:
    """Some programs begin a file of UTF-8 with one. Lines and columns are counted without it."""
    marked = MARK + DATA
    (tmp_path / "a.ndjson").write_bytes(marked)
    (tmp_path / "b.ndjson.gz").write_bytes(gzip.compress(marked))
    (tmp_path / "empty.ndjson").write_bytes(MARK)
    paths = [tmp_path / "a.ndjson", tmp_path / "empty.ndjson", tmp_path / "b.ndjson.gz"]
    texts = marked.decode().splitlines()
    for data in (marked, paths[0], paths[2], io.BytesIO(marked), texts, [marked[:2], marked[2:]]):
        assert rows(data, cinema()) == rows(DATA, cinema())
    assert {name: len(found) for name, found in rows(paths, cinema()).items()} == {
        name: 2 * len(found) for name, found in rows(DATA, cinema()).items()
    }
    _, problems = read(MARK + b"{nothing}\n", cinema())
    assert [(problem.code, problem.line, problem.column) for problem in problems] == [(ProblemCode.JSON, 1, 2)]


@pytest.mark.parametrize(("text", "line"), [(MARK + MARK + DATA, 1), (DATA + MARK + DATA, DATA.count(b"\n") + 1)])
def test_a_byte_order_mark_elsewhere_is_refused(text: bytes, line: int) -> None:
    _, problems = read(text, cinema())
    assert [(problem.code, problem.line, problem.column) for problem in problems] == [(ProblemCode.ENCODING, line, 1)]
    assert "which only a file may begin with; remove it" in problems[0].message


def test_text_that_no_file_could_hold_is_refused() -> None:
    _, problems = read(['{"type":"Person","data":{"name":"\ud800"}}'], cinema())
    assert [problem.code for problem in problems] == [ProblemCode.ENCODING]


def test_records_may_hold_what_python_has_for_each_type() -> None:
    record = {
        "key": "k",
        "small": np.int32(5),
        "half": np.float32(0.5),
        "day": date(1979, 5, 25),
        "at": datetime(2024, 3, 1, 12, 30, 15, 250999, tzinfo=UTC),
        "body": b"reel",
        "vec": np.array([1.0, 2.0]),
        "days": (date(1979, 5, 25),),
    }
    (row,) = rows([{"type": "Every", "data": record}], all_types())["Every"]
    assert (row["small"], row["half"], row["day"], row["at"]) == (5, 0.5, date(1979, 5, 25), 1709296215250)
    assert (row["body"], row["vec"], row["days"]) == (b"reel", [1.0, 2.0], [date(1979, 5, 25)])


def test_records_with_values_that_have_no_form_are_refused() -> None:
    records: list[dict[str, Any]] = [{"type": "Note"}, {"type": "Note", "data": {"text": object()}}]
    with pytest.raises(InvalidInput, match="record 2 cannot be loaded"):
        read(records, cinema())
    _, problems = read([{"type": "Film", "data": {"rating": float("nan")}}], cinema())
    assert [(problem.code, problem.record) for problem in problems] == [(ProblemCode.JSON, 1)]


def test_a_source_says_whether_it_can_be_read_again(tmp_path: Path) -> None:
    again = ["a.ndjson", tmp_path, b"", [{}], {"Person": pa.table({})}, {"Person": "a.csv"}]
    once = [io.BytesIO(), iter([]), (line for line in [""]), {"Person": pa.table({"a": [1]}).to_reader()}]
    assert [rereadable(data) for data in again] == [True] * len(again)
    assert [rereadable(data) for data in once] == [False] * len(once)


def test_progress_counts_bytes_and_rows(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(DATA))
    size = (tmp_path / "a.gz").stat().st_size
    seen: list[tuple[int, int | None, int]] = []
    list(read_batches(tmp_path / "a.gz", cinema(), Report(), progress=lambda *told: seen.append(told)))
    assert seen[-1] == (size, size, 30)
