"""From rows as they come to rows with a record key and a place."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.errors import KeyValueError
from lakebed.format.bucket import key_buckets
from lakebed.format.meta_columns import RECORD_KEY
from lakebed.format.partition_path import partition_paths
from lakebed.format.record_key import join_key_texts, key_texts
from lakebed.table.conform import conform
from lakebed.write.spec import WriteSpec


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows of the table's schema with their record key in front, and where each belongs."""

    rows: pa.RecordBatch
    partitions: pa.StringArray
    buckets: npt.NDArray[np.int32]


def place_rows(batch: pa.RecordBatch, spec: WriteSpec) -> PlacedRows:
    """Fit `batch` to the table's schema and compute key, partition and bucket of each row."""
    rows = conform(batch, spec.schema)
    config = spec.config
    fields = config.record_key_fields
    texts = key_texts({name: rows.column(name) for name in fields}, fields)
    keys = join_key_texts(texts, config.composite_key)
    _check_ordering(rows, keys, spec)
    return PlacedRows(
        pa.RecordBatch.from_arrays(
            [keys, *rows.columns],
            schema=pa.schema([pa.field(RECORD_KEY, pa.string()), *spec.schema]),
        ),
        _partition_column(rows, spec),
        key_buckets(
            keys,
            fields,
            spec.index.hash_fields,
            spec.index.buckets,
            composite=config.composite_key,
            texts=texts,
        ),
    )


def _partition_column(rows: pa.RecordBatch, spec: WriteSpec) -> pa.StringArray:
    config = spec.config
    if config.timestamp_keygen is not None:
        field = config.partition_fields[0]
        return config.timestamp_keygen.partition_paths(
            rows.column(field), field, config.partition_style
        )
    columns = {name: rows.column(name) for name in config.partition_fields}
    return partition_paths(columns, config.partition_fields, config.partition_style, rows.num_rows)


def _check_ordering(rows: pa.RecordBatch, keys: pa.StringArray, spec: WriteSpec) -> None:
    """Refuse a null ordering value: Apache Hudi cannot read a table that holds one."""
    for field in spec.rule.ordering_fields:
        column = rows.column(field)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise KeyValueError(
                f"ordering column {field!r} is null for key {keys[row].as_py()!r}; give every row "
                "a value, or create the table without an ordering column"
            )
