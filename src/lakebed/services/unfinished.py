"""Completes an interrupted rollback or restore: every other change waits for it."""

from lakebed.commit.hold import hold_table
from lakebed.services.restore.execute import finish_restore
from lakebed.services.rollback.execute import finish_pending
from lakebed.write.pipeline import WriteTarget


def finish_unfinished(target: WriteTarget) -> None:
    """Complete interrupted restores and rollbacks.

    A process holds the lock while it executes a restore or rollback, so any that is pending under
    the lock was interrupted.
    """
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        finish_restore(hold)
        finish_pending(hold)
