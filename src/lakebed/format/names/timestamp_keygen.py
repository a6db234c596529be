"""The timestamp-based key generator, which formats the times in a column as folder names.

    value -> milliseconds since 1970 -> string by `output.dateformat` -> [url-encoded] -> [field=]

The properties are `hoodie.keygen.timebased.*`, in older tables
`hoodie.deltastreamer.keygen.timebased.*`. Null is treated as the value 1: one unit of a numeric
type, one millisecond of a string type. Agrees with `TimestampBasedAvroKeyGenerator` and
`HoodieDateTimeParser` of Hudi 1.2.0, with three deliberate differences:

* UTC replaces the JVM's default zone, which Hudi uses if neither a zone nor an offset is given;
* a zone id that Java would silently read as GMT is rejected;
* a time outside the years 1 to 9999 is rejected.

Work is done per distinct value, because partitions are few.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import KeyValueError, OptionError, SchemaError, UnsupportedError
from lakebed.format.names.java_text import spell_distinct
from lakebed.format.names.partition_path import PartitionStyle, check_level, escape_path_name

_PREFIX = "hoodie.keygen.timebased."
_OLD_PREFIX = "hoodie.deltastreamer.keygen.timebased."
_PARSER_KEY = "hoodie.keygen.datetime.parser.class"
_PARSER = "org.apache.hudi.keygen.parser.HoodieDateTimeParser"

# Nanoseconds of java.util.concurrent.TimeUnit.
_UNITS = {
    "NANOSECONDS": 1,
    "MICROSECONDS": 1_000,
    "MILLISECONDS": 1_000_000,
    "SECONDS": 1_000_000_000,
    "MINUTES": 60_000_000_000,
    "HOURS": 3_600_000_000_000,
    "DAYS": 86_400_000_000_000,
}


class TimestampType(Enum):
    """The type of the column. Stored on disk: do not change the values."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    SCALAR = "SCALAR"


_TYPE_UNITS = {
    TimestampType.UNIX_TIMESTAMP: "SECONDS",
    TimestampType.EPOCHMILLISECONDS: "MILLISECONDS",
    TimestampType.EPOCHMICROSECONDS: "MICROSECONDS",
}


