"""One JSON value and the type of its property -> the value as its column stores it, or the reason why it is invalid.

The exact parser uses it for single records that the conversion of whole columns could not decide.
"""

from __future__ import annotations

import binascii
import json
import math
from collections.abc import Callable
from typing import Final, NoReturn, assert_never

import pyarrow as pa

from omnigraph.catalog.model import Property
from omnigraph.catalog.types import EnumOf, ListOf, Plain, VectorOf
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import decode_base64, is_external
from omnigraph.exec.external_blobs import BlobPolicy, ExternalBlobs
from omnigraph.exec.problems import ProblemCode, missing_value
from omnigraph.lang.tree import Scalar
from omnigraph.plan.temporal import parse_date, parse_datetime
from omnigraph.plan.values import ARROW_NAMES, RANGES, narrowed

_SHOWN_CHARACTERS: Final = 120
_SHOWN_DEPTH: Final = 8
_LONGEST_INTEGER: Final = 20  # digits and sign of the longest number that any integer type holds
_DAYS: Final = RANGES[Scalar.I32]
_MILLISECONDS: Final = RANGES[Scalar.I64]


class Whole(str):
    """A JSON number without fraction or exponent, as its text."""


class Real(str):
    """Any other JSON number, as its text."""


class InvalidValue(Exception):
    """The value is not valid for its property."""

    def __init__(self, code: ProblemCode, message: str) -> None:
        super().__init__(message)
        self.code: Final = code
        self.message: Final = message


ReadExternal = Callable[[str], bytes]
"""Returns the bytes of a blob outside the graph, by its URI. Raises `InvalidInput` if it is not allowed or cannot be read."""


def no_external(uri: str) -> bytes:
    """Refuse a URI."""
    return ExternalBlobs(BlobPolicy).read(uri)


def stored(property_: Property, value: object, external: ReadExternal = no_external) -> object:
    """The stored form of a JSON value. Dates and times are days and milliseconds. Raises `InvalidValue`."""
    if value is None:
        if not property_.nullable:
            raise InvalidValue(ProblemCode.REQUIRED, missing_value(property_))
        return None
    match property_.type:
        case Plain(Scalar.BLOB):
            return _blob(property_.name, value, external)
        case Plain(scalar):
            return _scalar(property_.name, scalar, value)
        case EnumOf():
            return _scalar(property_.name, Scalar.STRING, value)
        case ListOf(item):
            return _list(property_.name, item, value)
        case VectorOf(dimension):
            return _vector(property_.name, dimension, value)
        case _:
            assert_never(property_.type)


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type with dates and times replaced by integers, which are days and milliseconds."""
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_date64(type_):
        return pa.int64()
    if pa.types.is_list(type_):
        return pa.list_(pa.field("item", plain_type(type_.value_type)))
    return type_


def shown(value: object) -> str:
    """A JSON value for a message, shortened if it is long."""
    text = _json(value, _SHOWN_DEPTH)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _scalar(name: str, scalar: Scalar, value: object) -> object:
    match scalar, value:
        case Scalar.STRING, str() if type(value) is str:
            return value
        case Scalar.BOOL, bool():
            return value
        case ((Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64), Whole()):
            return _integer(name, scalar, value, RANGES[scalar])
        case ((Scalar.F32 | Scalar.F64), (Whole() | Real())):
            return _float(name, scalar, value)
        case Scalar.DATE, Whole():
            return _integer(name, scalar, value, _DAYS)
        case Scalar.DATETIME, Whole():
            return _integer(name, scalar, value, _MILLISECONDS)
        case ((Scalar.DATE | Scalar.DATETIME), str()) if type(value) is str:
            return _temporal(scalar, value)
        case _:
            raise InvalidValue(ProblemCode.TYPE, f"strict property '{name}' expects {ARROW_NAMES[scalar]}, got {shown(value)}")


def _integer(name: str, scalar: Scalar, text: Whole, bounds: tuple[int, int]) -> int:
    low, high = bounds
    if len(text) > _LONGEST_INTEGER or not low <= (number := int(text)) <= high:
        _overflow(name, scalar, text)
    return number


def _float(name: str, scalar: Scalar, text: str) -> float:
    wide = float(text)
    if math.isnan(wide) or text in ("inf", "-inf"):  # only from a table: JSON cannot represent them
        raise InvalidValue(ProblemCode.TYPE, f"property '{name}' value {text} must be finite")
    number = wide if scalar is Scalar.F64 else narrowed(wide)
    if math.isinf(number):
        _overflow(name, scalar, text)
    return number


def _overflow(name: str, scalar: Scalar, text: str) -> NoReturn:
    raise InvalidValue(ProblemCode.OVERFLOW, f"property '{name}' value {_cut(text)} exceeds {ARROW_NAMES[scalar]} range")


def _temporal(scalar: Scalar, text: str) -> int:
    number = parse_date(text) if scalar is Scalar.DATE else parse_datetime(text)
    if number is None:
        raise InvalidValue(ProblemCode.TEMPORAL, f"invalid {scalar} literal '{_cut(text)}'")
    return number


def _blob(name: str, value: object, external: ReadExternal) -> bytes:
    if isinstance(value, bytes):  # from a table with a binary column
        return value
    if type(value) is not str:
        raise InvalidValue(ProblemCode.BLOB, f"blob property '{name}' must be a URI string or base64: prefixed data")
    try:
        return external(value) if is_external(value) else decode_base64(value)
    except InvalidInput as error:
        if error.kind not in (Kind.BLOB_POLICY, Kind.BLOB_SOURCE):
            raise
        raise InvalidValue(ProblemCode.BLOB, error.message) from error
    except (binascii.Error, ValueError) as error:
        raise InvalidValue(ProblemCode.BLOB, f"invalid base64 blob data: {error}") from error


def _list(name: str, item: Scalar, value: object) -> list[object]:
    if not isinstance(value, list):
        raise InvalidValue(ProblemCode.LIST, f"list property '{name}' expects a JSON array, got {shown(value)}")
    try:
        return [_scalar(name, item, element) for element in value]
    except InvalidValue as error:
        raise InvalidValue(ProblemCode.LIST, f"strict list property '{name}' contains a null or invalid item") from error


def _vector(name: str, dimension: int, value: object) -> list[float]:
    if not isinstance(value, list):
        raise InvalidValue(ProblemCode.VECTOR, f"vector property '{name}' expects a JSON array, got {shown(value)}")
    if len(value) != dimension:
        raise InvalidValue(ProblemCode.VECTOR, f"vector property '{name}' expects {dimension} dimensions, got {len(value)}")
    for element in value:
        if not isinstance(element, Whole | Real):
            raise InvalidValue(ProblemCode.VECTOR, f"vector property '{name}' elements must be numeric, got {shown(element)}")
    return [_float(name, Scalar.F32, element) for element in value]


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _json(value: object, depth: int) -> str:
    match value:
        case Whole() | Real():
            return str(value)
        case dict() | list() if not depth:
            return "…"
        case list():
            # Enough of a long array to fill what a message shows.
            return f"[{', '.join(_json(item, depth - 1) for item in value[:_SHOWN_CHARACTERS])}]"
        case dict():
            pairs = list(value.items())[:_SHOWN_CHARACTERS]
            return f"{{{', '.join(f'{json.dumps(key, ensure_ascii=False)}: {_json(item, depth - 1)}' for key, item in pairs)}}}"
        case _:
            return json.dumps(value, ensure_ascii=False)
