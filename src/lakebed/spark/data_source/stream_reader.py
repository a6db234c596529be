"""The stream from a table: `spark.readStream.format("lakebed")`.

Spark calls one process of the driver for offsets and partitions, and pickles a second reader to the
tasks once per query. So everything that the tasks of a micro-batch need is in its partitions.

An offset is a `Position` as JSON. The offset of a query's first micro-batch also has, as `begin`,
the position where the query started: after a failure in that micro-batch, Spark asks again where
to start, and `latest` would now be another position.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakebed.errors import InvalidError, LakebedError, SchemaError, UnsupportedError
from lakebed.model.instant import resolve_since
from lakebed.model.options.stream import StreamReadOptions
from lakebed.model.packing import pack, useful_tasks
from lakebed.scan.scan import Scan, parse_where, plan_incremental
from lakebed.spark.data_source.changes import ChangeColumns
from lakebed.spark.data_source.columns import check_columns, exactly, full_schema, real_names
from lakebed.spark.data_source.partition import held_by
from lakebed.spark.data_source.reader import CORES
from lakebed.spark.errors import plainly
from lakebed.spark.schema import spark_layout
from lakebed.table.changes.commit_files import LostFilesError
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.changes.position import CommitFeed, Position, advance, check_stream
from lakebed.table.changes.scan import ChangeScan, plan_changes
from lakebed.table.config.properties_file import load_config
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.location import find_table
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.timeline.active import ActiveTimeline

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        ReadMaxFiles,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    LIMITS_WORK = True
except ImportError:  # PySpark 4.1, in which a source cannot limit its micro-batches
    LIMITS_WORK = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for the class that PySpark 4.1 lacks."""


log = logging.getLogger(__name__)

Offset = dict[str, Any]
Plan = TypeVar("Plan")
_INITIAL, _BEGIN = "initial", "begin"


