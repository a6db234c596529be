"""A slice in order of its keys, however its base file lies."""

import pytest

from lakebed.merge.rule import MergeRule
from lakebed.storage.objects import memory_storage
from lakebed.table.read.slice_reader import read_slice
from support.runs import Slice, config, marked, parquet, with_meta


def keyed(slice_: Slice, *, by_key: bool, columns=("id", "v"), rule=None) -> list[tuple]:
    view = slice_.view(config(), rule=rule or MergeRule(("ts",)))
    batches = read_slice(view, slice_.value, columns, by_key=by_key)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def row(key: str, v: int, ts: int) -> dict:
    return {"id": key, "v": v, "ts": ts}


@pytest.fixture
def unsorted() -> Slice:
    slice_ = Slice(memory_storage())
    rows = [row("c", 1, 5), row("a", 2, 5), row("c", 3, 4), row("b", 4, 5)]
    slice_.base(1, parquet(with_meta(rows), marked(False)))
    return slice_


def test_a_base_file_without_order_gives_all_its_rows_in_order(unsorted):
    assert keyed(unsorted, by_key=False) == [("c", 1), ("a", 2), ("c", 3), ("b", 4)]
    for rule in (MergeRule(("ts",)), MergeRule()):
        found = keyed(unsorted, by_key=True, rule=rule)
        # Hudi shows a key that comes twice in a base file twice.
        assert found == [("a", 2), ("b", 4), ("c", 1), ("c", 3)]


def test_without_columns_every_row_is_counted(unsorted):
    batches = read_slice(unsorted.view(config()), unsorted.value, [], by_key=True)
    assert [(batch.num_columns, batch.num_rows) for batch in batches] == [(0, 4)]


def test_a_slice_without_a_base_file_has_no_rows():
    assert keyed(Slice(memory_storage()), by_key=True) == []
