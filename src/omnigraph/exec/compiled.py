"""A `.gq` text and a catalog -> one checked query of the text, a read or a mutation. Pure; the engine caches the results."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from omnigraph.catalog import Catalog
from omnigraph.errors import Kind, Unsupported
from omnigraph.ids import TypeId
from omnigraph.lang import Source, located, parse_queries, select_query
from omnigraph.lang.query import Nearest, Query, Read, StringLiteral, Variable
from omnigraph.lang.tree import Syntax
from omnigraph.plan.check import check_mutation, check_read
from omnigraph.plan.expr import STRING
from omnigraph.plan.touched import touched
from omnigraph.plan.typed import TypedMutation, TypedRead


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
    embeds: Nearest | None
    """The first `nearest` whose query is a text, if any. Texts cannot be embedded yet."""


def parse(source: Source, name: str | None) -> Query:
    """Parse a text and select the query `name`."""
    return select_query(parse_queries(source.text, name=source.name), name)


def compile_read(query: Query, source: Source, catalog: Catalog) -> CompiledRead:
    """Check a query as a read. Errors carry their position in the text."""
    with located(source):
        read = check_read(query, catalog)
        assert isinstance(query.body, Read)
        types = frozenset(type_.id for type_ in touched(read, catalog).reads)
        texts = {parameter.name for parameter in read.parameters if parameter.type == STRING}
        return CompiledRead(query.body, read, types, next((call for call in _nearest_calls(query) if _is_text(call, texts)), None))


def compile_mutation(query: Query, source: Source, catalog: Catalog) -> TypedMutation:
    """Check a query as a mutation. Errors carry their position in the text."""
    with located(source):
        return check_mutation(query, catalog)


def refuse_embedding(compiled: CompiledRead, source: Source) -> None:
    """Raise Unsupported if a read asks for the vectors nearest to a text. It is planned and explained, but cannot be run yet."""
    if compiled.embeds is None:
        return
    at = source.position(compiled.embeds.span.start)
    raise Unsupported(
        Kind.UNSUPPORTED,
        f"nearest() at line {at.line}, column {at.column} cannot be run yet with a text; give it a vector, or use explain to see the plan",
        line=at.line,
        column=at.column,
        function="nearest",
    )


def _nearest_calls(tree: object) -> Iterator[Nearest]:
    """Yield the calls of `nearest` in a tree, in source order."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from _nearest_calls(item)
    elif isinstance(tree, Syntax):
        if isinstance(tree, Nearest):
            yield tree
        for field in tree.__struct_fields__:
            yield from _nearest_calls(getattr(tree, field))


def _is_text(call: Nearest, texts: set[str]) -> bool:
    """Return whether the query of a call is a text: a literal, or one of the parameters `texts`."""
    return isinstance(call.query, StringLiteral) or (isinstance(call.query, Variable) and call.query.name in texts)
