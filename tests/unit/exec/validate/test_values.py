"""Values that their type refuses: which rows, which code and which words; and nothing for rows that are right."""

from __future__ import annotations

import math
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog.layout import table_schema
from omnigraph.catalog.model import EntityType
from omnigraph.exec.problems import ProblemCode
from omnigraph.exec.validate.findings import Findings, Violation
from omnigraph.exec.validate.value_rules import check_values
from tests.unit.catalog.schemas import catalog_of

CINE = """
node Film {
  slug: String @key   title: String   year: I32   rating: F64?   light: F32?   votes: U64?
  genres: [String]?   marks: [F32]?   status: enum(draft, released, archived)   vec: Vector(3)?   body: Blob?
  @range(year, 1888..2100)   @range(rating, 0.5..10)   @range(votes, ..9007199254740992)   @check(slug, "^[a-z0-9-]+$")
}
node Strict { v: Vector(2)   b: Blob   n: I32 }
node Broken { name: String?   @check(name, "(") }
node Odd { marks: [I32]?   names: [String]?   @range(marks, 0..1)   @check(names, "^a$") }
edge Likes: Film -> Film { weight: F32? }
"""


CATALOG = catalog_of(CINE)


def entity(name: str) -> EntityType:
    found = CATALOG.node(name) or CATALOG.edge_named(name)
    assert found is not None
    return found


def films(*rows: dict[str, object]) -> pa.Table:
    good = {"slug": "heat", "title": "t", "year": 1995, "status": "draft"}
    full = [good | row for row in rows]
    schema = table_schema(entity("Film"))
    return pa.table([pa.array([{"id": row["slug"], **row}.get(f.name) for row in full], f.type) for f in schema], schema=schema)


def found(*rows: dict[str, object]) -> list[tuple[int | None, ProblemCode, str | None, str]]:
    return [(one.row, one.code, one.property, one.message) for one in check_values(entity("Film"), films(*rows)).found]


def test_rows_that_are_right_are_not_mentioned() -> None:
    rows = films(
        {"rating": 8.5, "light": 0.1, "votes": 9, "genres": ["a", ""], "marks": [1.0], "vec": [1.0, 0.0, -1.0]},
        {"genres": [], "marks": []},
        {"year": 1888, "rating": 0.5},
        {"year": 2100, "rating": 10.0},
    )
    assert not check_values(entity("Film"), rows)
    assert not check_values(entity("Film"), rows.slice(0, 0))
    assert not check_values(entity("Film"), rows.to_batches()[0])


@pytest.mark.parametrize(
    ("row", "code", "property_", "message"),
    [
        ({"year": 1700}, ProblemCode.RANGE, "year", "@range violation on Film.year: value 1700 < min 1888"),
        ({"year": 2101}, ProblemCode.RANGE, "year", "@range violation on Film.year: value 2101 > max 2100"),
        ({"rating": 0.25}, ProblemCode.RANGE, "rating", "@range violation on Film.rating: value 0.25 < min 0.5"),
        ({"rating": 11.0}, ProblemCode.RANGE, "rating", "@range violation on Film.rating: value 11 > max 10"),
        (
            {"slug": "Bad Slug"},
            ProblemCode.CHECK,
            "slug",
            "@check violation on Film.slug: value 'Bad Slug' does not match pattern '^[a-z0-9-]+$'",
        ),
        ({"status": "gone"}, ProblemCode.ENUM, "status", "invalid enum value 'gone' for Film.status (expected: archived, draft, released)"),
        ({"status": None}, ProblemCode.REQUIRED, "status", "non-nullable property 'status' has null or invalid values"),
        ({"title": None}, ProblemCode.REQUIRED, "title", "non-nullable property 'title' has null or invalid values"),
        ({"light": math.inf}, ProblemCode.TYPE, "light", "property 'light' value inf must be finite"),
        ({"genres": ["a", None]}, ProblemCode.LIST, "genres", "strict list property 'genres' contains a null or invalid item"),
        ({"marks": [1.0, math.nan]}, ProblemCode.LIST, "marks", "strict list property 'marks' contains a null or invalid item"),
        ({"vec": [1.0, None, 2.0]}, ProblemCode.VECTOR, "vec", "vector property 'vec' elements must be numeric, got null"),
        ({"vec": [1.0, -math.inf, 2.0]}, ProblemCode.VECTOR, "vec", "vector property 'vec' elements must be finite"),
    ],
)
def test_a_value_that_its_rule_refuses_is_told_with_its_row(
    row: dict[str, object], code: ProblemCode, property_: str, message: str
) -> None:
    """V-01, V-02."""
    assert found({}, row, {"vec": [0.0, 0.0, 0.0], "genres": ["a", "b"]}) == [(1, code, property_, message)]
    chunked = pa.concat_tables([films({"vec": [1.0, 1.0, 1.0], "marks": [2.0]}), films({"genres": ["x"]}, row)])
    (one,) = check_values(entity("Film"), chunked).found
    assert (one.row, one.code, one.message) == (2, code, message)
    assert one.type == "node:Film"
    assert one.id == row.get("slug", "heat")


def test_a_number_that_is_not_one_is_refused_once_although_it_has_a_range() -> None:
    assert found({"rating": math.nan}) == [(0, ProblemCode.TYPE, "rating", "property 'rating' value nan must be finite")]
    assert [one[1] for one in found({"rating": math.inf}, {"rating": math.nan})] == [ProblemCode.TYPE, ProblemCode.RANGE, ProblemCode.TYPE]


def test_a_range_compares_as_doubles() -> None:
    assert found({"votes": 2**53 + 1}) == []
    assert [one[0] for one in found({"votes": 2**53 + 2}, {"votes": 2**64 - 1}, {"votes": None})] == [0, 1]


