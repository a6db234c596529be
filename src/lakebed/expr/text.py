"""Functions on strings, which count characters as code points, like Spark."""

import functools
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.expr.values import Data, null_of

# Characters without a one-character lower or upper case, or whose case depends on their neighbours.
_SIGMA = "\u03a3"


def length(data: Data) -> Data:
    """Return the number of characters of strings, or of bytes of binary values."""
    count = pc.binary_length(data) if data.type == pa.binary() else pc.utf8_length(data)
    return pc.cast(count, pa.int32())


def lower(data: Data) -> Data:
    """Return strings in lower case."""
    return _in_case(data, pc.ascii_lower, pc.utf8_lower, str.lower)


def upper(data: Data) -> Data:
    """Return strings in upper case."""
    return _in_case(data, pc.ascii_upper, pc.utf8_upper, str.upper)


def _in_case(
    data: Data,
    ascii_only: Callable[[Data], Data],
    simple: Callable[[Data], Data],
    full: Callable[[str], str],
) -> Data:
    if pc.all(pc.string_is_ascii(data)).as_py() is not False:
        return ascii_only(data)
    made = simple(data)
    pattern = _special(full.__name__)
    special = pc.fill_null(pc.match_substring_regex(data, pattern=pattern), False)
    if not pc.any(special).as_py():
        return made
    # Rare letters: convert each distinct string that has one in Python.
    encoded = pc.dictionary_encode(pc.if_else(special, data, null_of(pa.string())))
    texts = [full(text) for text in encoded.dictionary.to_pylist()]
    return pc.if_else(special, pa.array(texts, pa.string()).take(encoded.indices), made)


@functools.cache
def _special(name: str) -> str:
    """Return a regex for the characters whose case Arrow converts differently from Spark."""
    letters = [chr(code) for code in range(128, 0x1F000) if not 0xD800 <= code < 0xE000]
    simple = {"lower": pc.utf8_lower, "upper": pc.utf8_upper}[name](pa.array(letters))
    full = [getattr(letter, name)() for letter in letters]
    odd = [one for one, a, b in zip(letters, simple.to_pylist(), full, strict=True) if a != b]
    if name == "lower":
        odd.append(_SIGMA)
    return "[" + "".join(map(re.escape, odd)) + "]"


def substring(data: Data, start: int, size: int | None) -> Data:
    """Return `size` characters from position `start`; a negative `start` counts from the end."""
    if size is not None and size <= 0:
        return pc.utf8_slice_codeunits(data, start=0, stop=0)
    if start >= 0:
        first = max(start - 1, 0)
        return pc.utf8_slice_codeunits(data, start=first, stop=_end(first, size))
    # No limit if `size` reaches the end.
    stop = None if size is None or start + size >= 0 else start + size
    return pc.utf8_slice_codeunits(data, start=start, stop=stop)


def _end(first: int, size: int | None) -> int | None:
    return None if size is None else first + size


def concatenate(*parts: Data) -> Data:
    """Concatenate strings; the result is null where any operand is null."""
    return pc.binary_join_element_wise(*parts, pa.scalar(""), null_handling="emit_null")


def trim(data: Data, side: str) -> Data:
    """Remove spaces, but no other blanks, from both sides or from one."""
    act = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}[side]
    return act(data, characters=" ")


def replace(data: Data, old: str, new: str) -> Data:
    """Replace every `old` with `new`; an empty `old` replaces nothing."""
    return pc.replace_substring(data, pattern=old, replacement=new) if old else data


def matches(data: Data, regex: str) -> Data:
    """Return for each string whether it contains a match of a regular expression."""
    return pc.match_substring_regex(data, pattern=regex)


def holds(data: Data, part: str, where: str) -> Data:
    """Return for each string whether it starts with, ends with or contains `part`."""
    act = {
        "startswith": pc.starts_with,
        "endswith": pc.ends_with,
        "contains": pc.match_substring,
    }[where]
    return act(data, pattern=part)
