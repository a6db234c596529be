"""One read in process: how little of the files it takes, and how little it may ask for."""

import io

import numpy as np
import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.storage.local import LocalStorage
from support.tables import make

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("v", pa.int64()),
        ("w", pa.float64()),
        ("s", pa.string()),
        ("late", pa.int64()),
        ("noise", pa.int64()),
        ("more", pa.int64()),
    ]
)
COUNT = 60_000


class Counted(io.FileIO):
    """A file that adds up what is read of it."""

    taken = 0

    def readinto(self, buffer) -> int:
        count = super().readinto(buffer)
        type(self).taken += count
        return count

    def read(self, size: int = -1, /) -> bytes:
        data = super().read(size)
        type(self).taken += len(data)
        return data


class Watched(LocalStorage):
    """A disk that counts the bytes that readers of Parquet take."""

    def open_read(self, path: str) -> pa.NativeFile:
        if not path.endswith(".parquet"):
            return super().open_read(path)
        return pa.PythonFile(Counted(self.local_path(path)), mode="r")


def numbered(start: int = 0, stop: int = COUNT, plus: int = 0) -> pa.Table:
    """Return rows whose columns rise with their keys; only the last have a `late`."""
    numbers = range(start, stop)
    random = np.random.default_rng(1)
    columns = {
        "id": [f"{n:06d}" for n in numbers],
        "v": [n + plus for n in numbers],
        "w": [n / 2 for n in numbers],
        "s": [f"text {n:06d}" for n in numbers],
        "late": [n if n >= 50_000 else None for n in numbers],
        **{name: random.integers(0, 1 << 62, len(numbers)) for name in ("noise", "more")},
    }
    return pa.table(columns, schema=SCHEMA)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Table:
    storage = Watched(str(tmp_path_factory.mktemp("scan")))
    table = make(storage, schema=SCHEMA, partition_by=(), buckets=1)
    table.insert(numbered())
    return table


def taken(table: Table, **asked) -> tuple[int, int]:
    """Return the bytes that a read takes, and its rows."""
    Counted.taken = 0
    count = table.read(**asked).read_all().num_rows
    return Counted.taken, count


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("v BETWEEN 20000 AND 20009", 10),
        ("v < 3 OR v > 59997", 5),
        ("w < 10", 20),
        ("w = 25001", 1),
        ("s >= 'text 059990'", 10),
        ("NOT (s < 'text 059990')", 10),
        ("v IN (1, 2, 3)", 3),
        ("late IS NOT NULL", 10_000),
        ("late >= 59990", 10),
    ],
)
def test_row_groups_without_a_wanted_value_are_not_read(large, where, count):
    whole, rows = taken(large)
    assert rows == COUNT
    size, found = taken(large, where=where)
    assert found == count
    assert size < whole * 0.6


def test_a_value_that_no_row_has_costs_the_footer_alone(large):
    whole, _ = taken(large)
    size, rows = taken(large, where="v = -1")
    assert rows == 0
    assert size < whole * 0.15


def test_keys_and_statistics_together_leave_what_both_leave(large):
    asked = "id IN ('000001', '059999')"
    assert taken(large, where=f"{asked} AND v > 30000")[1] == 1
    assert taken(large, where=f"{asked} AND v < 0")[1] == 0
    assert taken(large, where=f"{asked} AND v >= 0")[1] == 2
    both, _ = taken(large, where=f"{asked} AND v > 30000")
    keys, _ = taken(large, where=asked)
    assert both < keys


def test_a_log_keeps_statistics_from_bringing_old_rows_back(tmp_path):
    table = make(
        Watched(str(tmp_path)),
        schema=SCHEMA,
        partition_by=(),
        buckets=1,
        table_type="MERGE_ON_READ",
    )
    table.bulk_insert(numbered(0, 40_000))
    table.upsert(numbered(5, 6, plus=1_000_000))

    def values(where: str, **asked) -> list[int]:
        return table.read(columns=["v"], where=where, **asked).read_all()["v"].to_pylist()

    assert values("v BETWEEN 4 AND 6") == [4, 6]
    assert values("v > 1000000") == [1_000_005]
    assert values("v BETWEEN 4 AND 6", mode="read_optimized") == [4, 5, 6]
    whole, _ = taken(table, mode="read_optimized")
    assert taken(table, mode="read_optimized", where="v < 10")[0] < whole * 0.6


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("where", [None, "1 = 1", "v < 1000000", "id <> 'x'", "id IN ('000005')"])
def test_without_columns_the_number_of_rows_is_the_answer(table_type, where):
    table = make(schema=SCHEMA, partition_by=(), buckets=2, table_type=table_type)
    table.bulk_insert(numbered(0, 20))
    table.upsert(numbered(10, 30))
    table.delete(["000000"])
    expected = 1 if where and "IN" in where else 29
    for batches in (table.read(columns=[], where=where), table.read(columns=["id"], where=where)):
        assert sum(batch.num_rows for batch in batches) == expected
    read = table.read(columns=[], where=where).read_all()
    assert (read.num_columns, read.num_rows) == (0, expected)


def test_counting_the_rows_of_base_files_costs_their_footers_alone(large):
    whole, _ = taken(large)
    size, rows = taken(large, columns=[])
    assert rows == COUNT
    assert size < whole * 0.15
