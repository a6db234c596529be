"""Comparisons of another engine, with typed values, as the text of predicates.

Only comparisons that mean the same everywhere are written: of a column with values of its own kind.
"""

from collections.abc import Sequence

import pyarrow as pa

from lakebed.scan.spelling import MAX_LIST, column_text, literal_text

# Finer values are not values of a column, and Python's datetime would truncate them.
_UNITS = ("s", "ms", "us")


class Terms:
    """Writes comparisons of the columns of one schema; returns None for those left out."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def compared(self, path: Sequence[str], sign: str, value: pa.Scalar) -> str | None:
        """Return a comparison of a column, or of a field of a struct, with a constant."""
        literal = self._literal(path, value)
        return None if literal is None else f"{column_text(*path)} {sign} {literal}"

    def listed(self, path: Sequence[str], values: pa.Array) -> str | None:
        """Return a test that is true if a column is one of `values`, and not null."""
        if len(values) > MAX_LIST:
            return None
        found = [self._literal(path, value) for value in values if value.is_valid]
        known = [literal for literal in found if literal is not None]
        if len(known) < len(found):
            return None
        return f"{column_text(*path)} IN ({', '.join(known)})" if known else "FALSE"

    def is_boolean(self, path: Sequence[str]) -> bool:
        """Return whether a column is a predicate by itself."""
        kind = self._kind(path)
        return kind is not None and pa.types.is_boolean(kind)

    def is_string(self, path: Sequence[str]) -> bool:
        """Return whether a column holds strings."""
        kind = self._kind(path)
        return kind is not None and _is_text(kind)

    def _literal(self, path: Sequence[str], value: pa.Scalar) -> str | None:
        kind = self._kind(path)
        if kind is None or not value.is_valid or not _are_alike(kind, value.type):
            return None
        try:
            return literal_text(value.as_py())
        except (ValueError, OverflowError):  # a moment outside the years of Python
            return None

    def _kind(self, path: Sequence[str]) -> pa.DataType | None:
        """Return the type of a column, or of a field; None if there is none of this name."""
        at = self._schema.get_field_index(path[0])
        if at < 0:
            return None
        kind = self._schema.field(at).type
        for name in path[1:]:
            inner = kind.get_field_index(name) if pa.types.is_struct(kind) else -1
            if inner < 0:
                return None
            kind = kind.field(inner).type
        return kind


def _are_alike(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of two types are compared without a conversion that changes any."""
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(other):
        return other.unit in _UNITS and (kind.tz is None) == (other.tz is None)
    if pa.types.is_floating(kind):
        return bool(kind == other)  # a rounded value is another value
    tests = (
        pa.types.is_integer,
        pa.types.is_decimal,
        pa.types.is_boolean,
        pa.types.is_date32,
        _is_text,
    )
    return any(test(kind) and test(other) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
