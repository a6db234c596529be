"""Executes a repair: each step under the table's lock, after checking it again.

Files that a commit lists, and files of a pending instant that is alive, are never deleted.
Damaged slices are replaced in a commit of their own, if requested.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakebed.commit.hold import TableHold, hold_table
from lakebed.commit.lock import LOCK_WAIT_SECONDS, table_lock
from lakebed.commit.rollback import roll_back
from lakebed.errors import CorruptError, LakebedError, NotFoundError
from lakebed.format.files.partition_metadata import PartitionMetadata
from lakebed.format.files.properties import encode_properties, parse_properties
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.lock_file import LOCK_FILE_MAX_BYTES, LockFile
from lakebed.index.record.state import RECORD_INDEX_FOLDER
from lakebed.index.secondary.definition import parse_definitions
from lakebed.index.secondary.open_index import index_folder
from lakebed.merge.rule import Merger
from lakebed.model.clock import Clock
from lakebed.model.executor import Executor, LocalExecutor
from lakebed.services.indexing.build import build_index
from lakebed.services.record_index import compact_record_index
from lakebed.services.verify.drop_lost import Dropped, drop_lost
from lakebed.services.verify.file_index_checks import write_file_run, write_file_statistics
from lakebed.services.verify.findings import Mend
from lakebed.services.verify.plan import RepairPlan, Step
from lakebed.services.verify.properties_checks import with_checksum
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import BACKUP_PATH, PROPERTIES_PATH, load_config
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.writable import check_writable
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.files.retention import named_files
from lakebed.terminal.text import plural
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import COMMIT_ACTIONS
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

# Hadoop's checksum of the properties: a stale one would keep Hudi from opening the table.
_SIDECAR_PATH: Final = ".hoodie/.hoodie.properties.crc"
_TEMP_FOLDER: Final = ".hoodie/.temp"
_DROPS: Final = (Mend.DROP_LOST, Mend.KEEP_READABLE, Mend.COMPLETE_KEYS)
# The table can only be opened and locked after these steps.
_FIRST: Final = frozenset({Mend.WRITE_CHECKSUM, Mend.RESTORE_PROPERTIES, Mend.DELETE_LOCK})


@dataclass(frozen=True, slots=True)
class Skipped:
    """A step that was skipped, and why."""

    step: Step
    reason: str

    def __str__(self) -> str:
        return f"{self.step}: not done, {self.reason}"


@dataclass(frozen=True, slots=True)
class Repaired:
    """The steps that a repair executed and skipped, and the slices that it replaced."""

    url: str
    done: tuple[Step, ...]
    skipped: tuple[Skipped, ...]
    dropped: tuple[Dropped, ...] = ()

    def __str__(self) -> str:
        ended = "".join(f"\n{one}" for one in (*self.dropped, *self.skipped))
        return (
            f"{self.url}: {plural(len(self.done), 'step')} done, "
            f"{plural(len(self.skipped), 'step')} left alone{ended}"
        )


def repair(
    storage: Storage,
    clock: Clock,
    plan: RepairPlan,
    commits: CommitCache | None = None,
    *,
    executor: Executor | None = None,
    merger: Merger | None = None,
    wait_seconds: float = LOCK_WAIT_SECONDS,
) -> Repaired:
    """Execute the steps of `plan` that still apply; report why the others were skipped.

    `executor` and `merger` are for damaged slices whose readable rows are kept. Raises LockedError
    if a writer holds the table; then only the properties or an unreadable lock file were changed.
    """
    done: list[Step] = []
    skipped: list[Skipped] = []

    def note(step: Step, reason: str | None) -> None:
        if reason is None:
            log.info("%s: %s", storage.url, step)
            done.append(step)
        else:
            skipped.append(Skipped(step, reason))

    for step in plan.steps:
        if step.mend is Mend.DELETE_LOCK:
            note(step, _delete_lock(storage, step))
        elif step.mend in _FIRST:
            note(step, _mend_properties(storage, clock, step, wait_seconds))
    drops = [step for step in plan.steps if step.mend in _DROPS]
    builds = [step for step in plan.steps if step.mend is Mend.BUILD_INDEX]
    rest = [s for s in plan.steps if s.mend not in {*_FIRST, *_DROPS, Mend.BUILD_INDEX}]
    if rest:
        with hold_table(storage, clock, commits, wait_seconds=wait_seconds, clear=False) as hold:
            for step in rest:
                hold.lock.check()
                note(step, _STEPS[step.mend](hold, step))
    dropped: tuple[Dropped, ...] = ()
    if drops or builds:
        config = load_config(storage)
        check_writable(config)
        known = commits or CommitCache(
            ActiveTimeline(storage, config.timeline_path), config.history_path
        )
        target = WriteTarget(storage, config, clock, known, executor or LocalExecutor(), merger)
        dropped = _drop(target, drops, note)
        for step in builds:
            note(step, _build(target, step))
    return Repaired(storage.url, tuple(done), tuple(skipped), dropped)


def _drop(
    target: WriteTarget, steps: list[Step], note: Callable[[Step, str | None], None]
) -> tuple[Dropped, ...]:
    """Replace damaged file slices, in one commit for each kind of step."""
    found: tuple[Dropped, ...] = ()
    for mend in _DROPS:
        chosen = {step.path: step for step in steps if step.mend is mend}
        if not chosen:
            continue
        groups = [FileGroupId(*_split(path)) for path in chosen]
        result = drop_lost(target, groups, mend)
        for one in result.dropped:
            note(chosen[one.path], None)
        for path, reason in result.left:
            note(chosen[path], reason)
        if mend is not Mend.COMPLETE_KEYS:
            found += result.dropped
    return found


def _build(target: WriteTarget, step: Step) -> str | None:
    """Build an index; return a reason if it was dropped."""
    if step.path == RECORD_INDEX_FOLDER:
        compact_record_index(target, rebuild=True)
        return None
    for definition in parse_definitions(target.config.properties):
        if index_folder(target.config, definition) == step.path:
            build_index(target, definition)
            return None
    return "the index was dropped"


def _split(path: str) -> tuple[str, str]:
    partition, _, file_id = path.rpartition("/")
    return partition, file_id


def _mend_properties(storage: Storage, clock: Clock, step: Step, wait_seconds: float) -> str | None:
    """Repair the properties; return a reason if they are already valid."""
    where = f"{storage.url}: mended properties"
    config = TableConfig.parse(_good_properties(storage, step.mend), where)
    with table_lock(storage, config.properties).hold(clock, wait_seconds):
        good = _good_properties(storage, step.mend)
        TableConfig.parse(good, where)
        try:
            etag = storage.head(PROPERTIES_PATH).etag
            data = storage.read(PROPERTIES_PATH)
            found = parse_properties(data, PROPERTIES_PATH)
        except (NotFoundError, CorruptError):
            etag, found = "", {}
        if found == good:
            return "the properties are valid by now"
        storage.delete(_SIDECAR_PATH)
        content = encode_properties(good, ("Properties of a Hudi table, repaired by Lakebed",))
        if etag:
            storage.put_if_unchanged(PROPERTIES_PATH, content, etag)
        else:
            storage.put_if_absent(PROPERTIES_PATH, content)
        if step.mend is Mend.RESTORE_PROPERTIES:
            storage.delete(BACKUP_PATH)
    return None


def _good_properties(storage: Storage, mend: Mend) -> dict[str, str]:
    if mend is Mend.RESTORE_PROPERTIES:
        return parse_properties(storage.read(BACKUP_PATH), BACKUP_PATH)
    return with_checksum(storage.read(PROPERTIES_PATH), PROPERTIES_PATH)


def _delete_lock(storage: Storage, step: Step) -> str | None:
    """Delete a lock file that cannot be read: its owner cannot renew it either."""
    try:
        LockFile.parse(storage.read_range(step.path, 0, LOCK_FILE_MAX_BYTES), step.path)
    except NotFoundError:
        return "it no longer exists"
    except CorruptError:
        storage.delete(step.path)
        return None
    return "it can be read by now"


def _roll_back(hold: TableHold, step: Step) -> str | None:
    for instant in hold.timeline.pending():
        if instant.requested != step.instant or instant.action not in COMMIT_ACTIONS:
            continue
        if hold.is_alive(instant):
            return "its writer is alive"
        roll_back(hold.storage, hold.active, instant)
        hold.refresh()
        return None
    return "it is no longer pending"


def _delete_file(hold: TableHold, step: Step) -> str | None:
    name = parse_data_name(step.path.rpartition("/")[2])
    if name is None:
        return "its name is not that of a data file"
    if _is_pending(hold, name.instant):
        return f"the instant {name.instant} is pending"
    commit = hold.timeline.completed(name.instant)
    if commit is None and hold.timeline.is_committed(name.instant):
        known = hold.snapshot.archived_names(name.instant)
        if known is None or step.path in known or not known:
            return f"the instant {name.instant} is archived, so the file is visible"
    if commit is not None:
        if commit.action is Action.REPLACECOMMIT and not isinstance(name, BaseFileName):
            return "another commit may name a log of a clustering"
        try:
            named = frozenset(named_files(hold.snapshot.commits.read(commit)))
        except LakebedError as error:
            return f"its commit cannot be read: {error}"
        if step.path in named:
            return "a commit lists it"
    hold.storage.delete(step.path)
    return None


def _delete_heartbeat(hold: TableHold, step: Step) -> str | None:
    if _is_pending(hold, step.instant):
        return f"the instant {step.instant} is pending"
    hold.storage.delete(step.path)
    return None


def _delete_temp(hold: TableHold, step: Step) -> str | None:
    if _is_pending(hold, step.instant):
        return f"the instant {step.instant} is pending"
    for entry in list(hold.storage.list(_TEMP_FOLDER)):
        if step.instant in entry.path:
            hold.storage.delete(entry.path)
    return None


def _release_lock(hold: TableHold, step: Step) -> str | None:
    """Do nothing: holding the table has taken over the lock, which is released at the end."""
    del hold, step
    return None


def _delete_backup(hold: TableHold, step: Step) -> str | None:
    found = parse_properties(hold.storage.read(PROPERTIES_PATH), PROPERTIES_PATH)
    TableConfig.parse(found, PROPERTIES_PATH)
    hold.storage.delete(step.path)
    return None


def _write_partition_metadata(hold: TableHold, step: Step) -> str | None:
    partition = step.path.rpartition("/")[0]
    hold.storage.put(step.path, PartitionMetadata.of(step.instant, partition).encode())
    return None


def _is_pending(hold: TableHold, instant: str) -> bool:
    return any(pending.requested == instant for pending in hold.timeline.pending())


_STEPS: Final[dict[Mend, Callable[[TableHold, Step], str | None]]] = {
    Mend.DELETE_BACKUP: _delete_backup,
    Mend.RELEASE_LOCK: _release_lock,
    Mend.ROLL_BACK: _roll_back,
    Mend.DELETE_FILE: _delete_file,
    Mend.DELETE_HEARTBEAT: _delete_heartbeat,
    Mend.DELETE_TEMP: _delete_temp,
    Mend.WRITE_PARTITION_METADATA: _write_partition_metadata,
    Mend.WRITE_FILE_RUN: write_file_run,
    Mend.WRITE_STATISTICS: write_file_statistics,
}
