"""In which partition a row lies, by the table's key generator."""

import pyarrow as pa

from lakebed.format.partition_path import partition_paths
from lakebed.table.config import TableConfig


def partition_column(rows: pa.RecordBatch, config: TableConfig) -> pa.StringArray:
    """Spell the partition path of each row."""
    if config.timestamp_keygen is not None:
        field = config.partition_fields[0]
        return config.timestamp_keygen.partition_paths(
            rows.column(field), field, config.partition_style
        )
    columns = {name: rows.column(name) for name in config.partition_fields}
    return partition_paths(columns, config.partition_fields, config.partition_style, rows.num_rows)
