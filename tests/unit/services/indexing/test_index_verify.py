"""`verify` compares the entries of an index with the rows, one by one and in both directions."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.index.secondary.entries import (
    ENTRY_KEY,
    find_entries,
    make_entries,
    sort_entries,
    write_entries,
)
from lakebed.index.secondary.manifest import put_manifest
from lakebed.services.indexing.parts import EVERYTHING
from lakebed.services.verify.findings import Code
from lakebed.services.verify.plan import plan_repair
from support.city_index import BY_HAND, candidates, folder_of, make, opened, rows
from support.indexes import check_indexes


def rewrite_base(table, change) -> None:
    """Replace the entries of the only base run, as no write does."""
    manifest = opened(table).manifest
    (run,) = manifest.base
    held = sort_entries(find_entries(table._storage, run.path, [EVERYTHING]))
    changed = write_entries(table._storage, run.path, [sort_entries(change(held))])
    put_manifest(table._storage, folder_of(table), replace(manifest, base=(changed,)))


def entry(city: str, key: str) -> pa.RecordBatch:
    [batch] = rows({key: city}).rename_columns([RECORD_KEY, "ts", "city"]).to_batches()
    return make_entries(batch, ["city"], "")


@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_verify_compares_entries_one_by_one_in_both_directions(table_type):
    table = make(f"both-ways-{table_type}", BY_HAND, table_type=table_type)
    more = {f"x{n}": "riga" for n in range(60)}
    table.bulk_insert(rows({"a": "rome", "b": "lima", "c": "oslo", "d": "rome", **more}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"a": "bern"}, 2))
    table.compact_index("by_city")
    assert opened(table).manifest.delta.deleted
    table.upsert(rows({"c": "bern"}, 3))
    # The entries of rome for a, and of oslo for c, are explained by later writes.
    [note] = table.verify().findings
    assert (note.code, note.severity) == (Code.INDEX_STALE, "note")
    assert "2 of 66 entries (3.0%) are stale" in note.message
    rewrite_base(table, lambda held: [held, entry("nowhere", "b")])
    spare, note = table.verify().findings
    assert (spare.code, spare.severity, spare.key) == (Code.INDEX_SUPERFLUOUS, "warning", ":b")
    assert note.code is Code.INDEX_STALE
    # As many entries as rows do not mean that they are the right ones.
    d = entry("rome", "d").column(ENTRY_KEY)[0]
    lose = lambda held: [held.filter(pc.not_equal(held.column(ENTRY_KEY), d))]  # noqa: E731
    rewrite_base(table, lose)
    lost, spare, note = table.verify().findings
    assert (lost.code, lost.severity, lost.key) == (Code.INDEX_INCOMPLETE, "error", ":d")
    assert (spare.code, note.code) == (Code.INDEX_SUPERFLUOUS, Code.INDEX_STALE)
    table.repair(plan_repair(table.verify()))
    assert list(table.verify().findings) == []
    check_indexes(table, covered=True)


def test_entries_of_hidden_versions_stay_when_the_layout_changes():
    table = make("moved", BY_HAND, layout="default", buckets=1)
    table.bulk_insert(rows({"a": "rome", "b": "oslo"}))
    table.upsert(rows({"a": "lima"}, 2))
    # In this layout later logs may make the row of the base file the current one.
    table.create_index("by_city", ["city"])
    assert candidates(table, "rome") == {"a"}
    table.upgrade(layout="lsm_tree")
    table.upsert(rows({"b": "bern"}, 3))
    assert table.compact_index("by_city").changed == 1
    assert candidates(table, "rome") == {"a"}
    [note] = table.verify().findings
    assert note.code is Code.INDEX_STALE
    table.drop_index("by_city")
    table.create_index("by_city", ["city"])
    assert table.verify().findings == ()


def test_an_entry_without_a_row_is_found_where_nothing_was_hidden():
    table = make("not-hidden", BY_HAND, layout="default")
    table.bulk_insert(rows({"a": "rome", "b": "lima"}))
    table.create_index("by_city", ["city"])
    table.upsert(rows({"a": "bern"}, 2))
    table.compact(mode="full")
    rewrite_base(table, lambda held: [held, entry("nowhere", "b")])
    spare, _ = table.verify().findings
    assert (spare.code, spare.key) == (Code.INDEX_SUPERFLUOUS, ":b")
