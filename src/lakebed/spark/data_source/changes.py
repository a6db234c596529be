"""The reader of change rows (hoodie.datasource.query.incremental.format=cdc), as Hudi shows them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.model.options.read import ReadOptions
from lakebed.spark.data_source.moment import commits_of, snapshot_of
from lakebed.spark.errors import plainly
from lakebed.table.changes.json_text import changes_to_json
from lakebed.table.changes.scan import plan_changes

CHANGES_SCHEMA = StructType(
    [StructField(name, StringType()) for name in ("op", "ts_ms", "before", "after")]
)
"""The kind of change (i, u or d), its instant, and the row before and after as JSON."""


class ChangesReader(DataSourceReader):
    """Reads the changes of a range of commits, one file group per task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._names = schema.fieldNames()
        for field in schema.fields:
            if field.name not in CHANGES_SCHEMA.fieldNames() or field.dataType != StringType():
                wanted = ", ".join(CHANGES_SCHEMA.fieldNames())
                raise SchemaError(
                    f"column {field.name!r}: change rows have {wanted}, all of them strings"
                )
        snapshot, place = snapshot_of(options)
        if place.folder:
            raise UnsupportedError(
                f"{options.path}: changes cannot be read from one partition; {place.advice}"
            )
        commits = commits_of(options, snapshot)
        self._scan = plan_changes(snapshot, commits, snapshot.schema.names)
        self._groups = self._scan.groups

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each file group."""
        return [InputPartition(group) for group in self._groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file group."""
        return iter(()) if partition.value is None else self._rows(partition)

    def _rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([pa.field(name, pa.string()) for name in self._names])
        with plainly():
            for batch in self._scan.read(partition.value):
                texts = changes_to_json(batch)
                columns = [texts.column(name) for name in self._names]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without attributes that tasks do not need."""
        return {**self.__dict__, "_groups": (), "_scan": replace(self._scan, groups=())}
