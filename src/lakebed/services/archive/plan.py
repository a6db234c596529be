"""Decides which instants leave the active timeline, without access to storage.

Agrees with Hudi's TimelineArchiverV2. Readers treat every write that is older than the active
timeline as committed, so only its beginning can be archived: completed commits without a gap, and
the cleans and rollbacks among them.
"""

from lakebed.format.names.instant_name import Action
from lakebed.model.instant import Instant, parse_instant
from lakebed.model.options.services import ArchiveOptions
from lakebed.services.clean.plan import by_policy
from lakebed.table.config.table_config import TableType
from lakebed.timeline.timeline import COMMIT_ACTIONS, WRITE_ACTIONS, Timeline, TimelineInstant

_NEVER = "9" * 20
_ALONG = frozenset({Action.CLEAN, Action.ROLLBACK})

MOVABLE = COMMIT_ACTIONS | _ALONG
"""Actions that are archived once completed; savepoints, restores and indexing stay."""


def plan_archive(
    timeline: Timeline,
    options: ArchiveOptions,
    table_type: TableType,
    zone: str,
    keep_from: Instant | None = None,
) -> tuple[TimelineInstant, ...]:
    """Return the instants to archive, oldest first.

    `keep_from` is the first commit that other services still need on the timeline.
    """
    commits = timeline.commits
    least, most = _bounds(timeline, options, zone)
    if len(commits) <= most:
        return ()
    limit = min(
        _before_pending(timeline),
        _for_compaction(timeline, options, table_type),
        _first_savepoint(timeline),
        keep_from or _NEVER,
    )
    gone = [commit for commit in commits[: len(commits) - least] if commit.requested < limit]
    if not gone:
        return ()
    last = gone[-1].requested
    along = [instant for instant in timeline.ended(*_ALONG) if instant.requested < last]
    return tuple(sorted([*gone, *along], key=lambda instant: (instant.requested, instant.action)))


def _bounds(timeline: Timeline, options: ArchiveOptions, zone: str) -> tuple[int, int]:
    """Return how many commits to leave, and how many there must be before archiving starts.

    The commits that cleaning retains stay on the active timeline, plus two as in Hudi: a read as of
    an instant needs its commits there.
    """
    commits = timeline.commits
    least, most = options.min_commits, options.max_commits
    if not commits:
        return least, most
    latest_ms = parse_instant(commits[-1].requested[:17], zone)
    retained = by_policy(timeline, options.clean, latest_ms, zone)
    if not retained:
        return least, most
    needed = sum(commit.requested > retained for commit in commits) + 2
    return (least, most) if needed <= least else (needed, needed + most - least)


def _before_pending(timeline: Timeline) -> Instant:
    """Return the first instant to keep for pending writes: the last commit before them.

    The files of a pending write must stay invisible. Commits that completed since it started stay
    too: when it completes, it checks for conflicts with them, which the archive does not show.
    """
    pending = next((i.requested for i in timeline.pending(*WRITE_ACTIONS)), None)
    if pending is None:
        return _NEVER
    before = (c.requested for c in timeline.commits if c.requested < pending)
    since = (c.requested for c in timeline.commits if (c.completion or _NEVER) > pending)
    return min((max(before, default=pending), *since))


def _for_compaction(timeline: Timeline, options: ArchiveOptions, table_type: TableType) -> Instant:
    """Return the first instant that counts towards scheduling the next compaction."""
    if table_type is not TableType.MERGE_ON_READ:
        return _NEVER
    compactions = [c.requested for c in timeline.commits if c.action is Action.COMMIT]
    since = compactions[-1] if compactions else ""
    deltas = [
        commit.requested
        for commit in timeline.commits
        if commit.action is Action.DELTACOMMIT and (commit.completion or "") > since
    ]
    if len(deltas) >= options.delta_commits:
        return deltas[-options.delta_commits]
    return since or (deltas[0] if deltas else _NEVER)


def _first_savepoint(timeline: Timeline) -> Instant:
    return next((i.requested for i in timeline.select(Action.SAVEPOINT)), _NEVER)
