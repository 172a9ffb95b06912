"""Tables of other libraries, several files, and the remedies for what a load cannot take."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd  # type: ignore[import-untyped]  # its stubs are a package of their own
import polars as pl
import pyarrow as pa
import pytest

from omnigraph.errors import InvalidInput, Kind, NotFound
from omnigraph.exec.load.batches import read_batches, rereadable
from omnigraph.exec.problems import ProblemCode, Report
from tests.unit.exec.load.reading import all_types, cinema, messages, read, rows, text


class Frame:
    """A frame as polars exports it: views, large lists, dictionaries; nothing but the Arrow stream says that it is a table."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_anything_with_an_arrow_stream_is_a_table() -> None:
    """L2-33: A load takes frames of other libraries."""
    table = pa.table(
        {
            "key": pa.array(["a", "b"], pa.string_view()),
            "small": pa.array([1, None], pa.int64()),
            "day": pa.array([date(1979, 5, 25), None], pa.date32()),
            "at": pa.array([1_000, None], pa.timestamp("us")),
            "texts": pa.array([["x"], None], pa.large_list(pa.large_string())),
            "kind": pa.array(["a", None]).dictionary_encode(),
        }
    )
    first, second = rows({"Every": Frame(table)}, all_types())["Every"]
    assert (first["key"], first["small"], first["day"], first["at"]) == ("a", 1, date(1979, 5, 25), 1)
    assert (first["texts"], first["kind"], second["small"], second["texts"]) == (["x"], "a", None, None)
    assert not rereadable(Frame(table))


def test_a_pandas_frame_is_a_table() -> None:
    """L2-33: Integers with missing values are float64 in pandas, and a filtered frame has an index that nobody named."""
    frame = pd.DataFrame({"key": ["a", "b", "c"], "small": [1, None, 3], "real": [0.5, 1.5, None]})
    found = rows({"Every": frame[frame["key"] != "a"]}, all_types())["Every"]
    assert [(row["key"], row["small"], row["real"]) for row in found] == [("b", None, 1.5), ("c", 3, None)]
    assert rereadable(frame)
    with pytest.raises(InvalidInput, match=r"<Every>, record 3: property 'small' value 1\.5 is not a whole number of 64 bits") as caught:
        read({"Every": pd.DataFrame({"key": ["a", "b", "c"], "small": [1.0, None, 1.5]})}, all_types())
    assert (caught.value.kind, caught.value.facts["record"], caught.value.facts["property"]) == (Kind.VALIDATION, 3, "small")
    with pytest.raises(InvalidInput, match=r"<Every>, record 3: column 'key' cannot be read: .* got a 'int' object"):
        read({"Every": pd.DataFrame({"key": ["a", None, 1]})}, all_types())
    with pytest.raises(InvalidInput, match="<Every>: column 'real' cannot be read: Unsupported numpy type"):
        read({"Every": pd.DataFrame({"key": ["a"], "real": [1j]})}, all_types())


def test_the_dates_of_pandas_and_polars_are_dates(tmp_path: Path) -> None:
    """L2-33: pandas has no type for a date, only times at midnight."""
    days = [datetime(1979, 5, 25), None]
    frames: tuple[Any, ...] = (pd.DataFrame({"key": ["a", "b"], "day": days}), pl.DataFrame({"key": ["a", "b"], "day": days}))
    frames[0].to_parquet(tmp_path / "days.parquet")
    for table in (*frames, tmp_path / "days.parquet"):
        assert [row["day"] for row in rows({"Every": table}, all_types())["Every"]] == [date(1979, 5, 25), None]
    (problem,) = read({"Every": pd.DataFrame({"key": ["a", "b"], "day": [days[0], datetime(1979, 5, 25, 10)]})}, all_types())[1]
    assert (problem.code, problem.property, problem.record) == (ProblemCode.TEMPORAL, "day", 2)


def test_a_frame_without_rows_is_an_empty_table() -> None:
    """L2-33: Columns without values have no types of their own in pandas."""
    for empty in (pd.DataFrame({"key": [], "small": []}), pl.DataFrame({"key": [], "small": []}), pa.table({"key": pa.nulls(0)})):
        assert rows({"Every": empty}, all_types())["Every"] == []
    assert messages({"Every": pd.DataFrame()}, all_types()) == ["no column for the non-nullable property 'key'"]


def test_categories_are_texts() -> None:
    """L2-33: pandas, polars and DuckDB have types for texts of which there are few."""
    with duckdb.connect() as connection:
        for frame in (
            pd.DataFrame({"key": ["k", "l"], "kind": pd.Categorical(["a", None])}),
            pl.DataFrame({"key": ["k", "l"], "kind": pl.Series(["a", None], dtype=pl.Categorical)}),
            pl.DataFrame({"key": ["k", "l"], "kind": pl.Series(["a", None], dtype=pl.Enum(["z", "a"]))}),
            connection.sql("select * from (values ('k', 'a'::enum('z', 'a')), ('l', null)) as t(key, kind)"),
        ):
            assert [(row["key"], row["kind"]) for row in rows({"Every": frame}, all_types())["Every"]] == [("k", "a"), ("l", None)]


