"""What every task of one write must know, settled on the driver and pickled to the workers."""

from dataclasses import dataclass

import pyarrow as pa

from lakebed.errors import SchemaError, UnsupportedError
from lakebed.format.meta_columns import IS_DELETED
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


def check_all_there(known: pa.Schema, incoming: pa.Schema) -> None:
    """Refuse rows that lack a column of the table: null would overwrite what it holds."""
    missing = [name for name in known.names if find_field(list(incoming), name) is None]
    if missing:
        raise SchemaError(
            f"column {missing[0]!r} is missing; the table has {', '.join(known.names)}: give every "
            "column, null where there is no value"
        )


def check_spelling(config: TableConfig, before: pa.Schema, after: pa.Schema) -> None:
    """Refuse to widen a key or partition column where its values would be spelled otherwise.

    `1` as an int is the key `1`, as a double `1.0`: the same row would be there twice.
    """
    for name in (*config.record_key_fields, *config.partition_fields):
        if name not in before.names:
            continue
        old, new = before.field(name).type, after.field(name).type
        if old != new and not (pa.types.is_integer(old) and pa.types.is_integer(new)):
            raise SchemaError(
                f"column {name!r} is part of the key or the partition: want {old} as before, found "
                f"{new}, which would spell its values otherwise"
            )


def check_columns(config: TableConfig, schema: pa.Schema) -> None:
    """Refuse a schema that lacks a key, partition or ordering column, by name."""
    if IS_DELETED in schema.names:
        raise UnsupportedError(
            f"column {IS_DELETED!r} marks rows as deleted, which this release does not write yet"
        )
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
