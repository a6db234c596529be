"""Clean a table: plan under its lock, delete without it, complete under the lock again.

Deleting can be repeated and file names are never reused, so several Lakebed cleaners may work on
one plan at the same time, and the next one completes a plan that was interrupted. Another engine
may complete its plan without the lock, so its plan is left alone for a while.
"""

import logging
from dataclasses import dataclass, replace

from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import ConflictError, CorruptError, NotFoundError
from lakebed.format.files.partition_metadata import is_partition_metadata_name
from lakebed.format.names.instant_name import Action, State
from lakebed.model.executor import TaskId
from lakebed.model.instant import Instant, format_instant
from lakebed.model.options.services import CleanOptions
from lakebed.model.packing import FILE_BYTES
from lakebed.services.clean.clean_input import read_clean_input
from lakebed.services.clean.plan import CleanPlan, plan_clean
from lakebed.services.clean.plan_file import encode_clean, encode_clean_plan, parse_clean_plan
from lakebed.services.clean.scope import partitions_to_clean
from lakebed.services.clean.sweep import find_stale
from lakebed.storage.stale_temporary import delete_abandoned
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import join_path
from lakebed.timeline.timeline import WRITE_ACTIONS, TimelineInstant
from lakebed.write.deferred import find_abandoned
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

CHUNK_FILES = 256
# No writer takes a day between two writes to the same file.
_ABANDONED_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Clean:
    """The result of a clean; `resumed` are interrupted cleans that it completed."""

    instant: Instant
    completion_time: Instant
    earliest_retained: Instant
    deleted_files: int
    partitions: int
    resumed: tuple[Instant, ...] = ()

    def __str__(self) -> str:
        """Return the result as one sentence."""
        kept = f"; the instants from {self.earliest_retained} on are kept"
        return (
            f"clean {self.instant} deleted {self.deleted_files} files in {self.partitions} "
            f"partitions{kept if self.earliest_retained else ''}"
        )


@dataclass(frozen=True, slots=True)
class _Work:
    """A clean in progress."""

    instant: TimelineInstant
    plan: CleanPlan
    began_ms: int
    resumed: bool


def clean(
    target: WriteTarget,
    options: CleanOptions | None = None,
    *,
    chunk_files: int = CHUNK_FILES,
    incremental: bool = False,
) -> Clean | None:
    """Delete the files that no retained commit needs; return None if there are none.

    An `incremental` clean lists only the partitions in which commits superseded files since the
    last clean, and does not look for leftovers of writers that died.

    A pending clean is completed first; returns None while another engine may be working on one. A
    failure leaves the plan pending, so that the next clean completes it.
    """
    done: Clean | None = None
    if not incremental:
        delete_abandoned(target.storage, target.clock.now_ms() - _ABANDONED_MS)
    while True:
        work, stale = _begin(target, options, incremental=incremental)
        for path in stale:
            target.storage.delete(path)
        if work is None:
            return done
        _delete(target, work.plan, chunk_files)
        done = _join(done, _complete(target, work), resumed=work.resumed)
        if not work.resumed:
            return done


def _begin(
    target: WriteTarget, options: CleanOptions | None, *, incremental: bool
) -> tuple[_Work | None, list[str]]:
    """Resume a pending clean, or plan one; also return the leftovers of writes that have ended."""
    with hold_table(target.storage, target.clock, target.commits) as hold:
        stale = find_stale(hold.storage, hold.timeline)
        stale += find_abandoned(hold.storage, hold.clock.now_ms())
        for pending in hold.timeline.pending(Action.CLEAN):
            if _may_be_under_way(hold, pending):
                log.info("clean %s is left to the engine that started it", pending.requested)
                return None, stale
            work = _resume(hold, pending)
            if work is not None:
                return work, stale
        settled = options or CleanOptions.of(hold.config.properties)
        began_ms = hold.clock.now_ms()
        scope = partitions_to_clean(hold.snapshot) if incremental else None
        snapshot = hold.snapshot if scope is None else hold.snapshot.within(scope)
        plan = plan_clean(read_clean_input(snapshot), settled, began_ms, hold.config.zone)
        if plan is None:
            return None, stale
        hold.lock.check()
        instant = hold.request(Action.CLEAN, encode_clean_plan(plan, hold.storage.url))
        return _Work(hold.start(instant), plan, began_ms, resumed=False), stale


