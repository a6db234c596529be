"""Write the archived timeline: an LSM tree of Parquet files with a manifest.

    <min>_<max>_0.parquet       each archiving adds a file of level 0
    <min>_<max>_<n+1>.parquet   files of level n are merged into one of the next level
    manifest_<n>                the current files; a new manifest for each change
    _version_                   the number of the current manifest

`archived` reads the archive and documents the content of the files. Every change writes a new file,
then a new manifest, then `_version_`. A process that dies in between leaves files that are never
read, and that the next change replaces or deletes. Agrees with Hudi's LSMTimelineWriter. Callers
must hold the table's lock.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.timeline.archived import (
    HISTORY_FOLDER,
    ROW_VERSION,
    VERSION_FILE,
    ArchivedFile,
    ArchivedInstant,
    list_manifests,
    manifest_path,
    merge_rows,
    parse_file_name,
    read_file_names,
    read_manifest,
    read_version,
)

MERGE_FILES: Final = 10
"""Default of `hoodie.timeline.compaction.batch.size`, the number of files of a level to merge."""

KEPT_MANIFESTS: Final = 3
"""The number of manifests to keep, in addition to one for each merge in the same archiving run."""

_MAX_MERGED_BYTES: Final = 1000 << 20
_ROW_GROUP_ROWS: Final = 256
_ROW_GROUP_BYTES: Final = 16 << 20
_SCHEMA: Final = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)
_TEXT: Final = ["null", {"type": "string", "avro.java.string": "String"}]
_AVRO_SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "HoodieLSMTimelineInstant",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            *(
                {"name": name, "type": _TEXT, "default": None}
                for name in ("instantTime", "completionTime", "action")
            ),
            *(
                {"name": name, "type": ["null", "bytes"], "default": None}
                for name in ("metadata", "plan")
            ),
            {"name": "version", "type": "int", "default": 1},
        ],
    },
    separators=(",", ":"),
)


def append_archived(
    storage: Storage,
    first: Instant,
    last: Instant,
    rows: Iterable[ArchivedInstant],
    folder: str = HISTORY_FOLDER,
) -> str:
    """Add instants to the archive as one file; return its name.

    `rows` must be in order of requested time, from `first` to `last`; they are written as a stream.
    """
    name = f"{first}_{last}_0.parquet"
    held = read_manifest(storage, folder)
    if any(file.name == name for file in held):
        return name
    added = _write_file(storage, folder, name, rows)
    _publish(storage, folder, [*held, added])
    return name


def merge_levels(
    storage: Storage, folder: str = HISTORY_FOLDER, merge_files: int = MERGE_FILES
) -> int:
    """Merge the oldest `merge_files` files of each level that has that many.

    A level is considered only if the level below was merged. Returns the number of merges.
    """
    merged = 0
    while (chosen := _choose(read_manifest(storage, folder), merged, merge_files)) is not None:
        held, inputs = chosen
        first, last = min(file.first for file in inputs), max(file.last for file in inputs)
        name = f"{first}_{last}_{merged + 1}.parquet"
        if any(file.name == name for file in held):
            break  # the same instants were already merged
        rows = merge_rows(storage, inputs, ("metadata", "plan"))
        added = _write_file(storage, folder, name, rows)
        _publish(storage, folder, [*(file for file in held if file not in inputs), added])
        merged += 1
    return merged


def clean_archive(
    storage: Storage, folder: str = HISTORY_FOLDER, keep: int = KEPT_MANIFESTS
) -> int:
    """Delete all but the newest `keep` manifests, and files that the others do not list.

    A reader of an older manifest can read its files until the archive has changed a few times.
    Returns the number of objects deleted.
    """
    current = read_version(storage, folder)
    # Manifests newer than the current one were left by a writer that died, and will be replaced.
    numbers = sorted(
        (n for n in list_manifests(storage, folder) if n <= (current or 0)), reverse=True
    )
    if len(numbers) <= keep:
        return 0
    named = {name for n in numbers[:keep] for name, _ in read_file_names(storage, folder, n)}
    gone = [f"manifest_{number}" for number in numbers[keep:]]
    gone += [
        name
        for name in sorted(storage.names(folder))
        if parse_file_name(f"{folder}/{name}") is not None and name not in named
    ]
    # Delete manifests first, so that no manifest lists a deleted file.
    for name in gone:
        storage.delete(f"{folder}/{name}")
    return len(gone)


def _choose(
    held: list[ArchivedFile], level: int, merge_files: int
) -> tuple[list[ArchivedFile], list[ArchivedFile]] | None:
    """Return all files, and the oldest files of `level` to merge, within a size limit.

    Returns None if there is nothing to merge.
    """
    files = sorted((f for f in held if f.level == level), key=lambda file: (file.first, file.last))
    if len(files) < max(merge_files, 2):
        return None
    chosen: list[ArchivedFile] = []
    for file in files:
        chosen.append(file)
        if len(chosen) >= merge_files:
            break
        if sum(one.size_bytes for one in chosen) > _MAX_MERGED_BYTES:
            if len(chosen) > 1:
                break
            chosen = []  # too large to merge
    return (held, chosen) if len(chosen) > 1 else None


def _publish(storage: Storage, folder: str, files: Sequence[ArchivedFile]) -> None:
    """Make `files` the current files of the archive."""
    number = (read_version(storage, folder) or 0) + 1
    listed = [{"fileName": file.name, "fileLen": file.size_bytes} for file in files]
    storage.put(manifest_path(folder, number), json.dumps({"files": listed}, indent=2).encode())
    storage.put(f"{folder}/{VERSION_FILE}", str(number).encode())


def _write_file(
    storage: Storage, folder: str, name: str, rows: Iterable[ArchivedInstant]
) -> ArchivedFile:
    path = f"{folder}/{name}"
    with storage.open_write(path) as stream:
        with pq.ParquetWriter(stream, _SCHEMA, compression="gzip", store_schema=False) as writer:
            writer.add_key_value_metadata(
                {"writer.model.name": "avro", "parquet.avro.schema": _AVRO_SCHEMA}
            )
            for batch in _batches(rows):
                writer.write_batch(batch)
        size_bytes = stream.tell()
    found = parse_file_name(path, size_bytes)
    assert found is not None, "we made the name"
    return found


def _batches(rows: Iterable[ArchivedInstant]) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches of bounded size, one per row group."""
    held: list[dict[str, object]] = []
    size_bytes = 0
    for row in rows:
        values = (row.requested, row.completion, row.action, row.metadata, row.plan, ROW_VERSION)
        held.append(dict(zip(_SCHEMA.names, values, strict=True)))
        size_bytes += len(row.metadata or b"") + len(row.plan or b"")
        if len(held) >= _ROW_GROUP_ROWS or size_bytes >= _ROW_GROUP_BYTES:
            yield pa.RecordBatch.from_pylist(held, _SCHEMA)
            held, size_bytes = [], 0
    if held:
        yield pa.RecordBatch.from_pylist(held, _SCHEMA)
