"""The fast reader and the exact one: they agree on every text, and ordinary files never meet the exact one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from omnigraph.exec.load.blocks import LineBlock, blocks
from omnigraph.exec.load.ndjson import Parsed, Reader
from omnigraph.exec.load.pieces import is_flag
from omnigraph.exec.load.strict import parse_exactly
from tests.samples import sample
from tests.unit.exec.load.reading import all_types, plain, text

EVERY = all_types().node("Every")
assert EVERY is not None
NAMES = [property_.name for property_ in EVERY.properties]

TOKENS = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1e2",
    "1E+2",
    "-0.0",
    "01",
    "+1",
    ".5",
    "1.",
    "1e400",
    "-1e400",
    "1e-400",
    "1e39",
    "0.1",
    "16777217",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890",
    "NaN",
    "Infinity",
    "-Infinity",
    "nan",
    '"a"',
    '"b"',
    '""',
    '"null"',
    '"\\u0000"',
    '"\\ud800"',
    '"\\udc00"',
    '"\\ud83d\\ude00"',
    '"\\u00e9"',
    '"é"',
    '"a\\nb"',
    '"\\x"',
    '"\\/"',
    '"1979-05-25"',
    '"2023-02-29"',
    '"0000-01-01"',
    '"0001-01-01"',
    '"9999-12-31"',
    '"1979-5-25"',
    '"2024-03-01T12:30:15Z"',
    '"2024-03-01T12:30:15.25Z"',
    '"2024-03-01T12:30:15.1234567Z"',
    '"2024-03-01T12:30:15+02:00"',
    '"2024-03-01T12:30:15+0200"',
    '"2024-03-01T12:30Z"',
    '"2024-03-01T12Z"',
    '"2024-03-01T12:30:15"',
    '"2024-03-01t12:30:15z"',
    '"2024-03-01T24:00:00Z"',
    '"0000-03-01T12:30:15Z"',
    '"9999-12-31T23:59:59.999999999Z"',
    '"base64:"',
    '"base64:cmVlbA=="',
    '"base64:cmVlbA"',
    '"base64:cmVl\\nbA=="',
    '"file:///x"',
    "[]",
    "[1]",
    "[1,2]",
    "[1,2,3]",
    "[1.5,2.5]",
    "[1e39,0]",
    "[1,null]",
    "[null]",
    '["a"]',
    '["a","b"]',
    '["a",1]',
    "[true]",
    "[[1]]",
    "[NaN,1]",
    '["1979-05-25"]',
    "[3431,3432]",
    '["1979-05-25",3431]',
    '["2024-03-01T12:30:15Z"]',
    '[1,"2"]',
    "{}",
    '{"a":1}',
    '{"a":1,"a":2}',
]
SPACES = st.sampled_from(["", "", "", " ", "\t", "  "])


def strings() -> st.SearchStrategy[str]:
    return st.text(max_size=5).map(json.dumps) | st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(
        lambda t: json.dumps(t, ensure_ascii=False)
    )


def values() -> st.SearchStrategy[str]:
    numbers = st.integers(-(2**65), 2**65).map(str) | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    return st.sampled_from(TOKENS) | strings() | numbers


def members(names: list[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(st.sampled_from(names), values()), max_size=4)


@st.composite
def objects(draw: st.DrawFn, pairs: list[tuple[str, str]]) -> str:
    parts = [f'{draw(SPACES)}"{name}"{draw(SPACES)}:{draw(SPACES)}{value}{draw(SPACES)}' for name, value in pairs]
    return "{" + ",".join(parts) + "}"


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A record that is nearly right: odd values, odd spaces, members missing, doubled, unknown or in another order; or a character off."""
    data = draw(members([*NAMES, *NAMES, "id", "age", "src"]))
    if draw(st.booleans()):
        data = [("key", '"k"'), *data]
    pairs = draw(
        st.sampled_from(
            [
                [("type", '"Every"')],
                [("type", '"every"')],
                [("type", '"Loose"')],
                [("edge", '"Link"'), ("from", '"a"'), ("to", '"b"')],
                [("edge", '"LINK"'), ("from", '"null"'), ("to", '"b"')],
                [("edge", '"Bare"'), ("from", '"a"'), ("to", "null")],
                [("edge", '"Link"'), ("to", '"b"')],
            ]
        )
    )
    if draw(st.integers(0, 9)):
        pairs = [*pairs, ("data", draw(objects(data)))]
    if draw(st.integers(0, 5)) == 0:
        pairs = [*pairs, *draw(st.lists(st.tuples(st.sampled_from(["type", "edge", "data", "x", "_rowid"]), values()), max_size=1))]
    if draw(st.booleans()):
        pairs = draw(st.permutations(pairs))
    line = (draw(SPACES) + draw(objects(pairs)) + draw(SPACES)).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(line)))
        other = draw(st.sampled_from([b"", b"}", b"{", b'"', b",", b"\xff", b"\r", b"\x00", b"\\", b"]", b"1", b"\xef\xbb\xbf"]))
        line = line[:at] + other + line[at + draw(st.integers(0, 1)) :]
    return line.replace(b"\n", b"")


