"""A scan: printed, read as Arrow, by Polars and by DuckDB, with what they push down."""

import datetime as dt
import decimal
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.api.scanning.arrow_filter import columns_of, parse_filter
from lakebed.api.scanning.arrow_filter import filter_texts as arrow_texts
from lakebed.api.scanning.dataset import ScanDataset
from lakebed.api.scanning.frame import lazy_frame
from lakebed.api.scanning.frame_filter import filter_texts as frame_texts
from lakebed.api.scanning.source import ScanSource
from lakebed.api.table import Table
from lakebed.errors import InvalidError, NotFoundError, SchemaError, UnsupportedError
from lakebed.storage.objects import memory_storage
from support.faulty import FaultyStorage
from support.tables import batch, make, reopen

D = decimal.Decimal
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("select", pa.int64()),
        ("d", pa.decimal128(12, 2)),
        ("ts", pa.timestamp("us", "UTC")),
        ("tn", pa.timestamp("us")),
        ("day", pa.date32()),
        ("f", pa.float32()),
        ("g", pa.float64()),
        ("b", pa.bool_()),
        ("bin", pa.binary()),
        ("st", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("n", pa.int32()),
        ("dt", pa.string()),
    ]
)


def row(i: int) -> dict[str, Any]:
    """Return a row; floats hold NaN and -0.0, and every column but the key and `dt` holds nulls."""
    real = float("nan") if i % 7 == 0 else -0.0 if i % 11 == 0 else i / 10
    found = {
        "id": f"{('钥匙', '🔑', 'k', 'é%_')[i % 4]}{i}",
        "select": i,
        "d": D(i) / 4,
        "ts": dt.datetime(2024, 1, 1, i % 24, tzinfo=dt.UTC),
        "tn": dt.datetime(2024, 1, 1, i % 24),
        "day": dt.date(2024, 1, 1 + i % 28),
        "f": real,
        "g": real,
        "b": i % 2 == 0,
        "bin": bytes([i]),
        "st": {"x": i, "y": f"v{i}"},
        "l": [i, None],
        "m": [("k", i)],
        "n": i % 50,
    }
    names = [name for name in found if name != "id"]
    for at, name in enumerate(names):
        if i % (len(names) + 3) == at:
            found[name] = None
    return {**found, "dt": f"p{i % 2}"}


def rows(numbers: Any, **changes: Any) -> pa.Table:
    return pa.Table.from_pylist([row(i) | changes for i in numbers], schema=SCHEMA)


@pytest.fixture(scope="module")
def table() -> Table:
    """Return a table with base files, logs, deletes, and an index of one column."""
    made = make(schema=SCHEMA, table_type="MERGE_ON_READ", buckets=2)
    made.insert(rows(range(120)))
    made.create_index("by_n", ["n"])
    made.upsert(rows(range(0, 120, 9), select=-1))
    made.delete([{"id": row(i)["id"], "dt": f"p{i % 2}"} for i in range(0, 120, 13)])
    return made


@pytest.fixture(scope="module")
def whole(table: Table) -> pa.Table:
    """Return all rows, as `read` gives them."""
    return table.read().read_all()


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    """Assert that two frames have the same columns and rows; `equals` takes NaN for equal."""
    assert found.schema == wanted.schema
    assert found.sort("id").equals(wanted.sort("id"))


