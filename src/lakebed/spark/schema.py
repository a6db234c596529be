"""Spark's types and Arrow's, both ways."""

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from lakebed.errors import SchemaError


def spark_to_arrow(schema: StructType) -> pa.Schema:
    """Give the Arrow form of a Spark schema; refuse by column what Arrow cannot hold."""
    return pa.schema([_to_field(field) for field in schema.fields])


def arrow_to_spark(schema: pa.Schema) -> StructType:
    """Give the Spark form of a table's schema."""
    return from_arrow_schema(schema)


def _to_field(field: StructField) -> pa.Field:
    try:
        kind = to_arrow_type(_plain(field.dataType), timezone="UTC")
    except Exception as error:
        raise SchemaError(
            f"column {field.name!r}: Spark type {field.dataType.simpleString()} has no place in "
            f"a table ({error})"
        ) from error
    return pa.field(field.name, kind, nullable=field.nullable)


def _plain(kind: DataType) -> DataType:
    """Take char(n), varchar(n) and collated strings as plain strings, at any depth."""
    if isinstance(kind, StructType):
        fields = [StructField(f.name, _plain(f.dataType), f.nullable) for f in kind.fields]
        return StructType(fields)
    if isinstance(kind, ArrayType):
        return ArrayType(_plain(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_plain(kind.keyType), _plain(kind.valueType), kind.valueContainsNull)
    if isinstance(kind, (CharType, VarcharType, StringType)):
        return StringType()
    return kind
