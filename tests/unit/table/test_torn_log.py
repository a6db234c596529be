"""Logs cut anywhere in their last block: refused by name, or nothing was lost."""

import functools
import logging
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from lakebed.errors import CorruptError
from lakebed.format.logs.log_block import BlockType, HeaderKey
from lakebed.format.logs.log_scan import BlockSpan, scan_blocks
from lakebed.storage.storage import Storage
from lakebed.table.files.file_group import FileSlice
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.snapshot import Snapshot, load_snapshot
from support.fixtures import files
from support.tables import contents, copy_of, make, reopen
from support.version_6 import as_version_6

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])


@dataclass(frozen=True)
class Log:
    """A log of a table in memory, and the slice that it belongs to."""

    storage: Storage
    snapshot: Snapshot
    slice_: FileSlice
    path: str
    data: bytes
    last: BlockSpan

    def read(self):
        """Read its slice as of when the log was whole: no listing tells that it is shorter."""
        view = replace(self.snapshot.view(), storage=self.storage)
        logs = tuple(replace(log, size_bytes=0) for log in self.slice_.log_files)
        batches = read_slice(view, replace(self.slice_, log_files=logs), view.schema.names)
        return [row for batch in batches for row in batch.to_pylist()]

    def read_table(self):
        return sorted(map(repr, reopen(self.storage).read().read_all().to_pylist()))


def blocks_of(data):
    return [
        place
        for place in scan_blocks(lambda at, length: data[at : at + length], len(data), "f")
        if isinstance(place, BlockSpan)
    ]


def find_log(storage, kind):
    """Find a log in which a block of `kind` is the last one."""
    snapshot = load_snapshot(storage, reopen(storage).config)
    for slice_ in snapshot.slices:
        for log in slice_.log_files:
            data = storage.read(log.path)
            blocks = blocks_of(data)
            if blocks and blocks[-1].type is kind and blocks[-1].end == len(data):
                return Log(storage, snapshot, slice_, log.path, data, blocks[-1])
    raise AssertionError(f"no log with a last block {kind}")


def ours(block_format, kind):
    table = make(
        schema=SCHEMA,
        table_type="MERGE_ON_READ",
        ordering=("ts",),
        partition_by=(),
        buckets=1,
        properties={"hoodie.logfile.data.block.format": block_format},
    )
    rows = [{"id": f"k{i}", "v": i, "ts": 1} for i in range(5)]
    table.bulk_insert(pa.Table.from_pylist(rows, SCHEMA))
    if kind is BlockType.DELETE:
        table.delete([{"id": "k1"}])
    else:
        table.upsert(pa.Table.from_pylist([{**rows[0], "ts": 2}], SCHEMA))
    return table._storage


AVRO, PARQUET, DELETE = BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.DELETE
LOGS = {
    "Avro of Hudi": lambda: find_log(copy_of(files("mor9_bucket_avro")), AVRO),
    "Parquet of Hudi": lambda: find_log(copy_of(files("mor9_bucket_parquet")), PARQUET),
    "deletes of Hudi": lambda: find_log(copy_of(files("mor9_isdeleted")), DELETE),
    "Avro of ours": lambda: find_log(ours("avro", AVRO), AVRO),
    "Parquet of ours": lambda: find_log(ours("parquet", PARQUET), PARQUET),
    "deletes of ours": lambda: find_log(ours("parquet", DELETE), DELETE),
    "Avro, table version 6": lambda: find_log(as_version_6(ours("avro", AVRO)), AVRO),
    "deletes, table version 6": lambda: find_log(as_version_6(ours("avro", DELETE)), DELETE),
}


@functools.cache
def made(name):
    return LOGS[name]()


@pytest.fixture(params=LOGS)
def log(request):
    found = made(request.param)
    yield found
    found.storage.put(found.path, found.data)


def test_cut_anywhere_in_its_last_block_a_log_is_corrupt_and_named(log):
    assert log.read()
    first, end = log.last.offset + 1, log.last.end
    # Every byte of the headers and the footer; the content is one run of bytes to the scan.
    cuts = {*range(first, end)[:200], *range(first, end, 7), *range(first, end)[-40:]}
    for cut in sorted(cuts):
        log.storage.put(log.path, log.data[:cut])
        with pytest.raises(CorruptError, match="roll back the instant") as caught:
            log.read()
        assert log.path in str(caught.value)
        assert f"byte {log.last.offset}:" in str(caught.value)


def test_with_zeros_for_every_rest_of_its_last_block_a_log_is_corrupt_and_named(log):
    for cut in range(log.last.offset + 1, log.last.end, 53):
        # The end of a block is zeros itself.
        if (torn := log.data[:cut].ljust(len(log.data), b"\0")) == log.data:
            continue
        log.storage.put(log.path, torn)
        with pytest.raises(CorruptError) as caught:
            log.read_table()
        assert log.path in str(caught.value)


def test_a_table_whose_log_was_cut_is_corrupt_at_the_end_of_a_block_too(log):
    start, end = log.last.offset, log.last.end
    for cut in (*range(start, min(start + 40, end), 8), *range(end - 20, end, 3)):
        log.storage.put(log.path, log.data[:cut])
        with pytest.raises(CorruptError) as caught:
            log.read_table()
        assert log.path in str(caught.value)


def test_a_block_that_a_writer_did_not_end_is_passed_over_where_the_rest_is_all(log, caplog):
    before = log.read()
    last = log.data[log.last.offset :]
    for cut in (*range(1, 40, 3), *range(40, len(last), 211), len(last) - 1):
        log.storage.put(log.path, log.data + last[:cut])
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert log.read() == before
        assert "skipped" in caplog.text


def test_a_torn_block_before_the_one_that_repeats_it_is_passed_over(log):
    before = log.read_table()
    last = log.data[log.last.offset :]
    for cut in range(len(last) // 8, len(last), len(last) // 8):
        log.storage.put(log.path, log.data[: log.last.offset] + last[:cut] + last)
        assert log.read_table() == before


def test_what_an_archived_commit_wrote_to_a_log_of_many_is_not_passed_over():
    table = make(
        schema=SCHEMA,
        table_type="MERGE_ON_READ",
        partition_by=(),
        buckets=1,
        properties={"hoodie.logfile.data.block.format": "avro"},
    )
    table.bulk_insert(pa.Table.from_pylist([{"id": "k1", "v": 1, "ts": 1}], SCHEMA))
    commits = [
        table.upsert(pa.Table.from_pylist([{"id": key, "v": 2, "ts": 2}], SCHEMA))
        for key in ("k1", "k2")
    ]
    storage = as_version_6(table._storage)
    one, other = sorted(path for path in contents(storage) if ".log." in path)
    storage.put(one, storage.read(one) + storage.read(other))
    storage.delete(other)
    told = f".hoodie/{commits[1].instant}.deltacommit"
    storage.put(told, storage.read(told).replace(other.encode(), one.encode()))
    data = storage.read(one)
    assert [block.headers[HeaderKey.INSTANT_TIME] for block in blocks_of(data)] == [
        commit.instant for commit in commits
    ]
    whole = sorted(map(repr, reopen(storage).read().read_all().to_pylist()))
    assert "'v': 2" in whole[0]

    # As after archiving, which leaves the newest commits only.
    for path in contents(storage):
        if path.startswith(".hoodie/2") and commits[1].instant not in path:
            storage.delete(path)
    assert sorted(map(repr, reopen(storage).read().read_all().to_pylist())) == whole
    storage.put(one, b"#HUDX#" + data[6:])
    with pytest.raises(CorruptError, match="commits that are archived may have written"):
        reopen(storage).read().read_all()
