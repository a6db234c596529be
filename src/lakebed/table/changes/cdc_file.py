"""Reads the change data that a writer stored beside a base file: a `.cdc` log, or a Parquet file.

The logging mode follows from the schema of the records, because the table's properties may have
changed since.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import CorruptError
from lakebed.format.logs.cdc import AFTER, BEFORE, KEY, OP, LoggingMode
from lakebed.format.logs.log_block import BlockType, CorruptSpan, HeaderKey
from lakebed.format.logs.log_scan import scan_blocks
from lakebed.format.names.data_names import NativeLogName, parse_data_name
from lakebed.storage.storage import Storage
from lakebed.table.files.needed_files import NamedFile
from lakebed.table.read.pages.paged_file import reading
from lakebed.table.read.parquet_source import READ_ROWS
from lakebed.table.read.projection import shape
from lakebed.table.read.run_reader import open_data
from lakebed.table.read.run_source import RunKind, RunSource


@dataclass(frozen=True, slots=True)
class CdcRecords:
    """A batch of change data records; a column that the logging mode does not store is None."""

    ops: pa.StringArray
    keys: pa.StringArray | None
    before: pa.StructArray | None
    after: pa.StructArray | None


@dataclass(frozen=True, slots=True)
class CdcFile:
    """One change data file: its logging mode and its parts, each of which is a run."""

    path: str
    mode: LoggingMode
    parts: tuple[RunSource, ...]

    def read(self, storage: Storage, row: pa.Schema, buffer_bytes: int) -> Iterator[CdcRecords]:
        """Yield the records; their rows have the columns `row`, null where not stored at the time."""
        for part in self.parts:
            with open_data(storage, part) as file:
                for batch in file.read(
                    self.mode.fields, buffer_bytes=buffer_bytes, max_rows=READ_ROWS
                ):
                    with reading(part.name):
                        yield _records(batch, row)


def open_cdc_file(storage: Storage, named: NamedFile) -> CdcFile:
    """Read the headers of a change data file; raise NotFoundError if it no longer exists."""
    path = named.path
    what = f"change data {path!r}"
    found = storage.head(path).size
    # A log that lost complete blocks at its end looks intact.
    if found < named.size_bytes:
        raise CorruptError(
            f"{what}: its commit wrote {named.size_bytes} bytes, found {found}; it was truncated"
        )
    name = parse_data_name(path.rpartition("/")[2])
    if name is None:
        raise CorruptError(f"{what}: a commit lists it, but its name is not that of change data")
    if isinstance(name, NativeLogName):
        parts = [RunSource(path, RunKind.DATA, name.instant, ordered=False)]
    else:
        parts = list(_blocks(storage, path, name.instant, what))
    modes = set()
    for part in parts:
        with open_data(storage, part) as file:
            modes.add(_mode(file.schema, what))
    if len(modes) > 1:
        raise CorruptError(f"{what}: expected one logging mode, found {', '.join(sorted(modes))}")
    # A file without blocks records no changes, so any mode will do.
    mode = modes.pop() if modes else LoggingMode.DATA_BEFORE_AFTER
    return CdcFile(path, mode, tuple(parts))


def _blocks(storage: Storage, path: str, instant: str, what: str) -> Iterator[RunSource]:
    with storage.open_read(path) as file:
        for place in scan_blocks(lambda at, length: file.read_at(length, at), file.size(), what):
            where = f"{what}, block at byte {place.offset}"
            if isinstance(place, CorruptSpan):
                raise CorruptError(
                    f"{where}: not a complete block ({place.reason}); changes are missing"
                )
            schema = place.headers.get(HeaderKey.SCHEMA)
            if place.type is not BlockType.CDC_DATA or schema is None:
                raise CorruptError(
                    f"{where}: expected a CDC block with a header SCHEMA, found {place.type.name}"
                )
            yield RunSource(
                path,
                RunKind.DATA,
                instant,
                ordered=False,
                offset=place.content_offset,
                length=place.content_length,
                avro_schema=schema,
            )


def _mode(schema: pa.Schema, what: str) -> LoggingMode:
    names = set(schema.names)
    for mode in reversed(LoggingMode):
        if names >= set(mode.fields):
            return mode
    raise CorruptError(f"{what}: columns {', '.join(schema.names)} match no logging mode")


def _records(batch: pa.RecordBatch, row: pa.Schema) -> CdcRecords:
    there = set(batch.schema.names)
    return CdcRecords(
        batch.column(OP),
        batch.column(KEY) if KEY in there else None,
        _image(batch.column(BEFORE), row) if BEFORE in there else None,
        _image(batch.column(AFTER), row) if AFTER in there else None,
    )


def _image(column: pa.StructArray, row: pa.Schema) -> pa.StructArray:
    """Convert logged rows to the table's current columns."""
    names = [field.name for field in column.type]
    flat = pa.RecordBatch.from_arrays(column.flatten(), names=names)
    fitted = shape(flat, row)
    return pa.StructArray.from_arrays(fitted.columns, fields=list(row), mask=column.is_null())
