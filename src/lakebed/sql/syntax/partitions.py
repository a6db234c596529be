"""The PARTITION clause: `(dt = '2026-11-15', hour)`."""

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError
from lakebed.sql.syntax.expressions import constant
from lakebed.sql.syntax.words import Words


def parse_partition(words: Words) -> dict[str, object]:
    """Return the values of partition columns; None for a column without a value."""
    words.expect_sign(TokenType.L_PAREN, "(")
    found: dict[str, object] = {}
    while True:
        name = words.name("a partition column")
        value: object = None
        if words.take_sign(TokenType.EQ):
            begin, end = words.until([(",",), (")",)])
            scalar = constant(words.text[begin:end])
            if not scalar.is_valid:
                raise InvalidError(f"PARTITION ({name}): expected a value, found NULL")
            value = scalar.as_py() if scalar.type != pa.null() else None
        found[name] = value
        if not words.take_sign(TokenType.COMMA):
            break
    words.expect_sign(TokenType.R_PAREN, ")")
    return found
