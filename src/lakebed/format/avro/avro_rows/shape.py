"""The byte layout of an Avro schema, without the meaning of its values.

`avro_schema.avro_to_arrow` decides which schemas are supported, and the names and types of their
columns. This module walks over the same JSON and keeps details that are lost in Arrow types: the
order of the branches of a union, the symbols of an enum, the size of a fixed, and milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.avro.avro_schema import full_name, load_record, logical_type

BARE: Final = -1
"""`Shape.null` of a value that is not in a union."""
LONE: Final = 2
"""`Shape.null` of a union with a single branch: its index is stored, and is always 0."""
MAX_FIXED_BYTES: Final = 1 << 20


class Form(IntEnum):
    """How a value is encoded."""

    NUMBER = 0
    BOOLEAN = 1
    FLOAT = 2
    DOUBLE = 3
    BYTES = 4
    FIXED = 5
    RECORD = 6
    ARRAY = 7
    MAP = 8
    UNION = 9
    NULL = 10


_PLAIN: Final = {
    "boolean": (Form.BOOLEAN, 1),
    "int": (Form.NUMBER, 1),
    "long": (Form.NUMBER, 1),
    "float": (Form.FLOAT, 4),
    "double": (Form.DOUBLE, 8),
    "bytes": (Form.BYTES, 1),
    "string": (Form.BYTES, 1),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """The byte layout of one value.

    `null` is the index of null in the value's union, or BARE, or LONE. `least` is the minimum size
    of the value in bytes, including its union index. `children` are the fields of a record, the
    element of an array, the value of a map, or the branches of a union of several types. `unit` is
    the factor from a stored number to the column's number.
    """

    form: Form
    least: int
    null: int = BARE
    size: int = 0
    unit: int = 1
    symbols: tuple[str, ...] = ()
    children: tuple["Shape", ...] = ()


def parse_shape(text: str) -> Shape:
    """Return the shape of a record schema that `avro_to_arrow` accepts."""
    return _Walk().parse(load_record(text), "", "")


class _Walk:
    """Parses a schema; holds the shapes of the named types parsed so far."""

    def __init__(self) -> None:
        self._named: dict[str, Shape] = {}

    def parse(self, avro: object, namespace: str, path: str) -> Shape:
        if isinstance(avro, list):
            return self._union(avro, namespace, path)
        if isinstance(avro, str):
            if avro in _PLAIN:
                return Shape(*_PLAIN[avro])
            full = avro if "." in avro or not namespace else f"{namespace}.{avro}"
            return self._named[full]
        assert isinstance(avro, dict)
        return self._typed(avro, namespace, path)

    def _union(self, branches: list[object], namespace: str, path: str) -> Shape:
        if branches.count("null") > 1:
            raise CorruptError(
                f"Avro field {path!r}: expected each branch of a union once, found {str(branches)[:80]}"
            )
        if len(branches) > 2:
            null = Shape(Form.NULL, 0)
            children = [b == "null" or self.parse(b, namespace, path) for b in branches]
            kept = tuple(null if child is True else child for child in children)
            return Shape(Form.UNION, 1, children=kept)
        real = next(branch for branch in branches if branch != "null")
        shape = self.parse(real, namespace, path)
        if len(branches) == 1:
            return replace(shape, null=LONE, least=shape.least + 1)
        return replace(shape, null=branches.index("null"), least=1)

    def _typed(self, avro: Mapping[str, object], namespace: str, path: str) -> Shape:
        kind = avro["type"]
        if kind == "record":
            return self._record(avro, namespace, path)
        if kind == "array":
            return self._array(avro, namespace, path)
        if kind == "map":
            value = self.parse(avro["values"], namespace, f"{path}.value")
            return Shape(Form.MAP, 1, children=(value,))
        if kind in ("fixed", "enum"):
            shape = _fixed(avro, path) if kind == "fixed" else _enum(avro, path)
            self._named[full_name(avro, namespace, path)] = shape
            return shape
        if isinstance(kind, str) and kind in _PLAIN:
            millis = (kind, logical_type(avro)) in _MILLIS
            return Shape(*_PLAIN[kind], unit=1000 if millis else 1)
        shape = self.parse(kind, namespace, path)
        if shape.null != BARE:
            raise UnsupportedError(f"Avro field {path!r}: a union inside a type object")
        return shape

    def _array(self, avro: Mapping[str, object], namespace: str, path: str) -> Shape:
        item = self.parse(avro["items"], namespace, f"{path}.element")
        if item.least == 0:
            # Three bytes could encode a million items.
            raise UnsupportedError(f"Avro field {path!r}: an array of items that take no bytes")
        return Shape(Form.ARRAY, 1, children=(item,))

    def _record(self, avro: Mapping[str, object], namespace: str, path: str) -> Shape:
        full = full_name(avro, namespace, path)
        inner = full.rpartition(".")[0]
        fields = avro["fields"]
        assert isinstance(fields, list)
        children = tuple(
            self.parse(
                field["type"], inner, f"{path}.{field['name']}" if path else str(field["name"])
            )
            for field in fields
        )
        shape = Shape(Form.RECORD, sum(child.least for child in children), children=children)
        self._named[full] = shape
        return shape


_MILLIS: Final = frozenset(
    {("int", "time-millis"), ("long", "timestamp-millis"), ("long", "local-timestamp-millis")}
)


def _fixed(avro: Mapping[str, object], path: str) -> Shape:
    size = avro.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise CorruptError(
            f"Avro field {path!r}: expected the size of a fixed, found {str(size)[:80]}"
        )
    if size > MAX_FIXED_BYTES:
        raise UnsupportedError(
            f"Avro field {path!r}: expected a fixed of at most {MAX_FIXED_BYTES} bytes, found {size}"
        )
    return Shape(Form.FIXED, size, size=size)


def _enum(avro: Mapping[str, object], path: str) -> Shape:
    symbols = avro.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(s, str) for s in symbols):
        raise CorruptError(
            f"Avro field {path!r}: expected the symbols of an enum as a list of names"
        )
    if not symbols or len(set(symbols)) != len(symbols):
        raise CorruptError(f"Avro field {path!r}: expected each symbol of an enum once")
    return Shape(Form.NUMBER, 1, symbols=tuple(symbols))
