"""Determines the partitions in which a clean may find files to delete, from the commits alone.

A version of a file group can be deleted once a newer base file supersedes it or the file group is
replaced, and commits list both events. Commits before the instant from which the last clean retains
files need not be examined again.
"""

from typing import cast

from lakebed.format.names.instant_name import Action
from lakebed.format.timeline.plans import PlanKind
from lakebed.model.instant import Instant
from lakebed.table.snapshot import Snapshot


def partitions_to_clean(snapshot: Snapshot) -> frozenset[str] | None:
    """Return the partitions in which files were superseded since the last clean; None for all.

    Leftover files of tasks are not considered. If there are savepoints, or files were kept for
    savepoints at an earlier clean, any partition may have versions to delete.
    """
    if snapshot.timeline.select(Action.SAVEPOINT):
        return None
    retained: Instant = ""
    for instant in snapshot.timeline.ended(Action.CLEAN):
        clean = snapshot.commits.active.read_plan(PlanKind.CLEAN, instant)
        if clean["extraMetadata"]:
            return None  # savepoints kept files then
        retained = max(retained, cast("str", clean["earliestCommitToRetain"] or ""))
    found: set[str] = set()
    for commit in snapshot.timeline.commits:
        if commit.requested >= retained:
            found |= snapshot.commits.superseding(commit)
    return frozenset(found)
