"""From incoming rows to rows with a record key, flags and a location."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import KeyValueError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.format.names.record_key import join_key_texts, key_texts
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS, OPEN
from lakebed.table.config.partitions import partition_column
from lakebed.table.config.schema import find_field
from lakebed.table.read.conform import conform
from lakebed.write.generated_keys import key_column
from lakebed.write.spec.operation import Kind
from lakebed.write.spec.write_spec import WriteSpec

# The file ids of rows whose keys a join has already looked up.
LOCATED_FILE = "_lakebed_file_id"


@dataclass(frozen=True, slots=True)
class RoutedRows:
    """Rows with their record key (and flags) in front, and the location of each.

    `slots` are slots of the locator, or file ids if an index has looked up the keys; null means
    that the table does not hold the key. `settle_moves` decides on rows that `wait`.
    """

    rows: pa.RecordBatch
    partitions: pa.StringArray
    slots: pa.Array
    wait: pa.BooleanArray | None = None


def run_schema(spec: WriteSpec) -> pa.Schema:
    """Return the columns of staged rows."""
    flags = [pa.field(FLAGS, pa.uint8())] if spec.may_delete else []
    return pa.schema([pa.field(RECORD_KEY, pa.string()), *flags, *spec.schema])


def route_rows(batch: pa.RecordBatch, spec: WriteSpec) -> RoutedRows:
    """Fit `batch` to the write's columns and compute key, flags, partition and slot of each row."""
    located = _pop(batch, LOCATED_FILE)
    flags = _flags(batch, spec)
    rows = conform(_wanted(batch, spec), spec.schema)
    config = spec.config
    fields = config.record_key_fields
    texts: Mapping[str, pa.StringArray] = {}
    if fields:
        texts = key_texts({name: rows.column(name) for name in fields}, fields)
        keys = join_key_texts(texts, config.composite_key)
    else:
        keys = key_column(batch)
    _check_ordering(rows, keys, flags, spec)
    # With a global lookup, the rows of a key are versions of one row, in any partition.
    # The rows to delete from a table without key and partition columns have no columns.
    one_place = spec.looks_everywhere or not config.partition_fields
    everywhere = pa.repeat(pa.scalar(""), batch.num_rows) if one_place else None
    partitions = partition_column(rows, config) if everywhere is None else everywhere
    slots = spec.locator.slots(keys, texts, partitions) if located is None else located
    columns = [keys, *([] if flags is None else [flags]), *rows.columns]
    return RoutedRows(
        pa.RecordBatch.from_arrays(columns, schema=run_schema(spec)), partitions, slots
    )


def _pop(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    return batch.column(name) if name in batch.schema.names else None


def _wanted(batch: pa.RecordBatch, spec: WriteSpec) -> pa.RecordBatch:
    """Drop the columns that control the write and are not stored."""
    fields = list(spec.schema)
    steering = {LOCATED_FILE, RECORD_KEY, FLAGS, *(name for name, _ in spec.markers)}
    kept = [
        name
        for name in batch.schema.names
        if find_field(fields, name) is not None
        or (name not in steering and spec.operation.kind is not Kind.DELETE)
    ]
    return batch.select(kept)


def _flags(batch: pa.RecordBatch, spec: WriteSpec) -> pa.Array | None:
    """Return flags that say which rows are deletes; None if no column can mark one.

    A delete by key has no ordering value and wins over everything before it, as in Hudi.
    """
    if spec.operation.kind is Kind.DELETE:
        return pa.array(np.full(batch.num_rows, COMMIT_TIME_DELETE, dtype=np.uint8))
    if not spec.may_delete:
        return None
    flags = np.zeros(batch.num_rows, dtype=np.uint8)
    if spec.flagged:
        # Spark has no unsigned integers.
        flags = batch.column(FLAGS).cast(pa.uint8()).to_numpy()
    gone = np.zeros(batch.num_rows, dtype=np.bool_)
    for name, text in spec.markers:
        position = find_field(list(batch.schema), name)
        if position is not None:
            column = batch.column(position)
            marked = column if text is None else pc.equal(column.cast(pa.string()), text)
            gone |= pc.fill_null(marked, False).to_numpy(zero_copy_only=False)
    return pa.array(np.where(gone, flags | DELETED, flags).astype(np.uint8))


def _check_ordering(
    rows: pa.RecordBatch, keys: pa.StringArray, flags: pa.Array | None, spec: WriteSpec
) -> None:
    """Raise an error for a null ordering value: Apache Hudi cannot read a table that holds one.

    Deletes by key have no ordering value.
    """
    if spec.operation.kind is Kind.DELETE:
        return
    for field in spec.ordering_columns:
        column = rows.column(field)
        if not column.null_count:
            continue
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        if flags is not None:
            is_null &= flags.to_numpy() & OPEN == 0
        if is_null.any():
            row = int(np.flatnonzero(is_null)[0])
            raise KeyValueError(
                f"ordering column {field!r} is null for key {keys[row].as_py()!r}; give every row "
                "a value, or create the table without an ordering column"
            )
