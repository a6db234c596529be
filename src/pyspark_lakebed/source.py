"""The data source: `lakebed.spark.data_source` and `lakebed.api` do the work.

Spark imports this module when any Python data source is first used, so the rest is imported only
when this data source is.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """A Lakebed or Apache Hudi table, for reads, writes and streams."""

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
        """Return the reader of a stream with the columns of `schema`."""
        from lakebed.spark.data_source.stream_reader import (  # noqa: PLC0415 - see above
            make_stream_reader,
        )
        from lakebed.spark.errors import plainly  # noqa: PLC0415 - see above

        with plainly():
            return make_stream_reader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Return the writer for the micro-batches of a stream of rows of `schema`."""
        from lakebed.api.streams.saving import StreamSave  # noqa: PLC0415 - see above
        from lakebed.spark.data_source.stream_writer import (  # noqa: PLC0415 - see above
            make_stream_writer,
        )
        from lakebed.spark.errors import plainly  # noqa: PLC0415 - see above
        from lakebed.spark.schema import spark_to_arrow  # noqa: PLC0415 - see above

        with plainly():
            return make_stream_writer(
                StreamSave(self.options, spark_to_arrow(schema)), overwrite=overwrite
            )