def test_huge_numbers_whose_sum_overflows_are_finite() -> None:
    rows = films({"light": 3e38}, {"light": 3e38})
    wide = rows.set_column(rows.schema.get_field_index("rating"), "rating", pa.array([1.7e308, 1.7e308]))
    assert {one.code for one in check_values(entity("Film"), wide).found} == {ProblemCode.RANGE}


def test_a_check_is_a_search_and_an_invalid_pattern_fails_the_first_write() -> None:
    rows = pa.table({"id": ["a", "b"], "name": pa.array(["x", None], pa.string())})
    (one,) = check_values(entity("Broken"), rows).found
    assert one.code is ProblemCode.CHECK
    assert one.message.startswith("@check on Broken.name has invalid regex")
    assert not check_values(entity("Broken"), rows.slice(0, 0))


def test_ranges_and_checks_of_lists_are_never_enforced() -> None:
    rows = pa.table({"id": ["a"], "marks": pa.array([[7]], pa.list_(pa.int32())), "names": pa.array([["b"]])})
    assert not check_values(entity("Odd"), rows)


def test_a_vector_that_comes_as_a_list_has_its_length_checked() -> None:
    """V-02."""
    rows = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "v": pa.array([[1.0, 2.0], [1.0], None, [1.0, math.nan]], pa.list_(pa.float32())),
            "b": pa.array([b"", b"", None, b""], pa.large_binary()),
            "n": pa.array([1, 1, 1, 1], pa.int32()),
        }
    )
    assert [(one.row, one.message) for one in check_values(entity("Strict"), rows).found] == [
        (1, "vector property 'v' expects 2 dimensions, got 1"),
        (2, "non-nullable blob property 'b' has null or invalid values"),
        (2, "non-nullable vector property 'v' has null or invalid values"),
        (3, "vector property 'v' elements must be finite"),
    ]


def test_an_edge_without_an_end_is_refused() -> None:
    rows = pa.table({"id": ["e"], "src": pa.array([None], pa.string()), "dst": ["x"], "weight": pa.array([math.nan], pa.float32())})
    assert [one.code for one in check_values(entity("Likes"), rows).found] == [ProblemCode.REQUIRED, ProblemCode.TYPE]


def test_findings_come_in_the_order_of_rows_and_are_counted_beyond_the_limit() -> None:
    rows = films(*({"year": 1700, "status": "gone"} for _ in range(40)))
    findings = check_values(entity("Film"), rows, limit=5)
    assert [(one.row, one.code) for one in findings.found] == [
        (0, ProblemCode.ENUM), (0, ProblemCode.RANGE), (1, ProblemCode.ENUM), (1, ProblemCode.RANGE), (2, ProblemCode.ENUM)
    ]  # fmt: skip
    assert (findings.more, findings.count) == (75, 80)


def test_a_type_and_its_findings_travel_to_another_process() -> None:
    film = pickle.loads(pickle.dumps(entity("Film")))
    findings = check_values(film, films({"year": 1}))
    assert pickle.loads(pickle.dumps(findings)) == findings
    assert isinstance(findings, Findings)
    assert isinstance(findings.found[0], Violation)


rows_of_films = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "year": st.integers(1886, 1890) | st.integers(2099, 2102),
            "rating": st.none() | st.floats(-1, 11) | st.sampled_from([math.nan, math.inf]),
            "status": st.sampled_from(["draft", "released", "Draft", "", None]),
            "genres": st.none() | st.lists(st.sampled_from([None, "", "yy"]), max_size=3),
            "vec": st.none() | st.lists(st.sampled_from([0.0, 1.5, math.nan, None]), min_size=3, max_size=3),
            "slug": st.sampled_from(["a", "b-1", "A", "a b", "é"]),
        },
    ),
    max_size=8,
)


def broken_by(row: dict[str, object]) -> set[tuple[str, ProblemCode]]:
    """The rules in plain words, one value at a time."""
    wrong: set[tuple[str, ProblemCode]] = set()
    year, rating, status, genres, vec = (row.get(name) for name in ("year", "rating", "status", "genres", "vec"))
    if "year" in row and not 1888 <= year <= 2100:  # type: ignore[operator]
        wrong.add(("year", ProblemCode.RANGE))
    if rating is not None and not math.isfinite(rating):  # type: ignore[arg-type]
        wrong.add(("rating", ProblemCode.TYPE))
    if rating is not None and (rating < 0.5 or rating > 10):  # type: ignore[operator]
        wrong.add(("rating", ProblemCode.RANGE))
    if "status" in row and status not in ("draft", "released", "archived"):
        wrong.add(("status", ProblemCode.ENUM if status is not None else ProblemCode.REQUIRED))
    if isinstance(genres, list) and None in genres:
        wrong.add(("genres", ProblemCode.LIST))
    if isinstance(vec, list) and any(item is None or not math.isfinite(item) for item in vec):
        wrong.add(("vec", ProblemCode.VECTOR))
    if "slug" in row and row["slug"] not in ("a", "b-1"):
        wrong.add(("slug", ProblemCode.CHECK))
    return wrong


@given(rows_of_films, st.integers(0, 8))
def test_whole_columns_are_judged_as_one_value_at_a_time_would_be(rows: list[dict[str, object]], cut: int) -> None:
    """V-01."""
    whole = films(*rows) if rows else films({}).slice(0, 0)
    chunked = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    expected = {(at, *wrong) for at, row in enumerate(rows) for wrong in broken_by(row)}
    for table in (whole, chunked):
        assert {(one.row, one.property, one.code) for one in check_values(entity("Film"), table, limit=1_000).found} == expected
