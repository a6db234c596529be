"""The file index: the files that a commit lists, sorted by path, to be read by partition.

A commit that wrote thousands of files has megabytes of metadata, and a reader of one partition would
parse all of it. So such a commit (`lakebed.file.index.min.files`) gets a run:

    .hoodie/lakebed/files/<requested>_<completion>.parquet
        path          a file that the commit lists; or, for a replaced file group, its folder and id
        replaced      whether the row is a replaced file group
        supersedes    whether the file is the new base file of a file group that existed
        size_bytes, rows, change_data (the paths of its change data), min_key, max_key
        lakebed.commit    in the footer, with a checksum: the metadata of the commit without its
                          files, and the first and the last path of each row group

A completed instant never changes, and it determines the content of its run, so a run is never stale.
It is used only if its commit is on the timeline, and can always be rebuilt from that commit.
"""

import io
import json
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, TypeVar
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import CorruptError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.timeline.commit_metadata import (
    NO_PREVIOUS_COMMIT,
    CommitMetadata,
    WriteStat,
)
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import join_path
from lakebed.table.files.retention import rewrites
from lakebed.timeline.timeline import TimelineInstant

FILES_FOLDER: Final = ".hoodie/lakebed/files"
ROW_GROUP_ROWS: Final = 2048
"""Rows of a row group: the fewest files that are read at once from a file sorted by path."""

_FEW_PARTITIONS: Final = 32
# Of a run, row groups with up to 65,536 files are kept in memory.
_HELD_GROUPS: Final = 32
_CHECKSUM: Final = b"lakebed.commit.crc32"
_COMMIT: Final = b"lakebed.commit"
_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("replaced", pa.bool_(), nullable=False),
        pa.field("supersedes", pa.bool_(), nullable=False),
        ("size_bytes", pa.int64()),
        ("rows", pa.int64()),
        ("change_data", pa.list_(pa.string())),
        ("min_key", pa.string()),
        ("max_key", pa.string()),
    ]
)

KEY_RANGES: Final = pa.schema([(name, pa.string()) for name in ("path", "min_key", "max_key")])
"""Files with their smallest and greatest record keys; null if these are unknown."""

_DAMAGE: Final = (pa.ArrowException, LookupError, OSError, TypeError, ValueError)

T = TypeVar("T")


def run_path(instant: TimelineInstant) -> str:
    """Return the path of the run of a completed commit."""
    return f"{FILES_FOLDER}/{instant.requested}_{instant.completion}.parquet"


def folder_of(path: str) -> str:
    """Return the partition of a file."""
    return path.rpartition("/")[0]


