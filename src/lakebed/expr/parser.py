"""Parse a predicate to a tree by precedence climbing, with Spark's precedence.

From lowest to highest: OR, AND, NOT, one test (BETWEEN, IN, LIKE, IS), comparisons, + - ||,
* / % DIV, signs. As in Spark, comparisons associate to the left, and a test cannot follow another
test without parentheses.
"""

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.expr.syntax import Syntax
from lakebed.expr.tokens import Kind, Token, invalid, tokenize, unsupported

_OR, _AND, _NOT, _TEST, _COMPARISON, _SUM, _PRODUCT, _SIGN = range(1, 9)
_LEVELS = {
    **dict.fromkeys(("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"), _COMPARISON),
    **dict.fromkeys(("+", "-", "||"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_WORD_LEVELS = {"OR": _OR, "AND": _AND, "DIV": _PRODUCT} | dict.fromkeys(
    ("BETWEEN", "IN", "LIKE", "IS", "NOT"), _TEST
)
_SPELLED = {"==": "=", "!=": "<>"}
# Words that need backticks to be column names; the second group only inside a CASE.
_RESERVED = frozenset(
    ["AND", "OR", "NOT", "IN", "IS", "NULL", "TRUE", "FALSE", "BETWEEN", "LIKE", "CASE", "SELECT"]
)
_OF_CASE = frozenset(["WHEN", "THEN", "ELSE", "END"])
# Words of Spark's grammar that are not supported here.
_OTHERS = frozenset(
    [
        "ILIKE",
        "RLIKE",
        "REGEXP",
        "ANY",
        "SOME",
        "ALL",
        "EXISTS",
        "SELECT",
        "INTERVAL",
        "UNKNOWN",
        "SYMMETRIC",
    ]
)
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ")
_MAX_DEPTH = 120


def parse_syntax(text: str) -> Syntax:
    """Parse `text`; raise an error for anything outside the grammar."""
    tokens = tokenize(text)
    if len(tokens) == 1:
        raise invalid(text, "expected one condition")
    return _Parser(text, tokens).whole()


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._cases = 0

    def whole(self) -> Syntax:
        """Parse all tokens as one condition."""
        tree = self.expression(_OR)
        if self.here.kind is not Kind.END:
            raise self.unexpected()
        return tree

    @property
    def here(self) -> Token:
        """Return the next token."""
        return self._tokens[self._at]

    def expression(self, level: int) -> Syntax:
        """Parse an expression whose operators have precedence `level` or higher."""
        self._deeper()
        start = self.here.start
        if self.here.is_word("NOT") or self.here.is_sign("!"):
            if level > _NOT:
                raise self.unexpected()
            self._next()
            left, held = self._node("not", start, self.expression(_NOT)), _NOT
        else:
            left, held = self._signed(), _SIGN
        while (found := self._level()) >= level and held >= found and (found, held) != (4, 4):
            left, held = self._binary(left, found, start), found
        self._depth -= 1
        return left

    def _level(self) -> int:
        token = self.here
        if token.kind is Kind.SIGN:
            return _LEVELS.get(token.value, 0)
        return _WORD_LEVELS.get(token.value.upper(), 0) if token.kind is Kind.WORD else 0

    def _binary(self, left: Syntax, level: int, start: int) -> Syntax:
        if level == _TEST:
            return self._test(left, start)
        operator = self._next().value.upper()
        right = self.expression(level + 1)
        if level in (_OR, _AND):
            # Many operands become one node, because the depth of the tree is limited.
            parts = [left, right]
            while self.here.is_word(operator):
                self._next()
                parts.append(self.expression(level + 1))
            return self._node(operator.lower(), start, *parts)
        return self._node(_SPELLED.get(operator, operator).lower(), start, left, right)

    def _test(self, left: Syntax, start: int) -> Syntax:
        negated = self._accept("NOT")
        if self._accept("BETWEEN"):
            low = self.expression(_COMPARISON)
            self._expect_word("AND")
            node = self._node("between", start, left, low, self.expression(_COMPARISON))
        elif self._accept("IN"):
            self._expect_sign("(")
            node = self._node("in", start, left, *self._list())
        elif self._accept("LIKE"):
            pattern = self.expression(_COMPARISON)
            escape = self._string() if self._accept("ESCAPE") else None
            node = self._node("like", start, left, pattern, value=escape)
        elif not negated and self._accept("IS"):
            negated = self._accept("NOT")
            node = self._is(left, start)
        else:
            raise self.unexpected()
        return self._node("not", start, node) if negated else node

    def _is(self, left: Syntax, start: int) -> Syntax:
        if self._accept("NULL"):
            return self._node("is null", start, left)
        for word in ("TRUE", "FALSE"):
            if self._accept(word):
                return self._node("is truth", start, left, value=word == "TRUE")
        if self._accept("DISTINCT"):
            self._expect_word("FROM")
            same = self._node("<=>", start, left, self.expression(_COMPARISON))
            return self._node("not", start, same)
        raise self.unexpected()

    def _signed(self) -> Syntax:
        token = self.here
        if not token.is_sign("-", "+"):
            return self._with_postfix(self._primary())
        self._next()
        if token.value == "-" and self.here.kind is Kind.NUMBER:
            number = self._next().value
            literal = self._node("number", token.start, value=f"-{number}")
            return self._with_postfix(literal)
        self._deeper()
        operand = self._signed()
        self._depth -= 1
        return self._node("negative" if token.value == "-" else "positive", token.start, operand)

    def _with_postfix(self, node: Syntax) -> Syntax:
        while self.here.is_sign("::", ".", "["):
            sign = self._next().value
            if sign == "[":
                raise unsupported(self._text, f"the element {self._text[node.start :][:50]}")
            if sign == ".":
                if self.here.kind not in (Kind.WORD, Kind.QUOTED):
                    raise self.unexpected("the name of a field")
                node = self._node("field", node.start, node, value=self._next().value)
            else:
                node = self._node("cast", node.start, node, value=self._type())
        return node

    def _primary(self) -> Syntax:
        token = self._next()
        if token.kind is Kind.NUMBER:
            return self._node("number", token.start, value=token.value)
        if token.kind is Kind.STRING:
            return self._node("string", token.start, value=token.value)
        if token.kind is Kind.QUOTED:
            return self._node("column", token.start, value=token.value)
        if token.is_sign("("):
            inner = self.expression(_OR)
            if self.here.is_sign(","):
                raise unsupported(self._text, "a row of values in parentheses")
            self._expect_sign(")")
            return self._node("group", token.start, inner)
        if token.kind is not Kind.WORD:
            raise self.unexpected(found=token)
        return self._word(token)

    def _word(self, token: Token) -> Syntax:
        word = token.value.upper()
        if word in ("TRUE", "FALSE", "NULL"):
            return self._node(word.lower(), token.start)
        if word == "CASE":
            return self._case(token.start)
        if self.here.kind is Kind.STRING and word in (*_TYPED, "X"):
            text = self._string()
            return self._node("typed", token.start, self._literal(text), value=word)
        if self.here.is_sign("("):
            self._next()
            if word in ("CAST", "TRY_CAST"):
                return self._cast(word.lower(), token.start)
            if self._is_reserved(word):
                raise self.unexpected(found=token)
            return self._node("call", token.start, *self._list(), value=word.lower())
        if self._is_reserved(word):
            raise self.unexpected(found=token)
        return self._node("column", token.start, value=token.value)

    def _is_reserved(self, word: str) -> bool:
        return word in _RESERVED or (self._cases > 0 and word in _OF_CASE)

    def _case(self, start: int) -> Syntax:
        self._cases += 1
        subject = None if self.here.is_word("WHEN") else self.expression(_OR)
        parts: list[Syntax] = []
        while self._accept("WHEN"):
            parts.append(self.expression(_OR))
            self._expect_word("THEN")
            parts.append(self.expression(_OR))
        if not parts:
            raise self.unexpected()
        if self._accept("ELSE"):
            parts.append(self.expression(_OR))
        self._expect_word("END")
        self._cases -= 1
        has_subject = subject is not None
        return self._node("case", start, *([subject] if subject else []), *parts, value=has_subject)

    def _cast(self, kind: str, start: int) -> Syntax:
        operand = self.expression(_OR)
        self._expect_word("AS")
        name = self._type()
        self._expect_sign(")")
        return self._node(kind, start, operand, value=name)

    def _type(self) -> tuple[str, ...]:
        """Parse the name of a type and its parameters, such as DECIMAL(10, 2)."""
        token = self._next()
        if token.kind is not Kind.WORD:
            raise self.unexpected(found=token)
        sizes = []
        if self.here.is_sign("("):
            self._next()
            while True:
                size = self._next()
                if size.kind is not Kind.NUMBER or not size.value.isdecimal():
                    raise self.unexpected(found=size)
                sizes.append(size.value)
                if not self.here.is_sign(","):
                    break
                self._next()
            self._expect_sign(")")
        return token.value.upper(), *sizes

    def _list(self) -> list[Syntax]:
        """Parse the rest of a comma-separated list, after its opening parenthesis."""
        items: list[Syntax] = []
        if self.here.is_sign(")"):
            self._next()
            return items
        while True:
            items.append(self.expression(_OR))
            if not self.here.is_sign(","):
                self._expect_sign(")")
                return items
            self._next()

    def _string(self) -> str:
        if self.here.kind is not Kind.STRING:
            raise self.unexpected()
        return self._next().value

    def _literal(self, text: str) -> Syntax:
        return self._node("string", self._tokens[self._at - 1].start, value=text)

    def _node(self, kind: str, start: int, *args: Syntax, value: object = None) -> Syntax:
        depth = 1 + max((arg.depth for arg in args), default=0)
        if depth > _MAX_DEPTH:
            raise self._too_deep()
        return Syntax(kind, args, value, start, self._tokens[max(self._at - 1, 0)].end, depth)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._too_deep()

    def _too_deep(self) -> InvalidError:
        return invalid(self._text, f"it is nested more than {_MAX_DEPTH} deep")

    def _next(self) -> Token:
        token = self.here
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _accept(self, word: str) -> bool:
        if not self.here.is_word(word):
            return False
        self._next()
        return True

    def _expect_word(self, word: str) -> None:
        if not self._accept(word):
            raise self.unexpected(word)

    def _expect_sign(self, sign: str) -> None:
        if not self.here.is_sign(sign):
            raise self.unexpected(sign)
        self._next()

    def unexpected(
        self, wanted: str = "", found: Token | None = None
    ) -> InvalidError | UnsupportedError:
        """Return the error for an unexpected token, by default the next token."""
        token = found or self.here
        for near in (token, self._tokens[max(self._at - 1, 0)]):
            if near.is_word(*_OTHERS):
                return unsupported(self._text, near.value.upper())
        place = "its end" if token.kind is Kind.END else repr(self._text[token.start : token.end])
        hint = ""
        if token.kind is Kind.WORD:
            hint = f"; a column with such a name is written in backticks: `{token.value}` = 1"
        want = wanted or "a condition"
        return invalid(self._text, f"expected {want}, stopped at {place}{hint}")