c = pl.col
NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
# An expression of Polars, the same for DuckDB, and the predicates that Polars' and DuckDB's become.
FILTERS: dict[str, tuple[pl.Expr, str, str | None, str | None]] = {
    "greater": (c("select") > 100, '"select" > 100', "(`select` > 100)", "(`select` > 100)"),
    "key": (c("id") == "钥匙8", "id = '钥匙8'", "(`id` = '钥匙8')", "(`id` = '钥匙8')"),
    "keys": (
        c("id").is_in(["🔑1", "k2", "no'ne"]),
        "id IN ('🔑1', 'k2', 'no''ne')",
        "(`id` IN ('🔑1', 'k2', 'no\\'ne'))",
        "(`id` IN ('🔑1', 'k2', 'no\\'ne'))",
    ),
    "decimal": (
        c("d") > D("10.25"),
        "d > 10.25",
        "(`d` > CAST('10.25' AS DECIMAL(4, 2)))",
        "(`d` > CAST('10.25' AS DECIMAL(4, 2)))",
    ),
    "whole decimal": (
        c("d") == 3,
        "d = 3",
        "(`d` = CAST('3' AS DECIMAL(1, 0)))",
        "(`d` = CAST('3.00' AS DECIMAL(3, 2)))",
    ),
    "finer decimal": (
        c("d") <= D("10.255"),
        "d <= 10.255",
        "(`d` <= CAST('10.255' AS DECIMAL(5, 3)))",
        None,
    ),
    "moment": (
        c("ts") >= NOON,
        "ts >= TIMESTAMPTZ '2024-01-01 12:00:00+00'",
        "(`ts` >= CAST('2024-01-01 12:00:00.000000Z' AS TIMESTAMP))",
        "(`ts` >= CAST('2024-01-01 12:00:00.000000Z' AS TIMESTAMP))",
    ),
    "moment without a zone": (
        c("tn") < NOON.replace(tzinfo=None),
        "tn < TIMESTAMP '2024-01-01 12:00:00'",
        "(`tn` < CAST('2024-01-01 12:00:00.000000' AS TIMESTAMP_NTZ))",
        "(`tn` < CAST('2024-01-01 12:00:00.000000' AS TIMESTAMP_NTZ))",
    ),
    "nanoseconds": (
        c("tn").cast(pl.Datetime("ns")) < pl.lit(NOON.replace(tzinfo=None), pl.Datetime("ns")),
        "tn < TIMESTAMP_NS '2024-01-01 12:00:00'",
        None,
        None,
    ),
    "day": (
        c("day") == dt.date(2024, 1, 9),
        "day = DATE '2024-01-09'",
        "(`day` = CAST('2024-01-09' AS DATE))",
        "(`day` = CAST('2024-01-09' AS DATE))",
    ),
    "float": (
        c("f") == pl.lit(0.1, pl.Float32),
        "f = 0.1::FLOAT",
        "(`f` = CAST('0.10000000149011612' AS DOUBLE))",
        "(`f` = CAST('0.10000000149011612' AS DOUBLE))",
    ),
    "rounded float": (
        c("f") <= 0.1,
        "f <= 0.1",
        "(`f` <= CAST('0.10000000149011612' AS DOUBLE))",
        "(`f` <= CAST('0.10000000149011612' AS DOUBLE))",
    ),
    "double below": (
        c("g") < 3.3,
        "g < 3.3::DOUBLE",
        "(`g` < CAST('3.3' AS DOUBLE))",
        "(`g` < CAST('3.3' AS DOUBLE))",
    ),
    "double above": (c("g") > 3.3, "g > 3.3::DOUBLE", "(`g` > CAST('3.3' AS DOUBLE))", None),
    "zero": (
        c("g") == 0.0,
        "g = 0.0",
        "(`g` = CAST('0.0' AS DOUBLE))",
        "(`g` = CAST('0.0' AS DOUBLE))",
    ),
    "not below": (~(c("g") < 3.3), "NOT (g < 3.3::DOUBLE)", "(`g` >= CAST('3.3' AS DOUBLE))", None),
    "nan": (c("g").is_nan(), "isnan(g)", None, None),
    "infinite": (c("g") < float("inf"), "g < 'inf'::DOUBLE", None, None),
    "boolean": (c("b"), "b", "(`b`)", None),
    "not boolean": (~c("b"), "NOT b", "(NOT (`b`))", None),
    "null": (c("b").is_null(), "b IS NULL", "(`b` IS NULL)", "(`b` IS NULL)"),
    "not null": (c("m").is_not_null(), "m IS NOT NULL", "(`m` IS NOT NULL)", "(`m` IS NOT NULL)"),
    "field": (c("st").struct.field("x") > 50, "st.x > 50", "(`st`.`x` > 50)", "(`st`.`x` > 50)"),
    "null struct": (c("st").is_null(), "st IS NULL", "(`st` IS NULL)", "(`st` IS NULL)"),
    "prefix": (
        c("id").str.starts_with("é%"),
        "starts_with(id, 'é%')",
        "(`id` LIKE 'é\\\\%%')",
        None,
    ),
    "between": (
        c("n").is_between(3, 9),
        "n BETWEEN 3 AND 9",
        "((`n` >= 3) AND (`n` <= 9))",
        "(`n` >= 3) AND (`n` <= 9)",
    ),
    "half open": (
        c("n").is_between(3, 9, closed="right"),
        "n > 3 AND n <= 9",
        "((`n` > 3) AND (`n` <= 9))",
        "(`n` > 3) AND (`n` <= 9)",
    ),
    "or": (
        (c("n") > 40) | (c("select") < 0),
        'n > 40 OR "select" < 0',
        "((`n` > 40) OR (`select` < 0))",
        "((`n` > 40) OR (`select` < 0))",
    ),
    "a part": (
        (c("n") * 2 > 30) & (c("select") < 90),
        'n * 2 > 30 AND "select" < 90',
        "(`select` < 90)",
        "(`n` > 15) AND (`select` < 90)",
    ),
    "half of an or": (
        (c("n") * 2 > 30) | (c("select") < 5),
        'n * 2 > 30 OR "select" < 5',
        None,
        "((`n` > 15) OR (`select` < 5))",
    ),
    "null-safe": (c("n").eq_missing(4), "n IS NOT DISTINCT FROM 4", "(`n` <=> 4)", None),
    "null-safe unequal": (c("n").ne_missing(4), "n IS DISTINCT FROM 4", None, None),
    "unequal": (c("n") != 4, "n <> 4", "(`n` <> 4)", "(`n` <> 4)"),
    "flipped": (pl.lit(40) < c("n"), "40 < n", "(`n` > 40)", "(`n` > 40)"),
    "not in": (~c("n").is_in([2, 4]), "n NOT IN (2, 4)", None, None),
    "in with null": (c("n").is_in([2, None]), "n IN (2, NULL)", "(`n` IN (2))", None),
    "null is in": (
        c("n").is_in([2, None], nulls_equal=True),
        "n = 2 OR n IS NULL",
        None,
        "((`n` = 2) OR (`n` IS NULL))",
    ),
    "in nothing": (c("n").is_in([]), "false", None, None),
    "no row": (c("n") == 2**40, "n = 1099511627776", None, None),
    "binary": (c("bin") == b"\x05", r"bin = '\x05'::BLOB", None, None),
    "a double of an integer": (c("n") > 1.5, "n > 1.5", None, None),
    "two columns": (c("n") == c("select"), 'n = "select"', None, None),
    "every row": (pl.lit(value=True), "true", None, None),
}


