"""Check a caller's arguments before any file is read."""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lakebed.api.given.keys import keys_to_table
from lakebed.errors import InvalidError, SchemaError
from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.format.timeline.commit_metadata import RESERVED_KEYS, is_reserved
from lakebed.model.spelling import nearest


def checked_columns(columns: Sequence[str] | None, schema: pa.Schema) -> list[str]:
    """Return the names of the columns to read; `None` selects all columns of the table."""
    if columns is None:
        return list(schema.names)
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidError(f"columns: expected a list of names, found {columns!r}")
    for name in columns:
        if name not in schema.names and name not in META_COLUMNS:
            raise SchemaError(
                f"no column {name!r}{nearest(name, schema.names)}; the table has "
                f"{', '.join(schema.names)}"
            )
    if len(set(columns)) != len(columns):
        raise InvalidError(f"columns: a name occurs twice in {', '.join(columns)}")
    return list(columns)


def key_batches(
    keys: Sequence[object], schema: pa.Schema, names: Sequence[str]
) -> list[pa.RecordBatch]:
    """Return the keys as a batch with the columns `names`; an empty list if there are no keys."""
    wanted = key_schema(schema, names)
    batches: list[pa.RecordBatch] = keys_to_table(keys, wanted).combine_chunks().to_batches()
    return batches


def key_schema(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return the schema of the columns `names`; raise SchemaError if one does not exist."""
    wanted = list(names)
    for name in wanted:
        if name not in schema.names:
            raise SchemaError(
                f"key column {name!r} from hoodie.properties: expected one of the table's "
                f"columns, found {', '.join(schema.names) or 'none (nothing has been written)'}"
            )
    return pa.schema([schema.field(name) for name in wanted])


def checked_keys(keys: object) -> Sequence[object]:
    """Return `keys`, or raise InvalidError if it is not a list of keys."""
    texts = (str, bytes, bytearray, memoryview)
    if isinstance(keys, (*texts, Mapping)) or not isinstance(keys, Sequence):
        raise InvalidError(f"keys: expected a list of keys, found {type(keys).__name__}")
    return keys


def checked_metadata(given: object) -> dict[str, str]:
    """Return the caller's commit metadata; raise InvalidError if a key is reserved."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidError(f"commit_metadata: expected a dict of strings, found {given!r}")
    for key, value in given.items():
        if type(key) is not str or type(value) is not str or not key:
            raise InvalidError(
                f"commit_metadata: expected strings as keys and values, found {key!r}: {value!r}"
            )
        if is_reserved(key):
            raise InvalidError(
                f"commit_metadata: the key {key!r} is reserved for the table format (so are "
                f"{', '.join(RESERVED_KEYS)} and names that begin with lakebed.); use another name"
            )
    return dict(given)


def checked_where(where: object) -> str:
    """Return `where`, or raise InvalidError if it is not a predicate."""
    if type(where) is not str or not where.strip():
        raise InvalidError(f"where: expected a predicate as a string, found {where!r}")
    return where