def folders_of(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the partitions of files."""
    return pc.replace_substring_regex(paths, r"/?[^/]*$", "", max_replacements=1)


def count_files(metadata: CommitMetadata) -> int:
    """Return how many files a commit lists; a file group that it replaces counts as one."""
    replaced = metadata.partition_to_replace_file_ids or {}
    written = metadata.partition_to_write_stats
    return sum(map(len, written.values())) + sum(map(len, replaced.values()))


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The files of a commit by partition; `head` is its metadata without them."""

    head: CommitMetadata
    stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def within(self, partitions: Set[str] | None) -> CommitMetadata:
        """Return the metadata of the commit as if it had touched only `partitions`; None means all."""
        replaced: Mapping[str, tuple[str, ...]] | None = None
        if self.head.partition_to_replace_file_ids is not None:
            replaced = _only(self.replaced, partitions)
        return replace(
            self.head,
            partition_to_write_stats=_only(self.stats, partitions),
            partition_to_replace_file_ids=replaced,
        )

    def plus(self, more: "CommitFiles") -> "CommitFiles":
        """Return these files together with those of other partitions of the same commit."""
        return CommitFiles(
            self.head, {**self.stats, **more.stats}, {**self.replaced, **more.replaced}
        )


def _only(of: Mapping[str, T], partitions: Set[str] | None) -> Mapping[str, T]:
    if partitions is None:
        return of
    return {partition: of[partition] for partition in sorted(partitions) if partition in of}


def key_ranges_of(metadata: CommitMetadata) -> pa.Table:
    """Return the files that a commit lists as a table of KEY_RANGES, with unknown ranges."""
    paths = [stat.path.lstrip("/") for stat in metadata.write_stats() if stat.path]
    unknown = pa.nulls(len(paths), pa.string())
    return pa.table([pa.array(paths, pa.string()), unknown, unknown], schema=KEY_RANGES)


def commit_files(metadata: CommitMetadata) -> CommitFiles:
    """Return the files of a commit by partition."""
    stats: dict[str, list[WriteStat]] = {}
    for stat in metadata.write_stats():
        stats.setdefault(folder_of((stat.path or "").lstrip("/")), []).append(stat)
    return CommitFiles(
        _head(metadata),
        {partition: tuple(of) for partition, of in stats.items()},
        metadata.partition_to_replace_file_ids or {},
    )


def _head(metadata: CommitMetadata) -> CommitMetadata:
    ends = metadata.partition_to_replace_file_ids is not None
    return replace(
        metadata,
        partition_to_write_stats={},
        partition_to_replace_file_ids={} if ends else None,
    )


def write_run(storage: Storage, instant: TimelineInstant, metadata: CommitMetadata) -> None:
    """Write the run of a completed commit; the caller holds the table's lock."""
    rows = sorted(_rows(metadata), key=_path)
    table = pa.Table.from_pylist(rows, _SCHEMA)
    head = _encode_head(metadata, [str(row["path"]) for row in rows])
    marks = {_COMMIT: head, _CHECKSUM: str(crc32(head)).encode()}
    out = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(marks),
        out,
        row_group_size=ROW_GROUP_ROWS,
        compression="zstd",
        write_page_checksum=True,
    )
    storage.put(run_path(instant), out.getvalue())


def _path(row: Mapping[str, object]) -> bytes:
    return str(row["path"]).encode()


def _rows(metadata: CommitMetadata) -> Iterator[dict[str, object]]:
    for stat in metadata.write_stats():
        path = (stat.path or "").lstrip("/")
        low, high = stat.key_range or (None, None)
        yield {
            "path": path,
            "replaced": False,
            "supersedes": _supersedes(stat, metadata),
            "size_bytes": stat.file_size_in_bytes,
            "rows": stat.num_writes,
            "change_data": None if stat.cdc_stats is None else list(stat.cdc_stats),
            "min_key": low,
            "max_key": high,
        }
    for partition, ids in (metadata.partition_to_replace_file_ids or {}).items():
        for file_id in ids:
            yield {
                "path": join_path(partition, file_id),
                "replaced": True,
                "supersedes": True,
            }


def superseding(metadata: CommitMetadata) -> frozenset[str]:
    """Return the partitions in which a commit superseded older files."""
    stats = (stat for stat in metadata.write_stats() if _supersedes(stat, metadata))
    ended = metadata.partition_to_replace_file_ids or {}
    return frozenset([*(folder_of((stat.path or "").lstrip("/")) for stat in stats), *ended])


def _supersedes(stat: WriteStat, metadata: CommitMetadata) -> bool:
    name = parse_data_name((stat.path or "").rpartition("/")[2])
    if not isinstance(name, BaseFileName):
        return False
    # A compaction may write the first base file of a group, without a previous commit.
    return rewrites(metadata) or stat.prev_commit not in (None, NO_PREVIOUS_COMMIT)


def _encode_head(metadata: CommitMetadata, paths: list[str]) -> bytes:
    starts = range(0, len(paths), ROW_GROUP_ROWS)
    head = {
        "rows": len(paths),
        "bounds": [(paths[at], paths[at : at + ROW_GROUP_ROWS][-1]) for at in starts],
        "compacted": metadata.compacted,
        "extra_metadata": dict(metadata.extra_metadata),
        "operation_type": metadata.operation_type,
        "replaces": metadata.partition_to_replace_file_ids is not None,
        "version": metadata.version,
    }
    return json.dumps(head).encode()


