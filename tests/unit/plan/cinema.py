"""The catalog of films and people on which every test of planning runs, and texts -> typed queries."""

from __future__ import annotations

from functools import cache

from omnigraph.catalog import Catalog
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import Query
from omnigraph.plan.check import check, check_mutation, check_read
from omnigraph.plan.typed import TypedMutation, TypedQuery, TypedRead
from tests.unit.catalog.schemas import CINEMA, catalog_of


@cache
def cinema() -> Catalog:
    return catalog_of(CINEMA)


def query_of(text: str) -> Query:
    """The only query of a text; a bare body is wrapped in `query q() { .. }`, or `query q<parameters> { .. }`."""
    return select_query(parse_queries(wrapped(text)), None)


def wrapped(text: str) -> str:
    if text.startswith("query"):
        return text
    if text.startswith("("):
        end = text.index(") ") + 1
        return f"query q{text[:end]} {{ {text[end + 1 :]} }}"
    return f"query q() {{ {text} }}"


def checked(text: str) -> TypedQuery:
    source = Source(wrapped(text), "query.gq")
    query = query_of(text)
    with located(source):
        return check(query, cinema())


def read_of(text: str) -> TypedRead:
    return check_read(query_of(text), cinema())


def mutation_of(text: str) -> TypedMutation:
    return check_mutation(query_of(text), cinema())
