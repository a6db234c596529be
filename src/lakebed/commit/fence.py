"""Keep a write that has completed or was rolled back from leaving files behind.

A base file of an instant that never completes would make Hudi lose later logs, and Hudi reads a
file that appears after its commit as data, even if no commit lists it. So a task checks that its
write is still in progress, before and after it makes a file visible.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lakebed.commit.heartbeat import read_beat
from lakebed.errors import ConflictError
from lakebed.format.timeline.heartbeat import heartbeat_path
from lakebed.storage.storage import Storage


@dataclass(frozen=True, slots=True)
class Fence:
    """One attempt at an instant, for its tasks to check."""

    storage: Storage
    instant: str
    owner: str

    def check(self) -> None:
        """Raise ConflictError if the attempt is no longer in progress.

        Call this right before closing a file.
        """
        beat = read_beat(self.storage, heartbeat_path(self.instant))
        if beat is None or beat.owner != self.owner:
            raise ConflictError(
                f"instant {self.instant}: the write is over or was rolled back while this task was "
                "still writing"
            )

    def check_written(self, paths: Iterable[str]) -> None:
        """Raise ConflictError if the attempt is no longer in progress, after deleting `paths`."""
        try:
            self.check()
        except ConflictError:
            for path in paths:
                self.storage.delete(path)
            raise
