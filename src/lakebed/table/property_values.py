"""Values of `hoodie.properties`: numbers, sizes, flags and lists of names."""

import re
from collections.abc import Mapping

from lakebed.errors import CorruptError, InvalidError

_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def required(properties: Mapping[str, str], key: str, where: str) -> str:
    """Give a property that must be there; CorruptError if it is not."""
    value = properties.get(key, "").strip()
    if not value:
        raise CorruptError(f"{where}: the property {key} is missing")
    return value


def whole_number(properties: Mapping[str, str], key: str, default: int, where: str) -> int:
    """Give a number that is not negative; CorruptError for other text."""
    text = properties.get(key, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise CorruptError(f"{where}: {key}={text!r} is not a whole number")
    return int(text)


def size_bytes(properties: Mapping[str, str], key: str, default: int) -> int:
    """Give a number of bytes, which may carry a unit: `10MB`."""
    text = properties.get(key, "").strip().upper()
    if not text:
        return default
    match = re.fullmatch(r"([0-9]{1,12})(|KB|MB|GB)", text)
    if match is None or int(match[1]) == 0:
        raise InvalidError(f"{key}={text!r}: want a number of bytes, or one with KB, MB or GB")
    return int(match[1]) * _UNITS[match[2]]


def flag(properties: Mapping[str, str], key: str) -> bool:
    """Tell whether a property is true; without it, it is not."""
    return properties.get(key, "false").strip().lower() == "true"


def names(text: str) -> tuple[str, ...]:
    """Split a list of names at its commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def partition_names(text: str) -> tuple[str, ...]:
    """Split partition fields; with its custom generator Hudi stores `field:type`."""
    return tuple(name.partition(":")[0] for name in names(text))
