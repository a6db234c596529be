"""Named parameters: `:name` in a statement stands for a value.

A parameter is found as a token, so one inside a string or a comment is not, and a value always
becomes exactly one literal: the text of a value is never read as SQL.
"""

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot.tokens import Token, TokenType

from lakebed.errors import InvalidError
from lakebed.model.spelling import listed, nearest
from lakebed.sql.syntax.dialect import tokenize

_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_LONG = 2**63


@dataclass(frozen=True, slots=True)
class _Marker:
    """A `:name` in the text; `alone` if it is the only thing in parentheses."""

    name: str
    start: int
    end: int
    alone: bool


def inline(text: str, parameters: Mapping[str, object]) -> str:
    """Return the statement with a literal in place of each parameter, and without comments.

    Raises InvalidError for a parameter without a value, and for a value without a parameter.
    """
    text = _without_comments(text)
    markers = list(_markers(text))
    _check_names([marker.name for marker in markers], parameters)
    pieces, at = [], 0
    for marker in markers:
        pieces += [text[at : marker.start], _inlined(marker, parameters[marker.name])]
        at = marker.end
    return "".join([*pieces, text[at:]])


def _without_comments(text: str) -> str:
    """Return the text with spaces in place of comments, which lie between tokens."""
    pieces, at = [], 0
    for token in tokenize(text):
        if token.start < at:
            continue  # sqlglot makes several tokens of `5L`, each with the whole of it as its text
        pieces += [_blank(text[at : token.start]), text[token.start : token.end + 1]]
        at = int(token.end) + 1
    return "".join([*pieces, _blank(text[at:])])


def _blank(text: str) -> str:
    return text if text.isspace() else "".join(c if c.isspace() else " " for c in text)


def literal(value: object, name: str) -> str:
    """Return a value as a literal of the grammar of predicates, which is also Spark's.

    >>> literal("Oslo", "city"), literal(-5, "n"), literal(dt.date(2026, 11, 15), "day")
    ("'Oslo'", '-5', "DATE '2026-11-15'")
    """
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return f"CAST('{'Infinity' if value == math.inf else value}' AS DOUBLE)"
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}BD"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{value.hex()}'"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
        return f"{kind} '{_timestamp(value)}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    raise InvalidError(
        f"parameter :{name}: expected a string, number, boolean, date, timestamp, bytes, None or a "
        f"list of them, found {type(value).__name__}"
    )


def spark_arguments(
    text: str, parameters: Mapping[str, object]
) -> tuple[list[tuple[int, int, str]], dict[str, object]]:
    """Return the changes to the text that Spark needs, and the arguments to pass to it.

    A change is a start, an end and a new text. Spark binds most values itself; a list becomes one
    parameter per item. A timestamp is passed as a string, because Spark would read it in the time
    zone of this machine, and so is a date, of which it takes only those after the year 999.
    """
    changes: list[tuple[int, int, str]] = []
    arguments: dict[str, object] = {}
    for marker in _markers(text):
        value = parameters[marker.name]
        items = _items(value)
        if items is None:
            changes.append((marker.start, marker.end, _argument(marker.name, value, arguments)))
            continue
        named = [
            _argument(f"{marker.name}_{at}", one, arguments)
            for at, one in enumerate(_filled(items, marker.name))
        ]
        changes.append((marker.start, marker.end, _in_parentheses(", ".join(named), marker)))
    return changes, arguments


def parameter_names(text: str) -> set[str]:
    """Return the names of the parameters in the text."""
    return {marker.name for marker in _markers(text)}


def check_parameters(text: str, parameters: Mapping[str, object]) -> None:
    """Raise InvalidError for a parameter without a value, and for a value without a parameter."""
    _check_names([marker.name for marker in _markers(text)], parameters)


def _argument(name: str, value: object, arguments: dict[str, object]) -> str:
    literal(value, name)  # raises an error for a type that has no literal
    if isinstance(value, dt.datetime):
        arguments[name] = _timestamp(value)
        return f"CAST(:{name} AS {'TIMESTAMP_NTZ' if value.tzinfo is None else 'TIMESTAMP'})"
    if isinstance(value, dt.date):
        arguments[name] = value.isoformat()
        return f"CAST(:{name} AS DATE)"
    if isinstance(value, bytearray):
        value = bytes(value)
    if isinstance(value, int) and not -_LONG <= value < _LONG:
        value = Decimal(value)
    arguments[name] = value
    return f":{name}"


def _markers(text: str) -> Iterator[_Marker]:
    tokens = tokenize(text)
    for at, token in enumerate(tokens[:-1]):
        after = tokens[at + 1]
        if token.token_type is not TokenType.COLON or after.start != token.end + 1:
            continue
        before = tokens[at - 1] if at else None
        # The type of a field, as in STRUCT<x:INT>, follows its name.
        if before is not None and before.token_type in _NAMES and before.end == token.start - 1:
            continue
        name = str(after.text)
        if not name.isidentifier():
            continue
        alone = _is(before, TokenType.L_PAREN) and _is(
            tokens[at + 2] if at + 2 < len(tokens) else None, TokenType.R_PAREN
        )
        yield _Marker(name, int(token.start), int(after.end) + 1, alone)


def _is(token: Token | None, kind: TokenType) -> bool:
    return token is not None and token.token_type is kind


def _check_names(used: Sequence[str], parameters: Mapping[str, object]) -> None:
    for name in used:
        if name not in parameters:
            hint = nearest(name, parameters) or f" (given: {listed(parameters)})"
            raise InvalidError(f"parameter :{name} has no value{hint}")
    for name in parameters:
        if name not in used:
            hint = nearest(name, used) or f" (it has: {listed(used)})"
            raise InvalidError(f"the statement has no parameter :{name}{hint}")


def _inlined(marker: _Marker, value: object) -> str:
    items = _items(value)
    if items is None:
        return literal(value, marker.name)
    found = [literal(one, marker.name) for one in _filled(items, marker.name)]
    return _in_parentheses(", ".join(found), marker)


def _in_parentheses(text: str, marker: _Marker) -> str:
    return text if marker.alone else f"({text})"


def _items(value: object) -> Sequence[object] | None:
    return value if isinstance(value, (list, tuple)) else None


def _filled(items: Sequence[object], name: str) -> Sequence[object]:
    if not items:
        raise InvalidError(f"parameter :{name}: expected at least one value, found an empty list")
    return items


def _integer(value: int) -> str:
    return str(value) if -_LONG < value < _LONG else f"{value}BD"


def _string(value: str) -> str:
    # The grammar of predicates rejects this sequence, where Spark puts the value of a variable.
    parts = [_quoted(part) for part in value.replace("${", "$\0{").split("\0")]
    if "${" not in value or "\0" in value:
        return _quoted(value)
    return f"concat({', '.join(parts)})"


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _timestamp(value: dt.datetime) -> str:
    return value.isoformat(sep=" ")
