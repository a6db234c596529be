"""Values that predicates compute: in the order in which they are written, or an error."""

import decimal
import random

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError
from lakebed.expr.predicate import Predicate

RANDOM = random.Random(3)
PAIRS = [(round(RANDOM.uniform(-10, 10), 2), round(RANDOM.uniform(-10, 10), 2)) for _ in range(300)]


def kept(text: str, **columns: pa.Array) -> list[int]:
    size = len(next(iter(columns.values())))
    rows = pa.record_batch({"id": pa.array(range(size)), **columns})
    return Predicate.parse(text, rows.schema).filter(rows).column("id").to_pylist()


@pytest.mark.parametrize(
    ("form", "act"),
    [
        ("(a + b) + 1.1D = {}", lambda a, b: (a + b) + 1.1),
        ("(a * b) * 1.1D = {}", lambda a, b: (a * b) * 1.1),
        ("1.1D * (a * b) = {}", lambda a, b: 1.1 * (a * b)),
        ("(a - b) - 1.1D = {}", lambda a, b: (a - b) - 1.1),
        ("a + (b + 1.1D) = {}", lambda a, b: a + (b + 1.1)),
        ("(a * b) * 3 = {}", lambda a, b: (a * b) * 3),
        ("a / b / 0.7D = {}", lambda a, b: a / b / 0.7),
    ],
)
def test_doubles_are_computed_in_the_order_in_which_they_are_written(form, act):
    a, b = ([pair[side] for pair in PAIRS] for side in (0, 1))
    results = [act(*pair) for pair in PAIRS]
    for wanted in results[::7]:
        text = form.format(f"CAST('{wanted!r}' AS DOUBLE)")
        found = kept(text, a=pa.array(a), b=pa.array(b))
        assert found == [row for row, result in enumerate(results) if result == wanted], text


def test_a_table_is_read_and_deleted_from_by_arithmetic():
    schema = pa.schema([("id", pa.int32()), ("a", pa.float64()), ("b", pa.float64())])
    table = lakebed.create_table(None, "memory://where-arithmetic/t", schema, key="id", buckets=1)
    rows = [{"id": row, "a": a, "b": b} for row, (a, b) in enumerate(PAIRS[:50])]
    table.upsert(pa.Table.from_pylist(rows, schema))
    a, b = PAIRS[17]
    where = f"(a + b) + 1.1D = CAST('{(a + b) + 1.1!r}' AS DOUBLE)"
    assert table.read(columns=["id"], where=where).read_all()["id"].to_pylist() == [17]
    table.delete(where=where)
    assert 17 not in table.read().read_all()["id"].to_pylist()


def test_integers_overflow_only_where_their_own_type_does():
    i, j = pa.array([2, 1_000_000], pa.int32()), pa.array([3, 2_000], pa.int32())
    assert kept("(i * j) * 2 > 5", i=i, j=pa.array([3, 500], pa.int32())) == [0, 1]
    with pytest.raises(InvalidError, match="overflow of int32"):
        kept("(i * j) * 2 > 5", i=i, j=j)
    assert kept("(i * 1L * j) * 2 > 5", i=i, j=j) == [0, 1]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("b <> 0 AND a / b > 1", [1]),
        ("b = 0 OR a / b > 1", [0, 1, 3]),
        ("CASE WHEN b = 0 THEN false ELSE a % b = 1 END", [1]),
        ("IF(b = 0, NULL, a DIV b) = 2", [1]),
        ("coalesce(a, 1 / b) = 3", [0]),
        ("a = 3 OR a IN (5, 10 DIV b)", [0, 1]),
        ("c / b > 1", [1]),  # null by zero is null
        ("try_cast(t AS INT) = 7", [2]),
        ("b = 1 AND CAST(t AS INT) = 7", [2]),
        ("b = 0 AND a > 2 AND NOT (b <> 0 AND a / b > 1)", [0]),
    ],
)
def test_a_row_fails_only_if_the_parts_before_leave_a_question(text, wanted):
    columns = {
        "a": pa.array([3, 5, 1, None]),
        "b": pa.array([0, 2, 1, 0]),
        "c": pa.array([None, 8.0, 1.0, None]),
        "t": pa.array(["x", "", " 7 ", None]),
    }
    if text.startswith("coalesce"):
        columns = {name: values.slice(0, 3) for name, values in columns.items()}
    assert kept(text, **columns) == wanted


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a / b > 1", "division by zero"),
        ("a / b > 1 AND b <> 0", "division by zero"),
        ("CAST(t AS INT) > 1", "a string that is not of type INT"),
        ("CAST(a * 100 AS TINYINT) > 1", "overflow of TINYINT"),
        ("CAST(a AS DECIMAL(2, 2)) > 1", "overflow of decimal128"),
    ],
)
def test_a_row_without_a_value_stops_the_predicate_and_says_why(text, reason):
    with pytest.raises(InvalidError, match=f"^predicate .*: {reason}"):
        kept(text, a=pa.array([3, 5]), b=pa.array([0, 2]), t=pa.array(["x", "1"]))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("m / 2 = 0.625", [0]),
        ("m % 1 = 0.25", [0]),
        ("m % -2 = -1.10", [1]),
        ("m * m = 9.6100", [1]),
        ("CAST(m AS DECIMAL(3, 1)) = 1.3", [0]),
        ("CAST(m AS INT) = -3", [1]),
        ("m + 0.005 = 1.255", [0]),
        ("floor(m) = -4", [1]),
        ("ceil(m) = 2", [0]),
    ],
)
def test_decimals_are_exact_and_rounded_half_up(text, wanted):
    values = [decimal.Decimal("1.25"), decimal.Decimal("-3.10"), None]
    assert kept(text, m=pa.array(values, pa.decimal128(10, 2))) == wanted


def test_case_follows_unicode_also_where_a_letter_becomes_two():
    texts = pa.array(["Straße", "ΑΣ", "上海", "İ", "abc", None])
    assert kept("upper(t) = 'STRASSE'", t=texts) == [0]
    assert kept("lower(t) = 'ας'", t=texts) == [1]
    assert kept("lower(t) = t", t=texts) == [2, 4]


def test_a_literal_with_an_exponent_is_a_float_rounded_once():
    floats = pa.array([3.4e38, float("inf"), 0.1], pa.float32())
    assert kept("f = CAST('3.4e+38' AS FLOAT)", f=floats) == [0]
    assert kept("f = CAST('1e39' AS FLOAT)", f=floats) == [1]
    assert kept("f = 1e-1F", f=floats) == [2]


def test_a_field_of_a_struct_is_null_where_the_struct_is():
    inner = pa.struct([("X", pa.int32()), ("at", pa.struct([("y", pa.string())]))])
    values = [{"X": 1, "at": {"y": "a"}}, {"X": None, "at": None}, None]
    rows = {"s": pa.array(values, inner)}
    assert kept("s.x = 1 AND s.`at`.Y = 'a'", **rows) == [0]
    assert kept("s.x IS NULL", **rows) == [1, 2]
    assert kept("s.at IS NULL", **rows) == [1, 2]
    assert kept("s IS NULL", **rows) == [2]


def test_a_list_holds_nan_of_either_sign_and_both_zeros():
    values = pa.array([float("inf"), float("-inf"), -0.0, None, 2.0])
    assert kept("d % 1 IN (CAST('NaN' AS DOUBLE))", d=values) == [0, 1]
    assert kept("d % 1 NOT IN (CAST('NaN' AS DOUBLE))", d=values) == [2, 4]
    assert kept("d IN (0.0D, 7)", d=values) == [2]
