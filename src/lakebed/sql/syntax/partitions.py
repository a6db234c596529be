"""The PARTITION clause: `(dt = '2026-11-15', hour)`."""

from collections.abc import Mapping

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError
from lakebed.sql.syntax.expressions import constant
from lakebed.sql.syntax.words import Words


def parse_partition(words: Words) -> dict[str, str | None]:
    """Return the text of each partition column's value; None for a column without one."""
    words.expect_sign(TokenType.L_PAREN, "(")
    found: dict[str, str | None] = {}
    while True:
        name = words.name("a partition column")
        found[name] = None
        if words.take_sign(TokenType.EQ):
            begin, end = words.until([(",",), (")",)])
            found[name] = words.text[begin:end]
        if not words.take_sign(TokenType.COMMA):
            break
    words.expect_sign(TokenType.R_PAREN, ")")
    return found


def partition_values(given: Mapping[str, str | None]) -> dict[str, object]:
    """Return the values of a PARTITION clause; None for a column without one."""
    values: dict[str, object] = {}
    for name, text in given.items():
        if text is None:
            values[name] = None
            continue
        scalar = constant(text)
        if not scalar.is_valid or scalar.type == pa.null():
            raise InvalidError(f"PARTITION ({name}): expected a value, found NULL")
        values[name] = scalar.as_py()
    return values