@pytest.mark.parametrize("name", FILTERS)
def test_polars_and_duckdb_find_the_rows_that_they_find_in_memory(table, whole, name):
    expression, sql, _, _ = FILTERS[name]
    lazy = table.scan().to_polars().filter(expression)
    wanted = pl.from_arrow(whole).filter(expression)
    for engine in ("in-memory", "streaming"):
        same(lazy.collect(engine=engine), wanted)
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        connection.register("held", whole)
        relation = table.to_duckdb(connection)
        found = connection.sql(f"FROM relation WHERE {sql}").to_arrow_table()
        wanted = pl.from_arrow(connection.sql(f"FROM held WHERE {sql}").to_arrow_table())
        same(pl.from_arrow(found), wanted)
        assert relation.columns == SCHEMA.names


def watched(table: Table) -> tuple[ScanSource, list[tuple[list[str], str | None]]]:
    """Return what a scan reads from, and a list of the columns and predicates that come to it."""
    inner = table.scan()._source
    seen: list[tuple[list[str], str | None]] = []

    def read(columns: Sequence[str], where: str | None) -> pa.RecordBatchReader:
        seen.append((list(columns), where))
        return inner.open(columns, where)

    return replace(inner, open=read), seen


@pytest.mark.parametrize("name", FILTERS)
def test_what_is_certain_is_pushed_down(table, name):
    expression, sql, by_polars, by_duckdb = FILTERS[name]
    source, seen = watched(table)
    lazy_frame(source).filter(expression).select("id").collect()
    assert [where for _, where in seen] == [by_polars]
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        relation = connection.from_arrow(ScanDataset(source))
        seen.clear()
        connection.sql(f"SELECT id FROM relation WHERE {sql}").fetchall()
        assert [where for _, where in seen] == ([] if sql == "false" else [by_duckdb])
        assert relation.columns == SCHEMA.names


