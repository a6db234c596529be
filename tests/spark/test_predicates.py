"""A predicate means in process what it means on Spark, or is refused by both.

The lists below are tried one by one; the random ones by the thousand, as columns of a few queries.
"""

import os

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.errors import InvalidError, LakebedError, UnsupportedError
from lakebed.expr.evaluate import evaluate
from lakebed.expr.predicate import Predicate
from lakebed.expr.values import Values
from support.predicates import ROWS, TABLE, Predicates

SEED = int(os.environ.get("LAKEBED_PREDICATE_SEED", "20240229"))
COUNT = int(os.environ.get("LAKEBED_PREDICATES", "2000"))

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
list IS NULL | place IS NOT NULL | place.x = 1 | place.X IS NULL | 2 > place.`x` + i | bytes IS NULL | bytes = bytes | bytes < bytes | 1 = 1 | true | false
1 = 1.0 | '1' = 1 | 'a' = 'a' | (num = 1) = (Big = 1) | (num > 0) IS NULL
num > 0 OR yes AND no | NOT num > 0 AND yes | NOT yes OR no | NOT (num IN (1, NULL)) OR yes
num = 1 OR (NOT yes AND (no OR NULL)) | NOT NOT yes | num == 1 | num != 1 | yes == no
n > 6 | n = 10 | n IN (9, 10) | 6 < n | n BETWEEN 1 AND 9 | yes = 'true' | bytes = 'a' | bytes = X'61'
upper(text) = 'A' | lower(text) <> text | num / 2 = 1 | num % 2 = 1 | text || 'x' = 'ax' | i % -3 = 1 | i DIV 2 = 1
CAST(num AS STRING) = '1' | CAST(num AS BIGINT) = 1 | TRY_CAST('x' AS INT) IS NULL | num::bigint = 1
text LIKE 'a!_b' ESCAPE '!' | num IN (1, num) | isnull(num) | day + 1 > '2024-01-01' | day - 1 < day
day > '2024' | day > '2024-01' | at > '2024-01-02 10:00' | at > ' 2024-01-02' | num = ' 1' | d = '1.5d'
Big < 9223372036854775808 | num BETWEEN -1e0 AND 1 AND 99999999999999999999 >= Big | num = 0 = yes < no
Big >= -99999999999999999999.5 | Big > 99999999999999999999 | num > 0 = true | num = 1 IS NULL
(yes <=> no) <=> yes | CAST(1.5 AS INT) = num | price > CAST(1.555 AS DECIMAL(10,2)) | CASE WHEN yes THEN no END
(x + y) + 1.1D = 2.3000000000000003D | (i * j) * 2 > 5 | (x * y) * 1.1D > 0.2 | 1.1D * (x * y) < 3e0 | (x - y) - 1.1D <> 0
f = CAST('3.4e+38' AS FLOAT) | f < CAST('3.4e+38' AS FLOAT) | d = CAST('1e400' AS DOUBLE) | f = CAST('1e39' AS FLOAT)
i <> 0 AND 10 / i > 1 | i = 0 OR 10 % i = 1 | CASE WHEN i = 0 THEN false ELSE 10 DIV i > 1 END | IF(i = 0, NULL, 1 / i > 0)
coalesce(x, 1 / 0.5D) > 1 | m / 2 = 0.625 | m / nullif(k, 0) > 1 | m % nullif(k, 0) = 0.125 | m * k - 0.5 > 0 | k / 3 = 0.041667 | -m % 2 < 0
CAST(k AS DECIMAL(4,2)) = 0.13 | CAST(m AS INT) = -3 | CAST(x AS INT) = 12345 | CAST(1e0 * i AS TINYINT) = 7
CAST(k AS DECIMAL(4,2)) = 1.01 | floor(x) = -3 | ceil(m) = 2 | abs(k) > 9.998 | greatest(x, y, 1) = 2.5 | least(d, e) = 0.1
length(text) = 2 | substring(text, 2, 1) = '文' | substr(text, -1) = '語' | trim(text) = 'b' | replace(text, '中', 'x') = 'x文'
upper(text) = 'STRASSE ΣΑΣ' | lower(text) = 'straße σας' | concat(text, '😀', i) LIKE '%😀3' | contains(text, '本')
year(day) = 2024 | month(at) = 1 | hour(wall) = 10 | minute(at) = 59 | date_add(day, i) > day | datediff(day, at) = 1
nullif(i, 3) IS NULL | nvl(i, 0) = 0 | isnan(d) | isnotnull(x) | TRY_CAST(text AS INT) = 10 | TRY_CAST(text AS DOUBLE) > 9
CAST(at AS STRING) = '2024-01-02 10:00:00.000001' | CAST(wall AS STRING) = '2024-01-02 10:00:00' | CAST(at AS DATE) = day
CASE i WHEN 3 THEN 'three' WHEN 7 THEN 'seven' ELSE text END LIKE 's%' | mod(j, 3) = 2 | double('1.5') = d | text = "中文"
"""
# Spark answers these; both engines refuse them by name.
REFUSED = r"""
when > DATE '2024-01-01' | when = at | num & 1 = 1 | ~num = 1 | list[0] = 1 | list = list | text ILIKE 'A' | text RLIKE 'a'
text LIKE ANY ('a', 'A') | n LIKE n | text = r'a' | text = 'a' 'b' | text = '\u0061' | text = '\101' | num = 1 -- one | num = /* one */ 1
huge * 1.5 = 1.5 | huge / huge > 1 | huge = 123456789012345678901234567890 | yes IS UNKNOWN | text > '\uffff'
d IN (0.0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11) | at > DATE '2024-01-01' + INTERVAL 1 DAY | d NOT IN (0.5, 'NaN') | huge > 0.1000000000000000005
day = current_date | day = current_date() | at > '2024-01-02 10:00:00 Europe/Paris' | sqrt(d) > 1 | round(x) = 1 | day > '12024-01-01'
CAST(d AS STRING) = '0.5' | CAST(x AS DECIMAL(10,2)) = 0.5 | CAST(when AS DATE) = day | CAST(at AS BIGINT) > 0 | num + '1' > 0 | m DIV 2 = 1
"""
# Spark does not take these texts, or stops at a row; neither do we.
FAILS = r"""
num + 1 > 0 | num - 1 < 0 | Big * 2 = 0 | -num < 0 | tiny + tiny = 0 | num = 2147483647 + 1
yes = 1 | yes > 0 | num | NOT num | day = 5 | at > 5 | num = true | num = 'x' | num = '1.5' | day > 'noon'
day = '2024-02-30' | at = '2024-01-02 25:00:00' | nope = 1 | t.num = 1 | num IN () | num = | num = 1;
num = 1e400 | num = 999999999999999999999999999999999999999 | text LIKE 'a\\x' | text LIKE 'a\\'
num + 'x' = 1 | num + yes = 1 | tiny = 128Y | yes IN (1) | num IS TRUE | wall = TIMESTAMP_NTZ 'x'
num IS NULL = yes | num NOT IN (1) IS NULL | a.b.c = 1 | d = CAST('x' AS DOUBLE) | num BETWEEN 0 AND 1 = yes
10 / i > 1 | 10 % i = 1 | x / 0 = 1 | m / 0 > 1 | CAST(text AS INT) = 1 | CAST(d AS INT) = 1 | text > 5 | CAST(price AS TINYINT) = 1
abs(tiny) > 0 | -tiny > 0 | CAST(num AS SMALLINT) = 1 | CAST(price AS DECIMAL(4,2)) = 1 | coalesce(x, 1 / (i - i)) > 0 | 名 = 1
"""


def texts(block: str) -> list[str]:
    return [text.strip() for text in block.replace("\n", " | ").split(" | ") if text.strip()]


def ours(text: str) -> list[int]:
    predicate = Predicate.parse(text, TABLE.schema)
    [batch] = TABLE.combine_chunks().to_batches()
    return predicate.filter(batch).column("id").to_pylist()


@pytest.fixture(scope="module")
def frame(spark: SparkSession):
    settings = {
        # Compiling each of thousands of expressions takes longer than all the rest.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    rows = spark.createDataFrame(TABLE).repartition(1).cache()
    rows.count()
    yield rows
    rows.unpersist()
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def by_spark(frame: DataFrame, columns: list[str]) -> list[list[bool | None]]:
    """Evaluate expressions, many in a job; one whose job fails is named."""
    # On a line of its own: a predicate may end in a comment.
    spelled = [f"({text}\n) AS p{at}" for at, text in enumerate(columns)]
    try:
        rows = sorted(frame.selectExpr("id", *spelled).collect(), key=lambda row: row["id"])
    except PySparkException as error:
        if len(columns) == 1:
            raise AssertionError(f"Spark refuses {columns[0]}") from error
        half = len(columns) // 2
        return by_spark(frame, columns[:half]) + by_spark(frame, columns[half:])
    return [[row[f"p{at}"] for row in rows] for at in range(len(columns))]


def test_a_predicate_keeps_the_rows_that_spark_keeps(frame):
    predicates = list(dict.fromkeys(texts(ANSWERED)))
    answers = by_spark(frame, predicates)
    wanted = {
        text: [row for row in range(ROWS) if answer[row]]
        for text, answer in zip(predicates, answers, strict=True)
    }
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


def drawn(count: int) -> dict[str, Values]:
    """Draw predicates, and evaluate those of them that have a meaning."""
    source = Predicates(SEED)
    [batch] = TABLE.combine_chunks().to_batches()
    found: dict[str, Values] = {}
    refused = 0
    for number in range(count):
        text = source.predicate(3 if number % 4 == 0 else 2)
        try:
            found[text] = evaluate(Predicate.parse(text, TABLE.schema).bound, batch)
        except (UnsupportedError, InvalidError):
            refused += 1
    assert refused < count * 0.1, "most predicates that are drawn must be understood"
    return found


def failed_rows(values: Values) -> list[bool]:
    return [False] * ROWS if values.failed is None else values.failed.to_pylist()


@pytest.mark.timeout(900)
def test_thousands_of_random_predicates_mean_what_they_mean_on_spark(frame):
    found = drawn(COUNT)
    predicates = list(found)
    columns = []
    for text, values in found.items():
        failed = failed_rows(values)
        good = ", ".join(str(row) for row in range(ROWS) if not failed[row]) or "-1"
        # Rows for which it has no value must not stop the query.
        columns.append(f"CASE WHEN id IN ({good}) THEN ({text}\n) END" if any(failed) else text)
    differ = {}
    for start in range(0, len(columns), 100):
        answers = by_spark(frame, columns[start : start + 100])
        for text, answer in zip(predicates[start:], answers, strict=False):
            values = found[text]
            is_scalar = isinstance(values.data, pa.Scalar)
            data = [values.data.as_py()] * ROWS if is_scalar else values.data.to_pylist()
            rows = [row for row, bad in enumerate(failed_rows(values)) if not bad]
            wrong = [(row, data[row], answer[row]) for row in rows if data[row] != answer[row]]
            if wrong:
                differ[text] = wrong[:3]
    assert not differ, f"seed {SEED}: (row, ours, Spark's)"


def test_spark_stops_at_the_rows_at_which_we_stop(frame):
    stops = {text: failed_rows(values) for text, values in drawn(COUNT).items()}
    some = [(text, failed.index(True)) for text, failed in stops.items() if any(failed)]
    assert len(some) > COUNT // 50
    answered = []
    for text, row in some[:12]:
        try:
            frame.where(f"id = {row}").selectExpr(f"({text}\n) AS p").collect()
            answered.append((text, row))
        except PySparkException:
            pass
    assert answered == []


def test_what_is_outside_the_grammar_is_refused_by_both_engines(frame, spark, path):
    answered = by_spark(frame, texts(REFUSED))
    assert len(answered) == len(texts(REFUSED))
    for text in texts(REFUSED):
        with pytest.raises((UnsupportedError, InvalidError), match=r"^predicate "):
            ours(text)
    plain = TABLE.drop_columns(["list", "place"])
    table = lakebed.create_table(spark, path, plain.schema, key="id", buckets=1)
    table.bulk_insert(plain)
    for text in ("sqrt(d) > 1", "text RLIKE 'a'", "num & 1 = 1"):
        with pytest.raises(UnsupportedError, match="is not supported in `where`"):
            table.read(where=text)
        with pytest.raises(UnsupportedError, match="is not supported in `where`"):
            table.delete(where=text)
    assert table.read(where="length(text) = 2 AND (x + y) + 1.1D > 0").count() == len(
        ours("length(text) = 2 AND (x + y) + 1.1D > 0")
    )


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
