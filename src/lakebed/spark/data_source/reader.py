"""The readers of `format("lakebed")`: one task for a few file slices, Arrow batches to Spark."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import FrameType

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from lakebed.model.options.read import ReadOptions
from lakebed.model.packing import pack, useful_tasks
from lakebed.scan.scan import Scan, plan_incremental, plan_scan
from lakebed.spark.data_source.changes import CHANGES_SCHEMA, ChangesReader
from lakebed.spark.data_source.columns import check_columns, exactly, full_schema, real_names
from lakebed.spark.data_source.filters import to_predicate
from lakebed.spark.data_source.partition import held_by
from lakebed.spark.data_source.point_in_time import commits_of, parsed, snapshot_of, wants_changes
from lakebed.spark.errors import plainly
from lakebed.spark.schema import arrow_to_spark, spark_layout
from lakebed.table.files.file_group import FileSlice
from lakebed.table.snapshot import Snapshot

# Planning runs in a Python worker, which cannot know the number of cores.
CORES = 8
# Spark calls `pushFilters` of a reader only in this worker, and elsewhere rejects a reader that has
# it while spark.sql.python.filterPushdown.enabled is false. Spark 4.2 keeps the resulting reader
# with the DataFrame, and a later query without filters, or another branch of the same query, uses
# it: rows would be missing silently. So filters are pushed down only if the user enables it.
_PUSHDOWN_WORKER = "data_source_pushdown_filters"


def table_schema(given: Mapping[str, str]) -> StructType:
    """Return the columns of the table, the meta columns first, as Hudi shows them."""
    if wants_changes(given):
        return CHANGES_SCHEMA
    # Spark does not say whether the columns are those of a stream, which needs no begin of a range.
    snapshot, _ = snapshot_of(parsed(given, needs_begin=False))
    return arrow_to_spark(full_schema(snapshot))


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
        self._schema = spark_layout(schema)
        snapshot, self._place = snapshot_of(options)
        self._full = full_schema(snapshot)
        check_columns(self._schema, self._full)
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
        slices: Sequence[FileSlice] = held_by(partition) or ()
        return self._rows(slices)

    def _rows(self, slices: Sequence[FileSlice]) -> Iterator[pa.RecordBatch]:
        wanted = self._scan.needed_columns
        with plainly():
            for slice_ in slices:
                for batch in self._scan.read(slice_, wanted):
                    yield exactly(batch, self._schema)

    def _plan(self, where: str | None) -> Scan:
        snapshot, mode = self._snapshot, self._options.mode
        assert snapshot is not None
        names = real_names(self._schema, self._full)
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
    packs = pack(costs, useful_tasks(costs, CORES))
    return [tuple(slices[number] for number in numbers) for numbers in packs]


def _is_offering_filters() -> bool:
    """Return whether the caller is the worker that pushes filters, judging by the stack frames."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - nothing else tells who asks
    while frame is not None:
        if _PUSHDOWN_WORKER in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
