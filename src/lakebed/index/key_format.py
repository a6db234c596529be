"""Check whether a table's record keys and folders have the format that Lakebed would write.

Hudi formats most types in one way only. But it formats a timestamp or binary key differently in its
`upsert` (1704164645000600, hex) and in its row writer, which `bulk_insert` uses (`2024-01-02
03:04:05.0`, `[B@6602d040`), and Spark SQL names the folder of a timestamp `2024-01-02
03%3A04%3A05`. No property records the format, so stored keys are sampled; keys and folders in
another format are not used for pruning.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import CorruptError, KeyValueError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.names.partition_path import parse_partition_path
from lakebed.format.names.record_key import record_keys
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import BaseFile, FileSlice
from lakebed.table.read.base_file import sample_base_file

_SAMPLED_FILES = 8
_OURS = {"timestamp": re.compile(r"-?[0-9]+"), "binary": re.compile(r"(?:[0-9a-f]{2})*")}


def sampled_files(slices: Iterable[FileSlice], most: int) -> list[BaseFile]:
    """Return at most `most` base files: the oldest, the newest and some in between."""
    whole = (slice_ for slice_ in slices if not slice_.damage)
    files = [slice_.base_file for slice_ in whole if slice_.base_file is not None]
    files.sort(key=lambda file: (file.name.instant, file.path))
    places = np.linspace(0, len(files) - 1, min(most, len(files))).astype(int)
    return [files[place] for place in places.tolist()]


def may_differ(schema: pa.Schema, fields: Iterable[str]) -> bool:
    """Return whether Hudi formats values of one of these columns in more than one way."""
    return any(_kind(schema, field) is not None for field in fields)


def keys_are_ours(
    storage: Storage, config: TableConfig, schema: pa.Schema, slices: Sequence[FileSlice]
) -> bool:
    """Return whether the keys in a sample of files have our format."""
    fields = config.record_key_fields
    if not may_differ(schema, fields):
        return True
    if not all(slice_.base_file is not None for slice_ in slices):
        return False
    return all(
        odd_key(rows, config, bare=True) is None
        for file in sampled_files(slices, _SAMPLED_FILES)
        for rows in sample_keys(storage, config, schema, file)
    )


def sample_keys(
    storage: Storage,
    config: TableConfig,
    schema: pa.Schema,
    file: BaseFile,
    more: Iterable[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield sample rows of a base file: stored keys, the columns that form them, and `more`."""
    columns = dict.fromkeys((RECORD_KEY, *config.record_key_fields, *more))
    yield from sample_base_file(storage, file.path, schema, list(columns))


def odd_key(
    rows: pa.RecordBatch, config: TableConfig, *, bare: bool = False
) -> tuple[str | None, str] | None:
    """Return the first stored key that we would format differently, with our format, or None.

    With `bare`, a composite key of a single field may omit the field's name.
    """
    fields = config.record_key_fields
    stored = rows.column(RECORD_KEY)
    try:
        ours = record_keys(
            {name: rows.column(name) for name in fields}, fields, config.composite_key
        )
    except KeyValueError as error:
        return None, str(error)
    equal = pc.fill_null(pc.equal(stored, ours), False)
    if bare and config.composite_key and len(fields) == 1:
        # Some releases of Hudi wrote a single field as a key that is not composite.
        plain = record_keys({name: rows.column(name) for name in fields}, fields, False)
        equal = pc.or_(equal, pc.fill_null(pc.equal(stored, plain), False))
    odd = np.flatnonzero(~equal.to_numpy(zero_copy_only=False))
    return (stored[int(odd[0])].as_py(), ours[int(odd[0])].as_py()) if odd.size else None


def odd_folder(config: TableConfig, schema: pa.Schema, folders: Iterable[str]) -> str | None:
    """Return a folder with a timestamp or binary value that is not in our format, or None."""
    fields = config.partition_fields
    tests = [
        None if field in config.timestamp_fields else _OURS.get(_kind(schema, field) or "")
        for field in fields
    ]
    if not any(tests):
        return None
    for folder in folders:
        try:
            texts = parse_partition_path(folder, fields, config.partition_style)
        except CorruptError:
            return folder
        pairs = zip(tests, texts, strict=True)
        if any(t is not None and text is not None and not t.fullmatch(text) for t, text in pairs):
            return folder
    return None


def _kind(schema: pa.Schema, field: str) -> str | None:
    """Return "timestamp" or "binary", the kinds that Hudi formats in several ways, or None."""
    at = schema.get_field_index(field)
    kind = schema.field(at).type if at >= 0 else pa.null()
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return "binary" if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) else None
