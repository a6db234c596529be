"""Checks whether Lakebed may write a table without breaking it for other engines."""

from lakebed.errors import UnsupportedError
from lakebed.format.logs.cdc import logging_mode
from lakebed.format.names.record_key import KeyGenerator
from lakebed.table.config.metadata_partitions import BEING_BUILT, asked_indexes, metadata_partitions
from lakebed.table.config.property_values import flag
from lakebed.table.config.table_config import (
    READ_ONLY_VERSION,
    ConcurrencyMode,
    TableConfig,
    TableType,
)

_GIVE_UP = "open_table(..., properties={'hoodie.metadata.enable': 'false'}) drops it"
_OLD_INDEXES = "hoodie.table.secondary.indexes.metadata"


def check_writable(config: TableConfig, *, gives_up_indexes: bool = False) -> None:
    """Raise an error if a commit by Lakebed would make other engines read wrong rows.

    The first change retires Hudi's metadata table; if it contains indexes that a user requested,
    the caller must allow that with `gives_up_indexes`.
    """
    properties = config.properties
    indexes = ", ".join(asked_indexes(config))
    unready = ", ".join(metadata_partitions(config, BEING_BUILT))
    blocking = config.concurrency is not ConcurrencyMode.NON_BLOCKING
    index = config.index
    agreed = index is not None and index.allows_non_blocking
    meta = properties.get("hoodie.meta.fields.mode", "ALL").upper()
    slashed = "hoodie.datasource.write.slash.separated.date.partitioning"
    by_type, by_class = "hoodie.table.keygenerator.type", "hoodie.table.keygenerator.class"
    generator = by_type if properties.get(by_type) else by_class
    refusals = {
        "table version 6 is read only here; upgrade it with Apache Hudi 1.x, whose next write does "
        "that (hoodie.write.auto.upgrade=true), or its procedure upgrade_table": (
            config.version == READ_ONLY_VERSION
        ),
        f"Hudi's metadata table holds an index ({indexes}) that Lakebed does not maintain; {_GIVE_UP}": (
            indexes != "" and not gives_up_indexes
        ),
        f"Hudi's metadata table is being built ({unready}): let Hudi finish it; or {_GIVE_UP}": (
            unready != "" and not gives_up_indexes
        ),
        "it has no meta columns (hoodie.populate.meta.fields=false)": (not config.has_meta_columns),
        f"it has only some meta columns (hoodie.meta.fields.mode={meta})": meta != "ALL",
        f"its key generator {properties.get(generator)} is unknown ({generator})": (
            config.key_generator is None
        ),
        "it has no record key fields, so its keys cannot be hashed to buckets": (
            not config.record_key_fields and index is not None and index.hashes_keys
        ),
        "non-blocking writers need a MERGE_ON_READ table with a bucket index": (
            not blocking and not (config.table_type is TableType.MERGE_ON_READ and agreed)
        ),
        "it writes dates as slash-separated partitions": flag(properties, slashed),
        f"it has indexes of an older Hudi ({_OLD_INDEXES})": (
            properties.get(_OLD_INDEXES, "").strip() != ""
        ),
        "the settings of its timestamp key generator are not supported": (
            config.key_generator is KeyGenerator.TIMESTAMP and config.timestamp_keygen is None
        ),
    }
    for reason, refused in refusals.items():
        if refused:
            raise UnsupportedError(f"table {config.name!r} can be read but not written: {reason}")
    # This call raises an error for an unknown mode.
    logging_mode(properties)
