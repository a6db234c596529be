"""Execute a planned instant in one process at a time, without holding the lock."""

from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.commit.attempt import Attempt, finishing
from lakebed.commit.hold import hold_table
from lakebed.commit.lock import LOCK_WAIT_SECONDS
from lakebed.errors import ConflictError, TakenError
from lakebed.model.clock import Clock
from lakebed.storage.storage import Storage
from lakebed.table.files.commit_cache import CommitCache
from lakebed.timeline.timeline import TimelineInstant


@contextmanager
def claim(
    storage: Storage,
    clock: Clock,
    commits: CommitCache,
    instant: TimelineInstant,
    *,
    wait_seconds: float = LOCK_WAIT_SECONDS,
) -> Iterator[Attempt]:
    """Claim a requested instant and yield an attempt at it; if that fails, the plan stays pending.

    Raises TakenError if a live process has claimed the instant, ConflictError if the instant no
    longer exists or is already completed. Files that a dead process left are deleted first.
    """
    with hold_table(storage, clock, commits, wait_seconds=wait_seconds) as hold:
        found = hold.timeline.find(instant.requested, instant.plan_action)
        if found is None or found.is_completed:
            state = "gone" if found is None else f"completed at {found.completion}"
            raise ConflictError(
                f"{storage.url}: {instant.plan_action} {instant.requested} is {state}; there is "
                "nothing left to do"
            )
        if hold.is_alive(found):
            raise TakenError(
                f"{storage.url}: {found.plan_action} {found.requested} is being executed by "
                "another process; wait for it"
            )
        taken = Attempt.start(
            hold, hold.snapshot, found, wait_seconds=wait_seconds, keeps_plan=True
        )
    with finishing(taken):
        yield taken
