"""The writer's index that a caller requests by name."""

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.bucket_hash import MAX_BUCKETS
from lakebed.index.kinds import strategy_of
from lakebed.model.spelling import nearest
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writer_index import INDEXES, WriterIndex


def named_index(config: TableConfig, word: str | None, buckets: int | None) -> WriterIndex:
    """Return the index with this name; raise an error if it is unknown or does not fit."""
    name = "bucket" if word is None else str(word).lower()
    if name not in INDEXES:
        raise UnsupportedError(
            f"index={word!r}{nearest(name, INDEXES)}: this release writes with index={', '.join(map(repr, INDEXES))}"
        )
    index = INDEXES[name](buckets, config.record_key_fields)
    strategy_of(index).check_table(config)
    if buckets is not None and not index.hashes_keys:
        raise InvalidError(f"index={word!r} has no buckets, found buckets={buckets!r}")
    if buckets is not None and (type(buckets) is not int or not 1 <= buckets <= MAX_BUCKETS):
        raise InvalidError(f"buckets={buckets!r}: expected a number from 1 to {MAX_BUCKETS}")
    if not index.is_settled:
        raise InvalidError('index="bucket" needs buckets=<number>')
    return index
