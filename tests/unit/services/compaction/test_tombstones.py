"""Deletes with ordering values outlast a compaction, beside the new base file, until they expire."""

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.errors import InvalidError, KeyValueError, OptionError
from lakebed.format.logs.delete_instants import DeleteInstants, record_instants, recorded_instants
from lakebed.model.clock import ManualClock
from lakebed.model.options.services import TOMBSTONE_RETENTION
from lakebed.storage.objects import memory_storage
from support.tables import make, reopen

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("a", pa.string()), ("b", pa.string())]
)
BY_HAND = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
HOUR_MS = 3_600_000


class Rows:
    """A table of one file group, written a row at a time."""

    def __init__(self, version: int = 9, schema: pa.Schema = SCHEMA, **told: Any) -> None:
        self.clock = ManualClock(step_ms=1)
        self.storage = memory_storage()
        more = {"ordering": ("ts",), "table_type": "MERGE_ON_READ", "buckets": 1, **told}
        more["properties"] = {**BY_HAND, **more.get("properties", {})}
        make(self.storage, self.clock, schema, partition_by=(), table_version=version, **more)

    @property
    def table(self) -> Table:
        return reopen(self.storage, self.clock)

    def put(self, key: str, ts: int, a: str | None = None, b: str | None = None) -> str:
        row = {"id": key, "ts": ts, "a": a, "b": b}
        return self.table.upsert(pa.Table.from_pylist([row], SCHEMA)).instant

    def mark(self, key: str, ts: int) -> str:
        rows = pa.Table.from_pylist([{"id": key, "ts": ts, "a": None, "b": None}], SCHEMA)
        return self.table.upsert(rows.append_column("_hoodie_is_deleted", pa.array([True]))).instant

    def shown(self, **how: Any) -> list[tuple[str, int, str | None, str | None]]:
        rows = self.table.read(**how).read_all().to_pylist()
        return sorted(tuple(row.values()) for row in rows)

    @property
    def slice_(self):
        (found,) = self.table._now().slices
        return found


@pytest.mark.parametrize("index", ["bucket", "consistent_hashing"])
@pytest.mark.parametrize("version", [8, 9, 10])
def test_a_late_row_stays_gone_after_the_compaction_of_its_delete(version: int, index: str):
    rows = Rows(version, index=index)
    rows.put("x", 1)
    rows.put("k", 1, "one")
    rows.mark("k", 10)
    rows.table.compact("full")
    rows.put("k", 5, "late")
    assert rows.shown() == [("x", 1, None, None)]
    rows.table.compact("full")
    rows.put("k", 9, "late")
    assert rows.shown() == [("x", 1, None, None)]
    rows.put("k", 10, "new")
    assert rows.shown() == [("k", 10, "new", None), ("x", 1, None, None)]
    assert not rows.table.verify().errors


def test_tombstones_need_no_merge_and_ask_for_no_compaction():
    rows = Rows()
    rows.put("x", 1)
    rows.mark("k", 10)
    rows.table.compact("full")
    assert len(rows.slice_.tombstones) == 1
    assert not rows.slice_.needs_merge
    assert rows.table.schedule_compaction("full") is None
    assert rows.table.schedule_compaction("log") is None


@pytest.mark.parametrize("version", [9, 10])
def test_a_tombstone_expires_by_the_age_of_its_own_commit(version: int):
    rows = Rows(version, properties={"lakebed.tombstone.retention": "3 hours"})
    rows.put("x", 1)
    rows.mark("old", 10)
    rows.clock.ms += 2 * HOUR_MS
    rows.mark("new", 10)
    # Neither a log compaction nor a full one makes a delete young again.
    rows.table.compact("log")
    rows.table.compact("full")
    rows.clock.ms += 2 * HOUR_MS
    rows.put("x", 2)
    rows.table.compact("full")
    rows.put("old", 5)
    rows.put("new", 5)
    assert [row[0] for row in rows.shown()] == ["old", "x"]


@pytest.mark.parametrize("index", ["bucket", "consistent_hashing"])
@pytest.mark.parametrize("retention", ["0", "3 hours"])
def test_a_pending_plan_forgets_what_its_compaction_will_forget(retention: str, index: str):
    rows = Rows(index=index, properties={"lakebed.tombstone.retention": retention})
    rows.put("x", 1)
    rows.mark("k", 10)
    rows.clock.ms += 4 * HOUR_MS
    plan = rows.table.schedule_compaction("full")
    at = rows.put("k", 5, "late")
    # The setting of the day of the plan counts.
    rows.table.set_properties({"lakebed.tombstone.retention": "9 days"})
    before = rows.shown()
    assert [row[0] for row in before] == ["k", "x"]
    with pytest.raises(InvalidError, match=rf"{at} has completed on top of it"):
        rows.table.rollback(plan.instant.requested, delete_plan=True)
    rows.table.compact(instant=plan.instant.requested)
    assert rows.shown() == rows.shown(as_of=at) == before


def test_a_plan_on_top_of_which_nothing_completed_can_be_dropped():
    rows = Rows(properties={"lakebed.tombstone.retention": "0"})
    rows.put("x", 1)
    rows.mark("k", 10)
    plan = rows.table.schedule_compaction("full")
    rows.table.rollback(plan.instant.requested, delete_plan=True)
    rows.put("k", 5, "late")
    assert [row[0] for row in rows.shown()] == ["x"]


