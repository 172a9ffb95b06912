"""A copy keeps identities: a column that has another one's name is still another column, also after the next schema change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.catalog.layout import PROPERTY_MARK
from omnigraph.graph import Graph
from omnigraph.ids import BranchName
from omnigraph.store.root import FSYNC_ENVIRONMENT
from omnigraph.store.tables import Tables
from tests.mutations import run

BASE = ("P.a", "P.b", "P.f", "E.a")
"""A state of the schema: which types have which properties. `text` is `a` as a String, `a<c` the property `c`, renamed to `a`."""

CHANGES: dict[str, tuple[tuple[str, ...], ...]] = {
    "dropped_and_added_again": (("P.b", "P.f", "E.a"), BASE),
    "added_again_as_text": (("P.b", "P.f", "E.a"), ("P.text", "P.b", "P.f", "E.a")),
    "as_text_and_back": (("P.b", "P.f", "E.a"), ("P.text", "P.b", "P.f", "E.a"), ("P.b", "P.f", "E.a"), BASE),
    "renamed": (("P.c<a", "P.b", "P.f", "E.a"),),
    "renamed_and_its_name_taken": (("P.c<a", "P.b", "P.f", "E.a"), ("P.a", "P.c", "P.b", "P.f", "E.a")),
    "renamed_there_and_back_over_another": (
        ("P.c<a", "P.b", "P.f", "E.a"),
        ("P.a", "P.c", "P.b", "P.f", "E.a"),
        ("P.c", "P.b", "P.f", "E.a"),
        ("P.a<c", "P.b", "P.f", "E.a"),
    ),
    "two_properties_anew": (("P.f", "E.a"), BASE),
    "a_blob_anew": (("P.a", "P.b", "E.a"), BASE),
    "a_type_anew": (("Q",), BASE),
    "a_property_of_an_edge_anew": (("P.a", "P.b", "P.f"), BASE),
}
TYPES = {"a": "I32?", "b": "String?", "c": "I32?", "f": "Blob?", "z": "I32?"}
VALUES = {"a": "7", "b": '"bee"', "c": "9", "f": "$f", "z": "1"}


@pytest.fixture(autouse=True)
def _without_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FSYNC_ENVIRONMENT, "off")


def declared(state: Sequence[str]) -> str:
    """The schema text of a state. Without any property of P there is no P, and so no edge from it."""
    columns: dict[str, str] = {"P": "", "E": ""}
    for owner, _, name in (entry.partition(".") for entry in state):
        if name == "text":
            columns[owner] += "  a: String?"
        elif name:
            new, _, old = name.partition("<")
            columns[owner] += f"  {new}: {TYPES[new]}" + (f' @rename_from("{old}")' if old else "")
    person = f"node P {{ k: String @key{columns['P']} }}\nedge E: P -> Q {{ {columns['E']} }}\n"
    return "node Q { k: String @key }\n" + (person if columns["P"] else "")


def put(graph: Graph, tag: str, state: Sequence[str], branch: str) -> None:
    """A row of each type, with a value in every property."""
    run(graph, f'insert Q {{ k: "{tag}" }}', branch=branch)
    own: dict[str, str] = {"P": "", "E": ""}
    for owner, _, name in (entry.partition(".") for entry in state):
        if name:
            column = "a" if name == "text" else name.partition("<")[0]
            own[owner] += f", {column}: " + ('"seven"' if name == "text" else VALUES[column])
    if own["P"]:
        body = f'insert P {{ k: "{tag}"{own["P"]} }} insert E {{ from: "{tag}", to: "{tag}"{own["E"]} }}'
        given_ = {"f": "base64:Ynl0ZXM="} if "$f" in body else {}
        run(graph, f"({'$f: Blob' if given_ else ''}) {body}", given_, branch=branch)


def follow(graph: Graph, states: Sequence[Sequence[str]], branch: str) -> None:
    for at, state in enumerate(states):
        graph.apply_schema(declared(state), branch=branch)
        put(graph, f"{branch}-{at}", state, branch)


def shown(graph: Graph) -> dict[str, list[str]]:
    return {branch: list(graph.export(branch)) for branch in graph.branches.list()}


def columns(graph: Graph) -> Iterator[tuple[str, str, str, bytes | None]]:
    """Branch, table, column and the property that the column holds."""
    for branch in graph.branches.list():
        for row in graph.engine.manifest.snapshot(BranchName(branch)).state.tables.values():
            if not row.dropped:
                for field in Tables(graph.engine.manifest.root).open(row.ref).schema:
                    yield branch, row.alias, field.name, (field.metadata or {}).get(PROPERTY_MARK)


def goes_on_like(copy: Graph, source: Graph) -> None:
    """A schema change on every branch of both, soft and then one that lays every row down anew; they never differ."""
    for loss in (False, True):
        for branch in source.branches.list():
            text = source.schema_of(branch).replace(' @rename_from("a")', "").replace(' @rename_from("c")', "")
            further = text.replace(" @key  ", " @key  z: I32?  ") if not loss else text.replace("  z: I32?", "").replace("  b: String?", "")
            for graph in (source, copy):
                graph.apply_schema(further, branch=branch, allow_data_loss=loss)
        assert shown(copy) == shown(source)
    assert copy.verify() == source.verify() == []


@pytest.mark.parametrize("mover", ["branch", "main"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_copy_keeps_the_identity_of_every_column(tmp_path: Path, change: str, mover: str) -> None:
    """The columns change on a branch, or on main behind a branch's back."""
    source = og.init(tmp_path / "source", schema=declared(BASE))
    put(source, "first", BASE, "main")
    source.branches.create("work")
    follow(source, CHANGES[change], "work" if mover == "branch" else "main")
    source.branches.create("late", from_="work" if mover == "branch" else "main")
    copy = source.copy_to(tmp_path / "copy")
    assert shown(copy) == shown(source)
    assert set(columns(copy)) == set(columns(source))
    assert copy.verify() == []
    goes_on_like(copy, source)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_copy_goes_on_like_its_source(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Any of these changes, on any of three branches made at any moment between them."""
    folder = tmp_path_factory.mktemp("g")
    source = og.init(folder / "source", schema=declared(BASE))
    put(source, "first", BASE, "main")
    for name in ("one", "two"):
        live = source.branches.list()
        moved = data.draw(st.sampled_from(live))
        follow(source, CHANGES[data.draw(st.sampled_from(sorted(CHANGES)))], moved) if _stands_at_base(source, moved) else None
        source.branches.create(name, from_=data.draw(st.sampled_from(live)))
    for branch in source.branches.list():
        if _stands_at_base(source, branch) and data.draw(st.booleans()):
            follow(source, CHANGES[data.draw(st.sampled_from(sorted(CHANGES)))], branch)
    copy = source.copy_to(folder / "copy")
    assert shown(copy) == shown(source)
    assert set(columns(copy)) == set(columns(source))
    goes_on_like(copy, source)


def _stands_at_base(graph: Graph, branch: str) -> bool:
    return graph.schema_of(branch) == declared(BASE)
