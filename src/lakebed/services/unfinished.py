"""Finish what a dead process began: every other change waits for it."""

from lakebed.commit.hold import hold_table
from lakebed.services.restore.execute import finish_restore
from lakebed.services.rollback.execute import finish_pending
from lakebed.write.pipeline import WriteTarget


def finish_unfinished(target: WriteTarget) -> None:
    """Finish restores and rollbacks that are half done.

    Whoever is at one holds the lock all along, so what is found pending under the lock has
    nobody any more.
    """
    with hold_table(target.storage, target.clock, target.commits, clear=False) as hold:
        finish_restore(hold)
        finish_pending(hold)
