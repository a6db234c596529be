"""Logs that are cut, damaged or lie about themselves: named, never taken as valid, never slow."""

import contextlib
import struct
from dataclasses import replace

import pytest

from lakebed.errors import CorruptError, LakebedError, UnsupportedError
from lakebed.format.logs.log_block import BlockType
from lakebed.format.logs.native_footer import FooterKind
from lakebed.format.names.data_names import LogKind
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.slice_reader import read_slice
from support.runs import (
    RECORD,
    Slice,
    block,
    config,
    data_block,
    delete_block,
    deletes_table,
    marked,
    native,
    parquet,
    with_meta,
)

TABLE = config()
ROWS = [{"id": key, "v": 1, "ts": 1} for key in ("a", "b", "c")]
DATA = data_block(1, ROWS, ordered=True)
DELETES = delete_block(1, ["b"], ordered=True)
GOOD = [{"id": "a", "v": 1}, {"id": "c", "v": 1}]


@pytest.fixture(params=["local", "memory"])
def storage(request, tmp_path):
    return LocalStorage(str(tmp_path)) if request.param == "local" else memory_storage()


def read(slice_, table=TABLE):
    batches = read_slice(slice_.view(table), slice_.value, ["id", "v"])
    return [row for batch in batches for row in batch.to_pylist()]


def cuts(storage, size, more=()):
    """Cut at every byte in memory, at some on a disk, which takes longer to write."""
    step = 1 if storage.local_path("f") is None else 97
    return sorted({*range(0, size, step), *range(size - 12, size), *more})


def test_an_inline_log_cut_at_any_byte_is_corrupt(storage):
    slice_ = Slice(storage)
    name = slice_.inline(1, DATA, DELETES)
    whole = DATA + DELETES
    for cut in cuts(storage, len(whole), [0, len(DATA)]):
        storage.put(name, whole[:cut])
        # The listing told its size, so the end of a block is no end of the file either.
        with pytest.raises(
            CorruptError, match=f"found {cut} bytes, expected {len(whole)}"
        ) as caught:
            read(slice_)
        assert name in str(caught.value)
    storage.put(name, whole)
    assert read(slice_) == GOOD


def test_a_log_whose_size_is_not_known_is_corrupt_but_for_the_end_of_a_block(storage):
    slice_ = Slice(storage)
    name = slice_.inline(1, DATA, DELETES)
    slice_.logs = [replace(log, size_bytes=0) for log in slice_.logs]  # as a plan names it
    whole = DATA + DELETES
    # What ends with a whole block is a whole log: only its commit could tell that more was there.
    ends = {0: [], len(DATA): [{"id": key, "v": 1} for key in "abc"]}
    for cut in cuts(storage, len(whole), ends):
        storage.put(name, whole[:cut])
        if cut in ends:
            assert read(slice_) == ends[cut]
            continue
        with pytest.raises(CorruptError) as caught:
            read(slice_)
        offset = 0 if cut < len(DATA) else len(DATA)
        assert name in str(caught.value)
        assert f"byte {offset}:" in str(caught.value)


@pytest.mark.parametrize("kind", [LogKind.LOG, LogKind.DELETES])
def test_a_native_log_cut_at_any_byte_is_corrupt_and_names_the_file(storage, kind):
    slice_ = Slice(storage)
    table = with_meta(ROWS) if kind is LogKind.LOG else deletes_table([("b", 1)])
    name = slice_.native(1, kind, table, ordered=True)
    whole = storage.read(name)
    for cut in cuts(storage, len(whole)):
        storage.put(name, whole[:cut])
        with pytest.raises(CorruptError, match=name):
            read(slice_)


@pytest.mark.parametrize(
    "data",
    [
        DATA + DELETES,
        native(1, FooterKind.PARQUET_DATA, with_meta(ROWS), ordered=True),
    ],
    ids=["blocks", "native"],
)
def test_a_flipped_byte_is_an_error_of_ours_or_gives_rows_and_never_a_crash(data):
    storage = memory_storage()
    slice_ = Slice(storage)
    name = slice_.inline(1, data)
    for at in range(0, len(data), 3):
        broken = bytearray(data)
        broken[at] ^= 1 << at % 8
        storage.put(name, bytes(broken))
        with contextlib.suppress(LakebedError):
            assert len(read(slice_)) <= len(ROWS)


@pytest.mark.parametrize("length", [-1, 0, 1, 31, 1 << 31, (1 << 63) - 1])
def test_a_block_of_a_wrong_length_is_corrupt_without_allocating_it(storage, length):
    slice_ = Slice(storage)
    broken = bytearray(DATA)
    broken[6:14] = struct.pack(">q", length)
    slice_.inline(1, bytes(broken))
    with pytest.raises(CorruptError, match=r"byte 0: .*length"):
        read(slice_)


