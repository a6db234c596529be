"""Plan and execute a clustering: exclusively on its file groups, concurrently with other writers.

One process plans and executes it. If it fails or dies, the whole plan is rolled back, because no
writer may touch its file groups while it is pending.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from lakebed.commit.attempt import Attempt, finishing
from lakebed.commit.hold import TableHold, hold_table
from lakebed.errors import (
    DAMAGE_ERRORS,
    CorruptError,
    InvalidError,
)
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata, WriteStat
from lakebed.index.kinds import strategy_of
from lakebed.model.executor import LocalExecutor, TaskId
from lakebed.model.instant import Instant
from lakebed.model.options.services import ClusteringOptions
from lakebed.services.clustering.merge import ClusteringTask, cluster_input_group
from lakebed.services.clustering.plan import (
    FileFacts,
    InputGroup,
    encode_clustering,
    find_candidates,
    find_small,
    plan_groups,
)
from lakebed.services.compaction.schedule import busy_groups
from lakebed.services.rewrite import Rewrite
from lakebed.services.rollback.undo import address
from lakebed.storage.storage import Storage
from lakebed.table.config.properties_file import load_config
from lakebed.table.config.table_config import TableConfig
from lakebed.table.config.tombstone_retention import tombstone_cutoff
from lakebed.table.files.damage import describe_slice
from lakebed.table.read.base_file import read_footer
from lakebed.table.snapshot import Snapshot, load_snapshot
from lakebed.write.pipeline import WriteTarget

log = logging.getLogger(__name__)

# Reading footers is mostly waiting for storage.
_LOOKERS = 16


@dataclass(frozen=True, slots=True)
class Clustering:
    """The result of a clustering: counts of file groups before and after, and their sizes."""

    instant: Instant
    completion_time: Instant
    partitions: int
    replaced: int
    written: int
    rows: int
    size_bytes_before: int
    size_bytes: int
    damaged: tuple[str, ...] = ()

    def __str__(self) -> str:
        damaged = f"; left out as damaged: {'; '.join(self.damaged)}" if self.damaged else ""
        return (
            f"clustering {self.instant}: {self.replaced} file groups of {self.partitions} partitions "
            f"became {self.written} with {self.rows} rows, {self.size_bytes_before} bytes became "
            f"{self.size_bytes}{damaged}"
        )


def cluster(
    target: WriteTarget,
    options: ClusteringOptions | None = None,
    partitions: Collection[str] | None = None,
) -> Clustering | None:
    """Merge small file groups in key order into larger ones; return None if none are worth it.

    Without `options` the table's properties apply. `partitions` are paths; a missing one is not an
    error. File groups in the plan of another service are left out.
    """
    config = load_config(target.storage)
    _check_table(config)
    look = _Look(target.storage, options, partitions)
    # Most footers are read before the lock is taken; a file never changes.
    look.at(load_snapshot(target.storage, config, commits=target.commits))
    with hold_table(target.storage, target.clock, target.commits) as hold:
        _check_table(hold.config)
        groups = look.at(hold.snapshot)
        damaged = look.damaged(hold.snapshot)
        if not groups:
            return None
        taken = _begin(hold, groups)
    with finishing(taken):
        done = _carry_out(target, taken, groups, look.settled(taken.config))
        return replace(done, damaged=(*done.damaged, *damaged))


def _check_table(config: TableConfig) -> None:
    if config.index is None:
        raise InvalidError(
            f"table {config.name!r} does not record which index its writer uses; name it in a write "
            "before clustering: index='simple'"
        )
    strategy_of(config.index).check_clusterable(config)


class _Look:
    """Finds the file groups to cluster; facts of files are cached between calls."""

    def __init__(
        self,
        storage: Storage,
        options: ClusteringOptions | None,
        partitions: Collection[str] | None,
    ) -> None:
        self._storage = storage
        self._options = options
        self._partitions = partitions
        self._facts: dict[str, FileFacts] = {}

    def settled(self, config: TableConfig) -> ClusteringOptions:
        """Return the caller's options, or the table's."""
        return self._options or ClusteringOptions.of(config.properties)

    def at(self, snapshot: Snapshot) -> tuple[InputGroup, ...]:
        """Return the groups of file slices that are worth clustering in `snapshot`."""
        options = self.settled(snapshot.config)
        candidates = find_candidates(
            snapshot.slices, busy_groups(snapshot), self._partitions, options
        )
        paths = [slice_.base_file.path for slice_ in candidates if slice_.base_file is not None]
        new = [(self._storage, path) for path in paths if path not in self._facts]
        for path, facts in LocalExecutor(_LOOKERS).run(_read_facts, new, "look at footers"):
            if facts is not None:
                self._facts[path] = facts
        whole = [s for s in candidates if s.base_file is None or s.base_file.path in self._facts]
        return plan_groups(whole, self._facts, options)

    def damaged(self, snapshot: Snapshot) -> tuple[str, ...]:
        """Return the problem of each damaged file group that is left out; log a warning."""
        options = self.settled(snapshot.config)
        small = find_small(snapshot.slices, busy_groups(snapshot), self._partitions, options)
        found = tuple(describe_slice(slice_) for slice_ in small if slice_.damage)
        for problem in found:
            log.warning("a damaged file group is not clustered: %s", problem)
        return found


def _read_facts(place: tuple[Storage, str], task: TaskId) -> tuple[str, FileFacts | None]:
    del task
    storage, path = place
    try:
        footer = read_footer(storage, path)
    except DAMAGE_ERRORS as error:
        log.warning("a damaged file group is not clustered: %s", error)
        return path, None
    facts = FileFacts(footer.num_rows, footer.min_key, footer.max_key, footer.is_ordered)
    return path, facts


def _begin(hold: TableHold, groups: Sequence[InputGroup]) -> Attempt:
    """Put the plan on the timeline, and start its heartbeat before the lock is released."""
    plan = encode_clustering(
        groups, hold.config.record_key_fields, lambda path: address(hold.storage, path)
    )
    snapshot = hold.snapshot
    return Attempt.start(hold, snapshot, hold.request(Action.CLUSTERING, plan))


def _carry_out(
    target: WriteTarget, taken: Attempt, groups: Sequence[InputGroup], options: ClusteringOptions
) -> Clustering:
    works = _tasks(target, taken, groups, options)
    stats: list[WriteStat] = []
    damaged: dict[int, str] = {}
    for number, written, problem in target.executor.run(_cluster, works, "cluster"):
        stats += written
        if problem:
            damaged[number] = problem
            log.warning("a damaged file group is not clustered: %s", problem)
    if len(damaged) == len(works):
        raise CorruptError(f"all file groups to cluster are damaged: {'; '.join(damaged.values())}")
    groups = [work.group for work in works if work.number not in damaged]
    metadata = _metadata(taken.snapshot, groups, stats)
    partitions = {group.partition for group in groups}
    completion = taken.complete(metadata, {work.group.partition for work in works})
    return Clustering(
        taken.instant.requested,
        completion,
        len(partitions),
        sum(len(group.slices) for group in groups),
        len({(stat.partition_path, stat.file_id) for stat in stats}),
        sum(stat.num_writes or 0 for stat in stats),
        sum(group.size_bytes for group in groups),
        sum(stat.file_size_in_bytes or 0 for stat in stats),
        tuple(damaged.values()),
    )


def _cluster(work: ClusteringTask, task: TaskId) -> tuple[int, Sequence[WriteStat], str]:
    """Cluster an input group; a damaged one is left unchanged, without stopping the others."""
    try:
        return work.number, cluster_input_group(work, task), ""
    except DAMAGE_ERRORS as error:
        work.rewrite.fence.check()  # a process that considers this one dead deletes its files
        return work.number, (), str(error)


def _tasks(
    target: WriteTarget, taken: Attempt, groups: Sequence[InputGroup], options: ClusteringOptions
) -> list[ClusteringTask]:
    """Return a task for each input group, the largest first."""
    snapshot, config = taken.snapshot, taken.config
    slices = [slice_ for group in groups for slice_ in group.slices]
    view = snapshot.view(target.merger)
    if any(slice_.needs_merge or slice_.tombstones for slice_ in slices):
        _ = view.rule  # checked here rather than in a task; rows without logs need no check
    rewrite = Rewrite(
        view=view,
        log_config=config,
        instant=taken.instant.requested,
        fence=taken.fence,
        cutoff=tombstone_cutoff(config, taken.instant.requested),
    )
    return [
        ClusteringTask(rewrite, number, taken.clock.new_uuid(), group, options.target_bytes)
        for number, group in enumerate(sorted(groups, key=lambda group: -group.size_bytes))
    ]


def _metadata(
    snapshot: Snapshot, groups: Iterable[InputGroup], stats: Iterable[WriteStat]
) -> CommitMetadata:
    replaced: dict[str, list[str]] = defaultdict(list)
    for group in groups:
        replaced[group.partition] += [slice_.group.file_id for slice_ in group.slices]
    ended = {p: tuple(ids) for p, ids in sorted(replaced.items())}
    return CommitMetadata.of("CLUSTER", snapshot.schema_text, stats, ended)
