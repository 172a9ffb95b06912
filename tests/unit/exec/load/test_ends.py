"""The ends of edges: ids, or the keys of nodes as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.catalog import Catalog
from omnigraph.exec.load.blocks import blocks
from omnigraph.exec.load.ndjson import Reader
from omnigraph.exec.problems import ProblemCode
from tests.unit.catalog.schemas import catalog_of
from tests.unit.exec.load.reading import messages, read, rows, text

SCHEMA = """
node Hall { n: I32 @key }
node Big { n: U64 @key }
node Real { x: F64 @key }
node Flag { b: Bool @key }
node Day { d: Date @key }
node At { t: DateTime @key }
node Name { s: String @key }
node Loose { s: String? }
node Seat { row: String  hall: I32  on: Date  @key(row, on, hall) }
node Pair { a: I32  b: I32  @key(b, a) }
edge ToHall: Name -> Hall
edge ToBig: Name -> Big
edge ToReal: Name -> Real
edge ToFlag: Name -> Flag
edge ToDay: Name -> Day
edge ToAt: Name -> At
edge ToName: Name -> Name
edge ToLoose: Name -> Loose
edge ToSeat: Name -> Seat { n: I32? }
edge ToPair: Name -> Pair
"""
SEAT = '["7","3431","a"]'
"""The id of the seat a 7: its parts in the order of their names."""


@cache
def keyed() -> Catalog:
    return catalog_of(SCHEMA)


def link(edge: str, to: Any) -> dict[str, Any]:
    return {"edge": edge, "from": "x", "to": to}


@pytest.mark.parametrize(
    ("edge", "to", "id_"),
    [
        ("ToHall", 7, "7"),
        ("ToHall", -7, "-7"),
        ("ToHall", "7", "7"),
        ("ToBig", 2**64 - 1, str(2**64 - 1)),
        ("ToReal", 7, "7"),
        ("ToReal", 2.5, "2.5"),
        ("ToReal", -0.0, "0"),
        ("ToReal", 1e21, "1000000000000000000000"),
        ("ToFlag", True, "true"),
        ("ToDay", 3431, "3431"),
        ("ToAt", 1709296215250, "1709296215250"),
        ("ToName", "7", "7"),
        ("ToLoose", "7", "7"),
        ("ToSeat", ["a", "1979-05-25", 7], SEAT),
        ("ToSeat", {"hall": 7, "on": "1979-05-25", "row": "a"}, SEAT),
        ("ToSeat", {"on": 3431, "hall": 7, "row": "a"}, SEAT),
        ("ToSeat", SEAT, SEAT),
        ("ToPair", [2, 1], '["1","2"]'),
    ],
)
def test_an_end_is_an_id_or_a_key(edge: str, to: Any, id_: str) -> None:
    """L2-32: Keys have the id that they have in their nodes, whichever way the parser takes."""
    for count in (1, 100):
        assert {row["dst"] for row in rows(text(*[link(edge, to)] * count), keyed())[edge]} == {id_}
    assert rows([link(edge, to), link(edge, id_)], keyed())[edge][0]["dst"] == id_


@pytest.mark.parametrize(
    ("edge", "to", "code", "message"),
    [
        ("ToHall", 2**31, ProblemCode.OVERFLOW, "field 'to': property 'n' value 2147483648 exceeds Int32 range"),
        ("ToHall", 1.5, ProblemCode.TYPE, "field 'to': strict property 'n' expects Int32, got 1.5"),
        ("ToHall", [7], ProblemCode.TYPE, "field 'to': strict property 'n' expects Int32, got [7]"),
        ("ToHall", None, ProblemCode.ENVELOPE, "field 'to' must be a string, got null"),
        ("ToName", 7, ProblemCode.ENVELOPE, "field 'to' must be a string, got 7"),
        ("ToLoose", 7, ProblemCode.ENVELOPE, "field 'to' must be a string, got 7"),
        ("ToSeat", [7, "1979-05-25", "a"], ProblemCode.TYPE, "field 'to': strict property 'row' expects Utf8, got 7"),
        ("ToSeat", ["a", 7], ProblemCode.ENVELOPE, "give the parts of the key (row, on, hall) of Seat, as an object or a list, or an id"),
        ("ToSeat", {"row": "a", "hall": 7}, ProblemCode.ENVELOPE, "give the parts of the key (row, on, hall) of Seat"),
        ("ToSeat", 7, ProblemCode.ENVELOPE, "give the parts of the key (row, on, hall) of Seat"),
        ("ToSeat", ["a", None, 7], ProblemCode.REQUIRED, "non-nullable property 'on'"),
    ],
)
def test_an_end_that_is_no_key_is_refused(edge: str, to: Any, code: ProblemCode, message: str) -> None:
    """L2-32."""
    for count in (1, 100):
        problems = read(text(*[link(edge, to)] * count), keyed(), limit=100)[1]
        assert len(problems) == count
        assert all(problem.code is code and message in problem.message for problem in problems), problems[0]


@pytest.mark.parametrize(("edge", "to"), [("ToHall", 7), ("ToDay", 3431), ("ToSeat", {"row": "a", "on": "1979-05-25", "hall": 7})])
def test_many_keys_are_read_as_columns(edge: str, to: Any) -> None:
    (block,) = blocks(iter([text(*[link(edge, to)] * 1000)]))
    parsed = Reader(keyed(), most=1).parse(block)  # type: ignore[arg-type]  # not a problem
    assert (parsed.exact_lines, parsed.problems, len(parsed.pieces[0].rows)) == (0, [], 1000)


def test_columns_of_tables_may_hold_keys() -> None:
    """L2-32."""

    def ids(edge: str, to: pa.Array) -> list[str]:
        return [row["dst"] for row in rows({edge: pa.table({"from": ["x"] * len(to), "to": to})}, keyed())[edge]]

    assert ids("ToHall", pa.array([7, -1], pa.int64())) == ["7", "-1"]
    assert ids("ToHall", pa.array(["7", "8"])) == ["7", "8"]
    assert ids("ToHall", pa.array(["7", "7"]).dictionary_encode()) == ["7", "7"]
    assert ids("ToDay", pa.array([3431], pa.int32()).cast(pa.date32())) == ["3431"]
    assert ids("ToPair", pa.array([[2, 1], [20, 10]])) == ['["1","2"]', '["10","20"]']
    assert ids("ToPair", pa.array([[2, 1]], pa.list_(pa.int32(), 2))) == ['["1","2"]']
    seats = [{"row": "a", "hall": 7, "on": "1979-05-25"}, {"row": "b", "hall": 7, "on": "1979-05-25"}]
    assert ids("ToSeat", pa.array(seats)) == [SEAT, SEAT.replace("a", "b")]


def test_wrong_keys_in_tables_are_refused_row_by_row() -> None:
    """L2-32."""

    def problems(edge: str, to: pa.Array) -> list[tuple[int | None, str]]:
        found = read({edge: pa.table({"from": ["x"] * len(to), "to": to})}, keyed())[1]
        return [(problem.record, problem.message) for problem in found]

    assert problems("ToHall", pa.array([7, None, 2**31])) == [
        (2, "edge missing 'to'"),
        (3, "field 'to': property 'n' value 2147483648 exceeds Int32 range"),
    ]
    assert problems("ToPair", pa.array([[2, 1], [2]])) == [
        (2, "field 'to': non-nullable property 'a' has null or invalid values"),
        (2, "field 'to': non-nullable property 'b' has null or invalid values"),
    ]
    assert problems("ToHall", pa.array([1.5])) == [(None, "column 'to' must hold ids of Hall, or its keys, not double")]
    assert problems("ToSeat", pa.array([{"row": "a"}]))[0][1].startswith("column 'to' must hold ids of Seat, or its keys, not struct")
    assert messages({"ToLoose": pa.table({"from": ["x"], "to": [7]})}, keyed()) == [
        "column 'to' must hold ids of Loose, or its keys, not int64"
    ]
