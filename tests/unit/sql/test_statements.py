"""Statements in this process: what they do to tables, what they return, what they refuse."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    ExistsError,
    InvalidError,
    LakebedError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from lakebed.sql.catalog import Catalog
from lakebed.sql.statements import split_script


@pytest.fixture
def catalog(request: pytest.FixtureRequest) -> Catalog:
    return lakebed.catalog(None, f"memory://sql/{request.node.name}")


def rows(catalog: Catalog, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
    found = catalog.sql(text, **parameters).read_all()
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


def one(catalog: Catalog, text: str, **parameters: Any) -> dict[str, Any]:
    (row,) = catalog.sql(text, **parameters).read_all().to_pylist()
    return row


ORDERS = """
    CREATE TABLE orders (id BIGINT NOT NULL COMMENT 'the key', city STRING, amount DOUBLE, dt STRING,
                         PRIMARY KEY (id, dt))
    USING lakebed PARTITIONED BY (dt)
    TBLPROPERTIES (preCombineField = 'amount', type = 'mor', 'hoodie.keep.max.commits' = '50')
    COMMENT 'all orders'
"""


@pytest.fixture
def orders(catalog: Catalog) -> Catalog:
    catalog.sql(ORDERS)
    catalog.sql(
        "INSERT INTO orders VALUES (1, 'Oslo', 1.5, 'p'), (2, 'it''s', -20, 'q'), (3, NULL, 1e3, 'q')"
    )
    return catalog


class LateCatalog(Catalog):
    """A catalogue that another process gives a table after it has looked for it."""

    def check_new(self, name: Sequence[str]) -> None:
        """Find nothing yet."""


def test_a_create_that_loses_a_race_leaves_the_name_to_the_other():
    catalog = LateCatalog(None, "memory://sql-race/warehouse")
    catalog.sql("CREATE TABLE t (id INT PRIMARY KEY) LOCATION 'memory://sql-race/first'")
    with pytest.raises(ExistsError):
        catalog.sql("CREATE TABLE t (id INT PRIMARY KEY) LOCATION 'memory://sql-race/second'")
    assert catalog.table("t").path == "memory://sql-race/first"
    with pytest.raises(NotFoundError):
        lakebed.open_table(None, "memory://sql-race/second")


def test_create_table_takes_keys_types_partitions_and_properties(catalog: Catalog):
    catalog.sql(ORDERS)
    config = catalog.table("orders").config
    assert config.record_key_fields == ("id", "dt")
    assert (config.ordering_fields, config.partition_fields) == (("amount",), ("dt",))
    assert config.properties["hoodie.keep.max.commits"] == "50"
    assert not catalog.table("orders").schema.field("id").nullable
    catalog.sql("CREATE TABLE c (a INT) PARTITIONED BY (b STRING) OPTIONS (type='cow', key='a')")
    config = catalog.table("c").config
    assert (config.table_type, config.partition_fields) == ("COPY_ON_WRITE", ("b",))


def test_a_table_without_a_key_keeps_equal_rows_and_changes_them_by_predicate(catalog: Catalog):
    catalog.sql("CREATE TABLE t (a INT, city STRING) PARTITIONED BY (city)")
    catalog.sql("INSERT INTO t VALUES (1, 'x'), (1, 'x'), (2, 'y'), (3, 'y')")
    assert one(catalog, "DELETE FROM t WHERE a = 2")["num_deleted_rows"] == 1
    assert one(catalog, "UPDATE t SET a = a + 10 WHERE a = 3")["num_updated_rows"] == 1
    assert rows(catalog, "SELECT * FROM t") == [(1, "x"), (1, "x"), (13, "y")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE TABLE t (id BIGNT)", "expected a type such as BIGINT"),
        ("CREATE TABLE t (id INT) TBLPROPERTIES (primryKey='id')", "did you mean 'primaryKey'"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES (key='x')", "contradicts"),
        (
            "CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES ('hoodie.keep.max.comits'='1')",
            "did you mean hoodie.keep.max.commits",
        ),
        ("CREATE TABLE t (id INT PRIMARY KEY) USING lakbed", "did you mean 'lakebed'"),
        ("CREATE TABLE t (id INT PRIMARY KEY) PARTITIOND BY (id)", "did you mean 'PARTITIONED'"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (nope))", "no such column"),
        ("CREATE TABLE t (id INT DEFAULT 5 PRIMARY KEY)", "NOT NULL, COMMENT and PRIMARY KEY only"),
        ("CREATE TABLE t", "expected columns, AS SELECT, or the LOCATION"),
        ("CREATE TABLE `../t` (id INT PRIMARY KEY)", "not a name of a folder"),
        ("CREATE TABLE db.`..` (id INT PRIMARY KEY)", "not a name of a folder"),
        ("CREATE TABLE a.b.c (id INT PRIMARY KEY)", "expected a name, database.name"),
        ("CREATE TABLE t TBLPROPERTIES (key='z') AS SELECT 1 AS id", "no column 'z'"),
        ("CREATE TABLE t TBLPROPERTIES (key='id') AS SELECT id, 1 / (id - 3) AS z FROM orders", "zero"),
        ("CREATE TABLE t (id INT) AS SELECT 1 AS id", "takes its columns from the query"),
    ],
)  # fmt: skip
def test_a_create_that_fails_says_why_and_leaves_nothing(orders: Catalog, text: str, words: str):
    with pytest.raises(LakebedError, match=words):
        orders.sql(text)
    assert (orders.tables(), orders.databases()) == (["orders"], ["default"])


def test_a_table_as_select_has_its_rows(orders: Catalog):
    counts = one(
        orders,
        "CREATE TABLE c TBLPROPERTIES (key = 'id') AS SELECT id, amount * 2 AS a FROM orders",
    )
    assert counts["num_inserted_rows"] == 3
    assert rows(orders, "SELECT * FROM c WHERE id = 1") == [(1, 3.0)]
    with pytest.raises(ExistsError, match="'c' already exists"):
        orders.sql("CREATE TABLE c (id INT PRIMARY KEY)")
    orders.sql("CREATE TABLE IF NOT EXISTS c AS SELECT 1 / 0 AS never")


def test_names_resolve_to_folders_databases_paths_and_locations(catalog: Catalog):
    catalog.sql("CREATE TABLE db.t (id INT PRIMARY KEY)")
    catalog.sql("INSERT INTO db.T VALUES (1)")
    path = catalog.table("db.t").path
    assert rows(catalog, f"SELECT id FROM lakebed.`{path}`") == [(1,)]
    assert rows(catalog, "SELECT id FROM spark_catalog.db.t") == [(1,)]
    catalog.sql(f"CREATE TABLE far USING lakebed LOCATION '{path}'")
    assert rows(catalog, "SELECT id FROM far") == [(1,)]
    assert (catalog.tables(), catalog.tables("db")) == (["far"], ["t"])
    catalog.sql("DROP TABLE far")
    assert rows(catalog, "SELECT id FROM db.t") == [(1,)]
    with pytest.raises(NotFoundError, match="no table 'far'"):
        catalog.sql("SELECT * FROM far")
    with pytest.raises(NotFoundError, match=r"no database 'dbb'.*did you mean 'db'"):
        catalog.sql("SHOW TABLES IN dbb")


def test_a_created_table_at_a_location_is_elsewhere_and_its_drop_keeps_the_rows(catalog: Catalog):
    place = "memory://sql-elsewhere/t"
    catalog.sql(f"CREATE TABLE t (id INT PRIMARY KEY) LOCATION '{place}'")
    catalog.sql("INSERT INTO t VALUES (7)")
    catalog.sql("DROP TABLE t")
    assert lakebed.open_table(place).to_arrow().to_pylist() == [{"id": 7}]
    lakebed.drop_table(place)


def test_a_dropped_table_is_gone_and_its_name_free(orders: Catalog):
    orders.sql("DROP TABLE orders")
    assert orders.tables() == []
    orders.sql("DROP TABLE IF EXISTS orders")
    orders.sql("CREATE TABLE orders (k STRING PRIMARY KEY)")
    assert rows(orders, "SELECT * FROM orders") == []


def test_insert_merges_by_key_fills_omitted_columns_and_counts(orders: Catalog):
    catalog = orders
    catalog.sql("CREATE TABLE t (id INT PRIMARY KEY, v STRING, n DECIMAL(10,2))")
    assert one(catalog, "INSERT INTO t VALUES (1, 'a', 3), (2, 'b', 4.25)")["num_rows"] == 2
    catalog.sql("INSERT INTO t (id, v) VALUES (2, :v)", v="c")
    catalog.sql("INSERT INTO t BY NAME SELECT 'z' AS v, 3 AS ID")
    found = rows(catalog, "SELECT id, v, CAST(n AS DOUBLE) FROM t")
    assert found == [(1, "a", 3.0), (2, "c", None), (3, "z", None)]
    catalog.sql("INSERT INTO t SELECT CAST(id AS INT), city, 1 FROM orders WHERE id = 1")
    assert one(catalog, "SELECT v FROM t WHERE id = 1") == {"v": "Oslo"}


def test_literals_of_every_type_are_stored(catalog: Catalog):
    catalog.sql(
        "CREATE TABLE t (id INT PRIMARY KEY, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, INT>,"
        " d DATE, ts TIMESTAMP, b BINARY, f FLOAT, big BIGINT, ok BOOLEAN)"
    )
    catalog.sql(
        "INSERT INTO t VALUES (1, NAMED_STRUCT('x', 1, 'y', ARRAY('a', 'b''c')), MAP('k', 2),"
        " '2026-01-02', TIMESTAMP '2026-01-02 10:00:00', X'0aff', 1.5, -9223372036854775807, true)"
    )
    row = one(catalog, "SELECT * FROM t")
    assert row["s"] == {"x": 1, "y": ["a", "b'c"]}
    assert (row["m"], str(row["d"]), row["b"]) == ([("k", 2)], "2026-01-02", b"\x0a\xff")
    assert (str(row["ts"]), row["f"]) == ("2026-01-02 10:00:00+00:00", 1.5)
    assert (row["big"], row["ok"]) == (-9223372036854775807, True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("INSERT INTO orders VALUES (1, 'a')", "has 2 values, expected 4"),
        ("INSERT INTO orders VALUES ('x', 'a', 1, 'q')", "'id': expected bigint, found 'x'"),
        ("INSERT INTO orders VALUES (1.5, 'a', 1, 'q')", "'id': expected bigint, found 1.5"),
        ("INSERT INTO orders (id, dtt) VALUES (1, 'q')", r"no column 'dtt' \(did you mean 'dt'"),
        ("INSERT INTO orders (id, id) VALUES (1, 2)", "named twice"),
        ("INSERT INTO orders SELECT 1, 'a'", "returns 2 columns"),
        (
            "INSERT INTO orders SELECT 'x', 'a', 1, 'q'",
            "'id' is bigint, and the query returns string",
        ),
        ("INSERT INTO ordrs VALUES (1)", "no table 'ordrs'.*did you mean 'orders'"),
        ("INSERT INTO orders PARTITION (city='x') VALUES (1)", "not partitioned by 'city'"),
        ("INSERT INTO orders (city, amount) VALUES ('x', 1)", "'id' needs a value"),
    ],
)
def test_an_insert_that_does_not_fit_is_refused_and_writes_nothing(
    orders: Catalog, text: str, words: str
):
    before = orders.table("orders").history().num_rows
    with pytest.raises(LakebedError, match=words):
        orders.sql(text)
    assert orders.table("orders").history().num_rows == before


def test_overwrite_replaces_the_table_or_the_named_partition(orders: Catalog):
    orders.sql("INSERT OVERWRITE orders PARTITION (dt = :dt) VALUES (9, 'new', 1)", dt="q")
    assert rows(orders, "SELECT id, dt FROM orders") == [(1, "p"), (9, "q")]
    orders.sql(
        "INSERT OVERWRITE orders PARTITION (dt = 'p') SELECT id, city, amount FROM orders WHERE id > 99"
    )
    assert rows(orders, "SELECT id, dt FROM orders") == [(9, "q")]
    orders.sql("INSERT OVERWRITE TABLE orders VALUES (5, 'x', 1, 'z')")
    assert rows(orders, "SELECT id, dt FROM orders") == [(5, "z")]


def test_update_delete_and_truncate_return_counts(orders: Catalog):
    counts = one(orders, "UPDATE orders AS o SET o.city = upper(o.city) WHERE o.id = 1")
    assert (counts["num_updated_rows"], counts["num_rows"]) == (1, 1)
    assert rows(orders, "SELECT city FROM orders WHERE id = 1") == [("OSLO",)]
    assert one(orders, "DELETE FROM orders o WHERE o.amount < 0")["num_deleted_rows"] == 1
    assert (
        one(orders, "DELETE FROM orders WHERE id IN (:ids)", ids=[3, 77])["num_deleted_rows"] == 1
    )
    assert one(orders, "TRUNCATE TABLE orders")["num_deleted_rows"] == 1
    assert rows(orders, "SELECT * FROM orders") == []


def test_merge_runs_the_first_clause_that_applies(orders: Catalog):
    orders.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, city STRING, n INT)")
    orders.sql("INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0), (50, 'gone', 0), (51, 'kept', 1)")
    counts = one(
        orders,
        """MERGE INTO t USING (SELECT id, city, 5 AS n FROM orders) AS s ON t.id = s.id
           WHEN MATCHED AND s.id = :deleted THEN DELETE
           WHEN MATCHED THEN UPDATE SET t.city = concat(t.city, '-', s.city), n = t.n + s.n
           WHEN NOT MATCHED AND s.id > 99 THEN INSERT *
           WHEN NOT MATCHED BY TARGET THEN INSERT (id, city) VALUES (s.id, CASE WHEN s.city IS NULL
                THEN 'none' ELSE s.city END)
           WHEN NOT MATCHED BY SOURCE AND t.n = 0 THEN DELETE;""",
        deleted=2,
    )
    assert [counts[f"num_{what}_rows"] for what in ("inserted", "updated", "deleted")] == [1, 1, 2]
    found = rows(orders, "SELECT * FROM t")
    assert found == [(1, "a-Oslo", 5), (3, "none", None), (51, "kept", 1)]
    orders.sql("CREATE TABLE s (id BIGINT PRIMARY KEY, city STRING, n INT)")
    orders.sql("INSERT INTO s VALUES (1, 'S', 9), (60, 'T', 8)")
    orders.sql(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert (1, "S", 9) in rows(orders, "SELECT * FROM t")
    assert (60, "T", 8) in rows(orders, "SELECT * FROM t")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("UPDATE orders SET citty = 'x'", r"no column 'citty' \(did you mean 'city'"),
        ("UPDATE orders SET city = 'x', city = 'y'", "assigned twice"),
        ("UPDATE orders SET city = (SELECT 1)", "use MERGE INTO"),
        ("UPDATE orders SET city = 'x' WHERE", "expected a condition"),
        ("DELETE FROM orders WHERE id IN (SELECT id FROM orders)", "needs a Spark session"),
        ("DELETE FROM orders WHERE idd = 1", "no column idd"),
        ("MERGE INTO orders USING orders AS s ON orders.id = s.id", "expected WHEN MATCHED"),
        ("MERGE INTO orders o USING orders s ON o.id = s.id WHEN MATCHED THEN UPSERT", "expected UPDATE"),
        ("MERGE INTO orders o USING orders s ON o.id = s.idd WHEN MATCHED THEN DELETE", "no column idd"),
        (
            "MERGE INTO orders o USING orders s ON o.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
            "needs a source row",
        ),
        (
            "MERGE INTO orders o USING orders s ON o.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (1, 2)",
            "names 1 columns",
        ),
    ],
)  # fmt: skip
def test_a_change_that_is_not_valid_is_refused_and_changes_nothing(
    orders: Catalog, text: str, words: str
):
    before = rows(orders, "SELECT * FROM orders")
    with pytest.raises(LakebedError, match=words):
        orders.sql(text)
    assert rows(orders, "SELECT * FROM orders") == before


def test_alter_table_changes_columns_properties_and_groups(catalog: Catalog):
    catalog.sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a INT, b INT, c INT) TBLPROPERTIES (table_version=10)"
    )
    catalog.sql("ALTER TABLE t SET TBLPROPERTIES ('hoodie.columngroup.k' = 'a,b;a')")
    assert [group.name for group in catalog.table("t").describe().column_groups] == ["", "k"]
    catalog.sql("ALTER TABLE t ADD COLUMNS (n INT COMMENT 'x', note STRING)")
    catalog.sql("ALTER TABLE t DROP COLUMNS (note)")
    catalog.sql("ALTER TABLE t UNSET TBLPROPERTIES ('hoodie.columngroup.k')")
    assert catalog.table("t").schema.names == ["id", "c", "n"]
    catalog.sql("ALTER TABLE t SET TBLPROPERTIES (hoodie.keep.max.commits = 60)")
    assert rows(catalog, "SHOW TBLPROPERTIES t ('hoodie.keep.max.commits')")[0][1] == "60"
    catalog.sql("ALTER TABLE t UNSET TBLPROPERTIES ('hoodie.keep.max.commits')")
    assert "hoodie.keep.max.commits" not in catalog.table("t").config.properties
    catalog.sql("CREATE TABLE w (id BIGINT PRIMARY KEY, a INT)")
    catalog.sql("ALTER TABLE w ALTER COLUMN A TYPE BIGINT")
    assert catalog.table("w").schema.field("a").type == pa.int64()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ALTER TABLE orders ADDX COLUMN x INT", "did you mean 'ADD'"),
        ("ALTER TABLE orders ADD COLUMN city INT", "already has 'city'"),
        ("ALTER TABLE orders ALTER COLUMN amount TYPE INT", "only wider types"),
        ("ALTER TABLE orders DROP COLUMNS (city, id)", "part of the record key"),
        ("ALTER TABLE orders RENAME COLUMN city TO town", "identify columns by name"),
        ("ALTER TABLE orders RENAME TO o", "cannot be renamed"),
        ("ALTER TABLE orders SET TBLPROPERTIES ('hoodie.keep.mx.commits'='6')", "did you mean"),
        ("ALTER TABLE orders UNSET TBLPROPERTIES ('hoodie.clean.automatic')", "does not store"),
        ("ALTER TABLE orders UNSET TBLPROPERTIES ('hoodie.table.name')", "cannot be changed"),
        ("ALTER TABLE orders SET TBLPROPERTIES ('hoodie.columngroup.a'='x', 'hoodie.keep.max.commits'='9')", "of its own"),
        ("ALTER TABLE orders DROP PARTITION (dt='nope')", "no partition 'nope'"),
    ],
)  # fmt: skip
def test_an_alter_that_is_not_valid_is_refused_and_commits_nothing(
    orders: Catalog, text: str, words: str
):
    before = (orders.table("orders").history().num_rows, orders.table("orders").config.properties)
    with pytest.raises(LakebedError, match=words):
        orders.sql(text)
    table = orders.table("orders")
    assert (table.history().num_rows, table.config.properties) == before


def test_indexes_are_created_shown_used_and_dropped(orders: Catalog):
    orders.sql("CREATE INDEX by_city ON orders USING secondary_index (city)")
    orders.sql("CREATE INDEX IF NOT EXISTS by_city ON TABLE orders (city)")
    shown = one(orders, "SHOW INDEXES FROM orders")
    assert (shown["index_name"], shown["columns"], shown["entries"]) == ("by_city", "city", 3)
    with pytest.raises(NotFoundError, match="did you mean 'by_city'"):
        orders.sql("DROP INDEX by_cty ON orders")
    with pytest.raises(UnsupportedError, match="a record index is chosen"):
        orders.sql("CREATE INDEX r ON orders USING record_index (id)")
    orders.sql("DROP INDEX by_city ON TABLE orders")
    orders.sql("DROP INDEX IF EXISTS by_city ON orders")
    assert rows(orders, "SHOW INDEXES IN orders") == []


def test_show_and_describe_tell_about_tables(orders: Catalog):
    orders.sql("CREATE TABLE db.other (id INT PRIMARY KEY)")
    assert rows(orders, "SHOW TABLES LIKE 'ord*'") == [("default", "orders", False)]
    assert rows(orders, "SHOW DATABASES") == [("db",), ("default",)]
    assert rows(orders, "SHOW PARTITIONS orders") == [("p",), ("q",)]
    assert ("id", "bigint", "key, not null") in rows(orders, "DESCRIBE orders")
    assert ("Partitioned By", "dt", "") in rows(orders, "DESC TABLE EXTENDED orders")
    assert rows(orders, "DESCRIBE orders city") == [("city", "string", "")]
    assert one(orders, "DESCRIBE DETAIL orders")["num_partitions"] == 2
    assert one(orders, "DESCRIBE HISTORY orders")["operation"] == "UPSERT"
    ddl = one(orders, "SHOW CREATE TABLE orders")["createtab_stmt"]
    again = lakebed.catalog(None, "memory://sql/again")
    again.sql(ddl.replace(orders.table("orders").path, "memory://sql/again-there"))
    assert again.table("orders").schema == orders.table("orders").schema
    assert again.table("orders").config.record_key_fields == ("id", "dt")
    assert again.table("orders").config.properties["hoodie.keep.max.commits"] == "50"


@pytest.mark.parametrize(
    "properties",
    ["index = 'bucket', buckets = 3", "index = 'global_bloom'", "index = 'record', type = 'cow'",
     "'hoodie.table.cdc.enabled' = 'true', 'hoodie.compact.inline' = 'true'", "table_version = 10"],
    ids=["buckets", "bloom", "record", "options", "version"],
)  # fmt: skip
def test_show_create_table_makes_the_same_table(catalog: Catalog, properties: str):
    catalog.sql(
        "CREATE TABLE `order` (`from` INT PRIMARY KEY, a STRUCT<fromCity: STRING, x: ARRAY<DECIMAL(4,2)>>)"
        f" TBLPROPERTIES ({properties})"
    )
    ddl = one(catalog, "SHOW CREATE TABLE `order`")["createtab_stmt"]
    assert "STRUCT<fromCity:" in ddl.replace("struct", "STRUCT")
    assert "`from` INT" in ddl
    path = catalog.table("order").path
    before = catalog.table("order").config
    schema = catalog.table("order").schema
    catalog.sql("DROP TABLE `order`")
    catalog.sql(ddl.replace(f"LOCATION '{path}'\n", ""))
    again = catalog.table("order")
    assert again.schema == schema
    assert (again.config.index, again.config.table_type) == (before.index, before.table_type)
    assert dict(again.config.properties) == dict(before.properties)


def test_procedures_take_names_positions_and_paths(orders: Catalog):
    path = orders.table("orders").path
    orders.sql("INSERT INTO orders VALUES (1, 'again', 9, 'p')")
    assert len(rows(orders, "CALL show_commits(table => 'orders', limit => 1)")) == 1
    assert len(rows(orders, f"CALL show_timeline(path => '{path}')")) == 2
    instant = one(orders, "CALL create_savepoint('orders')")["instant_time"]
    assert rows(orders, "CALL show_savepoints('orders')")[0][0] == instant
    (block,) = catalog_blocks(orders)
    assert block["instant_time"] == instant
    orders.sql("CALL run_compaction('schedule', 'orders')")
    assert one(orders, "CALL show_compaction('orders')")["state"] == "requested"
    orders.sql("CALL run_compaction(op => 'run', table => 'orders')")
    assert one(orders, "CALL show_compaction('orders')")["state"] == "completed"
    assert rows(orders, "CALL stats_file_sizes('orders')")[-1][0] == "ALL"
    orders.sql("INSERT INTO orders VALUES (4, 'late', 9, 'p')")
    orders.sql("CALL rollback_to_savepoint('orders', :to)", to=instant)
    assert rows(orders, "SELECT id FROM orders WHERE id = 4") == []
    orders.sql("CALL delete_savepoint('orders', :at)", at=instant)
    assert rows(orders, "CALL upgrade_table(table => 'orders', to_version => 'TEN')")
    assert orders.table("orders").config.version == 10


def catalog_blocks(orders: Catalog) -> list[dict[str, Any]]:
    return orders.sql("CALL show_logfile_metadata(table => 'orders')").read_all().to_pylist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CALL show_comits('orders')", "did you mean 'show_commits'"),
        ("CALL show_commits(tabel => 'orders')", "did you mean 'table'"),
        ("CALL show_commits()", "expected table => 'name' or path"),
        ("CALL show_commits(table => 'orders', path => '/x')", "expected table => 'name' or path"),
        ("CALL show_commits('orders', 1, 2)", "at most 2 arguments"),
        ("CALL show_commits('orders', limit => 'x')", "expected a number of rows"),
        ("CALL delete_savepoint('orders')", "instant_time is missing"),
        ("CALL run_compaction(table => 'orders', op => 'rum')", "expected schedule, run"),
        ("CALL show_commits('ordrs')", "did you mean 'orders'"),
        ("CALL show_commits('orders'", r"expected ',' or '\)'"),
    ],
)
def test_a_call_that_is_not_valid_names_the_nearest(orders: Catalog, text: str, words: str):
    with pytest.raises(InvalidError, match=words):
        orders.sql(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT * FORM orders", r"line 1, column 15, at 'orders'\); did you mean FROM instead of FORM"),
        ("SELEC * FROM orders", "did you mean SELECT instead of SELEC"),
        ("SELECT id\nFROM orders\nWHEREE id = 1", "line 3.*WHERE instead of WHEREE"),
        ("SELECT (1", "line 1, column"),
        ("SELECT 'x", "quote"),
        ("SELECT 1; SELECT 2", "one statement|position|line 1"),
        ("", "found nothing"),
        ("FOO BAR", "expected a statement that begins with"),
        ("DROP TABEL orders", "TABLE instead of TABEL"),
        ("SHOW TABLEZ", "did you mean 'TABLES'"),
        ("OPTIMIZE orders", "CALL run_clustering"),
        ("VACUUM orders", "CALL run_clean"),
        ("SET x = 1", "ALTER TABLE"),
        ("SELECT * FROM ordres", "did you mean 'orders'"),
        ("UPDATE orders SETT amount = 1", "expected SET .*did you mean 'SET'"),
        ("DELETE FROM orders WERE id = 1", "did you mean 'WHERE'"),
        ("SELECT cuont(*) FROM orders", "no function .*did you mean 'count'"),
        ("UPDATE orders SET city = upperr(city)", r"expression 'upperr\(city\)'.*mean 'upper'"),
        ("CREATE INDEX i ON orders (citty)", "did you mean 'city'"),
        ("ALTER TABLE orders DROP COLUMN citty", "did you mean 'city'"),
        ("CREATE TABLE x (id BIGNT PRIMARY KEY)", "did you mean 'bigint'"),
        ("DESCRIBE HISTORYY orders", "did you mean 'HISTORY'"),
        ("FROM orders SELECT id", "begins with FROM needs a Spark session"),
        ("SELECT amuont FROM orders", "did you mean amount"),
        ("SELECT id FROM orders TIMESTAMP AS OF now()", "expected a string or a number"),
        ("SELECT * FROM lakebed_chnges('orders')", "did you mean 'lakebed_changes'"),
    ],
)  # fmt: skip
def test_an_error_has_its_position_and_the_nearest_name_and_no_control_codes(
    orders: Catalog, text: str, words: str
):
    with pytest.raises(LakebedError, match=words) as caught:
        orders.sql(text)
    assert "\x1b" not in str(caught.value)


def test_a_session_or_a_catalogue_is_expected(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InvalidError, match="expected a SparkSession"):
        lakebed.sql(5, "SELECT 1")
    with pytest.raises(InvalidError, match="the first argument is a Spark session"):
        lakebed.sql("SELECT 1", "x")
    monkeypatch.delenv("LAKEBED_WAREHOUSE", raising=False)
    with pytest.raises(InvalidError, match="there is no warehouse"):
        lakebed.sql(None, "SHOW TABLES")
    monkeypatch.setenv("LAKEBED_WAREHOUSE", "memory://sql/environment")
    assert lakebed.sql(None, "SHOW TABLES").read_all().num_rows == 0


def test_a_script_is_split_at_semicolons_outside_strings_and_comments():
    script = "SELECT 'a;b'; -- not; here\n/* nor; here */ SELECT `x;y` FROM t;\n;"
    assert split_script(script) == [
        "SELECT 'a;b'",
        "-- not; here\n/* nor; here */ SELECT `x;y` FROM t",
    ]


def test_names_in_other_scripts_and_keywords_as_names(catalog: Catalog):
    catalog.sql("CREATE TABLE `表 😀` (`select` STRING PRIMARY KEY, `order` STRING)")
    catalog.sql("INSERT INTO `表 😀` VALUES ('上海 😀', 'it''s')")
    found = rows(
        catalog, "SELECT `order` AS `from` FROM `表 😀` WHERE `select` = :key", key="上海 😀"
    )
    assert found == [("it's",)]
    counts = one(catalog, "UPDATE `表 😀` SET `order` = 'x' WHERE `select` = '上海 😀'")
    assert counts["num_updated_rows"] == 1


def test_column_types_that_cannot_be_are_refused(catalog: Catalog):
    with pytest.raises(SchemaError, match="string map keys"):
        catalog.sql("CREATE TABLE t (id INT PRIMARY KEY, m MAP<INT, INT>)")