def make_stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return the reader of a stream with the columns of `schema`."""
    try:
        return _make_reader(given, schema)
    except LakebedError as error:
        # Spark 4.2 shows an error of its own instead of one that is raised here.
        return FailedReader(error)


def _make_reader(given: Mapping[str, str], schema: StructType) -> "StreamReader":
    options, lines = StreamReadOptions.parse(given)
    for line in lines:
        log.info(line)
    if options.limits and not LIMITS_WORK:
        raise UnsupportedError(
            "maxCommitsPerTrigger, maxRowsPerTrigger and maxBytesPerTrigger need PySpark 4.2 or "
            "newer: older releases do not tell a Python source where a micro-batch starts"
        )
    return StreamReader(options, schema)


class FailedReader(DataSourceStreamReader):
    """Raises the error with which a stream cannot start, as soon as Spark asks for an offset."""

    def __init__(self, error: LakebedError) -> None:
        self._error = error

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name, like the others below
        """Raise the error."""
        with plainly():
            raise self._error

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802
        """Raise the error."""
        del start, limit
        return self.initialOffset()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Raise the error."""
        return self.initialOffset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Raise the error."""
        del start, end
        raise AssertionError(self.initialOffset())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raise the error."""
        del partition
        raise AssertionError(self.initialOffset())


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the rows, or the changes, that the commits of a table wrote since an offset."""

    def __init__(self, options: StreamReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = spark_layout(schema)
        self._place = find_table(options.path, options.storage_options)
        config = self._place.config
        self._commits = CommitCache(
            ActiveTimeline(self._place.root, config.timeline_path), config.history_path
        )
        self._feed = CommitFeed()
        self._begin: Position | None = None
        self._target: Position | None = None
        self._last: Position | None = None
        snapshot = self._snapshot()
        check_stream(snapshot.config)
        self._changes = ChangeColumns(schema, snapshot.schema) if options.cdc else None
        if options.cdc and self._place.folder:
            raise UnsupportedError(
                f"{options.path}: changes cannot be read from one partition; {self._place.advice}"
            )
        if not options.cdc:
            check_columns(self._schema, full_schema(snapshot))
            parse_where(options.where, snapshot.schema)
        self._known = snapshot.schema.names

    def initialOffset(self) -> Offset:  # noqa: N802
        """Return where a new query starts."""
        with plainly():
            snapshot, start = self._snapshot(), self._options.start
            if self._options.starts_latest:
                self._begin = self._feed.latest(snapshot)
            else:
                since = resolve_since(start, snapshot.config.zone)
                self._begin = Position() if since is None else self._feed.at(snapshot, since)
            return {**self._begin.to_json(), _INITIAL: True}

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:  # noqa: N802
        """Return the end of the next micro-batch; `start` itself if there is nothing to read.

        PySpark 4.1 passes neither `start` nor a limit, and then everything is read.
        """
        with plainly():
            snapshot = self._snapshot()
            if start is None:
                self._last = self._target or self._feed.latest(snapshot)
                return self._offset(self._last, self._begin)
            at = Position.parse(start)
            self._check_there(snapshot, at)
            unlimited = LIMITS_WORK and isinstance(limit, ReadAllAvailable)
            limits = None if unlimited else self._options.limits
            commits = self._feed.after(snapshot, at, self._target)
            end = advance(at, commits, limits)
            self._last = advance(end, commits, None)
            if end == at:
                return start
            return self._offset(end, at if start.get(_INITIAL) else None)

    def _offset(self, end: Position, begin: Position | None) -> Offset:
        return {**end.to_json(), **({} if begin is None else {_BEGIN: begin.to_json()})}

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return a limit if the options set one; Spark's own triggers may override it."""
        limits = self._options.limits
        if limits.rows:
            return ReadMaxRows(limits.rows)
        if limits.size_bytes:
            return ReadMaxBytes(limits.size_bytes)
        # Only distinguished from ReadAllAvailable: the limits of the options all apply.
        return ReadMaxFiles(limits.commits) if limits.commits else ReadAllAvailable()

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802
        """Return the newest position seen, for the progress of the query."""
        return None if self._last is None else self._last.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember the last commit: the query ends with it."""
        with plainly():
            self._target = self._feed.latest(self._snapshot())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return one partition for each task of a micro-batch."""
        with plainly():
            began = end.get(_BEGIN) if start.get(_INITIAL) else None
            first, last = Position.parse(began or start), Position.parse(end)
            if first == last:
                return []
            snapshot = self._snapshot()
            self._check_there(snapshot, first)
            self._check_there(snapshot, last)
            commits = self._feed.after(snapshot, first, last)
            if all(commit.is_service for commit in commits):
                return []
            if self._changes is not None:
                return self._change_partitions(snapshot, commits, self._changes)
            return self._row_partitions(snapshot, commits)

    def _row_partitions(
        self, snapshot: Snapshot, commits: Sequence[RangeCommit]
    ) -> list[InputPartition]:
        full = full_schema(snapshot)
        self._check_schema(snapshot, lambda: check_columns(self._schema, full))
        names = real_names(self._schema, full)
        scan = self._readable(
            commits, lambda of: plan_incremental(snapshot, of, names, self._options.where)
        )
        if scan is None:
            return []
        slices = self._place.within(scan.slices)
        replace(scan, slices=slices).check_readable()
        travelling = replace(scan, slices=())
        packs = _packed([slice_.cost_bytes for slice_ in slices])
        return [InputPartition((travelling, [slices[n] for n in one])) for one in packs]

    def _change_partitions(
        self, snapshot: Snapshot, commits: Sequence[RangeCommit], changes: ChangeColumns
    ) -> list[InputPartition]:
        self._check_schema(snapshot, lambda: changes.check(snapshot.schema))
        names = changes.names(snapshot.schema)
        scan = self._readable(commits, lambda of: plan_changes(snapshot, of, names))
        if scan is None:
            return []
        groups, travelling = scan.groups, replace(scan, groups=())
        packs = _packed([group.cost_bytes for group in groups])
        return [InputPartition((travelling, [groups[n] for n in one])) for one in packs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        held = held_by(partition)
        return iter(()) if held is None else self._rows(*held)

    def _rows(self, scan: Scan | ChangeScan, parts: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        with plainly():
            for part in parts:
                if isinstance(scan, ChangeScan):
                    assert self._changes is not None
                    yield from map(self._changes.convert, scan.read(part))
                else:
                    for batch in scan.read(part, scan.needed_columns):
                        yield exactly(batch, self._schema)

    def _snapshot(self) -> Snapshot:
        storage = self._place.root
        return load_snapshot(storage, load_config(storage), commits=self._commits)

    def _check_there(self, snapshot: Snapshot, position: Position) -> None:
        """Raise InvalidError if the table no longer has a commit that the stream has read."""
        gone = self._feed.missing(snapshot, position)
        if not gone:
            return
        self._lose(
            f"the table no longer has commit {', '.join(gone)}, up to which the stream has read: it "
            "was rolled back, the table was restored or created again, or the archive dropped it. "
            "Rows that the stream has passed on may not be in the table any more"
        )

    def _readable(
        self, commits: Sequence[RangeCommit], plan: Callable[[Sequence[RangeCommit]], Plan]
    ) -> Plan | None:
        """Return the plan of a read of `commits`, or of those of them that can still be read.

        None if none of them can be read.
        """
        try:
            return plan(commits)
        except LostFilesError as error:
            self._lose(str(error), error)

        def is_readable(first: int) -> bool:
            try:
                plan(commits[first:])
            except LostFilesError:
                return False
            return True

        # Fewer commits never need more files.
        first = bisect_left(range(len(commits)), True, key=is_readable)
        passed = ", ".join(c.requested for c in commits[:first] if not c.is_service)
        log.warning("stream from %s: commits %s were not read", self._options.path, passed)
        return plan(commits[first:]) if first < len(commits) else None

    def _lose(self, why: str, error: LakebedError | None = None) -> None:
        """Raise an error because rows cannot be read, or log it if the options allow that."""
        text = f"stream from {self._options.path}: {why}"
        if self._options.fails_on_loss:
            raise InvalidError(
                f"{text}. Start the query with a new checkpoint; or set failOnDataLoss=false to "
                "continue with what can be read"
            ) from error
        log.warning("%s; continuing because of failOnDataLoss=false", text)

    def _check_schema(self, snapshot: Snapshot, check: Callable[[], None]) -> None:
        """Check that the columns of the stream still exist with their types; log new columns."""
        try:
            check()
        except SchemaError as error:
            raise SchemaError(
                f"stream from {self._options.path}: the table's columns have changed since the query "
                f"started: {error}. Start the query again, with a schema that fits"
            ) from error
        new = [name for name in snapshot.schema.names if name not in self._known]
        if new:
            log.warning(
                "stream from %s: the table has new columns (%s), which the stream passes on only "
                "after the query is started again",
                self._options.path,
                ", ".join(new),
            )
            self._known = snapshot.schema.names

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle, without what tasks do not need."""
        return {**self.__dict__, "_commits": None, "_feed": None}


def _packed(costs: Sequence[int]) -> list[list[int]]:
    """Group slices or file groups, given by cost, into tasks of similar cost."""
    return [list(numbers) for numbers in pack(costs, useful_tasks(costs, CORES))]
