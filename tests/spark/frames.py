"""DataFrames to write, and rows in a form in which equal means equal in every value."""

import contextlib
import datetime as dt
import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lakebed

EVERY_TYPE = (
    "id string, ts bigint, yes boolean, tiny tinyint, small smallint, num int, big bigint, "
    "single float, double double, price decimal(10,2), huge decimal(38,18), text string, "
    "bytes binary, day date, at timestamp, wall timestamp_ntz, list array<int>, "
    "counts map<string,bigint>, place struct<x:int,tags:array<string>>, "
    "deep array<struct<m:map<string,array<decimal(5,2)>>,t:timestamp_ntz,f:float>>, "
    "shelf map<string,struct<a:string,b:array<binary>,c:date>>, grid array<array<double>>"
)
NAN, INF = float("nan"), float("inf")
_AT = dt.datetime(2024, 2, 29, 23, 59, 59, 999999)


def every_type(spark: SparkSession) -> DataFrame:
    """Return rows with usual values, with extreme ones, with nulls inside, and with nulls only."""
    usual = (
        "usual", 1, True, 1, 2, 3, 4, 0.1, 0.1, Decimal("1.25"), Decimal("-1.5"), "湖床 🏞️ é",
        b"\x00\xff\x80", dt.date(2024, 2, 29), _AT, _AT, [1, 2, 3], {"a": 1, "b": 2},
        (7, ["x", "雪"]),
        [({"k": [Decimal("1.10"), Decimal("-9.99")]}, _AT, 1.5)],
        {"s": ("a", [b"1", b""], dt.date(1999, 12, 31))}, [[1.0, 2.0], [], [3.0]],
    )  # fmt: skip
    extreme = (
        "extreme", 2, False, -128, -(2**15), -(2**31), -(2**63), NAN, -INF,
        Decimal("-99999999.99"), Decimal("9" * 20 + "." + "9" * 18), "", b"",
        dt.date(1500, 1, 1), dt.datetime(1500, 1, 1, 12, 30), dt.datetime(1500, 1, 1), [], {},
        (2**31 - 1, []), [], {}, [[NAN, INF, -0.0]],
    )  # fmt: skip
    upper = (
        "upper", 3, None, 127, 2**15 - 1, 2**31 - 1, 2**63 - 1, INF, 5e-324,
        Decimal("99999999.99"), Decimal("0." + "0" * 17 + "1"), "a\nb\t\"'`\\%_", b"\n",
        dt.date(9999, 12, 31), dt.datetime(9999, 12, 30), dt.datetime(9999, 12, 31, 23, 59, 59),
        [None], {"": None}, (None, [None, ""]), [None, (None, None, None), ({"k": None}, None, NAN)],
        {"n": None, "s": (None, [None], None)}, [None, [None]],
    )  # fmt: skip
    nulls = ("nulls", 4, *[None] * 20)
    rows = [usual, extreme, upper, nulls]
    return spark.createDataFrame(rows, EVERY_TYPE)  # type: ignore[type-var]


def rows(frame: DataFrame) -> list[str]:
    """Return every row as text, sorted: NaN equals itself there, and 1 differs from 1.0."""
    return sorted(repr(row.asDict(recursive=True)) for row in frame.collect())


def arrow_rows(data: Any) -> list[str]:
    """Return the rows of an Arrow table or reader as text, sorted."""
    table = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    return sorted(repr(row) for row in table.to_pylist())


def files_below(path: str) -> list[str]:
    """Return every file below the table, but for its lock file."""
    found = [
        os.path.relpath(os.path.join(folder, name), path)
        for folder, _, names in os.walk(path)
        for name in names
    ]
    return sorted(name for name in found if not name.startswith(".hoodie/.locks/"))


def strays(table: lakebed.Table) -> list[str]:
    """Return the data and temporary files below the table that no commit names."""
    root = table.path.removeprefix("file://")
    named = {
        row["path"]
        for instant in table.history().column("instant").to_pylist()
        for row in table.files(as_of=instant).to_pylist()
    }
    return [
        name
        for name in files_below(root)
        if name not in named
        and not name.startswith(".hoodie/lakebed/")
        and (name.endswith(".parquet") or name.startswith(".hoodie/.temp/") or ".tmp" in name)
    ]


@contextlib.contextmanager
def session_conf(spark: SparkSession, **conf: str) -> Iterator[None]:
    """Set what a user's session may have set (`__` for a dot), for a while."""
    before = {}
    for name, value in conf.items():
        dotted = name.replace("__", ".")
        before[dotted] = spark.conf.get(dotted, None)
        spark.conf.set(dotted, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)
