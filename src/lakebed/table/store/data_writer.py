"""Writes rows of a table as a sorted run: a base file, a data log, a log block's content.

Columns are the five meta columns and then the table's in their storage types.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError
from lakebed.format.avro.avro_schema import arrow_to_avro, with_meta_fields
from lakebed.format.files.footer import FOOTER_AVRO_SCHEMA, FOOTER_OPEN_BLOOM
from lakebed.format.files.parquet_statistics import FileStatistics
from lakebed.format.index.bloom import BloomWriter
from lakebed.format.names.meta_columns import (
    COMMIT_TIME,
    FILE_NAME,
    META_FIELDS,
    PARTITION_PATH,
    constant,
    seqnos,
)
from lakebed.model.options.writers import BloomOptions
from lakebed.storage.streams import WriteStream
from lakebed.table.config.schema import storage_schema
from lakebed.table.read.conform import conform, conform_array
from lakebed.table.store.avro_run_writer import AvroRunWriter
from lakebed.table.store.new_run import NewRun
from lakebed.table.store.run_writer import (
    PAGE_ROWS,
    ROW_GROUP_BYTES,
    ROW_GROUP_ROWS,
    RunSizes,
    RunWriter,
)

_CONSTANT_COLUMNS = (COMMIT_TIME, PARTITION_PATH, FILE_NAME)
_WRITTEN_META_FIELDS = [
    field.with_type(pa.dictionary(pa.int32(), pa.string()))
    if field.name in _CONSTANT_COLUMNS
    else field
    for field in META_FIELDS
]


@dataclass(frozen=True, slots=True)
class DataFileStats:
    """Statistics of a written file; the keys are None if the file is empty.

    A log has the `version` in its name, and its key range includes its deletes. Barriers, which are
    deletes that only make a row of the same key win, are not counted.
    """

    path: str
    size_bytes: int
    rows: int
    min_key: str | None
    max_key: str | None
    deletes: int = 0
    version: int | None = None
    statistics: FileStatistics | None = None

    @property
    def key_range(self) -> tuple[str, str] | None:
        """Return the smallest and the greatest key; None if there are none."""
        low, high = self.min_key, self.max_key
        return None if low is None or high is None else (low, high)


@dataclass(frozen=True, slots=True)
class NewDataFile:
    """The description of a file to write.

    `path` is its location, and its name in errors. `schema` may hold only some of the table's
    columns. `file_name` is the meta column of the rows: the name of a base file (from `path` if not
    given), the bare file id in a log. `metadata` is added to the footer, overriding the writer's
    own entries. A `task` number must be unique within an instant: sequence numbers contain it. With
    `avro_schema`, which includes the meta fields, the rows become the records of an Avro block
    instead of a Parquet file. `may_repeat` is for a base file that replaces another writer's file,
    in which a key may occur twice. With `bloom` the footer has a Bloom filter of the keys.
    `statistics` are the columns whose statistics `close` returns.
    """

    path: str
    schema: pa.Schema
    table_name: str
    instant: str
    partition_path: str = ""
    file_name: str | None = None
    task: int = 0
    metadata: Mapping[str, str] = field(default_factory=dict)
    row_group_rows: int = ROW_GROUP_ROWS
    row_group_bytes: int = ROW_GROUP_BYTES
    page_rows: int = PAGE_ROWS
    avro_schema: str | None = None
    may_repeat: bool = False
    bloom: BloomOptions | None = None
    statistics: tuple[str, ...] = ()


class DataFileWriter:
    """Writes rows to `stream`, which it then owns; nothing is visible before `close`."""

    def __init__(self, stream: WriteStream, file: NewDataFile) -> None:
        self._path = path = file.path
        self._schema = file.schema
        self._file_schema = pa.schema([*_WRITTEN_META_FIELDS, *storage_schema(file.schema)])
        self._instant = file.instant
        self._partition_path = file.partition_path
        self._file_name = path.rpartition("/")[2] if file.file_name is None else file.file_name
        self._task = file.task
        self._statistics = file.statistics
        self._bloom: BloomWriter | None = None
        self._run: NewRun
        if file.avro_schema is not None:
            self._run = AvroRunWriter(stream, path, file.avro_schema)
            return
        avro = with_meta_fields(arrow_to_avro(file.schema, file.table_name))
        bloom = FOOTER_OPEN_BLOOM if file.file_name is None else {}
        if file.bloom is not None:
            self._bloom = BloomWriter(file.bloom.entries, file.bloom.false_positives)
        self._footer = {FOOTER_AVRO_SCHEMA: avro, **bloom, **file.metadata}
        self._run = RunWriter(
            stream,
            path,
            self._file_schema,
            self._footer,
            sizes=RunSizes(file.row_group_rows, file.row_group_bytes, file.page_rows),
            may_repeat=file.may_repeat,
        )

    def write(
        self,
        batch: pa.RecordBatch,
        record_keys: pa.Array,
        *,
        commit_times: pa.Array | None = None,
        commit_seqnos: pa.Array | None = None,
    ) -> None:
        """Append rows of the writer's logical schema, sorted by `record_keys`.

        New rows of this instant get its commit time and a new sequence number; rows carried over
        from older files keep theirs (a null there is a new row). Raises InvalidError, naming the
        key, if a key is not above the previous key, also across calls.
        """
        batch = conform(batch, self._schema)
        keys = record_keys.cast(pa.string())
        rows = batch.num_rows
        if rows != len(keys):
            raise InvalidError(f"{self._path}: expected {rows} record keys, found {len(keys)}")
        if not rows:
            return
        if self._bloom is not None:
            self._bloom.add(keys)
        if commit_seqnos is None or commit_seqnos.null_count:
            made = seqnos(self._instant, self._task, self._run.rows, rows)
            commit_seqnos = made if commit_seqnos is None else pc.coalesce(commit_seqnos, made)
        if commit_times is None:
            commit_times = constant(self._instant, rows)
        else:
            commit_times = commit_times.fill_null(self._instant).dictionary_encode()
        meta = [
            commit_times,
            commit_seqnos,
            keys,
            constant(self._partition_path, rows),
            constant(self._file_name, rows),
        ]
        fields = list(self._file_schema)[len(meta) :]
        columns = [
            conform_array(column, wanted, wanted.name)
            for column, wanted in zip(batch.columns, fields, strict=True)
        ]
        self._run.write(pa.RecordBatch.from_arrays(meta + columns, schema=self._file_schema))

    def annotate(self, entries: Mapping[str, str]) -> None:
        """Add entries to the footer that are known only once all rows are written."""
        self._footer.update(entries)

    @property
    def rows(self) -> int:
        """Return how many rows were written so far."""
        return self._run.rows

    def close(self) -> DataFileStats:
        """Write the footer and make the file visible. Closing twice returns the same result."""
        self._end_bloom()
        size_bytes = self._run.close()
        statistics = None
        if self._statistics and isinstance(self._run, RunWriter):
            statistics = self._run.statistics(self._statistics)
        return DataFileStats(
            self._path,
            size_bytes,
            self._run.rows,
            self._run.min_key,
            self._run.max_key,
            statistics=statistics,
        )

    def _end_bloom(self) -> None:
        """Put the Bloom filter into the footer, which the run writes when it is closed."""
        if self._bloom is not None:
            self._footer.update(self._bloom.footer())
            self._bloom = None

    def abort(self) -> None:
        """Discard everything written. After `close`, or the second time, this does nothing."""
        self._run.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._end_bloom()
        self._run.__exit__(kind, *error)
