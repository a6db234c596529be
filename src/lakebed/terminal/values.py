"""Values of Arrow columns as Python objects that are shown: also those that Python has no type for."""

from typing import Any, Literal

import pyarrow as pa


def shown_rows(
    table: pa.Table, maps_as_pydicts: Literal["strict"] | None = None
) -> list[dict[str, Any]]:
    """Return the rows of a table as dicts; see `shown_values`."""
    columns = [shown_values(column, maps_as_pydicts) for column in table.columns]
    names = table.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def shown_values(
    column: pa.Array | pa.ChunkedArray, maps_as_pydicts: Literal["strict"] | None = None
) -> list[Any]:
    """Return the values of a column; a date or time that Python cannot represent is a string.

    >>> shown_values(pa.array([0, 10**7], pa.int32()).cast(pa.date32()))
    [datetime.date(1970, 1, 1), '29349-01-26']
    """
    try:
        return list(column.to_pylist(maps_as_pydicts=maps_as_pydicts))
    except (OverflowError, ValueError):
        return [_shown(value) for value in column]


def _shown(value: pa.Scalar) -> Any:
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _shown(held) for name, held in value.items()}
    if isinstance(value, pa.MapScalar):
        return {str(_shown(entry["key"])): _shown(entry["value"]) for entry in value.values}
    if isinstance(value, pa.ListScalar):
        return [_shown(held) for held in value.values]
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return str(value.cast(pa.string()))
