"""Whether a moment of a table can still be read whole.

Cleaning deletes old file versions and archiving takes old instants away, so a moment in
the past may be gone for good. A reader that only lists files would give too few rows without a
word.
"""

from collections.abc import Iterable
from typing import cast

from lakebed.errors import InvalidError
from lakebed.format.commit_metadata import CommitMetadata
from lakebed.format.instant_name import Action, State
from lakebed.format.plans import PlanKind, parse_plan
from lakebed.storage.storage import Storage
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import read_archived
from lakebed.timeline.layout import has_archive
from lakebed.timeline.timeline import Timeline


def named_files(metadata: CommitMetadata) -> Iterable[str]:
    """Give the path of every data file that a commit names, its change data included."""
    for stats in metadata.partition_to_write_stats.values():
        for stat in stats:
            if stat.path:
                yield stat.path.lstrip("/")
            yield from (path.lstrip("/") for path in stat.cdc_stats or ())


def check_as_of(
    storage: Storage, active: ActiveTimeline, history_path: str, timeline: Timeline
) -> None:
    """Refuse a moment before what cleaning retained, or before the active timeline."""
    until = timeline.until
    if until is None:
        return
    retained = _earliest_retained(active, timeline)
    if retained and until < retained:
        raise InvalidError(
            f"as of {until}: the table was cleaned since and keeps the instants from {retained} on"
        )
    first = timeline.first_active
    if first is not None and until < first:
        archived = has_archive(storage, history_path) or any(
            True for _ in read_archived(storage, history_path, columns=())
        )
        if archived:
            raise InvalidError(
                f"as of {until}: that instant is archived, and the active timeline begins at {first}"
            )


def _earliest_retained(active: ActiveTimeline, timeline: Timeline) -> str:
    """Give the instant that cleans retain from, also of one that is only just deleting."""
    retained = ""
    for instant in timeline.select(Action.CLEAN):
        what = f"instant {instant.file_name}"
        if instant.is_completed:
            clean = parse_plan(PlanKind.CLEAN, active.read(instant), what)
            found = cast("str", clean["earliestCommitToRetain"] or "")
        elif data := active.read(instant, State.REQUESTED):
            plan = parse_plan(PlanKind.CLEANER_PLAN, data, what)
            earliest = cast("dict[str, str]", plan["earliestInstantToRetain"] or {})
            found = earliest.get("timestamp", "")
        else:
            continue
        retained = max(retained, found)
    return retained
