"""Rows of a lookup beside the keys that were asked for."""

import datetime as dt

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.scan.lookup import _is_among, plan_probes
from lakebed.scan.scan import Scan
from lakebed.table.files.file_group import FileGroupId, FileSlice
from lakebed.table.read.source_cache import SourceCache
from support.specs import INSTANT, make_spec
from support.tables import SCHEMA as TABLE

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


class Counted(tuple):
    """Counts how often all of it is looked at."""

    looks = 0

    def __iter__(self):
        type(self).looks += 1
        return super().__iter__()


def test_keys_of_many_partitions_are_looked_up_in_their_own_slices_each_seen_a_few_times():
    spec = make_spec(index="simple")
    groups = [FileGroupId(f"p{n}", f"f{n}-0") for n in range(50)]
    slices = Counted(FileSlice(group, INSTANT, None) for group in groups)
    scan = Scan(spec.view, tuple(TABLE.names), None, slices, None)
    keys = pa.RecordBatch.from_pydict(
        {"id": [f"k{n}" for n in range(50)], "dt": [f"p{n}" for n in range(50)]}
    )
    Counted.looks = 0
    probes = plan_probes(scan, keys, SourceCache())
    assert [probe.slice_.group for probe in probes] == groups
    assert [probe.scan.key_filter.keys for probe in probes] == [
        (f"k{n}".encode(),) for n in range(50)
    ]
    assert Counted.looks < 5
