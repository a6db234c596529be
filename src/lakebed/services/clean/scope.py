"""Decides in which partitions a clean may find something, from the commits alone.

A version of a file group can be deleted once a newer base file supersedes it or the file group is
replaced, and a commit lists both. Commits that an earlier clean has passed need no second look:
each of them was complete at the time.
"""

from typing import cast

from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import Instant
from lakebed.table.snapshot import Snapshot


def partitions_to_clean(snapshot: Snapshot) -> frozenset[str] | None:
    """Return the partitions in which something was superseded since the last clean; None for all.

    Leftovers of tasks are not looked for. With savepoints, now or at the last clean, any partition
    may have versions that they kept.
    """
    if snapshot.timeline.select(Action.SAVEPOINT):
        return None
    retained: Instant = ""
    for instant in snapshot.timeline.select(Action.CLEAN):
        if instant.is_completed:
            data = snapshot.commits.active.read(instant)
            clean = parse_plan(PlanKind.CLEAN, data, f"instant {instant.file_name}")
            if clean["extraMetadata"]:
                return None  # the savepoints that kept files
            retained = max(retained, cast("str", clean["earliestCommitToRetain"] or ""))
    found: set[str] = set()
    for commit in snapshot.timeline.commits:
        if commit.requested >= retained:
            found |= snapshot.commits.superseding(commit)
    return frozenset(found)
