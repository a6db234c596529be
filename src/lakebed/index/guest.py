"""The index for a table that another engine made, and that does not say how its writer finds keys.

Hudi stores no index by default, and of those that it may have used all but a few (bucket, HBase,
Flink's state) put a new key into a base file. There our simple index finds it, and what we add is
found by theirs. The others show in the files, and then the caller has to name the index.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import InvalidError, KeyValueError, UnsupportedError
from lakebed.format.bucket import bucket_of_file_id
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.format.record_key import record_keys
from lakebed.index.bucket import HASHING_FOLDER
from lakebed.table.base_file import read_base_file
from lakebed.table.file_group import BaseFile
from lakebed.table.partitions import partition_column
from lakebed.table.snapshot import Snapshot
from lakebed.table.writer_index import SimpleIndex

# A random file id may begin with eight digits too (1 of 43), or even with a number this small (1 of
# 4,300); that all ids of a table do is no accident.
_FEW_BUCKETS = 1_000_000
_SAMPLE_ROWS = 256


def default_index(snapshot: Snapshot) -> SimpleIndex:
    """Give the simple index if keys are found in base files; else ask the caller to name one."""
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
    """Refuse a simple index where another put new keys into logs: it would not find them."""
    for slice_ in snapshot.slices:
        if slice_.base_file is None and not slice_.damage:
            raise InvalidError(
                f"table {snapshot.config.name!r}: file group {slice_.group.file_id!r} of partition "
                f"{slice_.group.partition!r} has logs only: its writer's index (HBase, Flink's "
                "state, buckets) puts new keys there, where a simple index does not look; compact "
                "the table with the engine that wrote it"
            )


def check_spelling(snapshot: Snapshot) -> None:
    """Refuse a table whose record keys or partitions we would spell in another way.

    Looks at the first rows of the oldest and the newest base file: our rows would not replace
    theirs, and a key would be there twice.
    """
    whole = (slice_ for slice_ in snapshot.slices if not slice_.damage)
    files = [slice_.base_file for slice_ in whole if slice_.base_file is not None]
    files.sort(key=lambda file: (file.name.instant, file.path))
    for file in files[:1] + files[1:][-1:]:
        _check_file(snapshot, file)


def _check_file(snapshot: Snapshot, file: BaseFile) -> None:
    config = snapshot.config
    columns = dict.fromkeys((RECORD_KEY, *config.record_key_fields, *config.partition_fields))
    rows = read_base_file(snapshot.storage, file.path, snapshot.schema, [*columns], _SAMPLE_ROWS)
    batch = next(rows, None)
    if batch is None:
        return
    fields = config.record_key_fields
    stored = batch.column(RECORD_KEY)
    there = pa.repeat(pa.scalar(file.partition), batch.num_rows)
    try:
        keys = {name: batch.column(name) for name in fields}
        # Without fields its writer made the keys, and rows that are to be found bring theirs.
        spelled = record_keys(keys, fields, config.composite_key) if fields else stored
        partitions = partition_column(batch, config)
    except KeyValueError as error:
        raise UnsupportedError(
            f"{file.path} holds a key that we would not write: {error}"
        ) from None
    _compare("record key", file.path, stored, spelled)
    _compare("partition", file.path, there, partitions)


def _compare(what: str, path: str, stored: pa.Array, ours: pa.Array) -> None:
    equal = pc.fill_null(pc.equal(stored, ours), False)
    odd = np.flatnonzero(~equal.to_numpy(zero_copy_only=False))
    if odd.size:
        found, wanted = stored[int(odd[0])].as_py(), ours[int(odd[0])].as_py()
        raise UnsupportedError(
            f"{path} holds the {what} {found!r}, which we would spell {wanted!r}: another writer or "
            "setting made it, and our rows would not replace its; write with the engine that did"
        )


def _ask(snapshot: Snapshot, reason: str, how: str) -> InvalidError:
    return InvalidError(
        f"table {snapshot.config.name!r} does not say which index its writer uses, and {reason}; "
        f"name it at the first write: {how}, as arguments of upsert or insert, or as options "
        "(hoodie.index.type, hoodie.bucket.index.num.buckets) of format lakebed"
    )
