"""The five meta columns, which are the first columns of every Hudi file.

    _hoodie_commit_time     requested instant of the write that created this version of the row
    _hoodie_commit_seqno    `<instant>_<task>_<n>`, unique in the table
    _hoodie_record_key      the record key as a string
    _hoodie_partition_path  the partition's path on storage, empty without partitions
    _hoodie_file_name       the base file's name (in a log: the bare file id)

All are optional strings, in this order (Hudi: `HoodieRecord.HOODIE_META_COLUMNS`).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"

META_PREFIX = "_hoodie_"
# Columns that control a write or a merge while it runs. Only base files with the columns of all
# column groups store some: what the files of single groups have under the same name.
OUR_PREFIX = "_lakebed_"
IS_DELETED = "_hoodie_is_deleted"

META_COLUMNS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
# Rewritten rows keep these: rewriting does not change when a row was written.
STAMPS = (COMMIT_TIME, COMMIT_SEQNO)
META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)


def constant(value: str, rows: int) -> pa.DictionaryArray:
    """Return a column of `rows` times `value` that stores the string once.

    Parquet's writer encodes such a column several times faster than plain strings.
    """
    indices = pa.array(np.zeros(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], pa.string()))


def seqnos(instant: str, task: int, start: int, rows: int) -> pa.StringArray:
    """Return `<instant>_<task>_<n>` for each row, with n counting from `start`."""
    numbers = pa.array(np.arange(start, start + rows, dtype=np.int64)).cast(pa.string())
    return pc.binary_join_element_wise(f"{instant}_{task}", numbers, "_")
