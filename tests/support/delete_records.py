"""Delete blocks record by record: the plain form that the columns are held against."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final

from lakebed.errors import CorruptError, InvalidError, UnknownFormatError
from lakebed.format.avro.avro_binary import AvroReader, encode_bytes, encode_long
from lakebed.format.logs.delete_block import CONTENT_VERSION, OrderingKind

_ARRAY: Final = 12
_DECIMAL_SCALE: Final = 15
_MAX_DIGITS: Final = 38
_EXACT: Final = Context(prec=60)
_ENDS_LIST: Final = b"\x00"


_LONGS: Final = frozenset(
    {OrderingKind.LONG, OrderingKind.TIME_MICROS, OrderingKind.TIMESTAMP_MICROS}
)
_INTS: Final = frozenset({OrderingKind.INT, OrderingKind.DATE, OrderingKind.LOCAL_DATE})


@dataclass(frozen=True, slots=True)
class OrderingValue:
    """One value with its type: days for dates, microseconds for times, Decimal for decimals."""

    kind: OrderingKind
    value: bool | int | float | bytes | str | Decimal


NO_ORDERING: Final = OrderingValue(OrderingKind.INT, 0)
"""The ordering of a delete that wins over everything before it."""


@dataclass(frozen=True, slots=True)
class DeleteRecord:
    """One deleted key. `ordering` is a tuple where the table has several ordering fields."""

    record_key: str | None
    partition_path: str | None
    ordering: OrderingValue | tuple[OrderingValue | None, ...] | None = NO_ORDERING


def encode_delete_block(records: Iterable[DeleteRecord]) -> bytes:
    """Write the content of a DELETE block.

    >>> encode_delete_block([]).hex(" ", -4)
    '00000003 00000001 00'
    """
    items = [_encode_record(record) for record in records]
    # An Avro list is a count, the items, and a 0 that ends it.
    body = b"".join([encode_long(len(items)), *items]) + _ENDS_LIST if items else _ENDS_LIST
    return struct.pack(">ii", CONTENT_VERSION, len(body)) + body


def parse_delete_block(content: bytes, what: str) -> list[DeleteRecord]:
    """Parse the content of a DELETE block, or raise CorruptError that names `what`."""
    if len(content) < 8:
        raise CorruptError(
            f"{what}: expected a delete block of 8 bytes or more, found {len(content)}"
        )
    version, length = struct.unpack_from(">ii", content)
    if version != CONTENT_VERSION:
        raise UnknownFormatError(
            f"{what}: delete block version {version}, expected {CONTENT_VERSION}"
        )
    if length != len(content) - 8:
        raise CorruptError(f"{what}: expected {length} bytes of deletes, found {len(content) - 8}")
    reader = AvroReader(content, 8, what)
    records = [_parse_record(reader) for _ in reader.items()]
    if not reader.at_end:
        raise CorruptError(f"{what}: bytes after the list of deletes")
    return records


def _encode_record(record: DeleteRecord) -> bytes:
    return b"".join(
        (
            _encode_optional(record.record_key),
            _encode_optional(record.partition_path),
            _encode_ordering(record.ordering),
        )
    )


def _encode_optional(text: str | None) -> bytes:
    return b"\x00" if text is None else b"\x02" + encode_bytes(text.encode())


def _encode_ordering(ordering: OrderingValue | tuple[OrderingValue | None, ...] | None) -> bytes:
    if not isinstance(ordering, tuple):
        if ordering is not None and ordering.kind is OrderingKind.LOCAL_DATE:
            raise InvalidError(
                f"{ordering}: a local date can be an ordering value in an array only"
            )
        return _encode_value(ordering)
    items = [_encode_value(item) for item in ordering]
    count = encode_long(len(items)) if items else b""
    return b"".join((encode_long(_ARRAY), b"\x02", count, *items, _ENDS_LIST))


def _encode_value(ordering: OrderingValue | None) -> bytes:
    if ordering is None:
        return b"\x00"
    try:
        return encode_long(ordering.kind) + _encode_plain(ordering.kind, ordering.value)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InvalidError(f"{ordering}: the value is not of its kind") from error


def _encode_plain(kind: OrderingKind, value: object) -> bytes:
    match kind, value:
        case OrderingKind.BOOLEAN, bool():
            return bytes([value])
        case OrderingKind.FLOAT, float():
            return struct.pack("<f", value)
        case OrderingKind.DOUBLE, float():
            return struct.pack("<d", value)
        case OrderingKind.BYTES, bytes():
            return encode_bytes(value)
        case OrderingKind.STRING, str():
            return encode_bytes(value.encode())
        case OrderingKind.DECIMAL, Decimal():
            return encode_bytes(_encode_decimal(value))
        case _, int() if not isinstance(value, bool) and kind in _INTS | _LONGS:
            bits = 31 if kind in _INTS else 63
            if not -(1 << bits) <= value < 1 << bits:
                raise ValueError("out of range")
            return encode_long(value)
    raise TypeError(f"{type(value)} for {kind.name}")


def _encode_decimal(value: Decimal) -> bytes:
    scaled = value.scaleb(_DECIMAL_SCALE, _EXACT)
    if scaled != scaled.to_integral_value(context=_EXACT) or abs(scaled) >= 10**_MAX_DIGITS:
        raise ValueError(f"expected at most {_DECIMAL_SCALE} digits after the point")
    unscaled = int(scaled)
    # The shortest two's complement form, as Java's BigInteger gives it.
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _parse_record(reader: AvroReader) -> DeleteRecord:
    return DeleteRecord(_parse_text(reader), _parse_text(reader), _parse_ordering(reader))


def _parse_ordering(
    reader: AvroReader,
) -> OrderingValue | tuple[OrderingValue | None, ...] | None:
    index = reader.long()
    if index != _ARRAY:
        return _parse_value(reader, index)
    if reader.long() == 0:
        return None
    return tuple([_parse_value(reader, reader.long()) for _ in reader.items()])


def _parse_value(reader: AvroReader, index: int) -> OrderingValue | None:
    if index == 0:
        return None
    if index not in OrderingKind.__members__.values():
        raise CorruptError(f"{reader.what}: ordering value of unknown type {index}")
    kind = OrderingKind(index)
    value: bool | int | float | bytes | str | Decimal
    match kind:
        case OrderingKind.BOOLEAN:
            value = reader.take(1) != b"\x00"
        case OrderingKind.FLOAT:
            value = struct.unpack("<f", reader.take(4))[0]
        case OrderingKind.DOUBLE:
            value = struct.unpack("<d", reader.take(8))[0]
        case OrderingKind.BYTES:
            value = reader.sized()
        case OrderingKind.STRING:
            value = reader.text()
        case OrderingKind.DECIMAL:
            value = _parse_decimal(reader)
        case _:
            value = reader.long()
    return OrderingValue(kind, value)


def _parse_text(reader: AvroReader) -> str | None:
    branch = reader.long()
    if branch not in {0, 1}:
        raise CorruptError(f"{reader.what}: expected null or a string, found branch {branch}")
    return reader.text() if branch else None


def _parse_decimal(reader: AvroReader) -> Decimal:
    unscaled = int.from_bytes(reader.sized(), "big", signed=True)
    if abs(unscaled) >= 10**_MAX_DIGITS:
        raise CorruptError(f"{reader.what}: decimal of more than {_MAX_DIGITS} digits")
    return Decimal(unscaled).scaleb(-_DECIMAL_SCALE, _EXACT)
