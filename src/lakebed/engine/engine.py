"""The in-process engine: writes Arrow streams, and reads scans as Arrow streams."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakebed.engine.parallel import read_parallel
from lakebed.errors import InvalidError, SchemaError
from lakebed.model.executor import Executor, LocalExecutor, TaskId
from lakebed.scan.scan import FindSources, Scan
from lakebed.table.changes.plan import GroupChanges
from lakebed.table.changes.scan import ChangeScan
from lakebed.table.config.given_schema import given_schema, pandas_index, without_pandas_index
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.projection import with_columns
from lakebed.table.read.source_cache import SourceCache
from lakebed.table.snapshot import Snapshot
from lakebed.write.pipeline import Source
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Staged, stage_runs

_BATCH_ROWS = 65_536
# Reading a smaller scan takes less time than starting threads.
PARALLEL_BYTES = 8 << 20


class ArrowEngine:
    """Runs reads, writes and tasks in this process, on Arrow."""

    executor: Executor = LocalExecutor()

    def schema(self, schema: object) -> pa.Schema:
        """Return the schema that the caller gave, as an Arrow schema, DDL string or Arrow data."""
        found = given_schema(schema)
        if found is not None:
            return found
        raise SchemaError(
            "schema: expected a pyarrow Schema, a DDL string or Arrow data (a pyarrow Table, a "
            f"pandas or Polars frame) where no Spark session is given, found {type(schema).__name__}"
        )

    def source(self, data: object) -> Source:
        """Return a source that stages the rows of `data`."""
        if isinstance(data, (pa.Table, pa.RecordBatch)):
            return Source(
                without_pandas_index(data.schema),
                lambda spec, _: stage_stream(open_stream(data), spec),
                repeatable=True,
            )
        stream = open_stream(data)
        return Source(stream.schema, lambda spec, _: stage_stream(stream, spec))

    def columns(self, data: object) -> pa.Schema:
        """Return the columns of rows that a caller passes."""
        return open_stream(data).schema

    def scanned(self, schema: pa.Schema, scan: Callable[[Snapshot], Scan]) -> Source:
        """Return a source that stages the rows of a scan, planned when the write begins."""
        return Source(
            schema,
            lambda spec, snapshot: stage_stream(self.read(scan(snapshot)), spec),
            reads_table=True,
            repeatable=True,
        )

    def read(self, scan: Scan, cache: SourceCache | None = None) -> pa.RecordBatchReader:
        """Return the rows of `scan` as a stream; a lookup keeps file footers in `cache`."""
        return read_stream(scan, self._threads, cache=cache)

    def collected(self, rows: pa.RecordBatchReader) -> pa.Table:
        """Return the rows of a stream as one table."""
        return rows.read_all()

    def count(self, rows: pa.RecordBatchReader) -> int:
        """Count the rows of a stream."""
        return sum(batch.num_rows for batch in rows)

    def changes(self, scan: ChangeScan) -> pa.RecordBatchReader:
        """Return the change rows of `scan` as a stream."""
        return read_changes(scan, self._threads)

    @property
    def _threads(self) -> int:
        """Return the number of threads for reads: that of the executor's tasks."""
        return self.executor.threads if isinstance(self.executor, LocalExecutor) else 1


def read_stream(
    scan: Scan,
    threads: int = 1,
    parallel_bytes: int = PARALLEL_BYTES,
    cache: SourceCache | None = None,
) -> pa.RecordBatchReader:
    """Return the rows of `scan` as a stream; files are opened as the stream is read.

    Several threads read a large scan: slices arrive in any order, but the rows of a slice arrive
    together and in order.
    """
    find = None if cache is None or not scan.is_lookup else _kept_sources(scan, cache)
    scan.check_readable(find)
    full = scan.full_schema
    schema = pa.schema([full.field(name) for name in scan.columns])
    wanted = scan.needed_columns

    def read(slice_: FileSlice) -> Iterator[pa.RecordBatch]:
        for batch in scan.read(slice_, wanted, None if find is None else find(slice_)):
            yield with_columns(batch, [batch.column(n) for n in schema.names], schema)

    opens = [partial(read, slice_) for slice_ in scan.slices]
    batches = read_parallel(opens, threads if scan.cost_bytes > parallel_bytes else 1)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _kept_sources(scan: Scan, cache: SourceCache) -> FindSources:
    return lambda slice_: cache.get(slice_, lambda: scan.sources(slice_))


def read_changes(scan: ChangeScan, threads: int = 1) -> pa.RecordBatchReader:
    """Return the change rows of `scan` as a stream; the changes of a file group arrive together."""

    def read(group: GroupChanges) -> Iterator[pa.RecordBatch]:
        return scan.read(group)

    opens = [partial(read, group) for group in scan.groups]
    cost = sum(group.cost_bytes for group in scan.groups)
    batches = read_parallel(opens, threads if cost > PARALLEL_BYTES else 1)
    return pa.RecordBatchReader.from_batches(scan.schema, batches)


@runtime_checkable
class ArrowStream(Protocol):
    """Anything that exports an Arrow stream: a pyarrow Table, a reader, a Polars frame, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the stream as a PyCapsule."""
        ...


def open_stream(data: object) -> pa.RecordBatchReader:
    """Open the caller's data as one stream of batches, without the index that pandas adds."""
    stream = _stream(data)
    gone = pandas_index(stream.schema)
    if not gone:
        return stream
    kept = without_pandas_index(stream.schema)
    batches = (batch.select(kept.names) for batch in stream)
    return pa.RecordBatchReader.from_batches(kept, batches)


def _stream(data: object) -> pa.RecordBatchReader:
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(data.schema, [data])
    if isinstance(data, pa.Table):
        return data.to_reader(max_chunksize=_BATCH_ROWS)
    if isinstance(data, ArrowStream):
        return pa.RecordBatchReader.from_stream(data)
    raise InvalidError(
        "expected rows as a DataFrame or an Arrow stream (pyarrow Table, RecordBatch or "
        f"RecordBatchReader, or an object with __arrow_c_stream__), found {type(data).__name__}"
    )


def stage_stream(stream: pa.RecordBatchReader, spec: WriteSpec) -> list[Staged]:
    """Write the rows of `stream` as sorted runs.

    One task writes all rows, so runs preserve the order of arrival. Rows go directly to logs only
    if the merge is associative and rows are complete; otherwise to temporary runs, which are merged
    before they become logs, because a log holds each key once.
    """
    policy = LogPolicy(
        spec.appends_logs and spec.rule.is_associative and not spec.is_partial, alone=True
    )
    return list(stage_runs(_bounded(stream), spec, TaskId(0, 0, 0), policy))


def _bounded(stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Split large batches, so that a table passed as one batch is not sorted as a whole."""
    for batch in stream:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)
