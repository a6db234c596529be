"""Finds files that an incremental read leaves out because Hudi's log compaction rewrote rows.

Hudi's log compaction stamps the rows that it rewrites with its own instant. (Ours keeps the stamps,
and its commit records that.) If all logs that it merged are in the range, so are the rows with that
stamp. Otherwise the stamp does not show which rows are in the range, and rows would be returned
once for the commit that wrote them and once more for the log compaction. In that case the original
logs are read instead of the compacted log, and instead of the base file of a later compaction,
which keeps the stamps. The original logs exist as long as the file slice does.
"""

from collections.abc import Iterator, Sequence

from lakebed.errors import NotFoundError, UnsupportedError
from lakebed.format.names.data_names import BaseFileName, parse_data_name
from lakebed.format.names.instant_name import Action, State
from lakebed.format.timeline.commit_metadata import KEEPS_COMMIT_TIMES
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import Instant
from lakebed.table.changes.commit_files import named_data_files
from lakebed.table.changes.commit_range import RangeCommit
from lakebed.table.files.file_group import DataFile, FileGroupId
from lakebed.table.files.pending_plans import groups_of_plan
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import TimelineInstant

_LOG_COMPACT = "LOG_COMPACT"


def superseded_files(snapshot: Snapshot, commits: Sequence[RangeCommit]) -> frozenset[str]:
    """Return the paths of files of the range that are not read because other files replace them.

    `commits` are the commits of the range by completion time. Raises UnsupportedError if a
    clustering moved rows whose commit is unknown.
    """
    inside = {commit.requested for commit in commits}
    ignored: set[str] = set()
    unclear: dict[FileGroupId, RangeCommit] = {}
    for commit in commits:
        if _changes_stamps(commit):
            originals = dict(_joined_logs(snapshot, commit))
            for group, _ in _files_of(commit):
                if not originals.get(group, frozenset({""})) <= inside:
                    unclear.setdefault(group, commit)
        if commit.is_service and unclear:
            _check_not_moved(commit, unclear)
            ignored.update(file.path for group, file in _files_of(commit) if group in unclear)
    return frozenset(ignored)


def _changes_stamps(commit: RangeCommit) -> bool:
    metadata = commit.metadata
    keeps = (metadata.extra_metadata or {}).get(KEEPS_COMMIT_TIMES) == "true"
    return metadata.operation_type == _LOG_COMPACT and not keeps


def _files_of(commit: RangeCommit) -> Iterator[tuple[FileGroupId, DataFile]]:
    for file in named_data_files(commit.requested, commit.metadata):
        yield file.group, file


def _check_not_moved(commit: RangeCommit, unclear: dict[FileGroupId, RangeCommit]) -> None:
    for group in commit.metadata.replaced_groups():
        before = unclear.get(FileGroupId(*group))
        if before is not None:
            raise UnsupportedError(
                f"commit {commit.requested} moved rows that the log compaction {before.requested} "
                "had rewritten, some of them from before the range: the rows of this range "
                "cannot be determined; start earlier or later, or read a snapshot"
            )


def _joined_logs(
    snapshot: Snapshot, commit: RangeCommit
) -> Iterator[tuple[FileGroupId, frozenset[Instant]]]:
    """Yield the instants of the logs that a log compaction merged, by file group."""
    what = f"the plan of log compaction {commit.requested}"
    data = _plan(snapshot, commit.requested)
    if data is None:
        return
    action, requested = Action.LOGCOMPACTION, commit.requested
    instant = TimelineInstant(requested, action, State.REQUESTED, None, action)
    for planned in groups_of_plan(instant, parse_plan(PlanKind.COMPACTION_PLAN, data, what)):
        # A plan also lists the base file of the slice, whose rows are not rewritten.
        parsed = [parse_data_name(name) for name in planned.files]
        logs = [name for name in parsed if not isinstance(name, BaseFileName)]
        yield planned.group, frozenset("" if name is None else name.instant for name in logs)


def _plan(snapshot: Snapshot, requested: Instant) -> bytes | None:
    found = snapshot.timeline.completed(requested)
    if found is not None:
        try:
            return snapshot.commits.active.read(found, State.REQUESTED)
        except NotFoundError:
            pass  # it was archived since the timeline was listed
    folder = snapshot.config.history_path
    for row in read_archived(snapshot.storage, folder, columns=("plan",), since=requested):
        if row.requested == requested:
            return row.plan
    return None
