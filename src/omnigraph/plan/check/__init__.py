"""Query tree + catalog -> typed query, or the first type error with its code and place."""

from __future__ import annotations

from omnigraph.catalog.model import Catalog
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.query import Mutation, Query, Read
from omnigraph.plan.check.mutations import typed_mutation
from omnigraph.plan.check.parameters import typed_parameters
from omnigraph.plan.check.reads import typed_read
from omnigraph.plan.typed import TypedMutation, TypedQuery, TypedRead

__all__ = ["check", "check_mutation", "check_read"]


def check(query: Query, catalog: Catalog) -> TypedQuery:
    """The typed form of a read or a mutation."""
    return check_read(query, catalog) if isinstance(query.body, Read) else check_mutation(query, catalog)


def check_read(query: Query, catalog: Catalog) -> TypedRead:
    if not isinstance(query.body, Read):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "mutation query cannot be typechecked with read-query API", query=query.name.text)
    return typed_read(query.name.text, typed_parameters(query), query.body, catalog)


def check_mutation(query: Query, catalog: Catalog) -> TypedMutation:
    if not isinstance(query.body, Mutation):
        raise InvalidInput(Kind.INVALID_ARGUMENT, "mutation execution called on a read query; use query instead", query=query.name.text)
    return typed_mutation(query.name.text, typed_parameters(query), query.body, catalog)
