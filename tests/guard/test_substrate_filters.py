"""Filters and literals: which are refused, which use an index, and that an index never changes the rows."""

from __future__ import annotations

from typing import Literal

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance import LanceDataset

NAN, INF = float("nan"), float("inf")
ROWS = pa.table(
    {
        "id": list("abcdefgh"),
        "n": pa.array([0, 1, 2, 3, None, 5, 6, -7], pa.int32()),
        "f": [1.0, NAN, None, -0.0, 0.0, INF, -INF, 2.5],
        "s": ["it's", "a\\b", "100%", "a_b", None, "", "é", "line\nbreak"],
        "b": [True, False, None, True, False, None, True, True],
        "camelCase": pa.array(range(8), pa.int32()),
        "select": pa.array(range(8), pa.int32()),
        "with space": pa.array(range(8), pa.int32()),
        "tags": [["x"], ["x", "y"], [], None, ["y"], ["z"], ["z"], ["x"]],
    }
)
INDEXES: dict[str, Literal["BTREE", "BITMAP", "LABEL_LIST"]] = {
    "n": "BTREE",
    "f": "BTREE",
    "s": "BTREE",
    "b": "BITMAP",
    "camelCase": "BTREE",
    "select": "BTREE",
    "tags": "LABEL_LIST",
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    return lance.write_dataset(ROWS, str(tmp_path_factory.mktemp("plain") / "t"))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> LanceDataset:
    table = lance.write_dataset(ROWS, str(tmp_path_factory.mktemp("indexed") / "t"))
    for column, kind in INDEXES.items():
        table.create_scalar_index(column, kind)
    return table


def matches(table: LanceDataset, where: str) -> str:
    return "".join(sorted(table.to_table(filter=where, columns=["id"])["id"].to_pylist()))


def uses_index(table: LanceDataset, where: str) -> bool:
    return "ScalarIndexQuery" in table.scanner(filter=where).explain_plan()


@pytest.mark.parametrize("where", ["n = 5000000000", "n < 3000000000", "n > 2.5", "n = 5.0", "n IN (1, 5000000000)"])
def test_a_literal_that_does_not_fit_the_column_is_a_value_error(plain: LanceDataset, indexed: LanceDataset, where: str) -> None:
    """P-19: A literal that does not fit its column is an error, so the engine rewrites it first."""
    for table in (plain, indexed):
        with pytest.raises(ValueError):
            table.to_table(filter=where)


@pytest.mark.parametrize("where", [pc.field("n") == 5_000_000_000, pc.field("n") > 2.5])
def test_a_pyarrow_literal_that_does_not_fit_is_an_arrow_error(plain: LanceDataset, where: pc.Expression) -> None:
    """P-19: refused as well, by another type on the way down; it is a ValueError, too."""
    with pytest.raises(pa.ArrowInvalid):
        plain.to_table(filter=where)


@pytest.mark.parametrize(
    "where",
    [
        "n = 5",
        "n = cast(5 as bigint)",
        "cast(n as bigint) = 5",
        "n > 2 AND n < 6",
        "s = 'é'",
        "s LIKE 'a%'",
        "starts_with(s, 'a')",
        "camelCase = 3",
        "`select` = 3",
        "b",
        "array_has(tags, 'x')",
        pc.field("n") == 5,
        pc.field("n") == pa.scalar(5, pa.int64()),
        pc.field("n") > 5,
        pc.field("n").isin([1, 5]),
        pc.field("s").isin(["é"]),
        pc.starts_with(pc.field("s"), "a"),
    ],
)
def test_a_filter_that_uses_the_index(indexed: LanceDataset, plain: LanceDataset, where: str) -> None:
    """P-19, P-20: literals of another width and camelCase names do not defeat it; pyarrow expressions are pushed down."""
    assert uses_index(indexed, where)
    assert not uses_index(plain, where)
    assert matches(indexed, where) == matches(plain, where) != ""


@pytest.mark.parametrize("where", ["isnan(f)", "n + 1 = 6"])
def test_a_filter_that_does_not_use_the_index_still_answers(indexed: LanceDataset, plain: LanceDataset, where: str) -> None:
    """No query needs an index; should one of these learn to use it, so much the better: move it up."""
    assert not uses_index(indexed, where)
    assert matches(indexed, where) == matches(plain, where) != ""


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("n = 5", "f"),
        ("n <> 5", "abcdgh"),
        ("NOT (n = 5)", "abcdgh"),
        ("n NOT IN (5, 6)", "abcdh"),
        ("n IS NULL", "e"),
        ("n = 5 OR n IS NULL", "ef"),
        ("s IN ('é', NULL)", "g"),
        ("s NOT IN ('é', NULL)", ""),
        ("b", "adgh"),
        ("NOT b", "be"),
        ("b <> true", "be"),
        ("b IS NULL", "cf"),
    ],
)
def test_null_is_neither_equal_nor_unequal(plain: LanceDataset, indexed: LanceDataset, where: str, answer: str) -> None:
    """Three-valued logic as in SQL, with an index and without: our predicates are pushed down on this understanding."""
    assert matches(plain, where) == matches(indexed, where) == answer


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("n NOT IN (0, 1) OR n NOT IN (2, 3)", "abcdefgh"),
        ("NOT (n IN (0, 1) AND n IN (2, 3))", "abcdefgh"),
        ("(n IS NOT NULL AND n NOT IN (0, 1)) OR (n IS NOT NULL AND n NOT IN (2, 3))", "abcdfgh"),
        ("n <> 0 OR n <> 2", "abcdfgh"),
        ("n < 2 OR n >= 2", "abcdfgh"),
    ],
)
def test_null_is_outside_of_two_lists_that_exclude_each_other(plain: LanceDataset, indexed: LanceDataset, where: str, answer: str) -> None:
    """The first two answers are wrong: null (`e`) is neither in a list nor outside of it. We say `IS NOT NULL` with every `NOT IN`."""
    assert matches(plain, where) == matches(indexed, where) == answer


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("s IN ('', 'é', '100%', 'a_b', 'x', 'y')", "cdfg"),
        ("f IN (0.0, 7.0, 8.0, 9.0, 10.0)", "de"),
        ("f NOT IN (-0.0, 7.0, 8.0, 9.0, 10.0)", "abfgh"),
        ("ends_with(s, 'b')", "bd"),
        ("NOT ends_with(s, 'b')", "acfgh"),
        ("NOT starts_with(s, 'a')", "acfgh"),
        ("NOT contains(s, '')", ""),
        ("NOT array_has(tags, 'x')", "cefg"),
    ],
)
def test_lists_and_parts_of_texts_and_their_opposites(plain: LanceDataset, indexed: LanceDataset, where: str, answer: str) -> None:
    """Null is in neither answer; both zeros are found by either, also in a list long enough for a hash table."""
    assert matches(plain, where) == matches(indexed, where) == answer


