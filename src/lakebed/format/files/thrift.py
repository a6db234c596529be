"""Thrift's compact protocol, the encoding of Parquet's headers and footers.

    field:   (delta << 4 | type), value; a delta of 0 is followed by the field's number, zigzag
    list:    (size << 4 | type), a size of 15 is followed by the size as a varint

Invalid data raises one of the exceptions in MALFORMED, which the caller converts to an error that
names the file.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

_MAX_DEPTH: Final = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Value: TypeAlias = "int | bool | bytes | list[Value] | dict[int, Value]"
Struct: TypeAlias = "dict[int, Value]"
MALFORMED: Final = (IndexError, KeyError, TypeError, ValueError, AttributeError)


def as_fields(value: "Value") -> "Struct":
    """Return a value as the fields of a struct; raise TypeError if it is something else."""
    if not isinstance(value, dict):
        raise TypeError(f"expected a struct, found {type(value).__name__}")
    return value


def as_list(value: "Value") -> "Sequence[Value]":
    """Return a value as a list; raise TypeError if it is something else."""
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value


def as_bytes(value: "Value") -> bytes:
    """Return a value as bytes; raise TypeError if it is something else."""
    if not isinstance(value, bytes):
        raise TypeError(f"expected bytes, found {type(value).__name__}")
    return value


def as_text(value: "Value") -> str:
    """Return a value as a string; raise TypeError if it is not binary."""
    return as_bytes(value).decode()


def as_number(value: "Value") -> int:
    """Return a value as an integer; raise TypeError if it is something else."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"expected a number, found {type(value).__name__}")
    return value


class CompactReader:
    """Reads Thrift's compact protocol; every step consumes a byte, so reading always terminates.

    Reading many small files spends most of its time here, so the common types share one loop.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at(self) -> int:
        """Return the number of bytes read so far."""
        return self._at

    def struct(self) -> "Struct":
        """Read a struct; return its fields by number."""
        fields, self._at = _struct(self._data, self._at, 0)
        return fields


class CompactWriter:
    """Writes a struct in Thrift's compact protocol; fields must be in ascending order of number."""

    def __init__(self, data: bytes = b"", number: int = 0) -> None:
        """Begin a struct, or continue after `data`, whose last field has the number `number`."""
        self._data = bytearray(data)
        self._number = number

    @property
    def so_far(self) -> bytes:
        """Return the encoded fields, without the end of the struct."""
        return bytes(self._data)

    def end(self) -> bytes:
        """Return the complete struct."""
        return bytes(self._data) + b"\0"

    def number(self, number: int, kind: int, value: int) -> None:
        """Write an integer of the type `kind`."""
        self._head(number, kind)
        _put_varint(self._data, value << 1 ^ value >> 63)

    def binary(self, number: int, value: bytes) -> None:
        """Write bytes."""
        self._head(number, _BINARY)
        _put_binary(self._data, value)

    def struct(self, number: int, value: bytes) -> None:
        """Write a struct that is already encoded."""
        self._head(number, _STRUCT)
        self._data += value

    def structs(self, number: int, values: Sequence[bytes]) -> None:
        """Write a list of structs that are already encoded."""
        self._list(number, _STRUCT, len(values))
        for value in values:
            self._data += value

    def binaries(self, number: int, values: Sequence[bytes]) -> None:
        """Write a list of bytes."""
        self._list(number, _BINARY, len(values))
        for value in values:
            _put_binary(self._data, value)

    def numbers(self, number: int, kind: int, values: Sequence[int]) -> None:
        """Write a list of integers of the type `kind`."""
        self._list(number, kind, len(values))
        for value in values:
            _put_varint(self._data, value << 1 ^ value >> 63)

    def _list(self, number: int, kind: int, size: int) -> None:
        self._head(number, _LIST)
        self._data.append(min(size, 15) << 4 | kind)
        if size >= 15:
            _put_varint(self._data, size)

    def _head(self, number: int, kind: int) -> None:
        self._data.append((number - self._number) << 4 | kind)
        self._number = number


def _put_varint(data: bytearray, value: int) -> None:
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)


def _put_binary(data: bytearray, value: bytes) -> None:
    _put_varint(data, len(value))
    data += value


def _struct(data: bytes, at: int, depth: int) -> "tuple[Struct, int]":
    """Read a struct at `at`; return it and the offset of its end, like the functions below."""
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deeply")
    fields: Struct = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        if not head:
            return fields, at
        if head > 15:
            number += head >> 4
        else:
            value, at = _varint(data, at)
            number = value >> 1 ^ -(value & 1)
        kind = head & 15
        if _I16 <= kind <= _I64:
            value = data[at]
            at += 1
            if value > 127:
                value, at = _varint(data, at - 1)
            fields[number] = value >> 1 ^ -(value & 1)
        elif kind == _BINARY:
            fields[number], at = _binary(data, at)
        elif kind <= _FALSE:
            # In a struct, a boolean is encoded as its own type; there is no type 0.
            if not kind:
                raise ValueError(f"type 0 at byte {at}")
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> "tuple[Value, int]":
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_I16, _I32, _I64):
        value, at = _varint(data, at)
        return value >> 1 ^ -(value & 1), at
    if kind == _BINARY:
        return _binary(data, at)
    if kind in (_LIST, _SET):
        return _items(data, at, depth + 1)
    if kind in (_BYTE, _TRUE, _FALSE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return _take(data, at, 8)
    raise ValueError(f"type {kind} at byte {at}")


def _items(data: bytes, at: int, depth: int) -> "tuple[list[Value], int]":
    head = data[at]
    at += 1
    size, at = _varint(data, at) if head >> 4 == 15 else (head >> 4, at)
    if size > len(data) - at or depth > _MAX_DEPTH:
        raise ValueError(f"a list of {size} at byte {at}")
    items: list[Value] = []
    kind = head & 15
    for _ in range(size):
        item, at = _value(data, at, kind, depth)
        items.append(item)
    return items, at


def _binary(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    at += 1
    if size > 127:
        size, at = _varint(data, at - 1)
    return _take(data, at, size)


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    end = at + size
    if end > len(data):
        raise ValueError(f"{size} bytes at byte {at}")
    return data[at:end], end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError(f"a number beyond 64 bits at byte {at}")
