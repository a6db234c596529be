"""Which logs of a slice can be merged into one, and where the result replays."""

from lakebed.format.names.meta_columns import META_COLUMNS
from lakebed.model.instant import Instant
from lakebed.services.compaction.plan import LogRun
from lakebed.storage.storage import Storage
from lakebed.table.config.merge_mode import MergeMode
from lakebed.table.config.table_config import TableConfig
from lakebed.table.read.run_reader import open_data
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.timeline.timeline import COMMIT_ACTIONS, Timeline

_NATIVE_VERSION = 10


def run_columns(storage: Storage, source: RunSource) -> frozenset[str] | None:
    """Return the columns of a partial run; None for complete rows, and for deletes."""
    if not source.partial or source.kind is not RunKind.DATA:
        return None
    with open_data(storage, source) as file:
        return frozenset(file.schema.names) - frozenset(META_COLUMNS)


def log_run(storage: Storage, source: RunSource) -> LogRun:
    """Return a run of a log as log compaction sees it."""
    columns = run_columns(storage, source)
    return LogRun(source.instant, source.path, columns, source.kind is RunKind.DATA)


def replays_at_own_instant(config: TableConfig) -> bool:
    """Return whether a merged log replays after everything that existed when it was planned.

    Up to version 9 a reader replays it at the position of the newest log that it replaces.
    """
    return config.version >= _NATIVE_VERSION


def folds_logs_first(config: TableConfig) -> bool:
    """Return whether Hudi's rule for deletes without an ordering value affects merged logs."""
    return not config.is_lsm_tree and config.merge_mode is MergeMode.EVENT_TIME_ORDERING


def first_pending_write(timeline: Timeline) -> Instant | None:
    """Return the smallest instant of a running write, whose file groups are not known yet."""
    return min((i.requested for i in timeline.pending(*COMMIT_ACTIONS)), default=None)
