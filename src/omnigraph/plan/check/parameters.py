"""Declared parameters -> typed parameters."""

from __future__ import annotations

from omnigraph.catalog.types import ListOf, VectorOf, display, value_type
from omnigraph.lang.grammar.types import MAX_VECTOR_DIMENSION
from omnigraph.lang.query import Parameter as ParameterTree
from omnigraph.lang.query import Query
from omnigraph.lang.tree import Scalar
from omnigraph.plan.codes import NOW_PARAMETER, refused
from omnigraph.plan.typed import Parameter


def typed_parameters(query: Query) -> tuple[Parameter, ...]:
    return tuple(_typed(parameter) for parameter in query.parameters)


def _typed(parameter: ParameterTree) -> Parameter:
    name = parameter.name.text
    if name == NOW_PARAMETER:
        raise refused(None, f"parameter name `${name}` is reserved for now()", parameter.name)
    type_ = value_type(parameter.shape)
    if (isinstance(type_, VectorOf) and not 1 <= type_.dimension <= MAX_VECTOR_DIMENSION) or type_ == ListOf(Scalar.BLOB):
        raise refused(None, f"unknown parameter type `{display(type_)}` for `${name}`", parameter.shape)
    return Parameter(name, type_, parameter.nullable)
