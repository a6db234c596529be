"""From an Arrow stream to staged runs, in this process."""

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lakebed.errors import InvalidError
from lakebed.model.executor import TaskId
from lakebed.table.config.given_schema import pandas_index, without_pandas_index
from lakebed.write.spec.write_spec import WriteSpec
from lakebed.write.staging import LogPolicy, Staged, stage_runs

_BATCH_ROWS = 65_536


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

    One task writes all of them, so their order is that of arrival, also for logs. With a custom
    merger a key may occur several times in a run, which a log does not allow: runs are merged
    first.
    """
    policy = LogPolicy(
        spec.appends_logs and spec.rule.is_associative and not spec.is_partial, alone=True
    )
    return list(stage_runs(_bounded(stream), spec, TaskId(0, 0, 0), policy))


def _bounded(stream: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Split large batches: a caller's single batch of a whole table must not be one flush."""
    for batch in stream:
        for start in range(0, batch.num_rows, _BATCH_ROWS):
            yield batch.slice(start, _BATCH_ROWS)
