"""The content of the commits of a timeline, read once and kept while their instants are listed."""

from dataclasses import dataclass, field

from lakebed.errors import ConflictError, CorruptError, NotFoundError
from lakebed.format.names.instant_name import LAYOUT_1, Action, State
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.table.files.archived_files import ArchivedFiles, read_archived_files
from lakebed.table.files.pending_plans import PlannedGroup, planned_groups
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.archived import HISTORY_FOLDER, find_archived
from lakebed.timeline.timeline import Timeline, TimelineInstant

_HELD_AT_LEAST = 100


@dataclass(slots=True)
class CommitCache:
    """Commit metadata by completed instant; each is read once, since it never changes."""

    active: ActiveTimeline
    history_path: str = HISTORY_FOLDER
    _held: dict[str, CommitMetadata] = field(default_factory=dict, init=False)
    _plans: dict[str, list[PlannedGroup]] = field(default_factory=dict, init=False)
    _archived: tuple[str | None, ArchivedFiles | None] | None = field(default=None, init=False)

    def read(self, instant: TimelineInstant) -> CommitMetadata:
        """Return the metadata of the completed `instant`."""
        found = self._held.get(instant.requested)
        if found is None:
            name = instant.name_of(State.COMPLETED).encode()
            data = self._read(instant)
            try:
                found = CommitMetadata.parse(data, f"instant {name}", instant.layout)
            except CorruptError as error:
                raise CorruptError(
                    f"{error}. Restore the file from a backup; or roll the commit back with "
                    f"rollback({instant.requested!r}), if it is the newest; or restore a savepoint "
                    "before it"
                ) from error
            self._held[instant.requested] = found
        return found

    def archived_files(self, timeline: Timeline) -> ArchivedFiles | None:
        """Return the files that archived commits left behind; None if they are unknown.

        The record is read again after archiving.
        """
        first = timeline.commits[0].requested if timeline.commits else None
        if self._archived is None or self._archived[0] != first:
            try:
                found = read_archived_files(self.active.storage)
            except CorruptError:
                found = None  # verify reports it; the next archiving rewrites it
            self._archived = (first, found)
        found = self._archived[1]
        return found if found is not None and found.fits(timeline) else None

    def pending_compactions(self, timeline: Timeline) -> tuple[PlannedGroup, ...]:
        """Return the file groups of the compactions that are pending on `timeline`."""
        pending = timeline.pending(Action.COMPACTION)
        if unknown := [plan for plan in pending if plan.requested not in self._plans]:
            read = planned_groups(self.active, Timeline(tuple(unknown)), Action.COMPACTION)
            found = {plan.requested: list[PlannedGroup]() for plan in unknown}
            for group in read:
                found[group.instant.requested].append(group)
            self._plans |= found
        return tuple(group for plan in pending for group in self._plans[plan.requested])

    def forget_others(self, timeline: Timeline) -> None:
        """Drop commits that are no longer on the timeline: a job may run for months."""
        pending = {plan.requested for plan in timeline.pending(Action.COMPACTION)}
        self._plans = {name: plan for name, plan in self._plans.items() if name in pending}
        if len(self._held) > 2 * len(timeline.instants) + _HELD_AT_LEAST:
            known = {instant.requested for instant in timeline.instants}
            self._held = {name: held for name, held in self._held.items() if name in known}

    def _read(self, instant: TimelineInstant) -> bytes:
        try:
            return self.active.read(instant)
        except NotFoundError as error:
            if instant.layout == LAYOUT_1:
                raise ConflictError(
                    f"instant {instant.file_name}: archived or rolled back while the table was read; "
                    "read again"
                ) from error
            # It was archived since the timeline was listed; the archive has the same bytes.
            storage, action = self.active.storage, str(instant.action)
            row = find_archived(storage, instant.requested, action, self.history_path)
            if row is None or row.metadata is None:
                raise
            return row.metadata
