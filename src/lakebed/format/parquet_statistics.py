"""The statistics of column chunks, straight from a Parquet footer.

    footer:  FileMetaData in Thrift's compact protocol, its length (4 bytes, little-endian), PAR1
    field:   (delta << 4 | type), value; a delta of 0 is followed by the field's number, zigzag
    list:    (size << 4 | type), a size of 15 is followed by the size as a varint

Field numbers are those of `parquet.thrift`. Read here because pyarrow's own way to them ends the
process where a footer is corrupt, instead of raising. The bounds that old writers put into
`min` and `max` are left alone: their order is not defined.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from lakebed.errors import CorruptError

_MAX_DEPTH = 32
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)

_Value: TypeAlias = "int | bool | bytes | list[_Value] | dict[int, _Value]"
_Struct: TypeAlias = "dict[int, _Value]"


class Physical(IntEnum):
    """How a column's values lie in the file (parquet.thrift `Type`); do not change."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


@dataclass(frozen=True, slots=True)
class ChunkStatistics:
    """What a footer says of one column chunk: bounds as bytes, None for what it does not say."""

    physical: Physical
    num_values: int
    null_count: int | None
    lower: bytes | None
    upper: bytes | None


def parse_statistics(
    footer: bytes, columns: Collection[str], what: str
) -> list[Mapping[str, ChunkStatistics]]:
    """Give for each row group the chunks of `columns`, by name; nested columns are left out."""
    try:
        return _statistics(_Compact(footer).struct(), frozenset(columns))
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptError(f"{what}: its footer is no Parquet metadata ({error!r})") from error


def _statistics(
    metadata: "_Struct", columns: frozenset[str]
) -> list[Mapping[str, ChunkStatistics]]:
    # Without these nobody knows by which order the bounds were found.
    orders = _list(metadata.get(7, []))
    found: list[Mapping[str, ChunkStatistics]] = []
    for group in _list(metadata[4]):
        chunks: dict[str, ChunkStatistics] = {}
        for number, chunk in enumerate(_list(_fields(group)[1])):
            held = _fields(_fields(chunk).get(3, {}))
            path = _list(held.get(3, []))
            name = _text(path[0]) if len(path) == 1 else ""
            if name in columns:
                ordered = number < len(orders) and 1 in _fields(orders[number])
                chunks[name] = _chunk(held, ordered)
        found.append(chunks)
    return found


def _chunk(held: "_Struct", ordered: bool) -> ChunkStatistics:
    told = _fields(held.get(12, {}))
    return ChunkStatistics(
        Physical(_number(held[1])),
        _number(held[5]),
        _number(told[3]) if 3 in told else None,
        _bytes(told[6]) if ordered and 6 in told else None,
        _bytes(told[5]) if ordered and 5 in told else None,
    )


def _fields(value: "_Value") -> "_Struct":
    if not isinstance(value, dict):
        raise TypeError(f"want a struct, found {type(value).__name__}")
    return value


def _list(value: "_Value") -> "Sequence[_Value]":
    if not isinstance(value, list):
        raise TypeError(f"want a list, found {type(value).__name__}")
    return value


def _bytes(value: "_Value") -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"want bytes, found {type(value).__name__}")
    return value


def _text(value: "_Value") -> str:
    return _bytes(value).decode()


def _number(value: "_Value") -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"want a number, found {type(value).__name__}")
    return value


class _Compact:
    """A reader of Thrift's compact protocol; every loop step takes a byte, so it ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int = 0) -> "_Struct":
        """Read the fields of a struct, by number."""
        if depth > _MAX_DEPTH:
            raise ValueError("nested too deeply")
        fields: _Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            # Here a truth value is its own type.
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> "_Value":
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

    def _items(self, depth: int) -> "list[_Value]":
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
