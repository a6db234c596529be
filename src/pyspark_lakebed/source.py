"""The data source: `lakebed.spark.data_source` and `lakebed.api` do the work.

Spark imports this module when any Python data source is first used, so the rest is imported only
when this data source is.
"""

from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """A Lakebed or Apache Hudi table, for batch reads and writes."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "lakebed"

    def schema(self) -> StructType:
        """Return the columns of the table, meta columns first."""
        from lakebed.spark.data_source.reader import table_schema  # noqa: PLC0415 - see above
        from lakebed.spark.errors import plainly  # noqa: PLC0415 - see above

        with plainly():
            return table_schema(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for the columns of `schema`."""
        from lakebed.spark.data_source.reader import make_reader  # noqa: PLC0415 - see above
        from lakebed.spark.errors import plainly  # noqa: PLC0415 - see above

        with plainly():
            return make_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer for rows of `schema`; the table is created if it does not exist."""
        from lakebed.api.saving import begin_saving  # noqa: PLC0415 - see above
        from lakebed.spark.data_source.writer import Writer  # noqa: PLC0415 - see above
        from lakebed.spark.errors import plainly  # noqa: PLC0415 - see above
        from lakebed.spark.schema import spark_to_arrow  # noqa: PLC0415 - see above

        with plainly():
            return Writer(begin_saving(self.options, spark_to_arrow(schema), overwrite))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Raise an error: streams are not supported in this release."""
        del schema
        raise self._no_streams(
            "read increments in a loop: option hoodie.datasource.query.type=incremental"
        )

    def simpleStreamReader(self, schema: StructType) -> Any:  # noqa: N802 - Spark's name
        """Raise an error: streams are not supported in this release."""
        return self.streamReader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Raise an error: streams are not supported in this release."""
        del schema, overwrite
        raise self._no_streams(
            "write each batch: writeStream.foreachBatch(lambda df, _: "
            'df.write.format("lakebed").options(...).mode("append").save(path))'
        )

    def _no_streams(self, instead: str) -> Exception:
        from lakebed.errors import UnsupportedError  # noqa: PLC0415 - see above

        return UnsupportedError(f"format lakebed has no streams in this release; {instead}")
