"""What the tasks of a write know, without a write."""

from typing import Any

from lakebed.commit.fence import Fence
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.index.kinds import strategy_of
from lakebed.index.strategy import NewWrite
from lakebed.storage.objects import memory_storage
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.commit_cache import CommitCache
from lakebed.table.snapshot import Snapshot
from lakebed.table.view import TableView
from lakebed.timeline.active import ActiveTimeline
from lakebed.timeline.timeline import Timeline
from lakebed.write.spec.operation import UPSERT, Operation
from lakebed.write.spec.write_spec import WriteSpec
from support.tables import SCHEMA, settle

INSTANT = "20240101000000000"
SEED = "00000000-0000-0000-8000-000000000001"


class OpenFence(Fence):
    """Lets every file pass: there is no write that could be over."""

    def __init__(self) -> None:
        super().__init__(memory_storage(), INSTANT, "nobody")

    def check(self) -> None:
        pass


def make_spec(
    memory_bytes: int = 1 << 20, operation: Operation = UPSERT, **changes: Any
) -> WriteSpec:
    """Return the spec of a write of SCHEMA to a table as `settle` makes it."""
    config = TableConfig.parse(settle(**changes), "here")
    assert config.index is not None
    storage = memory_storage()
    commits = CommitCache(ActiveTimeline(storage, config.timeline_path), config.history_path)
    snapshot = Snapshot(storage, config, Timeline(), commits)
    return WriteSpec(
        view=TableView(storage, config, Timeline(), SCHEMA, arrow_to_avro(SCHEMA, "t")),
        index=config.index,
        locator=strategy_of(config.index).locator(
            NewWrite(snapshot, INSTANT, SEED, operation.name)
        ),
        operation=operation,
        schema=SCHEMA,
        instant=INSTANT,
        fence=OpenFence(),
        seed=SEED,
        memory_bytes=memory_bytes,
    )
