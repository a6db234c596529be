"""Random histories with compactions between and around them, against a dictionary."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from lakebed.api.table import Table
from lakebed.format.names.bucket_hash import bucket_of_file_id
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import CompactionOptions
from lakebed.services.compaction.execute import execute_compaction
from lakebed.services.compaction.plan_file import Kind
from lakebed.services.compaction.schedule import Scheduled, schedule_compaction
from lakebed.storage.objects import memory_storage
from support.lsm_machine import OPERATIONS, LsmMachine, shapes_of
from support.lsm_model import COLUMNS, Ident, Row, Shape, Version
from support.machines import run_machine
from support.tables import make, reopen

START = 1_700_000_000_000
# So that a small table meets both kinds: logs are joined unless they are as large as this.
HYBRID = CompactionOptions(blocks_threshold=2, log_ratio=2.0)


class CompactingMachine(LsmMachine):
    """A table in memory that is compacted at any time."""

    def make(self, shape: Shape) -> Table:
        self.storage = memory_storage()
        self.clock = ManualClock(step_ms=1)
        return make(
            self.storage,
            self.clock,
            COLUMNS,
            key=shape.key,
            ordering=shape.ordering,
            partition_by=shape.partition_by,
            table_type=shape.table_type,
            index=shape.index,
            buckets=shape.buckets,
            layout=shape.layout,
            table_version=shape.version,
            properties={"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"},
        )

    def again(self) -> Table:
        self.clock.ms = START
        return reopen(self.storage, self.clock)

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.pending: Scheduled | None = None
        self.marked: dict[Ident, tuple[Version, ...]] = {}
        self.changed: set[str] = set()
        super().create(data)

    @rule(mode=st.sampled_from(["full", "log", "hybrid"]), later=st.booleans())
    def compact(self, mode: str, later: bool) -> None:
        """Compact at once, or plan it and go on writing."""
        self.finish()
        is_bucket = self.shape.index == "bucket"
        if mode == "hybrid" and not is_bucket:
            mode = "full"
        options = HYBRID if mode == "hybrid" else None
        target = self.again()._target()
        self.pending = schedule_compaction(target, options, mode, force=True)
        if self.pending is None:
            return
        groups = {
            (operation.group.partition, bucket_of_file_id(operation.group.file_id))
            for operation in self.pending.plan.operations
            if operation.kind is Kind.FULL
        }
        self.marked = {
            ident: held
            for ident, held in self.model.versions.items()
            if (not is_bucket and mode == "full")
            or (is_bucket and self.shape.group(*ident) in groups)
        }
        # As of its instant it counts, and what came later does not.
        self._done(self.pending.instant.requested)
        if not later or not is_bucket or mode == "log":
            self.finish()

    def finish(self) -> None:
        """Carry out what is planned. Logs that came since go on top of the new base files."""
        if self.pending is None:
            return
        instant = self.pending.instant.requested
        execute_compaction(self.again()._target(), instant)
        self.pending = None
        for ident, held in self.marked.items():
            now = self.model.versions.get(ident, ())
            assert now[: len(held)] == held
            self.model.versions[ident] = self.model.compacted(held) + now[len(held) :]
            if not self.model.versions[ident]:
                del self.model.versions[ident]
        if not self.shape.folds_logs_first:
            return
        # A delete that is forgotten may show a row that came late: those moments look different now.
        self.changed |= {at for at, _ in self.past if at >= instant}
        last = self.past.pop()[0]
        self._done(last)
        self.changed.discard(last)

    def _check_past(self, instant: str, rows: dict[Ident, Row]) -> None:
        sure = self.pending is None and instant not in self.changed
        if sure or not self.shape.folds_logs_first:
            super()._check_past(instant, rows)

    def insert_overwrite(self, data: st.DataObject) -> None:
        self.finish()
        super().insert_overwrite(data)

    def delete_partitions(self, data: st.DataObject) -> None:
        self.finish()
        super().delete_partitions(data)

    @invariant()
    def the_files_keep_their_promises(self) -> None:
        if getattr(self, "pending", None) is None:
            super().the_files_keep_their_promises()


@pytest.mark.parametrize("index", ["bucket", "simple"])
def test_compaction_changes_no_row_but_under_hudis_layout_forgets_deletes(index: str):
    class Machine(CompactingMachine):
        shapes = shapes_of("MERGE_ON_READ", index)

    run_machine(Machine, 8 if index == "bucket" else 3, len(OPERATIONS) + 4)
