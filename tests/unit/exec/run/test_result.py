"""Results: JSON values of every type, Arrow with its types, and rows that keep their columns."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import InvalidInput
from omnigraph.exec.read.result import PART_ROWS, Result, shown
from tests.reads import ask, graph_of, person, text_of


def values(type_: pa.DataType, *given: object) -> list[object]:
    return shown(pa.chunked_array([pa.array(list(given), type_)]))


def test_every_type_has_its_json_form() -> None:
    assert values(pa.string(), "a", None) == ["a", None]
    assert values(pa.bool_(), True, None) == [True, None]
    assert values(pa.uint64(), 2**64 - 1) == [2**64 - 1]
    assert values(pa.int64(), -(2**63)) == [-(2**63)]
    assert values(pa.float32(), 0.1, None) == [0.10000000149011612, None]
    assert values(pa.float64(), 8.0) == [8.0]
    assert json.dumps(values(pa.float64(), 8.0)) == "[8.0]"
    assert values(pa.float64(), float("nan"), float("inf"), -float("inf"), None, 1.5) == ["NaN", "Infinity", "-Infinity", None, 1.5]
    assert values(pa.list_(pa.string()), ["a", None], [], None) == [["a", None], [], None]


def test_dates_and_times_are_texts_as_far_as_the_calendar_goes() -> None:
    assert values(pa.date32(), 3431, 0, None, -719_162, 2_932_896) == ["1979-05-25", "1970-01-01", None, "0001-01-01", "9999-12-31"]
    assert values(pa.date32(), 3431, 2_932_897, -719_163) == ["1979-05-25", 2_932_897, -719_163]
    times = pa.array([1_709_296_215_250, -1, None, 0]).cast(pa.date64())
    assert shown(pa.chunked_array([times])) == ["2024-03-01T12:30:15.250Z", "1969-12-31T23:59:59.999Z", None, "1970-01-01T00:00:00.000Z"]
    far = pa.array([253_402_300_799_999, 253_402_300_800_000]).cast(pa.date64())
    assert shown(pa.chunked_array([far])) == ["9999-12-31T23:59:59.999Z", 253_402_300_800_000]


def test_vectors_are_arrays_and_their_gaps_are_null() -> None:
    vector = pa.list_(pa.float32(), 2)
    assert values(vector, [1, 0.5], None, [float("nan"), 2]) == [[1.0, 0.5], None, [None, 2.0]]
    sliced = pa.array([[1, 2], None, [3, 4], [5, 6]], vector).slice(1, 2)
    assert shown(pa.chunked_array([sliced])) == [None, [3.0, 4.0]]
    assert shown(pa.chunked_array([pa.array([["a"], ["b", "c"], None]).slice(1)])) == [["b", "c"], None]


def test_lists_of_dates_are_lists_of_texts() -> None:
    dates = pa.array([[0, 1], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    assert shown(pa.chunked_array([dates])) == [["1970-01-01", "1970-01-02"], None]


def test_a_result_is_rows_columns_arrow_and_json(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a", born=1, day="1979-05-25"), person("b"))
    result = graph.query(text_of("match { $p: Person } return { $p.name, $p.born as b, $p.day as d } order { $p.name asc }"))
    assert result.columns == ("p.name", "b", "d")
    assert result.rows == [{"p.name": "a", "b": 1, "d": "1979-05-25"}, {"p.name": "b", "b": None, "d": None}]
    assert list(result) == result.rows
    assert result.row_count == len(result) == 2
    assert result.to_arrow().schema.types == [pa.string(), pa.int32(), pa.date32()]
    assert json.loads(result.to_json()) == result.rows
    assert result.commit_id == graph.snapshot().commit_id
    assert repr(result).splitlines() == [
        "2 rows from main via q",
        "p.name   |        b | d",
        "---------+----------+-----------",
        "a        |        1 | 1979-05-25",
        "b        |     null | null",
    ]


def numbered(count: int) -> Result:
    table = pa.table({"n": pa.array(range(count), pa.int32()), "t": [f"<b>{at}</b>" for at in range(count)]})
    return Result(table, query_name="", branch="work", commit_id="c")


def test_a_result_is_a_sequence_of_rows() -> None:
    result = numbered(25)
    assert result[0] == {"n": 0, "t": "<b>0</b>"}
    assert result[-1] == result[24] == result.rows[-1]
    assert [row["n"] for row in result[2:5]] == [2, 3, 4]
    assert [row["n"] for row in result[::-10]] == [24, 14, 4]
    assert (len(result[30:]), len(result[5:2]), len(result[:0])) == (0, 0, 0)
    assert (result[1:].branch, result[1:].commit_id, result[1:].columns) == ("work", "c", ("n", "t"))
    assert {"n": 3, "t": "<b>3</b>"} in result
    for outside in (25, -26):
        with pytest.raises(IndexError, match=f"the result has 25 rows; there is no row {outside}"):
            result[outside]
    with pytest.raises(InvalidInput, match=r"a row of a result has a number, not 'n'"):
        result["n"]  # type: ignore[call-overload]


def test_a_result_shows_its_first_rows() -> None:
    shown = repr(numbered(25)).splitlines()
    assert shown[0] == "25 rows from work"
    assert len(shown) == 14
    assert shown[-1] == "… 15 more rows"
    assert repr(numbered(1)).startswith("1 row from work\n")
    assert repr(Result(pa.table({}), query_name="q", branch="main", commit_id="c")) == "0 rows from main via q"
    page = numbered(25)._repr_html_()
    assert page.count("<tr>") == 21
    assert "<td>&lt;b&gt;3&lt;/b&gt;</td>" in page
    assert "<b>3" not in page
    assert page.endswith("<p>… 5 more rows</p>")
    assert "more" not in numbered(20)._repr_html_()


def test_a_result_is_taken_by_other_libraries_as_it_is() -> None:
    result = numbered(3)
    assert pa.table(result) == result.to_arrow()
    assert polars.DataFrame(result).equals(result.to_polars())
    assert result.to_polars()["n"].to_list() == list(result.to_pandas()["n"]) == [0, 1, 2]
    assert duckdb.from_arrow(result).aggregate("sum(n)").fetchall() == [(3,)]
    with og.memory(schema="node Row { n: I32 @key  t: String }") as graph:
        graph.load({"Row": result})
        again = graph.query("match { $r: Row } return { $r.n as n, $r.t as t } order { $r.n }")
    assert again.to_arrow().to_pylist() == result.rows


def test_of_two_columns_of_one_name_a_row_shows_the_last() -> None:
    result = Result(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), query_name="q", branch="main", commit_id="c")
    assert result.columns == ("a", "a")
    assert result.rows == [{"a": 2}]
    assert list(result.tuples()) == [(1, 2)]


def test_no_rows_still_have_columns(tmp_path: Path) -> None:
    result = graph_of(tmp_path).query(text_of('match { $p: Person  $p.name = "x" } return { $p.vec, $p.tags as t }'))
    assert (result.columns, result.rows, result.row_count) == (("p.vec", "t"), [], 0)


def test_constants_and_parameters_may_be_returned(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, person("a"))
    body = '($x: [I32], $n: String?) match { $p: Person } return { $x, $n, "hi", 7, 1.5, true, date("1979-05-25") as d, now() as t }'
    ((given, null, text, whole, real, flag, day, time),) = ask(graph, body, {"x": [1, 2]})
    assert (given, null, text, whole, real, flag, day) == ([1, 2], None, "hi", 7, 1.5, True, "1979-05-25")
    assert time.endswith("Z")


def test_rows_come_in_parts_and_the_answer_is_the_same() -> None:
    count = 2 * PART_ROWS + 3
    numbers, texts = list(range(count)), [f"t{at}" for at in range(count)]
    chunks = pa.chunked_array([pa.array(texts[:5]), pa.array(texts[5:])])
    result = Result(pa.table({"n": numbers, "t": chunks}), query_name="q", branch="main", commit_id="c")
    expected = [{"n": n, "t": t} for n, t in zip(numbers, texts, strict=True)]
    assert list(result) == result.rows == expected
    assert result.to_json() == json.dumps(expected, separators=(",", ":"))
    empty = Result(pa.table({"n": pa.array([], pa.int64())}), query_name="q", branch="main", commit_id="c")
    assert (empty.rows, empty.to_json(), list(empty.tuples())) == ([], "[]", [])
    none = Result(pa.table({}), query_name="q", branch="main", commit_id="c")
    assert (none.rows, none.to_json(), list(none.tuples())) == ([], "[]", [])
