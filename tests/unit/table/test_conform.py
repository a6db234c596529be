"""Arrays brought to the types of a table."""

import pyarrow as pa
import pytest

from lakebed.table.read.conform import conform_array

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
    # Java's Arrow writes none, and what then lies in memory at their place is not read.
    garbage = pa.py_buffer(b"\xff" * 8).slice(0, 0)
    array = type(pa.array([], kind)).from_buffers(kind, 0, [None, garbage], children=[child])
    found = conform_array(array, pa.field("x", wanted), "x")
    assert found.type == wanted
    assert found.to_pylist() == []
