"""The readers of `format("lakebed")`: one task for a few file slices, Arrow batches to Spark."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakebed.errors import InvalidError, SchemaError
from lakebed.format.names.meta_columns import META_FIELDS
from lakebed.model.options.read import ReadOptions
from lakebed.model.packing import pack, useful_tasks
from lakebed.scan.scan import Scan, plan_incremental, plan_scan
from lakebed.spark.data_source.changes import CHANGES_SCHEMA, ChangesReader
from lakebed.spark.data_source.filters import to_predicate
from lakebed.spark.data_source.moment import commits_of, parsed, snapshot_of
from lakebed.spark.errors import plainly
from lakebed.spark.schema import arrow_to_spark
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.conform import conform_array
from lakebed.table.snapshot import Snapshot

# Planning runs in a Python worker, which cannot know the number of cores.
_CORES = 8
# Spark calls `pushFilters` of a reader only in this worker, and elsewhere rejects a reader that has
# it while spark.sql.python.filterPushdown.enabled is false. Spark 4.2 keeps the resulting reader
# with the DataFrame, and a later query without filters, or another branch of the same query, uses
# it: rows would be missing silently. So filters are pushed down only if the user enables it.
_PUSHDOWN_WORKER = "data_source_pushdown_filters"


def table_schema(given: Mapping[str, str]) -> StructType:
    """Return the columns of the table, the meta columns first, as Hudi shows them."""
    options = parsed(given)
    if options.mode == "cdc":
        return CHANGES_SCHEMA
    snapshot, _ = snapshot_of(options)
    return arrow_to_spark(_full_schema(snapshot))


def make_reader(given: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader for the columns of `schema`; it accepts filters only if that is enabled."""
    options = parsed(given)
    if options.mode == "cdc":
        return ChangesReader(options, schema)
    takes_filters = options.pushdown and _is_offering_filters()
    return (PushdownReader if takes_filters else Reader)(options, schema)


class Reader(DataSourceReader):
    """Reads the table as it is when Spark first plans a query of the DataFrame."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        snapshot, self._place = snapshot_of(options)
        self._full = _full_schema(snapshot)
        _check_columns(self._schema, self._full)
        self._snapshot: Snapshot | None = snapshot
        self._options = options
        self._scan = self._plan(options.where)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each task."""
        scan = self._scan
        with plainly():
            scan.check_readable()
        # The slices are pickled with the partitions, the snapshot is not pickled at all.
        return [InputPartition(bundle) for bundle in bundles(scan.slices)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        slices: Sequence[FileSlice] = partition.value or ()
        return self._rows(slices)

    def _rows(self, slices: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
        wanted = self._scan.needed_columns
        with plainly():
            for slice_ in slices:
                for batch in self._scan.read(slice_, wanted):
                    yield _exactly(batch, self._schema)

    def _plan(self, where: str | None) -> Scan:
        snapshot, mode = self._snapshot, self._options.mode
        assert snapshot is not None
        names = [_found(self._full, name).name for name in self._schema.names]
        if mode == "incremental":
            commits = commits_of(self._options, snapshot)
            scan = plan_incremental(snapshot, commits, names, where)
        else:
            scan = plan_scan(snapshot, names, where, read_optimized=mode == "read_optimized")
        return replace(scan, slices=self._place.within(scan.slices))

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without attributes that tasks do not need."""
        return {**self.__dict__, "_snapshot": None, "_scan": replace(self._scan, slices=())}


class PushdownReader(Reader):
    """A Reader to which Spark pushes its filters."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - Spark's name
        """Skip files and rows by the filters that are understood; return all, to be applied again."""
        pushed, own = to_predicate(filters, self._full), self._options.where
        both = [text for text in (own, pushed) if text is not None]
        self._scan = self._plan(" AND ".join(f"({text})" for text in both) or None)
        return filters


def bundles(slices: Sequence[FileSlice]) -> list[tuple[FileSlice, ...]]:
    """Group the slices into tasks of similar cost."""
    costs = [slice_.cost_bytes for slice_ in slices]
    packs = pack(costs, useful_tasks(costs, _CORES))
    return [tuple(slices[number] for number in numbers) for numbers in packs]


def _full_schema(snapshot: Snapshot) -> pa.Schema:
    return pa.schema([*META_FIELDS, *snapshot.schema])


def _found(full: pa.Schema, name: str) -> pa.Field:
    near = [field for field in full if field.name.lower() == name.lower()]
    exact = [field for field in near if field.name == name]
    if len(exact or near) != 1:
        raise SchemaError(f"no column {name!r}; the table has {', '.join(full.names)}")
    return (exact or near)[0]


def _check_columns(asked: pa.Schema, full: pa.Schema) -> None:
    """Raise an error if the user's schema is not a selection of the table's columns."""
    if not asked.names:
        raise InvalidError("schema: expected at least one column")
    for field in asked:
        held = _found(full, field.name)
        known = to_arrow_schema(arrow_to_spark(pa.schema([held])), timezone="UTC").field(0)
        if field.type != known.type:
            raise SchemaError(
                f"column {field.name!r}: the table has {known.type}, and the schema asks for "
                f"{field.type}; cast the column after reading"
            )
        if held.nullable and not field.nullable:
            raise SchemaError(f"column {field.name!r} is nullable in the table; remove NOT NULL")


def _exactly(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast a batch to exactly the types that Spark expects, because Spark checks only the first."""
    names = {name.lower(): position for position, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        position = batch.schema.get_field_index(field.name)
        held = batch.column(names[field.name.lower()] if position < 0 else position)
        columns.append(conform_array(held, field, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_offering_filters() -> bool:
    """Return whether the caller is the worker that pushes filters, judging by the stack frames."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - nothing else tells who asks
    while frame is not None:
        if _PUSHDOWN_WORKER in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
