"""Thrift's compact protocol, of which the headers and footers of Parquet are made.

    field:   (delta << 4 | type), value; a delta of 0 is followed by the field's number, zigzag
    list:    (size << 4 | type), a size of 15 is followed by the size as a varint

A value that is not what was wanted is IndexError, TypeError or ValueError (MALFORMED with what a
missing field raises); who reads names the file.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

_MAX_DEPTH: Final = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

Value: TypeAlias = "int | bool | bytes | list[Value] | dict[int, Value]"
Struct: TypeAlias = "dict[int, Value]"
MALFORMED: Final = (IndexError, KeyError, TypeError, ValueError, AttributeError)


def as_fields(value: "Value") -> "Struct":
    """Give a struct's fields."""
    if not isinstance(value, dict):
        raise TypeError(f"want a struct, found {type(value).__name__}")
    return value


def as_list(value: "Value") -> "Sequence[Value]":
    """Give the values of a list."""
    if not isinstance(value, list):
        raise TypeError(f"want a list, found {type(value).__name__}")
    return value


def as_bytes(value: "Value") -> bytes:
    """Give bytes."""
    if not isinstance(value, bytes):
        raise TypeError(f"want bytes, found {type(value).__name__}")
    return value


def as_text(value: "Value") -> str:
    """Give text."""
    return as_bytes(value).decode()


def as_number(value: "Value") -> int:
    """Give a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"want a number, found {type(value).__name__}")
    return value


class CompactReader:
    """A reader of Thrift's compact protocol; every loop step takes a byte, so it ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def at(self) -> int:
        """Give how many bytes were read."""
        return self._at

    def struct(self, depth: int = 0) -> "Struct":
        """Read the fields of a struct, by number."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            # Here a truth value is its own type.
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> "Value":
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._items(depth + 1)
        if kind in (_BYTE, _TRUE, _FALSE):
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        raise ValueError(f"type {kind} at byte {self._at}")

    def _items(self, depth: int) -> "list[Value]":
        head = self._byte()
        size = head >> 4 if head >> 4 < 15 else self._varint()
        if size > len(self._data) - self._at or depth > _MAX_DEPTH:
            raise ValueError(f"a list of {size} at byte {self._at}")
        return [self._value(head & 15, depth) for _ in range(size)]

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError(f"{size} bytes at byte {self._at}")
        self._at += size
        return self._data[self._at - size : self._at]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError(f"a number beyond 64 bits at byte {self._at}")

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