def test_combined_predicates_find_the_rows_that_they_find_in_memory(table, whole):
    rng = np.random.default_rng(7)
    names = list(FILTERS)
    held, lazy = pl.from_arrow(whole), table.scan().to_polars()
    with duckdb.connect() as connection:
        connection.sql("SET TimeZone = 'UTC'")
        connection.register("held", whole)
        relation = table.to_duckdb(connection)
        assert relation.columns == SCHEMA.names
        for _ in range(40):
            (left, one, *_), (right, two, *_), (third, three, *_) = (
                FILTERS[names[at]] for at in rng.integers(len(names), size=3)
            )
            expression, sql = (
                ((left & right) | ~third, f"({one}) AND ({two}) OR NOT ({three})"),
                (~(left | right) & third, f"NOT (({one}) OR ({two})) AND ({three})"),
                (left & (right | third), f"({one}) AND (({two}) OR ({three}))"),
            )[rng.integers(3)]
            same(lazy.filter(expression).collect(), held.filter(expression))
            found = connection.sql(f"FROM relation WHERE {sql}").to_arrow_table()
            wanted = connection.sql(f"FROM held WHERE {sql}").to_arrow_table()
            same(pl.from_arrow(found), pl.from_arrow(wanted))


def test_only_the_columns_of_a_query_are_read(table):
    source, seen = watched(table)
    lazy_frame(source).filter(c("n") > 3).select("day").collect()
    lazy_frame(source).select(pl.len()).collect()
    with duckdb.connect() as connection:
        relation = connection.from_arrow(ScanDataset(source))
        seen_by_polars, seen[:] = list(seen), []
        connection.sql("SELECT day FROM relation WHERE n * 2 > 3").fetchall()
        connection.sql("SELECT count(*) FROM relation").fetchall()
        assert relation.shape[1] == len(SCHEMA)
    for (first, _), (count, _) in (seen_by_polars, seen[:2]):
        assert sorted(first) == ["day", "n"]
        assert len(count) == 1


def test_rows_are_counted_before_they_are_filtered_where_polars_does(table, whole):
    lazy = table.scan().to_polars()
    assert lazy.head(7).collect().height == 7
    assert lazy.head(0).collect().height == 0
    assert lazy.head(10_000).collect().height == whole.num_rows
    first = lazy.head(50).collect()
    same(lazy.head(50).filter(c("n") > 3).collect(), first.filter(c("n") > 3))
    assert lazy.filter(c("n") > 3).head(5).collect().height == 5
    assert lazy.filter(c("n") > 3).tail(5).collect().height == 5
    # A predicate that narrows as the query runs.
    top = lazy.filter(c("select").is_not_null()).sort("select", descending=True).head(3)
    highest = sorted(whole.column("select").drop_null().to_pylist(), reverse=True)[:3]
    assert top.collect().get_column("select").to_list() == highest


def test_counts_sums_joins_and_views(table, whole):
    lazy = table.scan().to_polars()
    total = pc.sum(whole.column("select")).as_py()
    assert lazy.select(pl.len(), c("select").sum()).collect().row(0) == (whole.num_rows, total)
    assert lazy.join(lazy, on=["id", "dt"]).collect().height == whole.num_rows
    with duckdb.connect() as connection:
        table.to_duckdb(connection).create_view("trips")
        asked = 'SELECT count(*), sum("select") FROM trips'
        assert connection.sql(asked).fetchall() == [(whole.num_rows, total)]
        both = "SELECT count(*) FROM trips a JOIN trips b USING (id, dt)"
        assert connection.sql(both).fetchall() == [(whole.num_rows,)]
        assert len(connection.sql("FROM trips LIMIT 3").fetchall()) == 3


