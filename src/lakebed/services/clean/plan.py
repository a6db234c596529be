"""Decides which files a clean deletes, without access to storage.

The history of a file group is a sequence of versions, each a base file and the logs on top of it,
and each superseded by the base file of the next. A read as of an instant uses one version of each
group. Agrees with Hudi's CleanPlanner where that is safe; where it is not (a commit that took long
to complete, a query that is still running) more is kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakebed.model.instant import Instant, format_instant
from lakebed.model.options.services import CleanOptions, CleanPolicy
from lakebed.services.clean.clean_input import CleanInput
from lakebed.table.files.file_group import DataFile, FileGroupId, FileSlice
from lakebed.timeline.timeline import WRITE_ACTIONS, Timeline

_NEVER = "9" * 20


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """The files that a clean deletes: names by partition.

    Reads as of `earliest` or later stay possible; it is empty if no commit is retained. A plan that
    is not `ours` was made by another engine.
    """

    policy: CleanPolicy
    earliest: Instant
    last_completed: Instant
    files: Mapping[str, tuple[str, ...]]
    savepoints: tuple[Instant, ...] = ()
    earliest_action: str = "commit"
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a file group, and the instant of the base file that superseded it.

    A version starts with its oldest file, which may be a log that was started before the base file
    and completed after it.
    """

    began: Instant
    superseded: Instant
    paths: tuple[str, ...] = field(repr=False)


def plan_clean(
    inventory: CleanInput, options: CleanOptions, now_ms: int, zone: str
) -> CleanPlan | None:
    """Choose the files to delete; return None if there are none."""
    timeline = inventory.timeline
    limit = safe_limit(timeline, options, now_ms, zone)
    if options.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        earliest, keep = limit, options.file_versions_retained
    else:
        earliest = _earliest(timeline, by_policy(timeline, options, now_ms, zone), limit)
        # Versions that earlier cleans gave up can never be read again, so they need not be kept.
        earliest, keep = max(earliest, inventory.retained), 1
    gone = list(_replaced_versions(inventory, earliest))
    gone += _old_versions(inventory, earliest, keep)
    files: dict[str, set[str]] = defaultdict(set)
    paths = _given_up([path for version in gone for path in version.paths], inventory)
    paths += _change_data(inventory, paths, earliest)
    for path in (*paths, *inventory.leftovers):
        partition, _, name = path.rpartition("/")
        files[partition].add(name)
    if not files:
        return None
    if options.policy is CleanPolicy.KEEP_LATEST_FILE_VERSIONS:
        # Reads as of a time before a deleted version was superseded are no longer possible.
        earliest = max((inventory.retained, *(version.superseded for version in gone)))
    commits = timeline.commits
    # Hudi treats a clean without a retained commit as one that has cleaned everything.
    earliest = earliest or (commits[0].requested if commits else "")
    found = timeline.completed(earliest)
    return CleanPlan(
        options.policy,
        earliest,
        commits[-1].requested if commits else "",
        {partition: tuple(sorted(names)) for partition, names in sorted(files.items())},
        inventory.savepoints,
        str(found.action) if found else "commit",
    )


def by_policy(timeline: Timeline, options: CleanOptions, now_ms: int, zone: str) -> Instant:
    """Return the first commit that the policy retains; empty if it retains all.

    By hours, a table that was not written to for that long retains its last commit.
    """
    requested = [commit.requested for commit in timeline.commits]
    if options.policy is CleanPolicy.KEEP_LATEST_COMMITS:
        return (
            requested[-options.commits_retained]
            if len(requested) > options.commits_retained
            else ""
        )
    if options.policy is CleanPolicy.KEEP_LATEST_BY_HOURS and requested:
        since = format_instant(now_ms - options.hours_retained * 3_600_000, zone)
        return next((instant for instant in requested if instant >= since), requested[-1])
    return ""