def one_block(data: bytes) -> LineBlock:
    (block,) = blocks(iter([data]))
    assert isinstance(block, LineBlock)
    return block


def compared(parsed: Parsed) -> tuple[Any, Any]:
    pieces = {piece.entity.name: (piece.lines.tolist(), repr(list(map(without_flags, plain(piece.rows))))) for piece in parsed.pieces}
    return pieces, parsed.problems


def without_flags(row: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """A row, and the properties that are left out. A flag may be absent where it is not set."""
    return {name: value for name, value in row.items() if not is_flag(name)}, {name for name in row if is_flag(name) and row[name]}


@given(written=st.lists(lines(), min_size=1, max_size=3), keeps=st.booleans())
@example(written=[b'{"type":"Every","data":{"key":"k"}}{"type":"Every","data":{"key":"k"}}'], keeps=False)
@example(written=[b'{"type":"Loose","data":', b'{"type":"Loose"}}', b'{"type":"Loose"}{"type":"Loose"}'], keeps=False)
@example(written=[b'{"type":"Loose","data":{"type":"x}}', b'{"type":"Loose","data":{"type":","n":1}}'], keeps=False)
@example(written=[b'{"type":"Loose","data":{"n":1},"data":{"n":2}}'], keeps=False)
@example(written=[b'{"type":"Loose","data":{"n":1}}}'], keeps=False)
@example(written=[b'{"edge":"Link","from":"a","to":"b","weight":1,"data":{}}'], keeps=False)
@example(written=[b'{"edge":"Link","from":"a","to":"b","data":null}'], keeps=False)
@example(
    written=[
        b'{"type":"Every","data":{"key":"k","small":null,"text":"\\"small\\": null"}}',
        b'{"type":"Every","data":{"key":"k","text":"null"}}',
    ],
    keeps=True,
)
@example(written=[b'{"type":"Every","data":{"key":"k","sm\\u0061ll":null}}', b'{"type":"Every","data":{"key":"k"}}'], keeps=True)
@example(written=[b'{"type":"Must","data":{"n":null}}', b'{"type":"Must","data":{"n":1}}', b'{"type":"Must"}'], keeps=True)
@example(written=[b'{"type":"Every","data":{"text":"x"}}', b'{"type":"Cut","data":{"name":"x"}}'], keeps=True)
@settings(max_examples=sample(150, whole=3000), deadline=None)
def test_fast_and_exact_reading_agree_on_every_text(written: list[bytes], keeps: bool) -> None:
    """Law: whatever the fast reader takes, the exact one takes, and gives the same rows."""
    data = b"\n".join(written) + b"\n"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or 0 in data[:2]:  # taken for UTF-16 before any line is read
        return
    block = one_block(data)
    numbered = ((number + 1, block.line(number)) for number in range(len(block.ends)))
    exact = parse_exactly(numbered, all_types(), most=1000, keeps=keeps)
    expected = compared(Parsed(list(exact.pieces), list(exact.problems), 0))
    assert compared(Reader(all_types(), most=1000, keeps=keeps).parse(block)) == expected


RECORDS: list[dict[str, Any]] = [
    {"type": "Every", "data": {"key": "k", "text": 'é "x" \n', "flag": True, "small": -5, "big": 2**60, "count": 7, "huge": 2**64 - 1}},
    {"type": "Every", "data": {"key": "k", "half": 0.1, "real": -1e300, "day": "1979-05-25", "at": "2024-03-01T12:30:15.25Z", "kind": "a"}},
    {
        "type": "Every",
        "data": {"key": "k", "body": "base64:cmVlbA==", "vec": [1, 2.5], "texts": ["a", ""], "smalls": [], "reals": [1, 0.5]},
    },
    {"type": "Every", "data": {"key": "k", "days": ["1979-05-25"], "times": ["2024-03-01T12:30:15Z"], "flags": [True, False]}},
    {"type": "Every", "data": {"key": "k", **{name: None for name in NAMES if name != "key"}}},
    {"edge": "Link", "from": "a", "to": "b"},
    {"edge": "link", "from": "a", "to": "b", "data": {"weight": 0.5, "since": "1979-05-25"}},
    {"edge": "Bare", "from": "a", "to": "b", "data": {"id": "x"}},
    {"type": "Loose", "data": {"n": 1}},
    {"type": "Loose"},
]


def test_ordinary_files_are_read_without_the_exact_reader() -> None:
    """In the spellings of the usual writers: compact or spaced, members sorted or not, returns before newlines."""
    written = {
        "compact": [json.dumps(record, separators=(",", ":")) for record in RECORDS],
        "spaced": [json.dumps(record) for record in RECORDS],
        "sorted": [json.dumps(record, sort_keys=True, ensure_ascii=False) for record in RECORDS],
        "returns": [json.dumps(record) + "\r" for record in RECORDS],
    }
    for spelling, texts in written.items():
        parsed = Reader(all_types(), most=100).parse(one_block(text(*texts * 50)))
        assert (spelling, parsed.exact_lines, parsed.problems) == (spelling, 0, [])
        assert {piece.entity.name: len(piece.lines) for piece in parsed.pieces} == {"Every": 250, "Link": 100, "Bare": 50, "Loose": 100}


def test_a_file_that_writes_dates_as_numbers_is_read_without_the_exact_reader() -> None:
    """As our own export does."""
    record = {"type": "Every", "data": {"id": "k", "key": "k", "at": 1709296215250, "day": 3431, "days": [3431], "times": None}}
    reader = Reader(all_types(), most=100)
    assert [reader.parse(one_block(text(*[record] * 200))).exact_lines for _ in range(2)] == [0, 0]


def test_one_odd_line_sends_only_its_neighbours_to_the_exact_reader() -> None:
    lines = [json.dumps({"type": "Every", "data": {"key": str(number)}}) for number in range(20_000)]
    lines[7777] = '{"type":"Every","data":{"key":"x","small":"1"}}'
    parsed = Reader(all_types(), most=100).parse(one_block(text(*lines)))
    assert [problem.line for problem in parsed.problems] == [7778]
    assert parsed.exact_lines <= 64
    assert len(parsed.pieces[0].lines) == 19_999


def test_a_learnt_beginning_does_not_change_what_is_read() -> None:
    """A beginning without data is the start of one with it, and both are remembered."""
    reader = Reader(all_types(), most=100)
    first = text('{"type":"Loose"}', '{"type":"Loose","data":{"n":1}}')
    second = text(
        '{"type":"Loose","data":{"n":2}}', '{"type":"Loose"}', '{"type":"Loose","data":{"n":3} }', '{"type":"Loose","data":{"n":4}}'
    )
    assert [row["n"] for row in plain(reader.parse(one_block(first)).pieces[0].rows)] == [None, 1]
    for _ in range(2):
        assert [row["n"] for row in plain(reader.parse(one_block(second)).pieces[0].rows)] == [2, None, 3, 4]


def test_many_types_and_many_spellings_are_sorted_in_reasonable_time() -> None:
    """Neither a type per line that nobody knows nor a spelling per line makes sorting quadratic."""
    unknown = text(*(f'{{"type":"T{number}"}}' for number in range(50_000)))
    assert len(Reader(all_types(), most=10).parse(one_block(unknown)).problems) == 10
    spaced = text(*('{"type":' + " " * (number % 2000) + '"Loose","data":{"n":1}}' for number in range(4000)))
    parsed = Reader(all_types(), most=10).parse(one_block(spaced))
    assert (parsed.problems, len(parsed.pieces[0].lines)) == ([], 4000)
