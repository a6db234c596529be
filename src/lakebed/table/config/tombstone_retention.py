"""How long ordered deletes are kept once they are merged into a base file.

A delete that carries an ordering value must still win over a late row that arrives after a full
compaction or a clustering. So compaction and clustering keep it as a tombstone, beside the new base
file, unless its commit is older than the retention (`lakebed.tombstone.retention`) at the instant
of the plan. The plan of a compaction records that cutoff: readers that meet the plan while it is
pending apply the same cutoff, whatever the table's current setting. Tombstones are written by
`services/rewrite.py` and `write/file_groups.py`, as logs of version 0
(`format/names/data_names.py`).
"""

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.merge.arrays import to_bools
from lakebed.merge.run import DELETED, FLAGS, OPEN
from lakebed.model.instant import Instant, format_instant, parse_instant
from lakebed.model.options.services import TOMBSTONE_RETENTION
from lakebed.table.config.table_config import TableConfig

PLAN_CUTOFF = "lakebed.tombstone.cutoff"
"""The entry in the metadata of a compaction plan: deletes of commits before it are dropped."""


def tombstone_cutoff(config: TableConfig, instant: Instant, recorded: str | None = None) -> str:
    """Return the instant before which the compaction planned at `instant` drops deletes.

    `recorded` is the value in its plan. The result is empty if deletes have no ordering values, or
    for Hudi's own layout, which drops all deletes.
    """
    if not config.keeps_tombstones:
        return ""
    if recorded is not None:
        return recorded
    kept_ms = TOMBSTONE_RETENTION.value(config.properties)
    if kept_ms == 0:
        return instant
    return format_instant(max(0, parse_instant(instant, config.zone) - kept_ms), config.zone)


def forgotten_deletes(batch: pa.RecordBatch, cutoff: str) -> pa.BooleanArray:
    """Return a mask of the deletes that a compaction drops: without ordering value, or too old.

    `batch` has a flags column, and commit times for deletes too.
    """
    flags = batch.column(FLAGS).to_numpy()
    expired = to_bools(pc.fill_null(pc.less(batch.column(COMMIT_TIME), cutoff), False))
    return pa.array((flags & DELETED != 0) & ((flags & OPEN != 0) | expired))