@dataclass(frozen=True, slots=True)
class TimestampKeygen:
    """The settings of one table: the type of the column, and the format of its folders.

    `kind` is None if the table does not store it, as in tables of Hudi 0.x, which can be read but
    not written.
    """

    kind: TimestampType | None
    output: "JodaPattern"
    inputs: tuple["JodaPattern", ...] = ()
    input_zone: tzinfo | None = None
    output_zone: tzinfo | None = None
    unit: str = "SECONDS"

    @classmethod
    def parse(cls, properties: Mapping[str, str]) -> Self:
        """Parse the settings from a table's or writer's properties."""
        parser = properties.get(_PARSER_KEY, _PARSER)
        if parser != _PARSER:
            raise UnsupportedError(f"{_PARSER_KEY}: expected {_PARSER}, found {parser!r}")
        word = _get(properties, "timestamp.type")
        kind = None if word is None else _parse_type(word)
        output = _get(properties, "output.dateformat")
        if output is None:
            raise OptionError(f"{_PREFIX}output.dateformat: expected a pattern, found nothing")
        inputs: tuple[JodaPattern, ...] = ()
        if kind in {TimestampType.DATE_STRING, TimestampType.MIXED}:
            inputs = _parse_inputs(properties)
        unit = (_get(properties, "timestamp.scalar.time.unit") or "SECONDS").upper()
        if unit not in _UNITS:
            raise OptionError(
                f"{_PREFIX}timestamp.scalar.time.unit: expected one of {', '.join(_UNITS)}, "
                f"found {unit!r}"
            )
        both = _get(properties, "timezone")
        zones = [
            parse_zone(_get(properties, name) or "" if both is None else both)
            for name in ("input.timezone", "output.timezone")
        ]
        return cls(
            kind=kind,
            output=JodaPattern.parse(output),
            inputs=inputs,
            input_zone=zones[0],
            output_zone=zones[1],
            unit=_TYPE_UNITS.get(kind, unit) if kind else unit,
        )

    @property
    def is_zone_known(self) -> bool:
        """Return whether Hudi's writers create the same folders in every JVM time zone.

        Hudi uses the JVM's zone for a number without an output zone, and for a string without an
        offset if there is an output zone but no input zone.
        """
        if self.kind is None or not self.inputs:
            return self.kind is not None and self.output_zone is not None
        offsets = all(("Z", 1) in one.tokens or ("Z", 2) in one.tokens for one in self.inputs)
        return self.output_zone is None or self.input_zone is not None or offsets

    def partition_paths(
        self, column: pa.Array, field: str, style: PartitionStyle, *, strict: bool = True
    ) -> pa.StringArray:
        """Return the partition path of every row, from the only partition column, `field`.

        Raises KeyValueError if a value is invalid as a folder name; unless `strict`, its path is
        null.
        """
        if self.kind is None:
            raise UnsupportedError(
                f"partition field {field!r}: expected {_PREFIX}timestamp.type to write, found nothing"
            )
        plain = self._plain(column, field)

        def spell(value: int | float | Decimal | str) -> str | None:
            try:
                return self.path_of(value, field, style)
            except KeyValueError:
                if strict:
                    raise
                return None

        texts = spell_distinct(plain, spell)
        if not plain.null_count:
            return texts
        return pc.if_else(plain.is_valid(), texts, self.path_of(None, field, style))

    def path_of(
        self, value: int | float | Decimal | str | None, field: str, style: PartitionStyle
    ) -> str:
        """Return the partition path of one value: a string, or a number in the type's unit."""
        try:
            time = self._time(value)
            if self.output_zone is not None:
                time = time.astimezone(self.output_zone)
        except (ValueError, OverflowError) as error:
            raise KeyValueError(
                f"partition field {field!r}, value {str(value)[:80]!r}: {error}"
            ) from None
        text = self.output.format(time)
        if style.url_encode:
            text = escape_path_name(text)
        path = f"{field}={text}" if style.hive_style else text
        for index, level in enumerate(path.split("/")):
            check_level(level, field, value, first=index == 0)
        return path

    def _plain(self, column: pa.Array, field: str) -> pa.Array:
        """Return the column as Avro stores it: as strings or numbers."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            return self._plain(column.dictionary, field).take(column.indices)
        textual = any(fits(kind) for fits in _TEXTUAL)
        if not textual and not any(fits(kind) for fits in _NUMERIC):
            raise SchemaError(
                f"partition field {field!r}: expected numbers or strings, found {kind}"
            )
        if textual != bool(self.inputs) and not pa.types.is_null(kind):
            raise SchemaError(
                f"partition field {field!r}: expected {'text' if self.inputs else 'numbers'} "
                f"for timestamp.type {self.kind.value if self.kind else None}, found {kind}"
            )
        if pa.types.is_timestamp(kind):
            return column.cast(pa.timestamp("us", kind.tz), safe=False).view(pa.int64())
        if pa.types.is_date(kind):
            return column.cast(pa.date32()).view(pa.int32())
        return column.cast(pa.large_string()) if textual else column

    def _time(self, value: int | float | Decimal | str | None) -> datetime:
        """Convert a value to a time in the input zone or, if none is set, in its own zone."""
        if isinstance(value, str):
            return self._parse_text(value)
        if self.inputs:
            zone = self.input_zone or self.output_zone or UTC
            return self._parse_text(self.inputs[0].format(_from_epoch_ms(1).astimezone(zone)))
        number = 1 if value is None else _java_long(value)
        return _from_epoch_ms(_to_ms(number, _UNITS[self.unit]))

    def _parse_text(self, text: str) -> datetime:
        for pattern in self.inputs:
            time = pattern.match(text, self.input_zone or UTC)
            if time is not None:
                return time.astimezone(self.input_zone) if self.input_zone else time
        raise ValueError(
            "expected a time like " + " or ".join(repr(one.text) for one in self.inputs)
        )


@dataclass(frozen=True, slots=True)
class JodaPattern:
    """A date pattern in Joda's syntax, limited to numeric fields: y M d H m s S Z.

    `tokens` are pairs (letter, count) and ('', literal). Names of months and days, eras, weeks and
    half days are rejected, because they depend on a locale.
    """

    text: str
    tokens: tuple[tuple[str, int | str], ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a pattern; raise UnsupportedError for a letter that is not supported."""
        tokens: list[tuple[str, int | str]] = []
        for match in _TOKEN.finditer(text):
            letters = match["letters"]
            if not letters:
                tokens.append(("", (match["quoted"] or match["literal"] or "").replace("''", "'")))
            elif _KNOWN.fullmatch(letters):
                tokens.append((letters[0], len(letters)))
            else:
                raise UnsupportedError(
                    f"date pattern {text!r}: expected yyyy, MM, dd, HH, mm, ss, S..., Z "
                    f"or 'quoted text', found {letters!r}"
                )
        return cls(text, tuple(tokens))

    def format(self, time: datetime) -> str:
        """Format a time in its own zone."""
        return "".join(
            str(size) if letter == "" else _spell_letter(letter, int(size), time)
            for letter, size in self.tokens
        )

    def match(self, text: str, zone: tzinfo) -> datetime | None:
        """Parse a time, in `zone` if it has no offset; return None if it does not match.

        Like Joda, accept one digit in a field of two, ignore case in literals, use 2000 for a
        missing year, and reject a time that a clock change skips.
        """
        found = re.fullmatch(self._regex(), text)
        if found is None:
            return None
        letters = [letter for letter, _ in self.tokens if letter]
        parts = dict(zip(letters, found.groups(), strict=True))
        default_year = "2000" if "M" in parts or "d" in parts else "1970"
        fraction = parts.get("S", "0")
        try:
            wall = datetime(
                int(parts.get("y", default_year)),
                int(parts.get("M", 1)),
                int(parts.get("d", 1)),
                int(parts.get("H", 0)),
                int(parts.get("m", 0)),
                int(parts.get("s", 0)),
                int(fraction.ljust(3, "0")[:3]) * 1000,
                tzinfo=_parse_offset(parts["Z"]) if "Z" in parts else zone,
            )
            back = wall.astimezone(UTC).astimezone(wall.tzinfo)
        except (ValueError, OverflowError):
            return None
        return wall if back.replace(tzinfo=None) == wall.replace(tzinfo=None) else None

    def _regex(self) -> str:
        pieces = []
        following = [*(letter for letter, _ in self.tokens[1:]), ""]
        for (letter, size), after in zip(self.tokens, following, strict=True):
            if letter == "":
                pieces.append(f"(?i:{re.escape(str(size))})")
            elif letter == "Z":
                pieces.append(r"([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)")
            elif letter == "y":
                # If another number may follow directly, the year has at most four digits.
                most = 9 if after in {"", "Z"} else 4
                pieces.append(f"([+-]?[0-9]{{1,{most}}}+)")
            else:
                most = int(size) if letter == "S" else 2
                pieces.append(f"([0-9]{{1,{most}}}+)")
        return "".join(pieces)


