"""What needs pyspark: rows of DataFrames under other names and types, and queries on DataFrames."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name by which it is known
from pyspark.sql.types import StructType

from lakebed.errors import InvalidError
from lakebed.model.spelling import nearest
from lakebed.spark.schema import arrow_to_spark, spark_to_arrow

# A plan begins with the name of a node, which Spark quotes if it is not resolved.
_PLAN = re.compile(r";\n'?[A-Z]")


def columns_of(frame: Any) -> pa.Schema:
    """Return the columns of a DataFrame; those of type void have the type null."""
    fields = [
        pa.field(one.name, pa.null())
        if one.dataType.typeName() == "void"
        else spark_to_arrow(StructType([one])).field(0)
        for one in frame.schema.fields
    ]
    return pa.schema(fields)


def fitted_frame(
    frame: Any,
    names: Sequence[str],
    schema: pa.Schema,
    constants: Mapping[str, object],
) -> Any:
    """Return a DataFrame with other names, their types in `schema`, and a column for each constant."""
    wanted = arrow_to_spark(schema)
    renamed = frame.toDF(*(f"c{at}" for at in range(len(names))))
    columns = [
        F.col(f"c{at}").cast(wanted[name].dataType).alias(name) for at, name in enumerate(names)
    ]
    columns += [
        F.lit(value).cast(wanted[name].dataType).alias(name) for name, value in constants.items()
    ]
    return renamed.select(*columns)


def query_frames(
    spark: Any,
    text: str,
    frames: Mapping[str, Any],
    arguments: Mapping[str, object],
    columns: Sequence[str],
) -> Any:
    """Execute a query in which `{name}` stands for a DataFrame; other braces are doubled.

    Spark registers the DataFrames under names of its own for the time of the call. `columns` are
    those of the tables: the DataFrames lack some, so Spark cannot suggest the nearest one.
    """
    try:
        return spark.sql(text, dict(arguments) or None, **frames)
    except PySparkException as error:
        raise InvalidError(f"SQL: {_suggesting(error, columns)}") from error


def _suggesting(error: PySparkException, columns: Sequence[str]) -> str:
    text = plain_message(error)
    if "UNRESOLVED_COLUMN" not in text:
        return text
    _, _, name = text.partition(" name ")
    hint = nearest(name.partition(" ")[0].rpartition(".")[2].strip("`"), columns)
    return f"{text.partition(' Did you mean')[0]}{hint}" if hint else text


def plain_message(error: PySparkException) -> str:
    """Return the first part of Spark's message: without its plan and the names of its views."""
    text = str(error).partition("\n\nJVM stacktrace")[0]
    return _PLAN.split(text, 1)[0].partition("\n\n== SQL")[0].strip()
