"""The front door: what a caller sees of a table."""

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidError
from lakebed.model.clock import ManualClock
from support.tables import SCHEMA, batch, make, reopen, user_rows


def test_a_table_on_disk_is_made_written_opened_and_read(tmp_path: Path):
    path = str(tmp_path / "lake" / "orders")
    made = lakebed.create_table(
        None, path, SCHEMA, key="id", partition_by="dt", table_type="COPY_ON_WRITE"
    )
    made.insert(batch(("a", 1, 1, "p"), ("b", 2, 2, "q")))
    table = lakebed.open_table(None, path)
    assert table.name == "orders"
    assert table.path == f"file://{path}"
    assert repr(table) == f"Table('orders', COPY_ON_WRITE, file://{path})"
    assert table.schema == SCHEMA
    assert isinstance(table.read(), pa.RecordBatchReader)
    assert table.read(columns=["v"], where="id = 'b'").read_all().to_pydict() == {"v": [2]}
    assert not (tmp_path / "lake/orders/.hoodie/.temp").exists() or not list(
        (tmp_path / "lake/orders/.hoodie/.temp").rglob("*.arrow")
    )


def test_an_open_table_sees_what_others_commit():
    table = make()
    reader = reopen(table._storage)
    assert user_rows(reader) == {}
    table.insert(batch(("a", 1, 1, "p")))
    assert len(user_rows(reader)) == 1
    reader.insert(batch(("b", 1, 1, "p")))
    assert len(user_rows(table)) == 2


def test_a_read_that_has_begun_keeps_to_its_snapshot():
    table = make(buckets=1)
    table.insert(batch(("a", 1, 1, "p")))
    begun = table.read()
    table.insert(batch(("a", 2, 2, "p"), ("b", 2, 2, "p")))
    assert begun.read_all().to_pydict()["v"] == [1]


def test_columns_come_in_the_order_asked_for_meta_columns_included():
    table = make()
    commit = table.insert(batch(("a", 1, 1, "p")))
    read = table.read(columns=["v", "_hoodie_commit_time", "id", "_hoodie_record_key"])
    assert read.read_all().to_pylist() == [
        {
            "v": 1,
            "_hoodie_commit_time": commit.instant,
            "id": "a",
            "_hoodie_record_key": "a",
        }
    ]


def test_a_predicate_may_use_columns_that_are_not_read():
    table = make()
    first = table.insert(batch(("a", 1, 1, "p"), ("b", 2, 2, "q")))
    table.insert(batch(("c", 3, 3, "p")))

    def ids(where: str) -> list[str]:
        return sorted(table.read(columns=["id"], where=where).read_all().column(0).to_pylist())

    assert ids("v > 1 AND dt = 'p'") == ["c"]
    assert ids(f"_hoodie_commit_time = '{first.instant}'") == ["a", "b"]
    assert ids("v > 100") == []


def test_no_columns_are_an_answer_too():
    table = make()
    table.insert(batch(("a", 1, 1, "p")))
    assert table.read(columns=[]).read_all().num_columns == 0


@pytest.mark.parametrize("zone", ["UTC", "LOCAL"])
def test_a_moment_is_given_as_instant_text_date_or_datetime(zone):
    clock = ManualClock(ms=1_704_164_645_006)  # 2024-01-02 03:04:05.006 UTC
    table = make(clock=clock, properties={"hoodie.table.timeline.timezone": zone})
    first = table.insert(batch(("a", 1, 1, "p")))
    clock.ms += 86_400_000
    table.insert(batch(("b", 1, 1, "p")))
    between = dt.datetime(2024, 1, 2, 12, tzinfo=dt.UTC)
    for moment in (first.instant, between, "2024-01-02T12:00:00Z"):
        assert [key for _, key in user_rows(table)] == ["a", "b"]
        assert table.read(as_of=moment).read_all().column("id").to_pylist() == ["a"]
    with pytest.raises(InvalidError, match=f"the first commit of table 't' is {first.instant}"):
        table.read(as_of=dt.date(2024, 1, 1))
    assert table.read(as_of=dt.date(2025, 1, 1)).read_all().num_rows == 2


def test_the_same_memory_is_the_same_table():
    lakebed.create_table(None, "memory://unit/api/same", SCHEMA, key="id").insert(
        batch(("a", 1, 1, "p"))
    )
    assert lakebed.open_table(None, "memory://unit/api/same").read().read_all().num_rows == 1


def test_a_run_with_a_manual_clock_gives_the_same_bytes_again():
    def objects() -> dict[str, bytes]:
        table = make(clock=ManualClock())
        table.insert(batch(("a", 1, 1, "p"), ("b", 2, 2, "q")))
        table.insert(batch(("a", 2, 2, "p")))
        return {
            entry.path: table._storage.read(entry.path)
            for entry in table._storage.list()
            if not entry.path.endswith((".commit", ".deltacommit"))  # Avro's random sync mark
        }

    assert objects() == objects()


def test_a_path_object_is_as_good_as_its_text(tmp_path):
    schema = pa.schema([("id", pa.string())])
    lakebed.create_table(None, tmp_path / "t", schema, key="id").insert(
        pa.table({"id": ["a"]}, schema=schema)
    )
    assert lakebed.open_table(None, tmp_path / "t").read().read_all().num_rows == 1
