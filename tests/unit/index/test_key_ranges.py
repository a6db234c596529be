"""From a predicate to ranges of index keys: no row that it is true for lies outside of them."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from lakebed.errors import InvalidError, LakebedError
from lakebed.expr.constraints import constraints_of
from lakebed.expr.predicate import Predicate
from lakebed.format.index.ordered_bytes import encode_rows, is_ordered
from lakebed.index.secondary.ranges import KeyRanges, key_ranges
from support.predicates import TABLE, Predicates

SCHEMA = pa.schema(
    [
        ("city", pa.string()),
        ("n", pa.int32()),
        ("price", pa.decimal128(6, 2)),
        ("ratio", pa.float32()),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
    ]
)
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
ROWS = [
    {
        "city": "oslo",
        "n": 1,
        "price": Decimal("1.00"),
        "ratio": 0.1,
        "at": NOON,
        "day": NOON.date(),
    },
    {"city": "os", "n": 2, "price": Decimal("1.01"), "ratio": -0.0, "at": NOON, "day": None},
    {"city": "osma", "n": 7, "price": Decimal("-9999.99"), "ratio": float("nan"), "at": None},
    {
        "city": "paris",
        "n": -1,
        "price": None,
        "ratio": None,
        "at": NOON,
        "day": dt.date(1969, 1, 1),
    },
    {"city": None, "n": None, "price": Decimal("9999.99"), "ratio": float("inf"), "at": None},
    {"city": "", "n": 2, "price": Decimal("0.00"), "ratio": 1.5, "at": None},
]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


def found(where: str, *columns: str) -> list[int] | None:
    """Return the rows of BATCH whose keys lie in the ranges; None if all must be looked at."""
    made = ranges_of(where, *columns)
    if made is None:
        return None
    keys = encode_rows([BATCH.column(name) for name in columns]).to_pylist()
    return [at for at, key in enumerate(keys) if is_inside(key, made)]


def ranges_of(where: str, *columns: str) -> KeyRanges | None:
    predicate = Predicate.parse(where, SCHEMA)
    demands = constraints_of(predicate, SCHEMA, exact=True)
    return key_ranges(columns, [SCHEMA.field(name).type for name in columns], demands)


def is_inside(key: bytes, made: KeyRanges) -> bool:
    return any(low <= key and (end is None or key < end) for low, end in made.ranges)


@pytest.mark.parametrize(
    ("where", "column", "wanted"),
    [
        ("city = 'oslo'", "city", [0]),
        ("city IN ('os', 'paris', 'rome')", "city", [1, 3]),
        ("city IS NULL", "city", [4]),
        ("city IS NOT NULL", "city", [0, 1, 2, 3, 5]),
        ("city LIKE 'os%'", "city", [0, 1, 2]),
        ("city LIKE 'os'", "city", [1]),
        ("city > 'os'", "city", [0, 2, 3]),
        ("city >= 'os' AND city < 'osm'", "city", [0, 1]),
        ("city = ''", "city", [5]),
        ("city <=> NULL OR city = 'os'", "city", [1, 4]),
        ("n BETWEEN 1 AND 2", "n", [0, 1, 5]),
        ("n < 0", "n", [3]),
        ("price = 1.00", "price", [0]),
        ("price = 1.005", "price", []),
        ("price > 1.005", "price", [1, 4]),
        ("price >= 1.001", "price", [1, 4]),
        ("price < 1.005", "price", [0, 2, 5]),
        ("price > 99999999999999999999999999999999999.0", "price", []),
        ("ratio > 0.1D", "ratio", [0, 2, 4, 5]),
        ("ratio = 0.0D", "ratio", [1]),
        ("ratio <= 1.5D", "ratio", [0, 1, 5]),
        ("at = TIMESTAMP '2024-01-01 12:00:00'", "at", [0, 1, 3]),
        ("day < DATE '1970-01-01'", "day", [3]),
        ("n = 5 AND city = 'oslo'", "city", [0]),
        ("n = 5 OR city = 'oslo'", "city", None),
        ("upper(city) = 'OSLO'", "city", None),
    ],
)
def test_one_column(where, column, wanted):
    assert found(where, column) == wanted


def test_several_columns_count_from_the_first_on():
    assert found("city = 'os' AND n = 2", "city", "n") == [1]
    assert found("city IN ('os', '') AND n = 2", "n", "city") == [1, 5]
    assert found("city > 'a' AND n = 2", "n", "city") == [1]
    assert found("city > 'oso' AND n = 2", "city", "n") == [3]
    assert found("n = 2", "city", "n") is None
    assert ranges_of("city > 'a' AND n = 2", "city", "n").columns == 1
    assert ranges_of("city = 'a' AND n = 2", "city", "n").columns == 2


def test_a_long_list_is_cut_before_its_product_grows():
    many = ", ".join(str(i) for i in range(5_000))
    made = ranges_of(f"n IN ({many}) AND city IN ('a', 'b', 'c')", "n", "city")
    assert made.columns == 1
    assert len(made.ranges) == 5_000


def test_no_row_that_a_predicate_is_true_for_lies_outside_its_ranges():
    [batch] = TABLE.combine_chunks().to_batches()
    names = [field.name for field in TABLE.schema if is_ordered(field.type)]
    source, narrowed = Predicates(11), 0
    for number in range(2_000):
        try:
            predicate = Predicate.parse(source.predicate(1 + number % 3), TABLE.schema)
            kept = predicate.mask(batch).to_pylist()
        except (LakebedError, InvalidError):
            continue
        demands = constraints_of(predicate, TABLE.schema, exact=True)
        pairs = [(name,) for name in demands.columns if name in names]
        if len(pairs) > 1:
            pairs.append((*pairs[0], *pairs[1]))
        for columns in pairs:
            kinds = [TABLE.schema.field(name).type for name in columns]
            made = key_ranges(columns, kinds, demands)
            keys = encode_rows([batch.column(name) for name in columns]).to_pylist()
            for key, is_true in zip(keys, kept, strict=True):
                assert not is_true or is_inside(key, made), predicate.text
            narrowed += sum(not is_inside(key, made) for key in keys)
    assert narrowed > 1_000
