"""Instants: the 17 digits `yyyyMMddHHmmssSSS` that name and order everything on a timeline.

Instants are compared as strings. The digits are wall clock time in the table's zone
(`hoodie.table.timeline.timezone`): `UTC`, or `LOCAL` for the zone of the writer's machine. Agrees
with Hudi's HoodieInstantTimeGenerator.
"""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeAlias

from lakebed.errors import CorruptError, InvalidError, OptionError

Instant: TypeAlias = str
"""17 digits, or 14 in tables that were created before Hudi 0.10."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DIGITS: Final = re.compile(r"[0-9]{14}(?:[0-9]{3})?")
_TIMESTAMP: Final = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))?"
    r"(?P<offset>Z|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_COUNT: Final = re.compile(r"[0-9]+")
_EPOCH_DIGITS: Final = {10: 1000, 13: 1}
"""The unit in milliseconds of a count since 1970 UTC, by the count's number of digits."""
_AS_OF_FORMS: Final = (
    "an instant of 14 or 17 digits (yyyyMMddHHmmss[SSS]), a date '2024-01-02', a timestamp "
    "'2024-01-02 03:04:05[.123]' (optionally with a T, an offset or Z), seconds (10 digits) or "
    "milliseconds (13 digits) since 1970, a date or a datetime"
)


def format_instant(epoch_ms: int, zone: str) -> Instant:
    """Return the instant in `zone` for a time in milliseconds since 1970 UTC.

    >>> format_instant(1704164645006, "UTC")
    '20240102030405006'
    """
    try:
        return _encode(_in_zone(_EPOCH + epoch_ms * _MILLISECOND, zone))
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidError(
            f"time {epoch_ms} ms in zone {zone}: expected a time in the years 1 to 9999"
        ) from error


def parse_instant(text: str, zone: str) -> int:
    """Return an instant of `zone` as milliseconds since 1970 UTC.

    14 digits stand for the last millisecond of their second. In the hour that the end of daylight
    saving time repeats, the first occurrence is assumed.

    >>> parse_instant("20240102030405", "UTC") - parse_instant("20240102030405000", "UTC")
    999
    """
    wall = _decode(text)
    try:
        # `timestamp` assumes the machine's zone for a naive datetime.
        second = (wall.replace(tzinfo=UTC) if _is_utc(zone) else wall).replace(microsecond=0)
        return int(second.timestamp()) * 1000 + wall.microsecond // 1000
    except (OverflowError, ValueError, OSError) as error:
        raise InvalidError(
            f"instant {text!r} in zone {zone}: expected a time in the years 1 to 9999"
        ) from error


def next_instant(now_ms: int, zone: str, last: Instant | None) -> Instant:
    """Return an instant for now that is greater than `last`, compared as strings.

    This is the clock's time, or one millisecond after `last` if the clock stands still, goes back,
    repeats an hour or is behind that of a writer in another zone.

    >>> next_instant(0, "UTC", "20231231235959999")
    '20240101000000000'
    """
    now = format_instant(now_ms, zone)
    if last is None:
        return now
    # 14 digits stand for the end of their second. A suffix after 17 digits, which Hudi's metadata
    # table once used, stays below the next millisecond.
    floor = last + "999" if len(last) == 14 else last[:17]
    if now > floor:
        return now
    try:
        # The zone does not matter, because only the digits must increase.
        return _encode(_decode(floor) + _MILLISECOND)
    except (InvalidError, OverflowError) as error:
        raise CorruptError(
            f"instant {last!r} on the timeline: expected a time of the years 1 to 9999, "
            f"so that a greater instant than it and {now} can be made"
        ) from error