@dataclass(frozen=True, slots=True)
class _Head:
    """Our entry in the footer of a run: what each row group lists, and the rest of the commit."""

    metadata: CommitMetadata
    rows: int
    bounds: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, file: pq.ParquetFile) -> "_Head":
        if file.schema_arrow.names != _SCHEMA.names:
            raise ValueError(f"columns {_SCHEMA.names}, found {file.schema_arrow.names}")
        marks = file.schema_arrow.metadata or {}
        if int(marks[_CHECKSUM]) != crc32(marks[_COMMIT]):
            raise ValueError("the checksum of its footer does not match")
        values = json.loads(marks[_COMMIT])
        found = cls(
            _decode_head(values),
            values["rows"],
            tuple((low, high) for low, high in values["bounds"]),
        )
        if found.bounds and file.metadata.num_row_groups != len(found.bounds):
            raise ValueError(
                f"{len(found.bounds)} row groups, found {file.metadata.num_row_groups}"
            )
        return found

    def groups(self, partitions: Set[str] | None) -> list[int]:
        """Return the row groups that may list files of `partitions`."""
        return [n for n, (low, high) in enumerate(self.bounds) if _may_list(low, high, partitions)]

    def check(self, group: int, rows: pa.Table) -> None:
        """Raise ValueError if these are not the rows of a row group."""
        expected = min(ROW_GROUP_ROWS, self.rows - group * ROW_GROUP_ROWS)
        if rows.num_rows != expected:
            raise ValueError(f"{expected} rows in row group {group}, found {rows.num_rows}")
        paths = rows.column("path")
        if (paths[0].as_py(), paths[-1].as_py()) != self.bounds[group]:
            raise ValueError(f"paths from {self.bounds[group][0]} on, found {paths[0]}")


@dataclass(slots=True)
class HeldRows:
    """Row groups of a run that were read last, kept in memory.

    A row group lists a thousand partitions and more; without it, each of them would decode it again.
    """

    head: _Head | None = None
    groups: dict[int, pa.Table] = field(default_factory=dict)

    def keep(self, head: _Head, groups: Mapping[int, pa.Table]) -> None:
        """Add row groups; beyond a limit, forget older ones."""
        self.head = head
        if len(groups) <= _HELD_GROUPS:
            # A new dict, so that another thread's search is not disturbed.
            self.groups = dict([*self.groups.items(), *groups.items()][-_HELD_GROUPS:])


@dataclass(frozen=True, slots=True)
class FileRun:
    """The file index run of one commit."""

    storage: Storage
    path: str

    def read(self, partitions: Set[str] | None, held: HeldRows | None = None) -> CommitFiles:
        """Read the files of `partitions`, from row groups that may list them; None means all.

        Row groups that are `held` are not read again, and others are added. Raises CorruptError if
        the run is damaged, and NotFoundError if it does not exist.
        """
        table, head = self._table(_SCHEMA.names, partitions, held)
        stats: dict[str, list[WriteStat]] = {}
        replaced: dict[str, list[str]] = {}
        for row in table.to_pylist():
            partition, _, name = row["path"].rpartition("/")
            if row["replaced"]:
                replaced.setdefault(partition, []).append(name)
                continue
            changes = row["change_data"]
            stat = WriteStat(
                path=row["path"],
                partition_path=partition,
                file_size_in_bytes=row["size_bytes"],
                num_writes=row["rows"],
                cdc_stats=None if changes is None else dict.fromkeys(changes, 0),
                key_range=None if row["max_key"] is None else (row["min_key"], row["max_key"]),
            )
            stats.setdefault(partition, []).append(stat)
        return CommitFiles(
            head,
            {partition: tuple(of) for partition, of in stats.items()},
            {partition: tuple(of) for partition, of in replaced.items()},
        )

    def superseding(self) -> frozenset[str]:
        """Return the partitions in which the commit superseded older files."""
        table, _ = self._table(["path", "supersedes"], None)
        paths = table.column("path").filter(table.column("supersedes"))
        return frozenset(map(folder_of, paths.to_pylist()))

    def key_ranges(self) -> pa.Table:
        """Return the files of the commit with the columns of KEY_RANGES."""
        table, _ = self._table([*KEY_RANGES.names, "replaced"], None)
        found = table.filter(pc.invert(table.column("replaced"))).select(KEY_RANGES.names)
        return found.cast(KEY_RANGES)

    def _table(
        self, columns: list[str], partitions: Set[str] | None, held: HeldRows | None = None
    ) -> tuple[pa.Table, CommitMetadata]:
        known = {} if held is None else held.groups
        if held is not None and (head := held.head) is not None:
            wanted = head.groups(partitions)
            if known.keys() >= {*wanted}:
                return _join([known[n] for n in wanted], columns, partitions), head.metadata
        with self.storage.open_read(self.path) as source:
            try:
                file = pq.ParquetFile(source, page_checksum_verification=True)
                head = _Head.parse(file)
                wanted = head.groups(partitions)
                read = _read_groups(file, head, columns, [n for n in wanted if n not in known])
            except _DAMAGE as error:
                raise CorruptError(
                    f"{self.path}: expected a run of the file index: {error}"
                ) from error
        if held is not None:
            held.keep(head, read)
        found = {**known, **read}
        return _join([found[n] for n in wanted], columns, partitions), head.metadata


