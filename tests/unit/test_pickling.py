"""What the graph returns and raises survives pickling, copies and pools of processes; what cannot, says so."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import pytest

import omnigraph as og
from omnigraph.errors import Kind, NotFound, OmniGraphError, Unsupported
from omnigraph.graph import Graph

SCHEMA = """
node Person { name: String @key  born: I32?  photo: Blob? }
edge Knows: Person -> Person
"""
ROWS: list[dict[str, object]] = [
    {"type": "Person", "data": {"name": "Ada", "born": 1815, "photo": "base64:QQ=="}},
    {"type": "Person", "data": {"name": "Ben"}},
    {"edge": "Knows", "from": "Ada", "to": "Ben"},
]
NAMES = "match { $p: Person } return { $p.name as name, $p.born as born } order { $p.name }"

HANDLES = {"Graph", "Transaction", "Cancellation", "Baseline", "Keeper"}
"""Public types that are no values: a graph is opened again, the others belong to their process."""


def answers(graph: Graph) -> dict[str, Any]:
    """A value of every public type that calls on a graph return, by the name of its type."""
    loaded = graph.load(ROWS)
    graph.branches.create("work")
    mutated = graph.mutate('insert Person { name: "Cy" }', branch="work", message="a third")
    merged = graph.merge("work")
    with graph.transaction() as transaction:
        transaction.mutate('update Person set { born: 1900 } where name = "Cy"')
    reverted = graph.revert(graph.commits()[0].id)
    values = [
        loaded,
        mutated,
        merged,
        transaction.receipt,
        reverted,
        graph.query(NAMES),
        graph.explain(NAMES, analyze=True),
        graph.snapshot(),
        graph.snapshot().tables[0],
        graph.tags.create("v1"),
        next(graph.commit_changes(graph.commits()[0].id)),
        next(graph.log("Person", "Cy")),
        (page := graph.changes.poll(start="beginning")),
        page.blocks[0],
        graph.changes.commit(graph.commits()[0].id),
        graph.ensure_indices(),
        graph.optimize(),
        graph.cleanup(keep=100, dry_run=True),
        graph.repair(),
        graph.ensure_embeddings(),
        graph.plan_schema(SCHEMA + "node City { name: String @key }"),
        graph.apply_schema(SCHEMA + "node City { name: String @key }"),
        graph.info(),
        graph.commit_graph(),
        graph.commits()[0],
        graph.catalog,
        og.EmbeddingProvider(kind="mock"),
    ]
    return {type(value).__name__: value for value in values}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return og.init(tmp_path_factory.mktemp("pickling") / "g", schema=SCHEMA, actor="act-ada")


@pytest.fixture(scope="module")
def values(graph: Graph) -> dict[str, Any]:
    return answers(graph)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, og.Result):
        return bool(one.to_arrow() == other.to_arrow()) and (one.branch, one.commit_id) == (other.branch, other.commit_id)
    return bool(one == other)


AGAIN: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("again", AGAIN)
def test_every_value_survives(values: dict[str, Any], again: str) -> None:
    for name, value in values.items():
        copied = AGAIN[again](value)
        assert type(copied) is type(value), name
        assert same(copied, value), name
        assert repr(copied) == repr(value), name


def test_every_public_type_is_among_them(values: dict[str, Any]) -> None:
    public = {name for name in og.__all__ if isinstance(getattr(og, name), type)}
    errors = {name for name in public if issubclass(getattr(og, name), OmniGraphError)}
    unmade = {"Conflict", "Recovery", "Kind", "Outcome"}  # structs and enums without a state: below, and in the tests of errors
    assert public - errors - HANDLES - unmade <= set(values)
    for name in ("Conflict", "Recovery"):
        assert issubclass(getattr(og, name), msgspec.Struct)
    assert pickle.loads(pickle.dumps(Kind.CONTENTION)) is Kind.CONTENTION


def test_conflicts_travel_with_their_error(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    graph.load(ROWS)
    graph.branches.create("work")
    for branch, born in (("main", 1), ("work", 2)):
        graph.mutate(f'update Person set {{ born: {born} }} where name = "Ben"', branch=branch)
    with pytest.raises(og.MergeConflicts) as caught:
        graph.merge("work")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.facts == caught.value.facts
    assert again.facts["conflicts"][0].id == "Ben"


@pytest.mark.parametrize("again", AGAIN)
def test_a_graph_is_opened_again(graph: Graph, values: dict[str, Any], again: str) -> None:
    other = AGAIN[again](graph)
    assert other is not graph
    assert (other.uri, other.mode, other.actor) == (graph.uri, graph.mode, graph.actor)
    assert other.query(NAMES).rows == values["Result"].rows
    assert AGAIN[again](graph.branches).list() == graph.branches.list()
    reader = og.open(graph.uri, mode="r")
    assert AGAIN[again](reader).mode == "r"
    reader.close()
    with pytest.raises(og.InvalidInput) as closed:
        AGAIN[again](reader)
    assert closed.value.kind is Kind.GRAPH_CLOSED


@pytest.mark.parametrize("again", AGAIN)
def test_what_belongs_to_its_process_says_so(graph: Graph, values: dict[str, Any], again: str) -> None:
    blob = graph.blob("node", "Person", "Ada", "photo")
    for bound in (graph.transaction(), og.Cancellation(), blob, graph.changes.baseline(), graph.keep_tidy()):
        with pytest.raises(Unsupported):
            AGAIN[again](bound)


# -- pools of processes


def ask(graph: Graph, branch: str) -> og.Result:
    return graph.query(NAMES, branch=branch)


def write(graph: Graph, name: str) -> og.Receipt:
    return graph.mutate("query q($n: String) { insert Person { name: $n } }", {"n": name})


def test_a_pool_of_processes_returns_values_and_raises_errors(values: dict[str, Any]) -> None:
    """A graph in memory is a directory, so that another process reaches it by its location."""
    with og.memory(schema=SCHEMA, actor="act-pool") as graph, ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        graph.load(ROWS)
        assert pool.submit(ask, graph, "main").result().rows == graph.query(NAMES).rows
        receipt = pool.submit(write, graph, "Dee").result()
        assert receipt.commit == graph.commits()[0]
        assert receipt.commit is not None
        assert receipt.commit.actor == "act-pool"
        with pytest.raises(NotFound) as missing:
            pool.submit(ask, graph, "nope").result()
        assert (missing.value.kind, missing.value.facts) == (Kind.BRANCH_NOT_FOUND, {"branch": "nope"})
        with pytest.raises(og.LanguageError, match=r"query\.gq:1:"):
            pool.submit(Graph.query, graph, "match {").result()
        for name, value in values.items():
            assert same(pool.submit(copy.copy, value).result(), value), name
        assert len(pool.submit(ask, graph, "main").result()) == 3
