"""Read a base file, ours or Hudi's, as columns of the table's schema."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import (
    CorruptError,
    SchemaError,
    UnavailableError,
    UnsupportedError,
)
from lakebed.format.footer import (
    FOOTER_IS_ORDERED,
    FOOTER_MAX_KEY,
    FOOTER_MIN_KEY,
    same_order_in_java,
)
from lakebed.format.meta_columns import META_FIELDS
from lakebed.storage.storage import Storage
from lakebed.table.conform import castable, check_nulls, conform_array
from lakebed.table.schema import find_field

REMOTE_WINDOW_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class BaseFileFooter:
    """What a base file says of itself; the keys are None where it does not say."""

    num_rows: int
    min_key: str | None
    max_key: str | None
    is_ordered: bool
    schema: pa.Schema
    metadata: Mapping[str, str]


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn what pyarrow raises over a bad file into our errors, naming the file."""
    try:
        yield
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"base file {path!r}: {error}") from error
    except (OSError, pa.ArrowException, UnicodeDecodeError, SchemaError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UnavailableError(f"{path}: {error}") from error
        raise CorruptError(f"base file {path!r}: {error}") from error


def _open(storage: Storage, path: str, source: pa.NativeFile) -> pq.ParquetFile:
    # Locally each column chunk is one cheap read. Elsewhere a read is a request, so
    # pyarrow may join them, within the window of row groups that `_windows` gives it.
    return pq.ParquetFile(
        source,
        pre_buffer=storage.local_path(path) is None,
        coerce_int96_timestamp_unit="us",
        page_checksum_verification=True,
    )


def read_footer(storage: Storage, path: str) -> BaseFileFooter:
    """Read what a base file says of itself, without reading rows.

    Raises CorruptError naming the file if it is no Parquet file.
    """
    with storage.open_read(path) as source, _reading(path):
        file = _open(storage, path, source)
        raw = file.metadata.metadata or {}
        metadata = {key.decode(): value.decode() for key, value in raw.items()}
        metadata.pop("ARROW:schema", None)
        low, high = metadata.get(FOOTER_MIN_KEY), metadata.get(FOOTER_MAX_KEY)
        if low is None or high is None or not same_order_in_java(low + high):
            low = high = None
        return BaseFileFooter(
            num_rows=file.metadata.num_rows,
            min_key=low,
            max_key=high,
            is_ordered=metadata.get(FOOTER_IS_ORDERED) == "true",
            schema=file.schema_arrow.remove_metadata(),
            metadata=metadata,
        )


def read_base_file(
    storage: Storage,
    path: str,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a base file, ours or Hudi's, as `columns` of the table's schema.

    `columns` may name meta columns; None means all of `schema` without them. A column
    that the file does not have is null; older, narrower types are cast up. Memory is
    bounded by a row group and a batch. Raises CorruptError naming the file, at the first
    row that cannot be read at the latest.
    """
    fields = _project(schema, columns)
    with storage.open_read(path) as source:
        with _reading(path):
            file = _open(storage, path, source)
            present = list(file.schema_arrow)
            positions = [find_field(present, field.name) for field in fields]
            wanted = [present[p].name for p in positions if p is not None]
        target = pa.schema(fields)
        batches = _read_batches(file, wanted, batch_rows, storage.local_path(path) is None)
        while True:
            with _reading(path):
                batch = next(batches, None)
                if batch is None:
                    return
                shaped = _shape(batch, target)
            yield shaped


def _project(schema: pa.Schema, columns: Sequence[str] | None) -> list[pa.Field]:
    if columns is None:
        return list(schema)
    known = {**{f.name: f for f in META_FIELDS}, **{f.name: f for f in schema}}
    for name in columns:
        if name not in known:
            raise SchemaError(f"column {name!r}: the table has no such column")
    return [known[name] for name in columns]


def _read_batches(
    file: pq.ParquetFile, wanted: list[str], batch_rows: int, remote: bool
) -> Iterator[pa.RecordBatch]:
    if not wanted:
        # Without columns pyarrow gives no rows at all; their number is still an answer.
        for i in range(file.metadata.num_row_groups):
            left = file.metadata.row_group(i).num_rows
            for start in range(0, left, batch_rows):
                rows = min(batch_rows, left - start)
                yield pa.RecordBatch.from_struct_array(
                    pa.StructArray.from_arrays([pa.nulls(rows)], names=[""])
                )
        return
    for window in _windows(file, wanted) if remote else [None]:
        yield from file.iter_batches(batch_rows, row_groups=window, columns=wanted)


def _windows(file: pq.ParquetFile, wanted: list[str]) -> Iterator[list[int]]:
    """Split the row groups into runs that hold about REMOTE_WINDOW_BYTES of `wanted`.

    The share of the columns is a guess: pyarrow has the true sizes, but on a corrupt
    footer `RowGroupMetaData.column` ends the process instead of raising.
    """
    metadata = file.metadata
    paths = [file.schema.column(i).path for i in range(metadata.num_columns)]
    share = sum(path.partition(".")[0] in wanted for path in paths) / max(1, len(paths))
    window: list[int] = []
    size = 0.0
    for i in range(metadata.num_row_groups):
        window.append(i)
        size += metadata.row_group(i).total_byte_size * share
        if size >= REMOTE_WINDOW_BYTES:
            yield window
            window, size = [], 0.0
    if window:
        yield window


def _shape(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    present = list(batch.schema)
    arrays = []
    for field in target:
        position = find_field(present, field.name)
        if position is None:
            array = pa.nulls(batch.num_rows, field.type)
        else:
            column = batch.column(position)
            array = conform_array(column, field, field.name, _readable, strict=False)
        check_nulls(array, field, field.name)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _readable(source: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether a file's type may be read as a column's: also Avro's enum, fixed and times."""
    if pa.types.is_fixed_size_binary(source) or pa.types.is_binary(source):
        return bool(target in (pa.string(), pa.binary()))
    if pa.types.is_integer(source) and target == pa.string():
        # Hudi shows the partition column of a timestamp key generator as text, and an
        # update by its SQL leaves that type in the table's schema.
        return True
    if pa.types.is_time(source):
        return bool(pa.types.is_time(target))
    if pa.types.is_timestamp(source) and pa.types.is_timestamp(target):
        # INT96 carries no zone; Spark too goes by the table's type here.
        return True
    return castable(source, target)
