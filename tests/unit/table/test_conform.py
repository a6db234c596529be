"""Arrays brought to the types of a table."""

import struct

import pyarrow as pa
import pytest

from lakebed.table.read.conform import conform, conform_array

# Arrays from Java have no offsets if they are empty; what lies in memory at their place is not one.
GARBAGE = pa.py_buffer(b"\xff" * 8).slice(0, 0)
ENTRY = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())])


@pytest.mark.parametrize(
    ("kind", "child", "wanted"),
    [
        (pa.list_(pa.int32()), pa.array([], pa.int32()), pa.list_(pa.int64())),
        (pa.map_(pa.string(), pa.int32()), pa.array([], ENTRY), pa.map_(pa.string(), pa.int64())),
    ],
    ids=["list", "map"],
)
def test_an_empty_array_may_come_without_offsets(kind, child, wanted):
    array = type(pa.array([], kind)).from_buffers(kind, 0, [None, GARBAGE], children=[child])
    found = conform_array(array, pa.field("x", wanted), "x")
    assert found.type == wanted
    assert found.to_pylist() == []


def test_empty_arrays_inside_of_others_get_their_offset():
    inner = pa.list_(pa.int32())
    empty = pa.ListArray.from_buffers(
        inner, 0, [None, GARBAGE], children=[pa.array([], pa.int32())]
    )
    offsets = pa.py_buffer(struct.pack("3i", 0, 0, 0))
    outer = pa.ListArray.from_buffers(pa.list_(inner), 2, [None, offsets], children=[empty])
    batch = pa.record_batch({"x": outer})
    found = conform(batch, batch.schema).column("x")
    assert found.buffers()[3].size == 4
    assert found.to_pylist() == [[], []]
