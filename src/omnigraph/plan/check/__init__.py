"""Query tree + catalog -> typed query, or the first type error with its code and place."""

from __future__ import annotations

from omnigraph.catalog.model import Catalog
from omnigraph.catalog.types import ListOf, VectorOf, display, value_type
from omnigraph.errors import InvalidInput, Kind
from omnigraph.lang.grammar.shape import MAX_VECTOR_DIMENSION
from omnigraph.lang.query import Mutation, Query, Read
from omnigraph.lang.query import Parameter as ParameterTree
from omnigraph.lang.tree import Scalar
from omnigraph.plan.check.mutations import typed_mutation
from omnigraph.plan.check.reads import typed_read
from omnigraph.plan.type_codes import NOW_PARAMETER, refused
from omnigraph.plan.typed import Parameter, TypedMutation, TypedQuery, TypedRead

__all__ = ["check", "check_mutation", "check_read"]


def check(query: Query, catalog: Catalog) -> TypedQuery:
    """The typed form of a read or a mutation."""
    return check_read(query, catalog) if isinstance(query.body, Read) else check_mutation(query, catalog)


def check_read(query: Query, catalog: Catalog) -> TypedRead:
    if not isinstance(query.body, Read):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{_named(query)} is a mutation, and this is a read; run it with `mutate`", query=query.name.text
        )
    return typed_read(query.name.text, _parameters(query), query.body, catalog, anonymous=query.anonymous)


def check_mutation(query: Query, catalog: Catalog) -> TypedMutation:
    if not isinstance(query.body, Mutation):
        raise InvalidInput(
            Kind.INVALID_ARGUMENT, f"{_named(query)} is a read, and this is a mutation; run it with `query`", query=query.name.text
        )
    return typed_mutation(query.name.text, _parameters(query), query.body, catalog, anonymous=query.anonymous)


def _named(query: Query) -> str:
    return f"query '{query.name.text}'" if not query.anonymous else "the text"


def _parameters(query: Query) -> tuple[Parameter, ...]:
    return tuple(_parameter(parameter) for parameter in query.parameters)


def _parameter(parameter: ParameterTree) -> Parameter:
    name = parameter.name.text
    if name == NOW_PARAMETER:
        raise refused(None, f"parameter name `${name}` is reserved for now()", parameter.name)
    type_ = value_type(parameter.shape)
    if (isinstance(type_, VectorOf) and not 1 <= type_.dimension <= MAX_VECTOR_DIMENSION) or type_ == ListOf(Scalar.BLOB):
        raise refused(None, f"unknown parameter type `{display(type_)}` for `${name}`", parameter.shape)
    return Parameter(name, type_, parameter.nullable)
