"""A `.gq` text and a catalog -> one checked query of the text, a read or a mutation. Pure; the engine caches the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, Unsupported
from omnigraph.ids import TypeId
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import Bm25, Fuzzy, MatchText, Nearest, Query, Read, Rrf, Search
from omnigraph.lang.tree import Syntax
from omnigraph.plan.check import check_mutation, check_read
from omnigraph.plan.touched import touched
from omnigraph.plan.typed import TypedMutation, TypedRead

_SEARCHES: Final = {Nearest: "nearest", Bm25: "bm25", Rrf: "rrf", Search: "search", Fuzzy: "fuzzy", MatchText: "match_text"}


class QueryCall(msgspec.Struct, frozen=True):
    """One call of a query: the text, the name of the query in it, the parameters and the time of the call."""

    source: Source
    name: str | None
    params: object
    now_ms: int


class CompiledRead(msgspec.Struct, frozen=True):
    """A read that was checked against its schema. `types` are the types whose rows it reads."""

    tree: Read
    read: TypedRead
    types: frozenset[TypeId]
    search: Syntax | None
    """The first call of a search function, if any. Search functions cannot be run yet."""


def parse(source: Source, name: str | None) -> Query:
    """Parse a text and select the query `name`."""
    return select_query(parse_queries(source.text, name=source.name), name)


def compile_read(query: Query, source: Source, catalog: Catalog) -> CompiledRead:
    """Check a query as a read. Errors carry their position in the text."""
    with located(source):
        read = check_read(query, catalog)
        assert isinstance(query.body, Read)
        types = frozenset(type_.id for type_ in touched(read, catalog).reads)
        return CompiledRead(query.body, read, types, next(_searches(query), None))


def compile_mutation(query: Query, source: Source, catalog: Catalog) -> TypedMutation:
    """Check a query as a mutation. Errors carry their position in the text."""
    with located(source):
        return check_mutation(query, catalog)


def refuse_search(compiled: CompiledRead, source: Source) -> None:
    """Raise Unsupported if a read uses ranking or text search. They are planned and explained, but cannot be run yet."""
    if compiled.search is None:
        return
    at, name = source.position(compiled.search.span.start), _SEARCHES[type(compiled.search)]
    raise Unsupported(
        Kind.UNSUPPORTED,
        f"{name}() at line {at.line}, column {at.column} cannot be run yet; remove it, or use explain to see the plan",
        line=at.line,
        column=at.column,
        function=name,
    )


def _searches(tree: object) -> Iterator[Syntax]:
    """Yield the calls of search functions in a tree, in source order."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from _searches(item)
    elif isinstance(tree, Syntax):
        if type(tree) in _SEARCHES:
            yield tree
        for field in tree.__struct_fields__:
            yield from _searches(getattr(tree, field))
