"""Which values are stored in a column of another type: those that Spark's INSERT stores unchanged."""

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from lakebed.errors import LakebedError, SchemaError
from lakebed.expr.literal import parse_text
from lakebed.table.config.ddl import type_text
from lakebed.table.config.schema import widens

_TEXTS = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"))


def fits(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether values of one type can be stored in a column of another type."""
    if given == wanted or pa.types.is_null(given) or widens(given, wanted):
        return True
    if pa.types.is_nested(given) or pa.types.is_nested(wanted):
        return type(given) is type(wanted)
    exact = pa.types.is_integer(given) or pa.types.is_decimal(given)
    if pa.types.is_floating(wanted):
        return bool(exact or pa.types.is_floating(given))
    if pa.types.is_integer(wanted):
        return bool(pa.types.is_integer(given))
    if pa.types.is_decimal(wanted):
        return bool(exact)
    if given == pa.date32():
        return bool(pa.types.is_timestamp(wanted))
    return bool(wanted == pa.string() and (pa.types.is_integer(given) or given == pa.bool_()))


def stored(value: pa.Scalar, kind: pa.DataType, column: str, text: str) -> pa.Scalar:
    """Return a constant as a value of type `kind`; raise SchemaError if it would change."""
    if not value.is_valid:
        return pa.scalar(None, kind)
    if value.type == kind:
        return value
    cast = _casts(value.type, kind)
    if cast is None:
        raise mismatch(column, kind, text)
    try:
        return cast(value)
    except (pa.ArrowException, LakebedError, ValueError):
        raise mismatch(column, kind, text) from None


def mismatch(column: str, kind: pa.DataType, text: str) -> SchemaError:
    """Return the error for a constant that cannot be stored in a column."""
    return SchemaError(
        f"column {column!r}: expected {type_text(kind)}, found {text[:100]}, which does not fit"
    )


def _casts(of: pa.DataType, to: pa.DataType) -> Callable[[pa.Scalar], pa.Scalar] | None:
    """Return how a constant of one type is stored as another; None if it is not."""
    numbers = _is_number(of) and _is_number(to)
    if numbers and pa.types.is_decimal(of) and pa.types.is_floating(to):
        return lambda value: pa.scalar(float(value.as_py()), to)
    if pa.types.is_decimal(to) and (pa.types.is_integer(of) or pa.types.is_decimal(of)):
        return lambda value: pa.scalar(Decimal(value.as_py()), to)
    if numbers or (of == pa.date32() and pa.types.is_timestamp(to)):
        return lambda value: value.cast(to)
    if of == pa.string() and to in _TEXTS:
        return lambda value: parse_text(value.as_py(), to)
    if to == pa.string() and (pa.types.is_integer(of) or of in (pa.bool_(), pa.date32())):
        return lambda value: value.cast(to)
    return None


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )
