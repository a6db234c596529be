"""Rows of a few keys: pages of keys are searched and cached, other columns decoded for the rows that stand."""

import shutil
from bisect import bisect_left, bisect_right
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import CorruptError
from lakebed.index.secondary import open_index
from lakebed.index.secondary.entries import EntryCache
from lakebed.storage.local import LocalStorage
from lakebed.table.read.pages.sorted_keys import HeldColumns, KeyPages, PageStarts, spans_of
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.source_cache import SourceCache

SCHEMA = "id BIGINT, ts BIGINT, a BIGINT, b STRING, c DOUBLE, d STRING, e BIGINT, f STRING"


def rows(ids, ts=1, word="first"):
    """Return rows with enough columns for their keys to be searched alone."""
    ids = list(ids)
    columns = {"id": ids, "ts": [ts] * len(ids), "a": ids, "b": [f"{word} {n}" for n in ids]}
    columns |= {"c": [n / 2 for n in ids], "d": [word] * len(ids), "e": ids, "f": [word] * len(ids)}
    return pa.table(columns)


def make(path, *, count=300, index=False, ordering="ts"):
    table = lakebed.create_table(
        None,
        str(path),
        SCHEMA,
        key="id",
        ordering=ordering,
        buckets=1,
        properties={"lakebed.sparse.index.rows": "16"},
    )
    if index:
        table.create_index("by_b", ["b"])
    table.bulk_insert(rows(range(count)))
    return table


@given(
    pages=st.lists(
        st.lists(st.sampled_from(range(8)), min_size=1, max_size=4), min_size=1, max_size=6
    ),
    lows=st.lists(st.binary(max_size=2), min_size=6, max_size=6),
    key=st.sampled_from(range(-1, 9)),
)
def test_keys_are_found_whatever_the_page_headers_say(pages, lows, key):
    ordered = sorted(number for page in pages for number in page)
    keys = [b"%d" % (number + 1) for number in ordered]
    starts, at, parts = [0], 0, []
    for page in pages:
        parts.append(pa.array(keys[at : at + len(page)], pa.binary()))
        at += len(page)
        starts.append(at)
    told = tuple(sorted(lows)[: len(pages)]) if len(pages) > 1 else ()
    held = KeyPages(PageStarts(tuple(starts), told), parts.__getitem__)
    wanted = b"%d" % (key + 1)
    low, high = bisect_left(keys, wanted), bisect_right(keys, wanted)
    for page in range(len(pages)):
        assert held.first_row(wanted, page)[0] == low
        assert held.first_row(wanted, page, after=True)[0] == high
    found = spans_of(held, [wanted], 7)
    assert [(span.group, span.start, span.stop) for span in found] == (
        [(7, low, high)] if low < high else []
    )


def test_page_headers_of_our_files_name_the_first_key_of_each_page(tmp_path):
    make(tmp_path)
    (base,) = (path.name for path in tmp_path.glob("*.parquet"))
    with open_parquet(LocalStorage(str(tmp_path)), base, "file") as file:
        keys = file.key_pages("_hoodie_record_key", 0)
        assert keys.starts.rows == (*range(0, 300, 16), 300)
        firsts = [keys.read(page)[0].as_py() for page in range(len(keys.starts.lows))]
    assert list(keys.starts.lows) == firsts


def changed(table):
    """Write newer and older versions, deletes and rows that come back; return what stands."""
    expected = dict.fromkeys(range(300), (1, "first"))
    writes = [(range(0, 300, 2), 5, "even"), (range(0, 300, 3), 3, "late"), ([7, 8], 9, "again")]
    for ids, ts, word in writes:
        table.upsert(rows(ids, ts, word))
        for n in ids:
            if ts >= expected.get(n, (0, ""))[0]:
                expected[n] = (ts, word)
    table.delete([{"id": n} for n in (10, 11, 12, 13)])
    for n in (10, 11, 12, 13):
        del expected[n]
    table.upsert(rows([12, 400], 20, "back"))
    return expected | {12: (20, "back"), 400: (20, "back")}


@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_lookup_finds_the_version_that_a_scan_finds(tmp_path, ordering):
    table = make(tmp_path, ordering=ordering)
    expected = changed(table)
    scanned = {row["id"]: row for row in table.to_arrow().to_pylist()}
    if ordering:
        assert {n: (row["ts"], row["d"]) for n, row in scanned.items()} == expected
    for _ in range(2):  # the second time from caches
        for start in range(0, 410, 20):
            some = range(start, start + 20)
            found = table.lookup([{"id": n} for n in some]).to_pylist()
            assert sorted(found, key=lambda row: row["id"]) == [
                scanned[n] for n in some if n in scanned
            ]
    assert table.lookup([7], columns=["d"]).to_pylist() == [{"d": scanned[7]["d"]}]


def flip(path, column):
    """Damage the pages of a column in a base file."""
    group = pq.read_metadata(path).row_group(0)
    chunk = next(
        c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column
    )
    data = bytearray(path.read_bytes())
    start = chunk.data_page_offset
    for at in range(start, start + chunk.total_compressed_size):
        data[at] ^= 0xFF
    path.write_bytes(data)


def test_columns_of_a_version_that_lost_are_not_decoded(tmp_path):
    table = make(tmp_path)
    table.upsert(rows([5], 2, "newer"))
    (base,) = tmp_path.glob("*.parquet")
    flip(base, "b")
    table = lakebed.open_table(None, str(tmp_path))
    assert table.lookup([5])["b"].to_pylist() == ["newer 5"]
    with pytest.raises(CorruptError, match="base file"):
        table.lookup([6])


def test_cached_pages_stay_below_their_limit():
    held = HeldColumns(1_000)
    for number in range(50):
        held.put(("f", "k", 0, number), pa.array([b"x" * 90], pa.binary()))
        assert held.size_bytes <= 1_000
    assert held.get(("f", "k", 0, 0)) is None
    assert held.get(("f", "k", 0, 49)) is not None
    held.put(("f", "k", 1, 0), pa.array([b"x" * 2_000], pa.binary()))
    assert held.size_bytes == 0  # larger than the limit: not kept


def test_lookups_are_right_and_bounded_with_a_cache_smaller_than_a_page(tmp_path, monkeypatch):
    table = make(tmp_path, index=True)
    table.upsert(rows(range(100, 200), 2, "newer"))
    snapshot = table._snapshot(None)
    caches = table._caches(snapshot)
    caches.sources = SourceCache(max_bytes=700)
    (opened,) = table._indexes(snapshot)
    assert isinstance(opened, open_index.OpenIndex)
    caches.indexes = [replace(opened, cache=EntryCache(700))]
    for n in (*range(0, 300, 7), 150):
        word = "newer" if 100 <= n < 200 else "first"
        assert table.lookup([n])["d"].to_pylist() == [word]
        assert table.lookup([{"b": f"{word} {n}"}])["id"].to_pylist() == [n]
    assert caches.sources._columns.size_bytes <= 700
    assert caches.indexes[0].cache.keys.size_bytes <= 700


def test_a_used_handle_sees_what_another_compacts_cleans_and_rolls_back(tmp_path):
    used = make(tmp_path, index=True)
    other = lakebed.open_table(None, str(tmp_path))

    def seen():
        by_key = used.lookup([5])["d"].to_pylist()
        by_value = [
            row["d"]
            for n in ("first 5", "second 5", "third 5")
            for row in used.lookup([{"b": n}]).to_pylist()
        ]
        assert by_key == by_value
        return by_key[0]

    assert seen() == "first"
    other.upsert(rows([5], 2, "second"))
    assert seen() == "second"
    before = set(tmp_path.glob("*.parquet"))
    other.compact()
    other.clean(
        options={
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.fileversions.retained": "1",
            "lakebed.clean.min.age.seconds": "0",
        }
    )
    assert not before & set(tmp_path.glob("*.parquet"))
    assert seen() == "second"
    third = other.upsert(rows([5], 3, "third"))
    assert seen() == "third"
    other.rollback(third.instant)
    assert seen() == "second"


def test_a_used_handle_sees_the_table_that_replaced_its_own(tmp_path):
    path = tmp_path / "table"
    used = make(path, index=True)
    assert used.lookup([5])["d"].to_pylist() == ["first"]
    shutil.rmtree(path)
    fresh = make(path, index=True, count=10)
    fresh.upsert(rows([5], 2, "other"))
    assert used.lookup([5])["d"].to_pylist() == ["other"]
    assert used.lookup([{"b": "other 5"}])["id"].to_pylist() == [5]
    assert used.lookup([200]).num_rows == 0
