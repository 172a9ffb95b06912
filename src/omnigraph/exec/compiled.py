"""A `.gq` text and a catalog -> one checked query of the text, a read or a mutation. Pure; the engine caches the results."""

from __future__ import annotations

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.ids import TypeId
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import Query, Read
from omnigraph.plan.check import check_mutation, check_read
from omnigraph.plan.template import same_plan_for_all
from omnigraph.plan.touched import touched
from omnigraph.plan.typed import TypedMutation, TypedRead


class QueryCall(msgspec.Struct, frozen=True):
    """One call of a query: the text, the name of the query in it, the parameters and the time of the call."""

    source: Source
    name: str | None
    params: object
    now_ms: int


class CompiledRead(msgspec.Struct, frozen=True):
    """A read that was checked against its schema.

    `types` are the types whose rows it reads, `edges` the edge types among them. `same_plan`: one plan serves all values.
    """

    tree: Read
    read: TypedRead
    types: frozenset[TypeId]
    edges: frozenset[TypeId]
    same_plan: bool


def parse(source: Source, name: str | None) -> Query:
    """Parse a text and select the query `name`."""
    return select_query(parse_queries(source.text, name=source.name), name)


def compile_read(query: Query, source: Source, catalog: Catalog) -> CompiledRead:
    """Check a query as a read. Errors carry their position in the text."""
    with located(source):
        read = check_read(query, catalog)
        assert isinstance(query.body, Read)
        types = frozenset(type_.id for type_ in touched(read, catalog).reads)
        edges = types.intersection(edge.id for edge in catalog.edges)
        return CompiledRead(query.body, read, types, edges, same_plan_for_all(read))


def compile_mutation(query: Query, source: Source, catalog: Catalog) -> TypedMutation:
    """Check a query as a mutation. Errors carry their position in the text."""
    with located(source):
        return check_mutation(query, catalog)
