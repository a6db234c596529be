"""MERGE INTO."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot.tokens import TokenType

from lakebed.api.merge.builder import MergeBuilder
from lakebed.errors import InvalidError, UnsupportedError
from lakebed.sql.names import Name
from lakebed.sql.query.run import run_query
from lakebed.sql.rows.dml import assignment, has_subquery
from lakebed.sql.session import Session
from lakebed.sql.syntax.columns import name_list, split
from lakebed.sql.syntax.parameters import inline
from lakebed.sql.syntax.words import Words

_WHEN = (("WHEN",),)


@dataclass(slots=True)
class _Merge:
    """The head of a MERGE: target, source and join condition."""

    target: Name
    target_alias: str
    source: str
    source_alias: str
    on: str
    columns: list[str] = field(default_factory=list)


def merge(session: Session, words: Words) -> Any:
    """Execute MERGE INTO."""
    words.expect("INTO")
    statement = _parse_head(words)
    table = session.table(statement.target)
    source = run_query(session, statement.source)
    if statement.columns:
        source = _renamed(source, statement.columns)
    builder = table.merge(
        source,
        _expression(session, statement.on),
        source_alias=statement.source_alias,
        target_alias=statement.target_alias,
    )
    clauses = _Clauses(session, words, statement, table.schema.names, table.name)
    if words.here is None:
        raise words.wrong("expected WHEN MATCHED or WHEN NOT MATCHED")
    while words.here is not None:
        builder = clauses.add(builder)
    return session.counts(builder.execute())


def _parse_head(words: Words) -> _Merge:
    target = words.names("the name of a table")
    target_alias = target[-1]
    words.take("AS")
    if not words.is_word("USING"):
        target_alias = words.name("an alias, or USING")
    words.expect("USING")
    if words.here is not None and words.here.text == "(":
        begin, end = words.parenthesized()
        source, source_alias = words.text[begin:end], "source"
    else:
        begin = words.start
        source_alias = words.names("the name of a table")[-1]
        end = int(words.tokens[words.at - 1].end) + 1
        if words.is_word("TIMESTAMP", "VERSION", "FOR"):
            while not words.is_word("OF"):
                words.at += 1
            words.at += 2 + (words.tokens[words.at + 1].token_type is TokenType.COLON)
            end = int(words.tokens[words.at - 1].end) + 1
        # The name is the statement's own text.
        source = f"SELECT * FROM {words.text[begin:end]}"  # noqa: S608
    words.take("AS")
    columns: list[str] = []
    if not words.is_word("ON"):
        source_alias = words.name("an alias, or ON")
        if words.here is not None and words.here.text == "(":
            columns = name_list(words)
    words.expect("ON")
    begin, end = words.until(_WHEN)
    return _Merge(target, target_alias, source, source_alias, words.text[begin:end], columns)


def _renamed(source: Any, names: list[str]) -> Any:
    if isinstance(source, pa.RecordBatchReader):
        if len(names) != len(source.schema):
            raise InvalidError(f"MERGE: the source has {len(source.schema)} columns, not {names}")
        return source.read_all().rename_columns(names)
    if len(names) != len(source.columns):
        raise InvalidError(f"MERGE: the source has {len(source.columns)} columns, not {names}")
    return source.toDF(*names)


def _expression(session: Session, text: str) -> str:
    if not text.strip():
        raise InvalidError("MERGE: expected a condition or an expression")
    if has_subquery(text):
        raise UnsupportedError(
            "MERGE: a subquery in a condition or a value is not supported; join it into the source: "
            "USING (SELECT ...)"
        )
    return inline(text, session.used(text))


@dataclass(slots=True)
class _Clauses:
    """The WHEN clauses, added to the builder one after the other."""

    session: Session
    words: Words
    head: _Merge
    columns: list[str]
    table: str

    def add(self, builder: MergeBuilder) -> MergeBuilder:
        """Parse one clause, and return the builder with it."""
        words = self.words
        words.expect("WHEN")
        is_matched = not words.take("NOT")
        words.expect("MATCHED")
        by_source = False
        if not is_matched and words.take("BY"):
            by_source = words.take("SOURCE")
            if not by_source:
                words.expect("TARGET")
        condition = None
        if words.take("AND"):
            begin, end = words.until([("THEN",)])
            condition = _expression(self.session, words.text[begin:end])
        words.expect("THEN")
        if not is_matched and not by_source:
            words.expect("INSERT")
            return builder.when_not_matched(condition).insert(self._inserted())
        if words.take("DELETE"):
            if by_source:
                return builder.when_not_matched_by_source(condition).delete()
            return builder.when_matched(condition).delete()
        words.expect("UPDATE")
        words.expect("SET")
        if by_source:
            updated = self._updated()
            if updated is None:
                raise InvalidError("MERGE: SET * needs a source row; name the columns to set")
            return builder.when_not_matched_by_source(condition).update(updated)
        return builder.when_matched(condition).update(self._updated() or "all")

    def _updated(self) -> dict[str, str] | None:
        """Return the assigned columns; None for all."""
        words = self.words
        if words.take_sign(TokenType.STAR):
            return None
        begin, end = words.until(_WHEN)
        found: dict[str, str] = {}
        aliases = [self.head.target_alias, self.head.target[-1]]
        for item in split(words.text[begin:end]):
            column, value = assignment(item, aliases, self.columns, self.table)
            if column in found:
                raise InvalidError(f"MERGE: column {column!r} is assigned twice")
            found[column] = _expression(self.session, value)
        return found

    def _inserted(self) -> dict[str, str] | str:
        """Return the values of columns; "all" for all."""
        words = self.words
        if words.take_sign(TokenType.STAR):
            return "all"
        names = list(self.columns)
        if words.here is not None and words.here.text == "(":
            # A name may be qualified by the target.
            names = [name.rpartition(".")[2] for name in name_list(words)]
        words.expect("VALUES")
        begin, end = words.parenthesized()
        values = split(words.text[begin:end])
        if len(values) != len(names):
            raise InvalidError(
                f"MERGE: INSERT names {len(names)} columns ({', '.join(names)}) and has "
                f"{len(values)} values"
            )
        return {
            name: _expression(self.session, value)
            for name, value in zip(names, values, strict=True)
        }
