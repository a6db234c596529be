"""The column statistics of the file index: bounds and null counts of each file of a large commit.

A commit with a run in the file index has a second run with the statistics of its base files:

    .hoodie/lakebed/statistics/<requested>_<completion>.parquet
        path        a base file that the commit lists
        schema      which of the schemas in the footer the file has
        c0, c1, …   for each column of `lakebed.statistics`: its physical type, number of values,
                    number of nulls, bounds as in a footer (strings shortened), and whether NaN is
                    possible; null for a file that has none
        lakebed.statistics    in the footer: the names of the columns, and the schemas

The Parquet file is followed by the CRC-32 of its footer as four bytes; pages have checksums of their
own. So a query reads only the columns that it tests, and damage never skips a file.

Files never change, so a run stays valid as long as any of its files exists, also after its commit
was archived. It is found by the completion time of the commit, since a compaction that was rolled
back may run again under the same instant.
"""

import base64
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError
from lakebed.format.files.parquet_statistics import ChunkStatistics, FileStatistics, Physical
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage

STATISTICS_FOLDER: Final = ".hoodie/lakebed/statistics"
_ROW_GROUP_ROWS: Final = 16_384
_CHECKSUM_BYTES: Final = 4
_TAIL_BYTES: Final = 64 << 10
_END_BYTES: Final = 8
_MARK: Final = b"lakebed.statistics"
_COLUMN: Final = pa.struct(
    [
        ("physical", pa.int8()),
        ("values", pa.int64()),
        ("nulls", pa.int64()),
        ("lower", pa.binary()),
        ("upper", pa.binary()),
        ("nan", pa.bool_()),
    ]
)
_DAMAGE: Final = (pa.ArrowException, LookupError, OSError, TypeError, ValueError)


def statistics_path(requested: Instant, completion: Instant) -> str:
    """Return the path of the statistics of a completed commit."""
    return f"{STATISTICS_FOLDER}/{requested}_{completion}.parquet"


def write_statistics(storage: Storage, run: str, metadata: CommitMetadata) -> bool:
    """Write the statistics of a commit's files; return False, and write nothing, if it has none."""
    found = {
        stat.path.lstrip("/"): stat.statistics
        for stat in metadata.write_stats()
        if stat.path and stat.statistics is not None
    }
    if not found:
        return False
    paths = sorted(found, key=str.encode)
    files = [found[path] for path in paths]
    schemas = list(dict.fromkeys(file.schema for file in files))
    names = list(dict.fromkeys(name for file in files for name in file.columns))
    number_of = {schema: number for number, schema in enumerate(schemas)}
    columns: dict[str, pa.Array] = {
        "path": pa.array(paths, pa.string()),
        "schema": pa.array([number_of[file.schema] for file in files], pa.int32()),
    }
    for number, name in enumerate(names):
        columns[f"c{number}"] = _encode([file.columns.get(name) for file in files])
    told = {"columns": names, "schemas": [base64.b64encode(one).decode() for one in schemas]}
    table = pa.table(columns).replace_schema_metadata({_MARK: json.dumps(told)})
    out = io.BytesIO()
    pq.write_table(
        table,
        out,
        row_group_size=_ROW_GROUP_ROWS,
        compression="zstd",
        write_page_checksum=True,
        write_statistics=False,
    )
    data = out.getvalue()
    storage.put(run, data + _checksum(data[-_footer_bytes(data) :]))
    return True


def _encode(chunks: Sequence[ChunkStatistics | None]) -> pa.Array:
    held = [chunk for chunk in chunks if chunk is not None]
    values: Sequence[Sequence[Any]] = (
        [int(chunk.physical) for chunk in held],
        [chunk.num_values for chunk in held],
        [chunk.null_count for chunk in held],
        [chunk.lower for chunk in held],
        [chunk.upper for chunk in held],
        [chunk.may_be_nan for chunk in held],
    )
    arrays = [pa.array(of, field.type) for of, field in zip(values, _COLUMN, strict=True)]
    dense = pa.StructArray.from_arrays(arrays, fields=list(_COLUMN))
    places = iter(range(len(held)))
    return dense.take(
        pa.array([None if chunk is None else next(places) for chunk in chunks], pa.int64())
    )


def _checksum(footer: bytes) -> bytes:
    return crc32(footer).to_bytes(_CHECKSUM_BYTES, "big")


def _footer_bytes(data: bytes) -> int:
    """Return the length of the footer at the end of a Parquet file, with its length and magic."""
    return int.from_bytes(data[-_END_BYTES:][:4], "little") + _END_BYTES


@dataclass(frozen=True, slots=True)
class StatisticsRun:
    """The statistics of the files of one commit."""

    storage: Storage
    path: str

    def read(self, columns: Sequence[str] | None) -> Mapping[str, FileStatistics]:
        """Return the statistics of `columns` by file; None means all columns.

        Raises CorruptError if the run is damaged, and NotFoundError if it does not exist.
        """
        try:
            with self.storage.open_read(self.path) as source:
                return dict(_read(source, columns))
        except _DAMAGE as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise CorruptError(f"{self.path}: expected column statistics: {error}") from error


def _read(
    source: pa.NativeFile, columns: Sequence[str] | None
) -> Iterator[tuple[str, FileStatistics]]:
    metadata = pq.read_metadata(pa.BufferReader(_checked_footer(source)))
    file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
    told = json.loads(metadata.metadata[_MARK])
    schemas = [base64.b64decode(text, validate=True) for text in told["schemas"]]
    wanted = {name.lower() for name in (told["columns"] if columns is None else columns)}
    names = {
        f"c{number}": name for number, name in enumerate(told["columns"]) if name.lower() in wanted
    }
    table = file.read(["path", "schema", *names], use_threads=False)
    if table.num_rows != metadata.num_rows:
        raise ValueError(f"{metadata.num_rows} files, found {table.num_rows}")
    decoded = [(names[n], _decode(table.column(n))) for n in table.column_names if n in names]
    paths, numbers = table.column("path").to_pylist(), table.column("schema").to_pylist()
    for at, (path, number) in enumerate(zip(paths, numbers, strict=True)):
        held = {name: chunk for name, of in decoded if (chunk := of[at]) is not None}
        yield path, FileStatistics(schemas[number], held)


def _checked_footer(source: pa.NativeFile) -> bytes:
    """Return the footer of a run, after comparing it with its checksum."""
    size = source.size()
    start = max(0, size - _TAIL_BYTES)
    tail: bytes = source.read_at(size - start, start)
    data, checksum = tail[:-_CHECKSUM_BYTES], tail[-_CHECKSUM_BYTES:]
    length = _footer_bytes(data)
    if length > size - _CHECKSUM_BYTES:
        raise ValueError(f"a footer of {length} bytes in {size}")
    if length > len(data):
        start = size - _CHECKSUM_BYTES - length
        data = source.read_at(length, start)
    footer = data[-length:]
    if _checksum(footer) != checksum:
        raise ValueError("the checksum of its footer does not match")
    return footer


def _decode(column: pa.ChunkedArray) -> list[ChunkStatistics | None]:
    whole = column.combine_chunks()
    lists = [child.to_pylist() for child in whole.flatten()]
    kinds = {int(kind): kind for kind in Physical}
    return [
        None if physical is None else ChunkStatistics(kinds[physical], *rest)
        for physical, *rest in zip(*lists, strict=True)
    ]
