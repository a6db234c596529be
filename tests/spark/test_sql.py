"""SQL on Spark: the page on SQL, queries that Spark executes, writes from queries, the same in process."""

import itertools
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakebed
from lakebed.errors import InvalidError, NotFoundError
from lakebed.sql.catalog import Catalog
from lakebed.sql.procedures import PROCEDURES

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text("utf-8")


@pytest.fixture(scope="module")
def catalog(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    made = lakebed.catalog(spark, str(tmp_path_factory.mktemp("sql")))
    made.sql(
        "CREATE TABLE o (id BIGINT, user BIGINT, amount DOUBLE, city STRING, note STRING, PRIMARY KEY (id))"
        " TBLPROPERTIES (buckets = '2')"
    )
    made.sql("CREATE TABLE s.u (uid BIGINT PRIMARY KEY, name STRING, country STRING)")
    made.sql(
        "INSERT INTO o VALUES (1, 10, 5.5, 'oslo', 'x'), (2, 11, 20, 'paris', 'y'), (3, 10, 100.25, 'oslo', NULL),"
        " (4, 99, 1, '上海', 'it''s'), (5, NULL, 7, NULL, '{b}')"
    )
    made.sql("INSERT INTO s.u VALUES (10, 'ann', 'no'), (11, 'bob', 'fr'), (12, 'cid', NULL)")
    made.sql("INSERT INTO o VALUES (2, 11, 21, 'paris', 'later')")
    return made


def rows(found: DataFrame | pa.RecordBatchReader) -> list[tuple[Any, ...]]:
    if isinstance(found, DataFrame):
        return sorted((tuple(row) for row in found.collect()), key=repr)
    return sorted((tuple(row.values()) for row in found.read_all().to_pylist()), key=repr)


def test_the_page_lists_every_procedure():
    for name, procedure in PROCEDURES.items():
        line = f"| `{name}({', '.join(procedure.names)})` | {procedure.effect.rstrip('.')} |"
        assert line in PAGE


QUERIES = [
    "SELECT o.id, u.name FROM o JOIN s.u AS u ON o.user = u.uid WHERE o.amount > 6 AND u.country = 'fr'",
    "WITH big AS (SELECT * FROM o WHERE amount > 6) SELECT b.id, city FROM big b",
    "SELECT id, row_number() OVER (PARTITION BY city ORDER BY amount) AS n FROM o",
    "SELECT id FROM o WHERE user IN (SELECT uid FROM s.u WHERE country = 'no')",
    "SELECT id FROM o WHERE NOT EXISTS (SELECT 1 FROM s.u WHERE u.uid = o.user)",
    "SELECT id FROM o UNION ALL SELECT uid FROM s.u",
    "SELECT id, city FROM o EXCEPT SELECT 1, 'oslo'",
    "SELECT city, count(*), sum(amount) FROM o GROUP BY city HAVING count(*) > 1",
    "SELECT * FROM (SELECT id, amount FROM o) PIVOT (sum(amount) FOR id IN (1, 2))",
    "SELECT * FROM o NATURAL JOIN (SELECT 1L AS id)",
    "SELECT x.*, y.id FROM o x JOIN o y ON x.user = y.user AND x.id < y.id",
    "SELECT id FROM o LATERAL VIEW explode(array(1, 2)) e AS y WHERE y = 2 AND o.note IS NOT NULL",
    "SELECT user FROM o ORDER BY user",  # in other places user is a function
    "FROM o SELECT id, to_char(amount, '999.99'), max_by(id, amount) OVER (), listagg(city) OVER ()",
    "SELECT id, '{x} ''y'' \\\\ \\t' FROM o WHERE note = '{b}' OR note = 'it''s' /* {c} */ -- {d}",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_returns_what_spark_returns_of_whole_tables(
    spark: SparkSession, catalog: Catalog, query: str
):
    catalog.table("o").read().createOrReplaceTempView("o")
    catalog.table("s.u").read().createOrReplaceTempView("u")
    wanted = rows(spark.sql(query.replace("s.u", "u")))
    assert rows(catalog.sql(query)) == wanted
    assert wanted


def test_outer_joins_keep_and_drop_the_rows_that_spark_does(spark: SparkSession, catalog: Catalog):
    catalog.table("o").read().createOrReplaceTempView("whole_o")
    catalog.table("s.u").read().createOrReplaceTempView("whole_u")
    joins = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
    conditions = ["u.country = 'fr'", "u.name > 'a' AND o.amount > 6"]
    wheres = ["o.amount < 50", "u.country IS NULL", "u.name = 'bob' AND o.id > 0"]
    frames, wanted = [], []
    for number, (join, on, where) in enumerate(itertools.product(joins, conditions, wheres)):
        if "u." in where and join.startswith(("LEFT SEMI", "LEFT ANTI")):
            continue
        text = (
            f"SELECT {number} AS number, count(*), sum(o.id) FROM {{}} o {join} {{}} u"
            f" ON o.user = u.uid AND {on} WHERE {where}"
        )
        frames.append(catalog.sql(text.format("o", "s.u")))
        wanted.append(spark.sql(text.format("whole_o", "whole_u")))
    assert len(frames) == 28
    # One plan of all of them takes Spark long to optimize.
    for at in range(0, len(frames), 14):
        assert rows(reduce(DataFrame.unionAll, frames[at : at + 14])) == rows(
            reduce(DataFrame.unionAll, wanted[at : at + 14])
        )


LOCAL = [
    "SELECT id, amount * 2 AS a, upper(city) FROM o WHERE amount > 2 AND city LIKE 'o%'",
    "SELECT city, count(*), sum(id), min(amount), max(note), avg(user) FROM o GROUP BY city",
    "SELECT DISTINCT city FROM o",
    "SELECT id FROM o ORDER BY amount DESC LIMIT 3",
    "SELECT id FROM lakebed_changes('o', since => 'earliest') WHERE id < 3",
    "SELECT id, amount FROM o VERSION AS OF 0 WHERE id = 2",
    "SELECT id, note FROM o WHERE id IN (:ids) AND note <> :note",
]


@pytest.mark.parametrize("query", LOCAL)
def test_a_query_in_process_returns_the_same(catalog: Catalog, query: str):
    alone = lakebed.catalog(None, catalog.warehouse)
    given = {"ids": [1, 2, 4], "note": "${x} {y} it's"} if ":ids" in query else {}
    on_spark = catalog.sql(query, **given)
    in_process = alone.sql(query, **given)
    assert [name.lower() for name in on_spark.columns][:1] == in_process.schema.names[:1]
    assert rows(on_spark) == rows(in_process)


def test_a_misspelled_column_has_the_nearest_of_the_table_not_of_the_columns_read(catalog: Catalog):
    catalog.sql("CREATE TABLE spelled (id BIGINT PRIMARY KEY, city STRING, ts BIGINT)")
    for query in ("SELECT ctiy FROM spelled", "SELECT s.ctiy FROM spelled s WHERE ts > 1"):
        with pytest.raises(InvalidError, match=r"ctiy` cannot be resolved.*\(did you mean 'city'"):
            catalog.sql(query).count()


def test_names_are_qualified_in_every_way(spark: SparkSession, catalog: Catalog):
    path = catalog.table("o").path
    spark.range(3).createOrReplaceTempView("session_view")
    for query in (
        "SELECT s.u.name FROM s.u WHERE s.u.uid = :id",
        "SELECT `u`.`name` FROM spark_catalog.s.u WHERE u.uid = :id",
        "SELECT z.name FROM s.u TIMESTAMP AS OF '2090-01-01' AS z WHERE z.uid = :id",
        "SELECT name FROM s.U WHERE uid = :id",
    ):
        assert rows(catalog.sql(query, id=10)) == [("ann",)]
    assert rows(catalog.sql(f"SELECT city FROM lakebed.`{path}` WHERE id = 1")) == [("oslo",)]
    assert rows(catalog.sql("SELECT v.id FROM session_view v JOIN o ON v.id = o.id")) == [
        (1,),
        (2,),
    ]
    with pytest.raises(NotFoundError, match="no table 'session_veiw'"):
        catalog.sql("SELECT * FROM session_veiw")
    with pytest.raises(InvalidError, match=r"`idd` cannot be resolved"):
        catalog.sql("SELECT idd FROM o")
    assert not [
        view for view in spark.catalog.listTables() if view.name.startswith(("_pyspark", "lakebed"))
    ]


def test_rows_of_a_query_are_written_with_the_tables_types(spark: SparkSession, catalog: Catalog):
    catalog.sql("CREATE TABLE w (id BIGINT PRIMARY KEY, n DECIMAL(10,2), v STRING, day DATE)")
    spark.range(3).createOrReplaceTempView("numbers")
    catalog.sql("INSERT INTO w SELECT CAST(id AS INT), 1, 'v', DATE '2026-01-01' FROM numbers")
    catalog.sql("WITH a AS (SELECT 7 AS id) INSERT INTO w (id, v) SELECT id, :v FROM a", v="it's")
    catalog.sql("INSERT INTO w BY NAME SELECT 'b' AS v, 8 AS id")
    catalog.sql("INSERT INTO w VALUES (9, 1.5, concat('a', 'b'), current_date())")
    assert [row[:1] + row[2:3] for row in rows(catalog.sql("SELECT * FROM w WHERE id > 1"))] == [
        (2, "v"), (7, "it's"), (8, "b"), (9, "ab"),
    ]  # fmt: skip
    with pytest.raises(InvalidError, match="column 'id' is bigint, and the query returns string"):
        catalog.sql("INSERT INTO w SELECT 'x', 1, 'v', NULL")
    catalog.sql("DELETE FROM w WHERE id IN (SELECT id FROM numbers WHERE id > 0)")
    catalog.sql(
        "MERGE INTO w USING (SELECT o.id, max(u.name) AS name FROM o JOIN s.u ON o.user = u.uid GROUP BY o.id)"
        " AS x(id, name) ON w.id = x.id + 6 WHEN MATCHED THEN UPDATE SET v = concat(w.v, '-', x.name)"
        " WHEN NOT MATCHED BY SOURCE AND w.id = 0 THEN DELETE"
    )
    assert rows(catalog.sql("SELECT id, v FROM w")) == [
        (7, "it's-ann"),
        (8, "b-bob"),
        (9, "ab-ann"),
    ]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        catalog.sql(
            "CREATE TABLE z TBLPROPERTIES (key = 'id') AS SELECT id, 1 / (id - id) AS q FROM o"
        )
    assert "z" not in catalog.tables()
    catalog.sql("DROP TABLE w")


def test_explain_shows_what_each_table_is_read_with(catalog: Catalog):
    catalog.sql("CREATE INDEX by_city ON o (city)")
    lines = [
        row[0] for row in catalog.sql("EXPLAIN SELECT id FROM o WHERE city = 'paris'").collect()
    ]
    assert "  columns: id, city" in lines
    assert "  where: `city` = 'paris'" in lines
    assert any("by_city" in line for line in lines)
    catalog.sql("DROP INDEX by_city ON o")


def test_a_table_of_the_sessions_catalogue_says_what_to_call(spark: SparkSession, path: str):
    lakebed.create_table(spark, path, "id BIGINT", key="id")
    with pytest.raises(Exception, match=r"call lakebed\.sql\(spark"):
        spark.sql(f"CREATE TABLE session_table USING lakebed LOCATION '{path}'")
    assert not spark.catalog.tableExists("session_table")


def test_sql_without_a_catalogue_uses_the_sessions_warehouse(spark: SparkSession):
    lakebed.sql(spark, "CREATE TABLE in_session (id INT PRIMARY KEY)")
    lakebed.sql(spark, "INSERT INTO in_session VALUES (:id)", id=5)
    assert rows(lakebed.sql(spark, "SELECT * FROM in_session")) == [(5,)]
    lakebed.sql(spark, "DROP TABLE in_session")
