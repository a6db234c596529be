"""Read the archived timeline: instants that were moved out of the active timeline.

    _version_                      the number of the current manifest, as a string
    manifest_<n>                   {"files": [{"fileName": ..., "fileLen": ...}, ...]}
    <min>_<max>_<level>.parquet    one row per instant: instantTime, completionTime, action
                                   (its completed name), metadata and plan (the bytes of the
                                   completed and requested file, or null), version (1)

Agrees with Hudi's LSMTimeline and ArchivedTimelineLoaderV2. Only files in the current manifest
belong to the archive; an archiver that crashed may leave others.
"""

import heapq
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakebed.errors import (
    CorruptError,
    FileNameError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from lakebed.format.files.parquet_pages import check_pages
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.timeline.timeline import COMMIT_ACTIONS

HISTORY_FOLDER: Final = ".hoodie/timeline/history"

VERSION_FILE: Final = "_version_"
_MANIFEST_NAME: Final = re.compile(r"manifest_([0-9]{1,9})")
_FILE_NAME: Final = re.compile(r"([0-9]{1,32})_([0-9]{1,32})_([0-9]{1,3})\.parquet")
_REQUESTED: Final = re.compile(r"[0-9]{1,32}")
_TIMES: Final = ("instantTime", "completionTime", "action")
_CONTENT: Final = ("metadata", "plan")
ROW_VERSION: Final = 1
"""The version of rows that are written, and the only version that can be read."""

_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class ArchivedInstant:
    """One archived instant; `metadata` and `plan` are None if absent or not read."""

    requested: Instant
    completion: Instant
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of archived instants in the range from `first` to `last`."""

    path: str
    first: Instant
    last: Instant
    level: int
    size_bytes: int

    @property
    def name(self) -> str:
        """Return the file's name in the archive folder."""
        return self.path.rpartition("/")[2]


def parse_file_name(path: str, size_bytes: int = 0) -> ArchivedFile | None:
    """Parse the name of a file of instants; return None for any other file."""
    match = _FILE_NAME.fullmatch(path.rpartition("/")[2])
    if match is None:
        return None
    return ArchivedFile(path, match[1], match[2], int(match[3]), size_bytes)


def read_archived(
    storage: Storage,
    folder: str = HISTORY_FOLDER,
    *,
    columns: Collection[str] = ("metadata",),
    since: Instant | None = None,
) -> Iterator[ArchivedInstant]:
    """Yield the archived instants requested at or after `since`, oldest first.

    `columns` may contain `metadata` and `plan`; without them, only a few bytes per instant are
    read. A file is opened when its first instant is due, and not at all if it ends before `since`.
    Yields nothing if there is no archive.
    """
    if unknown := set(columns) - set(_CONTENT):
        raise InvalidError(
            f"archived timeline columns: expected any of {list(_CONTENT)}, found {sorted(unknown)}"
        )
    files = [file for file in read_manifest(storage, folder) if since is None or file.last >= since]
    for instant in merge_rows(storage, files, columns):
        if since is None or instant.requested >= since:
            yield instant


def read_completions(
    storage: Storage, folder: str = HISTORY_FOLDER, *, since: Instant | None = None
) -> dict[Instant, Instant]:
    """Return the completion times of archived commits since `since`, by requested time.

    They determine to which file slice the logs of an archived commit belong.
    """
    rows = read_archived(storage, folder, columns=(), since=since)
    return {row.requested: row.completion for row in rows if row.action in COMMIT_ACTIONS}


def find_archived(
    storage: Storage, requested: Instant, action: str, folder: str = HISTORY_FOLDER
) -> ArchivedInstant | None:
    """Return one archived instant with its metadata, or None if it is not in the archive.

    The metadata is the content of its completed file. This is for callers that saw the instant on
    the active timeline just before it was archived.
    """
    for instant in read_archived(storage, folder, since=requested):
        if instant.requested > requested:
            break
        if instant.action == action:
            return instant
    return None


def merge_rows(
    storage: Storage, files: list[ArchivedFile], columns: Collection[str]
) -> Iterator[ArchivedInstant]:
    """Yield the instants of `files` without duplicates, oldest first."""
    previous: ArchivedInstant | None = None
    for instant in _merge_files(storage, files, [c for c in _CONTENT if c in columns]):
        # After a crash before the active files are deleted, they are archived again.
        if previous is not None and _is_repeated(previous, instant):
            continue
        previous = instant
        yield instant


def _is_repeated(one: ArchivedInstant, other: ArchivedInstant) -> bool:
    """Return whether two rows are of the same instant; raise CorruptError if they contradict."""
    if (one.requested, one.action) != (other.requested, other.action):
        return False
    if one.completion != other.completion:
        raise CorruptError(
            f"archived {one.action} {one.requested}: expected one completion time, "
            f"found {one.completion} and {other.completion}"
        )
    return True


def _merge_files(
    storage: Storage, files: list[ArchivedFile], content: list[str]
) -> Iterator[ArchivedInstant]:
    """Yield the rows of all files by requested time, with few files open at once."""
    waiting = sorted(files, key=lambda file: (file.first, file.path), reverse=True)
    heads: list[tuple[Instant, str, int, ArchivedInstant, Iterator[ArchivedInstant]]] = []
    opened = 0
    while waiting or heads:
        if waiting and (not heads or waiting[-1].first <= heads[0][0]):
            rows = _read_file(storage, waiting.pop(), content)
            opened += 1
            order = opened
        else:
            _, _, order, head, rows = heapq.heappop(heads)
            yield head
        if (row := next(rows, None)) is not None:
            heapq.heappush(heads, (row.requested, row.action, order, row, rows))


def read_manifest(storage: Storage, folder: str = HISTORY_FOLDER) -> list[ArchivedFile]:
    """Return the files of the current manifest, checked against a listing.

    Returns an empty list if there is no archive.
    """
    number = read_version(storage, folder)
    if number is None:
        return []
    path = manifest_path(folder, number)
    try:
        names = read_file_names(storage, folder, number)
    except NotFoundError as error:
        raise CorruptError(
            f"manifest {path}: the file that {VERSION_FILE} refers to is missing"
        ) from error
    # List after reading the manifest, so that the listing must contain its files.
    sizes = {entry.path.rpartition("/")[2]: entry.size for entry in storage.list_names(folder)[1]}
    files = []
    for name, size_bytes in names:
        file = parse_file_name(f"{folder}/{name}", size_bytes)
        if file is None or file.name != name:
            raise FileNameError(
                f"manifest {path}: expected <min>_<max>_<level>.parquet, found {name!r}"
            )
        if sizes.get(name) != size_bytes:
            found = f"{sizes[name]} bytes" if name in sizes else "no such file"
            raise CorruptError(
                f"archived {folder}/{name}: expected {size_bytes} bytes, found {found}"
            )
        files.append(file)
    return files


def read_version(storage: Storage, folder: str = HISTORY_FOLDER) -> int | None:
    """Return the number of the current manifest, or None if there is no archive."""
    path = f"{folder}/{VERSION_FILE}"
    try:
        text = storage.read_range(path, 0, 32)
    except NotFoundError:
        text = b""
    if text:
        if not re.fullmatch(rb"[0-9]{1,9}", text.strip()):
            raise CorruptError(
                f"archived {path}: expected the number of a manifest, found {text!r}"
            )
        return int(text)
    # Hudi deletes the file to replace it; in between, use the newest manifest.
    return max(list_manifests(storage, folder), default=None)


def list_manifests(storage: Storage, folder: str = HISTORY_FOLDER) -> list[int]:
    """Return the numbers of all existing manifests, in any order."""
    matches = map(_MANIFEST_NAME.fullmatch, storage.names(folder))
    return [int(match[1]) for match in matches if match]


def manifest_path(folder: str, number: int) -> str:
    """Return the path of manifest `number`."""
    return f"{folder}/manifest_{number}"


def read_file_names(storage: Storage, folder: str, number: int) -> list[tuple[str, int]]:
    """Return the name and length of each file in a manifest; the files may no longer exist."""
    path = manifest_path(folder, number)
    return _parse_manifest(path, storage.read(path))


def _parse_manifest(path: str, data: bytes) -> list[tuple[str, int]]:
    """Return the name and length of each file in a manifest."""
    try:
        manifest = json.loads(data)
        files = [(file["fileName"], file["fileLen"]) for file in manifest["files"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptError(
            f'manifest {path}: expected {{"files": [{{"fileName": ..., "fileLen": ...}}]}}, '
            f"found {data[:80]!r}"
        ) from error
    for name, size_bytes in files:
        if not isinstance(name, str) or not isinstance(size_bytes, int):
            raise CorruptError(
                f"manifest {path}: expected a name and a length, found {name!r} and {size_bytes!r}"
            )
    return files


def _read_file(
    storage: Storage, file: ArchivedFile, content: list[str]
) -> Iterator[ArchivedInstant]:
    """Yield the rows of one file in order of requested time."""
    try:
        with (
            storage.open_read(file.path) as source,
            pq.ParquetFile(source, pre_buffer=False) as parquet,
        ):
            _check_schema(file, parquet.schema_arrow, content)
            # On other storage, this would cost a request for each page.
            if storage.local_path(file.path) is not None:
                check_pages(
                    lambda at, length: source.read_at(length, at),
                    source.size(),
                    [*_TIMES, *content, "version"],
                    f"archived {file.path}",
                )
            found = 0
            for batch in _sorted_batches(parquet, [*_TIMES, *content, "version"]):
                found += batch.num_rows
                yield from _parse_rows(file, batch, content)
            _check_rows(file.path, found, parquet.metadata)
    # pyarrow raises any of these errors for damaged pages, footers and strings.
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptError(
            f"archived {file.path}: expected Parquet of Hudi, found {error}"
        ) from error
    except NotFoundError as error:
        raise CorruptError(
            f"archived {file.path}: the file is in the manifest, but missing"
        ) from error


def _check_rows(path: str, found: int, metadata: pq.FileMetaData) -> None:
    """Raise CorruptError if rows are missing, because pyarrow skips pages of unknown types."""
    if found != metadata.num_rows:
        raise CorruptError(
            f"archived {path}: expected {metadata.num_rows} rows as in the footer, found {found}: "
            "a page is damaged"
        )


def _check_schema(file: ArchivedFile, schema: pa.Schema, content: list[str]) -> None:
    """Raise an error if the columns are not those of a HoodieLSMTimelineInstant."""
    wanted = {
        **dict.fromkeys(_TIMES, pa.string()),
        **dict.fromkeys(content, pa.binary()),
        "version": pa.int32(),
    }
    for name, kind in wanted.items():
        found = schema.field(name).type if schema.get_field_index(name) >= 0 else "no such column"
        if found != kind:
            raise CorruptError(
                f"archived {file.path}: column {name}: expected {kind}, found {found}"
            )


def _sorted_batches(parquet: pq.ParquetFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield batches by requested time, as a stream if the file is sorted, as Hudi's files are."""
    requested = parquet.read(["instantTime"]).column(0)
    texts = cast("list[str]", requested.drop_null().to_pylist())
    if all(one <= other for one, other in pairwise(texts)):
        yield from parquet.iter_batches(_batch_rows(parquet.metadata), columns=columns)
    else:
        order = pc.sort_indices(requested)
        yield from parquet.read(columns).take(order).to_batches(_BATCH_ROWS)


def _batch_rows(metadata: pq.FileMetaData) -> int:
    """Return the number of rows per batch, so that large metadata does not exceed the limit."""
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    size_bytes = max(1, sum(int(group.total_byte_size) for group in groups))
    return max(1, min(_BATCH_ROWS, _BATCH_BYTES * int(metadata.num_rows) // size_bytes))


def _parse_rows(
    file: ArchivedFile, batch: pa.RecordBatch, content: list[str]
) -> Iterator[ArchivedInstant]:
    """Check the rows of a batch and yield them as instants."""
    values = batch.select([*_TIMES, "version", *content]).to_pydict()
    for requested, completion, action, version, *rest in zip(*values.values(), strict=True):
        if version != ROW_VERSION:
            raise UnsupportedError(
                f"archived {file.path}: expected rows of version {ROW_VERSION}, found {version}"
            )
        if not (requested and completion and action and _REQUESTED.fullmatch(requested)):
            raise CorruptError(
                f"archived {file.path}: expected instant, completion time and action, "
                f"found {requested!r}, {completion!r} and {action!r}"
            )
        # Files are skipped and merged by the range in their names.
        if not file.first <= requested <= file.last:
            raise CorruptError(
                f"archived {file.path}: expected instants in the range of its name, found {requested}"
            )
        yield ArchivedInstant(
            requested, completion, action, **dict(zip(content, rest, strict=True))
        )
