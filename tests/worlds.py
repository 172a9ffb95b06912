"""Seeds -> random records of several types, right ones and wrong ones of every code, as bytes of a file; and what a load of them did."""

from __future__ import annotations

import base64
import gzip
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from omnigraph.errors import OmniGraphError
from omnigraph.exec.problems import ProblemCode
from omnigraph.graph import Graph, LoadReceipt
from tests.loads import shown

SCHEMA: Final = """
node Person {
  name: String @key
  born: I32?
  big: U64?
  email: String? @unique
  mood: enum(glad, sad)?
  tags: [String]?
  seen: DateTime?
  day: Date?
  near: Vector(2)?
  @range(born, 1800..2100)
  @check(email, "@")
}
node Note { text: String  weight: F64?  blob: Blob?  @unique(text, weight) }
node Place { country: String  city: String  @key(country, city) }
edge Knows: Person -> Person { since: I32?  @unique(src, dst) }
edge Wrote: Person -> Note @card(0..2)
"""
BASE: Final = (
    *({"type": "Person", "data": {"name": f"base{n}", "email": f"base{n}@x"}} for n in range(4)),
    {"type": "Note", "data": {"id": "n-base", "text": "there"}},
    {"edge": "Knows", "from": "base0", "to": "base1", "data": {"id": "k-base"}},
)
MODES: Final = ("append", "merge", "overwrite", "upsert")
_ULID: Final = re.compile(r"\b[0-7][0-9A-HJKMNP-TV-Z]{25}\b")

Record = Mapping[str, Any]


class World(NamedTuple):
    """A file's bytes, and how it is loaded."""

    data: bytes
    mode: str
    part_bytes: int
    report_errors: int
    codes: tuple[ProblemCode, ...]


def world(seed: int) -> World:
    """A file with a few dozen records; three of five have something wrong, often several things, anywhere in them."""
    chance = random.Random(seed)
    mode = MODES[seed % 4]
    right = right_records(chance, mode)
    codes: tuple[ProblemCode, ...] = ()
    lines = [_line(record) for record in right]
    if seed % 5 not in (0, 3):
        # Problems of single records hide those among records, so a file has the one kind or the other.
        pool = AMONG if seed % 5 == 1 else ALONE
        codes = tuple(chance.choices(list(pool), k=chance.choice((1, 2, 5, 12))))
        for code in codes:
            for made in pool[code](chance):
                lines.insert(chance.randrange(len(lines) + 1), made)
    text = _text(chance, lines)
    part_bytes = chance.choice((1, 7, 97, 300, 1000, 1 << 20)) if len(text) < 3000 else chance.choice((300, 1000, 20_000))
    data = gzip.compress(text) if chance.random() < 0.15 else text
    return World(data, mode, part_bytes, chance.choice((1, 2, 3, 100)), codes)


def right_records(chance: random.Random, mode: str) -> list[Record]:
    names = [f"p{n}" for n in range(chance.randrange(2, 12))]
    records: list[Record] = [{"type": "Person", "data": _person(chance, name)} for name in names]
    notes = [f"n{n}" for n in range(chance.randrange(0, 6))]
    records += [{"type": "Note", "data": {"id": note, "text": f"text {note}", "weight": chance.random()}} for note in notes]
    records += [{"type": "Note", "data": {"text": f"mine {n}", "blob": "base64:aGk="}} for n in range(chance.randrange(0, 3))]
    records += [{"type": "Place", "data": {"country": "pt", "city": f"c{n}"}} for n in range(chance.randrange(0, 3))]
    pairs = chance.sample([(a, b) for a in names for b in names], k=min(len(names), chance.randrange(0, 8)))
    records += [{"edge": "Knows", "from": a, "to": b, "data": {"since": 1990}} for a, b in pairs]
    records += [{"edge": "Wrote", "from": name, "to": note, "data": {"id": f"w-{note}"}} for name, note in zip(names, notes, strict=False)]
    if mode in ("merge", "upsert"):
        records.append({"type": "Person", "data": {"name": "base0", "born": 1999}})
        records.append({"edge": "Knows", "from": "base0", "to": "base1", "data": {"since": chance.choice((None, 1))}})
    if mode == "upsert":
        records.append({"type": "Note", "data": {"id": "n-base", "weight": chance.random()}})
        records += [{"type": "Person", "data": {"name": f"base{n}", "mood": "sad"}} for n in range(1, chance.randrange(1, 5))]
    if mode == "overwrite":  # what stays must still find its ends
        records += BASE
    chance.shuffle(records)
    return records


def _person(chance: random.Random, name: str) -> Record:
    return {
        "name": name,
        "born": chance.choice((None, 1800, 1950)),
        "big": chance.choice((0, 2**64 - 1)),
        "email": chance.choice((None, f"{name}@x")),
        "mood": chance.choice((None, "glad")),
        "tags": chance.choice((None, [], ["a", "b"])),
        "seen": chance.choice((None, "2024-03-01T12:30:15.25Z", 1234)),
        "day": chance.choice((None, "2024-03-01")),
        "near": chance.choice((None, [0.5, 1])),
    }


def _wrong(**data: Any) -> Callable[[random.Random], list[bytes]]:
    return lambda chance: [_line({"type": "Person", "data": {"name": f"w{chance.randrange(10**6)}", **data}})]


