"""How long ordered deletes are remembered once they are merged into a base file.

A delete that carries an ordering value must still beat a late row that arrives after a full
compaction or a clustering. So these keep it as a tombstone, beside the new base file, unless its
commit is older than the retention (`lakebed.tombstone.retention`) at the instant of the plan. The
plan of a compaction records that cutoff: readers that meet the plan while it is pending apply the same one, whatever
the table's setting is by then.
"""

import re
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from lakebed.errors import OptionError
from lakebed.format.names.meta_columns import COMMIT_TIME
from lakebed.merge.arrays import to_bools
from lakebed.merge.run import DELETED, FLAGS, OPEN
from lakebed.model.instant import Instant, format_instant, parse_instant
from lakebed.table.config.table_config import TableConfig

RETENTION = "lakebed.tombstone.retention"
PLAN_CUTOFF = "lakebed.tombstone.cutoff"
"""The entry in the metadata of a compaction plan: deletes of commits before it are forgotten."""

_DEFAULT_MS = 7 * 24 * 3_600_000
_UNIT_MS = {"d": 24 * 3_600_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_SHAPE = re.compile(r"([0-9]{1,9}) ?(d|days?|h|hours?|m|minutes?|s|seconds?)")


def retention_ms(properties: Mapping[str, str]) -> int:
    """Return how long ordered deletes survive full compaction, in milliseconds.

    >>> retention_ms({"lakebed.tombstone.retention": "36 hours"}), retention_ms({})
    (129600000, 604800000)
    """
    text = properties.get(RETENTION, "").strip().lower()
    if not text:
        return _DEFAULT_MS
    if text == "0":
        return 0
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise OptionError(
            f"option {RETENTION}={text}: want a number and a unit, such as '7 days', '12 hours' or "
            "'30 minutes', or 0 to forget deletes as soon as they are compacted"
        )
    return int(match[1]) * _UNIT_MS[match[2][0]]


def compaction_cutoff(config: TableConfig, instant: Instant, recorded: str | None = None) -> str:
    """Return the instant before which the compaction planned at `instant` forgets deletes.

    `recorded` is what its plan says. It is empty where deletes have no ordering values, or where
    the layout is Hudi's own, which forgets them all.
    """
    if not config.keeps_tombstones:
        return ""
    if recorded is not None:
        return recorded
    kept_ms = retention_ms(config.properties)
    if kept_ms == 0:
        return instant
    return format_instant(max(0, parse_instant(instant, config.zone) - kept_ms), config.zone)


def forgotten_deletes(batch: pa.RecordBatch, cutoff: str) -> pa.BooleanArray:
    """Mark the deletes that a compaction forgets: those without an ordering value, and old ones.

    `batch` has flags, and commit times also for deletes.
    """
    flags = batch.column(FLAGS).to_numpy()
    expired = to_bools(pc.fill_null(pc.less(batch.column(COMMIT_TIME), cutoff), False))
    return pa.array((flags & DELETED != 0) & ((flags & OPEN != 0) | expired))