@pytest.mark.parametrize("index", ["simple", "global_simple"])
def test_a_simple_index_finds_the_tombstone_of_a_key(index: str):
    rows = Rows(index=index, buckets=None)
    rows.put("x", 1)
    rows.put("k", 1, "one")
    rows.mark("k", 10)
    rows.table.compact("full")
    rows.put("k", 5, "late")
    assert [row[0] for row in rows.shown()] == ["x"]


def test_new_keys_do_not_fill_a_base_file_that_has_tombstones():
    rows = Rows(index="simple", buckets=None)
    rows.put("x", 1)
    rows.put("k", 1, "one")
    rows.mark("k", 10)
    rows.table.compact("full")
    rows.put("y", 1)
    rows.put("k", 5, "late")
    assert [row[0] for row in rows.shown()] == ["x", "y"]


@pytest.mark.parametrize("index", ["bucket", "consistent_hashing", "simple"])
def test_deletes_of_the_write_that_makes_a_base_file_lie_beside_it(index: str):
    rows = Rows(index=index, buckets=None if index == "simple" else 1)
    both = [{"id": key, "ts": 10, "a": None, "b": None} for key in ("k", "x")]
    marked = pa.Table.from_pylist(both, SCHEMA)
    rows.table.upsert(marked.append_column("_hoodie_is_deleted", pa.array([True, False])))
    if index != "simple":  # which has no place for the delete of a key that it does not know
        assert len(rows.slice_.tombstones) == 1
    assert not rows.slice_.needs_merge
    assert not rows.table.verify().errors


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("mode", ["full", "log", "hybrid"])
def test_what_follows_a_delete_by_key_is_all_that_counts(version: int, mode: str):
    rows = Rows(version)
    rows.put("x", 1)
    rows.put("k", 100, "base")
    rows.table.delete([{"id": "k"}])
    rows.put("k", 5, "five")
    assert ("k", 5, "five", None) in rows.shown()
    rows.mark("k", 7)
    rows.table.compact(mode)
    rows.put("k", 6, "late")
    assert [row[0] for row in rows.shown()] == ["x"]


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_a_row_that_lost_gives_no_column(table_type: str):
    for late_first in (True, False):
        for version in (9, 10):
            rows = Rows(version, table_type=table_type)
            rows.put("k", 100, "base", "kept")
            if late_first:
                rows.put("k", 50, "late", "lost")
            rows.table.update_columns(pa.table({"id": ["k"], "ts": [200], "a": ["new"]}))
            if not late_first:
                rows.put("k", 50, "late", "lost")
            assert rows.shown() == [("k", 200, "new", "kept")]


@pytest.mark.parametrize("version", [9, 10])
def test_values_from_before_a_delete_fill_nothing(version: int):
    fill = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    for by_key in (True, False):
        rows = Rows(version, properties=fill)
        rows.put("k", 1, "old", "old")
        if by_key:
            rows.table.delete([{"id": "k"}])
        else:
            rows.mark("k", 2)
        rows.put("k", 3, "new")
        assert rows.shown() == [("k", 3, "new", None)]


@pytest.mark.parametrize(
    ("kind", "zero"), [(pa.int32(), 0), (pa.int16(), 0), (pa.date32(), dt.date(1970, 1, 1))]
)
def test_a_delete_at_the_ordering_value_that_means_none_is_refused(kind: pa.DataType, zero: object):
    schema = pa.schema([("id", pa.string()), ("ts", kind)])
    marked = pa.table({"id": ["k"], "ts": pa.array([zero], kind), "_hoodie_is_deleted": [True]})
    rows = Rows(schema=schema)
    rows.table.upsert(pa.table({"id": ["k"], "ts": pa.array([zero], kind)}))
    with pytest.raises(KeyValueError, match=r"cannot delete key 'k' at 'ts' = "):
        rows.table.upsert(marked)
    native = Rows(10, schema=schema)
    native.table.upsert(pa.table({"id": ["k", "m"], "ts": pa.array([zero, zero], kind)}))
    native.table.upsert(marked)
    assert native.table.read().read_all().num_rows == 1


def test_retention_is_a_number_and_a_unit():
    def told(text: str) -> int:
        return TOMBSTONE_RETENTION.value({"lakebed.tombstone.retention": text})

    assert [told(text) for text in ("0", "90 seconds", "1 minute", "2h", "1 day")] == [
        0,
        90_000,
        60_000,
        2 * HOUR_MS,
        24 * HOUR_MS,
    ]
    for text in ("7", "week", "-1 days", "1.5 hours"):
        with pytest.raises(OptionError, match=r"lakebed\.tombstone\.retention="):
            told(text)


def test_the_instants_of_gathered_deletes_come_back_from_a_schema():
    schema = '{"type":"record","name":"r","fields":[]}'
    for instants in (["1"], ["1", "1"], ["3", "1", "3", "2"]):
        text = record_instants(schema, DeleteInstants.of(pa.array(instants)))
        found = recorded_instants(text, "block")
        assert found is not None
        assert found.column(len(instants), "block").to_pylist() == instants
        assert found.oldest == "1"
    assert recorded_instants(schema, "block") is None
