"""Parameters from JSON: what is accepted as what, and what is said when it is not."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pytest

from omnigraph.catalog.types import display
from omnigraph.errors import InvalidInput
from omnigraph.lang import parse_queries
from omnigraph.plan.check import check_read
from omnigraph.plan.expr import Value
from omnigraph.plan.params import Bindings, Numbers, bind_parameters
from tests.unit.plan.cinema import cinema, read_of


def bound(declared: str, given: object, *, numbers: Numbers = Numbers.EXACT) -> Bindings:
    read = read_of(f"({declared}) match {{ $f: Film }} return {{ $f.slug }}")
    return bind_parameters(read.parameters, given, numbers=numbers)


@pytest.mark.parametrize(
    ("type_", "given", "value"),
    [
        ("String", "x", "x"),
        ("I32", 1979, 1979),
        ("I32", "1979", 1979),
        ("I64", "-5", -5),
        ("I64", "+5", 5),
        ("U64", "18446744073709551615", 2**64 - 1),
        ("U64", 2**64 - 1, 2**64 - 1),
        ("F64", 3, 3.0),
        ("F32", 0.1, 0.10000000149011612),
        ("Bool", True, True),
        ("Date", "1979-05-25", 3431),
        ("DateTime", "2024-01-02T20:00:00Z", 1704225600000),
        ("DateTime", "2024-01-02 20:00:00.1239", 1704225600123),
        ("DateTime", "2024-01-02T22:00:00+02:00", 1704225600000),
        ("DateTime", "2024-01-02", 1704153600000),
        ("DateTime", "0001-01-01T00:00:00+01:00", -62135600400000),
        ("Blob", "base64:cmVlbA==", "base64:cmVlbA=="),
        ("[I32]", [1, "2"], (1, 2)),
        ("[String]", [], ()),
        ("Vector(3)", [1, 0.5, 0], (1.0, 0.5, 0.0)),
        ("I32?", None, None),
        ("Vector(3)?", None, None),
    ],
)
def test_accepted(type_: str, given: object, value: Value) -> None:
    assert bound(f"$y: {type_}", {"y": given}) == {"y": value}


@pytest.mark.parametrize(
    ("type_", "given", "message"),
    [
        ("String", 5, "expected string, got number"),
        ("String", True, "expected string, got boolean"),
        ("String", ["x"], "expected string, got array"),
        ("I32", 1979.0, "expected integer number"),
        ("I32", "19x", "expected integer string, got '19x'"),
        ("I32", "١٩", "expected integer string, got '١٩'"),
        ("I32", True, "expected integer"),
        ("I32", [], "expected integer"),
        ("I32", 3000000000, "value 3000000000 exceeds I32"),
        ("I32", "9" * 100, "value 99999999999999999999... exceeds I32"),
        ("I64", 2**63, "value 9223372036854775808 exceeds I64"),
        ("U32", -1, "expected unsigned integer number"),
        ("U32", "-1", "expected unsigned integer string, got '-1'"),
        ("U32", 2**32, "value 4294967296 exceeds U32"),
        ("U64", 2**64, "value 18446744073709551616 exceeds U64"),
        pytest.param("U64", 10**5000, "value of 16610 bits exceeds U64", id="beyond what Python writes out"),
        ("F64", "1.5", "expected float"),
        ("F64", True, "expected float"),
        ("F64", float("nan"), "expected float, and nan is not finite"),
        ("F64", 10**400, "value exceeds F64"),
        ("F32", 1e300, "value 1e+300 exceeds F32"),
        ("Bool", 1, "expected boolean"),
        ("Date", 5, "expected date string"),
        ("Date", "1979-5-25", "invalid Date literal '1979-5-25'"),
        ("Date", "19790525", "invalid Date literal '19790525'"),
        ("DateTime", 5, "expected datetime string"),
        ("DateTime", "2024-01-02T25:00:00Z", "invalid DateTime literal '2024-01-02T25:00:00Z'"),
        ("DateTime", "2024-01-02T20:00:00+25:00", "invalid DateTime literal '2024-01-02T20:00:00+25:00'"),
        ("Blob", 5, "expected blob URI string, got number"),
        ("[I32]", 5, "expected array for [I32]"),
        ("[I32]", [1, None], "expected integer"),
        ("[String]", [None], "expected string, got null"),
        ("Vector(3)", [1, 2], "expected 3 values for Vector(3), got 2"),
        ("Vector(2)", [1, "2"], "vector element is not numeric"),
        ("Vector(2)", [1, 10**400], "value exceeds F32"),
        ("Vector(2)", "x", "expected array for Vector(2); to compare with a text, declare the parameter as String"),
        ("Vector(2)", 1.5, "expected array for Vector(2)"),
        ("I32", None, "null is not accepted for non-nullable parameter"),
        ("I32", {"a": 1}, "expected integer"),
    ],
)
def test_refused(type_: str, given: object, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bound(f"$y: {type_}", {"y": given})
    assert caught.value.message == f"param 'y': {message}"
    assert caught.value.facts == {"parameter": "y"}


def test_parameters_are_an_object() -> None:
    with pytest.raises(InvalidInput, match="params must be a JSON object"):
        bound("$y: I32?", [1])
    assert bound("$y: I32?", None) == {"y": None}


def test_missing_non_null_parameter_is_an_error_used_or_not() -> None:
    with pytest.raises(InvalidInput, match="parameter 'y' not provided"):
        bound("$y: I32", {})


def test_undeclared_names_are_refused_with_the_nearest_declared_one() -> None:
    with pytest.raises(InvalidInput, match=r"unknown parameter 'yeer'; did you mean `\$year`\?"):
        bound("$year: I32", {"year": 1, "yeer": [1]})
    with pytest.raises(InvalidInput, match=r"unknown parameter 'x'; the query declares \$year, \$z"):
        bound("$year: I32, $z: I32?", {"year": 1, "x": {}})
    with pytest.raises(InvalidInput, match=r"unknown parameter 'x{40}\.\.\.'; the query declares none"):
        bound("", {"x" * 5000: 1})


@pytest.mark.parametrize(
    ("type_", "given", "value"),
    [
        pytest.param("Date", date(1979, 5, 25), 3431, id="date"),
        pytest.param("DateTime", datetime(2024, 1, 2, 20), 1704225600000, id="naive datetime"),
        pytest.param("DateTime", datetime(2024, 1, 2, 22, tzinfo=timezone(timedelta(hours=2))), 1704225600000, id="aware datetime"),
        pytest.param("DateTime", datetime(1969, 12, 31, 23, 59, 59, 999_999), -1, id="microseconds are cut off"),
        pytest.param("I32", Decimal("1979"), 1979, id="decimal integer"),
        pytest.param("F64", Decimal("0.5"), 0.5, id="decimal float"),
        pytest.param("I64", np.int32(7), 7, id="numpy integer"),
        pytest.param("F32", np.float32(0.1), 0.10000000149011612, id="numpy float"),
        pytest.param("Bool", np.bool_(True), True, id="numpy bool"),
        pytest.param("String", np.str_("x"), "x", id="numpy text"),
        pytest.param("Blob", b"reel", "base64:cmVlbA==", id="bytes"),
        pytest.param("[I32]", (1, np.int64(2)), (1, 2), id="tuple"),
        pytest.param("[F64]", np.array([1.0, 2.5]), (1.0, 2.5), id="numpy array"),
        pytest.param("Vector(3)", np.array([1, 0.5, 0], np.float32), (1.0, 0.5, 0.0), id="numpy vector"),
    ],
)
def test_values_of_python_are_taken_as_they_are(type_: str, given: object, value: Value) -> None:
    assert bound(f"$y: {type_}", {"y": given}) == {"y": value}


@pytest.mark.parametrize(
    ("type_", "given", "message"),
    [
        pytest.param("I32", Decimal("1.5"), "expected integer, and 1.5 is not one", id="decimal fraction"),
        pytest.param("F64", Decimal("0.1"), "0.1 does not fit F64 exactly; pass it as a float, or round it", id="inexact decimal"),
        pytest.param("Date", datetime(2024, 1, 2), "expected date string", id="a time is no date"),
        pytest.param("DateTime", date(2024, 1, 2), "expected datetime string", id="a date is no time"),
        pytest.param("Vector(2)", np.zeros((2, 2)), "vector element is not numeric", id="matrix"),
    ],
)
def test_values_of_python_that_would_lose_something_are_refused(type_: str, given: object, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        bound(f"$y: {type_}", {"y": given})
    assert caught.value.message == f"param 'y': {message}"


def test_a_parameter_of_an_anonymous_query_must_be_given_and_may_be_null() -> None:
    read = check_read(
        parse_queries("match { $f: Film { year: $y }  $f.title in $titles } return { $f.slug } limit $n").queries[0], cinema()
    )
    assert [(each.name, display(each.type)) for each in read.parameters] == [("y", "I32"), ("titles", "[String]"), ("n", "I64")]
    assert bind_parameters(read.parameters, {"y": None, "titles": ["x"], "n": 1}) == {"y": None, "titles": ("x",), "n": 1}
    with pytest.raises(InvalidInput, match="parameter 'y' not provided"):
        bind_parameters(read.parameters, {"titles": [], "n": 1})


def test_javascript_numbers() -> None:
    assert bound("$y: I64", {"y": 3.0}, numbers=Numbers.JAVASCRIPT) == {"y": 3}
    assert bound("$y: I64", {"y": str(2**53)}, numbers=Numbers.JAVASCRIPT) == {"y": 2**53}
    with pytest.raises(InvalidInput, match="exceeds JS safe integer range; pass a decimal string for exact values"):
        bound("$y: I64", {"y": 2**53}, numbers=Numbers.JAVASCRIPT)
    with pytest.raises(InvalidInput, match="expected integer number"):
        bound("$y: I64", {"y": 3.5}, numbers=Numbers.JAVASCRIPT)
