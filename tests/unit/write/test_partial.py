"""Rows with some of the columns as logs: completed, or partial rows beside whole ones."""

import io
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.format.logs.log_block import BlockType
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge.run import DELETED, FLAGS
from lakebed.merge.window import GATHER_ROWS
from lakebed.model.executor import TaskId
from lakebed.write.partial import PartialWrite, write_partial_log
from lakebed.write.spec.operation import UPDATE_COLUMNS
from support.log_blocks import iter_blocks
from support.specs import make_spec
from support.tables import SCHEMA, batch, make

SOME = pa.schema([SCHEMA.field(name) for name in ("id", "v", "ts")])
TASK = TaskId(0, 0, 0)


def write_of(version, ordering=("ts",), memory_bytes=1 << 20, **changes):
    """Return a partial write onto a slice that holds the keys a and b, with `dt` "old"."""
    how = {
        "table_version": version,
        "table_type": "MERGE_ON_READ",
        "ordering": ordering,
        "buckets": 1,
        "partition_by": (),
        **changes,
    }
    table = make(**how)
    table.insert(batch(("a", 1, 1, "old"), ("b", 1, 1, "old")))
    [slice_] = table._snapshot(None).slices
    spec = make_spec(memory_bytes, operation=UPDATE_COLUMNS, **how)
    view = replace(spec.view, storage=table._storage)
    return PartialWrite(replace(spec, view=view, schema=SOME), slice_, 3)


def incoming(*given, flags=None):
    found = pa.RecordBatch.from_pylist(
        [{RECORD_KEY: key, "id": key, "v": v, "ts": ts} for key, v, ts in given],
        schema=pa.schema([(RECORD_KEY, pa.string()), *SOME]),
    )
    if flags is None:
        return [found]
    return [found.append_column(pa.field(FLAGS, pa.uint8()), pa.array(flags, pa.uint8()))]


def rows_of(write, stat):
    """Return the rows of a log without its meta columns."""
    data = write.spec.storage.read(stat.path)
    if not data.startswith(b"PAR1"):
        [data] = [b.content for b in iter_blocks(data, "f") if b.type is BlockType.PARQUET_DATA]
    table = pq.read_table(io.BytesIO(data))
    return table.drop_columns([n for n in table.column_names if n.startswith("_")]).to_pylist()


def written(write, *given, flags=None):
    status = write_partial_log(write, TASK, incoming(*given, flags=flags))
    return [rows_of(write, stat) for stat in status.stats]


NEW = {"id": "n", "v": 2, "ts": 2, "dt": None}
WHOLE = {"id": "a", "v": 2, "ts": 2, "dt": "old"}
PART = {"id": "a", "v": 2, "ts": 2}


@pytest.mark.parametrize(
    ("version", "ordering"), [(9, ("ts",)), (9, ()), (10, ())], ids=["9", "9 by time", "10 by time"]
)
def test_rows_are_completed_where_hudi_would_misread_partial_ones(version, ordering):
    assert written(write_of(version, ordering), ("a", 2, 2), ("n", 2, 2)) == [[WHOLE, NEW]]


def test_later_versions_hold_partial_rows_of_known_keys_and_whole_ones_of_new_keys():
    assert written(write_of(10), ("a", 2, 2), ("n", 2, 2)) == [[PART], [NEW]]
    assert written(write_of(10), ("a", 2, 2)) == [[PART]]


def test_whole_rows_are_written_whenever_they_fill_the_memory():
    write = write_of(10, memory_bytes=1)
    # A merge gives batches of this many rows on as they are.
    pieces = [[(f"{letter}{n:05}", 2, 2) for n in range(GATHER_ROWS)] for letter in "mn"]
    status = write_partial_log(write, TASK, [incoming(*piece)[0] for piece in pieces])
    logs = [[row["id"] for row in rows_of(write, stat)] for stat in status.stats]
    assert logs == [[key for key, *_ in piece] for piece in pieces]


def test_keys_are_found_as_well_where_there_are_too_many_to_ask_for():
    many = replace(write_of(9), new_rows=1 << 40)
    assert written(many, ("a", 2, 2), ("n", 2, 2)) == [[WHOLE, NEW]]


def test_a_delete_needs_no_row_that_is_there():
    write = write_of(10, index="global_simple", buckets=None)
    status = write_partial_log(write, TASK, incoming(("gone", None, 5), flags=[DELETED]))
    # It is in the first log, which is that of partial rows.
    assert [(s.log_version, s.num_deletes, s.num_writes) for s in status.stats] == [(1, 1, 0)]
