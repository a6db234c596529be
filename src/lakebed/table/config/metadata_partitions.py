"""The partitions of Hudi's metadata table, as listed in `hoodie.properties`."""

from lakebed.model.options.option import parse_names
from lakebed.table.config.table_config import TableConfig

LIVE = "hoodie.table.metadata.partitions"
BEING_BUILT = "hoodie.table.metadata.partitions.inflight"
# The partitions that Hudi derives from the files by itself and rebuilds automatically. Any other
# partition (record_index, secondary_index_*, expr_index_*, and future kinds) was requested by a
# user.
_DERIVED = frozenset({"files", "column_stats", "partition_stats", "bloom_filters"})


def metadata_partitions(config: TableConfig, key: str = LIVE) -> tuple[str, ...]:
    """Return the partitions in use or, with BEING_BUILT, the partitions that are not ready yet."""
    return parse_names(config.properties.get(key, ""))


def asked_indexes(config: TableConfig) -> tuple[str, ...]:
    """Return the indexes that a user requested."""
    return tuple(name for name in metadata_partitions(config) if name not in _DERIVED)
