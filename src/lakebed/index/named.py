"""The writer's index as a caller names it."""

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.index.bucket import checked_index
from lakebed.index.rings import check_table_type
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import ConsistentHashingIndex, SimpleIndex, WriterIndex

_SIMPLE = {"simple": SimpleIndex(), "global_simple": SimpleIndex(is_global=True)}


def named_index(config: TableConfig, index: str | None, buckets: int | None) -> WriterIndex:
    """Return the index of that name, or refuse it."""
    word = "bucket" if index is None else str(index).lower()
    if word == "consistent_hashing":
        check_table_type(config)
        counted = checked_index(config, 1 if buckets is None else buckets, ())
        return ConsistentHashingIndex(buckets or 0, counted.hash_fields)
    if word in _SIMPLE:
        if buckets is not None:
            raise InvalidError(f"index={index!r} has no buckets, found buckets={buckets!r}")
        return _SIMPLE[word]
    if word != "bucket":
        raise UnsupportedError(
            f'index={index!r}: this release writes with index="bucket", "consistent_hashing", "simple" '
            'or "global_simple"'
        )
    if buckets is None:
        raise InvalidError('index="bucket" needs buckets=<number>')
    return checked_index(config, buckets, ())