def versions_of(slices: tuple[FileSlice, ...]) -> tuple[Version, ...]:
    """Return the versions of one file group, oldest first.

    Logs from before the first base file form one version. Only a base file starts a new one: log
    compaction leaves its inputs in the version that they belong to.
    """
    files: list[list[DataFile]] = []
    based: list[Instant] = []
    for slice_ in slices:
        if slice_.base_file is not None or not files:
            files.append([])
            based.append(slice_.instant)
        files[-1].extend(slice_.files)
    return tuple(
        Version(min(f.name.instant for f in of), end, tuple(f.path for f in of))
        for of, end in zip(files, [*based[1:], _NEVER], strict=True)
    )


def safe_limit(timeline: Timeline, options: CleanOptions, now_ms: int, zone: str) -> Instant:
    """Return the instant before which a version must have been superseded to be deleted.

    Queries of the last `min_age_seconds` and running writes may read versions that were the newest
    when they started. So a version that was superseded since then is kept.
    """
    first_pending = next((i.requested for i in timeline.pending(*WRITE_ACTIONS)), _NEVER)
    age_seconds = options.min_age_seconds
    since = _NEVER if age_seconds is None else format_instant(now_ms - age_seconds * 1000, zone)
    since = min(first_pending, since)
    young = (c.requested for c in timeline.commits if (c.completion or _NEVER) > since)
    return min((first_pending, *young))


def _earliest(timeline: Timeline, wanted: Instant, limit: Instant) -> Instant:
    """Return the newest commit that both the policy and safety allow as the earliest to retain."""
    commits = (c.requested for c in timeline.commits if c.requested <= min(wanted, limit))
    return max(commits, default="")


def _old_versions(inventory: CleanInput, earliest: Instant, keep: int) -> Iterator[Version]:
    """Yield the versions that were superseded before `earliest`, except for the newest `keep`."""
    for group, slices in inventory.groups.items():
        if inventory.end_of(group) is not None:
            continue
        for version in versions_of(slices)[:-keep]:
            if version.superseded < earliest and not _is_kept(inventory, version):
                yield version


def _replaced_versions(inventory: CleanInput, earliest: Instant) -> Iterator[Version]:
    """Yield all versions of file groups that were replaced or dropped before `earliest`."""
    for group, slices in inventory.groups.items():
        ended = inventory.end_of(group)
        if ended is None or ended >= earliest:
            continue
        for version in versions_of(slices):
            until = Version(version.began, min(version.superseded, ended), version.paths)
            if not _is_kept(inventory, until):
                yield until


def _given_up(paths: Sequence[str], inventory: CleanInput) -> list[str]:
    """Leave out base files of all columns that a version of another column group still needs."""
    shared = Counter(
        base.path
        for slices in inventory.groups.values()
        for slice_ in slices
        if (base := slice_.base_file) is not None and base.serves is not None
    )
    found = Counter(paths)
    return [path for path in paths if found[path] >= shared[path]]


def _change_data(inventory: CleanInput, gone: Iterable[str], earliest: Instant) -> Iterator[str]:
    """Yield the change data that belongs to the base files among `gone`.

    Old change data whose base file was deleted without it is included.
    """
    if not inventory.change_data:
        return
    paths = frozenset(gone)
    slices = [slice_ for of in inventory.groups.values() for slice_ in of]
    bases = {
        (slice_.group, base.name.instant): base.path in paths
        for slice_ in slices
        if (base := slice_.base_file) is not None
    }
    for log in inventory.change_data:
        name = log.name
        group = FileGroupId(log.partition, name.file_id, name.column_group)
        goes = bases.get((group, name.instant), name.instant < earliest)
        if goes and name.encode() not in inventory.kept_names:
            yield log.path


def _is_kept(inventory: CleanInput, version: Version) -> bool:
    """Return whether a savepoint or a pending plan needs a version, wholly or in part."""
    if any(version.began <= instant < version.superseded for instant in inventory.savepoints):
        return True
    names = (path.rpartition("/")[2] for path in version.paths)
    return not inventory.kept_names.isdisjoint(names)
