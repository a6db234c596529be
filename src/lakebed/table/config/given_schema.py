"""The columns that a caller passes as a schema, as rows, or as a DDL string."""

import json
import re
from typing import Final

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.table.config.ddl import parse_ddl

_INDEX_NAME: Final = re.compile(r"__index_level_[0-9]+__")


def given_schema(given: object) -> pa.Schema | None:
    """Return the columns of a pyarrow Schema, of Arrow data or of a DDL string; otherwise None.

    Arrow data is anything that exports a schema or a stream: pyarrow, pandas, Polars and the like.
    """
    if isinstance(given, str):
        return parse_ddl(given)
    if isinstance(given, pa.Schema):
        return without_pandas_index(given)
    held = getattr(given, "schema", None)
    if isinstance(held, pa.Schema):
        return without_pandas_index(held)
    try:
        if hasattr(given, "__arrow_c_stream__"):
            return without_pandas_index(pa.RecordBatchReader.from_stream(given).schema)
        if hasattr(given, "__arrow_c_schema__"):
            return without_pandas_index(pa.schema(given))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(f"schema: {type(given).__name__} has no Arrow form: {error}") from error
    return None


def without_pandas_index(schema: pa.Schema) -> pa.Schema:
    """Leave out the columns that pandas creates for an index without a name.

    Selecting rows of a DataFrame leaves such an index behind. An index that has a name is a column
    like any other.
    """
    gone = pandas_index(schema)
    if not gone:
        return schema
    kept = [field for field in schema if field.name not in gone]
    return pa.schema(kept, metadata=schema.metadata)


def pandas_index(schema: pa.Schema) -> frozenset[str]:
    """Return the columns of an index without a name, as pandas records them in the metadata."""
    noted = (schema.metadata or {}).get(b"pandas")
    if noted is None:
        return frozenset()
    try:
        held = json.loads(noted)
    except ValueError:
        return frozenset()
    names = held.get("index_columns", ()) if isinstance(held, dict) else ()
    return frozenset(
        name
        for name in (names if isinstance(names, list) else ())
        if isinstance(name, str) and _INDEX_NAME.fullmatch(name) and name in schema.names
    )
