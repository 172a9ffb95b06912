"""Loads, exports and reads on Spark. One session on two cores runs all sizes, because its start costs more than any of them."""

from __future__ import annotations

import tempfile
from typing import Any

from bench.growth import worlds
from bench.growth.operation import Operation, Place, Preparation

BASE = 20_000


def _session(place: Place) -> None:
    from omnigraph.spark import session

    with tempfile.NamedTemporaryFile() as log:
        place.input = session(master="local[2]", log_file=log.name)


def _load(place: Place, *, mode: str) -> object:
    from omnigraph.spark import GraphLoad

    rows = place.input.read.parquet(str(place.folder / worlds.PEOPLE))
    return GraphLoad(place.input, place.graph, mode=mode).nodes("Person", rows).commit()


def _append(place: Place) -> object:
    return _load(place, mode="append")


def _merge(place: Place) -> object:
    return _load(place, mode="merge")


def _upsert(place: Place) -> object:
    return _load(place, mode="upsert")


def _export(place: Place) -> object:
    from omnigraph.spark import export

    return export(place.input, place.graph, place.folder / f"out-{place.turn}", format="parquet")


def _read(place: Place) -> int:
    from omnigraph.spark import register

    register(place.input)
    rows: Any = place.input.read.format("omnigraph").option("graph", place.uri).option("type", "Person").load()
    found: int = rows.selectExpr("max(hash(name, age, city, score))").collect()[0][0]
    return found


def _views(place: Place) -> object:
    from omnigraph.spark import register_views

    register_views(place.input, place.graph)
    return place.input.sql("SELECT city, count(*) FROM Person GROUP BY city").collect()


def _on_spark(name: str, covers: tuple[str, ...], *needs: Preparation, run: Any) -> Operation:
    return Operation(name=name, covers=covers, needs=needs, ready=_session, run=run, base=BASE, changes=True, one_process=True)


LOAD = ("spark.GraphLoad", "spark.session", "omnigraph spark")
OPERATIONS = (
    _on_spark("Spark load append", LOAD, worlds.empty, worlds.new_people, run=_append),
    _on_spark("Spark load merge, existing rows", LOAD, worlds.people, worlds.same_people, run=_merge),
    _on_spark("Spark load upsert, existing rows", LOAD, worlds.people, worlds.same_people, run=_upsert),
    _on_spark("Spark export", ("spark.export", "omnigraph spark"), worlds.people, run=_export),
    _on_spark("Spark read", ("spark.register",), worlds.people, run=_read),
    _on_spark("Spark views", ("spark.register_views",), worlds.people, run=_views),
)
