"""Values of `hoodie.properties`: numbers and flags."""

from collections.abc import Mapping

from lakebed.errors import CorruptError
from lakebed.model.options.option import parse_whole_number


def required(properties: Mapping[str, str], key: str, where: str) -> str:
    """Return a required property; raise CorruptError if it is missing."""
    value = properties.get(key, "").strip()
    if not value:
        raise CorruptError(f"{where}: the property {key} is missing")
    return value


def whole_number(properties: Mapping[str, str], key: str, default: int, where: str) -> int:
    """Return a non-negative integer; raise CorruptError for anything else."""
    text = properties.get(key, "").strip()
    if not text:
        return default
    found = parse_whole_number(text)
    if found is None:
        raise CorruptError(f"{where}: {key}={text!r} is not a whole number")
    return found


def flag(properties: Mapping[str, str], key: str, *, default: bool = False) -> bool:
    """Return whether a property is `true`; any other value means false, as in Java."""
    return properties.get(key, str(default)).strip().lower() == "true"
