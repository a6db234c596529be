"""What a partition of a read carries to its task."""

from typing import Any

from pyspark.sql.datasource import InputPartition


def held_by(partition: InputPartition | None) -> Any:
    """Return the value of a partition, or None in the one task of a read without partitions."""
    return None if partition is None else partition.value  # PySpark 4.1 passes None itself
