"""A planned instant that is taken, and refused at its very end."""

import pytest

from lakebed.commit.claim import claim
from lakebed.errors import ConflictError
from lakebed.format.timeline.commit_metadata import CommitMetadata
from lakebed.model.clock import ManualClock
from support.tables import batch, contents, make, reopen, user_rows


def test_an_attempt_that_is_refused_at_its_end_leaves_its_plan_and_no_file():
    table = make(table_type="MERGE_ON_READ")
    table.upsert(batch(("a", 1, 1, "p")))
    table.upsert(batch(("a", 2, 2, "p")))
    table.schedule_compaction(force=True)
    table = reopen(table._storage)
    rows = user_rows(table)
    snapshot = table._snapshot(None)
    [planned] = snapshot.timeline.pending()
    path = f"p/00000000-left-0_0-0-0_{planned.requested}.parquet"

    def refuse(_):
        raise ConflictError("a write came in between")

    with (
        pytest.raises(ConflictError, match="in between"),
        claim(table._storage, ManualClock(), snapshot.commits, planned) as taken,
    ):
        table._storage.put(path, b"x")
        taken.complete(CommitMetadata(operation_type="COMPACT"), (), refuse)
    assert path not in contents(table._storage)
    assert [instant.requested for instant in taken.active.load().pending()] == [planned.requested]
    table = reopen(table._storage)
    table.compact()
    assert user_rows(reopen(table._storage)) == rows
