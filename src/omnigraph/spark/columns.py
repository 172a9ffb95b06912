"""A type of the graph -> its Spark columns; Arrow batches of its table -> batches of exactly those columns.

| property | Spark | why |
|---|---|---|
| `U32` | `long` | Spark has no unsigned integers; every value fits |
| `U64` | `decimal(20,0)` | the only exact type that holds all of them |
| `DateTime` | `timestamp` | milliseconds in UTC, shown in the session's time zone |
| `Vector(n)` | `array<float>` | Spark has no arrays of a fixed length |
| `Blob` | `binary` | only if it is requested by name: Spark prunes no columns here, so every read would include it |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from omnigraph.catalog.layout import identity_columns
from omnigraph.catalog.model import EntityType
from omnigraph.catalog.types import EnumOf, ListOf, Plain, ValueType, VectorOf
from omnigraph.errors import InvalidInput, Kind
from omnigraph.exec.blobs import blob_properties
from omnigraph.lang.tree import Scalar


def spark_schema(entity: EntityType, columns: Sequence[str] | None = None) -> StructType:
    """Return the named columns, in that order. By default all columns except blobs."""
    fields = {name: StructField(name, StringType(), nullable=False) for name in identity_columns(entity)}
    fields |= {
        property_.name: StructField(property_.name, spark_type(property_.type), nullable=property_.nullable)
        for property_ in entity.properties
    }
    blobs = blob_properties(entity)
    wanted = [name for name in fields if name not in blobs] if columns is None else columns
    for name in wanted:
        if name not in fields:
            known = ", ".join(fields)
            raise _invalid(f"{entity.kind} type '{entity.name}' has no column {name!r}; it has {known}", entity, name)
        if list(wanted).count(name) > 1:
            raise _invalid(f"the column {name!r} is named twice", entity, name)
    return StructType([fields[name] for name in wanted])


def spark_type(type_: ValueType) -> DataType:
    """Return the Spark type of a property type."""
    match type_:
        case Plain(scalar):
            return _scalar(scalar)
        case ListOf(item):
            return ArrayType(_scalar(item))
        case VectorOf():
            return ArrayType(FloatType())
        case EnumOf():
            return StringType()
        case _:
            assert_never(type_)


def as_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to the Arrow types of a Spark schema."""
    try:
        return pa.RecordBatch.from_arrays([pc.cast(batch.column(field.name), field.type) for field in schema], schema=schema)
    except pa.ArrowInvalid as error:
        # Only a DateTime can fail: Spark counts microseconds in 64 bits, and we count milliseconds.
        raise InvalidInput(Kind.VALIDATION, f"a DateTime is beyond the years that Spark's timestamps can hold: {error}") from error


def _scalar(scalar: Scalar) -> DataType:
    match scalar:
        case Scalar.STRING:
            return StringType()
        case Scalar.BLOB:
            return BinaryType()
        case Scalar.BOOL:
            return BooleanType()
        case Scalar.I32:
            return IntegerType()
        case Scalar.I64 | Scalar.U32:
            return LongType()
        case Scalar.U64:
            return DecimalType(20, 0)
        case Scalar.F32:
            return FloatType()
        case Scalar.F64:
            return DoubleType()
        case Scalar.DATETIME:
            return TimestampType()
        case Scalar.DATE:
            return DateType()
        case _:
            assert_never(scalar)


def _invalid(message: str, entity: EntityType, column: str) -> InvalidInput:
    return InvalidInput(Kind.INVALID_ARGUMENT, message, type=entity.name, column=column)
