"""Columns as a DDL string, in Spark's syntax: `id BIGINT NOT NULL, tags ARRAY<STRING>`.

    columns  := column ("," column)*
    column   := name [":"] type ["NOT" "NULL"] ["COMMENT" text]
    type     := word ["(" number ["," number] ")"]
              | "ARRAY" "<" type ">" | "MAP" "<" type "," type ">" | "STRUCT" "<" [columns] ">"

Agrees with `StructType.fromDDL`; anything else is rejected.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.model.spelling import nearest

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<word>\w+)|(?P<sign>[<>(),:]))"
)
_WORDS: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMALS: Final = ("decimal", "dec", "numeric")
_TEXTS: Final = ("char", "character", "varchar")
_NESTED: Final = ("array", "map", "struct")
_MAX_DIGITS: Final = 38
_DEFAULT_DECIMAL: Final = (10, 0)


def parse_ddl(text: str) -> pa.Schema:
    """Parse a DDL string; raise SchemaError with the position of the first mistake.

    >>> parse_ddl("id BIGINT NOT NULL, price DECIMAL(12,2)").names
    ['id', 'price']
    """
    parser = _Parser(text)
    fields = parser.columns(end=None)
    if not fields:
        raise SchemaError(
            f"schema {text!r}: found no columns; write for example 'id BIGINT, v INT'"
        )
    return pa.schema(fields)


def type_text(kind: pa.DataType) -> str:
    """Return the type of a table's column in DDL syntax.

    >>> type_text(pa.map_(pa.string(), pa.list_(pa.decimal128(12, 2))))
    'map<string,array<decimal(12,2)>>'
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_text(field.type)}' for field in kind)}>"
    if pa.types.is_list(kind):
        return f"array<{type_text(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{type_text(kind.key_type)},{type_text(kind.item_type)}>"
    return next((word for word, known in _WORDS.items() if known == kind), str(kind))


class _Parser:
    """Parses one DDL string from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._kind, self._token, self._start = "", "", 0
        self._next()

    def columns(self, end: str | None) -> list[pa.Field]:
        """Parse columns up to the character `end`, or to the end of the string."""
        found: list[pa.Field] = []
        if self._done(end):
            return found
        while True:
            found.append(self._column())
            if not self._take(","):
                break
        if not self._done(end):
            raise self._wrong("a comma" if end is None else f"a comma or {end!r}")
        return found

    def _column(self) -> pa.Field:
        if self._kind not in ("word", "quoted"):
            raise self._wrong("a column name")
        name = self._token
        if self._kind == "quoted":
            name = name[1:-1].replace("``", "`")
        self._next()
        self._take(":")
        kind = self._type()
        nullable = True
        if self._take_word("not"):
            self._want_word("null")
            nullable = False
        if self._take_word("comment"):
            if self._kind != "text":
                raise self._wrong("a quoted comment")
            self._next()
        return pa.field(name, kind, nullable)

    def _type(self) -> pa.DataType:
        if self._kind != "word":
            raise self._wrong("a type")
        word, start = self._token.lower(), self._start
        self._next()
        nested: dict[str, Callable[[], pa.DataType]] = {
            "array": lambda: pa.list_(pa.field("element", self._type())),
            "map": self._map,
            "struct": lambda: pa.struct(self.columns(end=">")),
        }
        if word in nested:
            self._want("<")
            kind = nested[word]()
            self._want(">")
            return kind
        if word in _DECIMALS:
            return self._decimal(start)
        if word in _TEXTS:
            self._numbers(1)
            return pa.string()
        if word not in _WORDS:
            self._start, self._token = start, word
            raise self._wrong(
                "a type such as BIGINT, STRING, DECIMAL(12,2)",
                [*_WORDS, *_DECIMALS, *_TEXTS, *_NESTED],
            )
        return _WORDS[word]

    def _map(self) -> pa.DataType:
        key = self._type()
        self._want(",")
        return pa.map_(key, self._type())

    def _decimal(self, start: int) -> pa.DataType:
        numbers = self._numbers(2) if (self._kind, self._token) == ("sign", "(") else []
        digits, scale = (*numbers, *_DEFAULT_DECIMAL[len(numbers) :])
        if not 1 <= digits <= _MAX_DIGITS or scale > digits:
            raise SchemaError(
                f"schema {self._text!r}: DECIMAL({digits},{scale}) at character {start + 1}: expected "
                f"1 to {_MAX_DIGITS} digits, and a scale that is not greater"
            )
        return pa.decimal128(digits, scale)

    def _numbers(self, most: int) -> list[int]:
        self._want("(")
        found: list[int] = []
        while len(found) < most:
            if not (self._token.isascii() and self._token.isdigit() and len(self._token) < 10):
                raise self._wrong("a number")
            found.append(int(self._token))
            self._next()
            if not self._take(","):
                break
        self._want(")")
        return found

    def _done(self, end: str | None) -> bool:
        return (self._kind, self._token) == (("", "") if end is None else ("sign", end))

    def _take(self, sign: str) -> bool:
        taken = (self._kind, self._token) == ("sign", sign)
        if taken:
            self._next()
        return taken

    def _take_word(self, word: str) -> bool:
        taken = self._kind == "word" and self._token.lower() == word
        if taken:
            self._next()
        return taken

    def _want(self, sign: str) -> None:
        if not self._take(sign):
            raise self._wrong(repr(sign))

    def _want_word(self, word: str) -> None:
        if not self._take_word(word):
            raise self._wrong(word.upper())

    def _next(self) -> None:
        rest = self._text[self._at :]
        if not rest.strip():
            self._kind, self._token, self._start = "", "", len(self._text)
            return
        found = _TOKEN.match(rest)
        if found is None:
            self._start = self._at + len(rest) - len(rest.lstrip())
            self._token = self._text[self._start]
            raise self._wrong("a name, a type or a comma")
        self._kind = str(found.lastgroup)
        self._token = found[self._kind]
        self._start = self._at + found.start(self._kind)
        self._at += found.end()

    def _wrong(self, expected: str, known: Iterable[str] = ()) -> SchemaError:
        found = repr(self._token) if self._token else "the end"
        found += nearest(self._token, known)
        return SchemaError(
            f"schema {self._text!r}: expected {expected} at character {self._start + 1}, found {found}"
        )
