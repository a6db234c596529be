"""Queries: what this process computes, and what a query needs of each table."""

import datetime as dt
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError, UnsupportedError
from lakebed.sql.catalog import Catalog
from lakebed.sql.query.run import plan_reads
from lakebed.sql.session import Session
from lakebed.sql.syntax.dialect import parse_one
from lakebed.sql.syntax.parameters import inline, spark_arguments

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array(range(8), pa.int64()),
        "g": ["a", "b", "a", None, "b", "a", "c", None],
        "d": [1.5, NAN, -0.0, 0.0, None, NAN, 2.5, -1.0],
        "n": pa.array([1, 2, None, 4, 5, 6, 7, 8], pa.int32()),
        "p": pa.array([Decimal("1.25"), None, *[Decimal("0.05")] * 6], pa.decimal128(10, 2)),
        "day": [dt.date(2026, 1, 1 + at) for at in range(8)],
    }
)


NUMBERS = count()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    # A process that takes tests from another one makes the tables again.
    url = f"memory://sql-queries-{next(NUMBERS)}"
    made = lakebed.catalog(None, url)
    lakebed.create_table(None, f"{url}/t", ROWS, key="id", buckets=3).insert(ROWS)
    users = pa.table({"uid": [0, 1], "name": ["x", "y"], "g": ["a", "b"]})
    lakebed.create_table(None, f"{url}/u", users, key="uid").insert(users)
    return made


def rows(catalog: Catalog, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in catalog.sql(text, **parameters).read_all().to_pylist()]


def test_columns_expressions_and_aliases(catalog: Catalog):
    found = catalog.sql(
        "SELECT x.id, n * 2 AS twice, upper(x.g) u, 'k', day FROM t AS x WHERE x.id < 2 ORDER BY id"
    )
    assert found.schema.names == ["id", "twice", "u", "k", "day"]
    assert found.read_all().to_pylist()[1] == {
        "id": 1, "twice": 4, "u": "B", "k": "k", "day": dt.date(2026, 1, 2),
    }  # fmt: skip
    assert rows(catalog, "SELECT 1 + 1 AS two, DATE '2026-01-01'") == [(2, dt.date(2026, 1, 1))]
    assert len(rows(catalog, "SELECT *, id + 1 AS next FROM t WHERE id = 3")[0]) == 7


def test_order_is_sparks_for_nulls_and_nan(catalog: Catalog):
    ascending = [row[0] for row in rows(catalog, "SELECT d, id FROM t ORDER BY d, id")]
    assert repr(ascending) == repr([None, -1.0, -0.0, 0.0, 1.5, 2.5, NAN, NAN])
    descending = [row[0] for row in rows(catalog, "SELECT d FROM t ORDER BY 1 DESC")]
    assert repr(descending[:3]) == repr([NAN, NAN, 2.5])
    assert descending[-1] is None
    assert rows(catalog, "SELECT id FROM t ORDER BY g NULLS LAST, id DESC LIMIT 2 OFFSET 1") == [
        (2,),
        (0,),
    ]
    assert rows(catalog, "SELECT id FROM t ORDER BY id LIMIT 0") == []


def test_a_name_in_order_by_is_an_item_and_in_group_by_a_column(catalog: Catalog):
    text = "SELECT -id AS id, id AS k FROM t x WHERE id < 3 ORDER BY {}"
    assert [k for _, k in rows(catalog, text.format("id"))] == [2, 1, 0]
    assert [k for _, k in rows(catalog, text.format("id + 0"))] == [2, 1, 0]
    assert [k for _, k in rows(catalog, text.format("-`id`"))] == [0, 1, 2]
    assert [k for _, k in rows(catalog, text.format("x.id"))] == [0, 1, 2]
    with pytest.raises(InvalidError, match="several items"):
        rows(catalog, "SELECT id AS k, n AS k FROM t ORDER BY k")
    with pytest.raises(InvalidError, match="neither in GROUP BY"):
        rows(catalog, "SELECT id % 2 AS id, count(*) FROM t GROUP BY id")
    found = rows(
        catalog, "SELECT id % 2 AS odd, count(*) FROM t GROUP BY `odd` ORDER BY `odd` DESC"
    )
    assert found[0][0] == 1
    assert sum(number for _, number in found) == ROWS.num_rows
    assert len(found) == 2


