"""The files of archived commits that the newest slices need, recorded where a reader finds them.

A commit on the active timeline lists its files, so a lost file is noticed. Once the commit is
archived, only a listing shows which files exist, and the archive is too long to be read at every
open. So archiving records the files that the archived commits leave behind:

    .hoodie/lakebed/archived_files.parquet
        path, size_bytes, rows, instant, completion    a row for each file, by path
        min_key, max_key            its smallest and greatest record key, if known
        lakebed.archived.through    the newest instant in the archive
        lakebed.archived.next       the oldest commit that stayed on the active timeline
        lakebed.archived.complete   whether it lists all files that the newest slices need

The Parquet file is followed by its CRC-32 as four bytes: a footer has no checksum of its own, and
pyarrow can crash on a damaged one. A record without it, from an older release, is not used.

For a read of slices this record can only add an error, and only if nothing else explains why a file
is missing: a newer base file, a replacecommit, a clean, a rollback or a restore. A complete record
also shows in which partitions a key may be. Other engines archive without writing it; the record is
then stale and not used, and the next archiving by Lakebed starts a new one.
"""

import io
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.errors import CorruptError, NotFoundError
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.table.files.file_index import KEY_RANGES, ROW_GROUP_ROWS, read_partitions
from lakebed.table.files.needed_files import NamedFile
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import Timeline

ARCHIVED_FILES_PATH: Final = ".hoodie/lakebed/archived_files.parquet"
_THROUGH: Final = b"lakebed.archived.through"
_NEXT: Final = b"lakebed.archived.next"
_COMPLETE: Final = b"lakebed.archived.complete"
_CHECKSUM_BYTES: Final = 4
_SCHEMA: Final = pa.schema(
    [
        ("path", pa.string()),
        ("size_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("instant", pa.string()),
        ("completion", pa.string()),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Archived:
    """The state of the archive when the instants up to `through` were archived.

    If the record is not `complete`, the newest slices may need other files too.
    """

    through: Instant
    next_commit: Instant
    complete: bool

    def fits(self, timeline: Timeline) -> bool:
        """Return whether the timeline suggests that nothing has been archived since."""
        return any(instant.requested == self.next_commit for instant in timeline.instants)

    def is_current(self, storage: Storage, timeline: Timeline, history: str) -> bool:
        """Return whether nothing has been archived since, according to the archive itself.

        Newer instants in the archive are ignored if they are still on the active timeline.
        """
        active = {instant.requested for instant in timeline.instants}
        rows = read_archived(storage, history, columns=(), since=self.through)
        return all(row.requested == self.through or row.requested in active for row in rows)


@dataclass(frozen=True, slots=True)
class ArchivedFiles(Archived):
    """The files that archived commits left behind."""

    files: tuple[NamedFile, ...]


@dataclass(frozen=True, slots=True)
class ArchivedRanges(Archived):
    """The files that archived commits left behind, as a table with the columns of KEY_RANGES."""

    ranges: pa.Table


def read_archived_files(storage: Storage) -> ArchivedFiles | None:
    """Read the record of the last archiving; return None if there is none.

    Raises CorruptError if the file is damaged.
    """
    data = read_record(storage)
    return None if data is None else parse_archived_files(data)


def read_record(storage: Storage) -> bytes | None:
    """Read the Parquet file of the last archiving; return None if there is none.

    Raises CorruptError if its checksum does not match.
    """
    try:
        data = storage.read(ARCHIVED_FILES_PATH)
    except NotFoundError:
        return None
    content, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    if _checksum(content) != checksum:
        raise CorruptError(
            f"{ARCHIVED_FILES_PATH}: the checksum does not match; the file is damaged"
        )
    return content


def _checksum(content: bytes) -> bytes:
    return crc32(content).to_bytes(_CHECKSUM_BYTES, "big")


def parse_archived_files(data: bytes, partitions: Set[str] | None = None) -> ArchivedFiles:
    """Parse the files of `partitions` in a record; None means all partitions.

    Raises CorruptError if it is not a record.
    """
    found, table = _parse(data, partitions, _SCHEMA.names)
    files = tuple(
        NamedFile(
            path or "",
            size or 0,
            instant or "",
            completion or "",
            rows,
            None if low is None or high is None else (low, high),
        )
        for path, size, rows, instant, completion, low, high in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        )
    )
    return ArchivedFiles(found.through, found.next_commit, found.complete, files)


def parse_archived_ranges(data: bytes) -> ArchivedRanges:
    """Parse the files in a record with their key ranges; raise CorruptError if it is not one."""
    found, table = _parse(data, None, KEY_RANGES.names)
    return ArchivedRanges(found.through, found.next_commit, found.complete, table)


def parse_archived_commits(data: bytes) -> Mapping[str, str]:
    """Parse the commits in a record: completion times by requested instant.

    Raises CorruptError if it is not a record.
    """
    _, table = _parse(data, None, ["path", "instant", "completion"])
    told = table.select(["instant", "completion"]).drop_null()
    pairs = told.group_by(told.column_names, use_threads=False).aggregate([])
    return dict(zip(*(column.to_pylist() for column in pairs.columns), strict=True))


def _parse(
    data: bytes, partitions: Set[str] | None, columns: list[str]
) -> tuple[Archived, pa.Table]:
    try:
        file = pq.ParquetFile(io.BytesIO(data), page_checksum_verification=True)
        table = read_partitions(file, partitions, columns)
        table = table.cast(pa.schema([_SCHEMA.field(name) for name in columns]))
        marks = file.schema_arrow.metadata or {}
        complete = marks[_COMPLETE] == b"true"
        return Archived(marks[_THROUGH].decode(), marks[_NEXT].decode(), complete), table
    except (pa.ArrowException, KeyError, OSError, ValueError) as error:
        raise CorruptError(
            f"{ARCHIVED_FILES_PATH}: not a record of archived files: {error}"
        ) from error


def write_archived_files(storage: Storage, found: ArchivedFiles) -> None:
    """Record the files that archived commits leave behind; the caller holds the table's lock."""
    files = sorted(found.files, key=lambda file: file.path.encode())
    values: Mapping[str, Iterable[object]] = {
        "path": [file.path for file in files],
        "size_bytes": [file.size_bytes for file in files],
        "rows": [file.rows for file in files],
        "instant": [file.instant for file in files],
        "completion": [file.completion for file in files],
        "min_key": [file.key_range[0] if file.key_range else None for file in files],
        "max_key": [file.key_range[1] if file.key_range else None for file in files],
    }
    marks = {_THROUGH: found.through.encode(), _NEXT: found.next_commit.encode()}
    marks[_COMPLETE] = b"true" if found.complete else b"false"
    table = pa.Table.from_pydict(dict(values), schema=_SCHEMA.with_metadata(marks))
    out = io.BytesIO()
    pq.write_table(
        table, out, row_group_size=ROW_GROUP_ROWS, compression="zstd", write_page_checksum=True
    )
    content = out.getvalue()
    storage.put(ARCHIVED_FILES_PATH, content + _checksum(content))
