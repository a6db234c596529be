"""Building secondary indexes, and dropping the columns that they use."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.errors import CorruptError, InvalidError
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.definition import IndexDefinition
from lakebed.index.secondary.entries import ENTRY_KEY, find_entries, make_entries, write_entries
from lakebed.model.clock import ManualClock
from lakebed.model.executor import LocalExecutor
from lakebed.services.indexing.build import create_index
from lakebed.services.indexing.parts import EVERYTHING, merge_parts
from lakebed.storage.objects import memory_storage
from lakebed.table.config.properties_file import update_properties
from lakebed.table.config.table_config import DROPPED_COLUMNS
from support.city_index import (
    BY_HAND,
    Interrupted,
    Meanwhile,
    folder_of,
    found,
    make,
    rows,
)
from support.indexes import check_indexes
from support.tables import batch, reopen
from support.tables import make as make_plain


@pytest.mark.parametrize("stage", ["build", "merge"])
def test_of_two_builds_at_once_both_succeed(stage):
    table = make(f"builds-{stage}", BY_HAND)
    table.bulk_insert(rows({"k": "rome", "l": "lima"}))

    def others() -> None:
        table.create_index("by_city", ["city"], if_not_exists=True)
        table.upsert(rows({"k": "oslo"}, 2))

    target = replace(table._target(), executor=Interrupted(stage, others))
    assert create_index(target, "by_city", ["city"])[0].entries == 3
    check_indexes(table, covered=True)


def test_nothing_is_left_of_an_index_whose_build_failed():
    table = make("failed", BY_HAND)
    table.bulk_insert(rows({"k": "rome"}))
    (path,) = table.files().column("path").to_pylist()
    table._storage.delete(path)
    with pytest.raises(CorruptError):
        table.create_index("by_city", ["city"])
    assert table.indexes() == ()
    assert list(table._storage.list(".hoodie/lakebed/index")) == []


def test_a_column_is_not_dropped_if_an_index_on_it_appears_meanwhile():
    storage, clock = Meanwhile(memory_storage()), ManualClock(step_ms=1)
    mode = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    table = make_plain(storage, clock, properties=BY_HAND | mode)
    table.upsert(batch(("k", 1, 1, "p")))
    storage.place = "names .hoodie/lakebed/files"
    storage.deed = lambda: reopen(storage, clock).create_index("by_v", ["v"])
    with pytest.raises(InvalidError, match="drop_index"):
        table.drop_column("v")
    assert storage.deed is None
    assert "v" in reopen(storage, clock).schema.names
    check_indexes(reopen(storage, clock), covered=True)


def test_a_column_that_is_being_dropped_takes_no_index():
    table = make("dropping")
    update_properties(table._storage, {DROPPED_COLUMNS: '["city"]'})
    with pytest.raises(InvalidError, match=r"call drop_column.'city'. again"):
        table.create_index("by_city", ["city"])


def test_an_interrupted_build_is_resumed_and_is_not_used_before():
    table = make("resumed", BY_HAND)
    table.bulk_insert(rows({f"k{n}": "rome" for n in range(10)}))
    target = table._target()
    with pytest.raises(KeyboardInterrupt):
        create_index(replace(target, executor=Stops(1)), "by_city", ["city"])
    assert "being built" in table.indexes()[0].state
    parts = [e.path for e in table._storage.list(folder_of(table)) if "/parts/" in e.path]
    assert parts
    table.upsert(rows({"new": "oslo"}))
    assert table.create_index("by_city", ["city"], if_not_exists=True).entries == 11
    check_indexes(table, covered=True)
    assert not [e for e in table._storage.list(folder_of(table)) if "/parts/" in e.path]


MEANWHILE = {
    "upsert": lambda t, _: t.upsert(rows({"k": "oslo", "new": "oslo"}, 9)),
    "delete": lambda t, _: t.delete([{"uuid": "l"}]),
    "table compaction": lambda t, _: t.compact(mode="full"),
    "replacement": lambda t, _: t.insert_overwrite(rows({"k": "bern"}, 9)),
    "rollback": lambda t, commit: t.rollback(commit.instant),
}


@pytest.mark.parametrize("deed", MEANWHILE)
@pytest.mark.parametrize("stage", ["build", "merge"])
def test_a_build_while_writers_go_on_misses_nothing(stage, deed):
    table = make(f"meanwhile-{stage}-{deed}", BY_HAND | {"hoodie.compact.inline": "false"})
    table.bulk_insert(rows({"k": "rome", "l": "lima", "m": "lima"}))
    commit = table.upsert(rows({"m": "rome"}, 2))
    others = Interrupted(stage, lambda: MEANWHILE[deed](table, commit))
    create_index(replace(table._target(), executor=others), "by_city", ["city"])
    check_indexes(table, covered=True)
    everything = table.to_arrow()
    for city in ("rome", "lima", "oslo", "bern"):
        wanted = everything.filter(pc.equal(everything["city"], city))["uuid"].to_pylist()
        assert found(table, f"city = '{city}'") == set(wanted)


def test_all_entries_of_a_value_are_in_one_base_run():
    # As many entries as several base runs hold, of few values.
    count = 2_200_000
    numbers = np.arange(count)
    cities = pa.array(["a", "b", "c", "d", "e"]).take(pa.array(numbers * 5 // count))
    keys = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 7, "0")
    batch_ = pa.RecordBatch.from_arrays([keys, cities], names=[RECORD_KEY, "city"])
    storage = memory_storage()
    part = write_entries(storage, "part", [make_entries(batch_, ["city"], "")], compress=False)
    definition = IndexDefinition("by_city", ("city",), ("string",), "1")
    runs = merge_parts(storage, definition, [pa.string()], [part], "base", LocalExecutor(1))
    values = [
        {key[1:2] for b in find_entries(storage, run.path, [EVERYTHING]) for key in ends(b)}
        for run in runs
    ]
    assert len(runs) > 1
    assert sum(run.entries for run in runs) == count
    assert sum(map(len, values)) == 5


def ends(entries_: pa.RecordBatch) -> list[bytes]:
    keys = entries_.column(ENTRY_KEY)
    return [keys[0].as_py(), keys[len(keys) - 1].as_py()]


class Stops(LocalExecutor):
    """An executor that dies after some tasks."""

    def __init__(self, tasks: int) -> None:
        super().__init__(1)
        self.tasks = tasks

    def run(self, task, items, label, report=None):
        for result in super().run(task, items, label, report):
            if not self.tasks:
                raise KeyboardInterrupt
            self.tasks -= 1
            yield result
