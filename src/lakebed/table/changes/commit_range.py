"""Selects the commits that a read of a time range covers: the commits that completed in it.

As in Hudi 1.x (IncrementalQueryAnalyzer) a commit belongs to the range if its completion time is
greater than `since` and not greater than `until`. A reader that continues from the completion time
of the last commit it saw misses none, even if writers overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from lakebed.errors import InvalidError, UnsupportedError
from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.instant import Instant
from lakebed.table.config.table_config import TableConfig, TableType
from lakebed.table.files.retention import rewrites
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.archived import read_archived
from lakebed.timeline.timeline import COMMIT_ACTIONS, PLANNED_ACTIONS, TimelineInstant

_META_FIELDS = "hoodie.populate.meta.fields"
# From table version 10 on, this property selects all meta columns or some of them.
_META_MODE = "hoodie.meta.fields.mode"
# The first version whose timeline stores completion times.
_COMPLETION_TIMES = 8


@dataclass(frozen=True, slots=True)
class RangeCommit:
    """A completed commit in the range; a table service (`is_service`) changes no rows."""

    requested: Instant
    completion: Instant
    metadata: CommitMetadata
    is_service: bool


def check_range(config: TableConfig, since: Instant | None, until: Instant | None) -> None:
    """Raise an error if the range is empty, or if the table's rows do not store their commit."""
    if since is not None and until is not None and since > until:
        raise InvalidError(f"since={since} is after until={until}: expected a range of time")
    if not config.has_meta_columns:
        raise UnsupportedError(
            f"table {config.name!r} has {_META_FIELDS}=false: its rows do not say which commit "
            "wrote them, so changes cannot be read; read snapshots"
        )
    mode = config.properties.get(_META_MODE, "").strip().upper() or "ALL"
    if mode != "ALL":
        raise UnsupportedError(
            f"table {config.name!r} has {_META_MODE}={mode}: its rows lack their keys or the "
            "commit that wrote them, so changes cannot be read; read snapshots"
        )
    if config.version < _COMPLETION_TIMES and config.table_type is TableType.MERGE_ON_READ:
        raise UnsupportedError(
            f"table {config.name!r} has version {config.version}: changes of merge-on-read tables "
            f"can be read from version {_COMPLETION_TIMES} on; upgrade it with Hudi"
        )


def commits_between(
    snapshot: Snapshot, since: Instant | None, until: Instant | None
) -> tuple[RangeCommit, ...]:
    """Return the commits of the range, archived ones included, in order of completion."""
    check_range(snapshot.config, since, until)
    found = [
        range_commit(snapshot, commit)
        for commit in snapshot.timeline.commits
        if commit.completion is not None and _is_between(commit.completion, since, until)
    ]
    found += _archived_between(snapshot, since, until)
    return tuple(sorted(found, key=lambda commit: commit.completion))


def range_commit(snapshot: Snapshot, commit: TimelineInstant) -> RangeCommit:
    """Return a completed commit of the active timeline with its content."""
    metadata = snapshot.commits.read(commit)
    service = _is_service(snapshot.config, commit, metadata)
    assert commit.completion is not None, commit
    return RangeCommit(commit.requested, commit.completion, metadata, service)


def archived_commits(
    snapshot: Snapshot, first: Instant | None = None
) -> Iterator[tuple[Instant, Instant, CommitMetadata]]:
    """Yield requested time, completion time and content of the archived commits."""
    folder = snapshot.config.history_path
    for row in read_archived(snapshot.storage, folder, since=first):
        if row.action in COMMIT_ACTIONS and row.metadata is not None:
            what = f"archived {row.action} {row.requested}"
            yield row.requested, row.completion, CommitMetadata.parse(row.metadata, what)


def _archived_between(
    snapshot: Snapshot, since: Instant | None, until: Instant | None
) -> list[RangeCommit]:
    folder = snapshot.config.history_path
    # The listing takes a few bytes per instant; content is read only for the instants in range.
    wanted = {
        row.requested
        for row in read_archived(snapshot.storage, folder, columns=())
        if row.action in COMMIT_ACTIONS
        and _is_between(row.completion, since, until)
        and snapshot.timeline.completed(row.requested) is None
    }
    if not wanted:
        return []
    return [
        RangeCommit(requested, completion, metadata, rewrites(metadata))
        for requested, completion, metadata in archived_commits(snapshot, min(wanted))
        if requested in wanted
    ]


def _is_between(completion: Instant, since: Instant | None, until: Instant | None) -> bool:
    return (since is None or completion > since) and (until is None or completion <= until)


def _is_service(config: TableConfig, commit: TimelineInstant, metadata: CommitMetadata) -> bool:
    # On a merge-on-read table writers only create deltacommits and replacecommits.
    compacts = config.table_type is TableType.MERGE_ON_READ and commit.action is Action.COMMIT
    return compacts or commit.plan_action in PLANNED_ACTIONS or rewrites(metadata)
