"""The dialect that sqlglot parses: Spark's, as Spark 4 reads it.

Every statement is split into tokens here, so statements that sqlglot has no grammar for are parsed
from the same tokens (`words.py`).
"""

import logging
from typing import ClassVar, Final, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from lakebed.errors import InvalidError
from lakebed.sql.syntax.hints import misspelled_keyword

MAX_CHARACTERS: Final = 1_000_000
_SHOWN: Final = 60
# It warns about statements that it does not parse; these are parsed here, or rejected.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class LakebedSql(Spark):
    """Spark's SQL with quotes doubled inside strings, and without sqlglot's unparsed commands."""

    class Tokenizer(Spark.Tokenizer):
        """Splits every statement into tokens, also SHOW and CALL."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text`, without comments; raise InvalidError for an open quote."""
    if not isinstance(text, str):
        raise InvalidError(f"SQL: expected a statement as a string, found {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise InvalidError(
            f"SQL: a statement of {len(text):,} characters; expected at most {MAX_CHARACTERS:,}"
        )
    try:
        return list(LakebedSql().tokenize(text))
    except SqlglotError as error:
        first = str(error).partition("\n")[0]
        raise InvalidError(f"SQL: {first}; is a quote or a comment not closed?") from None


def parse_one(text: str) -> exp.Expression:
    """Parse one statement; raise InvalidError with the position of a syntax error."""
    tokens = tokenize(text)
    try:
        trees = LakebedSql().parser().parse(tokens, text)
    except RecursionError:
        raise InvalidError("SQL: the statement is nested too deeply") from None
    except SqlglotError as error:
        raise _syntax_error(text, tokens, error) from None
    found = [tree for tree in trees if tree is not None]
    if len(found) != 1 or isinstance(found[0], exp.Command):
        raise syntax_error(text, tokens[0].start if tokens else 0, "expected one statement", tokens)
    return cast("exp.Expression", found[0])


def syntax_error(
    text: str, at: int, problem: str, tokens: list[Token] | None = None
) -> InvalidError:
    """Return the error for a problem at a character of the statement."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    rest = text[at : at + _SHOWN].partition("\n")[0]
    near = f"at {rest!r}" if rest.strip() else "at the end"
    # The misspelled word is usually the one before the place where parsing stopped.
    words = sorted(
        filter(_is_bare_word, tokens or ()), key=lambda one: (one.start >= at, abs(one.start - at))
    )
    hint = misspelled_keyword([str(token.text) for token in words])
    return InvalidError(f"SQL: {problem} (line {line}, column {column}, {near}){hint}")


def _syntax_error(text: str, tokens: list[Token], error: SqlglotError) -> InvalidError:
    facts = getattr(error, "errors", None) or [{}]
    problem = str(facts[0].get("description") or "syntax error").rstrip(".")
    if "sqlglot" in problem or "<class" in problem:
        problem = "syntax error"
    wanted = str(facts[0].get("highlight") or "")
    start = len(str(facts[0].get("start_context") or ""))
    at = text.find(wanted, start) if wanted else -1
    line, col = facts[0].get("line"), facts[0].get("col")
    for token in tokens:
        # The column is that of the last character of a token.
        if (token.line, token.col) == (line, col):
            at = token.start
            break
    return syntax_error(text, len(text) if at < 0 else at, problem, tokens)


def _is_bare_word(token: Token) -> bool:
    return token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
