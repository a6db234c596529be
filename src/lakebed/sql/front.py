"""The functions `lakebed.sql` and `lakebed.catalog`."""

import os
from collections.abc import Mapping
from typing import Any, Final

from lakebed.errors import InvalidError
from lakebed.model.extras import missing_extra

WAREHOUSE: Final = "LAKEBED_WAREHOUSE"
"""The environment variable that names the warehouse where no Spark session does."""
_SPARK_WAREHOUSE: Final = "spark.sql.warehouse.dir"


def sql(spark: Any, text: str, /, **parameters: Any) -> Any:
    """Execute one SQL statement.

    With a Spark session, every statement returns a DataFrame. Without one, every statement returns
    a pyarrow RecordBatchReader; SELECT then reads one table, see [SQL](sql.md). A statement that
    writes is complete when the call returns, and its result has one row of counts.

    Args:
        spark: A Spark session, None to work in this process, or a catalogue that `catalog`
            returned. A session names tables in its `spark.sql.warehouse.dir`; None names them in
            the folder or URL of the environment variable `LAKEBED_WAREHOUSE`.
        text: The statement, in Spark's SQL.
        parameters: A value for each `:name` in the statement, as a literal of its type; a list is
            a list of literals, for IN.

    Raises:
        InvalidError: The statement, a name or a value is not valid; the message offers the most
            similar name.
        UnsupportedError: The statement is not supported, or needs a Spark session.

    Example:
        >>> import lakebed
        >>> warehouse = lakebed.catalog(None, "memory://doc/sql")
        >>> _ = lakebed.sql(warehouse, "CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
        >>> _ = lakebed.sql(warehouse, "INSERT INTO t VALUES (1, 'a'), (2, :v)", v="it's")
        >>> lakebed.sql(warehouse, "SELECT v FROM t WHERE id = :id", id=2).read_all().to_pylist()
        [{'v': "it's"}]
    """
    kind = _catalog_class()
    found = spark if isinstance(spark, kind) else kind(*_default(spark))
    return found.sql(text, **parameters)


def catalog(
    spark: Any | None, warehouse: str, storage_options: Mapping[str, str] | None = None
) -> Any:
    """Return the catalogue of a warehouse: a folder or URL whose subfolders are tables.

    The result has `sql(text, **parameters)`, `table(name)`, `tables()` and `databases()`, and can
    be passed to `lakebed.sql` in place of a session.

    Args:
        spark: A Spark session, or None to work in this process.
        warehouse: A path or URL. The table `t` is its folder `t`, the table `db.t` its folder
            `db/t`.
        storage_options: Options for the object store; see [Object stores](storage.md).

    Example:
        >>> import lakebed
        >>> c = lakebed.catalog(None, "memory://doc/catalog")
        >>> _ = c.sql("CREATE TABLE sales.orders (id BIGINT PRIMARY KEY)")
        >>> c.databases(), c.tables("sales"), c.table("sales.orders").schema.names
        (['default', 'sales'], ['orders'], ['id'])
    """
    return _catalog_class()(spark, warehouse, storage_options)


def _default(spark: Any | None) -> tuple[Any, str | None]:
    """Return the session and the warehouse where no catalogue is given."""
    if isinstance(spark, str):
        raise InvalidError(
            f"lakebed.sql: the first argument is a Spark session, None or a catalogue, found {spark!r}"
        )
    if spark is None:
        return None, os.environ.get(WAREHOUSE)
    if not hasattr(spark, "createDataFrame"):
        raise InvalidError(
            f"lakebed.sql: expected a SparkSession, None or a catalogue, found {type(spark).__name__}"
        )
    return spark, spark.conf.get(_SPARK_WAREHOUSE)


def _catalog_class() -> Any:
    """Import what executes statements; raise UnsupportedError if sqlglot is not installed."""
    try:
        import sqlglot  # noqa: F401, PLC0415 - an optional dependency, and slow to import
    except ImportError as error:
        raise missing_extra("lakebed.sql", "sqlglot", "sql") from error
    from lakebed.sql.catalog import Catalog  # noqa: PLC0415 - it needs sqlglot

    return Catalog