def _may_be_under_way(hold: TableHold, pending: TimelineInstant) -> bool:
    """Return whether another engine may be working on its clean, judging by its age alone."""
    expiry_ms = hold.clock.now_ms() - hold.pulse.expiry_ms
    if pending.requested <= format_instant(expiry_ms, hold.config.zone):
        return False
    try:
        data = hold.active.read(pending, State.REQUESTED)
        return not parse_clean_plan(data, f"plan of {pending.file_name}").ours
    except (CorruptError, NotFoundError):
        return True  # it is being written; Lakebed's plans appear atomically


def _resume(hold: TableHold, pending: TimelineInstant) -> _Work | None:
    """Resume a clean from its plan; return None if the plan was never written."""
    data = hold.active.read(pending, State.REQUESTED)
    if not data:
        log.warning("clean %s has no plan; it is dropped", pending.requested)
        hold.active.delete_pending(Action.CLEAN, pending.requested)
        return None
    plan = parse_clean_plan(data, f"plan of {pending.file_name}")
    return _Work(hold.start(pending), plan, hold.clock.now_ms(), resumed=True)


def _delete(target: WriteTarget, plan: CleanPlan, chunk_files: int) -> None:
    paths = [
        join_path(partition, name) for partition, names in plan.files.items() for name in names
    ]
    starts = range(0, len(paths), chunk_files)
    chunks = [_Chunk(target.storage, tuple(paths[at : at + chunk_files])) for at in starts]
    for _ in target.executor.run(_delete_chunk, chunks, "clean"):
        pass


@dataclass(frozen=True, slots=True)
class _Chunk:
    storage: Storage
    paths: tuple[str, ...]

    @property
    def cost_bytes(self) -> int:
        """Estimate the work: deleting a file is faster than opening and reading it."""
        return len(self.paths) * FILE_BYTES // 4


def _delete_chunk(chunk: _Chunk, task: TaskId) -> int:
    del task
    for path in chunk.paths:
        chunk.storage.delete(path)
        if chunk.storage.local_path(path) is not None:
            # The checksum file that Hadoop's local file system keeps beside a file of Hudi's.
            folder, _, name = path.rpartition("/")
            chunk.storage.delete(join_path(folder, f".{name}.crc"))
    return len(chunk.paths)


def _complete(target: WriteTarget, work: _Work) -> Clean:
    requested = work.instant.requested
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        found = hold.timeline.find(requested, Action.CLEAN)
        if found is None:
            raise ConflictError(
                f"{hold.storage.url}: clean {requested} was removed by another process"
            )
        completion = found.completion
        if completion is None:
            emptied = _drop_empty(hold, work.plan)
            taken_ms = hold.clock.now_ms() - work.began_ms
            content = encode_clean(work.plan, requested, taken_ms, emptied)
            completion = hold.complete(found, content)
    plan = work.plan
    count = sum(map(len, plan.files.values()))
    return Clean(requested, completion, plan.earliest, count, len(plan.files))


def _drop_empty(hold: TableHold, plan: CleanPlan) -> list[str]:
    """Remove the partition metadata of folders without data files; return their paths.

    Nothing is removed while a writer is active: a task that has seen the metadata relies on it.
    """
    if hold.timeline.pending(*WRITE_ACTIONS):
        return []
    emptied = []
    for partition in filter(None, plan.files):
        names = hold.storage.names(partition)
        markers = [name for name in names if _marks_partition(name)]
        if len(markers) == len(names):
            for name in markers:
                hold.storage.delete(join_path(partition, name))
            emptied.append(partition)
    return emptied


def _marks_partition(name: str) -> bool:
    """Return whether a name is partition metadata, or the checksum file that Hadoop keeps beside it."""
    if name.startswith("..") and name.endswith(".crc"):
        name = name[1:].removesuffix(".crc")
    return is_partition_metadata_name(name)


def _join(before: Clean | None, done: Clean, *, resumed: bool) -> Clean:
    earlier = before.resumed if before else ()
    return replace(done, resumed=(*earlier, done.instant) if resumed else earlier)