def test_a_parameter_of_time_travel_may_be_a_datetime(catalog: Catalog):
    text = "SELECT id FROM t TIMESTAMP AS OF :at WHERE id = 1"
    assert rows(catalog, text, at=dt.datetime(2999, 1, 1)) == [(1,)]
    assert rows(catalog, text, at=dt.datetime(2999, 1, 1, tzinfo=dt.UTC)) == [(1,)]
    assert rows(catalog, "SELECT id FROM t TIMESTAMP AS OF TIMESTAMP '2999-01-01' x WHERE x.id = 1")
    changes = "SELECT id FROM lakebed_changes('t', since => 'earliest', until => :at) WHERE id = 1"
    assert rows(catalog, changes, at=dt.datetime(2999, 1, 1)) == [(1,)]


def test_a_parameter_is_not_the_name_of_a_table(catalog: Catalog):
    with pytest.raises(InvalidError, match="expected the name of a table"):
        catalog.sql("SELECT id FROM :t", t="t")


def test_a_query_of_no_columns_is_refused(catalog: Catalog):
    with pytest.raises(InvalidError, match="expected columns"):
        catalog.sql("SELECT FROM t")


def test_the_suffix_of_a_number_says_its_type(catalog: Catalog):
    assert rows(catalog, "SELECT id, 7L, 1.5D, 2Y /* a */ AS y FROM t WHERE id = 1L -- b") == [
        (1, 7, 1.5, 2)
    ]


def test_groups_are_sparks_for_nulls_nan_and_zero(catalog: Catalog):
    found = rows(
        catalog,
        "SELECT g, count(*) AS n, sum(n), min(d), max(d), avg(n) FROM t GROUP BY g ORDER BY g",
    )
    assert repr(found) == repr(
        [
            (None, 2, 12, -1.0, 0.0, 6.0),
            ("a", 3, 7, -0.0, NAN, 3.5),
            ("b", 2, 7, NAN, NAN, 3.5),
            ("c", 1, 7, 2.5, 2.5, 7.0),
        ]
    )
    assert len(rows(catalog, "SELECT d, count(*) FROM t GROUP BY d")) == 6
    assert len(rows(catalog, "SELECT DISTINCT d FROM t")) == 6
    assert rows(
        catalog, "SELECT upper(g) AS k, count(d) FROM t WHERE id < 3 GROUP BY upper(g) ORDER BY k"
    ) == [("A", 2), ("B", 1)]


def test_aggregates_of_no_rows_and_of_decimals(catalog: Catalog):
    assert rows(catalog, "SELECT count(*), count(n), sum(n), max(g) FROM t WHERE id > 99") == [
        (0, 0, None, None)
    ]
    assert rows(catalog, "SELECT g, sum(n) FROM t WHERE id > 99 GROUP BY g") == []
    found = catalog.sql("SELECT sum(p) AS s, min(p), max(day) FROM t").read_all()
    assert found.schema.field("s").type == pa.decimal128(20, 2)
    assert tuple(found.to_pylist()[0].values()) == (
        Decimal("1.55"),
        Decimal("0.05"),
        dt.date(2026, 1, 8),
    )


def test_a_sum_that_overflows_is_an_error():
    made = lakebed.catalog(None, "memory://sql-overflow")
    made.sql("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT)")
    made.sql("INSERT INTO t VALUES (1, 9223372036854775807), (2, 1)")
    with pytest.raises(InvalidError, match="overflows"):
        made.sql("SELECT sum(n) FROM t")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SELECT * FROM t JOIN u ON t.id = u.uid", "a join"),
        ("SELECT * FROM t, u", "a join"),
        ("SELECT * FROM t WHERE id IN (SELECT uid FROM u)", "needs a Spark session"),
        ("SELECT * FROM (SELECT * FROM t)", "a subquery"),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c", "WITH"),
        ("SELECT id FROM t UNION SELECT uid FROM u", "a set operation"),
        ("SELECT row_number() OVER (ORDER BY id) FROM t", "a window"),
        ("SELECT g FROM t GROUP BY g HAVING count(*) > 1", "HAVING"),
        ("SELECT count(DISTINCT g) FROM t", "DISTINCT inside"),
        ("SELECT avg(p) FROM t", "avg of decimal"),
        ("SELECT * FROM range(3)", "a table function|the table function"),
        ("VALUES (1)", "needs a Spark session"),
    ],
)
def test_what_needs_spark_is_refused_by_its_name(catalog: Catalog, text: str, what: str):
    with pytest.raises(UnsupportedError, match=what):
        catalog.sql(text)


def test_a_column_that_is_not_grouped_is_refused(catalog: Catalog):
    with pytest.raises(InvalidError, match="neither in GROUP BY nor an aggregate"):
        catalog.sql("SELECT id, count(*) FROM t")
    with pytest.raises(InvalidError, match="position 3"):
        catalog.sql("SELECT id, n FROM t ORDER BY 3")


def test_comments_are_left_out_and_hints_of_strings_are_not(catalog: Catalog):
    text = (
        "SELECT id -- one\n, '--k' /* two */ AS k FROM t /* three */ WHERE id = 1 -- four; five\n;"
    )
    assert rows(catalog, text) == [(1, "--k")]


def test_time_travel_and_changes(catalog: Catalog):
    made = lakebed.catalog(None, "memory://sql-travel")
    made.sql("CREATE TABLE t (id INT PRIMARY KEY, v STRING)")
    made.sql("INSERT INTO t VALUES (1, 'a')")
    first = rows(made, "CALL show_commits('t')")[0][0]
    made.sql("INSERT INTO t VALUES (1, 'b'), (2, 'c')")
    made.sql("CALL create_savepoint(table => 't', comments => 'tagged')")
    made.sql("DELETE FROM t WHERE id = 2")
    for version in (
        "VERSION AS OF 0",
        f"VERSION AS OF '{first}'",
        f"TIMESTAMP AS OF '{first}'",
        f"FOR SYSTEM_TIME AS OF '{first}'",
    ):
        assert rows(made, f"SELECT v FROM t {version}") == [("a",)]
    assert len(rows(made, "SELECT id FROM t VERSION AS OF 'tagged' AS x WHERE x.id > 0")) == 2
    assert rows(made, "SELECT id FROM t TIMESTAMP AS OF :at", at=first) == [(1,)]
    with pytest.raises(InvalidError, match="version"):
        made.sql("SELECT * FROM t VERSION AS OF 9")
    assert rows(
        made, "SELECT id FROM lakebed_changes('t', since => :at) ORDER BY id", at=first
    ) == [(1,)]
    changes = rows(made, "SELECT op FROM hudi_table_changes('t', 'cdc', 'earliest')")
    assert sorted(op for (op,) in changes) == ["d", "i", "i", "u"]
    with pytest.raises(InvalidError, match="expected latest_state or cdc"):
        made.sql("SELECT * FROM hudi_table_changes('t', 'cdcc', 'earliest')")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("WITH t AS (SELECT id FROM t) SELECT * FROM t", 1),
        ("WITH u AS (SELECT 1 AS id), c AS (SELECT * FROM u JOIN t USING (id)) SELECT * FROM c, u", 1),
        ("SELECT * FROM (WITH u AS (SELECT * FROM t) SELECT * FROM u) x JOIN u ON true", 2),
        ("WITH RECURSIVE u AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM u WHERE n < 3) SELECT * FROM u", 0),
        ("SELECT * FROM t WHERE id IN (WITH u AS (SELECT 1 AS a) SELECT a FROM u)", 1),
    ],
)  # fmt: skip
def test_the_name_of_a_common_table_expression_is_not_a_table(
    catalog: Catalog, text: str, read: int
):
    assert len(plan_reads(Session(catalog, {}), parse_one(text), text)) == read


def test_parameters_are_literals_never_text():
    text = "SELECT ':a', `:a`, :a, x IN (:list), y IN :list -- :a"
    assert inline(text, {"a": "'; DROP TABLE t --", "list": [1, None]}) == (
        r"SELECT ':a', `:a`, '\'; DROP TABLE t --', x IN (1, NULL), y IN (1, NULL)      "
    )
    assert inline("SELECT CAST(x AS STRUCT<a:INT>)", {}) == "SELECT CAST(x AS STRUCT<a:INT>)"
    changes, arguments = spark_arguments(
        "SELECT :at, :ids", {"at": dt.datetime(2026, 1, 1), "ids": [1, 2]}
    )
    assert [new for _, _, new in changes] == ["CAST(:at AS TIMESTAMP_NTZ)", "(:ids_0, :ids_1)"]
    assert arguments == {"at": "2026-01-01 00:00:00", "ids_0": 1, "ids_1": 2}


