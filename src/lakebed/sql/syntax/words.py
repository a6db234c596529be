"""A cursor over the tokens of a statement, for the parts that are parsed word by word."""

import re
from collections.abc import Sequence

from sqlglot.tokens import Token, TokenType

from lakebed.errors import InvalidError
from lakebed.model.spelling import similar
from lakebed.sql.syntax.dialect import syntax_error, tokenize

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_VALUES = (TokenType.STRING, TokenType.NUMBER)


class Words:
    """The tokens of one statement, and the position of the next one."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = [part for token in tokenize(text) for part in _words_of(token, text)]
        while self.tokens and self.tokens[-1].token_type is TokenType.SEMICOLON:
            self.tokens.pop()
        self.at = 0

    @property
    def here(self) -> Token | None:
        """Return the next token; None at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    @property
    def start(self) -> int:
        """Return the position of the next token in the text."""
        return len(self.text) if self.here is None else self.here.start

    def is_word(self, *words: str, ahead: int = 0) -> bool:
        """Return whether the next token is one of the upper-case `words`, unquoted."""
        at = self.at + ahead
        token = self.tokens[at] if at < len(self.tokens) else None
        return token is not None and _word(token) in words

    def is_sign(self, sign: str) -> bool:
        """Return whether the next token is `sign`."""
        return self._is_sign(sign, 0)

    def take(self, *words: str) -> bool:
        """Skip the words if they come next, one after the other."""
        if not all(self.is_word(word, ahead=at) for at, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        """Skip the words, which must come next."""
        for word in words:
            if not self.take(word):
                raise self.wrong(f"expected {word}", [word], before=True)

    def take_sign(self, kind: TokenType) -> bool:
        """Skip a token of this kind if it comes next."""
        if self.here is None or self.here.token_type is not kind:
            return False
        self.at += 1
        return True

    def expect_sign(self, kind: TokenType, sign: str) -> None:
        """Skip a token of this kind, which must come next."""
        if not self.take_sign(kind):
            raise self.wrong(f"expected {sign!r}")

    def name(self, what: str) -> str:
        """Take a name, in backticks or not."""
        token = self.here
        if token is None or token.token_type in _VALUES or not (_word(token) or _quoted(token)):
            raise self.wrong(f"expected {what}")
        self.at += 1
        return str(token.text)

    def names(self, what: str) -> tuple[str, ...]:
        """Take a name of several parts, separated by dots."""
        found = [self.name(what)]
        while self.take_sign(TokenType.DOT):
            found.append(self.name(what))
        return tuple(found)

    def string(self, what: str) -> str:
        """Take a string in quotes."""
        token = self.here
        if token is None or token.token_type is not TokenType.STRING:
            raise self.wrong(f"expected {what} as a string in quotes")
        self.at += 1
        return str(token.text)

    def parenthesized(self) -> tuple[int, int]:
        """Skip a part in parentheses; return the positions of its first and last character."""
        begin = self.start
        self.expect_sign(TokenType.L_PAREN, "(")
        depth = 1
        while depth:
            token = self.here
            if token is None:
                raise self.wrong("expected ')'")
            depth += (token.token_type in _OPEN) - (token.token_type in _CLOSE)
            self.at += 1
        return begin + 1, int(self.tokens[self.at - 1].start)

    def until(self, stops: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Skip to the first of the word sequences `stops` outside parentheses and CASE, or the end.

        Returns the positions of the skipped part.
        """
        begin, end, depth = self.start, self.start, 0
        while self.here is not None:
            token = self.here
            if depth <= 0 and any(self._comes(stop) for stop in stops):
                break
            word = _word(token)
            depth += (token.token_type in _OPEN or word == "CASE") - (
                token.token_type in _CLOSE or word == "END"
            )
            end = int(token.end) + 1
            self.at += 1
        return begin, end

    def _comes(self, stop: Sequence[str]) -> bool:
        return all(
            self.is_word(word, ahead=at) or self._is_sign(word, at) for at, word in enumerate(stop)
        )

    def _is_sign(self, sign: str, ahead: int) -> bool:
        at = self.at + ahead
        return (
            at < len(self.tokens)
            and not sign[0].isalpha()
            and not _quoted(self.tokens[at])
            and self.tokens[at].text == sign
        )

    def end(self) -> None:
        """Raise an error unless all tokens were taken."""
        if self.here is not None:
            raise self.wrong("expected the end of the statement")

    def wrong(
        self, problem: str, known: Sequence[str] = (), *, before: bool = False
    ) -> InvalidError:
        """Return the error for the next token; `known` are words that it may resemble.

        With `before`, the token before it may be the misspelled one, taken for an alias.
        """
        suspects = self.tokens[max(self.at - before, 0) : self.at + 1]
        near = [similar(str(token.text), known, cutoff=0.7) for token in reversed(suspects)]
        hint = next((f"; did you mean {word!r}?" for word in near if word), "")
        error = syntax_error(self.text, self.start, problem)
        return InvalidError(f"{error}{hint}")


def _words_of(token: Token, text: str) -> list[Token]:
    """Return the words of a token: sqlglot makes one token of keywords such as ORDER BY."""
    held = text[token.start : token.end + 1]
    if token.token_type in _VALUES or _quoted(token) or not re.search(r"\s", held):
        return [token]
    return [
        Token(
            TokenType.VAR,
            found.group(),
            line=token.line,
            col=token.col,
            start=token.start + found.start(),
            end=token.start + found.end() - 1,
        )
        for found in re.finditer(r"\S+", held)
    ]


def _word(token: Token) -> str:
    """Return an unquoted word in upper case; an empty string for any other token."""
    if token.token_type in _VALUES or _quoted(token):
        return ""
    text = str(token.text)
    return text.upper() if text[:1].isalpha() or text[:1] == "_" else ""


def _quoted(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER
