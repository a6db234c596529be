"""Rows that are read by their position: only their pages are decoded, and they equal the rows of a scan."""

import decimal
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import CorruptError
from lakebed.format.compiled import kernels
from lakebed.format.files import page_walk
from lakebed.format.files.footer_layout import parse_layout, read_footer_bytes
from lakebed.format.files.parquet_pages import find_chunks, measure_pages
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.pages.sorted_keys import HeldColumns, RowSpan
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_reader import Needs, read_run
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.store.run_writer import RunSizes, RunWriter

MOMENT = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


def rows(count, *, nested=False):
    """Return sorted rows of many types; every seventh value is null."""
    numbers = np.arange(count)
    nulls = numbers % 7 == 3
    columns = {
        RECORD_KEY: [f"k{n:06}" for n in numbers],
        "big": pa.array(numbers * 10**9, mask=nulls),
        "small": pa.array((numbers % 100).astype(np.int8), mask=nulls),
        "real": pa.array(numbers / 3, mask=nulls),
        "flag": pa.array(numbers % 2 == 0, mask=nulls),
        "text": [None if n % 7 == 3 else f"text {n * 31} 猫🐈" for n in numbers],
        "kind": [f"kind {n % 3}" for n in numbers],
        "raw": pa.array([None if n % 7 == 3 else bytes([n % 256]) * (n % 9) for n in numbers]),
        "amount": pa.array([decimal.Decimal(int(n)) / 100 for n in numbers], pa.decimal128(18, 2)),
        "at": pa.array([MOMENT.replace(microsecond=int(n)) for n in numbers]),
    }
    if nested:
        columns["tags"] = [[f"t{n}"] * (n % 4) for n in numbers]
    return pa.table(columns)


def written(storage, table, path="f", *, may_repeat=False, **sizes):
    with RunWriter(
        storage.open_write(path),
        path,
        table.schema,
        {},
        sizes=RunSizes(**sizes),
        may_repeat=may_repeat,
    ) as run:
        for batch in table.to_batches():
            run.write(batch)
        run.close()
    return path


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(str(tmp_path))


