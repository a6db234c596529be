"""The files of a Parquet or Delta folder: where they are, their schema, and their rows as a stream."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, InvalidError, NotFoundError, SchemaError, UnsupportedError
from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.storage.storage import Storage
from lakebed.table.config.ddl import type_text
from lakebed.table.read.pages.paged_file import reading

_THREADS: Final = 8
_BATCH_ROWS: Final = 65_536
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_REFUSED: Final = ("deletionVectors", "columnMapping")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Parquet file, and the values of the partition columns that its folder gives."""

    path: str
    size_bytes: int
    values: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConvertSource:
    """The files of a folder in a fixed order, with the schema that all of them can be read as."""

    kind: str
    storage: Storage
    files: tuple[SourceFile, ...]
    schema: pa.Schema
    rows: int

    @property
    def size_bytes(self) -> int:
        """Return the size of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def fingerprint(self) -> str:
        """Return a hash of the files' paths and sizes, which shows whether they have changed."""
        listed = "\n".join(f"{file.path} {file.size_bytes}" for file in self.files)
        return hashlib.sha256(listed.encode()).hexdigest()[:32]

    def read(self, files: Sequence[SourceFile]) -> pa.RecordBatchReader:
        """Return the rows of some files as a stream in the source's schema."""
        batches = (batch for file in files for batch in self._read_file(file))
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def _read_file(self, file: SourceFile) -> Iterator[pa.RecordBatch]:
        with self.storage.open_read(file.path) as opened:
            what = f"{self.storage.url}/{file.path}"
            with reading(what):
                batches = pq.ParquetFile(opened, pre_buffer=False).iter_batches(_BATCH_ROWS)
            while True:
                with reading(what):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield self._conform(batch, file)

    def _conform(self, batch: pa.RecordBatch, file: SourceFile) -> pa.RecordBatch:
        columns = []
        for wanted in self.schema:
            at = batch.schema.get_field_index(wanted.name)
            try:
                # Of a column in the files and in the name of a folder, the folder counts, as in Spark.
                if at >= 0 and wanted.name not in file.values:
                    column = batch.column(at)
                    same = column.type == wanted.type
                    columns.append(column if same else column.cast(wanted.type))
                else:
                    value = pa.scalar(file.values.get(wanted.name), pa.string()).cast(wanted.type)
                    columns.append(pa.repeat(value, batch.num_rows))
            except pa.ArrowException as error:
                raise SchemaError(
                    f"{self.storage.url}/{file.path}: column {wanted.name!r} does not fit "
                    f"{type_text(wanted.type)}, the type that all files have in common: {error}"
                ) from error
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def find_source(storage: Storage, options: Mapping[str, str] | None = None) -> ConvertSource:
    """Return the files of a Delta table, or of a folder of Parquet files.

    Raises NotFoundError for a folder without Parquet files, InvalidError for a table of Hudi or
    Lakebed, and UnsupportedError for features of Delta that need its own reader.
    """
    folders = set(storage.list_names("")[0])
    if ".hoodie" in folders:
        raise InvalidError(
            f"{storage.url}: already a table of Hudi or Lakebed; open it with open_table"
        )
    if "_delta_log" in folders:
        return _delta_source(storage, options)
    return _parquet_source(storage)


def _parquet_source(storage: Storage) -> ConvertSource:
    files = tuple(
        SourceFile(entry.path, entry.size, _hive_values(entry.path))
        for entry in storage.list("")
        if entry.path.endswith(".parquet") and not _is_hidden(entry.path)
    )
    if not files:
        raise NotFoundError(f"{storage.url}: no Parquet files here, and no Delta table")
    names = list(files[0].values)
    for file in files:
        if list(file.values) != names:
            raise InvalidError(
                f"{storage.url}: {files[0].path} and {file.path} are in folders of different "
                "partition columns; convert them separately"
            )
    footers = _footers(storage, files)
    schemas = [footer.schema.to_arrow_schema() for footer in footers]
    for file, found in zip(files, schemas, strict=True):
        if COMMIT_TIME in found.names:
            raise InvalidError(
                f"{storage.url}: {file.path} belongs to a table of Hudi or Lakebed, whose files may "
                "hold old versions of rows; open that table with open_table"
            )
    schema = _unified(storage, files, schemas)
    for name in names:
        if schema.get_field_index(name) < 0:
            schema = schema.append(pa.field(name, _value_type(file.values[name] for file in files)))
    rows = sum(footer.num_rows for footer in footers)
    return ConvertSource("Parquet folder", storage, files, schema, rows)