# Two quotes stand for one, inside and outside of quotes; an open quote extends to the end.
_TOKEN = re.compile(
    r"(?P<literal>''|[^A-Za-z'])"
    r"|'(?P<quoted>(?:[^']|'')*)(?:'|\Z)"
    r"|(?P<letters>(?P<one>[A-Za-z])(?P=one)*)",
    re.DOTALL,
)
_KNOWN = re.compile(r"yyyy|MM?|dd?|HH?|mm?|ss?|S{1,9}|ZZ?")


def parse_zone(name: str) -> tzinfo | None:
    """Parse a Java zone id; return None for a blank one.

    >>> parse_zone("GMT+8:00").utcoffset(None)
    datetime.timedelta(seconds=28800)
    """
    name = name.strip()
    if not name:
        return None
    if name in {"UTC", "GMT"}:
        return UTC
    match = re.fullmatch(r"GMT([+-])([0-9]{1,2})(?::?([0-9]{2}))?", name)
    try:
        if match:
            return _offset(match[1], int(match[2]), int(match[3] or 0))
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise OptionError(
            f"time zone {name!r}: expected UTC, GMT+8:00 or a region like Asia/Tokyo"
        ) from None


def _parse_offset(text: str) -> tzinfo:
    if text in {"Z", "z"}:
        return UTC
    return _offset(text[0], int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0)


