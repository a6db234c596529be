"""Every query through secondary indexes or column statistics returns what a scan returns, after any
history.
"""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.api.table import Table
from lakebed.expr.predicate import Predicate
from lakebed.scan.scan import plan_scan
from lakebed.table.snapshot import load_snapshot
from support.indexed import SCHEMA, Draw, history
from support.indexes import check_indexes
from support.machine import history_settings
from support.tables import make

QUERIES = 12
TABLES = [
    ("MERGE_ON_READ", "lsm_tree", 9, "bucket"),
    ("MERGE_ON_READ", "default", 8, "simple"),
    ("MERGE_ON_READ", "lsm_tree", 10, "bucket"),
    ("MERGE_ON_READ", "default", 10, "bucket"),
    ("COPY_ON_WRITE", "default", 9, "simple"),
]


def compare(table: Table, draw: Draw) -> tuple[int, int, int]:
    """Compare random queries with a scan.

    Returns how many there were, used an index, and left out files by column statistics.
    """
    snapshot = table._snapshot(None)
    everything = plan_scan(snapshot, SCHEMA.names, None, indexes=())
    rows = table._engines.read(everything).read_all().combine_chunks()
    [batch] = rows.to_batches() or [pa.RecordBatch.from_pylist([], SCHEMA)]
    used = pruned = 0
    for _ in range(QUERIES):
        where = draw.query()
        wanted = Predicate.parse(where, SCHEMA).filter(batch)
        scan = table._plan(snapshot, None, where)
        used += scan.candidates is not None
        assert any(note.used for note in scan.notes) == (scan.candidates is not None)
        found = table._engines.read(scan).read_all()
        assert shown(found) == shown(pa.Table.from_batches([wanted])), where
        fresh = load_snapshot(table._storage, table.config)
        bare = plan_scan(fresh, SCHEMA.names, where, indexes=())
        found = table._engines.read(bare).read_all()
        assert shown(found) == shown(pa.Table.from_batches([wanted])), where
        # No query limits the partitions or the keys.
        pruned += len(bare.slices) < len(everything.slices)
    return QUERIES, used, pruned


def shown(found: pa.Table) -> list[str]:
    # As text, NaN equals NaN, and -0.0 differs from 0.0.
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize(("table_type", "layout", "version", "index"), TABLES)
def test_queries_through_indexes_return_what_a_scan_returns(table_type, layout, version, index):
    asked = used = pruned = 0

    @history_settings(2)
    @given(seed=st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        nonlocal asked, used, pruned
        draw = Draw(seed)
        how = {"ordering": draw.of([("ts",), ()]), "buckets": draw.of([1, 2, 3, 6])}
        how["properties"] = {"lakebed.file.index.min.files": draw.of(["1", "1", "128"])}
        if version > 8 and draw.chance(0.5):
            # Then a version may take columns from older ones, and its keys are open.
            how["properties"]["hoodie.table.partial.update.mode"] = "IGNORE_DEFAULTS"
        table = make(
            schema=SCHEMA, table_type=table_type, layout=layout, table_version=version, index=index, **how
        )  # fmt: skip
        for _ in history(table, draw, steps=12):
            # A random query rarely asks for the one row that an index lacks.
            check_indexes(table)
            more, through, without = compare(table, draw)
            asked, used, pruned = asked + more, used + through, pruned + without

    run()
    assert asked >= 300
    assert used / asked > 0.5, f"{used} of {asked} queries used an index"
    assert pruned, "column statistics left out no file"
