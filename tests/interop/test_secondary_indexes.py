"""Apache Hudi writes, compacts and clusters tables that have secondary indexes of ours."""

import pathlib

import pytest

from interop.clients import Hudi
from interop.test_simple_index import create, found, hudi_options, rows_of
from support.indexes import check_indexes


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_what_hudi_writes_in_between_is_found(hudi: Hudi, tmp_path: pathlib.Path, table_type: str):
    path = tmp_path / "table"
    table = create(path, table_type, "SIMPLE")
    table.upsert(rows_of(*((f"k{n}", n, 1, f"p{n % 2}") for n in range(40))))
    table.create_index("by_v", ["v"])
    options = hudi_options(path, "SIMPLE", table_type)
    # Its properties and the commits that list our runs do not stop Hudi.
    hudi.write(path, rows_of(("k1", 7, 2, "p1"), ("new", 7, 2, "p0")), options)
    check_indexes(table)
    assert table.indexes()[0].state == "ready"
    assert table.indexes()[0].uncovered > 0
    sevens = {row["id"] for row in found(table.read(where="v = 7"))}
    assert sevens == {"k1", "k7", "new"}
    assert {row["id"] for row in found(hudi.read(path)) if row["v"] == 7} == sevens
    table.upsert(rows_of(("k2", 7, 3, "p0")))
    inline = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    if table_type == "MERGE_ON_READ":
        inline = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    hudi.write(path, rows_of(("k3", 7, 4, "p1")), options | inline)
    check_indexes(table)
    assert len(found(table.read(where="v = 7"))) == 5
    table.compact_index("by_v")
    check_indexes(table, covered=True)
    assert len(found(table.read(where="v = 7"))) == 5