def test_the_default_connection_of_duckdb_reads_it_too(table, whole):
    assert table.to_duckdb().aggregate("count(*)").fetchall() == [(whole.num_rows,)]


def test_a_scan_has_columns_a_predicate_and_a_time_of_its_own():
    table = make(table_type="MERGE_ON_READ")
    first = table.insert(batch(("a", 1, 1, "p"), ("b", 2, 1, "q")))
    table.upsert(batch(("b", 5, 2, "q"), ("c", 6, 2, "q")))
    scan = table.scan(["v", "_hoodie_record_key"], "dt = 'q'", as_of=first.instant)
    wanted = [{"v": 2, "_hoodie_record_key": "b"}]
    assert scan.to_arrow().to_pylist() == wanted
    assert scan.to_polars().collect().to_dicts() == wanted
    assert scan.to_polars().filter(c("v") > 2).collect().is_empty()
    with duckdb.connect() as connection:
        assert scan.to_duckdb(connection).to_arrow_table().to_pylist() == wanted
        assert scan.to_duckdb(connection).filter("v > 2").fetchall() == []
    assert repr(scan).splitlines() == [
        f"scan of: {table.path}",
        f"as of: {first.instant}",
        "columns: v int64, _hoodie_record_key string",
        "where: dt = 'q'",
    ]
    assert "dt = &#x27;q&#x27;" in scan._repr_html_()


def test_a_pushed_predicate_cannot_widen_that_of_the_scan():
    table = make()
    table.insert(batch(("a", 1, 1, "p"), ("b", 2, 1, "q")))
    scan = table.scan(where="v = 1 OR v = 2")
    assert scan.to_polars().filter(c("dt") == "q").collect().get_column("id").to_list() == ["b"]
    scan = table.scan(where="v = 1")
    both = (c("dt") == "q") | (c("dt") == "p")
    assert scan.to_polars().filter(both).collect().get_column("id").to_list() == ["a"]


def test_later_commits_do_not_change_what_a_scan_reads():
    table = make(table_type="MERGE_ON_READ")
    table.insert(batch(("a", 1, 1, "p")))
    scan = table.scan()
    lazy = scan.to_polars()
    table.upsert(batch(("a", 2, 2, "p"), ("b", 3, 2, "p")))
    assert scan.to_arrow().column("v").to_pylist() == [1]
    assert lazy.collect().get_column("v").to_list() == [1]
    assert table.scan().to_arrow().num_rows == 2


def test_an_empty_table_has_its_columns():
    table = make(schema=SCHEMA)
    assert table.scan().to_arrow().schema.names == SCHEMA.names
    for engine in ("in-memory", "streaming"):
        found = table.scan().to_polars().filter(c("n") > 3).collect(engine=engine)
        assert (found.columns, found.height) == (SCHEMA.names, 0)
    with duckdb.connect() as connection:
        relation = table.to_duckdb(connection)
        assert (relation.columns, relation.filter("n > 3").fetchall()) == (SCHEMA.names, [])


