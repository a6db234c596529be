"""Deletes with ordering values outlast a clustering, in the new file groups of their keys."""

from typing import Any

import pyarrow as pa
import pytest

from lakebed.api.table import Table
from lakebed.model.clock import ManualClock
from lakebed.storage.objects import memory_storage
from support.tables import make, reopen

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("a", pa.string())])
# Every write of new keys makes a file group of its own.
APART = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
HOUR_MS = 3_600_000


class Rows:
    """A table with a simple index, and what is written to it."""

    def __init__(self, version: int = 9, **properties: str) -> None:
        self.clock = ManualClock(step_ms=1)
        self.storage = memory_storage()
        make(
            self.storage,
            self.clock,
            SCHEMA,
            ordering=("ts",),
            table_type="MERGE_ON_READ",
            partition_by=(),
            index="simple",
            buckets=None,
            table_version=version,
            properties={**APART, **properties},
        )

    @property
    def table(self) -> Table:
        return reopen(self.storage, self.clock)

    def put(self, keys: str, ts: int, a: str = "") -> None:
        self.table.upsert(self._rows(keys, ts, a))

    def insert(self, keys: str, ts: int) -> None:
        self.table.insert(self._rows(keys, ts, ""))

    def mark(self, keys: str, ts: int) -> None:
        gone = pa.array([True] * len(keys))
        self.table.upsert(self._rows(keys, ts, "").append_column("_hoodie_is_deleted", gone))

    def _rows(self, keys: str, ts: int, a: str) -> pa.Table:
        return pa.Table.from_pylist([{"id": key, "ts": ts, "a": a} for key in keys], SCHEMA)

    def shown(self, **how: Any) -> str:
        return "".join(sorted(self.table.read(**how).read_all().column("id").to_pylist()))

    @property
    def slices(self) -> tuple[Any, ...]:
        return self.table._now().slices


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_late_row_stays_gone_after_its_delete_was_clustered(version: int, compacted: bool):
    rows = Rows(version)
    rows.put("abk", 1)
    rows.put("cdl", 1)
    rows.mark("kl", 10)
    if compacted:
        rows.table.compact("full")
    before = rows.shown()
    assert rows.table.cluster()
    (slice_,) = rows.slices
    assert len(slice_.tombstones) == 1
    assert not slice_.needs_merge
    assert rows.shown() == before == "abcd"
    rows.put("kl", 9, "late")
    assert rows.shown() == "abcd"
    rows.table.compact("full")
    rows.put("e", 1)
    assert rows.table.cluster()
    rows.put("kl", 9, "late")
    assert rows.shown() == "abcde"
    rows.put("l", 10, "new")
    assert rows.shown() == "abcdel"
    assert not rows.table.verify().errors


def test_each_delete_goes_to_the_file_group_of_its_key():
    rows = Rows(**{"hoodie.clustering.plan.strategy.target.file.max.bytes": "1"})
    rows.put("ace", 1)
    rows.put("bdf", 1)
    rows.mark("abf", 10)
    done = rows.table.cluster()
    assert done is not None
    assert (done.replaced, done.written, done.rows) == (2, 3, 3)
    # A file has room for one row: a and b lie before the first, f behind the last.
    assert sorted(len(slice_.tombstones) for slice_ in rows.slices) == [0, 1, 1]
    rows.put("abf", 9, "late")
    assert rows.shown() == "cde"
    assert not rows.table.verify().errors


def test_deletes_alone_become_a_file_group_without_rows():
    rows = Rows()
    rows.put("a", 1)
    rows.put("b", 1)
    rows.mark("ab", 10)
    assert rows.table.cluster()
    assert len(rows.slices) == 1
    rows.put("ab", 9, "late")
    rows.put("c", 1)
    assert rows.shown() == "c"
    rows.put("b", 11)
    assert rows.shown() == "bc"


@pytest.mark.parametrize("key", "ac")
def test_a_row_that_was_inserted_beside_a_delete_of_its_key_stays(key: str):
    rows = Rows()
    rows.put("ax", 1)
    rows.put("cy", 1)
    rows.mark("ac", 10)
    rows.table.compact("full")
    # An insert looks nothing up, so it does not meet the delete.
    rows.insert(key, 2)
    assert rows.shown() == f"{key}xy"
    assert rows.table.cluster()
    assert rows.shown() == f"{key}xy"
    rows.put("ac", 9, "late")
    assert rows.shown() == f"{key}xy"


def test_a_clustering_forgets_deletes_that_are_too_old():
    rows = Rows(**{"lakebed.tombstone.retention": "3 hours"})
    rows.put("ak", 1)
    rows.put("bl", 1)
    rows.mark("k", 10)
    rows.clock.ms += 2 * HOUR_MS
    rows.mark("l", 10)
    rows.clock.ms += 2 * HOUR_MS
    assert rows.table.cluster()
    rows.put("kl", 9, "late")
    assert rows.shown() == "abk"


def test_an_overwrite_starts_anew_and_a_delete_by_key_leaves_nothing():
    rows = Rows()
    rows.put("ak", 1)
    rows.put("bm", 1)
    rows.mark("k", 10)
    rows.table.delete([{"id": "m"}])
    assert rows.table.cluster()
    rows.put("m", 0)
    assert rows.shown() == "abm"
    rows.table.insert_overwrite(rows._rows("a", 1, ""))
    rows.put("k", 5)
    assert rows.shown() == "ak"
