"""Records in lines: what is read from them, and what is refused, with its place and in which words."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from ulid import ULID

from omnigraph.catalog.layout import table_schema
from omnigraph.exec.load.batches import Unit
from omnigraph.exec.problems import ProblemCode
from tests.unit.exec.load.reading import all_types, cinema, messages, read, rows, text

ALIEN = {
    "slug": "alien",
    "title": "Alien",
    "year": 1979,
    "rating": 8.5,
    "votes": 900,
    "released": "1979-05-25",
    "added_at": "2024-03-01T12:30:15.25Z",
    "genres": ["horror", "scifi"],
    "status": "released",
    "plot": "A crew",
    "vec": [1, 0, 0],
}


def film(more: str) -> str:
    return f'{{"type":"Film","data":{{"slug":"x","title":"t","year":1999,"status":"draft",{more}}}}}'


def test_a_node_and_an_edge_become_rows_of_their_tables() -> None:
    data = text({"type": "Film", "data": ALIEN}, {"edge": "ActedIn", "from": "Ada", "to": "alien", "data": {"id": "a1", "billing": 1}})
    batches, problems = read(data, cinema())
    assert problems == []
    assert [(batch.entity.name, batch.lines.to_pylist(), batch.minted) for batch in batches] == [
        ("Film", [1], False),
        ("ActedIn", [2], False),
    ]
    assert all(batch.rows.schema.equals(table_schema(batch.entity), check_metadata=True) for batch in batches)
    assert rows(data, cinema())["Film"] == [
        {**ALIEN, "id": "alien", "released": date(1979, 5, 25), "added_at": 1709296215250, "vec": [1.0, 0.0, 0.0]}
    ]
    assert rows(data, cinema())["ActedIn"] == [{"id": "a1", "src": "Ada", "dst": "alien", "role": None, "billing": 1}]


def test_edge_names_fold_case_and_node_names_do_not() -> None:
    """E100."""
    assert rows(text({"edge": "actedin", "from": "Dee", "to": "heat"}), cinema())["ActedIn"][0]["src"] == "Dee"
    assert messages(text({"type": "film", "data": {}}), cinema()) == ["unknown node type 'film'; did you mean `Film`?"]


def test_blank_lines_count_and_say_nothing() -> None:
    person = '{"type":"Person","data":{"name":"Ada"}}'
    other = '{"type":"Person","data":{"name":"Ben"}}'
    data = f"\n  \t\n{person}\r\n\r\n{other}".encode()
    batches, problems = read(data, cinema())
    assert ([line for batch in batches for line in batch.lines.to_pylist()], problems) == ([3, 5], [])


def test_an_empty_input_has_no_batches() -> None:
    """W-26: it is the loader that commits all the same."""
    assert read(b"", cinema()) == ([], [])
    assert read(b"\n\n", cinema()) == ([], [])


def test_ids_are_derived_kept_or_minted() -> None:
    """E98, E116, E117, E118."""
    assert rows(text({"type": "Take", "data": {"n": -0.0}}), all_types())["Take"][0]["id"] == "0"
    assert rows(text({"type": "Day", "data": {"d": "1979-05-25"}}), all_types())["Day"][0]["id"] == "3431"
    assert rows(text({"type": "Cut", "data": {"name": 'a"b', "ver": 7}}), all_types())["Cut"][0]["id"] == '["a\\"b","7"]'
    assert rows(text({"type": "Person", "data": {"name": "Q", "id": "Q"}}), cinema())["Person"][0]["id"] == "Q"
    (wrong,) = read(text({"type": "Note", "data": {"text": "x"}}, {"type": "Person", "data": {"name": "Q", "id": "R"}}), cinema())[1]
    assert wrong.message == "node 'Person' explicit id 'R' does not match its canonical @key id 'Q'"
    assert (wrong.code, wrong.line, wrong.type, wrong.property, wrong.id) == (ProblemCode.ID, 2, "node:Person", "id", "R")


def test_a_batch_says_whether_all_its_ids_were_minted() -> None:
    some = text({"type": "Note", "data": {"text": "x"}}, {"type": "Note", "data": {"text": "y", "id": "mine"}})
    (batch,), _ = read(some, cinema())
    minted, kept = batch.rows.column("id").to_pylist()
    assert (kept, batch.minted, len(minted)) == ("mine", False, 26)
    assert ULID.from_str(minted)
    (batch,), _ = read(text(*[{"type": "Note", "data": {"text": "x"}}] * 3), cinema())
    assert batch.minted
    assert len(set(batch.rows.column("id").to_pylist())) == 3


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (
            '{"type":"Film","data":{"slug":"x","title":"t","year":"1999","status":"draft"}}',
            ProblemCode.TYPE,
            "strict property 'year' expects Int32, got \"1999\"",
        ),
        ('{"type":"Person","data":{"name":"Q","age":3}}', ProblemCode.UNKNOWN_FIELD, "unknown input field 'age' for 'node:Person'"),
        (
            '{"type":"Person","data":{"name":"Q","born":2147483648}}',
            ProblemCode.OVERFLOW,
            "property 'born' value 2147483648 exceeds Int32 range",
        ),
        ('{"type":"Person","data":{"name":"Q","born":1.0}}', ProblemCode.TYPE, "strict property 'born' expects Int32, got 1.0"),
        ('{"type":"Person","data":{"name":"Q","born":true}}', ProblemCode.TYPE, "strict property 'born' expects Int32, got true"),
        ('{"type":"Person","data":{"name":null}}', ProblemCode.REQUIRED, "non-nullable property 'name' has null or invalid values"),
        ('{"type":"Person"}', ProblemCode.REQUIRED, "non-nullable property 'name' has null or invalid values"),
        ('{"type":"Person","data":{"name":"Q","id":3}}', ProblemCode.ID, "node 'Person' field 'id' must be a string, got 3"),
        ('{"type":"Person","data":null}', ProblemCode.ENVELOPE, "field 'data' must be an object, got null"),
        ('{"edge":"Directed","from":"a","to":"b","data":null}', ProblemCode.ENVELOPE, "field 'data' must be an object, got null"),
        ('{"type":"Person","data":[]}', ProblemCode.ENVELOPE, "field 'data' must be an object, got []"),
        (
            '{"type":"Person","data":{"name":"Q"},"x":1}',
            ProblemCode.UNKNOWN_FIELD,
            "unknown member 'x': a record with 'type' has 'type' and 'data', which holds the properties",
        ),
        (
            '{"type":"Person","from":"a"}',
            ProblemCode.UNKNOWN_FIELD,
            "unknown member 'from': a record with 'type' has 'type' and 'data', which holds the properties",
        ),
        ('{"type":"Person","_rowid":1}', ProblemCode.ENVELOPE, "field '_rowid' is reserved physical state"),
        ('{"type":"Person","edge":"Directed"}', ProblemCode.ENVELOPE, "a record must have exactly one of 'type' or 'edge'"),
        ('{"data":{}}', ProblemCode.ENVELOPE, "a record must have exactly one of 'type' or 'edge'"),
        ('{"type":3}', ProblemCode.ENVELOPE, "field 'type' must be a string, got 3"),
        ('{"type":"Actor"}', ProblemCode.UNKNOWN_TYPE, "unknown node type 'Actor'"),
        ('{"edge":"Film","from":"a","to":"b"}', ProblemCode.UNKNOWN_TYPE, "unknown edge type 'Film'"),
        ('{"edge":"Directed","from":"a"}', ProblemCode.ENVELOPE, "edge missing 'to'"),
        ('{"edge":"Directed","from":"a","to":null}', ProblemCode.ENVELOPE, "field 'to' must be a string, got null"),
        (
            '{"edge":"Directed","from":"a","to":"b","data":{"src":"a"}}',
            ProblemCode.UNKNOWN_FIELD,
            "field 'src' is reserved structural state; use 'from' and 'to' for an edge",
        ),
        ("[1, 2]", ProblemCode.ENVELOPE, "a line must be a JSON object, got [1, 2]"),
        (
            '{"edge":"Influenced","from":"a","to":"b","data":{"strength":1e39}}',
            ProblemCode.OVERFLOW,
            "property 'strength' value 1e39 exceeds Float32 range",
        ),
        (film('"votes":-1'), ProblemCode.OVERFLOW, "property 'votes' value -1 exceeds UInt64 range"),
        (film('"vec":[1,2]'), ProblemCode.VECTOR, "vector property 'vec' expects 3 dimensions, got 2"),
        (film('"vec":[1,2,"3"]'), ProblemCode.VECTOR, "vector property 'vec' elements must be numeric, got \"3\""),
        (film('"vec":[1,2,null]'), ProblemCode.VECTOR, "vector property 'vec' elements must be numeric, got null"),
        (film('"genres":"a"'), ProblemCode.LIST, "list property 'genres' expects a JSON array, got \"a\""),
        (film('"genres":["a",null]'), ProblemCode.LIST, "strict list property 'genres' contains a null or invalid item"),
        (film('"released":"2023-02-29"'), ProblemCode.TEMPORAL, "invalid Date literal '2023-02-29'"),
        (film('"added_at":"2024-03-01T12:30Z"'), ProblemCode.TEMPORAL, "invalid DateTime literal '2024-03-01T12:30Z'"),
        (film('"released":2147483648'), ProblemCode.OVERFLOW, "property 'released' value 2147483648 exceeds Date32 range"),
        ('{"type":"Script","data":{"code":"s","body":"base64:cmVlbA="}}', ProblemCode.BLOB, "invalid base64 blob data: Incorrect padding"),
        (
            '{"type":"Script","data":{"code":"s","body":3}}',
            ProblemCode.BLOB,
            "blob property 'body' must be a URI string or base64: prefixed data",
        ),
        (
            '{"type":"Person","data":{"name":"Q","name":"R"}}',
            ProblemCode.DUPLICATE_MEMBER,
            "invalid strict JSON at line 2: duplicate JSON member 'name'",
        ),
        (
            '{"type":"Person","type":"Person","data":{"name":"Q"}}',
            ProblemCode.DUPLICATE_MEMBER,
            "invalid strict JSON at line 2: duplicate JSON member 'type'",
        ),
        (
            '{"type":"Person","data":{"name":"Q"},"data":{"name":"Q"}}',
            ProblemCode.DUPLICATE_MEMBER,
            "invalid strict JSON at line 2: duplicate JSON member 'data'",
        ),
        ('{"type":"Film","data":{"rating":NaN}}', ProblemCode.JSON, "invalid strict JSON at line 2: NaN is not JSON"),
        (
            '{"type":"Person","data":{"name":"\\ud800"}}',
            ProblemCode.JSON,
            "invalid strict JSON at line 2: \\ud800 is half of a surrogate pair",
        ),
        ('{"type":"Person","data":{"name":"Q"}', ProblemCode.JSON, "invalid strict JSON at line 2: Expecting ',' delimiter at column 37"),
        ('{"type":"Person","data":{"name":"Q"}}}', ProblemCode.JSON, "invalid strict JSON at line 2: Extra data at column 38"),
        (
            '{"type":"Person","data":{"name":"Q"}} {"type":"Person"}',
            ProblemCode.JSON,
            "invalid strict JSON at line 2: Extra data at column 39",
        ),
        (
            '{"type":"Person","data":{"name":"a\tb"}}',
            ProblemCode.JSON,
            "invalid strict JSON at line 2: Invalid control character at at column 35",
        ),
        ('{"type":"Person","data":{"name":"Q",}}', ProblemCode.JSON, None),
        ("{'type':'Person'}", ProblemCode.JSON, None),
        ('{"type":"Person","data":{"born":01}}', ProblemCode.JSON, None),
        ('{"type":"Person","data":{"born":+1}}', ProblemCode.JSON, None),
        ('{"type":"Film","data":{"rating":1.}}', ProblemCode.JSON, None),
    ],
)
def test_a_bad_record_is_refused_in_these_words(line: str, code: ProblemCode, message: str | None) -> None:
    """V-01, V-02, E96, E97: and the records around it are read."""
    good = {"type": "Person", "data": {"name": "Ada"}}
    batches, problems = read(text(good, line, good), cinema())
    assert {problem.line for problem in problems} == {2}
    assert problems[0].code is code
    assert message is None or problems[0].message == message
    assert batches[0].lines.to_pylist() == [1, 3]


def test_a_bad_value_has_its_column_and_property() -> None:
    (problem,) = read(text('{"type":"Person","data":{"name":"Q","born":"x"}}'), cinema())[1]
    assert (problem.type, problem.property, problem.line, problem.column) == ("node:Person", "born", 1, 37)
    assert str(problem) == "<bytes>, line 1, column 37: strict property 'born' expects Int32, got \"x\""


def test_every_bad_value_of_a_record_is_told() -> None:
    film = {"slug": "x", "title": 1, "year": "y", "status": "draft", "vec": [1], "extra": 2}
    assert messages(text({"type": "Film", "data": film}), cinema()) == [
        "unknown input field 'extra' for 'node:Film'",
        "strict property 'title' expects Utf8, got 1",
        "vector property 'vec' expects 3 dimensions, got 1",
        "strict property 'year' expects Int32, got \"y\"",
    ]


def test_an_external_blob_is_refused_by_its_name() -> None:
    """E101: bytes come in as base64; anything else names something outside."""
    assert rows(text({"type": "Script", "data": {"code": "s", "body": "base64:cmVlbA=="}}), cinema())["Script"][0]["body"] == b"reel"
    assert rows(text({"type": "Script", "data": {"code": "s", "body": "base64:"}}), cinema())["Script"][0]["body"] == b""
    (message,) = messages(text({"type": "Script", "data": {"code": "s", "body": "s3://bucket/reel"}}), cinema())
    assert message.startswith("external blob URI 's3://bucket/reel' is not allowed: ")


@pytest.mark.parametrize(
    ("form", "milliseconds"),
    [
        ("2024-03-01T12:30:15Z", 1709296215000),
        ("2024-03-01T12:30:15.25Z", 1709296215250),
        ("2024-03-01T12:30:15.250999Z", 1709296215250),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("2024-03-01T12:30:15+02:00", 1709289015000),
        ("2024-03-01T12:30:15.123456789-01:30", 1709301615123),
        ("2024-03-01 12:30:15", 1709296215000),
        ("2024-03-01t12:30:15z", 1709296215000),
        ("2024-03-01", 1709251200000),
        ("9999-12-31T23:59:59.999999999Z", 253402300799999),
        (1709296215250, 1709296215250),
    ],
)
def test_a_time_may_be_written_in_any_of_these_forms(form: str | int, milliseconds: int) -> None:
    assert rows(text(*[{"type": "Every", "data": {"key": "k", "at": form}}] * 2), all_types())["Every"][1]["at"] == milliseconds


def test_dates_and_times_written_in_several_forms_are_read_alike() -> None:
    forms: list[Any] = ["1979-05-25", 3431, None]
    times = ["1970-01-01T00:00:01Z", 1000, "1970-01-01 00:00:01", None]
    data = [{"key": str(number), "day": forms[number % 3], "at": times[number % 4], "days": [forms[number % 2]]} for number in range(500)]
    found = rows(text(*({"type": "Every", "data": record} for record in data)), all_types())["Every"]
    assert [row["day"] for row in found] == [None if number % 3 == 2 else date(1979, 5, 25) for number in range(500)]
    assert [row["at"] for row in found] == [None if number % 4 == 3 else 1000 for number in range(500)]
    assert {row["days"][0] for row in found} == {date(1979, 5, 25)}


def test_numbers_at_the_ends_of_their_types_are_kept() -> None:
    """E27: every U64 is one."""
    ends = {
        "small": -(2**31),
        "big": 2**63 - 1,
        "count": 2**32 - 1,
        "huge": 2**64 - 1,
        "real": 1.7976931348623157e308,
        "half": 3.4028234663852886e38,
    }
    assert rows(text({"type": "Every", "data": {"key": "k", **ends}}), all_types())["Every"][0].items() >= ends.items()
    zero = '{"type":"Every","data":{"key":"k","small":-0,"huge":-0,"real":1e-400}}'
    assert rows(text(zero), all_types())["Every"][0].items() >= {"small": 0, "huge": 0, "real": 0.0}.items()


def test_properties_may_have_the_names_of_the_envelope() -> None:
    loose = {"type": "Every", "data": "null", "n": 1}
    for line in ({"type": "Loose", "data": loose}, {"data": loose, "type": "Loose"}):
        (row,) = rows(text(line), all_types())["Loose"]
        assert row.items() >= loose.items()
    (row,) = rows(text({"edge": "Link", "from": "null", "to": "b", "data": {"data": "x"}}), all_types())["Link"]
    assert (row["src"], row["data"]) == ("null", "x")


def test_a_type_without_properties_needs_no_data() -> None:
    """An id that reads `null` is an id like any other."""
    found = rows(text({"edge": "Bare", "from": "a", "to": "null"}, {"edge": "Bare", "from": "a", "to": "b", "data": {}}), all_types())
    assert [row["dst"] for row in found["Bare"]] == ["null", "b"]


def test_the_rows_of_a_type_keep_the_order_of_their_lines() -> None:
    """Whichever way each was read: plainly, with its type at the end, or one by one."""
    kinds = [
        '{{"type":"Person","data":{{"name":"{0}"}}}}',
        '{{"data":{{"name":"{0}"}},"type":"Person"}}',
        ' {{"type":"Person","data":{{"name":"{0}"}} }} ',
    ]
    lines = [kinds[number % 3].format(number) for number in range(300)]
    (batch,), problems = read(text(*lines), cinema())
    assert problems == []
    assert batch.rows.column("name").to_pylist() == [str(number) for number in range(300)]
    assert batch.lines.to_pylist() == list(range(1, 301))


def test_reading_stops_when_the_report_is_full() -> None:
    batches, problems = read(text(*["nonsense"] * 50), cinema(), limit=7)
    assert (len(problems), batches) == (7, [])


def test_records_given_as_dicts_are_numbered_as_records() -> None:
    batches, problems = read([{"type": "Person", "data": {"name": "Ada"}}, {"type": "Person", "data": {"name": 3}}], cinema())
    assert (batches[0].unit, batches[0].lines.to_pylist()) == (Unit.RECORD, [1])
    assert [(problem.record, problem.line, problem.column) for problem in problems] == [(2, None, None)]
