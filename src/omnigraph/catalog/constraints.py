"""Constraints as written, as annotations or in the body -> checked constraints, sorted and without duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, assert_never

from omnigraph.catalog.declarations import DeclaredProperty, DeclaredType
from omnigraph.catalog.model import Check, Index, Key, Range, TypeKind, Unique
from omnigraph.catalog.schema_codes import SchemaCode, refuse
from omnigraph.catalog.types import NUMBERS, EnumOf, ListOf, Plain, ValueType, VectorOf
from omnigraph.errors import LanguageError, Span
from omnigraph.lang import schema as tree
from omnigraph.lang.tree import Name, Scalar

ENDPOINTS: Final = frozenset({"src", "dst"})
_SHORTHANDS: Final[dict[str, type[tree.Key | tree.Unique | tree.Index]]] = {"key": tree.Key, "unique": tree.Unique, "index": tree.Index}


class Constraints(NamedTuple):
    """The constraints of one type, as the catalog keeps them."""

    key: Key | None
    uniques: tuple[Unique, ...]
    indexes: tuple[Index, ...]
    ranges: tuple[Range, ...]
    checks: tuple[Check, ...]


def constraints_of(declared: DeclaredType) -> Constraints:
    """Check and normalise every constraint of a type, its properties' annotations first, then its body."""
    written = (*_from_properties(declared.properties), *_body(declared.tree))
    for constraint in written:
        _check(declared, constraint)
    keys = [constraint for constraint in written if isinstance(constraint, tree.Key)]
    if len(keys) > 1:
        message = f"{declared.kind} type {declared.name} has multiple @key constraints; only one is supported"
        raise refuse(SchemaCode.MANY_KEYS, message, span=keys[1].span)
    key = ordered_key(_columns(keys[0].columns), (name.text for name in keys[0].columns)) if keys else None
    indexes = {_columns(index.columns) for index in written if isinstance(index, tree.Index)}
    if key is not None:
        indexes.discard(key.columns)  # the key implies this index
    uniques = {_columns(unique.columns) for unique in written if isinstance(unique, tree.Unique)}
    ranges = {Range(item.property.text, _bound(item.low), _bound(item.high)) for item in written if isinstance(item, tree.Range)}
    checks = {Check(item.property.text, item.pattern) for item in written if isinstance(item, tree.Check)}
    return Constraints(
        key,
        tuple(map(Unique, sorted(uniques))),
        tuple(map(Index, sorted(indexes))),
        tuple(sorted(ranges, key=_range_order)),
        tuple(sorted(checks, key=lambda check: (check.property, check.pattern))),
    )


def _bound(bound: int | float | None) -> int | float | None:
    """`2.0` and `2` are equal bounds and have one stored form."""
    return int(bound) if isinstance(bound, float) and bound.is_integer() else bound


def _range_order(item: Range) -> tuple[str, float, float]:
    low = float("-inf") if item.low is None else item.low
    return item.property, low, float("inf") if item.high is None else item.high


def _from_properties(properties: Iterable[DeclaredProperty]) -> Iterator[tree.Constraint]:
    for property_ in properties:
        for annotation in property_.tree.annotations:
            if annotation.name in _SHORTHANDS:
                yield _SHORTHANDS[annotation.name]((property_.tree.name,), span=annotation.span)


def _body(declaration: tree.Declaration) -> tuple[tree.Constraint, ...]:
    match declaration:
        case tree.NodeType(constraints=constraints) | tree.EdgeType(constraints=constraints):
            return constraints
        case tree.InterfaceType():
            return ()
        case _:
            assert_never(declaration)


def ordered_key(columns: tuple[str, ...], declared: Iterable[str]) -> Key:
    """The key over these columns, with the order of its declaration if that differs."""
    order = tuple(dict.fromkeys(declared))
    return Key(columns) if order == columns else Key(columns, order)


def _columns(names: Iterable[Name]) -> tuple[str, ...]:
    return tuple(sorted({name.text for name in names}))


def _check(declared: DeclaredType, constraint: tree.Constraint) -> None:
    match constraint:
        case tree.Key(columns=columns):
            _only_on_nodes(declared, "key", constraint.span)
            for name in columns:
                _check_key(declared, _column(declared, "key", name), name)
        case tree.Unique(columns=columns):
            _check_columns(declared, "unique", columns)
        case tree.Index(columns=columns):
            _check_columns(declared, "index", columns)
        case tree.Range(property=name):
            _only_on_nodes(declared, "range", constraint.span)
            column = _column(declared, "range", name)
            if not _holds(column.type, NUMBERS):
                message = f"@range on {declared.name}.{name} requires a numeric type, got {column.display}"
                raise refuse(SchemaCode.RANGE_NEEDS_NUMBER, message, span=name.span)
        case tree.Check(property=name):
            _only_on_nodes(declared, "check", constraint.span)
            column = _column(declared, "check", name)
            if not _holds(column.type, frozenset({Scalar.STRING})):
                message = f"@check on {declared.name}.{name} requires String type, got {column.display}"
                raise refuse(SchemaCode.CHECK_NEEDS_STRING, message, span=name.span)
        case _:
            assert_never(constraint)


def _only_on_nodes(declared: DeclaredType, name: str, span: Span) -> None:
    if declared.kind is TypeKind.EDGE:
        message = f"@{name} constraint is not supported on edges ({declared.label})"
        raise refuse(SchemaCode.EDGE_CONSTRAINT, message, span=span)


def _column(declared: DeclaredType, constraint: str, name: Name) -> DeclaredProperty:
    column = declared.property(name.text)
    if column is None:
        message = f"@{constraint} on {declared.name} references unknown property '{name}'"
        raise refuse(SchemaCode.UNKNOWN_COLUMN, message, span=name.span)
    return column


def _check_columns(declared: DeclaredType, constraint: str, names: Iterable[Name]) -> None:
    """`@unique` and `@index` take any column but a blob. `@unique` over a list can be declared and never satisfied."""
    for name in names:
        if declared.kind is TypeKind.EDGE and name.text in ENDPOINTS:
            continue
        if _column(declared, constraint, name).type == Plain(Scalar.BLOB):
            raise _on_blob(declared, constraint, name)


def _check_key(declared: DeclaredType, column: DeclaredProperty, name: Name) -> None:
    at = f"{declared.name}.{name}"
    match column.type:
        case ListOf():
            raise refuse(SchemaCode.ON_LIST, f"@key is not supported on list property {at}", span=name.span)
        case VectorOf():
            raise refuse(SchemaCode.ON_VECTOR, f"@key is not supported on vector property {at}", span=name.span)
        case Plain(Scalar.BLOB):
            raise _on_blob(declared, "key", name)
        case Plain() | EnumOf():
            pass
        case _:
            assert_never(column.type)
    if column.tree.nullable:
        raise refuse(SchemaCode.NULLABLE_KEY, f"@key property {at} cannot be nullable", span=name.span)


def _on_blob(declared: DeclaredType, constraint: str, name: Name) -> LanguageError:
    return refuse(SchemaCode.ON_BLOB, f"@{constraint} is not supported on blob property {declared.name}.{name}", span=name.span)


def _holds(type_: ValueType, scalars: frozenset[Scalar]) -> bool:
    """Whether the values, or the items of a list, have one of these scalars. The values of an enum are strings."""
    match type_:
        case Plain(scalar) | ListOf(scalar):
            return scalar in scalars
        case EnumOf():
            return Scalar.STRING in scalars
        case VectorOf():
            return False
        case _:
            assert_never(type_)
