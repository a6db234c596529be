"""Values of `hoodie.properties` and of options: numbers, sizes, flags and lists of names."""

import re
from collections.abc import Iterable, Mapping

from lakebed.errors import CorruptError, InvalidError, OptionError

LARGE = 10**18 - 1
"""How large an option may be of which there is no telling, as a number of bytes."""

_MOST = 10**9 - 1
_UNITS = {"": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


def required(properties: Mapping[str, str], key: str, where: str) -> str:
    """Return a property that must be there; CorruptError if it is not."""
    value = properties.get(key, "").strip()
    if not value:
        raise CorruptError(f"{where}: the property {key} is missing")
    return value


def whole_number(properties: Mapping[str, str], key: str, default: int, where: str) -> int:
    """Return a number that is not negative; CorruptError for other text."""
    text = properties.get(key, "").strip()
    if not text:
        return default
    found = _number(text, 0, _MOST)
    if found is None:
        raise CorruptError(f"{where}: {key}={text!r} is not a whole number")
    return found


def option_number(
    properties: Mapping[str, str],
    names: str | tuple[str, ...],
    default: int,
    *,
    least: int = 0,
    most: int = _MOST,
) -> int:
    """Return the number of an option, by the first of its `names` that says one.

    OptionError for what is no number, or not from `least` to `most`.
    """
    names = (names,) if isinstance(names, str) else names
    text = given(properties, names)
    if not text:
        return default
    found = _number(text, least, most)
    if found is None:
        raise OptionError(f"option {names[0]}={text}: want a whole number from {least} to {most}")
    return found


def given(properties: Mapping[str, str], names: Iterable[str]) -> str:
    """Return the value under the first of `names` that has one, else nothing."""
    return next(filter(None, (properties.get(name, "").strip() for name in names)), "")


def _number(text: str, least: int, most: int) -> int | None:
    # The length first: Python refuses to read very long numbers, by an error of its own.
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
        return None
    return int(text) if least <= int(text) <= most else None


def size_bytes(properties: Mapping[str, str], key: str, default: int, *, least: int = 1) -> int:
    """Return a number of bytes, which may carry a unit: `10MB`."""
    text = properties.get(key, "").strip().upper()
    if not text:
        return default
    match = re.fullmatch(r"([0-9]{1,12})(|KB|MB|GB)", text)
    if match is None or int(match[1]) < least:
        raise InvalidError(f"{key}={text!r}: want a number of bytes, or one with KB, MB or GB")
    return int(match[1]) * _UNITS[match[2]]


def flag(properties: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return whether a property is true; other words than that are not, as in Java."""
    return properties.get(key, str(default)).strip().lower() == "true"


def names(text: str) -> tuple[str, ...]:
    """Split a list of names at its commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def partition_names(text: str) -> tuple[str, ...]:
    """Split partition fields; with its custom generator Hudi stores `field:type`."""
    return tuple(name.partition(":")[0] for name in names(text))
