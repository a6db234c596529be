"""Change rows (hoodie.datasource.query.incremental.format=cdc).

By default the rows before and after are JSON, as Hudi shows them. A schema with structs instead
selects columns of the table, with their types.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.format.logs.cdc import AFTER, BEFORE
from lakebed.model.options.read import ReadOptions
from lakebed.spark.data_source.columns import check_columns, real_names
from lakebed.spark.data_source.partition import held_by
from lakebed.spark.data_source.point_in_time import commits_of, snapshot_of
from lakebed.spark.errors import plainly
from lakebed.spark.schema import spark_layout
from lakebed.table.changes.json_text import changes_to_json
from lakebed.table.changes.plan import GroupChanges
from lakebed.table.changes.scan import plan_changes
from lakebed.table.read.conform import conform_array

CHANGES_SCHEMA = StructType(
    [StructField(name, StringType()) for name in ("op", "ts_ms", "before", "after")]
)
"""The kind of change (i, u or d), its instant, and the row before and after as JSON."""


class ChangeColumns:
    """The columns of the change rows that a schema asks for."""

    def __init__(self, schema: StructType, table: pa.Schema) -> None:
        self._schema = spark_layout(schema)
        for field in schema.fields:
            row = field.name in (BEFORE, AFTER) and isinstance(field.dataType, StructType)
            texts = field.name in CHANGES_SCHEMA.fieldNames() and field.dataType == StringType()
            if not (row or texts):
                wanted = ", ".join(CHANGES_SCHEMA.fieldNames())
                raise SchemaError(
                    f"column {field.name!r}: change rows have {wanted}, all of them strings; before "
                    "and after can also be structs of the table's columns"
                )
        self.check(table)

    @property
    def _rows(self) -> list[pa.Field]:
        return [f for f in self._schema if pa.types.is_struct(f.type)]

    def check(self, table: pa.Schema) -> None:
        """Raise SchemaError if a struct is not a selection of the table's columns."""
        for field in self._rows:
            # A row before or after has nulls where the table allows none: there may be no row.
            loose = pa.schema([one.with_nullable(True) for one in field.type])
            check_columns(loose, table)

    def names(self, table: pa.Schema) -> list[str]:
        """Return the table's columns that have to be read."""
        images = [field for field in self._schema if field.name in (BEFORE, AFTER)]
        if not images or len(self._rows) < len(images):
            return list(table.names)
        return list(dict.fromkeys(n for f in images for n in real_names(f.type, table)))

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return change rows with exactly the columns that were asked for."""
        texts = None if len(self._rows) == len(self._schema) else self._texts(batch)
        columns = [
            _selected(batch.column(field.name), field)
            if pa.types.is_struct(field.type) or texts is None
            else texts.column(field.name)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        needs_json = any(f.name in (BEFORE, AFTER) and f not in self._rows for f in self._schema)
        return changes_to_json(batch) if needs_json else batch


def _selected(rows: pa.StructArray, field: pa.Field) -> pa.StructArray:
    """Return rows with the columns of a struct, in its order; null where there is no row."""
    held = {one.name: column for one, column in zip(rows.type, rows.flatten(), strict=True)}
    lower = {name.lower(): column for name, column in held.items()}
    columns = [
        conform_array(
            held[one.name] if one.name in held else lower[one.name.lower()],
            one.with_nullable(True),
            f"{field.name}.{one.name}",
        )
        for one in field.type
    ]
    return pa.StructArray.from_arrays(columns, fields=list(field.type), mask=rows.is_null())


class ChangesReader(DataSourceReader):
    """Reads the changes of a range of commits, one file group per task."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        snapshot, place = snapshot_of(options)
        if place.folder:
            raise UnsupportedError(
                f"{options.path}: changes cannot be read from one partition; {place.advice}"
            )
        self._columns = ChangeColumns(schema, snapshot.schema)
        commits = commits_of(options, snapshot)
        self._scan = plan_changes(snapshot, commits, self._columns.names(snapshot.schema))
        self._groups = self._scan.groups

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each file group."""
        return [InputPartition(group) for group in self._groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of one file group."""
        group = held_by(partition)
        return iter(()) if group is None else self._rows(group)

    def _rows(self, group: GroupChanges) -> Iterator[pa.RecordBatch]:
        with plainly():
            yield from map(self._columns.convert, self._scan.read(group))

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without attributes that tasks do not need."""
        return {**self.__dict__, "_groups": (), "_scan": replace(self._scan, groups=())}
