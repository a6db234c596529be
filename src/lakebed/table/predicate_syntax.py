"""A predicate's text as a tree, where sqlglot reads it as Spark does.

sqlglot parses many dialects and guesses kindly; Spark's grammar is narrower, and in places
it groups otherwise. What the two could read differently is refused here, by name: comments,
escapes that only one of them knows, and comparisons in a row without parentheses.
"""

import re

from sqlglot import expressions as sql
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokens import Token, TokenType

from lakebed.errors import InvalidError, UnsupportedError

_MAX_TEXT = 100_000
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
# As Spark reads them; the pattern's escapes stay for LIKE to read.
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"} | {
    "%": r"\%",
    "_": r"\_",
}
# After these words a parenthesis groups; after any other it belongs to a function or a type.
_BEFORE_GROUP = frozenset({"AND", "OR", "NOT", "BETWEEN", "LIKE", "FROM"})
# The words of a predicate, and the tokens that are not words of SQL.
_GRAMMAR = _BEFORE_GROUP - {"FROM"} | {"IN", "IS", "NULL", "TRUE", "FALSE", "CAST", "AS"}
_NO_WORDS = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
# The parts of sqlglot's nodes that are looked at: another could turn the meaning round.
_PARTS = frozenset(
    {"this", "expression", "expressions", "query", "low", "high", "negate", "to"}
    | {"is_string", "quoted", "table", "db", "catalog"}
)
_LOGIC = (sql.And, sql.Or, sql.Not, sql.Paren)
COMPARISONS = (sql.EQ, sql.NEQ, sql.LT, sql.LTE, sql.GT, sql.GTE, sql.NullSafeEQ, sql.NullSafeNEQ)
_TRUTHS = (*COMPARISONS, sql.In, sql.Between, sql.Is, sql.Like, sql.And, sql.Or, sql.Not)


def parse_tree(text: str) -> sql.Expression:
    """Parse `text`, or raise for what Spark's grammar would not read the same way."""
    if len(text) > _MAX_TEXT:
        raise InvalidError(f"predicate of {len(text)} characters: want at most {_MAX_TEXT}")
    if "${" in text:
        raise refuse(text, "${ (Spark puts the value of a variable there)")
    dialect = Dialect.get_or_raise("spark")
    tokens: list[Token] = []
    try:
        tokens = dialect.tokenize(text)
        _check_gaps(text, tokens)
        trees = dialect.parser().parse_into(sql.Condition, _with_strings(text, tokens), text)
        if len(trees) != 1 or trees[0] is None:
            raise InvalidError(f"predicate {text[:200]!r}: want one condition")
        _check_grouping(text, tokens, trees[0])
    except ParseError as error:
        raise InvalidError(f"predicate {text[:200]!r}: {_explained(error, tokens)}") from error
    except (SqlglotError, RecursionError) as error:
        raise InvalidError(f"predicate {text[:200]!r}: {error}") from error
    return trees[0]


def refuse(text: str, part: str) -> UnsupportedError:
    """Give the error for a part of `text` that only Spark can evaluate."""
    return UnsupportedError(
        f"predicate {text[:200]!r}: {part[:200]} is not understood in process; "
        "filter the result instead, or read with Spark"
    )


def _explained(error: ParseError, tokens: list[Token]) -> str:
    """Say where a text stops being a condition, and how a column with such a name is written."""
    near = str(error.errors[0].get("highlight") or "")[:50] if error.errors else ""
    words = [token.text for token in tokens if token.token_type not in _NO_WORDS]
    names = [word for word in words if word.isidentifier() and word.upper() not in _GRAMMAR]
    return (
        f"want a condition in SQL, which it stops being at {near!r}; a column that is named like a "
        f"word of SQL is written in backticks: `{names[0] if names else 'in'}` = 1"
    )


def _check_gaps(text: str, tokens: list[Token]) -> None:
    end, before = 0, ""
    for token in tokens:
        _check_gap(text, text[end : token.start])
        end = token.end + 1
        if token.token_type == TokenType.SEMICOLON:
            raise InvalidError(f"predicate {text[:200]!r}: want one condition, found a ;")
        word = text[token.start : end].upper()
        if word == "UNKNOWN" and before in ("IS", "NOT"):
            raise refuse(text, f"{before} UNKNOWN")  # to sqlglot the same as NULL
        before = word
    _check_gap(text, text[end:])


def _check_gap(text: str, gap: str) -> None:
    if gap.strip(" \t\r\n"):
        raise refuse(text, f"the comment or blank {gap.strip()!r}")


def _with_strings(text: str, tokens: list[Token]) -> list[Token]:
    """Give `tokens` with the values that Spark gives to string literals.

    A quote written twice is one quote; to sqlglot these are two literals side by side.
    """
    out: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.STRING:
            out.append(token)
            continue
        quote = text[token.start]
        value = _unescape(text, text[token.start + 1 : token.end])
        last = out[-1] if out else None
        start = token.start
        if last is not None and last.token_type == TokenType.STRING:
            if last.end + 1 != token.start or text[last.start] != quote:
                raise refuse(text, "a literal right after another")
            value, start = last.text + quote + value, last.start
            out.pop()
        made = Token(TokenType.STRING, value, token.line, token.col, start, token.end)
        out.append(made)
    return out


def _unescape(text: str, raw: str) -> str:
    def one(found: re.Match[str]) -> str:
        letter = found.group(1)
        if letter in "123456789uU":
            raise refuse(text, f"the escape {found.group()}")
        return _ESCAPES.get(letter, letter)

    if re.search(r"\\0\d", raw):
        raise refuse(text, "an octal escape")
    return _ESCAPE.sub(one, raw)


def _check_grouping(text: str, tokens: list[Token], tree: sql.Expression) -> None:
    groups = 0
    for node in tree.walk():
        groups += isinstance(node, sql.Paren)
        if any(held and part not in _PARTS for part, held in node.args.items()):
            raise refuse(text, node.sql("spark"))
        # `a = b < c` is (a = b) < c to Spark and a = (b < c) to sqlglot.
        if isinstance(node, _TRUTHS) and node.parent and not isinstance(node.parent, _LOGIC):
            raise refuse(text, f"{node.sql('spark')} inside a comparison without parentheses")
    if groups != sum(map(_opens_group, [None, *tokens], tokens)):
        raise refuse(text, "a row of tests without parentheses")


def _opens_group(before: Token | None, token: Token) -> bool:
    if token.token_type != TokenType.L_PAREN:
        return False
    if before is None or not re.search(r"\w", before.text):
        return True
    return before.text.upper() in _BEFORE_GROUP
