"""Loads of n rows, in every mode and format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq

from bench.growth import worlds
from bench.growth.operation import Kind, Operation, Place, Preparation


def _read_people(place: Place) -> None:
    place.input = {"Person": pq.read_table(place.folder / worlds.PEOPLE)}


def _read_one_property(place: Place) -> None:
    rows = pq.read_table(place.folder / worlds.PEOPLE)
    place.input = {"Person": rows.select(rows.schema.names[:2])}


def _read_partial_lines(place: Place) -> None:
    _read_one_property(place)
    place.input = "".join(json.dumps({"type": "Person", "data": row}) + "\n" for row in place.input["Person"].to_pylist()).encode()


def _read_edges(place: Place) -> None:
    place.input = {"Knows": pq.read_table(place.folder / worlds.KNOWS)}


def _read_records(place: Place) -> None:
    rows = pq.read_table(place.folder / worlds.PEOPLE).to_pylist()
    place.input = [{"type": "Person", "data": row} for row in rows]


def _file(name: str) -> Callable[[Place], Any]:
    return lambda place: str(place.folder / name)


def _table_file(name: str) -> Callable[[Place], Any]:
    return lambda place: {"Person": str(place.folder / name)}


def _load(
    name: str,
    *needs: Preparation,
    mode: str,
    data: Callable[[Place], Any] = lambda place: place.input,
    ready: Callable[[Place], None] = lambda place: None,
    dry_run: bool = False,
    token: str | None = None,
) -> Operation:
    def run(place: Place) -> object:
        return place.graph.load(data(place), mode=mode, dry_run=dry_run, token=token)

    return Operation(name=name, covers=("Graph.load", "omnigraph load"), needs=needs, run=run, ready=ready, changes=True)


def _upsert_one(place: Place) -> object:
    return place.graph.load([{"type": "Person", "data": {"name": f"person-{place.turn + 3:08d}", "age": 7}}], mode="upsert")


EMPTY, PEOPLE, SOCIAL = worlds.empty, worlds.people, worlds.social
OPERATIONS = (
    _load("load append, NDJSON", EMPTY, worlds.ndjson, mode="append", data=_file(worlds.LINES)),
    _load("load append, NDJSON, with a token", EMPTY, worlds.ndjson, mode="append", data=_file(worlds.LINES), token="job"),
    _load("load append, NDJSON in gzip", EMPTY, worlds.zipped, mode="append", data=_file(f"{worlds.LINES}.gz")),
    _load("load append, CSV", EMPTY, worlds.csv, mode="append", data=_table_file("people.csv")),
    _load("load append, Parquet", EMPTY, worlds.new_people, mode="append", data=_table_file(worlds.PEOPLE)),
    _load("load append, Arrow", EMPTY, worlds.new_people, mode="append", ready=_read_people),
    _load("load append, dicts", EMPTY, worlds.new_people, mode="append", ready=_read_records),
    _load("load append to n rows", PEOPLE, worlds.new_people, mode="append", ready=_read_people),
    _load("load append, 2n edges", PEOPLE, worlds.new_edges, mode="append", ready=_read_edges),
    _load("load merge, new rows", PEOPLE, worlds.new_people, mode="merge", ready=_read_people),
    _load("load merge, existing rows", PEOPLE, worlds.same_people, mode="merge", ready=_read_people),
    _load("load merge, rows with 2n edges", SOCIAL, worlds.same_people, mode="merge", ready=_read_people),
    _load("load merge, 2n new edges", SOCIAL, worlds.new_edges, mode="merge", ready=_read_edges),
    _load("load upsert, new rows", PEOPLE, worlds.new_people, mode="upsert", ready=_read_people),
    _load("load upsert, existing rows", PEOPLE, worlds.same_people, mode="upsert", ready=_read_one_property),
    Operation(
        name="load upsert, one of n rows",
        covers=("Graph.load",),
        needs=(worlds.indexed_people,),
        run=_upsert_one,
        kind=Kind.FLAT,
        times=10,
        changes=True,
        repeatable=True,
    ),
    _load("load upsert, NDJSON", PEOPLE, worlds.same_people, mode="upsert", ready=_read_partial_lines),
    _load("load overwrite", PEOPLE, worlds.new_people, mode="overwrite", ready=_read_people),
    _load("load merge, dry run", PEOPLE, worlds.same_people, mode="merge", ready=_read_people, dry_run=True),
)
