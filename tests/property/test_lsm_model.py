"""Every operation on every kind of table against a dictionary, in long random histories."""

import pytest

from lakebed.api.table import Table
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.lsm_machine import OPERATIONS, LsmMachine, shapes_of
from support.lsm_model import COLUMNS, Shape
from support.machines import run_machine
from support.tables import make, reopen

START = 1_700_000_000_000
# As Hudi's writers do where nobody asks for sorted runs.
BLOCKS = {"default": "avro", "lsm_tree": "parquet"}


class MemoryMachine(LsmMachine):
    """A table in memory, written in process."""

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
            properties={"hoodie.logfile.data.block.format": BLOCKS[shape.layout]},
        )

    def again(self) -> Table:
        # Another machine's clock may be behind; its random ids are new ones all the same.
        self.clock.ms = START
        return reopen(self.storage, self.clock)


@pytest.mark.parametrize("index", ["bucket", "simple", "global_simple"])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_table_holds_what_a_dictionary_holds(table_type: str, index: str):
    class Machine(MemoryMachine):
        shapes = shapes_of(table_type, index)

    # Most of what can go wrong is in logs.
    share = 12 if (table_type, index) == ("MERGE_ON_READ", "bucket") else 4
    run_machine(Machine, share, len(OPERATIONS))
