"""Operations of the command line, each in a process of its own: their cost includes printing every row."""

from __future__ import annotations

import subprocess
import sys

from bench.growth import worlds
from bench.growth.operation import Operation, Place

QUERY = "query ask() { match { $p: Person } return { $p.name, $p.age, $p.city } }"


def _omnigraph(place: Place, *arguments: str) -> None:
    command = [sys.executable, "-m", "omnigraph.cli.main", *arguments, "--store", place.uri]
    with (place.folder / "out.txt").open("w") as file:
        subprocess.run(command, stdout=file, check=True)


def _query(form: str) -> Operation:
    return Operation(
        name=f"omnigraph query, {form}",
        covers=("omnigraph query",),
        needs=(worlds.people,),
        run=lambda place: _omnigraph(place, "query", "-e", QUERY, "--format", form),
        changes=True,
    )


OPERATIONS = (
    *map(_query, ("table", "json")),
    Operation(
        name="omnigraph export",
        covers=("omnigraph export",),
        needs=(worlds.people,),
        run=lambda place: _omnigraph(place, "export"),
        changes=True,
    ),
    Operation(
        name="omnigraph load",
        covers=("omnigraph load",),
        needs=(worlds.empty, worlds.ndjson),
        run=lambda place: _omnigraph(place, "load", "--data", str(place.folder / worlds.LINES), "--mode", "merge"),
        changes=True,
    ),
)
