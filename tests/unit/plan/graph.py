"""The films and people of the language's worked examples, in memory."""

from __future__ import annotations

from typing import Any

from omnigraph.plan.temporal import parse_date, parse_datetime
from tests.unit.plan.evaluate import Graph


def _film(title: str, year: int, status: str, **more: Any) -> dict[str, Any]:
    return {"title": title, "year": year, "status": status, **more}


def _edges(*edges: tuple[str, str, str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {id_: {"src": src, "dst": dst, **properties} for id_, src, dst, properties in edges}


FILMS = {
    "alien": _film(
        "Alien",
        1979,
        "released",
        rating=8.5,
        votes=900,
        released=parse_date("1979-05-25"),
        added_at=parse_datetime("2024-03-01T12:30:15.25Z"),
        genres=("horror", "scifi"),
        plot="A crew meets a hostile creature in deep space",
        vec=(1.0, 0.0, 0.0),
    ),
    "heat": _film(
        "Heat",
        1995,
        "released",
        rating=8.3,
        votes=700,
        genres=("crime",),
        plot="A thief and a detective hunt each other",
        vec=(0.0, 1.0, 0.0),
    ),
    "dune": _film("Dune", 2021, "released", rating=8.0, genres=("scifi",), plot="A desert planet and a space empire", vec=(0.9, 0.1, 0.0)),
    "lost": _film("Lost Reel", 2030, "draft"),
}
PEOPLE: dict[str, dict[str, Any]] = {
    "Ada": {"born": 1950, "email": "ada@x"},
    "Ben": {"born": 1960},
    "Cy": {"email": "cy@x"},
    "Dee": {"born": 1980},
}
STUDIOS: dict[str, dict[str, Any]] = {"Fox": {"city": "LA"}, "Warner": {}}


def graph() -> Graph:
    return Graph(
        {
            "Film": {id_: {"slug": id_, **film} for id_, film in FILMS.items()},
            "Person": {id_: {"name": id_, **person} for id_, person in PEOPLE.items()},
            "Studio": {id_: {"name": id_, **studio} for id_, studio in STUDIOS.items()},
        },
        {
            "ActedIn": _edges(
                ("a1", "Ada", "alien", {"role": "Ripley", "billing": 1}),
                ("a2", "Ben", "alien", {"role": "Ash", "billing": 2}),
                ("a3", "Ben", "heat", {"role": "Neil", "billing": 1}),
                ("a4", "Ada", "heat", {}),
                ("a5", "Ada", "alien", {"role": "Voice", "billing": 9}),
            ),
            "Directed": _edges(("d1", "Cy", "alien", {}), ("d2", "Dee", "dune", {})),
            "MadeBy": _edges(("m1", "alien", "Fox", {}), ("m2", "heat", "Warner", {})),
            "Influenced": _edges(
                ("i1", "Ada", "Ben", {"strength": 0.5}),
                ("i2", "Ben", "Cy", {}),
                ("i3", "Cy", "Ada", {}),
                ("i4", "Ada", "Ada", {}),
                ("i5", "Cy", "Dee", {}),
            ),
        },
    )
