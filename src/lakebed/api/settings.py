"""What a table is told about its writers and services, checked before the table has it."""

from lakebed.api.engines import driver_max_bytes
from lakebed.commit.heartbeat import Pulse
from lakebed.commit.lock import table_lock
from lakebed.services.archive.options import ArchiveOptions
from lakebed.services.clean.options import CleanOptions
from lakebed.services.clustering.options import ClusteringOptions
from lakebed.services.compaction.options import CompactionOptions
from lakebed.services.upkeep import Upkeep
from lakebed.storage.storage import Storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.tombstones import retention_ms
from lakebed.table.config.writable import check_writable
from lakebed.write.fill import FileSizes
from lakebed.write.pipeline import conflict_retries

# What may be changed of a table that is there.
CHANGEABLE = (
    "compaction_log",
    "hoodie.archive.",
    "hoodie.clean.",
    "hoodie.cleaner.",
    "hoodie.client.heartbeat.",
    "hoodie.clustering.",
    "hoodie.compact.",
    "hoodie.compaction.logfile.",
    "hoodie.compaction.target.",
    "hoodie.keep.",
    "hoodie.log.compaction.",
    "hoodie.parquet.",
    "hoodie.timeline.compaction.",
    "hoodie.write.",
    "lakebed.",
    "write.distribution-mode",
)


def check_settings(storage: Storage, config: TableConfig) -> None:
    """Reject settings with which a write or a service would not begin."""
    check_writable(config)
    driver_max_bytes(config.properties)
    Pulse.of(config.properties)
    FileSizes.of(config)
    conflict_retries(config)
    table_lock(storage, config.properties)
    Upkeep.of(config.properties)
    CleanOptions.of(config.properties)
    ArchiveOptions.of(config.properties)
    ClusteringOptions.parse(config.properties)
    CompactionOptions.parse(config.properties)
    retention_ms(config.properties)