ALONE: Final[Mapping[ProblemCode, Callable[[random.Random], list[bytes]]]] = {
    ProblemCode.ENCODING: lambda _: [b'{"type": "Note", "data": {"text": "\xff\xfe"}}'],
    ProblemCode.JSON: lambda chance: [chance.choice((b'{"oops"', b'{"type": "Note", "data": {"text": NaN}}', b"{} {}"))],
    ProblemCode.DUPLICATE_MEMBER: lambda _: [b'{"type": "Note", "data": {"text": "a", "text": "b"}}'],
    ProblemCode.LINE_LIMIT: lambda _: [b'{"type": "Note", "data": {"text": ' + b"[" * 131_100 + b"]" * 131_100 + b"}}"],
    ProblemCode.ENVELOPE: lambda chance: [chance.choice((b"[1]", b'{"edge": "Knows", "from": "p0"}', b'{"type": "Note", "data": 1}'))],
    ProblemCode.UNKNOWN_FIELD: lambda _: [
        b'{"type": "Note", "data": {"text": "a", "nope": 1}}',
        b'{"edge": "Knows", "from": "a", "to": "b", "x": 1}',
    ],
    ProblemCode.UNKNOWN_TYPE: lambda _: [b'{"type": "Nobody", "data": {}}'],
    ProblemCode.ID: lambda _: [
        b'{"type": "Person", "data": {"name": "x", "id": "y"}}',
        b'{"type": "Note", "data": {"id": 7, "text": "a"}}',
    ],
    ProblemCode.TYPE: _wrong(born="1999"),
    ProblemCode.OVERFLOW: _wrong(born=2**31, big=2**64),
    ProblemCode.REQUIRED: lambda _: [b'{"type": "Note", "data": {}}', b'{"type": "Place", "data": {"country": "pt"}}'],
    ProblemCode.LIST: _wrong(tags=["a", None]),
    ProblemCode.VECTOR: _wrong(near=[1.0]),
    ProblemCode.TEMPORAL: _wrong(day="2024-13-01", seen="soon"),
    ProblemCode.BLOB: lambda _: [b'{"type": "Note", "data": {"text": "a", "blob": "base64:?"}}'],
    ProblemCode.ENUM: _wrong(mood="bored"),
    ProblemCode.RANGE: _wrong(born=1),
    ProblemCode.CHECK: _wrong(email="nobody"),
}
AMONG: Final[Mapping[ProblemCode, Callable[[random.Random], list[bytes]]]] = {
    ProblemCode.DUPLICATE_ID: lambda _: [_line({"type": "Place", "data": {"country": "es", "city": "x"}})] * 2,
    ProblemCode.KEY_CONFLICT: lambda chance: [_line({"type": "Person", "data": {"name": f"base{chance.randrange(4)}"}})],
    ProblemCode.UNIQUE: lambda chance: [
        _line({"type": "Person", "data": {"name": f"u{chance.randrange(10**6)}", "email": "same@x"}}) for _ in range(2)
    ],
    ProblemCode.ENDPOINT: lambda chance: [_line({"edge": "Knows", "from": "p0", "to": f"nobody{chance.randrange(10**6)}"})],
    ProblemCode.CARDINALITY: lambda _: [_line({"edge": "Wrote", "from": "p1", "to": "n0"})] * 3,
}


def _line(record: Record) -> bytes:
    return json.dumps(record).encode()


def _text(chance: random.Random, lines: list[bytes]) -> bytes:
    """Lines as files have them: some blank, some ended the other way, the last perhaps not at all."""
    ending = chance.choice((b"\n", b"\r\n"))
    for _ in range(chance.choice((0, 0, 1, 5))):
        lines.insert(chance.randrange(len(lines) + 1), chance.choice((b"", b"  ", b"\t")))
    text = ending.join(lines) + ending
    return text.removesuffix(ending) if chance.random() < 0.4 else text


class Outcome(NamedTuple):
    """What came of a load: its counts or its error, and what the branch shows. Ids that were made up are all called the same."""

    counts: tuple[Mapping[str, int], Mapping[str, int], int] | None
    error: tuple[str, str, str, Any] | None
    rows: str


def outcome(graph: Graph, branch: str, load: Callable[[], LoadReceipt]) -> Outcome:
    counts = error = None
    try:
        receipt = load()
        counts = (receipt.nodes, receipt.edges, receipt.total)
    except OmniGraphError as refused:
        facts = {name: msgspec.to_builtins(fact) for name, fact in refused.facts.items()}
        error = (type(refused).__name__, refused.kind.value, _unminted(refused.message), json.loads(_unminted(json.dumps(facts))))
    return Outcome(counts, error, _unminted(json.dumps(_plain(shown(graph, branch)), indent=1)))


def _plain(rows: Mapping[str, list[dict[str, Any]]]) -> Any:
    def text(row: Mapping[str, Any]) -> str:
        return _unminted(json.dumps(row, default=_spelled, sort_keys=True))

    return {alias: sorted(map(text, found)) for alias, found in sorted(rows.items())}


def _spelled(value: object) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _unminted(text: str) -> str:
    return _ULID.sub("<minted>", text)


def in_file(folder: Path, data: bytes) -> str:
    path = folder / "data.ndjson"
    path.write_bytes(data)
    return str(path)
