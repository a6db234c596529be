"""Conversion between Spark's and Arrow's types."""

from inspect import signature
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from lakebed.errors import SchemaError

DataT = TypeVar("DataT", bound=DataType)

# By exact class: Spark converts variants and geometries to Arrow structs, and user-defined types to
# their underlying types, so they would be read back as something else.
_SCALARS = (
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    TimestampNTZType,
    TimestampType,
)


# Of timestamps PySpark 4.1 has to be told what newer releases do by themselves.
_IN_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
)
_WITHOUT_ZONE: dict[str, Any] = (
    {"prefer_timestamp_ntz": True}
    if "prefer_timestamp_ntz" in signature(from_arrow_schema).parameters
    else {}
)


def spark_layout(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches with the columns of `schema`."""
    return to_arrow_schema(schema, **_IN_UTC)


def spark_to_arrow(schema: StructType) -> pa.Schema:
    """Convert a Spark schema to Arrow; raise an error, naming the column, if one is unsupported.

    char(n), varchar(n) and collated strings become plain strings in a table.
    """
    return pa.schema([_to_field(field) for field in schema.fields])


def arrow_to_spark(schema: pa.Schema) -> StructType:
    """Convert a table's schema to Spark."""
    return from_arrow_schema(schema, **_WITHOUT_ZONE)


def as_nullable(kind: DataT) -> DataT:
    """Make every column and nested field nullable, as Spark's own Parquet reader does."""
    if isinstance(kind, StructType):
        fields = [StructField(f.name, as_nullable(f.dataType)) for f in kind.fields]
        return cast("DataT", StructType(fields))
    if isinstance(kind, ArrayType):
        return cast("DataT", ArrayType(as_nullable(kind.elementType)))
    if isinstance(kind, MapType):
        return cast("DataT", MapType(as_nullable(kind.keyType), as_nullable(kind.valueType)))
    return kind


def _to_field(field: StructField) -> pa.Field:
    kind = to_arrow_type(_plain(field.dataType, field.name), **_IN_UTC)
    return pa.field(field.name, kind, nullable=field.nullable)


def _plain(kind: DataType, path: str) -> DataType:
    if isinstance(kind, (CharType, StringType, VarcharType)):
        return StringType()
    if type(kind) in _SCALARS:
        return kind
    if isinstance(kind, StructType):
        return StructType(
            [
                StructField(f.name, _plain(f.dataType, f"{path}.{f.name}"), f.nullable)
                for f in kind.fields
            ]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_plain(kind.elementType, f"{path}.element"), kind.containsNull)
    if isinstance(kind, MapType):
        key, value = _plain(kind.keyType, f"{path}.key"), _plain(kind.valueType, f"{path}.value")
        return MapType(key, value, kind.valueContainsNull)
    raise SchemaError(f"column {path!r}: a table cannot hold the Spark type {kind.simpleString()}")