@pytest.mark.parametrize("length", [-1, 1 << 40, (1 << 63) - 1])
def test_a_content_of_a_wrong_length_is_corrupt(storage, length):
    slice_ = Slice(storage)
    content = b"content of this block"
    whole = block(BlockType.DELETE, 1, content, SCHEMA=RECORD)
    at = whole.index(content) - 8
    slice_.inline(1, whole[:at] + struct.pack(">q", length) + whole[at + 8 :])
    with pytest.raises(CorruptError, match=r"log\.1_0-0-0"):
        read(slice_)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"x" * 100])
def test_a_parquet_block_that_is_none_is_corrupt_and_names_the_block(storage, content):
    slice_ = Slice(storage)
    slice_.inline(1, DATA, block(BlockType.PARQUET_DATA, 1, content, SCHEMA=RECORD))
    with pytest.raises(CorruptError, match=r"log\.1_0-0-0.*block content at byte"):
        read(slice_)


def test_a_block_that_reaches_past_its_file_is_corrupt(storage):
    storage.put("f", b"PAR1" * 10)
    for offset, length in ((0, 41), (-1, 4), (40, 1), (0, 0)):
        with (
            pytest.raises(CorruptError, match="thing: expected"),
            open_parquet(storage, "f", "thing", offset=offset, length=length),
        ):
            pass


class TestAKeyOutOfOrder:
    UNSORTED = with_meta([ROWS[0], ROWS[2], ROWS[1]])

    def test_in_a_base_file_that_is_marked_as_sorted_is_corrupt(self, storage):
        slice_ = Slice(storage)
        name = slice_.base(0, parquet(self.UNSORTED, marked(True)))
        slice_.inline(1, DELETES)
        with pytest.raises(CorruptError) as caught:
            read(slice_)
        assert name in str(caught.value)
        assert "b" in str(caught.value)

    def test_in_a_block_that_is_marked_as_sorted_is_corrupt(self, storage):
        slice_ = Slice(storage)
        content = parquet(self.UNSORTED, marked(True))
        slice_.inline(1, block(BlockType.PARQUET_DATA, 1, content, SCHEMA=RECORD))
        with pytest.raises(CorruptError, match=r"log\.1_0-0-0.*block content at byte.*'b'"):
            read(slice_)

    def test_across_two_row_groups_too(self, storage):
        slice_ = Slice(storage)
        slice_.base(0, parquet(self.UNSORTED, marked(True), row_group_rows=1))
        slice_.inline(1, DATA)
        with pytest.raises(CorruptError, match=r"\.parquet.*'b'"):
            read(slice_)

    def test_in_a_delete_block_that_is_marked_as_sorted_is_corrupt(self, storage):
        slice_ = Slice(storage)
        slice_.inline(1, DATA, delete_block(1, ["c", "b"], ordered=True))
        with pytest.raises(CorruptError, match=r"log\.1_0-0-0.*'b'"):
            read(slice_)

    def test_without_a_mark_it_is_sorted_and_read(self, storage):
        slice_ = Slice(storage)
        slice_.base(0, parquet(self.UNSORTED))
        slice_.inline(1, delete_block(1, ["c", "b"]))
        assert read(slice_) == [{"id": "a", "v": 1}]


def test_a_footer_of_a_future_version_is_refused_by_name_under_both_names(storage):
    for version in ("3", "99"):
        data = parquet(
            with_meta(ROWS),
            {"hudi.log.format_version": version, "hudi.log.block_type": "parquet_data"},
        )
        slice_ = Slice(storage)
        name = slice_.inline(1, data)
        with pytest.raises(UnsupportedError, match=f"{name}.*version {version}"):
            read(slice_)


def test_a_block_of_a_future_type_or_format_is_refused_by_name(storage):
    for at, said in ((14, "log format version 7"), (18, "block type 7")):
        broken = bytearray(DATA)
        broken[at : at + 4] = struct.pack(">i", 7)
        slice_ = Slice(storage)
        name = slice_.inline(1, bytes(broken))
        with pytest.raises(UnsupportedError, match=f"{name}.*{said}"):
            read(slice_)


def test_an_ordering_value_that_the_column_cannot_hold_is_corrupt(storage):
    slice_ = Slice(storage)
    slice_.base(0, parquet(with_meta(ROWS)))
    slice_.native(1, LogKind.DELETES, deletes_table([("b", 1)]).set_column(1, "ts", [["text"]]))
    with pytest.raises(CorruptError, match=r"deletes\.parquet.*'ts'.*expected int64, found string"):
        read(slice_)


def test_a_partial_log_without_record_keys_is_refused_by_name(storage):
    slice_ = Slice(storage)
    slice_.base(0, parquet(with_meta(ROWS), marked(True)))
    keyless = with_meta(ROWS).drop_columns(["_hoodie_record_key"])
    content = parquet(keyless, marked(True))
    slice_.inline(1, block(BlockType.PARQUET_DATA, 1, content, SCHEMA=RECORD, IS_PARTIAL="true"))
    with pytest.raises(UnsupportedError, match=r"log\.1_0-0-0.*rows without a record key"):
        read(slice_)
