"""The rows of VALUES, as Arrow columns of the table's types.

Both engines evaluate them here, so a literal is stored alike. A number is stored in a column of
another numeric type if its value does not change, and a string as a date or timestamp.
"""

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.sql.rows.assign import mismatch, stored
from lakebed.sql.rows.fit import Target
from lakebed.sql.syntax.columns import split
from lakebed.sql.syntax.expressions import constant
from lakebed.sql.syntax.words import Words

_NESTED = ("ARRAY", "MAP", "NAMED_STRUCT", "STRUCT")


def parse_values(words: Words) -> list[list[str]]:
    """Parse the rows after VALUES; return the text of each value."""
    rows = []
    while True:
        if words.here is not None and words.here.text == "(":
            begin, end = words.parenthesized()
            rows.append(split(words.text[begin:end]))
        else:
            begin, end = words.until([(",",)])
            rows.append([words.text[begin:end]])
        if not words.take_sign(TokenType.COMMA):
            break
    if words.here is not None:
        raise UnsupportedError(
            f"SQL: {words.text[words.start :][:60]!r} after VALUES is not supported in INSERT"
        )
    return rows


def values_table(rows: Sequence[Sequence[str]], target: Target) -> pa.Table:
    """Return the rows as a table with the columns of `target`, in its order."""
    for at, row in enumerate(rows, 1):
        if len(row) != len(target.names):
            raise InvalidError(
                f"table {target.table!r}: row {at} of VALUES has {len(row)} values, expected "
                f"{len(target.names)} ({', '.join(target.names)})"
            )
    fields = [target.schema.field(name) for name in target.names]
    columns = [
        pa.array([_value(row[at], field.type, field.name) for row in rows], field.type)
        for at, field in enumerate(fields)
    ]
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in fields]))


def _value(text: str, kind: pa.DataType, column: str) -> object:
    """Return a value as a Python object that Arrow stores in a column of type `kind`."""
    words = Words(text)
    if pa.types.is_nested(kind) and words.is_word(*_NESTED):
        return _nested(words, kind, column)
    return stored(_constant(text), kind, column, text).as_py()


@lru_cache(maxsize=4096)
def _constant(text: str) -> pa.Scalar:
    return constant(text)


def _nested(words: Words, kind: pa.DataType, column: str) -> object:
    word = words.name("a function").upper()
    begin, end = words.parenthesized()
    words.end()
    items = split(words.text[begin:end])
    if word == "ARRAY" and pa.types.is_list(kind):
        return [_value(item, kind.value_type, column) for item in items]
    if word == "MAP" and pa.types.is_map(kind) and len(items) % 2 == 0:
        return [
            (_value(key, kind.key_type, column), _value(item, kind.item_type, column))
            for key, item in zip(items[::2], items[1::2], strict=True)
        ]
    if word == "NAMED_STRUCT" and pa.types.is_struct(kind) and len(items) == 2 * kind.num_fields:
        names = [str(_constant(item).as_py()).lower() for item in items[::2]]
        known = [field.name.lower() for field in kind]
        if sorted(names) == sorted(known):
            texts = dict(zip(names, items[1::2], strict=True))
            return {f.name: _value(texts[f.name.lower()], f.type, column) for f in kind}
    if word == "STRUCT" and pa.types.is_struct(kind) and len(items) == kind.num_fields:
        return {f.name: _value(item, f.type, column) for f, item in zip(kind, items, strict=True)}
    raise mismatch(column, kind, words.text)
