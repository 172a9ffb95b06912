"""Word lists and a seed -> the museum's records: one NDJSON file of everything, and one Parquet file a type; always the same.

`python -m examples.museum.make_data FOLDER` writes `museum.ndjson` and `tables/*.parquet` there.
"""

from __future__ import annotations

import json
import random
import sys
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

Record = dict[str, Any]

HERE = Path(__file__).resolve().parent
ARTISTS, WORKS, INSPECTIONS = 450, 3_200, 1_500
WINGS = {"east": 16, "north": 12, "tower": 8, "west": 20}
MEDIA = ["bronze", "engraving", "glass", "oil", "oil", "oil", "porcelain", "tapestry", "watercolour"]
FIRST_DAY, DAYS = date(1950, 1, 1), 27_000


def records() -> Iterator[Record]:
    """Every node, then every edge, as lines of a file hold them."""
    words = tomllib.loads((HERE / "words.toml").read_text())
    chance = random.Random(1896)
    artists = list(_artists(words, chance))
    works = list(_works(words, chance))
    rooms = [
        {"code": f"{wing[0].upper()}{n + 1:02d}", "wing": wing, "floor": n // 6, "lux": chance.choice([50, 150, 200, None])}
        for wing, count in WINGS.items()
        for n in range(count)
    ]
    museums = [
        {"name": f"{house} {city}", "city": city, "country": chance.choice(words["countries"])}
        for city in words["cities"]
        for house in chance.sample(words["houses"], 2)
    ]
    inspections = [
        {"id": f"insp-{n:05d}", "day": _day(chance), "grade": chance.choice("aaabbcd"), "note": chance.choice([None, *words["notes"]])}
        for n in range(INSPECTIONS)
    ]
    edges = list(_edges(chance, artists, works, rooms, museums, inspections))  # a work learns here when it was made, and where it is
    nodes = {"Artist": artists, "Work": works, "Room": rooms, "Museum": museums, "Inspection": inspections}
    for type_, entities in nodes.items():
        yield from ({"type": type_, "data": entity} for entity in entities)
    yield from edges


def _artists(words: Record, chance: random.Random) -> Iterator[Record]:
    names = [f"{given} {family}" for given in words["given"] for family in words["family"]]
    for name in chance.sample(names, ARTISTS):
        born = chance.randint(1480, 1985)
        died = born + chance.randint(28, 91)
        yield {"name": name, "born": born, "died": died if died < 2020 else None, "country": chance.choice(words["countries"])}


def _works(words: Record, chance: random.Random) -> Iterator[Record]:
    for n in range(WORKS):
        acquired = _day(chance)
        yield {
            "number": f"{acquired[:4]}.{n + 1}",
            "title": f"{chance.choice(words['moods'])} {chance.choice(words['things'])}",
            "made": None,
            "medium": chance.choice(MEDIA),
            "height_cm": round(chance.uniform(6, 320), 1),
            "status": "in_store",
            "acquired": acquired,
            "value": chance.choice([None, chance.randrange(1_000, 900_000, 500)]),
        }


def _edges(
    chance: random.Random, artists: list[Record], works: list[Record], rooms: list[Record], museums: list[Record], inspections: list[Record]
) -> Iterator[Record]:
    by_birth = sorted(artists, key=lambda artist: artist["born"])
    for work in works:
        maker = by_birth[int(len(by_birth) * chance.random() ** 2.0)]
        work["made"] = maker["born"] + chance.randint(18, 40)
        yield _edge("Made", maker["name"], work["number"])
    for place, pupil in enumerate(by_birth):
        masters = [other for other in by_birth[max(0, place - 60) : place] if 12 <= pupil["born"] - other["born"] <= 50]
        for master in chance.sample(masters[::5], min(len(masters[::5]), chance.choice([0, 1, 2, 2]))):
            yield _edge("StudiedWith", pupil["name"], master["name"], year=pupil["born"] + chance.randint(11, 20))
    for work in works:
        drawn = chance.random()
        if drawn < 0.45:
            work["status"] = "on_view"
            yield _edge("HangsIn", work["number"], chance.choice(rooms)["code"], since=_after(work["acquired"], chance))
        elif drawn < 0.55:
            work["status"] = chance.choice(["on_loan", "in_workshop"])
        if chance.random() < 0.25:
            yield from _loans(work, museums, chance)
    for inspection in inspections:
        yield _edge("Inspected", inspection["id"], chance.choice(works)["number"])
    for one, other in pairwise(rooms):
        yield _edge("DoorTo", one["code"], other["code"])
        yield _edge("DoorTo", other["code"], one["code"])


def _loans(work: Record, museums: list[Record], chance: random.Random) -> Iterator[Record]:
    for museum in chance.sample(museums, chance.choice([1, 1, 2, 3])):
        leaves = _after(work["acquired"], chance)
        returns = (date.fromisoformat(leaves) + timedelta(chance.randint(40, 400))).isoformat()
        yield _edge(
            "LentTo", work["number"], museum["name"], leaves=leaves, returns=returns, insured=chance.randrange(2_000, 2_000_000, 1_000)
        )


def _edge(type_: str, from_: str, to: str, **data: object) -> Record:
    return {"edge": type_, "from": from_, "to": to, **({"data": data} if data else {})}


def _day(chance: random.Random) -> str:
    return (FIRST_DAY + timedelta(chance.randrange(DAYS))).isoformat()


def _after(day: str, chance: random.Random) -> str:
    return (date.fromisoformat(day) + timedelta(chance.randint(30, 4_000))).isoformat()


def write_ndjson(path: Path) -> int:
    """Write everything as one file; the answer is how many records it has."""
    lines = [json.dumps(record, ensure_ascii=False) for record in records()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def write_parquet(folder: Path) -> list[Path]:
    """Write one table a type, as a lake would hold them: dates are dates there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables: dict[str, list[Record]] = {}
    for record in records():
        ends = {"from": record["from"], "to": record["to"]} if "edge" in record else {}
        tables.setdefault(record.get("type") or record["edge"], []).append({**ends, **record.get("data", {})})
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in tables.items():
        table = pa.Table.from_pylist(rows)
        for place, column in enumerate(table.schema.names):
            if column in ("acquired", "day", "since", "leaves", "returns"):
                table = table.set_column(place, column, table.column(column).cast(pa.date32()))
        pq.write_table(table, folder / f"{name}.parquet")
    return sorted(folder.glob("*.parquet"))


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m examples.museum.make_data FOLDER")
    folder = Path(sys.argv[1])
    tables = write_parquet(folder / "tables")
    count = write_ndjson(folder / "museum.ndjson")
    print(f"{count:,} records in {folder / 'museum.ndjson'}, and as {len(tables)} tables in {folder / 'tables'}")


if __name__ == "__main__":
    main()
