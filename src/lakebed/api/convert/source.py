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
from lakebed.table.read.pages.paged_file import reading

_THREADS: Final = 8
_BATCH_ROWS: Final = 65_536
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Parquet file, and the values of the partition columns that its folder gives.

    `kept` says for each row whether it is still there; rows beyond its end are. None keeps all.
    """

    path: str
    size_bytes: int
    values: Mapping[str, str | None] = field(default_factory=dict)
    kept: pa.BooleanArray | None = None

    @property
    def deleted_rows(self) -> int:
        """Return how many rows of the file are gone."""
        return 0 if self.kept is None else int(self.kept.false_count)

    @property
    def identity(self) -> str:
        """Return a text that is the same as long as the file holds the same rows."""
        if self.kept is None:
            return f"{self.path} {self.size_bytes}"
        rows = self.kept.to_numpy(zero_copy_only=False).tobytes()
        return f"{self.path} {self.size_bytes} {hashlib.sha256(rows).hexdigest()}"

    def standing(self, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Return the rows of a batch that are still there; `start` is the place of the first."""
        if self.kept is None:
            return batch
        mask = self.kept.slice(start, batch.num_rows)
        beyond = batch.num_rows - len(mask)
        return batch.filter(pa.concat_arrays([mask, pa.repeat(pa.scalar(value=True), beyond)]))


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
        """Return a hash of the files and their deleted rows, by which a source is recognized again."""
        listed = "\n".join(file.identity for file in self.files)
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
            start = 0
            while True:
                with reading(what):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield self._conform(file.standing(batch, start), file)
                start += batch.num_rows

    def _conform(self, batch: pa.RecordBatch, file: SourceFile) -> pa.RecordBatch:
        columns = []
        for wanted in self.schema:
            at = batch.schema.get_field_index(wanted.name)
            # Of a column in the files and in the name of a folder, the folder counts, as in Spark.
            if at >= 0 and wanted.name not in file.values:
                columns.append(self._cast(batch.column(at), wanted, file))
            else:
                value = pa.array([file.values.get(wanted.name)], pa.string())
                columns.append(pa.repeat(self._cast(value, wanted, file)[0], batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _cast(self, column: pa.Array, wanted: pa.Field, file: SourceFile) -> pa.Array:
        try:
            return column if column.type == wanted.type else column.cast(wanted.type)
        except pa.ArrowException as error:
            raise SchemaError(
                f"{self.storage.url}/{file.path}: column {wanted.name!r} is {column.type} here and "
                f"{wanted.type} over all files, which does not hold its values: {error}"
            ) from error


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
    schemas = [_without_dictionaries(footer.schema.to_arrow_schema()) for footer in footers]
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
    found = schemas[0]
    for file, schema in zip(files, schemas, strict=True):
        if schema.equals(found):
            continue
        try:
            both = pa.unify_schemas([found, schema], promote_options="permissive")
        except pa.ArrowException as error:
            raise SchemaError(
                f"{storage.url}/{file.path}: its columns do not fit those of the files before it: {error}"
            ) from error
        for before in (found, schema):
            _check_exact(before, both, f"{storage.url}/{file.path}")
        found = both
    return found


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Return the columns with the types of their values, without metadata."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields)


def _check_exact(before: pa.Schema, unified: pa.Schema, what: str) -> None:
    """Raise SchemaError if decimals became floats, which Arrow rounds without an error."""
    for one in before:
        if _are_rounded(one.type, unified.field(one.name).type):
            raise SchemaError(
                f"{what}: column {one.name!r} holds decimals here and floats in another file, or the "
                "other way round; a table stores one of them exactly: convert one of them before"
            )


def _are_rounded(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a decimal in a type, at any depth, is a float in the other."""
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        return any(_are_rounded(one.type, wanted.field(one.name).type) for one in kind)
    if kind.num_fields and kind.num_fields == wanted.num_fields:
        pairs = zip(_inner(kind), _inner(wanted), strict=True)
        return any(_are_rounded(one, other) for one, other in pairs)
    return bool(pa.types.is_decimal(kind) and pa.types.is_floating(wanted))


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    return [kind.field(at).type for at in range(kind.num_fields)]


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
    if maps_columns:
        raise UnsupportedError(
            f"{storage.url}: the Delta table maps column names, which convert does not read; rewrite it "
            "without"
        )
    kept = _kept_rows(storage, table) if "deletionVectors" in features else {}
    schema = pa.schema(table.schema())
    names = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    files = tuple(
        SourceFile(
            unquote(str(action["path"])),
            int(action["size_bytes"]),
            {name: _text(action[f"partition.{name}"]) for name in names},
            kept.pop(str(action["path"]), None),
        )
        for action in sorted(actions, key=lambda action: str(action["path"]))
    )
    if kept:
        raise CorruptError(
            f"{storage.url}: rows are deleted in files that the Delta table does not list: {min(kept)}"
        )
    counts = [action.get("num_records") for action in actions]
    known = None not in counts
    rows = sum(counts) if known else sum(footer.num_rows for footer in _footers(storage, files))
    rows -= sum(file.deleted_rows for file in files)
    return ConvertSource("Delta table", storage, files, schema, rows)


def _kept_rows(storage: Storage, table: Any) -> dict[str, pa.BooleanArray]:
    """Return for each file with a deletion vector which of its rows are still there."""
    if not hasattr(table, "deletion_vectors"):
        raise UnsupportedError(
            f"{storage.url}: the Delta table uses deletion vectors, which this release of deltalake does "
            "not read: pip install --upgrade deltalake"
        )
    found: dict[str, pa.BooleanArray] = {}
    for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()):
        for path, rows in zip(
            batch.column("filepath"), batch.column("selection_vector"), strict=True
        ):
            found[path.as_py().removeprefix(table.table_uri)] = rows.values
    return found


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
