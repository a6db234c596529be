"""Merge-on-read tables that Hudi keeps without meta columns: keys follow from the rows."""

import pathlib

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from lakebed.errors import UnsupportedError

pytestmark = pytest.mark.interop

SCHEMA = pa.schema(
    [("id", pa.string()), ("n", pa.int64()), ("ts", pa.int64()), ("dt", pa.string())]
)


@pytest.mark.parametrize("blocks", ["avro", "parquet"])
def test_rows_without_stored_keys_are_merged_as_hudi_merges_them(
    hudi: Hudi, tmp_path: pathlib.Path, blocks: str
) -> None:
    path = tmp_path / "t"
    how = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id,n",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "dt",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.populate.meta.fields": "false",
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.logfile.data.block.format": blocks,
    }
    rows = [{"id": f"键{i}", "n": i, "ts": 5, "dt": "a"} for i in range(10)]
    newer = [{**row, "ts": 6} for row in rows[:4]] + [{**rows[6], "ts": 1}]
    for operation, changed in (("upsert", rows), ("upsert", newer), ("delete", rows[5:6])):
        write = how | {"hoodie.datasource.write.operation": operation}
        hudi.write(path, pa.Table.from_pylist(changed, SCHEMA), write)
    table = lakebed.open_table(None, str(path))
    found = table.read(columns=["_hoodie_record_key", *SCHEMA.names]).read_all().sort_by("n")
    assert found.column("_hoodie_record_key").null_count == len(found) == 9
    theirs = hudi.read(path).sort_by("n").select(SCHEMA.names)
    assert found.select(SCHEMA.names).to_pylist() == theirs.to_pylist()
    keys = [{"id": row["id"], "n": row["n"], "dt": "a"} for row in rows]
    assert table.lookup(keys).sort_by("n").to_pylist() == theirs.to_pylist()
    with pytest.raises(UnsupportedError, match="no meta columns"):
        table.upsert(pa.Table.from_pylist(rows, SCHEMA), index="bucket", buckets=2)
