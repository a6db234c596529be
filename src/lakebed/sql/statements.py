"""The statements: which words begin one, and which function executes it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlglot.tokens import TokenType

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.sql import alter, create, indexes, procedures, show
from lakebed.sql.names import Names
from lakebed.sql.query.run import explain_reads, run_query
from lakebed.sql.rows import dml, insert, merge
from lakebed.sql.session import Session
from lakebed.sql.syntax.dialect import parse_one, tokenize
from lakebed.sql.syntax.hints import misspelled_keyword
from lakebed.sql.syntax.parameters import check_parameters, inline
from lakebed.sql.syntax.words import Words

_Statement = Callable[[Session, Words], Any]
_STATEMENTS: Final[Mapping[tuple[str, ...], _Statement]] = {
    ("CREATE", "TABLE"): create.create,
    ("CREATE", "INDEX"): indexes.create,
    ("DROP", "TABLE"): create.drop,
    ("DROP", "INDEX"): indexes.drop,
    ("ALTER", "TABLE"): alter.alter,
    ("TRUNCATE", "TABLE"): dml.truncate,
    ("DELETE", "FROM"): dml.delete,
    ("UPDATE",): dml.update,
    ("CALL",): procedures.call,
    ("SHOW",): show.show,
    ("DESCRIBE",): show.describe,
    ("DESC",): show.describe,
}
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_HINTS: Final = {
    "OPTIMIZE": "CALL run_clustering(table => 't'), or CALL run_compaction(table => 't')",
    "VACUUM": "CALL run_clean(table => 't')",
    "RESTORE": "CALL rollback_to_savepoint(table => 't', instant_time => '...')",
    "REFRESH": "nothing: every statement reads the latest commit",
    "ANALYZE": "nothing: statistics are written with every file",
    "USE": "the names of databases, as in sales.orders",
    "SET": "options of the session (spark.conf.set), or ALTER TABLE t SET TBLPROPERTIES (...)",
}
FIRST_WORDS: Final = sorted(
    {words[0] for words in _STATEMENTS} | {*_QUERIES, "INSERT", "MERGE", "EXPLAIN"}
)
"""The words that begin a statement."""


def execute(catalog: Names, text: str, parameters: Mapping[str, object]) -> Any:
    """Execute one statement; return a DataFrame, or without Spark a RecordBatchReader."""
    words = Words(text)
    if words.here is None:
        raise InvalidError("SQL: expected a statement, found nothing")
    check_parameters(text, parameters)
    session = Session(catalog, parameters)
    for first, statement in _STATEMENTS.items():
        if all(words.is_word(word, ahead=at) for at, word in enumerate(first)):
            given = Words(inline(text, parameters))
            given.take(*first)
            return statement(session, given)
    if words.take("EXPLAIN"):
        words.take("EXTENDED") or words.take("FORMATTED") or words.take("COST")
        return show.explain(session, explain_reads(session, words.text[words.start :]))
    if words.take("MERGE"):
        return merge.merge(session, words)
    return _query(session, words)


def _query(session: Session, words: Words) -> Any:
    prefix = ""
    if words.is_word("WITH"):
        begin, end = words.until([("INSERT",), ("SELECT",), ("FROM",), ("VALUES",)])
        if words.is_word("INSERT"):
            prefix = words.text[begin:end]
        else:
            words.at = 0
    if words.take("INSERT"):
        return insert.insert(session, words, prefix)
    first = words.here
    assert first is not None
    if words.is_word(*_QUERIES) or first.text == "(":
        text = words.text
        if words.take("TABLE"):
            # The rest is the statement's own text.
            text = f"SELECT * FROM {words.text[words.start :]}"  # noqa: S608
        return run_query(session, text)
    raise _unknown(words)


def _unknown(words: Words) -> Exception:
    assert words.here is not None
    word = str(words.here.text).upper()
    if word in _HINTS:
        return UnsupportedError(f"SQL: {word} is not a statement of Lakebed; use {_HINTS[word]}")
    known = [" ".join(first) for first in _STATEMENTS if first[0] == word]
    if known:
        later = [str(token.text) for token in words.tokens[1:2]]
        return InvalidError(
            f"SQL: expected {' or '.join(known)}, found {' '.join([word, *later])}"
            f"{misspelled_keyword(later)}"
        )
    parse_one(words.text)  # raises the error with its position
    return InvalidError(
        f"SQL: expected a statement that begins with {', '.join(FIRST_WORDS)}; found {word}"
        f"{misspelled_keyword([word])}"
    )


def split_script(text: str) -> list[str]:
    """Return the statements of a script, which semicolons separate."""
    found, begin = [], 0
    tokens = tokenize(text)
    for at, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            found.append(text[begin : token.start])
            begin = int(token.end) + 1
        elif at == len(tokens) - 1:
            found.append(text[begin:])
    return [one.strip() for one in found if tokenize(one)]
