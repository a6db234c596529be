"""Decides whether a data file is visible, by the instant in its name and the timeline."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from lakebed.format.names.instant_name import LAYOUT_1, Action
from lakebed.table.files.file_group import DataFile, LogFile
from lakebed.timeline.timeline import WRITE_ACTIONS, Timeline, TimelineInstant

_LATEST = "9" * 17


class Visibility(Enum):
    """The status of a file for a reader of one timeline."""

    DATA = "data"
    # A file of an instant that is pending, after the requested time, or not known yet.
    UNSETTLED = "unsettled"
    # A file of a task that ran twice or closed late, or of an instant that was rolled back.
    LEFTOVER = "leftover"


@dataclass(frozen=True, slots=True)
class VisibilityRules:
    """Decides which files are visible on one timeline.

    `named` returns the paths that a completed commit lists, or None if the commit cannot be read:
    then all files of its instant are visible.
    """

    timeline: Timeline
    layout: int
    named: Callable[[TimelineInstant], Collection[str] | None]

    def of(self, file: DataFile) -> Visibility:
        """Return the status of a file.

        A file that is newer than the whole timeline, or than a pending instant, may belong to a
        writer that has just started.
        """
        timeline, instant = self.timeline, file.name.instant
        if isinstance(file, LogFile) and self.layout == LAYOUT_1:
            # A log is named after the base instant of its slice, and no block is older than that. A
            # rollback appends blocks to the log, and no commit lists these blocks.
            seen = timeline.until is None or instant <= timeline.until
            return Visibility.DATA if seen else Visibility.UNSETTLED
        commit = timeline.completed(instant)
        if commit is not None:
            return self._of_commit(file, commit)
        if timeline.is_committed(instant):
            return Visibility.DATA  # archived: older than the timeline, hence committed
        if timeline.is_archived(instant) or any(i.requested == instant for i in timeline.instants):
            return Visibility.UNSETTLED
        first_pending = next((i.requested for i in timeline.pending(*WRITE_ACTIONS)), _LATEST)
        is_over = instant < min(timeline.last_instant or "", first_pending)
        return Visibility.LEFTOVER if is_over else Visibility.UNSETTLED

    def _of_commit(self, file: DataFile, commit: TimelineInstant) -> Visibility:
        if isinstance(file, LogFile) and commit.action is Action.REPLACECOMMIT:
            # While buckets are resized, deltacommits write logs named after the clustering.
            return Visibility.DATA
        named = self.named(commit)
        return Visibility.DATA if named is None or file.path in named else Visibility.LEFTOVER
