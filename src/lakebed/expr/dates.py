"""Functions on dates and timestamps, in UTC."""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.values import Data

_PARTS: dict[str, Callable[[Data], Data]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "day": pc.day,
    "dayofmonth": pc.day,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
OF_DATES = frozenset({"year", "quarter", "month", "day", "dayofmonth"})
OF_TIMESTAMPS = frozenset({"hour", "minute", "second"})


def part(name: str, data: Data) -> Data:
    """Return a part of dates or timestamps, such as `year` or `hour`."""
    return pc.cast(_PARTS[name](data), pa.int32())


def add_days(data: Data, days: Data, sign: int = 1) -> Data:
    """Return dates plus, or with `sign` -1 minus, `days`; 32-bit overflow wraps, as in Spark."""
    day = pc.cast(data, pa.int32())
    return pc.cast(pc.add(day, days) if sign > 0 else pc.subtract(day, days), pa.date32())


def days_between(end: Data, start: Data) -> Data:
    """Return the number of days from `start` to `end`."""
    return pc.subtract(pc.cast(end, pa.int32()), pc.cast(start, pa.int32()))
