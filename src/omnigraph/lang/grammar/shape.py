"""Productions of types: tokens -> the shape of a property or a parameter."""

from __future__ import annotations

import re
from typing import Final

from omnigraph.lang import lexer
from omnigraph.lang.grammar.cursor import Cursor
from omnigraph.lang.tree import EnumType, ListType, ParameterShape, PropertyShape, Scalar, ScalarType, VectorType

MAX_VECTOR_DIMENSION: Final = 2**31 - 1

_SCALARS: Final = {scalar.value: scalar for scalar in Scalar}
_TYPE_WORDS: Final = (*_SCALARS, "Vector", "enum")
_ENUM_VALUE: Final = re.compile(r"[A-Za-z0-9_-]+")


def parameter_shape(c: Cursor) -> ParameterShape:
    """`[scalar]`, `Vector(n)` or a scalar. The dimension is not checked here."""
    start = c.start
    if c.accept("["):
        item = _scalar(c)
        c.expect("]")
        return ListType(item, span=c.span_from(start))
    if c.text == "Vector" and c.kind == lexer.UPPER:
        c.advance()
        c.expect("(", hint="a vector has a dimension: `Vector(3)`")
        dimension = c.integer("the vector's dimension")
        c.expect(")")
        return VectorType(dimension, span=c.span_from(start))
    scalar = _scalar(c)
    return ScalarType(scalar, span=c.span_from(start))


def property_shape(c: Cursor) -> PropertyShape:
    """A parameter's shape or an enum, with the rules that hold for stored types."""
    start = c.start
    if c.at_word("enum"):
        return _enum(c)
    shape = parameter_shape(c)
    if isinstance(shape, ListType) and shape.item is Scalar.BLOB:
        raise c.refused_from(start, "list of Blob is not supported", code="S07")
    if isinstance(shape, VectorType):
        if shape.dimension == 0:
            raise c.refused_from(start, "Vector dimension must be greater than zero", code="S06")
        if shape.dimension > MAX_VECTOR_DIMENSION:
            raise c.refused_from(start, f"Vector dimension {shape.dimension} exceeds maximum supported {MAX_VECTOR_DIMENSION}", code="S06")
    return shape


def _scalar(c: Cursor) -> Scalar:
    scalar = _SCALARS.get(c.text) if c.kind == lexer.UPPER else None
    if scalar is None:
        raise c.unexpected("a type", hint=f"the scalar types are {', '.join(_SCALARS)}", options=_TYPE_WORDS)
    c.advance()
    return scalar


def _enum(c: Cursor) -> EnumType:
    start = c.start
    c.advance()
    c.expect("(", hint="an enum lists its values: `enum(draft, released)`")
    values: list[str] = []
    seen: set[str] = set()
    while True:
        value_start = c.start
        value = _enum_value(c)
        if value in seen:
            raise c.refused_from(value_start, "enum type cannot include duplicate values", code="S08")
        values.append(value)
        seen.add(value)
        if not c.accept(","):
            break
    c.expect(")")
    return EnumType(tuple(values), span=c.span_from(start))


def _enum_value(c: Cursor) -> str:
    """Letters, digits, `_` and `-` in any order. The lexer splits `sci-fi` and `2-d` into several tokens; here they are one word."""
    match = _ENUM_VALUE.match(c.source.text, c.start) if c.kind not in (lexer.END, lexer.STRING) else None
    if match is None:
        raise c.unexpected("an enum value", hint="a value is a word of letters, digits, `_` and `-`, without quotes")
    c.glue(match.end())
    return match[0]