@pytest.mark.parametrize(
    "value",
    [None, True, -5, 2**63 - 1, 1.5, NAN, float("-inf"), Decimal("-1.50"), "it's ${x} \\ %", "", b"\x00a",
     dt.date(2026, 1, 2), dt.datetime(2026, 1, 2, 3, 4, 5, 6), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)],
)  # fmt: skip
def test_a_parameter_of_every_type_is_its_own_value(catalog: Catalog, value: Any):
    ((found,),) = rows(catalog, "SELECT :v AS v", v=value)
    assert (type(found), str(found)) == (type(value), str(value))


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        ("SELECT :vv", {"v": 1}, r"parameter :vv has no value \(did you mean 'v'"),
        ("SELECT 1", {"v": 1}, "no parameter :v"),
        ("SELECT id FROM t WHERE id IN (:v)", {"v": []}, "an empty list"),
        ("SELECT :v", {"v": object()}, "expected a string, number"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(
    catalog: Catalog, text: str, given: Any, words: str
):
    with pytest.raises(InvalidError, match=words):
        catalog.sql(text, **given)


def needs(catalog: Catalog, text: str, **parameters: Any) -> dict[str, tuple[Any, Any]]:
    reads = plan_reads(Session(catalog, parameters), parse_one(text), text)
    return {read.reference.alias: (read.columns, read.where) for read in reads}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT id FROM t", {"t": (["id"], None)}),
        ("SELECT count(*) FROM t", {"t": (["id"], None)}),
        ("SELECT * FROM t WHERE n > 5L", {"t": (None, "`n` > CAST(5 AS BIGINT)")}),
        ("SELECT id FROM t WHERE n > 5 AND upper(g) = 'A' AND g IS NOT NULL", {"t": (["id", "g", "n"], "`n` > 5 AND NOT (`g` IS NULL)")}),
        ("SELECT id FROM t WHERE n + 1 > 5 OR g = 'a'", {"t": (["id", "g", "n"], None)}),
        ("SELECT id FROM t WHERE (n = 1 OR g LIKE 'a%') AND day >= DATE '2026-01-01'", {"t": (["id", "g", "n", "day"], "(`n` = 1 OR `g` LIKE 'a%') AND `day` >= DATE '2026-01-01'")}),
        ("SELECT id FROM t WHERE g = 5", {"t": (["id", "g"], None)}),
        ("SELECT name FROM t JOIN u ON t.id = u.uid AND u.name > 'a' WHERE t.n = 1", {"t": (["id", "n"], "`n` = 1"), "u": (["uid", "name"], "`name` > 'a'")}),
        ("SELECT u.name FROM t x LEFT JOIN u ON x.id = u.uid AND u.name = 'a' AND x.n = 1 WHERE u.uid IS NULL AND x.g = 'b'", {"x": (["id", "g", "n"], "`g` = 'b'"), "u": (["uid", "name"], "`name` = 'a'")}),
        ("SELECT 1 FROM t RIGHT JOIN u ON t.id = u.uid AND t.n = 1 AND u.uid = 0 WHERE t.g = 'a' AND u.name = 'x'", {"t": (["id", "g", "n"], "`n` = 1"), "u": (["uid", "name"], "`name` = 'x'")}),
        ("SELECT 1 FROM t FULL JOIN u ON t.id = u.uid AND t.n = 1 WHERE t.day = '2026-01-01'", {"t": (["id", "n", "day"], None), "u": (["uid"], None)}),
        ("SELECT 1 FROM t LEFT ANTI JOIN u ON t.id = u.uid AND t.n = 1 AND u.name = 'x' WHERE t.p = 1", {"t": (["id", "n", "p"], "`p` = 1"), "u": (["uid", "name"], "`name` = 'x'")}),
        ("SELECT id FROM t, u WHERE g = 'a' AND n = 1 AND name = 'x'", {"t": (["id", "g", "n"], "`n` = 1"), "u": (["g", "name"], "`name` = 'x'")}),
        ("WITH c AS (SELECT * FROM t WHERE n = 1) SELECT id FROM c", {"t": (["id", "n"], "`n` = 1")}),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c", {"t": (None, None)}),
        ("SELECT x.id FROM (SELECT DISTINCT * FROM t) x", {"t": (None, None)}),
        ("SELECT id FROM (SELECT * FROM t UNION ALL SELECT * FROM t)", {"t": (None, None)}),
        ("SELECT a FROM (SELECT * FROM t) AS x(a, b, c, d, e, f)", {"t": (None, None)}),
        ("SELECT id FROM t WHERE id IN (SELECT uid FROM u WHERE u.name = :n)", {"t": (["id"], None), "u": (["uid", "name"], "`name` = 'it\\'s'")}),
        ("SELECT id, _hoodie_commit_time FROM t", {"t": (["id", "_hoodie_commit_time"], None)}),
        ("SELECT id FROM t ORDER BY day, n", {"t": (["id", "n", "day"], None)}),
        ("SELECT id FROM t NATURAL JOIN u", {"t": (None, None), "u": (None, None)}),
    ],
)  # fmt: skip
def test_each_table_is_read_with_what_the_query_needs(
    catalog: Catalog, text: str, wanted: dict[str, tuple[Any, Any]]
):
    found = needs(catalog, text, n="it's")
    for alias, (columns, where) in wanted.items():
        got, narrowed = found[alias]
        assert narrowed == where
        known = catalog.table("t" if alias in ("t", "x") else "u").schema.names
        wanted_columns = known if columns is None else columns
        assert sorted(got or known) == sorted(wanted_columns)
