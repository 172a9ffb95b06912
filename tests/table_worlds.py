"""Seeds -> random tables of several types, right ones and wrong ones, in Parquet files of small row groups and in CSV files."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.exec.load.tablefiles import SLICE_ROWS
from tests.worlds import MODES, right_records

Row = Mapping[str, Any]

COLUMNS: Final = {
    "Person": {
        "id": pa.string(),
        "name": pa.string(),
        "born": pa.int64(),
        "big": pa.uint64(),
        "email": pa.string(),
        "mood": pa.dictionary(pa.int8(), pa.string()),
        "tags": pa.list_(pa.string()),
        "seen": pa.string(),
        "day": pa.string(),
        "near": pa.list_(pa.float64()),
    },
    "Note": {"id": pa.string(), "text": pa.string(), "weight": pa.float64(), "blob": pa.string()},
    "Place": {"country": pa.string(), "city": pa.string()},
    "Knows": {"from": pa.string(), "to": pa.string(), "since": pa.int64(), "id": pa.string()},
    "Wrote": {"src": pa.string(), "dst": pa.string(), "id": pa.string()},
}
REQUIRED: Final = frozenset({"id", "name", "text", "country", "city", "from", "to", "src", "dst"})
ALONE: Final[Sequence[tuple[str, Row]]] = (
    ("Person", {"name": "overflow", "born": 2**31}),
    ("Person", {"name": "range", "born": 1}),
    ("Person", {"name": "two", "born": 1, "mood": "bored", "near": [1.0]}),
    ("Person", {"name": "check", "email": "nobody"}),
    ("Person", {"name": "enum", "mood": "bored"}),
    ("Person", {"name": "list", "tags": ["a", None]}),
    ("Person", {"name": "temporal", "day": "2024-13-01", "seen": "soon"}),
    ("Person", {"name": None}),
    ("Person", {"name": "id", "id": "another"}),
    ("Note", {"text": None}),
    ("Note", {"text": "blob", "blob": "base64:?"}),
    ("Knows", {"from": None, "to": "p0", "since": 2**31}),
    ("Wrote", {"src": "p0", "dst": None}),
)
AMONG: Final[Sequence[tuple[str, Sequence[Row]]]] = (
    ("Place", [{"country": "es", "city": "x"}] * 2),
    ("Person", [{"name": "base1"}, {"name": "base2"}]),
    ("Person", [{"name": "u1", "email": "same@x"}, {"name": "u2", "email": "same@x"}]),
    ("Person", [{"name": "u3", "email": "base3@x"}]),
    ("Knows", [{"from": "p0", "to": "nobody"}]),
    ("Knows", [{"from": "p0", "to": "p1"}] * 2),
    ("Wrote", [{"src": "p1", "dst": "n0"}] * 3),
)


class TableWorld(NamedTuple):
    """The files of the types, and how they are loaded."""

    tables: dict[str, str]
    mode: str
    part_bytes: int
    slice_rows: int
    report_errors: int


def table_world(seed: int, folder: Path) -> TableWorld:
    """A file a type, or two. Of five worlds two are right; one has something wrong among rows, one in rows, one in rows and columns."""
    chance = random.Random(seed)
    mode = MODES[seed % 4]
    rows = _rows(chance, mode)
    if seed % 5 == 1:
        for type_, wrong in (AMONG[seed % len(AMONG)], *chance.sample(AMONG, k=chance.choice((0, 2, 4)))):
            _put(chance, rows[type_], wrong)
    if seed % 5 in (2, 4):
        for type_, row in chance.choices(ALONE, k=chance.choice((1, 2, 5, 12))):
            _put(chance, rows[type_], [row])
    odd = chance.choice(list(COLUMNS)) if seed % 5 == 4 else None
    names = [type_ for type_ in COLUMNS if rows[type_] or type_ == odd or (type_ == "Place" and chance.random() < 0.5)]
    chance.shuffle(names)
    tables: dict[str, str] = {}
    for type_ in names:
        columns, of_type = dict(COLUMNS[type_]), rows[type_]
        if mode == "upsert":
            columns = {name: column for name, column in columns.items() if name in REQUIRED or chance.random() < 0.7}
        if type_ == odd:
            _spoil(chance, columns)
        cut = len(of_type) // 2 if chance.random() < 0.15 else len(of_type)
        tables[type_] = _written(chance, folder / f"{type_}-one", columns, of_type[:cut])
        if cut < len(of_type):
            kind = "edge" if type_ in ("Knows", "Wrote") else "node"
            tables[f"{kind}:{type_}"] = _written(chance, folder / f"{type_}-two", columns, of_type[cut:])
    slice_rows = chance.choice((1, 2, 3, 5, SLICE_ROWS))
    return TableWorld(tables, mode, chance.choice((1, 300, 1000, 1 << 20)), slice_rows, chance.choice((1, 2, 3, 100)))


def _rows(chance: random.Random, mode: str) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {type_: [] for type_ in COLUMNS}
    for record in right_records(chance, mode):
        type_ = str(record.get("type") or record["edge"])
        ends = dict(zip(("src", "dst") if type_ == "Wrote" else ("from", "to"), (record.get("from"), record.get("to")), strict=True))
        row = {**(ends if "edge" in record else {}), **record["data"]}
        if type_ == "Note" and "text" not in row:  # a table leaves a property out of all rows or of none
            continue
        rows[type_].append({**row, "seen": row["seen"] if isinstance(row.get("seen"), str) else None} if type_ == "Person" else row)
    return rows


def _put(chance: random.Random, rows: list[Row], wrong: Sequence[Row]) -> None:
    for row in wrong:
        rows.insert(chance.randrange(len(rows) + 1), row)


def _spoil(chance: random.Random, columns: dict[str, pa.DataType]) -> None:
    """One column too many, or too few, or two for one end, or of another type."""
    name = next(name for name in columns if name != "id")
    match chance.randrange(4):
        case 0:
            columns["nope"] = pa.string()
        case 1:
            del columns[name]
        case 2:
            columns["src" if name == "from" else "from"] = pa.string()
        case _:
            columns[name] = pa.list_(pa.int64())


def _written(chance: random.Random, path: Path, columns: Mapping[str, pa.DataType], rows: Sequence[Row]) -> str:
    """In one of three formats; of a column that no row has, or that has another type, nothing is written but its name."""
    values = [{name: row.get(name) for name, type_ in columns.items() if not _odd(row.get(name), type_)} for row in rows]
    text = chance.random()
    if text < 0.6:
        table = pa.Table.from_pylist(values, schema=pa.schema(columns))
        pq.write_table(table, path.with_suffix(".parquet"), row_group_size=chance.choice((1, 2, 4, 7)))
        return str(path.with_suffix(".parquet"))
    body = _csv(list(columns), values)
    if text < 0.8:
        path.with_suffix(".csv").write_bytes(body)
        return str(path.with_suffix(".csv"))
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(body))
    return str(path.with_suffix(".csv.gz"))


def _odd(value: object, type_: pa.DataType) -> bool:
    return pa.types.is_list(type_) and not isinstance(value, list)


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        cells = [row.get(name) for name in columns]
        writer.writerow([json.dumps(cell) if isinstance(cell, list) else "" if cell is None else str(cell) for cell in cells])
    return text.getvalue().encode()
