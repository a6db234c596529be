"""A small table of awkward values, and random predicates on it, always the same from a seed."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from random import Random

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
MIN, MAX = -(2**63), 2**63 - 1
# One list of values a column, each cycled over the rows with a length of its own, so that
# values meet in many pairs; every list holds a null.
VALUES: list[tuple[str, pa.DataType, list[object]]] = [
    ("tiny", pa.int8(), [-128, 0, 5, 127, None]),
    ("num", pa.int32(), [0, 1, None, -1, 20_000_000, 2**31 - 1, -(2**31), 16_777_217]),
    ("Big", pa.int64(), [MIN, None, MAX, 0, 2**53 + 1, 2**53, -(2**53) - 1, MAX - 1, 10, 5, 1]),
    ("f", pa.float32(), [0.1, NAN, None, -0.0, 0.0, INF, -INF, 1.5, 16_777_216.0]),
    ("d", pa.float64(), [0.1, None, NAN, 0.5, -0.0, 0.0, INF, -INF, 1e300, 5e-324, 9007199254740992.0, -1.5]),
    ("e", pa.float64(), [NAN, 0.5, None, 0.0, 0.1, -INF, 0.10000000149011612]),
    ("price", pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-0.01"), None, Decimal("99999999.99"), Decimal("0.00"), Decimal("5.00")]),
    ("huge", pa.decimal128(38, 18), [Decimal("9" * 20 + "." + "9" * 18), Decimal("0.1"), None, Decimal("1.5"), Decimal("0.100000000000000001"), Decimal(-3)]),
    ("text", pa.string(), ["a", "", None, "A", "10", "9", "é", "e\u0301", "😀", "\uffff", "a_b", "axb", "50%", "it's", "a\nb", "back\\slash", "abc", "\t", "中文", "Straße ΣΑΣ", " b ", "日本 語"]),
    ("n", pa.string(), ["10", "9", None, "-1"]),
    ("when", pa.string(), ["2024-01-02", None, "1999-12-31"]),
    ("day", pa.date32(), [dt.date(2024, 1, 2), None, dt.date(1969, 12, 31), dt.date(9999, 12, 31), dt.date(1500, 3, 1), dt.date(2024, 1, 3)]),
    ("at", pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, 2, tzinfo=dt.UTC), None, dt.datetime(2024, 1, 2, 10, tzinfo=dt.UTC), dt.datetime(2024, 1, 2, 10, 0, 0, 1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)]),
    ("wall", pa.timestamp("us"), [dt.datetime(2024, 1, 2), dt.datetime(2024, 1, 2, 10), None, dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59)]),
    ("yes", pa.bool_(), [True, None, False]),
    ("no", pa.bool_(), [False, False, True, None, True]),
    ("bytes", pa.binary(), [b"", b"\xff", None, b"a"]),
    ("list", pa.list_(pa.int32()), [[1], None, [2]]),
    ("place", pa.struct([("x", pa.int32())]), [{"x": 1}, None]),
    # Ordinary values, that arithmetic seldom overflows on.
    ("i", pa.int32(), [3, -2, None, 7, 0, 1, -11]),
    ("j", pa.int64(), [2, 5, -3, None, 0, 1000003]),
    ("small", pa.int16(), [1, -1, None, 200, 0]),
    ("x", pa.float64(), [1.1, -2.2, 3.3, None, 0.7, 1e-3, 12345.678]),
    ("y", pa.float64(), [0.1, 0.2, -7.3, 2.5, None]),
    ("g", pa.float32(), [0.3, 2.7, None, -1.1]),
    ("m", pa.decimal128(10, 2), [Decimal("1.25"), None, Decimal("-3.10"), Decimal("0.05"), Decimal("7.77")]),
    ("k", pa.decimal128(5, 3), [Decimal("0.125"), Decimal("-9.999"), None, Decimal("2.000"), Decimal("0.000"), Decimal("33.335"), Decimal("1.005")]),
]  # fmt: skip
ROWS = 60
TABLE = pa.table(
    {"id": pa.array(range(ROWS), pa.int32())}
    | {
        name: pa.array([values[row % len(values)] for row in range(ROWS)], kind)
        for name, kind, values in VALUES
    }
)
_COLUMNS = {
    "int": ["i", "i", "j", "small", "tiny", "num", "Big", "id"],
    "real": ["x", "y", "x", "g", "f", "d", "e"],
    "decimal": ["m", "k", "m", "price", "huge"],
    "string": ["text", "text", "n", "when"],
    "date": ["day"],
    "moment": ["at", "wall"],
    "bool": ["yes", "no"],
    "binary": ["bytes"],
}
_LITERALS = {
    "int": ["0", "1", "2", "-3", "7", "10", "127Y", "-5S", "1000000007", "9223372036854775807", "NULL"],
    "real": ["0.0D", "1.1D", "-2.5D", "0.1F", "3e0", "1e300", "CAST('NaN' AS DOUBLE)", "CAST('-inf' AS FLOAT)", "CAST('3.4e+38' AS FLOAT)", "-0.0D"],
    "decimal": ["0.0", "1.5", "-0.01", "3.10", "100.005", "2BD", "CAST('1.125' AS DECIMAL(4, 2))"],
    "string": ["'a'", "''", "'10'", "'中文'", "'😀'", "'ß'", "' b '", "'2024-01-02'", "\"it's\"", "NULL"],
    "date": ["DATE '2024-01-02'", "DATE '1969-12-31'", "'2024-01-03'"],
    "moment": ["TIMESTAMP '2024-01-02 10:00:00'", "TIMESTAMP_NTZ '2024-01-02 10:00:00.5'", "'2024-01-02'"],
    "bool": ["true", "false", "NULL"],
    "binary": ["X'61'", "X''"],
}  # fmt: skip
_PATTERNS = ["a%", "%", "_", "%b", "a\\\\_b", "%中%", "__", "", "%😀", "5_\\\\%", "%ß%"]
_TYPES = {
    "int": ["TINYINT", "SMALLINT", "INT", "BIGINT"],
    "real": ["FLOAT", "DOUBLE"],
    "decimal": ["DECIMAL(10, 2)", "DECIMAL(20, 5)", "DECIMAL(4, 1)"],
    "string": ["STRING"],
    "date": ["DATE"],
    "moment": ["TIMESTAMP", "TIMESTAMP_NTZ"],
}
_CASTS = {
    "int": ["int", "real", "decimal", "string", "bool"],
    "real": ["int", "real", "decimal", "string"],
    "decimal": ["int", "decimal"],
    "string": ["int", "date", "moment", "bool", "string"],
    "date": ["moment", "date"],
    "moment": ["date", "moment"],
}
_NUMBERS = ["int", "real", "decimal"]
_KINDS = ["int", "int", "real", "real", "decimal", "decimal", "string", "date", "moment", "bool"]


class Predicates:
    """Random predicates of Spark's grammar, typed so that most of them have a meaning."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def predicate(self, depth: int = 3) -> str:
        """Return a condition."""
        one = self._one
        kind = self._random.randrange(14 if depth > 0 else 9)
        if kind < 5:
            return self._comparison(depth)
        if kind == 5:
            return f"{self.value(one(_KINDS), depth - 1)} IS {one(['', 'NOT '])}NULL"
        if kind == 6:
            return self._in(depth)
        if kind == 7:
            of = one(["int", "real", "decimal", "date", "moment", "string"])
            low, high = (self.value(of, depth - 2) for _ in range(2))
            negated = one(["", "NOT "])
            return f"{self.value(of, depth - 1)} {negated}BETWEEN {low} AND {high}"
        if kind == 8:
            tested = self.value("string", depth - 1)
            return f"{tested} {one(['', 'NOT '])}LIKE '{one(_PATTERNS)}'"
        if kind == 9:
            return f"NOT ({self.predicate(depth - 1)})"
        if kind == 10:
            return f"({self.predicate(depth - 1)}) IS {one(['', 'NOT '])}{one(['TRUE', 'FALSE'])}"
        if kind == 11:
            return self.value("bool", depth)
        word = one([" AND ", " OR "])
        return word.join(
            f"({self.predicate(depth - 1)})" for _ in range(self._random.choice([2, 2, 3]))
        )

    def _comparison(self, depth: int) -> str:
        of = self._one(_KINDS)
        other = self._one(_NUMBERS) if of in _NUMBERS else of
        sign = self._one(["=", "<>", "<", "<=", ">", ">=", "<=>", "==", "!="])
        return f"{self.value(of, depth - 1)} {sign} {self.value(other, depth - 1)}"

    def _in(self, depth: int) -> str:
        of = self._one(["int", "real", "decimal", "string", "date"])
        items = [self._one(_LITERALS[of]) for _ in range(self._random.randrange(1, 6))]
        if self._random.random() < 0.2:
            items.append(self.value(of, 0))
        negated = self._one(["", "NOT "])
        return f"{self.value(of, depth - 1)} {negated}IN ({', '.join(items)})"

    def value(self, kind: str, depth: int) -> str:
        """Return an expression of this kind."""
        if depth <= 0 or self._random.random() < 0.3:
            known = _LITERALS if self._random.random() < 0.3 else _COLUMNS
            return self._one(known[kind])
        if kind in _CASTS and self._random.random() < 0.15:
            return self._cast(kind, depth)
        if self._random.random() < 0.2:
            return self._choice(kind, depth)
        made = {
            "int": self._integer,
            "real": self._arithmetic,
            "decimal": self._arithmetic,
            "string": self._string,
            "date": self._date,
            "bool": lambda kind, depth: f"({self.predicate(depth - 1)})",
        }
        return made[kind](kind, depth) if kind in made else self.value(kind, 0)

    def _cast(self, kind: str, depth: int) -> str:
        source = self._one(_CASTS[kind])
        word = self._one(["CAST", "CAST", "TRY_CAST"])
        inner = self.value(source, depth - 1)
        if kind in ("int", "real") and source == "string":
            inner = self._one(["n", "n", "text", "' 12 '", "'-7'", "'1.5e3'"])
        if kind == "string":
            inner = self.value(source, depth - 1) if source != "decimal" else "m"
        return f"{word}({inner} AS {self._one(_TYPES[kind])})"

    def _choice(self, kind: str, depth: int) -> str:
        one, other = self.value(kind, depth - 1), self.value(kind, depth - 1)
        test = self.predicate(depth - 2)
        forms: list[Callable[[], str]] = [
            lambda: f"CASE WHEN {test} THEN {one} ELSE {other} END",
            lambda: f"CASE WHEN {test} THEN {one} END",
            lambda: f"CASE {self.value('int', 0)} WHEN 1 THEN {one} WHEN i THEN {other} END",
            lambda: f"IF({test}, {one}, {other})",
            lambda: f"coalesce({one}, {other})",
            lambda: f"nvl({one}, {other})",
            lambda: f"nullif({one}, {other})",
            lambda: f"{self._one(['greatest', 'least'])}({one}, {other})",
        ]
        return self._one(forms)()

    def _arithmetic(self, kind: str, depth: int) -> str:
        if self._random.random() < 0.15:
            return f"{self._one(['abs', '-', '+'])}({self.value(kind, depth - 1)})"
        other = self._one(["int", kind, kind])
        sides = [self.value(kind, depth - 1), self.value(other, depth - 1)]
        self._random.shuffle(sides)
        return f"({sides[0]} {self._one(['+', '-', '*', '/', '%', '+', '*'])} {sides[1]})"

    def _integer(self, kind: str, depth: int) -> str:
        form = self._random.randrange(10)
        if form == 0:
            return f"length({self.value('string', depth - 1)})"
        if form == 1:
            part = self._one(["year", "quarter", "month", "day", "dayofmonth"])
            return f"{part}({self.value('date', depth - 1)})"
        if form == 2:
            return f"{self._one(['hour', 'minute', 'second'])}({self.value('moment', 0)})"
        if form == 3:
            return f"datediff({self.value('date', 0)}, {self.value('date', 0)})"
        if form == 4:
            return f"{self._one(['floor', 'ceil'])}({self.value(self._one(_NUMBERS), depth - 1)})"
        one, other = self.value("int", depth - 1), self.value("int", depth - 1)
        if form == 5:
            return f"{self._one(['abs', '-', '+'])}({one})"
        return f"({one} {self._one(['+', '-', '*', '%', 'DIV', '+'])} {other})"

    def _string(self, kind: str, depth: int) -> str:
        one = self.value("string", depth - 1)
        form = self._random.randrange(6)
        if form == 0:
            return f"{self._one(['lower', 'upper', 'trim', 'ltrim', 'rtrim'])}({one})"
        if form == 1:
            start, size = self._random.randrange(-4, 5), self._random.randrange(-1, 4)
            return f"substring({one}, {start}{self._one(['', f', {size}'])})"
        if form == 2:
            return f"replace({one}, {self._one(_LITERALS['string'][:6])}, 'x')"
        if form == 3:
            return f"({one} || {self.value(self._one(['string', 'int', 'date']), 0)})"
        if form == 4:
            return f"CAST({self.value(self._one(['int', 'date', 'moment', 'bool']), 0)} AS STRING)"
        return f"concat({one}, {self.value('string', depth - 1)})"

    def _date(self, kind: str, depth: int) -> str:
        form = self._random.randrange(3)
        if form == 0:
            return f"date_add(day, {self.value('int', 0)})"
        sign = self._one(["+", "-"])
        return f"(day {sign} i)" if form == 1 else f"date_sub({self.value('date', 0)}, small)"

    def _one(self, some: list) -> object:  # type: ignore[type-arg]
        return self._random.choice(some)
