"""The active timeline on storage: load it, and move instants from state to state.

Every change writes one small object atomically, and no object is ever replaced. The completed file
is the commit: before it exists, readers see nothing of an instant; afterwards, all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakebed.errors import (
    ConflictError,
    ExistsError,
    InvalidError,
    NotFoundError,
    UnsupportedError,
)
from lakebed.format.names.instant_name import LAYOUT_1, Action, InstantName, State
from lakebed.format.timeline.ocf import Record
from lakebed.format.timeline.plans import PlanKind, parse_plan
from lakebed.model.instant import Instant
from lakebed.storage.storage import Storage
from lakebed.timeline.layout import layout_of
from lakebed.timeline.timeline import Timeline, TimelineInstant

TIMELINE_FOLDER: Final = ".hoodie/timeline"


_MAX_LISTINGS: Final = 100


def load_timeline(storage: Storage, folder: str = TIMELINE_FOLDER) -> Timeline:
    """Load all instants by listing the folder; no file is opened.

    A listing is returned in pages and is not a snapshot. Names begin with the requested time, so a
    listing can show one commit and miss another that completed earlier, but whose name belongs on a
    page that had already been read. An incremental reader would never see the missed commit. So the
    folder is listed twice. If both listings agree, nothing was missed. Otherwise, the second
    listing contains every instant that completed up to the last completion in the first listing;
    instants completed later are treated as pending.

    While instants are being archived, a listing may also show an instant and miss a later one.
    Instants are archived oldest first, so if the oldest commit still exists, nothing was missed.
    """
    layout = layout_of(folder)
    names = storage.names(folder)
    for _ in range(_MAX_LISTINGS):
        before, names = names, storage.names(folder)
        if set(before) == set(names):
            return Timeline.parse(names, layout)
        # In layout 1, file names do not contain completion times, so both listings must agree.
        if layout == LAYOUT_1:
            continue
        horizon = Timeline.parse(before, layout).last_completion
        timeline = Timeline.parse(names, layout, completed_by=horizon)
        if _is_there(storage, folder, timeline.commits[:1]):
            return timeline
    raise ConflictError(
        f"timeline {storage.url}/{folder}: it changed during each of {_MAX_LISTINGS} listings; "
        "read the table again"
    )


def _is_there(storage: Storage, folder: str, commits: Sequence[TimelineInstant]) -> bool:
    try:
        for commit in commits:
            storage.head(f"{folder}/{commit.file_name}")
    except NotFoundError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class ActiveTimeline:
    """The active timeline in `folder` of a table (`hoodie.timeline.path` below `.hoodie`).

    A timeline of layout 1, which is in `.hoodie` itself, is read-only.

    Writers call `create_requested`, `transition_to_inflight` and `complete` in this order. The
    calls raise ConflictError if another writer has rolled back the instant, ExistsError if another
    has already taken the step.
    """

    storage: Storage
    folder: str = TIMELINE_FOLDER

    def load(self) -> Timeline:
        """Load all instants by listing the folder; no file is opened."""
        return load_timeline(self.storage, self.folder)

    def read(self, instant: TimelineInstant, state: State | None = None) -> bytes:
        """Read the instant's file for `state`, by default its newest.

        The requested file contains the plan of a table service, even after the service has
        completed. Raises NotFoundError if there is no such file.
        """
        return self.storage.read(self._path(instant.name_of(state or instant.state)))

    def read_plan(
        self, kind: PlanKind, instant: TimelineInstant, state: State | None = None
    ) -> Record:
        """Read and parse a plan, or a result other than a commit, as `read` does."""
        name = instant.name_of(state or instant.state).encode()
        return parse_plan(kind, self.read(instant, state), f"instant {name}")

    def create_requested(
        self, action: Action, requested: Instant, content: bytes = b""
    ) -> TimelineInstant:
        """Create a requested instant; raise ExistsError if it exists."""
        if action is Action.SAVEPOINT:
            raise InvalidError(f"savepoint {requested}: a savepoint has no requested file")
        return self._create_pending(action, requested, State.REQUESTED, content)

    def transition_to_inflight(
        self, action: Action, requested: Instant, content: bytes = b""
    ) -> TimelineInstant:
        """Mark a requested instant as in flight; raise ConflictError if it was rolled back."""
        # A savepoint has no plan, so it has no requested file.
        if action is not Action.SAVEPOINT:
            path = self._path(InstantName(requested, action, State.REQUESTED))
            try:
                self.storage.head(path)
            except NotFoundError as error:
                raise ConflictError(
                    f"instant {path}: no longer requested: another writer rolled it back"
                ) from error
        return self._create_pending(action, requested, State.INFLIGHT, content)

    def complete(
        self, action: Action, requested: Instant, completion: Instant, content: bytes
    ) -> TimelineInstant:
        """Complete a pending instant, under the completed name of its action.

        Raises ExistsError if another process has completed it, ConflictError if it was rolled back.
        The caller must hold the table's lock: names of completed files contain the completion time,
        so two writers that complete one instant at different times would both succeed.
        """
        self._check_written()
        if completion <= requested:
            raise InvalidError(
                f"{action} {requested}: expected a completion time after it, found {completion}"
            )
        path = self._path(InstantName(requested, action.completed, State.COMPLETED, completion))
        known = self.load().find(requested, action)
        if known is None:
            raise ConflictError(
                f"instant {path}: expected a pending {action}, found none: another writer rolled it back"
            )
        if known.is_completed:
            raise ExistsError(f"instant {path}: already completed at {known.completion}")
        self.storage.put_if_absent(path, content)
        return TimelineInstant(requested, action.completed, State.COMPLETED, completion, action)

    def delete_pending(self, action: Action, requested: Instant) -> None:
        """Delete the in-flight file, then the requested file, as the last step of a rollback.

        After a crash between the two, a requested instant remains, which is rolled back again.
        Missing files are not an error.
        """
        self._check_written()
        for state in (State.INFLIGHT, State.REQUESTED):
            self.storage.delete(self._path(InstantName(requested, action, state)))

    def _create_pending(
        self, action: Action, requested: Instant, state: State, content: bytes
    ) -> TimelineInstant:
        self._check_written()
        self.storage.put_if_absent(self._path(InstantName(requested, action, state)), content)
        return TimelineInstant(requested, action, state, None, action)

    def _check_written(self) -> None:
        """Raise UnsupportedError for a timeline of layout 1, which is read-only."""
        if layout_of(self.folder) == LAYOUT_1:
            raise UnsupportedError(
                f"timeline {self.folder}: expected layout 2 to write, found layout 1 (table version 6), "
                "which is read only here; upgrade the table with Apache Hudi first"
            )

    def _path(self, name: InstantName) -> str:
        return f"{self.folder}/{name.encode()}"
