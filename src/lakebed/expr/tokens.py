"""The tokens of a predicate, by Spark's lexical rules.

Comments, raw strings, numeric escapes and variables are rejected with an error that names them:
Spark interprets them by session settings, or they are not SQL.
"""

import re
from dataclasses import dataclass
from enum import Enum

from lakebed.errors import InvalidError, UnsupportedError

_MAX_TEXT = 100_000
_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<comment>--|/\*)
    |(?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)+`)
    |(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:BD|[LSYDF])?)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign><=>|<>|!=|<=|>=|==|::|\|\||[-=<>+*/%(),.!\[\]])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE | re.ASCII,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
# Spark's escapes; those of LIKE patterns remain escaped, for LIKE to parse.
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"} | {
    "%": r"\%",
    "_": r"\_",
}


class Kind(Enum):
    """The kind of a token."""

    STRING = "string"
    QUOTED = "quoted"  # a name in backticks
    NUMBER = "number"
    WORD = "word"
    SIGN = "sign"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its position in the text, and its value, without quotes and escapes."""

    kind: Kind
    value: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Return whether this is one of the upper-case `words`, in any case."""
        return self.kind is Kind.WORD and self.value.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Return whether this is one of `signs`."""
        return self.kind is Kind.SIGN and self.value in signs


def unsupported(text: str, part: str) -> UnsupportedError:
    """Return the error for a part of the predicate `text` that is not supported."""
    return UnsupportedError(
        f"predicate {text[:200]!r}: {part[:200]} is not supported in `where` "
        "(docs/where.md lists what is); filter the rows that read() returns instead"
    )


def invalid(text: str, problem: str) -> InvalidError:
    """Return the error for an invalid predicate `text`."""
    return InvalidError(f"predicate {text[:200]!r}: {problem}")


def tokenize(text: str) -> list[Token]:
    """Return the tokens of `text`, followed by one of kind END."""
    if len(text) > _MAX_TEXT:
        raise InvalidError(f"predicate of {len(text)} characters: expected at most {_MAX_TEXT}")
    if text.encode("utf-8", "ignore").decode() != text:
        raise invalid(text, "it contains half of a surrogate pair, which is not a character")
    if "${" in text:
        raise unsupported(text, "${ (Spark puts the value of a variable there)")
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unknown(text, position)
        kind = found.lastgroup or ""
        if kind == "comment":
            raise unsupported(text, f"the comment {text[position : position + 50]!r}")
        if kind != "blank":
            tokens.append(_token(text, Kind(kind), found, tokens))
        position = found.end()
    tokens.append(Token(Kind.END, "", len(text), len(text)))
    return tokens


def _token(text: str, kind: Kind, found: re.Match[str], before: list[Token]) -> Token:
    raw = found.group()
    if kind is Kind.NUMBER and re.match(r"\w", text[found.end() : found.end() + 1]):
        word = re.match(r"\w+", text[found.start() :])
        name = word.group() if word else raw
        raise invalid(text, f"{name[:60]!r} is not a number; a column is written `{name[:60]}`")
    if kind is Kind.STRING:
        if before and before[-1].kind is Kind.STRING:
            raise unsupported(text, f"a string literal right after another: {raw}")
        if before and before[-1].end == found.start() and before[-1].is_word("R"):
            raise unsupported(text, f"the raw string r{raw}")
        quote = raw[0]
        raw = _unescape(text, raw[1:-1].replace(quote * 2, quote))
    elif kind is Kind.QUOTED:
        raw = raw[1:-1].replace("``", "`")
    return Token(kind, raw, found.start(), found.end())


def _unescape(text: str, raw: str) -> str:
    def one(found: re.Match[str]) -> str:
        letter = found.group(1)
        if letter in "123456789uU":
            raise unsupported(text, f"the escape {found.group()}")
        return _ESCAPES.get(letter, letter)

    if re.search(r"\\0[0-9]", raw):
        raise unsupported(text, "an octal escape")
    return _ESCAPE.sub(one, raw)


def _unknown(text: str, position: int) -> InvalidError | UnsupportedError:
    letter = text[position]
    if letter in "'\"`":
        return invalid(text, f"a {letter} is not closed: {text[position : position + 50]!r}")
    if letter == ";":
        return invalid(text, "expected one condition, found a ;")
    word = re.match(r"\w+", text[position:])
    if word is not None and not letter.isspace():
        return invalid(
            text,
            f"a name that is not ASCII needs backticks: `{word.group()[:60]}`",
        )
    return unsupported(text, f"the character {letter!r}")
