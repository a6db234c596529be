"""The page on predicates tells the truth: its list of functions is whole, what it says is refused is."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakebed.errors import UnsupportedError
from lakebed.expr.functions import FUNCTION_NAMES
from lakebed.expr.predicate import Predicate
from lakebed.expr.types import type_named

PAGE = (Path(__file__).parents[3] / "docs" / "where.md").read_text()
SCHEMA = pa.schema(
    [
        ("amount", pa.decimal128(12, 2)),
        ("city", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("quantity", pa.int32()),
        ("dt", pa.date32()),
        ("is_test", pa.bool_()),
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("in", pa.int32()),
    ]
)
SECTION = re.search(r"## Functions\n(.*?)\n## ", PAGE, re.DOTALL)[1]


@pytest.mark.parametrize("text", ["`in` = 1", "b <> 0 AND a / b > 1", "coalesce(a, 1 / b) > 0"])
def test_what_the_page_recommends_are_understood(text):
    assert Predicate.parse(text, SCHEMA).columns


def test_the_page_names_every_function():
    words = set(re.findall(r"\b[a-z_]+\b", " ".join(re.findall(r"`([^`]+)`", SECTION))))
    casts = {name for name in FUNCTION_NAMES if type_named(name.upper()) is not None}
    assert words >= FUNCTION_NAMES - casts
    assert not words & {"round", "sqrt"}


@pytest.mark.parametrize(
    "text",
    [
        "a & 1 = 1",
        "city ILIKE 'o'",
        "city RLIKE 'o'",
        "sqrt(a) > 1",
        "CAST(city AS DATE) = dt",
        "dt > dt + INTERVAL 1 DAY",
        "city LIKE ANY ('a')",
        "a = (SELECT 1)",
        "city[0] = 1",
    ],
)
def test_what_the_page_says_is_refused_is_refused(text):
    with pytest.raises(UnsupportedError, match="is not supported in `where`"):
        Predicate.parse(text, SCHEMA)