def resolve_as_of(value: str | date | datetime, zone: str) -> Instant:
    """Convert a caller's point in time to an instant of a table in `zone`.

    As in Hudi, a date is the start of its day, and a timestamp without a fraction is the end of its
    second (`.999`), so that a commit displayed with that second is included. 14 digits are left
    unchanged, so they sort before all instants of 17 digits in that second; 10 or 13 digits are
    seconds or milliseconds since 1970 UTC. A datetime is truncated to the millisecond; without a
    zone, it is in the table's zone.

    >>> resolve_as_of("2024-01-02", "UTC"), resolve_as_of("2024-01-02T03:04:05Z", "UTC")
    ('20240102000000000', '20240102030405999')
    """
    try:
        if isinstance(value, datetime):
            return _encode(value if value.tzinfo is None else _in_zone(value, zone))
        if isinstance(value, date):
            return _encode(datetime.fromisoformat(value.isoformat()))
        # The caller may pass a value of any type.
        text: object = value
        if isinstance(text, str) and _DIGITS.fullmatch(text):
            _decode(text)
            return text
        if isinstance(text, str) and len(text) in _EPOCH_DIGITS and _COUNT.fullmatch(text):
            return format_instant(int(text) * _EPOCH_DIGITS[len(text)], zone)
        if isinstance(text, str) and (match := _TIMESTAMP.fullmatch(text)):
            return _resolve_timestamp(match, zone)
    except OptionError:
        raise
    except (InvalidError, OverflowError, ValueError, OSError) as error:
        raise InvalidError(
            f"point in time {value!r}: no such time; expected {_AS_OF_FORMS}"
        ) from error
    raise InvalidError(f"point in time {value!r}: expected {_AS_OF_FORMS}")


def resolve_since(value: str | date | datetime, zone: str) -> Instant | None:
    """Return the instant after which a caller's range starts; None for the first commit.

    Hudi's values for the first commit are `earliest` and zeros.

    >>> resolve_since("000", "UTC"), resolve_since("2024-01-02", "UTC")
    (None, '20240102000000000')
    """
    if isinstance(value, str) and (value == "earliest" or (value and not value.strip("0"))):
        return None
    return resolve_as_of(value, zone)


def _resolve_timestamp(match: re.Match[str], zone: str) -> Instant:
    """Convert a match of `_TIMESTAMP` to an instant."""
    if match["time"] is None:
        return _encode(datetime.fromisoformat(match["day"]))
    millis = "999" if match["fraction"] is None else match["fraction"].ljust(3, "0")[:3]
    offset = match["offset"] or ""
    time = datetime.fromisoformat(f"{match['day']}T{match['time']}.{millis}{offset}")
    return _encode(_in_zone(time, zone) if offset else time)


def _is_utc(zone: str) -> bool:
    """Return whether a zone is UTC; raise OptionError if it is neither UTC nor LOCAL."""
    if zone not in ("UTC", "LOCAL"):
        raise OptionError(f"hoodie.table.timeline.timezone: expected UTC or LOCAL, found {zone!r}")
    return zone == "UTC"


def _in_zone(time: datetime, zone: str) -> datetime:
    """Convert an aware `time` to `zone`."""
    return time.astimezone(UTC if _is_utc(zone) else None)


def _encode(wall: datetime) -> Instant:
    """Return the digits of the wall clock time `wall`, truncated to the millisecond."""
    # Not every platform's strftime pads the year to 4 digits.
    return f"{wall.year:04d}{wall:%m%d%H%M%S}{wall.microsecond // 1000:03d}"


def _decode(text: str) -> datetime:
    """Parse 14 or 17 digits as wall clock time without a zone."""
    if not _DIGITS.fullmatch(text):
        raise InvalidError(f"instant {text!r}: expected 14 or 17 digits yyyyMMddHHmmss[SSS]")
    millis = text[14:] or "999"
    try:
        return datetime.fromisoformat(f"{text[:8]}T{text[8:14]}.{millis}")
    except ValueError as error:
        raise InvalidError(
            f"instant {text!r}: expected digits yyyyMMddHHmmss[SSS] of a time"
        ) from error
