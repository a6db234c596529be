"""Choose the index of a table that another engine created without storing one.

By default, Hudi stores no index. Most of its indexes put new keys into base files, where our simple
index finds them, and find the keys that we add. The others (bucket, HBase, Flink's state) can be
recognized by the files; the caller must then name the index.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, KeyValueError, UnsupportedError
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.index.key_format import may_differ, odd_folder, odd_key, sample_keys, sampled_files
from lakebed.index.rings import HASHING_FOLDER
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.writer_index import SimpleIndex
from lakebed.table.files.file_group import BaseFile
from lakebed.table.snapshot import Snapshot

# A random file id may start with eight digits too (1 of 43), or even with a number this small (1 of
# 4,300), but hardly all ids of a table.
_FEW_BUCKETS = 1_000_000


def default_index(snapshot: Snapshot) -> SimpleIndex:
    """Return the simple index if all keys are in base files; otherwise raise an error."""
    if any(snapshot.storage.list_names(HASHING_FOLDER)):
        raise _ask(snapshot, f"has {HASHING_FOLDER}", 'index="consistent_hashing"')
    ids = [slice_.group.file_id for slice_ in snapshot.slices]
    if ids and all(map(_is_buckets, ids)):
        what = f"has file ids like a bucket's ({ids[0]})"
        raise _ask(snapshot, what, 'index="bucket", buckets=<number>')
    check_base_files(snapshot)
    check_spelling(snapshot)
    return SimpleIndex()


def _is_buckets(file_id: str) -> bool:
    bucket = bucket_of_file_id(file_id)
    return bucket is not None and bucket < _FEW_BUCKETS


def check_base_files(snapshot: Snapshot) -> None:
    """Raise an error if another index put new keys into logs, which a simple index ignores."""
    for slice_ in snapshot.slices:
        if slice_.base_file is None and not slice_.damage:
            raise InvalidError(
                f"table {snapshot.config.name!r}: file group {slice_.group.file_id!r} of partition "
                f"{slice_.group.partition!r} has logs only: its writer's index (HBase, Flink's "
                "state, buckets) puts new keys there, where a simple index does not look; compact "
                "the table with the engine that wrote it"
            )


def check_spelling(snapshot: Snapshot) -> None:
    """Raise an error for a table whose record keys or partitions we would format differently.

    Our rows would not replace those of the table, and keys would be duplicated. Checks some rows of
    the oldest and the newest base file.
    """
    for file in sampled_files(snapshot.slices, 2):
        _check_file(snapshot, file)


def check_doubtful_spelling(snapshot: Snapshot) -> None:
    """Raise an error for keys or folders in another format, in types that Hudi formats variously.

    This is for tables with a stored index, to which another writer may have added rows since.
    """
    config, schema = snapshot.config, snapshot.schema
    folder = None
    if may_differ(schema, config.partition_fields):
        there = {slice_.group.partition for slice_ in snapshot.slices}
        folder = odd_folder(config, schema, there)
    if folder is not None:
        raise UnsupportedError(
            f"table {config.name!r} has the partition {folder!r}, whose value Lakebed would "
            "format differently: another writer wrote it, and our rows would not replace its rows; "
            "use the engine that wrote it"
        )
    if may_differ(schema, config.record_key_fields):
        for file in sampled_files(snapshot.slices, 2):
            _check_keys(snapshot, file, sample_keys(snapshot.storage, config, schema, file))


def _check_file(snapshot: Snapshot, file: BaseFile) -> None:
    config = snapshot.config
    sample = sample_keys(
        snapshot.storage, config, snapshot.schema, file, more=config.partition_fields
    )
    rows = list(sample)
    # Without key fields, the writer generated the keys, and incoming rows contain them.
    if config.record_key_fields:
        _check_keys(snapshot, file, rows)
    for batch in rows:
        there = pa.repeat(pa.scalar(file.partition), batch.num_rows)
        try:
            ours = partition_column(batch, config)
        except KeyValueError as error:
            raise _unwritable(file, str(error)) from None
        odd = np.flatnonzero(pc.not_equal(there, ours).to_numpy(zero_copy_only=False))
        if odd.size:
            raise _odd(file, "partition", file.partition, ours[int(odd[0])].as_py())


def _check_keys(snapshot: Snapshot, file: BaseFile, sample: Iterable[pa.RecordBatch]) -> None:
    for batch in sample:
        odd = odd_key(batch, snapshot.config)
        if odd is not None and odd[0] is None:
            raise _unwritable(file, odd[1])
        if odd is not None:
            raise _odd(file, "record key", *odd)


def _unwritable(file: BaseFile, reason: str) -> UnsupportedError:
    return UnsupportedError(f"{file.path} holds a key that we would not write: {reason}")


def _odd(file: BaseFile, what: str, found: str | None, wanted: str) -> UnsupportedError:
    return UnsupportedError(
        f"{file.path} holds the {what} {found!r}, which Lakebed would write as {wanted!r}: another writer or "
        "setting wrote it, and our rows would not replace its rows; use the engine that wrote it"
    )


def _ask(snapshot: Snapshot, reason: str, how: str) -> InvalidError:
    return InvalidError(
        f"table {snapshot.config.name!r} does not say which index its writer uses, and {reason}; "
        f"name it at the first write: {how}, as arguments of upsert or insert, or as options "
        "(hoodie.index.type, hoodie.bucket.index.num.buckets) of format lakebed"
    )
