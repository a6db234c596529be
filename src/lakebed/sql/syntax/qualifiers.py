"""Column names without the name of their table, for queries and statements on one table."""

from collections.abc import Collection

from sqlglot.tokens import Token, TokenType

from lakebed.sql.syntax.dialect import tokenize


def unqualified(text: str, names: Collection[str], columns: Collection[str]) -> str:
    """Return `text` without `name.` before columns; a column of that name is a struct.

    >>> unqualified("t.id = 1 AND t.note = 't.x'", ["t"], ["id", "note"])
    "id = 1 AND note = 't.x'"
    """
    folded = {name.lower() for name in names} - {name.lower() for name in columns}
    tokens = tokenize(text)
    pieces, at = [], 0
    for place in range(len(tokens) - 2):
        token, dot = tokens[place], tokens[place + 1]
        if (
            dot.token_type is TokenType.DOT
            and token.token_type not in (TokenType.STRING, TokenType.NUMBER)
            and token.text.lower() in folded
            and not _follows_dot(tokens, place)
        ):
            pieces.append(text[at : token.start])
            at = int(tokens[place + 2].start)
    return "".join([*pieces, text[at:]])


def _follows_dot(tokens: list[Token], place: int) -> bool:
    return place > 0 and tokens[place - 1].token_type is TokenType.DOT
