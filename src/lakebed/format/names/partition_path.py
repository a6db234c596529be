r"""Partition paths: the folders of rows, as Hudi's key generators format them.

    path  := '' | level ('/' level)*       one level per partition field
    level := [field '='] value             the prefix in hive style
    value := string of the column, percent-encoded if the table is configured so,
             or __HIVE_DEFAULT_PARTITION__ for null and for the empty string

Percent-encoding covers control characters (with NUL and DEL) and `" # % ' * / : = ? [ \ ] ^ {`
only; a space, `}` and all characters beyond ASCII remain. Agrees with
`KeyGenUtils.getPartitionPath` and `PartitionPathEncodeUtils` of Hudi 1.2.0. Paths that Hudi would
write but that readers could not parse, or file systems not store, are rejected. Work is done per
distinct value, because partitions are few.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, InvalidError, KeyValueError, SchemaError
from lakebed.format.names.java_text import column_text, spell_distinct

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
MAX_SEGMENT_BYTES = 255

_ESCAPED = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\[\\\]^{]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class PartKind(Enum):
    """How the custom key generator formats a field. Stored on disk: do not change the values."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


def parse_part_kinds(text: str) -> dict[str, PartKind] | None:
    """Parse the partition fields of a custom key generator; None if one is invalid.

    >>> parse_part_kinds("dt:simple,at:TIMESTAMP")
    {'dt': <PartKind.SIMPLE: 'SIMPLE'>, 'at': <PartKind.TIMESTAMP: 'TIMESTAMP'>}
    """
    kinds: dict[str, PartKind] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        field, _, word = part.partition(":")
        if word.upper() not in PartKind.__members__:
            return None
        kinds[field] = PartKind[word.upper()]
    return kinds


@dataclass(frozen=True, slots=True)
class PartitionStyle:
    """How a table formats its folders; table properties that never change."""

    hive_style: bool = False
    url_encode: bool = False

    def spell_level(self, field: str, text: str | None) -> str:
        """Return the folder name of one level; null and '' share the default folder."""
        value = text or DEFAULT_PARTITION
        if self.url_encode:
            value = escape_path_name(value)
        return f"{field}={value}" if self.hive_style else value


def escape_path_name(text: str) -> str:
    """Percent-encode the characters that Hudi encodes in a folder name.

    >>> escape_path_name("p q=%é/1")
    'p q%3D%25é%2F1'
    """
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape_path_name(text: str) -> str:
    """Undo `escape_path_name`, keeping any percent sign without two hex digits."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_paths(
    columns: Mapping[str, pa.Array],
    fields: Sequence[str],
    style: PartitionStyle,
    num_rows: int | None = None,
) -> pa.StringArray:
    """Return the partition path of every row; '' for all if there are no partition fields.

    `num_rows` is needed only if there are no fields and no columns. Raises KeyValueError, naming
    the field and the value, if a value is invalid as a folder name.

    >>> partition_paths({"d": pa.array([1, None])}, ["d"], PartitionStyle(True)).to_pylist()
    ['d=1', 'd=__HIVE_DEFAULT_PARTITION__']
    """
    missing = [field for field in fields if field not in columns]
    if missing:
        raise SchemaError(f"partition fields {missing}: not among the columns {list(columns)}")
    if not fields:
        if num_rows is None and not columns:
            raise InvalidError(
                "partition path: expected a number of rows or a column, found neither"
            )
        rows = len(next(iter(columns.values()))) if num_rows is None else num_rows
        return pa.repeat(pa.scalar("", pa.string()), rows)
    levels = [
        level_texts(columns[field], field, style, first=index == 0)
        for index, field in enumerate(fields)
    ]
    return join_levels(levels)


def join_levels(levels: Sequence[pa.StringArray]) -> pa.StringArray:
    """Join the levels of every row to a path; there must be at least one level."""
    return levels[0] if len(levels) == 1 else pc.binary_join_element_wise(*levels, "/")


def parse_partition_path(
    path: str, fields: Sequence[str], style: PartitionStyle
) -> list[str | None]:
    """Return the string of each field in a path, None for the default folder.

    This is the inverse of `partition_paths`, except that null and '' are not distinguished. A
    single field takes the entire path, including slashes. Raises CorruptError if the path does not
    match the fields.
    """
    if not fields:
        if path:
            raise CorruptError(
                f"partition path {path!r}: expected '' in a table without partitions"
            )
        return []
    levels = [path] if len(fields) == 1 else path.split("/")
    if len(levels) != len(fields):
        raise CorruptError(
            f"partition path {path!r}: expected {len(fields)} levels for {list(fields)}, "
            f"found {len(levels)}"
        )
    return [_parse_level(path, *pair, style) for pair in zip(levels, fields, strict=True)]


def check_level(level: str, field: str, value: object, *, first: bool) -> None:
    """Raise KeyValueError if a folder name is invalid in Hudi, a file system or an object store.

    `first` means that the folder is directly below the table: there, Hadoop takes the text before a
    colon for a URI scheme.
    """
    want = _offence(level, first=first)
    if want:
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:80]}..."
        raise KeyValueError(f"partition field {field!r}, value {shown}: expected {want}")


def _offence(level: str, *, first: bool) -> str:
    """Return the expectation that `level` violates, for an error message; '' if it is valid."""
    if "/" in level:
        return "no '/' in a folder name, unless the table url-encodes partition paths"
    if level in {"", ".", ".."}:
        return f"a folder name other than {level!r}"
    if _CONTROL.search(level):
        return "no control characters, unless the table url-encodes partition paths"
    if first and ":" in level:
        return "no ':' in a first folder name, unless the table url-encodes partition paths"
    if level.lower().startswith(".hoodie"):
        return "a folder name that does not start with '.hoodie'"
    size = len(level.encode())
    if size > MAX_SEGMENT_BYTES:
        return f"a folder name of at most {MAX_SEGMENT_BYTES} bytes, found {size}"
    return ""


def level_texts(
    column: pa.Array, field: str, style: PartitionStyle, *, first: bool, strict: bool = True
) -> pa.StringArray:
    """Return one level of the path of every row; `first` is as for `check_level`.

    Without `strict`, folder names that Lakebed would not write are accepted, because Hudi may have
    created them.
    """

    def spell(text: str) -> str:
        level = style.spell_level(field, text)
        if strict:
            check_level(level, field, text, first=first)
        return level

    return spell_distinct(column_text(column, field).fill_null(""), spell)


def _parse_level(path: str, level: str, field: str, style: PartitionStyle) -> str | None:
    if style.hive_style:
        prefix = f"{field}="
        if not level.startswith(prefix):
            raise CorruptError(f"partition path {path!r}: expected {prefix!r} before the value")
        level = level.removeprefix(prefix)
    if level == DEFAULT_PARTITION:
        return None
    if not level:
        raise CorruptError(f"partition path {path!r}: expected a value for {field!r}, found none")
    return unescape_path_name(level) if style.url_encode else level
