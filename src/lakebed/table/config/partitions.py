"""Computes the partition of a row, as the table's key generator does."""

import pyarrow as pa

from lakebed.errors import UnsupportedError
from lakebed.format.names.partition_path import join_levels, level_texts, partition_paths
from lakebed.table.config.table_config import TableConfig


def partition_column(
    rows: pa.RecordBatch, config: TableConfig, *, strict: bool = True
) -> pa.StringArray:
    """Return the partition path of each row.

    Raises KeyValueError for a value that cannot be a folder; unless `strict`, the result for such a
    value is null, or a path that only Hudi would write.
    """
    fields, style = config.partition_fields, config.partition_style
    timed = config.timestamp_fields
    if not fields:
        return partition_paths({}, fields, style, rows.num_rows)
    return join_levels(
        [
            time_level(rows.column(field), field, config, strict=strict)
            if field in timed
            else level_texts(rows.column(field), field, style, first=number == 0, strict=strict)
            for number, field in enumerate(fields)
        ]
    )


def time_level(
    column: pa.Array, field: str, config: TableConfig, *, strict: bool = True
) -> pa.StringArray:
    """Return the folder, or folders, of each value of a time column."""
    keygen = config.timestamp_keygen
    if keygen is None:
        raise UnsupportedError(
            f"partition field {field!r}: the table's hoodie.keygen.timebased.* properties are not "
            "supported"
        )
    return keygen.partition_paths(column, field, config.partition_style, strict=strict)
