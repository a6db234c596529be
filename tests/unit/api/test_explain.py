"""What a read would read, told before it reads."""

import pytest

from lakebed.api.table import Table
from lakebed.errors import InvalidError, SchemaError
from lakebed.scan.explain import explain_scan
from lakebed.scan.scan import plan_scan
from lakebed.table.read.source_cache import SourceCache
from support.tables import batch, make


@pytest.fixture(scope="module")
def table() -> Table:
    table = make(table_type="MERGE_ON_READ", buckets=4)
    rows = [(f"k{i:04}", i, 1, f"p{i % 3}") for i in range(600)]
    table.insert(batch(*rows))
    table.upsert(batch(("k0000", -1, 2, "p0")))
    return table


def test_a_read_of_everything_reads_every_file_group(table):
    found = table.explain()
    assert (found.partitions.read, found.partitions.total) == (3, 3)
    assert (found.file_groups.read, found.file_groups.total) == (12, 12)
    # A base file for each file group, and a log.
    assert (found.row_groups.read, found.row_groups.total) == (13, 13)
    assert not found.row_groups.estimated
    assert found.pruned_by == ()
    size = sum(table.files().column("size_bytes").to_pylist())
    assert 0 < found.size_bytes.read < found.size_bytes.total == size


def test_partitions_buckets_and_footers_are_told_apart(table):
    found = table.explain(["v"], "dt = 'p0' AND id = 'k0003' AND v < 100")
    assert (found.partitions.read, found.file_groups.read) == (1, 1)
    assert [step.by for step in found.pruned_by][:3] == [
        "partition",
        "writer index (4 buckets)",
        "record key",
    ]
    assert found.pruned_by[0].conditions == ("dt = 'p0'",)
    assert found.pruned_by[1].conditions == ("id = 'k0003'",)
    assert [step.left for step in found.pruned_by][:3] == [4, 1, 1]
    assert found.columns == ("v", "dt", "id")


def test_fewer_columns_and_row_groups_are_fewer_bytes(table):
    everything, one = table.explain().size_bytes.read, table.explain(["v"]).size_bytes.read
    assert one < everything
    none = table.explain(["v"], "v > 100000")
    # Only statistics of a file without logs can exclude it.
    assert none.row_groups.read == 2
    assert none.pruned_by[-1].by == "footers"
    assert none.pruned_by[-1].conditions == ("v",)
    assert table.explain(where="v = 1 AND v = 2").file_groups.read == 0


def test_what_is_explained_is_what_is_read(table):
    where = "dt = 'p1' AND v >= 300"
    assert table.explain(where=where).file_groups.read == len(
        plan_scan(table._snapshot(None), table.schema.names, where).slices
    )
    assert table.read(where=where).read_all().num_rows == 100


def test_a_past_state_is_explained_as_it_was(table):
    first = table.history().column("instant").to_pylist()[-1]
    found = table.explain(as_of=first)
    assert found.as_of == first
    assert found.row_groups.total == 12


def test_with_many_files_the_rest_is_estimated_and_marked(table):
    snapshot = table._snapshot(None)
    scan = plan_scan(snapshot, ["v"], "dt = 'p1'")
    found = explain_scan(scan, snapshot, SourceCache(), max_files=4)
    assert found.file_groups.read == 4
    assert found.row_groups.estimated
    assert 3 <= found.row_groups.read <= 5
    assert 11 <= found.row_groups.total <= 15
    assert "about 4 of 1" in str(found)


def test_it_prints_the_shares_the_columns_and_the_steps(table):
    text = str(table.explain(["v"], "dt = 'p0'"))
    assert text.startswith("t where dt = 'p0'\n  reads       1 of 3 partitions\n")
    assert "4 of 12 file groups" in text
    assert "pruned by   partition: dt = 'p0' (4 file groups left)" in text
    assert "nothing: every file group is read" in str(table.explain())


def test_bad_arguments_are_those_of_a_read(table):
    with pytest.raises(SchemaError, match="no column 'x'"):
        table.explain(["x"])
    with pytest.raises(InvalidError, match="where"):
        table.explain(where="")
