"""Whether a compaction is due, counted as in Hudi (ScheduleCompactionActionExecutor)."""

from lakebed.format.names.instant_name import Action
from lakebed.model.instant import Instant, parse_instant
from lakebed.model.options.services import CompactionMode, CompactionOptions, Trigger
from lakebed.timeline.timeline import Timeline, TimelineInstant


def is_due(
    timeline: Timeline, options: CompactionOptions, mode: CompactionMode, now: Instant, zone: str
) -> bool:
    """Return whether a compaction of `mode` is due at `now`.

    Delta commits and time count from the last completed compaction on, or from the last planned one
    if the strategy says so; before the first compaction, from the first delta commit on. Log
    compaction is due when enough delta commits came since the last compaction of either kind.
    """
    if mode is CompactionMode.LOG:
        kinds = (_last_compaction(timeline), _last_log_compaction(timeline))
        return min(_delta_commits(timeline, last) for last in kinds) >= options.blocks_threshold
    last = _last_compaction(timeline)
    if options.trigger is Trigger.NUM_COMMITS_AFTER_LAST_REQUEST:
        last = _last_request(timeline) or last
    enough = _delta_commits(timeline, last) >= options.max_delta_commits
    if options.trigger in (Trigger.NUM_COMMITS, Trigger.NUM_COMMITS_AFTER_LAST_REQUEST):
        return enough
    since = last or _first_delta_commit(timeline)
    if since is None:
        return False
    elapsed = parse_instant(now, zone) // 1000 - parse_instant(since.requested, zone) // 1000
    late = elapsed >= options.max_delta_seconds
    if options.trigger is Trigger.TIME_ELAPSED:
        return late
    return enough and late if options.trigger is Trigger.NUM_AND_TIME else enough or late


def _last_compaction(timeline: Timeline) -> TimelineInstant | None:
    """Return the last completed commit: on a merge-on-read table only compactions are commits."""
    return next((i for i in reversed(timeline.commits) if i.action is Action.COMMIT), None)


def _last_log_compaction(timeline: Timeline) -> TimelineInstant | None:
    joined = (i for i in reversed(timeline.commits) if i.plan_action is Action.LOGCOMPACTION)
    return next(joined, None)


def _last_request(timeline: Timeline) -> TimelineInstant | None:
    pending = timeline.pending(Action.COMPACTION)
    return pending[-1] if pending else None


def _first_delta_commit(timeline: Timeline) -> TimelineInstant | None:
    return next((i for i in timeline.commits if i.action is Action.DELTACOMMIT), None)


def _delta_commits(timeline: Timeline, since: TimelineInstant | None) -> int:
    return sum(
        instant.action is Action.DELTACOMMIT
        and (since is None or instant.requested > since.requested)
        for instant in timeline.commits
    )