def _offset(sign: str, hours: int, minutes: int) -> timezone:
    if hours > 23 or minutes > 59:
        raise ValueError("offset")
    size = timedelta(hours=hours, minutes=minutes)
    return timezone(-size if sign == "-" else size)


def _spell_letter(letter: str, size: int, time: datetime) -> str:
    if letter == "S":
        return f"{time.microsecond // 1000:03d}".ljust(size, "0")[:size]
    if letter == "Z":
        minutes = int((time.utcoffset() or timedelta()).total_seconds() / 60)
        colon = ":" if size == 2 else ""
        return (
            f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"
        )
    values = {
        "y": time.year,
        "M": time.month,
        "d": time.day,
        "H": time.hour,
        "m": time.minute,
        "s": time.second,
    }
    return str(values[letter]).zfill(size)


def _from_epoch_ms(ms: int) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    except OverflowError:
        raise ValueError(f"expected a year from 1 to 9999, found {ms} ms since 1970") from None


def _java_long(value: int | float | Decimal) -> int:
    """Convert to an integer as Java does: NaN becomes 0, and doubles saturate at 64 bits."""
    if value != value:  # noqa: PLR0124 - the one test for NaN that every number type has
        return 0
    low, high = -(2**63), 2**63 - 1
    if isinstance(value, float):
        return high if value >= high else low if value <= low else int(value)
    return int(value)


def _to_ms(number: int, unit_ns: int) -> int:
    """Convert to milliseconds as TimeUnit does, truncating towards 0."""
    ms = abs(number) * unit_ns // 1_000_000
    return ms if number >= 0 else -ms


def _parse_type(word: str) -> TimestampType:
    try:
        return TimestampType(word)
    except ValueError:
        wanted = ", ".join(kind.value for kind in TimestampType)
        raise OptionError(
            f"{_PREFIX}timestamp.type: expected one of {wanted}, found {word!r}"
        ) from None


def _parse_inputs(properties: Mapping[str, str]) -> tuple[JodaPattern, ...]:
    listed = _get(properties, "input.dateformat")
    if not listed:
        raise OptionError(
            f"{_PREFIX}input.dateformat: expected a pattern for strings, found nothing"
        )
    separator = _get(properties, "input.dateformat.list.delimiter.regex") or ","
    try:
        texts = re.split(separator, listed)
    except re.error as error:
        raise OptionError(
            f"{_PREFIX}input.dateformat.list.delimiter.regex: expected a regular expression, "
            f"found {separator!r} ({error})"
        ) from error
    patterns = tuple(JodaPattern.parse(text.strip()) for text in texts if text and text.strip())
    for pattern in patterns:
        letters = [letter for letter, _ in pattern.tokens if letter]
        if len(set(letters)) != len(letters):
            raise UnsupportedError(
                f"date pattern {pattern.text!r}: expected each letter once, found {letters}"
            )
    return patterns


_TEXTUAL = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NUMERIC = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_null,
)


def _get(properties: Mapping[str, str], name: str) -> str | None:
    return properties.get(f"{_PREFIX}{name}", properties.get(f"{_OLD_PREFIX}{name}"))
