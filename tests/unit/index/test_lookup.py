"""Rows of a lookup beside the keys that were asked for."""

import datetime as dt

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.scan.lookup import _is_among

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.date32())])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.sampled_from([None, 0, 1, -1]),
            "b": st.sampled_from([None, "", "x", "1"]),
            "c": st.sampled_from([None, dt.date(2024, 1, 1), dt.date(1970, 1, 1)]),
        }
    ),
    max_size=8,
)


@given(ROWS, ROWS, st.permutations(SCHEMA.names), st.integers(1, 4))
def test_a_row_is_among_others_where_one_has_its_values_null_by_null(rows, asked, names, size):
    schema = pa.schema([SCHEMA.field(name) for name in names])
    table = pa.Table.from_pylist(rows, schema=schema)
    chunks = table.to_batches(max_chunksize=size)
    wanted = pa.RecordBatch.from_pylist(asked, schema=schema)
    found = _is_among(pa.Table.from_batches(chunks, schema), wanted)
    assert found.type == pa.bool_()
    assert found.to_pylist() == [row in asked for row in rows]
