"""Small Parquet files that unpack to much: refused by name, or read in small batches."""

import contextlib
import io
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import CorruptError, UnsupportedError
from lakebed.format.files.footer_layout import parse_layout, read_footer_bytes
from lakebed.format.files.parquet_pages import MAX_PAGE_BYTES, find_chunks, measure_pages
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.table.read.pages.page_limits import MAX_BATCH_BYTES
from lakebed.table.read.parquet_source import open_parquet
from support.measured import measure

READ = """
from lakebed.storage.open import open_storage
from lakebed.table.read.parquet_source import open_parquet
def read(storage, path):
    with open_parquet(storage, path, "the file") as file:
        for number, batch in enumerate(file.read(["v"])):
            if number == 4:
                break
"""


def layout_of(data):
    return parse_layout(read_footer_bytes(lambda at, n: data[at : at + n], len(data), "f"), "f")


def write(path, column, *, compression="zstd", dictionary=False, **options):
    table = pa.table({"v": column})
    pq.write_table(
        table,
        path,
        compression=compression,
        use_dictionary=dictionary,
        store_schema=False,
        **options,
    )
    return path


def repeated(text, rows):
    indices = pa.array([0] * rows, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([text]))


def read(folder):
    path = f"open_storage({str(folder)!r})"
    return measure(f"read({path}, 'f')", READ)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """Return a file of some kilobytes whose one page has 270 MB."""
    folder = tmp_path_factory.mktemp("bomb")
    path = write(folder / "f", pa.array(["a" * (257 << 20)]), write_statistics=False)
    assert path.stat().st_size < 50_000
    return folder


def test_a_page_that_unpacks_to_hundreds_of_megabytes_is_refused_before_it_does(bomb):
    taken = read(bomb)
    assert taken.said is not None
    assert "UnsupportedError: the file, column 'v': a page of 26948" in taken.said
    assert f"expected at most {MAX_PAGE_BYTES}" in taken.said
    assert taken.megabytes < 100
    assert taken.seconds < 5


def test_it_is_refused_on_an_object_store_too(bomb):
    storage = memory_storage()
    storage.put("f", (bomb / "f").read_bytes())
    with (
        open_parquet(storage, "f", "the file") as file,
        pytest.raises(UnsupportedError, match="a page of"),
    ):
        next(file.read(["v"]))


def test_one_long_text_that_is_the_value_of_every_row_is_read_in_small_batches(tmp_path):
    write(tmp_path / "f", repeated("a" * (1 << 20), 100_000), dictionary=True)
    assert (tmp_path / "f").stat().st_size < 100_000
    taken = read(tmp_path)
    assert taken.said is None
    assert taken.megabytes < 6 * (MAX_BATCH_BYTES >> 20)


def test_texts_that_repeat_what_is_before_them_are_read_in_small_batches(tmp_path):
    column = pa.array(["a" * (64 << 10) + str(i) for i in range(2_100)])
    assert column.nbytes > 2 * MAX_BATCH_BYTES
    write(tmp_path / "f", column, column_encoding={"v": "DELTA_BYTE_ARRAY"}, data_page_size=1 << 30)
    rows = 0
    with open_parquet(LocalStorage(str(tmp_path)), "f", "the file") as file:
        for batch in file.read(["v"]):
            assert batch.nbytes <= MAX_BATCH_BYTES
            rows += batch.num_rows
    assert rows == len(column)


def test_rows_of_a_long_text_come_whole_and_in_order(tmp_path):
    long = "a" * (1 << 20)
    texts = [long if i % 50 == 0 else str(i) for i in range(1_000)]
    write(tmp_path / "f", pa.array(texts).dictionary_encode(), dictionary=True)
    with open_parquet(LocalStorage(str(tmp_path)), "f", "the file") as file:
        batches = list(file.read(["v"]))
    assert [text for batch in batches for text in batch.column(0).to_pylist()] == texts
    assert max(batch.num_rows for batch in batches) <= 64


def test_common_files_are_read_in_common_batches(tmp_path):
    texts = pa.array([f"key-{i % 20_000:08d}" for i in range(50_000)])
    ways: list[dict[str, Any]] = [{"dictionary": True}, {"dictionary": False}]
    ways.append({"column_encoding": {"v": "DELTA_BYTE_ARRAY"}})  # as the keys of our files
    for way in ways:
        write(tmp_path / "f", texts, **way)
        with open_parquet(LocalStorage(str(tmp_path)), "f", "the file") as file:
            sizes = [batch.num_rows for batch in file.read(["v"])]
        assert min(sizes[:-1]) >= 4_096


def test_a_footer_that_lies_about_repeated_texts_is_believed_only_so_far(tmp_path):
    column = pa.array(["a" * 100 + str(i) for i in range(10_000)])
    write(tmp_path / "f", column, column_encoding={"v": "DELTA_BYTE_ARRAY"})
    data = (tmp_path / "f").read_bytes()

    def read_at(at: int, length: int) -> bytes:
        return data[at : at + length]

    (chunk,) = find_chunks(layout_of(data), 0, ["v"])
    assert chunk.told_bytes == sum(map(len, column.to_pylist()))
    worst = [
        measure_pages(read_at, len(data), replace(chunk, told_bytes=told), "f").row_bytes
        for told in (None, 10**12, 1)
    ]
    assert worst[0] == worst[1] == 16 * worst[2] > 1_000


class TestPageHeaders:
    @pytest.fixture(params=["v1", "v2"])
    def data(self, request):
        sink = io.BytesIO()
        write(
            sink,
            pa.array([f"text {i}" for i in range(1_000)]),
            compression="gzip",
            data_page_size=256,
            write_batch_size=16,
            data_page_version={"v1": "1.0", "v2": "2.0"}[request.param],
        )
        return sink.getvalue()

    def chunk(self, data):
        (chunk,) = find_chunks(layout_of(data), 0, ["v"])
        return chunk

    def measure(self, data, chunk=None):
        return measure_pages(
            lambda at, length: data[at : at + length], len(data), chunk or self.chunk(data), "f"
        )

    def test_what_a_row_takes_is_that_of_its_page(self, data):
        assert 8 <= self.measure(data).row_bytes < 40

    def test_every_byte_set_wrong_is_corrupt_unsupported_or_measured(self, data):
        chunk = self.chunk(data)
        for at in range(chunk.offset, min(chunk.offset + 400, len(data))):
            for byte in (0x00, 0x7F, 0xFF):
                broken = data[:at] + bytes([byte]) + data[at + 1 :]
                with contextlib.suppress(CorruptError, UnsupportedError):
                    assert self.measure(broken, chunk).row_bytes >= 0

    def test_a_footer_that_is_none_is_corrupt(self):
        for footer in (b"", b"\x00", b"\xff" * 50, b"\x19\xfc\xff\xff\xff\xff\x0f"):
            with pytest.raises(CorruptError, match="f: its footer is not valid Parquet metadata"):
                parse_layout(footer, "f")
