r"""Java properties files, such as `hoodie.properties` and partition metadata.

    file     = { line }                  lines end in \n, \r or \r\n
    line     = blank | comment | entry   leading white space is ignored
    comment  = ("#" | "!") text
    entry    = key separator value       a line ending in an odd number of \ continues in the
                                         next, whose leading white space is ignored
    separator= white space, or white space ("=" | ":") white space
    escape   = \t \n \r \f | \uXXXX | \ any other character, standing for itself

Bytes are ISO-8859-1. A character outside the basic plane is two \u escapes (UTF-16). Agrees with
java.util.Properties, load and store.
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lakebed.errors import CorruptError, InvalidError

_SPACE: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_KEY_END: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_SPECIAL: Final = str.maketrans({
    "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f",
    "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!",
})  # fmt: skip


def parse_properties(data: bytes, what: str = "properties") -> dict[str, str]:
    r"""Parse a properties file; if a key is repeated, its last value counts.

    Bytes over 0x7F are read as ISO-8859-1, as in Java, even if they were written as UTF-8.

    >>> parse_properties(b"# note\na.b = x\\:y\nc")
    {'a.b': 'x:y', 'c': ''}
    """
    found: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key = _KEY_END.match(line)
        assert key is not None  # the pattern matches the empty string
        gap = _SEPARATOR.match(line, key.end())
        assert gap is not None
        found[_unescape(key[0], what)] = _unescape(line[gap.end() :], what)
    return found


def encode_properties(properties: Mapping[str, str], comment_lines: Iterable[str] = ()) -> bytes:
    r"""Encode a properties file, sorted by key, so that equal content has equal bytes.

    >>> encode_properties({"b": "x:y", "a": ""}, ["note"])
    b'#note\na=\nb=x\\:y\n'
    """
    lines = [f"#{_escape_wide(part)}" for text in comment_lines for part in _LINE_END.split(text)]
    lines += [
        f"{_escape(k, key=True)}={_escape(v, key=False)}" for k, v in sorted(properties.items())
    ]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def table_checksum(database: str | None, table_name: str) -> str:
    """Return the value of `hoodie.table.checksum`: the CRC32 of `<database>.<table>` in decimal.

    >>> table_checksum(None, "mor9_bucket_avro")
    '1442631740'
    """
    return str(zlib.crc32(f"{database or ''}.{table_name}".encode()))


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines with their continuations joined, without blank lines and comments."""
    parts: list[str] = []
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_SPACE)
        # A continued line is never a comment; a comment line is never continued.
        if not parts and (not line or line[0] in "#!"):
            continue
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            parts.append(line[:-1])
            continue
        yield "".join([*parts, line])
        parts = []
    if parts:
        yield "".join(parts)


def _unescape(text: str, what: str) -> str:
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if len(code) == 5:
            return chr(int(code[1:], 16))
        if code == "u":
            raise CorruptError(f"{what}: expected four hex digits after \\u, found {text[:80]!r}")
        return _ESCAPES.get(code, code)

    units = _ESCAPE.sub(plain, text)
    try:
        # Two escapes form one character outside the basic plane.
        return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise CorruptError(f"{what}: half of a surrogate pair in {text[:80]!r}") from error


def _escape(text: str, key: bool) -> str:
    out = text.translate(_SPECIAL)
    if key:
        out = out.replace(" ", "\\ ")
    elif out.startswith(" "):
        out = "\\" + out
    return _escape_wide(out)


def _escape_wide(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    try:
        return "".join(c if " " <= c <= "~" else _utf16_escapes(c) for c in text)
    except UnicodeEncodeError as error:
        raise InvalidError(f"property text {text[:80]!r}: half of a surrogate pair") from error


def _utf16_escapes(character: str) -> str:
    units = character.encode("utf-16-be").hex().upper()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
