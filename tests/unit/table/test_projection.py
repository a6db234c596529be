"""Values of a file in the column's type of now, as Apache Hudi 1.2.0 shows them."""

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.expr.predicate import Predicate
from lakebed.format.names.data_names import BaseFileName
from lakebed.storage.open import open_storage
from lakebed.table.files.file_group import BaseFile
from lakebed.table.read.native_types import shows_alike
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.projection import shape
from lakebed.table.read.row_group_filter import RowGroupFilter

SEEN_IN_HUDI = [
    (pa.float32(), [0.1, 3.4e38, 1e-45, 16777216.0, None, 2e10, 1.1e-5], pa.float64(),
     [0.1, 3.4e38, 1.4e-45, 16777216.0, None, 2e10, 1.1e-5]),
    (pa.int32(), [1, 2**31 - 1], pa.float64(), [1.0, 2147483647.0]),
    (pa.int64(), [1, 2**53 + 1, 2**63 - 1], pa.float64(), [1.0, 9007199254740992.0, 2.0**63]),
    (pa.int32(), [1, 2**24 + 1], pa.float32(), [1.0, 16777216.0]),
    (pa.int64(), [1, 2**24 + 1], pa.float32(), [1.0, 16777216.0]),
    (pa.int64(), [1, None], pa.string(), ["1", None]),
    (pa.float32(), [0.1, 1e10, 100.0], pa.string(), ["0.1", "1.0E10", "100.0"]),
    (pa.float64(), [0.1, 1e10, 100.0], pa.string(), ["0.1", "1.0E10", "100.0"]),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "values", "kind", "shown"), SEEN_IN_HUDI)
def test_a_narrower_column_is_shown_as_hudi_shows_it(stored, values, kind, shown):
    batch = pa.record_batch({"v": pa.array(values, stored)})
    assert shape(batch, pa.schema([("v", kind)])).column(0).to_pylist() == shown


def test_floats_inside_lists_maps_and_structs_are_widened_too():
    batch = pa.record_batch(
        {
            "l": pa.array([[0.1, None], None], pa.list_(pa.float32())),
            "s": pa.array([{"x": 0.1}, None], pa.struct([("x", pa.float32())])),
            "m": pa.array([[("k", 0.3)], None], pa.map_(pa.string(), pa.float32())),
        }
    )
    target = pa.schema(
        [
            ("l", pa.list_(pa.float64())),
            ("s", pa.struct([("x", pa.float64())])),
            ("m", pa.map_(pa.string(), pa.float64())),
        ]
    )
    want = [
        {"l": [0.1, None], "s": {"x": 0.1}, "m": [("k", 0.3)]},
        {"l": None, "s": None, "m": None},
    ]
    assert shape(batch, target).to_pylist() == want


@pytest.mark.parametrize(
    ("stored", "value", "where"),
    [
        (pa.float32(), 0.1, "v = 0.1"),
        (pa.float32(), 0.3, "v <= 0.3"),
        (pa.float32(), 0.7, "v >= 0.7"),
        (pa.int64(), 2**53 + 1, "v = 9007199254740992D"),
        (pa.int64(), 2**53 + 1, "v <= 9007199254740992D"),
    ],
)
def test_row_groups_are_chosen_by_the_values_that_are_shown(tmp_path, stored, value, where):
    pq.write_table(pa.table({"v": pa.array([value], stored)}), tmp_path / "f.parquet")
    schema = pa.schema([("v", pa.float64())])
    with open_parquet(open_storage(str(tmp_path)), "f.parquet", "f") as file:
        assert RowGroupFilter(Predicate.parse(where, schema).bound, schema).row_groups(file) == [0]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_float_that_became_a_double_keeps_its_digits_whatever_rewrites_it(table_type):
    schema = pa.schema([("id", pa.string()), ("v", pa.float32()), ("ts", pa.float32())])
    table = lakebed.create_table(
        None, f"memory://widened/{table_type}", schema, "id", "ts", table_type=table_type, buckets=1
    )
    old = pa.table({"id": ["a", "b", "c"], "v": [0.1, 0.2, 0.3], "ts": [0.1] * 3}).cast(schema)
    table.upsert(old)
    table.upsert(old.slice(2))
    wide = pa.schema([("id", pa.string()), ("v", pa.float64()), ("ts", pa.float64())])
    # The ordering value 0.1 is not less than the 0.1 that was a float.
    table.upsert(pa.table({"id": ["a"], "v": [1.5], "ts": [0.1]}, schema=wide), evolve=True)
    table.upsert(pa.table({"id": ["d"], "v": [0.7], "ts": [1.0]}).cast(schema))
    want = [("a", 1.5), ("b", 0.2), ("c", 0.3), ("d", 0.7)]

    def seen(where=None):
        rows = table.read(where=where).read_all().to_pylist()
        return sorted((row["id"], row["v"]) for row in rows)

    assert seen() == want
    assert seen("v = 0.2 OR v = 0.7") == [("b", 0.2), ("d", 0.7)]
    if table_type == "MERGE_ON_READ":
        table.compact()
        assert seen() == want


def test_spark_may_not_read_a_file_whose_values_it_would_show_otherwise(tmp_path: pathlib.Path):
    name = "f-0_0-0-0_20250101000000000.parquet"
    stored = {"f": pa.float32(), "l": pa.int64(), "i": pa.int32(), "s": pa.string()}
    pq.write_table(pa.table({k: pa.array([None], t) for k, t in stored.items()}), tmp_path / name)
    storage = open_storage(str(tmp_path))
    file = BaseFile("", BaseFileName.parse(name), 1)

    def alike(column, kind):
        return shows_alike(storage, file, [pa.field(column, kind)])

    assert not alike("f", pa.float64())
    assert not alike("f", pa.string())
    assert not alike("l", pa.float64())
    assert not alike("l", pa.string())
    assert alike("f", pa.float32())
    assert alike("i", pa.float64())
    assert alike("s", pa.string())
    assert alike("i", pa.int64())
    assert alike("added", pa.string())
