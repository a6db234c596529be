"""Bring rows of different engines to one form, so that equal means equal in every value."""

import datetime as dt
import decimal
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

META_PREFIX = "_hoodie_"


def exact(value: Any) -> Any:
    """Return `value` so that == tells everything apart but the order of a map's entries.

    Floats become their text: NaN then equals itself, and -0.0 differs from 0.0. Maps, which
    pyarrow gives as lists of pairs, are sorted: Hudi's Avro writer does not keep their order.
    """
    match value:
        case float():
            return f"float {value!r}"
        case dict():
            return {name: exact(item) for name, item in value.items()}
        case [tuple(), *_]:
            return sorted((tuple(exact(item) for item in pair) for pair in value), key=repr)
        case list():
            return [exact(item) for item in value]
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC)
        case _:
            return value


def user_rows(table: pa.Table, key: Iterable[str]) -> list[dict[str, Any]]:
    """Return the rows in the order of `key`, without Hudi's meta columns."""
    columns = [name for name in table.column_names if not name.startswith(META_PREFIX)]
    rows = [exact(row) for row in table.select(columns).to_pylist()]
    return sorted(rows, key=lambda row: [repr(row[name]) for name in key])


def user_types(table: pa.Table) -> dict[str, str]:
    """Return the type of each of the user's columns, whatever names list and map items carry."""
    return {
        field.name: type_text(field.type)
        for field in table.schema
        if not field.name.startswith(META_PREFIX)
    }


def type_text(kind: pa.DataType) -> str:
    """Spell a type without the names that Parquet writers choose for list and map items."""
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)}, {type_text(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{type_text(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {type_text(f.type)}' for f in kind)}>"
    return str(kind)


def fixture_value(value: Any) -> Any:
    """Spell `value` as the fixtures' expected rows do: README.md beside them says how."""
    match value:
        case dt.datetime():
            return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat()
        case dt.date():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case bytes():
            return f"hex:{value.hex()}"
        case dict():
            return {name: fixture_value(item) for name, item in value.items()}
        case [tuple(), *_]:
            return {name: fixture_value(item) for name, item in value}
        case list():
            return [fixture_value(item) for item in value]
        case _:
            return value
