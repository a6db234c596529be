"""A read of a table that has not begun: printed, handed to another engine, or executed."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakebed.api.scanning.source import ScanSource
from lakebed.model.extras import load_extra
from lakebed.terminal.html import facts_html

if TYPE_CHECKING:
    import duckdb
    import polars as pl


class TableScan:
    """A snapshot read that has not begun; `print` it to see what it will read.

    Get one from `Table.scan`. It reads the table as it was when `scan` was called, however often and
    by whichever engine, until a cleaning removes these files. Rows are read in this process, on Arrow,
    also if the table was opened with a Spark session. Anything that takes Arrow streams takes a scan:
    `pa.table(scan)`, `other.upsert(scan)`.
    """

    def __init__(self, table: str, moment: str | None, source: ScanSource) -> None:
        self._table = table
        self._moment = moment
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        """Return the columns that the scan returns."""
        return self._source.schema

    @property
    def where(self) -> str | None:
        """Return the predicate of the scan; None if it returns all rows."""
        return self._source.where

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as an Arrow stream; files are opened as it is read."""
        return self._source.read(self._source.schema.names)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an in-memory pyarrow Table."""
        return self.to_reader().read_all()

    def to_polars(self) -> "pl.LazyFrame":
        """Return the rows as a lazy frame of Polars; needs `pip install 'lakebed[polars]'`.

        Polars pushes down the columns that a query needs, its predicates (see
        [Polars and DuckDB](polars-duckdb.md)) and the number of rows of a `head`. Each query
        reads the table again, as a stream: `collect(engine="streaming")` holds a few batches.

        Example:
            >>> import pyarrow as pa, lakebed, polars as pl
            >>> t = lakebed.create_table(None, "memory://doc/polars", "id BIGINT, v STRING", key="id")
            >>> commit = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> t.scan().to_polars().filter(pl.col("id") > 1).collect().rows()
            [(2, 'b')]
        """
        load_extra("polars", "1.44", "polars", "to_polars")
        from lakebed.api.scanning.frame import lazy_frame  # noqa: PLC0415 - it needs polars

        return lazy_frame(self._source)

    def to_duckdb(
        self, connection: "duckdb.DuckDBPyConnection | None" = None
    ) -> "duckdb.DuckDBPyRelation":
        """Return the rows as a relation of DuckDB; needs `pip install 'lakebed[duckdb]'`.

        DuckDB pushes down the columns that a query needs and its comparisons with constants (see
        [Polars and DuckDB](polars-duckdb.md)). Each query reads the table again, as a stream.

        Args:
            connection: The connection of the relation; None stands for DuckDB's default one.

        Example:
            >>> import pyarrow as pa, lakebed, duckdb
            >>> t = lakebed.create_table(None, "memory://doc/duckdb", "id BIGINT, v STRING", key="id")
            >>> commit = t.insert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
            >>> rows = t.scan().to_duckdb()
            >>> duckdb.sql("SELECT v FROM rows WHERE id > 1").fetchall()
            [('b',)]
        """
        package: Any = load_extra("duckdb", "2.0", "duckdb", "to_duckdb")
        from lakebed.api.scanning.dataset import ScanDataset  # noqa: PLC0415 - slow to import

        reader = package if connection is None else connection
        relation: duckdb.DuckDBPyRelation = reader.from_arrow(ScanDataset(self._source))
        return relation

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as a stream of Arrow's C interface."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """Export the columns by Arrow's C interface."""
        return self._source.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self._facts().items() if value)

    def _repr_html_(self) -> str:
        return facts_html("scan", self._facts())

    def _facts(self) -> dict[str, str | None]:
        columns = ", ".join(f"{one.name} {one.type}" for one in self._source.schema)
        return {
            "scan of": self._table,
            "as of": self._moment,
            "columns": columns,
            "where": self._source.where,
        }
