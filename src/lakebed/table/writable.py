"""Whether a table may be written by us, so that others can go on with it."""

from lakebed.errors import UnsupportedError
from lakebed.format.record_key import KeyGenerator
from lakebed.table.config import ConcurrencyMode, TableConfig, TableType
from lakebed.table.property_values import flag
from lakebed.table.writer_index import BucketIndex


def check_writable(config: TableConfig) -> None:
    """Refuse to write where a commit of ours would leave the table wrong for others."""
    properties = config.properties
    metadata = properties.get("hoodie.table.metadata.partitions", "").strip()
    populate = properties.get("hoodie.populate.meta.fields", "true").lower()
    blocking = config.concurrency is not ConcurrencyMode.NON_BLOCKING
    buckets = isinstance(config.index, BucketIndex)
    meta = properties.get("hoodie.meta.fields.mode", "ALL").upper()
    slashed = "hoodie.datasource.write.slash.separated.date.partitioning"
    refusals = {
        f"a live Hudi metadata table ({metadata}) would be left stale": metadata != "",
        "it has change data capture on": flag(properties, "hoodie.table.cdc.enabled"),
        "it is kept without meta columns (hoodie.populate.meta.fields=false)": (
            populate == "false"
        ),
        f"it keeps only some meta columns (hoodie.meta.fields.mode={meta})": meta != "ALL",
        f"its key generator {properties.get('hoodie.table.keygenerator.type')} is unknown": (
            config.key_generator is None
        ),
        "it has no record key fields (keys made by Hudi)": not config.record_key_fields,
        "writers that do not block each other need a MERGE_ON_READ table with a bucket index": (
            not blocking and not (config.table_type is TableType.MERGE_ON_READ and buckets)
        ),
        "it writes dates as slash-separated partitions": flag(properties, slashed),
        "its timestamp key generator is not one that we write": (
            config.key_generator is KeyGenerator.TIMESTAMP and config.timestamp_keygen is None
        ),
    }
    for reason, refused in refusals.items():
        if refused:
            raise UnsupportedError(f"table {config.name!r} can be read but not written: {reason}")
