"""What a predicate demands of columns: enough to skip by, and never more than it says."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.expr.constraints import (
    Allowed,
    Constraints,
    Limit,
    column_value,
    constraints_of,
)
from lakebed.expr.predicate import Predicate

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("tiny", pa.int8()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("amount", pa.decimal128(10, 2)),
        ("flag", pa.bool_()),
        ("ratio", pa.float64()),
        ("place", pa.struct([("x", pa.int32())])),
    ]
)
NEW_YEAR = dt.date(2024, 1, 1)


def parse_constraints(text, schema, *, exact=False):
    predicate = None if text is None else Predicate.parse(text, schema)
    return constraints_of(predicate, schema, exact=exact)


def demands(text: str) -> dict[str, Allowed]:
    return dict(parse_constraints(text, SCHEMA).columns)


NULL = Allowed(frozenset(), null=True)


def only(*values: object) -> Allowed:
    return Allowed(frozenset(values))


def above(value: object, inclusive: bool = False) -> Allowed:
    return Allowed(lower=Limit(value, inclusive))


def below(value: object, inclusive: bool = False) -> Allowed:
    return Allowed(upper=Limit(value, inclusive))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id = 5", {"id": only(5)}),
        ("5 = id", {"id": only(5)}),
        ("(id) = (5)", {"id": only(5)}),
        ("ID = -5", {"id": only(-5)}),
        ("`id` = 5L", {"id": only(5)}),
        ("id <=> 5", {"id": only(5)}),
        ("id IN (1, 2, NULL)", {"id": only(1, 2)}),
        ("name = 'a'", {"name": only("a")}),
        ('name = "a"', {"name": only("a")}),
        ("name = ''", {"name": only("")}),
        ("name IN ('a', 'é')", {"name": only("a", "é")}),
        ("flag = true", {"flag": only(True)}),
        ("flag", {"flag": only(True)}),
        ("NOT flag AND id = 5", {"flag": only(False), "id": only(5)}),
        ("flag OR NOT flag", {"flag": only(True, False)}),
        ("day = '2024-01-01'", {"day": only(NEW_YEAR)}),
        ("day = DATE '2024-01-01'", {"day": only(NEW_YEAR)}),
        ("day = CAST('2024-01-01' AS DATE)", {"day": only(NEW_YEAR)}),
        ("day IN (DATE '2024-01-01', '2024-01-02')", {"day": only(NEW_YEAR, dt.date(2024, 1, 2))}),
        ("small = 1 AND name = 'a'", {"small": only(1), "name": only("a")}),
    ],
)
def test_equality_gives_finite_values(text, wanted):
    assert demands(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id < 5", {"id": below(5)}),
        ("id <= 5", {"id": below(5, True)}),
        ("id > 5", {"id": above(5)}),
        ("id >= 5", {"id": above(5, True)}),
        ("5 < id", {"id": above(5)}),
        ("5 >= id", {"id": below(5, True)}),
        ("name > 'm'", {"name": above("m")}),
        ("day >= '2024-01-01'", {"day": above(NEW_YEAR, True)}),
        ("id BETWEEN 1 AND 3", {"id": Allowed(None, Limit(1, True), Limit(3, True))}),
        ("id BETWEEN 1 AND small", {"id": above(1, True)}),
        (
            "id > 1 AND id >= 1 AND id < 9 AND 8 > id",
            {"id": Allowed(None, Limit(1, False), Limit(8, False))},
        ),
        ("small < 99999999999", {"small": below(99999999999)}),
    ],
)
def test_comparisons_give_ranges(text, wanted):
    assert demands(text) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id IN (1, 2, 3) AND id IN (2, 3, 4)", {"id": only(2, 3)}),
        ("id IN (1, 2, 3) AND id > 1 AND id < 3", {"id": only(2)}),
        ("id > 1 AND id IN (1, 2)", {"id": only(2)}),
        ("id = 1 OR id = 2 OR (id = 3)", {"id": only(1, 2, 3)}),
        ("id = 1 OR id > 5", {"id": above(1, True)}),
        ("id < 1 OR id > 5", {"id": Allowed()}),
        (
            "id BETWEEN 1 AND 2 OR id IN (7, 9)",
            {"id": Allowed(None, Limit(1, True), Limit(9, True))},
        ),
        ("id > 1 OR id >= 1", {"id": above(1, True)}),
        ("id < 1 OR id <= 1", {"id": below(1, True)}),
        (
            "(small = 1 AND name = 'a') OR (small = 2 AND name = 'b') AND id = 3",
            {"small": only(1, 2), "name": only("a", "b")},
        ),
        ("id = 1 OR name = 'a'", {}),
        ("id = 1 OR ratio > 0.5", {}),
        ("id = 1 AND (name LIKE 'a%' OR day = DATE '2024-01-01' + 1)", {"id": only(1)}),
        ("id = 1 OR (id = 2 AND id = 3)", {"id": only(1)}),
    ],
)
def test_and_narrows_and_or_widens(text, wanted):
    assert demands(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "small = 99999999999",
        "small IN (2147483648, -2147483649)",
        "tiny = 128",
        "id = 1 AND id = 2",
        "id > 5 AND id < 5",
        "id >= 5 AND id < 5",
        "id > 5 AND id <= 5",
        "id = NULL",
        "name IN (NULL)",
        "id = 1 AND id > 3 OR name = 'a' AND name = 'b'",
    ],
)
def test_what_no_row_can_be_is_told(text):
    assert parse_constraints(text, SCHEMA).is_impossible


@pytest.mark.parametrize(
    "text",
    [
        "id = 1",
        "id >= 5 AND id <= 5",
        "small = 2147483647",
        "id = 1 OR id = 2 AND id = 3",
        "id <=> NULL",
        "id IS NULL",
    ],
)
def test_what_some_row_can_be_is_not_impossible(text):
    assert not parse_constraints(text, SCHEMA).is_impossible


@pytest.mark.parametrize(
    "text",
    [
        "NOT id = 1",
        "NOT (id = 1 OR id = 2)",
        "NOT id IN (1)",
        "id NOT IN (1)",
        "id NOT BETWEEN 1 AND 2",
        "id <> 1",
        "name NOT LIKE 'a'",
        "id = small",
        "id = 1 + 1",
        "id + 1 = 1",
        "id = '1'",
        "id = 1.0",
        "id = 1e0",
        "id = 5BD",
        "id = 99999999999999999999",
        "id > -99999999999999999999",
        "name = 1",
        "name = 'ID'",
        "name = 'it''s'",
        r"name = 'a\nb'",
        r"id = 1 AND name = 'a\\b'",
        "flag = 'true'",
        "flag > false",
        "day = '2024-1-1'",
        "day = '2024-01-01T00'",
        "day = TIMESTAMP '2024-01-01 00:00:00'",
        "at = '2024-01-01'",
        "at > DATE '2024-01-01'",
        "amount = 1",
        "ratio = 1",
        "place.x = 1",
        "upper(name) = 'A'",
        "coalesce(id, 1) = 1",
        "if(id = 1, true, true)",
        "CASE WHEN id = 1 THEN true ELSE true END",
        "(id = 1) = false",
        "(id = 1) IS FALSE",
        "true",
        "1 = 1",
    ],
)
def test_anything_else_demands_nothing(text):
    assert demands(text) == {}


def test_no_predicate_demands_nothing():
    assert parse_constraints(None, SCHEMA) == Constraints()


def test_long_chains_are_read_without_recursion():
    chain = " OR ".join(f"id = {i}" for i in range(5000))
    assert parse_constraints(chain, SCHEMA).values("id") == frozenset(range(5000))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("id IS NULL", {"id": NULL}),
        ("id <=> NULL", {"id": NULL}),
        ("id IS NULL OR id = 1", {"id": Allowed(frozenset({1}), null=True)}),
        ("id IS NULL OR id > 1", {"id": Allowed(lower=Limit(1, False), null=True)}),
        ("id IS NOT NULL", {"id": Allowed()}),
        ("NOT (id IS NULL)", {"id": Allowed()}),
        ("id IS NOT NULL AND id <= 1", {"id": below(1, True)}),
        ("id IS NULL OR id IS NOT NULL", {"id": Allowed(null=True)}),
        ("place IS NULL", {"place": NULL}),
        ("place.x IS NULL", {}),
        ("id + 1 IS NULL", {}),
    ],
)
def test_null_is_a_value_of_its_own(text, wanted):
    assert demands(text) == wanted


def test_a_column_that_may_be_null_has_no_finite_values():
    assert parse_constraints("id IS NULL OR id = 1", SCHEMA).values("id") is None
    assert not parse_constraints("id IS NULL", SCHEMA).is_impossible
    assert parse_constraints("id IS NULL AND id = 1", SCHEMA).is_impossible


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("name LIKE 'ab%'", {"name": Allowed(None, Limit("ab", True), Limit("ac", False))}),
        ("name LIKE 'ab_d'", {"name": Allowed(None, Limit("ab", True), Limit("ac", False))}),
        ("name LIKE 'a'", {"name": only("a")}),
        ("name LIKE '湖%'", {"name": Allowed(None, Limit("湖", True), Limit("湗", False))}),
        ("name LIKE '\U0010ffff%'", {"name": above("\U0010ffff", True)}),
        (
            "name LIKE 'a!%%' ESCAPE '!'",
            {"name": Allowed(None, Limit("a%", True), Limit("a&", False))},
        ),
        ("startswith(name, 'ab')", {"name": Allowed(None, Limit("ab", True), Limit("ac", False))}),
        ("name LIKE '%a'", {}),
        ("name LIKE ''", {}),
        ("name LIKE 'id'", {}),
        ("upper(name) LIKE 'A%'", {}),
    ],
)
def test_the_beginning_of_a_pattern_is_a_range(text, wanted):
    assert demands(text) == wanted


NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("at >= TIMESTAMP '2024-01-01 12:00:00'", {"at": above(NOON, True)}),
        ("at = '2024-01-01T12:00:00Z'", {"at": only(NOON)}),
        ("amount = 1.50", {"amount": only(Decimal("1.50"))}),
        ("amount < 1.505", {"amount": below(Decimal("1.505"))}),
        ("ratio > 1.5D", {"ratio": above(1.5)}),
        ("ratio IN (1, 0.25)", {"ratio": only(1.0, 0.25)}),
        ("ratio = double('NaN')", {}),
        ("id = 1 + 1", {"id": only(2)}),
        ("id = '1'", {"id": only(1)}),
        ("day = '2024-1-1'", {"day": only(NEW_YEAR)}),
        ("name = 'it''s'", {"name": only("it's")}),
        ("name = 'id'", {"name": only("id")}),
        (r"name LIKE 'a\\_b%'", {"name": Allowed(None, Limit("a_b", True), Limit("a_c", False))}),
    ],
)
def test_with_the_meaning_settled_every_constant_counts(text, wanted):
    assert dict(parse_constraints(text, SCHEMA, exact=True).columns) == wanted


@pytest.mark.parametrize(
    ("text", "kind", "wanted"),
    [
        ("7", pa.int32(), 7),
        ("-7", pa.int64(), -7),
        ("7.0", pa.int32(), None),
        ("٧", pa.int32(), None),
        ("x", pa.string(), "x"),
        ("2024-01-01", pa.date32(), NEW_YEAR),
        ("+10000-01-01", pa.date32(), None),
        ("20240101", pa.date32(), None),
        ("true", pa.bool_(), None),
        ("1.5", pa.float64(), None),
    ],
)
def test_plain_text_is_taken_back_where_it_has_one_form(text, kind, wanted):
    assert column_value(text, kind) == wanted


@pytest.mark.parametrize(
    ("allowed", "inside", "outside"),
    [
        (only(1, 2), [1, 2], [0, 3]),
        (above(1), [2], [0, 1]),
        (above(1, True), [1, 2], [0]),
        (below(1), [0], [1, 2]),
        (below(1, True), [0, 1], [2]),
        (Allowed(), [0, 1], []),
        (below("b", True), ["", "a", "b"], ["ba", "é", "\U0001f600"]),
    ],
)
def test_a_range_holds_what_lies_in_it(allowed, inside, outside):
    assert all(map(allowed.holds, inside))
    assert not any(map(allowed.holds, outside))
