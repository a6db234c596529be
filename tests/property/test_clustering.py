"""Random histories with clusterings in between, against a dictionary."""

import itertools

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from lakebed.api.table import Table
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import ClusteringOptions
from lakebed.services.clustering.execute import cluster
from lakebed.storage.objects import memory_storage
from lakebed.table.snapshot import load_snapshot
from support.lsm_machine import OPERATIONS, PARTITIONS, LsmMachine, shapes_of
from support.lsm_model import COLUMNS, Shape
from support.machines import run_machine
from support.tables import base_run, make, reopen

START = 1_700_000_000_000
# A row to a file, a few rows to a file, all of them in one.
TARGETS = [1, 200, 1 << 30]


class ClusteringMachine(LsmMachine):
    """A table in memory that is clustered at any time."""

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
            layout=shape.layout,
            table_version=shape.version,
            properties={
                "hoodie.clean.automatic": "false",
                "hoodie.archive.automatic": "false",
                # Every write makes file groups, so that there is something to cluster.
                "hoodie.parquet.small.file.limit": "0",
            },
        )

    def again(self) -> Table:
        self.clock.ms = START
        return reopen(self.storage, self.clock)

    @rule(size=st.sampled_from(TARGETS), partition=st.none() | st.sampled_from(PARTITIONS))
    def cluster(self, size: int, partition: str | None) -> None:
        """Cluster all, or a partition; what a delete that is forgotten hides, no later row shows."""
        if not self.shape.partition_by:
            partition = None
        wanted = None if partition is None else {partition}
        done = cluster(self.again()._target(), ClusteringOptions(target_bytes=size), wanted)
        if done is None:
            return
        self._done(done.instant)
        now = load_snapshot(self.storage, self.table.config)
        new = [s for s in now.slices if s.instant == done.instant]
        assert len(new) == done.written
        for _, slices in itertools.groupby(new, key=lambda slice_: slice_.group.partition):
            keys = [
                base_run(self.storage, s.base_file.path)[1].to_pylist()
                for s in slices
                if s.base_file
            ]
            ends = sorted((held[0].encode(), held[-1].encode()) for held in keys)
            assert all(low[1] < high[0] for low, high in itertools.pairwise(ends))


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_clustering_changes_no_row(table_type: str):
    class Machine(ClusteringMachine):
        shapes = shapes_of(table_type, "simple", "global_simple")

    run_machine(Machine, 8, len(OPERATIONS) + 4)
