"""The in-process predicate gives the rows that Spark gives for the same text, or refuses."""

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from lakebed.errors import InvalidError, LakebedError, UnsupportedError
from lakebed.table.predicate import Predicate

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
    ("text", pa.string(), ["a", "", None, "A", "10", "9", "é", "e\u0301", "😀", "\uffff", "a_b", "axb", "50%", "it's", "a\nb", "back\\slash", "abc", "\t"]),
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
]  # fmt: skip
ROWS = 60
TABLE = pa.table(
    {"id": pa.array(range(ROWS), pa.int32())}
    | {
        name: pa.array([values[row % len(values)] for row in range(ROWS)], kind)
        for name, kind, values in VALUES
    }
)

ANSWERED = r"""
num > 1.5 | num = 1.0 | num <> 1.0 | num >= 20000000 | num < 2147483648 | num = 16777217F
num = 16777217D | num > -2147483649 | tiny = 127Y | tiny < 5S | tiny > 127.5 | tiny + 0 = num
Big > 9223372036854775806.5 | Big = 9223372036854775807 | Big <> 9223372036854775808
Big >= -9223372036854775808 | Big = 99999999999999999999 | Big = 9007199254740992D
Big > 9007199254740992e0 | Big = 9007199254740992.0 | Big = num | Big > d | Big = f
Big <=> d | Big = '10' | Big > '-5' | num IN ('1', '20000000') | num = -1 | num = - 1 | num IN (1, '0')
big = 10 | `BIG` = 10 | `Big` = 10L | NUM = 1
d > 0.5 | d >= 0.5 | d < 0.5 | d <= 0.5 | d = d | d <> d | NOT d < 0.5 | d = 0.1 | d = 0.1D
d = 'NaN' | d = CAST('NaN' AS DOUBLE) | d > CAST('inf' AS DOUBLE) | d >= double('Infinity')
d < CAST('-Infinity' AS DOUBLE) | d <= '-inf' | d = 0 | d = -0.0 | d < 0 | d > -0.0D
d IN (0.0, 0.5) | d IN (CAST('NaN' AS DOUBLE), 1) | d IN (0.5, NULL)
d = e | d <> e | d < e | d <= e | d > e | d >= e | d <=> e | NOT (d <=> e) | d <=> NULL
d BETWEEN 0 AND 1 | d BETWEEN e AND CAST('NaN' AS DOUBLE) | d NOT BETWEEN e AND 1
d = 5e-324 | d > 1e-400 | d = 9007199254740993 | d = 9007199254740993.0 | d * 2 > e + 1
f > 0.1 | f = 0.1 | f = 0.1F | f = 0.1D | f < 0.1 | f >= 1.5 | f = e | f IN (0.1, 1.5)
f IN (0.1F, 0.0F) | f > 16777216 | f >= 16777217 | f + f > 0.2 | f = num | f = 'NaN' | -f < 0
price = 1.5 | price > 1.555 | price < 1.505 | price = 5 | price IN (1.5, 5) | price IN (1.555)
price = '1.50' | price > 1.5D | price * 2 = 3 | price + 0.01 > 1.5 | price - num < 0 | price = num
price < 12345678901234567890 | price = CAST('1.50' AS DECIMAL(10,2)) | price = 1.50BD | -price > 0
price BETWEEN 0 AND 1.5 | price < d | price = tiny | price > Big | price > 1e0
huge > 0.1 | huge = 0.1 | huge = 0.1D | huge > d | huge = 1.5
huge > Big | huge > price | huge < 99999999999999999999 | huge = '0.1' | huge IN (0.1, -3)
text > 'a' | text < 'b' | text >= '' | text = 'é' | text < '😀'
text IN ('a', 'A', '') | text NOT IN ('a', 'A') | text NOT IN ('a', NULL) | text IN ('a', NULL)
text = '10' | text < '9' | text BETWEEN 'a' AND 'b' | text <> text | text = 'it''s'
text = 'it\'s' | text = "it's" | text = "10" | text LIKE '%' | text LIKE '_' | text LIKE '__'
text LIKE 'a_b' | text LIKE 'a\_b' | text LIKE 'a\\_b' | text LIKE '%\%' | text LIKE '5_\\%'
text LIKE 'a%b' | text LIKE '' | text LIKE 'back\\\\slash' | text LIKE 'A%' | text NOT LIKE 'a%'
NOT text LIKE 'a%' | text LIKE '%😀%' | text = 'back\\slash' | text = 'a\nb' | text = '\t'
text LIKE 'a.b' | text LIKE '(%' | text = '\a' | text LIKE '%''%' | text LIKE 'e_'
day > '2024-01-02' | day = '2024-01-02' | day >= DATE '2024-01-02' | day < DATE'1970-1-1'
day = '2024-01-02 10:00:00' | day < TIMESTAMP '2024-01-02 00:00:01' | day = at | day < at
day <= wall | day IN ('2024-01-02', '1500-03-01') | day IN (DATE '2024-01-02', NULL)
day BETWEEN '2024-01-01' AND '2024-01-02' | day = CAST('2024-01-02 10:00:00' AS DATE)
day IN (DATE '2024-01-02', TIMESTAMP '2024-01-03 00:00:00') | day > TIMESTAMP_NTZ '2024-01-02 01:00:00'
at > CAST('2024-01-02 10:00:00' AS DATE) | at > '2024-01-02' | at > DATE '2024-01-02'
at = '2024-01-02T10:00:00Z' | at < '2024-01-02 10:00:00+01:00' | at = '2024-01-02 10:00:00.000001'
at > TIMESTAMP '2024-01-02 10:00:00' | at = CAST('2024-01-02 10:00:00' AS TIMESTAMP) | at = wall
at = TIMESTAMP_NTZ '2024-01-02 10:00:00' | at IN ('2024-01-02', '2024-01-02 10:00:00') | at <=> wall
at = TIMESTAMP_LTZ '2024-01-02 10:00:00' | at < '1970-01-01' | at > '2024-01-02 11:00:00.5+01:00'
wall = '2024-01-02 10:00:00' | wall < '0002-01-01' | wall > TIMESTAMP '2024-01-02 01:00:00'
wall = DATE '2024-01-02' | wall >= '9999-12-31 23:59:59' | wall > CAST('2024-01-02' AS TIMESTAMP_NTZ)
yes | NOT yes | !yes | yes = true | yes = no | yes <> no | yes < no | yes <=> no | yes IN (true)
yes IN (false, NULL) | yes AND no | yes OR no | NOT (yes AND no) | NOT (yes OR no) | yes IS TRUE
yes IS NOT TRUE | yes IS FALSE | yes IS NOT FALSE | yes IS NULL | yes = (num > 0) | yes = NULL
yes AND NULL | yes OR NULL | NULL | NOT NULL | NULL IS NULL | NULL = NULL | NULL <=> NULL
num = NULL | num <=> NULL | num <=> 1 | num IS DISTINCT FROM 1 | num IS NOT DISTINCT FROM NULL
num IN (1, NULL) | num NOT IN (1, NULL) | num IN (NULL) | NULL IN (1) | num IN (1, 1.5, 1e0)
num NOT IN (1, 99999999999) | num IN (0,1,2,3,4,5,6,7,8,9,10,11,12) | d IN (1,2,3,4,5,6,7,8,9,10,11,0.5)
num BETWEEN 1 AND NULL | num BETWEEN NULL AND -5 | num NOT BETWEEN NULL AND -5 | num BETWEEN 5 AND 1
num + 0 = 1 | tiny + 1 = 6 | tiny * 2 > 100 | tiny - 1S < 0 | 1 + 1 = tiny - 3 | num = ((1))
(num + 0) IN (1, 2) | -(tiny + 0) < 0S + num | 2 * (1 + tiny) > 0 | num * 1.0 = 1 | num + 0.5 > 1 | num - 0.5D < 0
list IS NULL | place IS NOT NULL | bytes IS NULL | bytes = bytes | bytes < bytes | 1 = 1 | true | false
1 = 1.0 | '1' = 1 | 'a' = 'a' | (num = 1) = (Big = 1) | (num > 0) IS NULL
num > 0 OR yes AND no | NOT num > 0 AND yes | NOT yes OR no | NOT (num IN (1, NULL)) OR yes
num = 1 OR (NOT yes AND (no OR NULL)) | NOT NOT yes | num == 1 | num != 1 | yes == no
"""
# Spark answers these; in process they are refused by name.
REFUSED = r"""
n > 6 | n = 10 | n IN (9, 10) | 6 < n | n BETWEEN 1 AND 9 | when > DATE '2024-01-01' | when = at | yes = 'true' | bytes = 'a'
upper(text) = 'A' | num / 2 = 1 | num % 2 = 1 | num & 1 = 1 | text || 'x' = 'ax'
CAST(num AS STRING) = '1' | CAST(num AS BIGINT) = 1 | TRY_CAST('x' AS INT) IS NULL | num::bigint = 1
place.x = 1 | list[0] = 1 | list = list | text LIKE 'a!_b' ESCAPE '!' | text ILIKE 'A' | text RLIKE 'a'
text LIKE ANY ('a', 'A') | n LIKE n | num IN (1, num) | isnull(num) | text = r'a' | bytes = X'61'
text = 'a' 'b' | text = '\u0061' | text = '\101' | num = 1 -- one | num = /* one */ 1 | day + 1 > '2024-01-01'
day > '2024' | day > '2024-01' | at > '2024-01-02 10:00' | at > ' 2024-01-02' | num = ' 1' | d = '1.5d'
huge * 1.5 = 1.5 | Big < 9223372036854775808 | num BETWEEN -1e0 AND 1 AND 99999999999999999999 >= Big | huge = 123456789012345678901234567890 | num = 0 = yes < no | yes IS UNKNOWN
d IN (0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) | at > DATE '2024-01-01' + INTERVAL 1 DAY
(yes <=> no) <=> yes | CAST(1.5 AS INT) = num | price > CAST(1.555 AS DECIMAL(10,2)) | CASE WHEN yes THEN no END
d NOT IN (0.5, 'NaN') | huge > 0.1000000000000000005 | text > '\uffff' | num > 0 = true
day = current_date | at > '2024-01-02 10:00:00 Europe/Paris'
"""
# Spark does not take these texts, or stops at a row; neither do we.
FAILS = r"""
num + 1 > 0 | num - 1 < 0 | Big * 2 = 0 | -num < 0 | tiny + tiny = 0 | num = 2147483647 + 1
yes = 1 | yes > 0 | num | NOT num | day = 5 | at > 5 | num = true | num = 'x' | num = '1.5' | day > 'noon'
day = '2024-02-30' | at = '2024-01-02 25:00:00' | nope = 1 | t.num = 1 | num IN () | num = | num = 1;
num = 1e400 | num = 999999999999999999999999999999999999999 | text LIKE 'a\\x' | text LIKE 'a\\'
num + 'x' = 1 | num + yes = 1 | tiny = 128Y | yes IN (1) | num IS TRUE | wall = TIMESTAMP_NTZ 'x'
num IS NULL = yes | num NOT IN (1) IS NULL | a.b.c = 1 | d = CAST('x' AS DOUBLE) | num BETWEEN 0 AND 1 = yes
"""


