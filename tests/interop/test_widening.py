"""Columns that became wider: Apache Hudi and Lakebed show the same values, whoever wrote the files."""

import pathlib

import pyarrow as pa
import pytest

import lakebed
from interop.clients import Hudi
from interop.rows import user_rows

NARROW = pa.schema(
    [
        ("id", pa.string()),
        ("f", pa.float32()),
        ("n", pa.int64()),
        ("i", pa.int32()),
        ("t", pa.float32()),
        ("ts", pa.int64()),
    ]
)
WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("f", pa.float64()),
        ("n", pa.float64()),
        ("i", pa.float32()),
        ("t", pa.string()),
        ("ts", pa.int64()),
    ]
)
FLOATS = [0.1, 3.4e38, 1e-45, 16777216.0, -0.0, 2e10, 1.1e-5, 3.3554432e7, 8.41e21, 1.17549435e-38]
TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


@TYPES
def test_columns_that_hudi_widened_show_the_same_values(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
) -> None:
    path = tmp_path / "t"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "4",
    }
    old = [
        {"id": f"k{n}", "f": f, "n": 2**53 + n, "i": 2**24 + n, "t": f, "ts": 1}
        for n, f in enumerate(FLOATS)
    ]
    hudi.write(path, pa.Table.from_pylist(old, NARROW), options)
    new = [{"id": "k0", "f": 0.5, "n": 0.5, "i": 0.5, "t": "x", "ts": 2}]
    hudi.write(path, pa.Table.from_pylist(new, WIDE), options)
    # Its bulk_insert leaves floats in files whose commit says double.
    bulk = {**options, "hoodie.datasource.write.operation": "bulk_insert"}
    mixed = pa.schema([*(WIDE.field(name) for name in ("id", "n", "i", "t", "ts"))])
    mixed = mixed.insert(1, NARROW.field("f"))
    loaded = [{"id": "z", "f": 0.3, "n": 0.3, "i": 0.5, "t": "y", "ts": 2}]
    hudi.write(path, pa.Table.from_pylist(loaded, mixed), bulk)
    ours = user_rows(lakebed.open_table(None, str(path)).read().read_all(), ["id"])
    assert ours == user_rows(hudi.read(path), ["id"])


@TYPES
def test_hudi_shows_the_same_values_before_and_after_we_rewrite_them(
    hudi: Hudi, tmp_path: pathlib.Path, table_type: str
) -> None:
    path = tmp_path / "t"
    narrow, wide = (schema.remove(2).remove(2).remove(2) for schema in (NARROW, WIDE))
    table = lakebed.create_table(
        None, str(path), narrow, "id", "ts", table_type=table_type, buckets=2
    )
    rows = [{"id": f"k{n}", "f": f, "ts": 1} for n, f in enumerate(FLOATS)]
    table.upsert(pa.Table.from_pylist(rows, narrow))
    table.upsert(pa.Table.from_pylist([{"id": "k0", "f": 0.5, "ts": 2}], wide), evolve=True)
    before = user_rows(hudi.read(path), ["id"])
    assert user_rows(table.read().read_all(), ["id"]) == before
    table.upsert(pa.Table.from_pylist([row | {"ts": 0} for row in rows], wide))
    if table_type == "MERGE_ON_READ":
        table.compact()
    assert user_rows(hudi.read(path), ["id"]) == before
    assert user_rows(table.read().read_all(), ["id"]) == before
