"""The column list, the properties and the other clauses of CREATE TABLE, from the tokens."""

from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError
from lakebed.sql.syntax.words import Words
from lakebed.table.config.ddl import parse_ddl


@dataclass(slots=True)
class Columns:
    """The columns of a new table, and those that a PRIMARY KEY names."""

    fields: list[pa.Field] = field(default_factory=list)
    key: list[str] = field(default_factory=list)


def parse_columns(words: Words) -> Columns:
    """Parse a list of columns in parentheses, with constraints."""
    found = Columns()
    begin, end = words.parenthesized()
    for item in split(words.text[begin:end]):
        _parse_item(Words(item), found)
    names = [one.name.lower() for one in found.fields]
    for name in found.key:
        if name.lower() not in names:
            raise InvalidError(f"PRIMARY KEY ({name}): no such column; there are {names}")
    spelled = {one.name.lower(): one.name for one in found.fields}
    found.key = [spelled[name.lower()] for name in found.key]
    return found


def _parse_item(words: Words, found: Columns) -> None:
    if words.take("CONSTRAINT"):
        words.name("the name of a constraint")
    if words.take("PRIMARY", "KEY"):
        _set_key(found, name_list(words))
        words.take("NOT", "ENFORCED")
        words.end()
        return
    begin, end = words.until([("PRIMARY", "KEY"), ("DEFAULT",), ("GENERATED",)])
    made = list(parse_ddl(words.text[begin:end]))
    if words.take("PRIMARY", "KEY"):
        _set_key(found, [one.name for one in made])
    if words.here is not None:
        raise words.wrong("columns have a type, NOT NULL, COMMENT and PRIMARY KEY only; found")
    found.fields += made


def _set_key(found: Columns, names: list[str]) -> None:
    if found.key:
        raise InvalidError(f"PRIMARY KEY is given twice: {found.key} and {names}")
    found.key = names


def name_list(words: Words) -> list[str]:
    """Parse names in parentheses, separated by commas."""
    words.expect_sign(TokenType.L_PAREN, "(")
    found = [".".join(words.names("a column"))]
    while words.take_sign(TokenType.COMMA):
        found.append(".".join(words.names("a column")))
    words.expect_sign(TokenType.R_PAREN, ")")
    return found


def parse_properties(words: Words) -> dict[str, str]:
    """Parse properties in parentheses: `('a.b' = 'x', primaryKey = 'id')`."""
    found: dict[str, str] = {}
    words.expect_sign(TokenType.L_PAREN, "(")
    while True:
        name = property_name(words)
        words.take_sign(TokenType.EQ)
        if name in found:
            raise InvalidError(f"property {name!r} is given twice")
        found[name] = _property_value(words)
        if not words.take_sign(TokenType.COMMA):
            break
    words.expect_sign(TokenType.R_PAREN, ")")
    return found


def property_name(words: Words) -> str:
    """Parse the name of a property: a string, or words with dots."""
    if words.here is not None and words.here.token_type is TokenType.STRING:
        return words.string("the name of a property")
    return ".".join(words.names("the name of a property"))


def _property_value(words: Words) -> str:
    token = words.here
    if token is None or token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
        raise words.wrong("expected the value of a property")
    words.at += 1
    sign = str(token.text) if token.token_type is TokenType.DASH else ""
    if sign:
        token = words.here
        assert token is not None
        words.at += 1
    return sign + str(token.text)


def split(text: str) -> list[str]:
    """Split at the commas that are outside parentheses, brackets and quotes.

    >>> split("a INT, b STRUCT<x: INT, y: INT>, c DECIMAL(1, 2)")
    ['a INT', 'b STRUCT<x: INT, y: INT>', 'c DECIMAL(1, 2)']
    """
    words = Words(text)
    found, begin, depth = [], 0, 0
    for token in words.tokens:
        kind = token.token_type
        depth += kind in (TokenType.L_PAREN, TokenType.LT, TokenType.L_BRACKET)
        depth -= kind in (TokenType.R_PAREN, TokenType.GT, TokenType.R_BRACKET)
        if kind is TokenType.COMMA and not depth:
            found.append(text[begin : token.start].strip())
            begin = int(token.end) + 1
    last = text[begin:].strip()
    return [*found, last] if last else found
