"""Tables of one type, from Arrow, Parquet and CSV: the same rules as records, places counted in records."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph.errors import InvalidInput, NotFound
from omnigraph.exec.load.batches import Unit
from omnigraph.exec.problems import ProblemCode
from tests.unit.exec.load.reading import all_types, cinema, messages, plain, read, rows

DAY = date(1979, 5, 25)


def column(name: str, values: Any) -> Any:
    """The values of one property of `Every` as they are stored."""
    values = values if isinstance(values, pa.Array) else pa.array(values)
    table = pa.table({"key": [str(row) for row in range(len(values))], name: values})
    return [row[name] for row in rows({"Every": table}, all_types())["Every"]]


def refusals(name: str, values: pa.Array) -> list[tuple[int | None, ProblemCode]]:
    table = pa.table({"key": [str(row) for row in range(len(values))], name: values})
    return [(problem.record, problem.code) for problem in read({"Every": table}, all_types())[1]]


def test_tables_are_read_by_the_names_of_their_types() -> None:
    people = pa.table({"name": ["Ada", "Ben"], "born": pa.array([1950, None], pa.int64())})
    batches, problems = read({"Person": people, "actedin": pa.table({"from": ["Ada"], "to": ["alien"]})}, cinema())
    assert problems == []
    assert [(batch.entity.name, batch.lines.to_pylist(), batch.unit, batch.minted) for batch in batches] == [
        ("Person", [1, 2], Unit.RECORD, False),
        ("ActedIn", [1], Unit.RECORD, True),
    ]
    assert plain(batches[0].rows)[0] == {"id": "Ada", "name": "Ada", "born": 1950, "email": None}


@pytest.mark.parametrize("ends", [("from", "to"), ("src", "dst")])
def test_edge_tables_name_their_ends_either_way(ends: tuple[str, str]) -> None:
    table = pa.table({ends[0]: ["a"], ends[1]: ["b"], "id": ["x"]})
    assert rows({"edge:Link": table}, all_types())["Link"] == [
        {"id": "x", "src": "a", "dst": "b", "weight": None, "since": None, "data": None}
    ]


def test_numbers_change_their_width_when_nothing_is_lost() -> None:
    assert column("small", pa.array([1, -5, None], pa.int64())) == [1, -5, None]
    assert column("huge", pa.array([1, 5], pa.int8())) == [1, 5]
    assert column("real", pa.array([1, 5], pa.int64())) == [1.0, 5.0]
    assert column("half", pa.array([0.5], pa.float64())) == [0.5]
    assert refusals("small", pa.array([1, 2**31], pa.int64())) == [(2, ProblemCode.OVERFLOW)]
    assert refusals("huge", pa.array([-1, 1], pa.int64())) == [(1, ProblemCode.OVERFLOW)]
    assert refusals("half", pa.array([1e39, 1.0])) == [(1, ProblemCode.OVERFLOW)]
    assert refusals("real", pa.array([1.0, float("nan"), float("inf")])) == [(2, ProblemCode.TYPE), (3, ProblemCode.TYPE)]


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("small", pa.string()),
        ("small", pa.float64()),
        ("text", pa.int32()),
        ("flag", pa.int8()),
        ("day", pa.timestamp("ms", "UTC")),
        ("days", pa.list_(pa.timestamp("ms", "UTC"))),
        ("vec", pa.list_(pa.float32(), 3)),
        ("texts", pa.string()),
        ("real", pa.decimal128(5)),
        ("small", pa.decimal128(5, 1)),
    ],
)
def test_a_column_of_another_type_is_one_problem(name: str, type_: pa.DataType) -> None:
    table = pa.schema([("key", pa.string()), (name, type_)]).empty_table()
    (problem,) = read({"Every": table}, all_types())[1]
    assert (problem.code, problem.property, problem.source, problem.record) == (ProblemCode.TYPE, name, "<Every>", None)
    assert f"got a column of {type_}" in problem.message


def test_dates_and_times_come_in_every_type_that_means_one() -> None:
    assert column("day", [DAY]) == [DAY]
    assert column("day", pa.array([3431], pa.int16())) == [DAY]
    assert column("day", ["1979-05-25"]) == [DAY]
    for unit, value in (("s", 5), ("ms", 5000), ("us", 5_000_000), ("ns", 5_000_000_000)):
        assert column("at", pa.array([value, None], pa.timestamp(unit))) == [5000, None]
        assert column("at", pa.array([value], pa.timestamp(unit, "Europe/Berlin"))) == [5000]
    assert column("at", [DAY]) == [3431 * 86_400_000]
    assert column("at", pa.array([5000], pa.int64())) == [5000]
    assert column("at", ["1970-01-01T00:00:05Z"]) == [5000]
    assert column("times", pa.array([[5000]], pa.list_(pa.timestamp("ms")))) == [[5000]]
    assert column("days", pa.array([[DAY], None])) == [[DAY], None]


def test_a_time_finer_than_a_millisecond_is_refused() -> None:
    assert refusals("at", pa.array([1000, 1001, None], pa.timestamp("us"))) == [(2, ProblemCode.TEMPORAL)]
    lists = pa.array([[1000], None, [2000, 1001, 3001], []], pa.list_(pa.timestamp("us")))
    assert refusals("times", lists[2:]) == [(1, ProblemCode.TEMPORAL)]
    assert column("times", lists[:2]) == [[1], None]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_at_midnight_is_a_date_and_any_other_is_refused(unit: str) -> None:
    """The dates of pandas are such times: nothing of them is lost."""
    type_ = pa.timestamp(unit)
    midnights = pa.array([3431 * 86_400, None, -86_400], pa.timestamp("s")).cast(type_)
    assert column("day", midnights) == [DAY, None, date(1969, 12, 31)]
    assert column("days", pa.array([[datetime(1979, 5, 25)], None, []], pa.list_(type_))) == [[DAY], None, []]
    times = pa.array([0, 1, None, -1], pa.timestamp("s")).cast(type_)
    assert refusals("day", times) == [(2, ProblemCode.TEMPORAL), (4, ProblemCode.TEMPORAL)]
    assert refusals("days", pa.array([[datetime(1979, 5, 25)], [datetime(1979, 5, 25, 1)]], pa.list_(type_))) == [(2, ProblemCode.TEMPORAL)]
    problem = read({"Every": pa.table({"key": ["a"], "day": times[1:2]})}, all_types())[1][0]
    assert "turn the column into dates first, or declare a DateTime" in problem.message


def test_dates_in_milliseconds_are_dates() -> None:
    assert column("day", pa.array([3431 * 86_400_000, None]).view(pa.date64())) == [DAY, None]
    assert refusals("day", pa.array([3431 * 86_400_000 + 1]).view(pa.date64())) == [(1, ProblemCode.TEMPORAL)]


@pytest.mark.parametrize(("name", "zoned"), [("day", pa.timestamp("us", "UTC")), ("days", pa.list_(pa.timestamp("us", "Europe/Berlin")))])
def test_a_time_with_a_zone_is_no_date_and_the_message_says_what_to_do(name: str, zoned: pa.DataType) -> None:
    (problem,) = read({"Every": pa.schema([("key", pa.string()), (name, zoned)]).empty_table()}, all_types())[1]
    assert "depends on the zone: turn the column into dates first" in problem.message


def test_whole_decimals_are_integers() -> None:
    """What engines without unsigned integers keep a U64 in."""
    assert column("huge", pa.array([2**64 - 1, None, 0], pa.decimal128(20, 0))) == [2**64 - 1, None, 0]
    assert refusals("huge", pa.array([1, 2**64, -1], pa.decimal128(21, 0))) == [(2, ProblemCode.OVERFLOW), (3, ProblemCode.OVERFLOW)]


def test_lists_and_vectors_come_in_every_kind_of_list() -> None:
    for type_ in (pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2), pa.list_(pa.int64())):
        assert column("vec", pa.array([[1, 2], None, [3, 4]], type_)) == [[1.0, 2.0], None, [3.0, 4.0]]
    assert column("texts", pa.array([["a"], None, []])) == [["a"], None, []]
    sliced = pa.array([["x"], ["a", "b"], None], pa.large_list(pa.string()))[1:]
    assert column("texts", sliced) == [["a", "b"], None]


def test_a_bad_vector_or_list_is_refused_and_never_mended() -> None:
    """V-02: A vector or list with a bad item, or a vector of another length, is refused and never corrected."""
    assert refusals("vec", pa.array([[1.0, 2.0], [1.0], [1.0, None], [1.0, float("nan")]])) == [
        (2, ProblemCode.VECTOR),
        (3, ProblemCode.VECTOR),
        (4, ProblemCode.TYPE),
    ]
    assert refusals("texts", pa.array([["a"], [None]])) == [(2, ProblemCode.LIST)]


def test_text_and_bytes_come_in_every_arrow_form() -> None:
    for values in (
        pa.array(["a", None], pa.large_string()),
        pa.array(["a", None]).dictionary_encode(),
        pa.array(["a", None], pa.string_view()),
    ):
        assert column("text", values) == ["a", None]
    assert column("body", [b"reel", None]) == [b"reel", None]
    assert column("body", ["base64:cmVlbA=="]) == [b"reel"]
    assert refusals("body", pa.array(["file:///x"])) == [(1, ProblemCode.BLOB)]


def test_required_values_are_missed_record_by_record() -> None:
    good = {"n": 1, "vec": [1.0, 2.0], "body": b"x", "days": [DAY], "at": 5}
    schema = pa.schema(
        [("n", pa.int32()), ("vec", pa.list_(pa.float32())), ("body", pa.binary()), ("days", pa.list_(pa.date32())), ("at", pa.int64())]
    )
    records = [good, *({**good, name: None} for name in good)]
    batches, problems = read({"Must": pa.Table.from_pylist(records, schema=schema)}, all_types())
    assert [(problem.record, problem.property, problem.code) for problem in problems] == [
        (row, name, ProblemCode.REQUIRED) for row, name in enumerate(good, start=2)
    ]
    assert batches[0].lines.to_pylist() == [1]


def test_columns_that_are_unknown_missing_or_double_are_named() -> None:
    assert messages({"Person": pa.table({"nam": ["Ada"]})}, cinema()) == [
        "unknown input field 'nam' for 'node:Person'; did you mean `name`?",
        "no column for the non-nullable property 'name'",
    ]
    assert messages({"ActedIn": pa.table({"from": ["a"], "src": ["a"]})}, cinema()) == [
        "there are two columns for 'src'",
        "edge missing 'to'",
    ]
    assert messages({"Note": pa.table({"text": ["a"], "id": [1]})}, cinema()) == ["column 'id' must hold strings, not int64"]
    assert messages({"ActedIn": pa.table({"from": ["a", None], "to": ["b", "c"]})}, cinema()) == ["edge missing 'from'"]


def test_a_given_id_must_be_the_one_that_the_key_says() -> None:
    """E98."""
    (problem,) = read({"Person": pa.table({"id": ["Ada", "x"], "name": ["Ada", "Ben"]})}, cinema())[1]
    assert (problem.code, problem.record) == (ProblemCode.ID, 2)


def test_an_empty_table_still_names_its_type() -> None:
    """W-31: overwriting with it empties the type."""
    ((batch,), problems) = read({"Person": pa.schema([("name", pa.string())]).empty_table()}, cinema())
    assert (batch.entity.name, len(batch.rows), problems) == ("Person", 0, [])


def test_a_stream_of_batches_is_read_as_it_comes() -> None:
    table = pa.table({"name": ["Ada", "Ben", "Cy"]})
    batches, _ = read({"Person": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))}, cinema())
    assert [batch.lines.to_pylist() for batch in batches] == [[1, 2], [3]]


def test_parquet_files_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"name": ["Ada", "Ben"], "born": [1, 2**40]}), tmp_path / "people.parquet")
    batches, problems = read({"Person": tmp_path / "people.parquet"}, cinema())
    assert batches[0].rows.column("name").to_pylist() == ["Ada"]
    assert str(problems[0]) == f"{tmp_path / 'people.parquet'}, record 2: property 'born' value {2**40} exceeds Int32 range"


def test_csv_is_read_by_the_types_of_the_schema(tmp_path: Path) -> None:
    head = "key,text,flag,small,huge,half,real,day,at,kind,body,vec,texts\n"
    (tmp_path / "a.csv").write_text(
        head + 'k,"a,\nb",true,-5,18446744073709551615,0.5,1e3,1979-05-25,5000,a,base64:cmVlbA==,"[1, 2]","[""x""]"\n' + "l,,,,,,,,,,,,\n"
    )
    full, empty = rows({"Every": tmp_path / "a.csv"}, all_types())["Every"]
    assert full == {
        **empty,
        "id": "k",
        "key": "k",
        "text": "a,\nb",
        "flag": True,
        "small": -5,
        "huge": 2**64 - 1,
        "half": 0.5,
        "real": 1000.0,
        "day": DAY,
        "at": 5000,
        "kind": "a",
        "body": b"reel",
        "vec": [1.0, 2.0],
        "texts": ["x"],
    }
    assert {value for name, value in empty.items() if name not in ("id", "key")} == {None}


def test_in_csv_an_empty_cell_is_null_and_quotes_around_nothing_are_an_empty_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('key,text,small,kind,texts\n"k","","","",""\nl,,,,\n')
    quoted, empty = rows({"Every": tmp_path / "a.csv"}, all_types())["Every"]
    assert (quoted["text"], empty["text"]) == ("", None)
    for name in ("small", "kind", "texts"):  # only a String can be an empty text
        assert (quoted[name], empty[name]) == (None, None)


def test_csv_cells_that_do_not_read_as_their_type_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "key,small,flag,real,day,vec,texts\nk,1x,yes,1.,1979-5-25,[1,]\nl,007,True,nan,x,1,{\n".replace("[1,]", '"[1,]",[]')
    )
    _, problems = read({"Every": tmp_path / "a.csv"}, all_types())
    assert [(problem.record, problem.property) for problem in problems] == [
        *((1, name) for name in ("day", "flag", "real", "small", "vec")),
        *((2, name) for name in ("day", "flag", "real", "small", "texts", "vec")),
    ]


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    for name in ("a.parquet", "a.csv", "a.txt"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(InvalidInput, match=name):
            read({"Person": tmp_path / name}, cinema())
    with pytest.raises(NotFound):
        read({"Person": tmp_path / "none.csv"}, cinema())
    with pytest.raises(InvalidInput, match="unknown type 'Actor'"):
        read({"Actor": tmp_path / "a.csv"}, cinema())
    with pytest.raises(InvalidInput, match="cannot load Person from int"):
        read({"Person": 3}, cinema())


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe\n1\n",
        b"name\n\xff\n",
        b"na\x80me,born\nAda,1\n",
        b'name,born\n"Ada,1\n',
        b"name,born\nAda\n",
        b"\x00\x01\x02",
        b"name\n" + b"\xc3",
    ],
)
def test_garbage_in_a_csv_file_is_refused_with_its_name(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(text)
    with pytest.raises(InvalidInput, match=r"a\.csv"):
        read({"Person": tmp_path / "a.csv"}, cinema())
