"""Whether a compaction can be removed from the timeline without moving the logs on top of it.

A log that completed after the plan is on top of the files that the plan merges, whatever its
instant. Without the plan the log would replay by its instant, and meet deletes that the plan drops.
"""

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.names.data_names import replay_key
from lakebed.format.names.instant_name import Action
from lakebed.table.config.tombstone_retention import tombstone_cutoff
from lakebed.table.files.file_group import FileSlice
from lakebed.table.files.pending_plans import groups_of
from lakebed.table.snapshot import Snapshot
from lakebed.timeline.timeline import TimelineInstant


def check_order_is_kept(snapshot: Snapshot, instant: TimelineInstant) -> None:
    """Raise InvalidError if rows would change when the compaction `instant` is dropped."""
    if instant.plan_action is not Action.COMPACTION or not snapshot.config.is_lsm_tree:
        return
    try:
        groups = groups_of(snapshot.commits.active, instant)
    except CorruptError:
        return  # nothing on top of it can be read until it is dropped
    for planned in groups:
        if not planned.is_full:
            continue
        slices = snapshot.groups.get(planned.group, ())
        below = [slice_ for slice_ in slices if slice_.instant < instant.requested]
        above = [slice_ for slice_ in slices if slice_.instant == instant.requested]
        cutoff = tombstone_cutoff(snapshot.config, instant.requested, planned.cutoff)
        late = _moved(below, above, cutoff)
        if late is not None:
            raise InvalidError(
                f"compaction {instant.requested}: write {late} has completed on top of it in file "
                f"group {planned.group.file_id}, and would merge with other rows and deletes "
                f"without it; execute the plan instead: compact(instant={instant.requested!r})"
            )


def _moved(below: list[FileSlice], above: list[FileSlice], cutoff: str) -> str | None:
    """Return the instant of a log on top of the plan that depends on it, or None."""
    late = [log for slice_ in above for log in slice_.log_files]
    if not late:
        return None
    older = [log for slice_ in below for log in (*slice_.tombstones, *slice_.log_files)]
    first = min(late, key=lambda log: replay_key(log.name))
    last = max((replay_key(log.name) for log in older), default=None)
    forgets = any(slice_.tombstones for slice_ in below) or any(
        log.name.instant < cutoff for log in older
    )
    moves = last is not None and replay_key(first.name) < last
    return first.name.instant if moves or (cutoff and forgets) else None