def test_column_groups_are_read_where_a_query_needs_them():
    groups = {"one": "v;ts", "two": "w"}
    schema = pa.schema(
        [("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64()), ("w", pa.int64())]
    )
    storage = FaultyStorage(memory_storage())
    table = make(
        storage,
        schema=schema,
        partition_by=(),
        table_type="MERGE_ON_READ",
        table_version=10,
        column_groups=groups,
    )
    table.insert(
        pa.table({"id": ["a", "b"], "v": [1, 2], "ts": [1, 1], "w": [3, 4]}, schema=schema)
    )
    lazy = table.scan().to_polars()
    assert lazy.filter(c("w") == 4).select("id", "v").collect().rows() == [("b", 2)]
    all_of = [data_reads(storage, lazy.select("v", "w").collect), data_reads(storage, lazy.collect)]
    assert 0 < data_reads(storage, lazy.select("v").collect) < min(all_of)
    with duckdb.connect() as connection:
        found = table.to_duckdb(connection).filter("w = 4").project("id, v").fetchall()
        assert found == [("b", 2)]


def data_reads(storage: FaultyStorage, work: Callable[[], object]) -> int:
    """Return how many data files `work` opens."""
    before = len(storage.ops)
    work()
    opened = [op.split(" ")[1] for op in storage.ops[before:] if op.startswith("open_read ")]
    return len({path for path in opened if ".hoodie/" not in path})


def test_less_is_read_for_a_key_a_partition_an_indexed_value_and_a_few_rows():
    storage = FaultyStorage(memory_storage())
    made = make(storage, buckets=4)
    made.insert(batch(*((f"k{i}", i, 1, f"p{i % 3}") for i in range(120))))
    made.create_index("by_v", ["v"])
    # A fresh handle has read no footer.
    with duckdb.connect() as connection:
        for work in (
            lambda t: t.scan().to_polars().collect,
            lambda t: t.to_duckdb(connection).fetchall,
        ):
            assert data_reads(storage, work(reopen(storage))) == 12
        for found in (
            lambda t: t.scan().to_polars().filter(c("v") == 7).collect,
            lambda t: t.to_duckdb(connection).filter("v = 7").fetchall,
            lambda t: t.scan().to_polars().filter(c("id") == "k7", c("dt") == "p1").collect,
            lambda t: t.to_duckdb(connection).filter("id = 'k7' AND dt = 'p1'").fetchall,
            lambda t: t.scan().to_polars().head(1).collect,
        ):
            assert data_reads(storage, found(reopen(storage))) == 1
        for found in (
            lambda t: t.scan().to_polars().filter(c("dt").is_in(["p0", "p1"])).collect,
            lambda t: t.to_duckdb(connection).filter("dt IN ('p0', 'p1')").fetchall,
        ):
            assert data_reads(storage, found(reopen(storage))) == 8
        some = data_reads(storage, reopen(storage).to_duckdb(connection).limit(1).fetchall)
        assert some < 12


def test_anything_that_takes_arrow_streams_takes_a_scan(table, whole):
    scan = table.scan()
    same(pl.from_arrow(pa.table(scan)), pl.from_arrow(whole))
    same(pl.DataFrame(scan), pl.from_arrow(whole))
    copy = make(schema=SCHEMA)
    copy.insert(scan)
    assert copy.count() == whole.num_rows


def test_a_scan_refuses_what_read_refuses(table):
    with pytest.raises(SchemaError, match=r"no column 'select_'.*'select'"):
        table.scan(["select_"])
    with pytest.raises(InvalidError, match="where: expected"):
        table.scan(where=" ")
    with pytest.raises(UnsupportedError):
        table.scan(where="id RLIKE 'a'")


@pytest.mark.parametrize(
    ("package", "old", "install"),
    [
        ("polars", "1.43.2", "'lakebed[polars]'"),
        ("duckdb", "1.5.6", "'lakebed[duckdb]'"),
        ("pandas", "2.1.4", "pandas"),
    ],
)
def test_a_missing_or_old_package_is_said_in_a_sentence(table, monkeypatch, package, old, install):
    open_ = getattr(table if package == "pandas" else table.scan(), f"to_{package}")
    with monkeypatch.context() as patched:
        patched.setattr(import_module(package), "__version__", old)
        wanted = f"later, found {old}: pip install {install}"
        with pytest.raises(UnsupportedError, match=re.escape(wanted)):
            open_()
    monkeypatch.setitem(sys.modules, package, None)
    wanted = f"to_{package} needs {package}, which is not installed: pip install {install}"
    with pytest.raises(UnsupportedError, match=re.escape(wanted)):
        open_()


def test_an_error_of_a_read_reaches_the_query():
    table = make()
    table.insert(batch(("a", 1, 1, "p")))
    scan = table.scan()
    (path,) = table.files().column("path").to_pylist()
    table.storage.delete(path)
    with pytest.raises(NotFoundError, match=path):
        scan.to_arrow()
    with pytest.raises(NotFoundError, match=path):
        scan.to_polars().collect()
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match=path):
        scan.to_duckdb(connection).fetchall()


def test_names_and_values_of_an_expression_cannot_pass_for_its_parts():
    name = "a` = 1) OR (b == \"call\" \n end: 'equal'"
    schema = pa.schema([(name, pa.string()), ("select", pa.int64())])
    value = "x') OR ('1' = '1"
    tree = parse_filter((pc.field(name) == pa.scalar(value)) & (pc.field("select") > pa.scalar(5)))
    assert sorted(columns_of(tree)) == sorted([name, "select"])
    spelled = name.replace("`", "``")
    wanted = [rf"`{spelled}` = 'x\') OR (\'1\' = \'1'", "`select` > 5"]
    assert arrow_texts(tree, schema) == wanted
    assert frame_texts((c(name) == value) & (c("select") > 5), schema) == wanted


def test_an_expression_that_cannot_be_read_is_not_pushed_down():
    assert parse_filter("no expression") is None
    long = pc.field("n") > pa.scalar(0)
    for i in range(12_000):
        long = long | (pc.field("n") == pa.scalar(i))
    assert parse_filter(long) is None


def test_a_long_chain_of_conditions_is_pushed_down_or_left_out():
    schema = pa.schema([("n", pa.int64())])
    every = c("n") > 0
    some = c("n") > 0
    for i in range(300):
        every, some = every & (c("n") != i), some | (c("n") == i)
    assert len([text for text in frame_texts(every, schema) if text is not None]) > 100
    assert frame_texts(some, schema) == [None]


@pytest.mark.parametrize(
    "expression",
    [
        c("n") == pl.lit(pl.Series([1, 2])),  # row by row
        c("n") > pl.lit(pl.Series([], dtype=pl.Int64)),
        c("n") == pl.lit(2**100, pl.Int128),
        c("n").is_in(pl.Series([2**100], dtype=pl.Int128)),
        c("n").is_in(c("l")),
        c("n") == pl.lit(None),
        c("id") == pl.lit(object(), pl.Object),
        c("id") == pl.lit("a", pl.Categorical),
        c("id").str.starts_with(pl.lit(None, pl.String)),
        c("id").str.starts_with(c("id")),
        c("l") == [1, 2],
        c("n").over("id") > 3,
        c("nothing") == 1,
    ],
)
def test_what_is_not_a_comparison_with_one_value_is_left_out(expression):
    assert frame_texts(expression, SCHEMA) == [None]
    assert frame_texts((c("n") < 5) & expression, SCHEMA) == ["`n` < 5", None]


def test_a_query_that_has_its_rows_stops_the_stream_and_none_reads_far_ahead():
    schema, total, pulled = pa.schema([("id", pa.int64())]), 2_000, []

    def batches() -> Iterator[pa.RecordBatch]:
        for i in range(total):
            pulled.append(i)
            yield pa.record_batch([pa.array(range(i * 1_000, i * 1_000 + 1_000))], schema=schema)

    def read(columns: Sequence[str], where: str | None) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(schema, batches())

    source = ScanSource(schema, None, read)
    even = lazy_frame(source).filter(c("id") % 2 == 0)
    with duckdb.connect() as connection:
        relation = connection.from_arrow(ScanDataset(source)).filter("id % 2 = 0")
        for query, rows in (
            (lambda: even.head(5).collect(), 5),
            (lambda: even.head(5).collect(engine="streaming"), 5),
            (lambda: next(iter(even.collect_batches(chunk_size=1_000))), 1_000),
            (lambda: relation.limit(5).fetchall(), 5),
        ):
            pulled.clear()
            assert len(query()) == rows
            assert 0 < len(pulled) < total // 4