@settings(max_examples=25, deadline=None)
@given(data=st.data(), page_rows=st.integers(1, 60), compiled=st.booleans())
def test_spans_equal_slices_of_the_table_whatever_the_pages(
    tmp_path_factory, data, page_rows, compiled
):
    table = rows(data.draw(st.integers(1, 200)))
    storage = LocalStorage(str(tmp_path_factory.mktemp("spans")))
    group_rows = data.draw(st.integers(1, 150))
    path = written(storage, table, row_group_rows=group_rows, page_rows=page_rows)
    chosen = data.draw(st.sets(st.integers(0, table.num_rows - 1), min_size=1, max_size=8))
    names = data.draw(st.lists(st.sampled_from(table.column_names), min_size=1, unique=True))
    spans = [RowSpan(n // group_rows, n % group_rows, n % group_rows + 1) for n in sorted(chosen)]
    with kernels(compiled), open_parquet(storage, path, "file") as file:
        found = pa.Table.from_batches(list(file.read_spans(names, spans)))
    # Compared by values: decimals and times have other types in a file.
    assert found.select(names).to_pylist() == table.take(sorted(chosen)).select(names).to_pylist()


@pytest.mark.parametrize("nested", [False, True])
def test_only_the_pages_of_the_rows_are_read(storage, nested):
    table = rows(5_000, nested=nested)
    path = written(storage, table, page_rows=100)
    with open_parquet(storage, path, "file") as file:
        window = file.page_window(0, table.column_names, 1_234)
        found = list(file.read_spans(table.column_names, [RowSpan(0, 1_234, 1_235)]))
    assert pa.Table.from_batches(found).to_pylist() == table.slice(1_234, 1).to_pylist()
    # A list has more or fewer values than rows, so its pages do not tell where a row lies.
    assert (window is None) == nested
    if window is not None:
        assert (window.first, window.stop) == (1_200, 1_300)


def test_a_span_over_two_pages_is_read_whole(storage):
    table = rows(300)
    path = written(storage, table, page_rows=100)
    with open_parquet(storage, path, "file") as file:
        found = list(file.read_spans(table.column_names, [RowSpan(0, 95, 105)]))
    assert pa.Table.from_batches(found).to_pylist() == table.slice(95, 10).to_pylist()


def test_a_flipped_bit_in_a_page_is_found_by_its_checksum(storage, tmp_path):
    table = rows(1_000)
    path = written(storage, table, page_rows=100)
    with open_parquet(storage, path, "file") as file:
        window = file.page_window(0, ["text"], 450)
    page = window.columns[0].page
    data = bytearray((tmp_path / path).read_bytes())
    data[page.offset + page.length - 3] ^= 4
    (tmp_path / path).write_bytes(data)
    with (
        open_parquet(storage, path, "the file") as file,
        pytest.raises(CorruptError, match="the file"),
    ):
        list(file.read_spans(["text"], [RowSpan(0, 450, 451)]))


@pytest.mark.parametrize("writer", ["ours", "pyarrow", "uncompressed", "version 2"])
def test_the_walk_over_pages_finds_what_the_headers_say(tmp_path, writer):
    table = rows(3_000, nested=True)
    path = tmp_path / "f"
    if writer == "ours":
        written(LocalStorage(str(tmp_path)), table, page_rows=64)
    else:
        options = {
            "pyarrow": {"compression": "snappy", "write_page_index": True},
            "uncompressed": {"compression": "none", "data_page_size": 512, "write_batch_size": 50},
            "version 2": {"data_page_version": "2.0", "max_rows_per_page": 100},
        }
        pq.write_table(table, path, **options[writer])
    data = path.read_bytes()

    def read_at(offset, length):
        return data[offset : offset + length]

    layout = parse_layout(read_footer_bytes(read_at, len(data), "file"), "file")
    chunks = find_chunks(layout, 0, table.column_names)
    assert len(chunks) == len(table.column_names)
    for chunk in chunks:
        with kernels(False):
            plain = measure_pages(read_at, len(data), chunk, "file")
        with kernels(True):
            compiled = measure_pages(read_at, len(data), chunk, "file")
        # Beyond 1 MiB the headers are parsed one by one.
        apart = measure_pages(read_at, len(data), replace(chunk, compressed_bytes=2 << 20), "file")
        assert plain == compiled == apart
        assert sum(page.values for page in plain.pages if not page.is_dictionary) == chunk.values


@given(data=st.binary(max_size=200), values=st.integers(-2, 5))
def test_the_walk_over_any_bytes_ends_and_agrees_with_its_compiled_form(data, values):
    with kernels(False):
        plain = page_walk.walk_pages(data, values)
    with kernels(True):
        compiled = page_walk.walk_pages(data, values)
    assert (plain is None) == (compiled is None)
    assert plain is None or plain.tolist() == compiled.tolist()


@pytest.mark.parametrize("remote", [False, True])
def test_a_run_that_is_known_to_lack_a_key_is_not_opened(tmp_path, remote):
    storage = memory_storage("t") if remote else LocalStorage(str(tmp_path))
    table = rows(500)
    path = written(storage, table, row_group_rows=100)
    with open_parquet(storage, path, "file") as file:
        footer = replace(file.footer, columns=HeldColumns(1 << 20))
    source = RunSource(path, RunKind.DATA, "1", ordered=True, footer=footer)

    def found(*keys):
        needs = Needs(tuple(table.schema), key_filter=KeyFilter.of(keys=keys))
        return [
            key
            for b in read_run(storage, source, needs)
            for key in b.column(RECORD_KEY).to_pylist()
        ]

    assert found("k000123", "k000123x", "k000499") == ["k000123", "k000499"]
    storage.delete(path)
    assert found("k000123x") == found("k000499y") == found("a") == []


def test_a_key_that_occurs_several_times_is_read_each_time(storage):
    keys = ["a", "b", "b", "b", "c"]
    table = rows(5).set_column(0, RECORD_KEY, pa.array(keys))
    path = written(storage, table, row_group_rows=2, page_rows=1, may_repeat=True)
    source = RunSource(path, RunKind.DATA, "1", ordered=True, is_base=True)
    needs = Needs(tuple(table.schema), key_filter=KeyFilter.of(keys=["b", "c"]))
    found = pa.Table.from_batches(list(read_run(storage, source, needs)))
    assert found["big"].to_pylist() == table["big"].to_pylist()[1:]


def test_the_sparse_index_has_an_entry_for_as_many_rows_as_the_table_says(tmp_path):
    table = lakebed.create_table(
        None,
        str(tmp_path),
        "id BIGINT, v BIGINT, w BIGINT",
        key="id",
        buckets=1,
        properties={"lakebed.sparse.index.rows": "100"},
    )
    numbers = pa.array(range(1_000))
    table.bulk_insert(pa.table({"id": numbers, "v": numbers, "w": numbers}))
    table.upsert(pa.table({"id": numbers, "v": numbers, "w": numbers}))
    storage = LocalStorage(str(tmp_path))
    (base,) = (path.name for path in tmp_path.glob("*.parquet"))
    with open_parquet(storage, base, "file") as file:
        window = file.page_window(0, ["v"], 950)
    assert (window.first, window.stop) == (900, 1_000)
    assert table.lookup([950]).to_pylist() == [{"id": 950, "v": 950, "w": 950}]