def _read_groups(
    file: pq.ParquetFile, head: _Head, columns: list[str], groups: list[int]
) -> dict[int, pa.Table]:
    """Return row groups of a run.

    A Parquet footer has no checksum. So the row groups to read, and the rows expected in them, are
    taken from our own entry in the footer, which has a checksum.
    """
    found = {}
    schema = pa.schema([_SCHEMA.field(name) for name in columns])
    for number in groups:
        # A thread would take longer to start than to read.
        rows = file.read_row_group(number, columns=columns, use_threads=False)
        found[number] = rows.select(columns).cast(schema)
        head.check(number, rows)
    return found


def _join(groups: list[pa.Table], columns: list[str], partitions: Set[str] | None) -> pa.Table:
    empty = _SCHEMA.empty_table().select(columns)
    return pa.concat_tables([empty, *(_within(rows, partitions) for rows in groups)])


def read_partitions(
    file: pq.ParquetFile, partitions: Set[str] | None, columns: list[str]
) -> pa.Table:
    """Return the rows of a file sorted by `path` that are directly in one of `partitions`.

    Raises ValueError if a row group lacks rows: pyarrow skips pages of an unknown type.
    """
    metadata = file.metadata
    if file.schema_arrow.names[:1] != ["path"] or file.schema_arrow.types[0] != pa.string():
        raise ValueError(f"expected the column path first, found {file.schema_arrow.names}")
    groups = [
        number
        for number in range(metadata.num_row_groups)
        if (found := metadata.row_group(number).column(0).statistics) is None
        or not found.has_min_max
        or _may_list(found.min, found.max, partitions)
    ]
    # A thread would take longer to start than to read.
    table = file.read_row_groups(groups, columns=columns, use_threads=False)
    expected = sum(metadata.row_group(number).num_rows for number in groups)
    if table.num_rows != expected:
        raise ValueError(f"{expected} rows in its footer, found {table.num_rows}")
    return _within(table, partitions)


def _within(table: pa.Table, partitions: Set[str] | None) -> pa.Table:
    """Return the rows whose `path` is directly in one of `partitions`; None means all."""
    if partitions is None:
        return table
    paths = table.column("path")
    if len(partitions) <= _FEW_PARTITIONS and "" not in partitions:
        # Comparing prefixes is much faster; files in deeper folders are filtered out below.
        below = [pc.starts_with(paths, f"{partition}/") for partition in partitions]
        table = table.filter(reduce(pc.or_, below)) if below else table.slice(0, 0)
        paths = table.column("path")
    return table.filter(pc.is_in(folders_of(paths), pa.array(sorted(partitions), pa.string())))


def _may_list(low: str, high: str, partitions: Set[str] | None) -> bool:
    """Return whether one of `partitions` may have files between two paths."""
    if partitions is None or "" in partitions:
        return True
    # In the order of bytes, `0` comes right after `/`.
    return any(
        f"{partition}/".encode() <= high.encode() and low.encode() < f"{partition}0".encode()
        for partition in partitions
    )


def _decode_head(values: Mapping[str, Any]) -> CommitMetadata:
    return CommitMetadata(
        compacted=values["compacted"],
        extra_metadata=values["extra_metadata"],
        operation_type=values["operation_type"],
        partition_to_replace_file_ids={} if values["replaces"] else None,
        version=values["version"],
    )