def test_a_polars_frame_is_a_table() -> None:
    """L2-33: Lazy frames are collected by their owner; a frame has views and large lists."""
    frame = pl.DataFrame({"key": ["a", "b"], "small": [1, None], "texts": [["x"], None], "day": [date(1979, 5, 25), None]})
    first, second = rows({"Every": frame}, all_types())["Every"]
    assert (first["key"], first["small"], first["texts"], first["day"]) == ("a", 1, ["x"], date(1979, 5, 25))
    assert (second["key"], second["small"], second["texts"]) == ("b", None, None)
    assert rereadable(frame)


def test_a_duckdb_relation_is_a_table() -> None:
    """L2-33: A relation is computed when it is read; its errors are errors of the input."""
    with duckdb.connect() as connection:
        relation = connection.sql("select 'k' || range as key, range as small from range(3)")
        assert [row["small"] for row in rows({"Every": relation}, all_types())["Every"]] == [0, 1, 2]
        wrong = connection.sql("select 'k' as key, cast('x' || range as integer) as small from range(3)")
        with pytest.raises(InvalidInput, match="<Every>: cannot be read: Conversion Error"):
            read({"Every": wrong}, all_types())


def test_a_table_without_a_type_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """L2-33: A table has the rows of one type, which has to be named."""
    for table in (pa.table({"name": ["a"]}), Frame(pa.table({"name": ["a"]}))):
        with pytest.raises(InvalidInput, match=r"name the type: {'Product': table}"):
            read(table, cinema())  # type: ignore[arg-type]  # that is the point
    for name, type_ in (("films.csv", "Film"), ("Person.parquet", "Person"), ("people_2024.csv.gz", "TYPE")):
        path = tmp_path / name
        path.write_bytes(b"name\na\n")
        for data in (path, str(path), [path]):
            with pytest.raises(InvalidInput) as caught:
                read(data, cinema())
            assert f"{type_}={path} on the command line" in caught.value.message


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    """L2-33: Places name the file, and progress counts all of them."""
    paths = [tmp_path / name for name in ("a.ndjson", "b.ndjson")]
    for number, path in enumerate(paths):
        path.write_bytes(text({"type": "Person", "data": {"name": f"p{number}"}}))
    for data in (paths, tuple(map(str, paths))):
        seen: list[tuple[int, int | None, int]] = []
        batches = list(read_batches(data, cinema(), Report(), progress=lambda *told, seen=seen: seen.append(told)))
        assert [batch.source for batch in batches] == list(map(str, paths))
        total = sum(path.stat().st_size for path in paths)
        assert (seen[0][1], seen[-1]) == (total, (total, total, 2))
    paths[1].write_bytes(b"\nnonsense\n")
    (problem,) = read(paths, cinema())[1]
    assert problem.where() == f"{paths[1]}, line 2, column 1"


def test_a_file_that_is_missing_is_reported_before_the_first_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b"nonsense\n")
    with pytest.raises(NotFound, match="there is no file"):
        read([tmp_path / "a.ndjson", tmp_path / "b.ndjson"], cinema())


def test_a_list_of_texts_that_begin_with_a_brace_is_lines() -> None:
    assert [row["name"] for row in rows([' {"type":"Person","data":{"name":"a"}}', ""], cinema())["Person"]] == ["a"]
    assert rows(["", "  "], cinema()) == {}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"type": "Flim", "data": {}}, "unknown node type 'Flim'; did you mean `Film`?"),
        ({"edge": "ActdeIn", "from": "a", "to": "b"}, "unknown edge type 'ActdeIn'; did you mean `ActedIn`?"),
        ({"type": "Zebra", "data": {}}, "unknown node type 'Zebra'"),
        ({"type": "Person", "data": {"nmae": "a", "name": "b"}}, "unknown input field 'nmae' for 'node:Person'; did you mean `name`?"),
    ],
)
def test_an_unknown_word_gets_the_nearest_one(record: Any, message: str) -> None:
    """L2-33."""
    assert messages(text(record), cinema()) == [message]


def test_an_unknown_column_or_table_gets_the_nearest_name() -> None:
    """L2-33."""
    (problem,) = read({"Person": pa.table({"name": ["a"], "bron": [1]})}, cinema())[1]
    assert (problem.code, problem.message.endswith("did you mean `born`?")) == (ProblemCode.UNKNOWN_FIELD, True)
    with pytest.raises(InvalidInput, match=r"did you mean `Person`\?"):
        read({"Persn": pa.table({"name": ["a"]})}, cinema())