def texts(block: str) -> list[str]:
    return [text.strip() for text in block.replace("\n", " | ").split(" | ") if text.strip()]


def generated(count: int) -> list[str]:
    """Give conditions of conditions, always the same ones."""
    chance = random.Random(20_240_229)
    atoms = [text for text in texts(ANSWERED) if " OR " not in text and " = true" not in text]

    def condition(depth: int) -> str:
        kind = chance.randrange(4) if depth else 3
        if kind == 0:
            return f"NOT ({condition(depth - 1)})"
        if kind == 3:
            return chance.choice(atoms)
        word = " AND " if kind == 1 else " OR "
        return word.join(f"({condition(depth - 1)})" for _ in range(2))

    return [condition(3) for _ in range(count)]


def ours(text: str) -> list[int]:
    predicate = Predicate.parse(text, TABLE.schema)
    [batch] = TABLE.combine_chunks().to_batches()
    return predicate.filter(batch).column("id").to_pylist()


@pytest.fixture(scope="module")
def frame(spark: SparkSession):
    return spark.createDataFrame(TABLE).repartition(1)


def by_spark(frame, predicates: list[str]) -> dict[str, list[int]]:
    """Give the rows of each predicate; many share a job."""
    found: dict[str, list[int]] = {}
    for start in range(0, len(predicates), 60):
        some = predicates[start : start + 60]
        # On a line of its own: a predicate may end in a comment.
        columns = [f"({text}\n) AS p{at}" for at, text in enumerate(some)]
        rows = frame.selectExpr("id", *columns).collect()
        for at, text in enumerate(some):
            found[text] = sorted(row["id"] for row in rows if row[f"p{at}"])
    return found


def test_a_predicate_keeps_the_rows_that_spark_keeps(frame):
    predicates = list(dict.fromkeys(texts(ANSWERED) + generated(50)))
    wanted = by_spark(frame, predicates)
    found = {}
    for text in predicates:
        try:
            found[text] = ours(text)
        except LakebedError as error:
            found[text] = repr(error)
    differ = {
        text: (found[text], wanted[text]) for text in predicates if found[text] != wanted[text]
    }
    assert not differ
    # The data must be able to tell predicates apart.
    assert len({tuple(rows) for rows in wanted.values()}) > 100


def test_what_only_spark_evaluates_is_refused_by_name(frame):
    answered = by_spark(frame, texts(REFUSED))
    assert len(answered) == len(texts(REFUSED))
    for text in answered:
        with pytest.raises((UnsupportedError, InvalidError), match=r"^predicate "):
            ours(text)


def test_what_spark_does_not_take_is_an_error_of_ours_too(frame):
    taken = []
    for text in texts(FAILS):
        try:
            rows = sorted(row["id"] for row in frame.where(text).select("id").collect())
            taken.append((text, rows))
        except (AnalysisException, PySparkException):
            pass
        with pytest.raises(LakebedError, match=r"^predicate "):
            ours(text)
    assert taken == []