def test_parentheses_may_be_nested_forty_deep_and_not_a_hundred(plain: LanceDataset) -> None:
    """The parser refuses more; we push conditions of up to ten levels."""

    def nested(levels: int) -> str:
        where = "n = 5"
        for level in range(levels):
            where = f"({where}) {'AND' if level % 2 else 'OR'} (n = {level})"
        return where

    assert matches(plain, nested(40)) == ""
    with pytest.raises(ValueError):
        plain.to_table(filter=nested(100))


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("f > 1.0", "bfh"),
        ("f < 1.0", "deg"),
        ("NOT (f > 1.0)", "adeg"),
        ("f <> 1.0", "bdefgh"),
        ("f = cast('NaN' as double)", "b"),
        ("f = 0.0", "de"),
        ("f = -0.0", "de"),
        ("f >= 0.0", "abdefh"),
    ],
)
def test_nan_is_the_greatest_number_and_equal_to_itself_and_zero_has_no_sign(
    plain: LanceDataset, indexed: LanceDataset, where: str, answer: str
) -> None:
    """Unlike IEEE and unlike numpy: whoever evaluates a predicate beside Lance must follow the same order."""
    assert matches(plain, where) == matches(indexed, where) == answer


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("s = 'it''s'", "a"),
        ("s = 'a\\b'", "b"),
        ("s = '100%'", "c"),
        ("s LIKE '100%'", "c"),
        ("s LIKE 'a_b'", "bd"),
        ("starts_with(s, 'a_')", "d"),
        ("s = ''", "f"),
        ("s = 'é'", "g"),
        ("s = 'line\nbreak'", "h"),
    ],
)
def test_in_a_string_literal_only_the_quote_is_doubled(plain: LanceDataset, indexed: LanceDataset, where: str, answer: str) -> None:
    """Backslash, newline, percent and unicode stand for themselves, so quoting is one replacement; prefixes go by starts_with."""
    assert matches(plain, where) == matches(indexed, where) == answer


def test_column_names_are_quoted_by_backticks(plain: LanceDataset) -> None:
    """Double quotes make a string literal of it, so `"select" = 3` is not about the column."""
    assert matches(plain, "`select` = 3") == matches(plain, "`with space` = 3") == "d"
    assert matches(plain, "`camelCase` = 3") == matches(plain, "camelCase = 3") == "d"
    with pytest.raises(ValueError):
        plain.to_table(filter='"select" = 3')


def test_an_unknown_column_is_a_value_error(plain: LanceDataset) -> None:
    """A filter against the wrong schema fails, and does not match nothing."""
    with pytest.raises(ValueError):
        plain.to_table(filter="nobody = 1")


def test_a_projection_may_be_empty_and_still_give_addresses(plain: LanceDataset) -> None:
    """Deletes scan for addresses alone."""
    answer = plain.scanner(columns=[], with_row_address=True, filter="n > 4").to_table()
    assert answer.column_names == ["_rowaddr"]
    assert answer["_rowaddr"].to_pylist() == [5, 6]
