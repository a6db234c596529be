"""What every task of one write must know, settled on the driver and pickled to the workers."""

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import SchemaError
from lakebed.merge.order import MergeRule
from lakebed.storage.storage import Storage
from lakebed.table.config import BucketIndex, MergeMode, TableConfig
from lakebed.table.schema import find_field

DEFAULT_MEMORY_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """One write: where to, as what, under which instant."""

    storage: Storage
    config: TableConfig
    index: BucketIndex
    schema: pa.Schema
    schema_text: str
    instant: str
    action: str
    memory_bytes: int = DEFAULT_MEMORY_BYTES

    @property
    def rule(self) -> MergeRule:
        """Give the rule that resolves repeated keys."""
        return merge_rule(self.config)


def merge_rule(config: TableConfig) -> MergeRule:
    """Give the rule that the table's merge mode asks for."""
    if config.merge_mode is MergeMode.EVENT_TIME_ORDERING:
        return MergeRule(config.ordering_fields)
    return MergeRule()


def check_columns(config: TableConfig, schema: pa.Schema) -> None:
    """Refuse a schema that lacks a key, partition or ordering column, by name."""
    for kind, fields in (
        ("record key", config.record_key_fields),
        ("partition", config.partition_fields),
        ("ordering", config.ordering_fields),
    ):
        for field in fields:
            if find_field(list(schema), field) is None:
                raise SchemaError(
                    f"{kind} column {field!r} is missing; the input has {', '.join(schema.names)}"
                )