def _footers(storage: Storage, files: Sequence[SourceFile]) -> list[pq.FileMetaData]:
    def read(file: SourceFile) -> pq.FileMetaData:
        with storage.open_read(file.path) as opened, reading(f"{storage.url}/{file.path}"):
            return pq.read_metadata(opened)

    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(read, files))


def _unified(storage: Storage, files: Sequence[SourceFile], schemas: list[pa.Schema]) -> pa.Schema:
    """Return the schema that all files can be read as: all columns, with their widest types."""
    found = schemas[0].remove_metadata()
    for file, schema in zip(files, schemas, strict=True):
        if schema.equals(found):
            continue
        try:
            found = pa.unify_schemas(
                [found, schema.remove_metadata()], promote_options="permissive"
            )
        except pa.ArrowException as error:
            raise SchemaError(
                f"{storage.url}/{file.path}: its columns do not fit those of the files before it: {error}"
            ) from error
    return found


def _hive_values(path: str) -> dict[str, str | None]:
    """Return the partition columns of a path.

    >>> _hive_values("dt=2026-11-15/city=S%C3%A3o/part-0.parquet")
    {'dt': '2026-11-15', 'city': 'São'}
    """
    pairs = (folder.partition("=") for folder in path.split("/")[:-1])
    return {
        unquote(name): None if value == _NULL else unquote(value)
        for name, equals, value in pairs
        if equals and name
    }


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) and "=" not in part for part in path.split("/"))


def _value_type(values: Iterator[str | None]) -> pa.DataType:
    """Return BIGINT if all values are integers as Spark writes them, else STRING."""
    held = [value for value in values if value is not None]
    return pa.int64() if held and all(map(_INTEGER.fullmatch, held)) else pa.string()


def _delta_source(storage: Storage, options: Mapping[str, str] | None) -> ConvertSource:
    table = _open_delta(storage, options)
    features = set(table.protocol().reader_features or ())
    properties = table.metadata().configuration
    maps_columns = properties.get("delta.columnMapping.mode", "none") != "none"
    for feature in _REFUSED:
        used = maps_columns if feature == "columnMapping" else feature in features
        if used:
            raise UnsupportedError(
                f"{storage.url}: the Delta table uses {feature}, which convert does not read; rewrite "
                "it without (for deletion vectors: REORG TABLE ... APPLY (PURGE), then disable them)"
            )
    schema = pa.schema(table.schema())
    names = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = tuple(
        SourceFile(
            unquote(str(action["path"])),
            int(action["size_bytes"]),
            {name: _text(action[f"partition.{name}"]) for name in names},
        )
        for action in sorted(actions, key=lambda action: str(action["path"]))
    )
    counts = [action.get("num_records") for action in actions]
    known = None not in counts
    rows = sum(counts) if known else sum(footer.num_rows for footer in _footers(storage, files))
    return ConvertSource("Delta table", storage, files, schema, rows)


def _open_delta(storage: Storage, options: Mapping[str, str] | None) -> Any:
    try:
        from deltalake import DeltaTable  # noqa: PLC0415 - an optional dependency
        from deltalake.exceptions import DeltaError  # noqa: PLC0415 - an optional dependency
    except ImportError as error:
        raise UnsupportedError(
            f"{storage.url} is a Delta table: pip install 'lakebed[delta]' to read its log"
        ) from error
    try:
        return DeltaTable(storage.url, storage_options=dict(options or {}))
    except DeltaError as error:
        first_line = str(error).partition("\n")[0]
        raise CorruptError(f"{storage.url}: cannot open the Delta table: {first_line}") from error


def _text(value: object) -> str | None:
    return None if value is None else str(value)
