"""Logs: what a run of rows and deletes becomes on storage, inline and native."""

import io
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import InvalidError, KeyValueError, SchemaError, UnavailableError
from lakebed.format.avro.avro_schema import arrow_to_avro, avro_to_arrow
from lakebed.format.logs.delete_block import OrderingKind
from lakebed.format.logs.delete_columns import decode_deletes
from lakebed.format.logs.log_block import BlockType, HeaderKey
from lakebed.format.logs.native_footer import FooterKind, parse_log_footer
from lakebed.format.logs.order_mark import is_marked_ordered
from lakebed.format.names.data_names import LogKind, parse_data_name, replay_key
from lakebed.format.names.meta_columns import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    META_COLUMNS,
    RECORD_KEY,
)
from lakebed.merge.run import BARRIER, COMMIT_TIME_DELETE, DELETED, FLAGS, OPEN
from lakebed.storage.objects import memory_storage
from lakebed.storage.spool import MEMORY_BYTES
from lakebed.table.config.table_config import TableConfig
from lakebed.table.files.file_group import FileGroupId
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from support.delete_records import NO_ORDERING, DeleteRecord, OrderingValue, parse_delete_block
from support.log_blocks import iter_blocks

INSTANT = "20240101000000000"
FILE_ID = "00000000-0000-4000-8000-000000000001-0"
INLINE = f"p/.{FILE_ID}_{INSTANT}.log.3_0-1-2"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("v", pa.int16()),
        ("ts", pa.int64()),
        ("price", pa.float64()),
    ]
)
TEXT = arrow_to_avro(SCHEMA, "t")


def config(version=9, ordering="ts"):
    properties = {
        "hoodie.table.name": "t",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.storage.layout": "lsm_tree",
    }
    return TableConfig.parse(properties | {"hoodie.table.ordering.fields": ordering}, "t")


def run(*rows, schema=SCHEMA, flags=True):
    """Return a batch of (key, flags, values...); a delete without values has nulls."""
    columns = {RECORD_KEY: pa.array([row[0] for row in rows], pa.string())}
    if flags:
        columns[FLAGS] = pa.array([row[1] for row in rows], pa.uint8())
    for at, field in enumerate(schema):
        values = [row[2 + at] if len(row) > 2 else None for row in rows]
        columns[field.name] = pa.array(values, field.type)
    return pa.RecordBatch.from_pydict(columns)


def live(key, ts, flags=0):
    return key, flags, key, 1, ts, 0.5


def gone(key, ts=None, flags=DELETED):
    return key, flags, None, None, ts, None if ts is None else 0.25


def write(
    storage,
    *batches,
    version=9,
    ordering="ts",
    schema=SCHEMA,
    memory_bytes=MEMORY_BYTES,
    **options,
):
    log = NewLog(
        storage=storage,
        config=config(version, ordering),
        group=FileGroupId("p", FILE_ID),
        write_token="0-1-2",
        version=3,
        instant=INSTANT,
        schema=schema,
        table_schema_text=TEXT,
        **options,
    )
    return LogRunWriter(log, memory_bytes).write(batches)


def blocks(storage, path=INLINE):
    return list(iter_blocks(storage.read(path), path))


def table(content):
    return pq.ParquetFile(io.BytesIO(content))


def native(storage, name):
    return table(storage.read(f"p/{FILE_ID}_0-1-2_{INSTANT}_{name}.parquet"))


def footer_of(file):
    raw = file.metadata.metadata
    return parse_log_footer({k.decode(): v.decode() for k, v in raw.items()}, "f")


def test_an_inline_log_is_a_parquet_block_and_then_a_delete_block():
    storage = memory_storage()
    (stats,) = write(
        storage, run(gone("a", 4), live("b", 5)), run(live("c", 6), gone("d", 7), live("e", 8))
    )
    assert (stats.path, stats.rows, stats.deletes, stats.version) == (INLINE, 3, 2, 3)
    assert (stats.min_key, stats.max_key) == ("a", "e")
    assert stats.size_bytes == storage.head(INLINE).size
    assert [entry.path for entry in storage.list()] == [INLINE]
    rows, deletes = blocks(storage)
    assert rows.type is BlockType.PARQUET_DATA
    assert rows.headers.keys() == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
    assert rows.instant == deletes.instant == INSTANT
    for block in (rows, deletes):
        found = avro_to_arrow(block.headers[HeaderKey.SCHEMA])
        assert found.names == [*META_COLUMNS, *SCHEMA.names]
    assert is_marked_ordered(deletes.headers[HeaderKey.SCHEMA])
    assert not is_marked_ordered(rows.headers[HeaderKey.SCHEMA])
    file = table(rows.content)
    assert file.metadata.metadata[b"hudi.log.is_ordered"] == b"true"
    found = file.read().to_pylist()
    assert [row[RECORD_KEY] for row in found] == ["b", "c", "e"]
    number = found[0][COMMIT_SEQNO].split("_")[1]
    assert found[1] == {
        COMMIT_TIME: INSTANT,
        COMMIT_SEQNO: f"{INSTANT}_{number}_1",
        RECORD_KEY: "c",
        "_hoodie_partition_path": "p",
        "_hoodie_file_name": FILE_ID,
        "id": "c",
        "v": 1,
        "ts": 6,
        "price": 0.5,
    }
    long = OrderingKind.LONG
    assert parse_delete_block(deletes.content, "f") == [
        DeleteRecord("a", "p", OrderingValue(long, 4)),
        DeleteRecord("d", "p", OrderingValue(long, 7)),
    ]


def test_rows_without_flags_are_no_deletes():
    storage = memory_storage()
    (stats,) = write(storage, run(live("a", 1), live("b", 2), flags=False))
    assert (stats.rows, stats.deletes) == (2, 0)
    assert [block.type for block in blocks(storage)] == [BlockType.PARQUET_DATA]


@pytest.mark.parametrize("version", [8, 9])
def test_a_log_of_deletes_has_no_parquet_block(version):
    storage = memory_storage()
    only_key = pa.schema([SCHEMA.field("id")])
    batch = run(("a", COMMIT_TIME_DELETE), ("b", COMMIT_TIME_DELETE), schema=only_key)
    (stats,) = write(storage, batch, schema=only_key, version=version)
    assert (stats.rows, stats.deletes, stats.min_key, stats.max_key) == (0, 2, "a", "b")
    (block,) = blocks(storage)
    assert block.type is BlockType.DELETE
    assert avro_to_arrow(block.headers[HeaderKey.SCHEMA]).names == [*META_COLUMNS, *SCHEMA.names]
    assert parse_delete_block(block.content, "f") == [
        DeleteRecord(key, "p", NO_ORDERING) for key in "ab"
    ]


def test_deletes_that_always_win_get_a_block_of_their_own():
    storage = memory_storage()
    # hudi-rs 0.5.0 refuses a block that mixes the types of ordering values.
    write(storage, run(gone("a", 0), gone("b", 9, COMMIT_TIME_DELETE), gone("c", 3)))
    ordered, always = (decode_deletes(b.content, [pa.int64()], "f") for b in blocks(storage))
    assert (ordered.keys.to_pylist(), ordered.ordering[0].to_pylist()) == (["a", "c"], [0, 3])
    assert not ordered.no_ordering.any()
    assert (always.keys.to_pylist(), always.no_ordering.tolist()) == (["b"], [True])


def test_where_the_commit_time_decides_deletes_carry_no_ordering_values():
    storage = memory_storage()
    write(storage, run(gone("a", 4), gone("b", 5, DELETED | BARRIER)), ordering="")
    (block,) = blocks(storage)
    assert {r.ordering for r in parse_delete_block(block.content, "f")} == {NO_ORDERING}


def test_several_ordering_fields_are_an_array():
    storage = memory_storage()
    write(storage, run(gone("a", 4), gone("b", 9, COMMIT_TIME_DELETE)), ordering="ts,price")
    pair = (OrderingValue(OrderingKind.LONG, 4), OrderingValue(OrderingKind.DOUBLE, 0.25))
    found = [parse_delete_block(block.content, "f") for block in blocks(storage)]
    assert found == [[DeleteRecord("a", "p", pair)], [DeleteRecord("b", "p", NO_ORDERING)]]


def test_a_narrow_ordering_column_is_an_int_on_storage():
    storage = memory_storage()
    write(storage, run(("a", DELETED, "a", 7, 1, 0.0)), ordering="v")
    (block,) = blocks(storage)
    (record,) = parse_delete_block(block.content, "f")
    assert record.ordering == OrderingValue(OrderingKind.INT, 7)


def test_a_row_that_must_win_follows_a_delete_that_does_in_one_file():
    storage = memory_storage()
    (stats,) = write(
        storage,
        run(live("a", 1), live("b", 1, BARRIER)),
        run(gone("c", 2, DELETED | BARRIER), gone("d", 2)),
    )
    assert (stats.rows, stats.deletes) == (2, 2)
    before, rows, after = blocks(storage)
    assert [r.record_key for r in parse_delete_block(before.content, "f")] == ["b", "c"]
    assert {r.ordering for r in parse_delete_block(before.content, "f")} == {NO_ORDERING}
    assert table(rows.content).read().column(RECORD_KEY).to_pylist() == ["a", "b"]
    assert [r.record_key for r in parse_delete_block(after.content, "f")] == ["c", "d"]
    assert NO_ORDERING not in {r.ordering for r in parse_delete_block(after.content, "f")}


def test_a_row_that_must_win_takes_the_next_version_of_native_logs():
    storage = memory_storage()
    stats = write(
        storage,
        run(live("a", 1), gone("b", 1)),
        run(live("c", 1), live("d", 1, BARRIER), gone("e", 2, DELETED | BARRIER)),
        version=10,
        next_version=5,
    )
    found = [(parse_data_name(s.path[2:]), s) for s in stats]
    assert found == sorted(found, key=lambda pair: replay_key(pair[0]))
    assert [(n.version, n.kind, s.version, s.rows, s.deletes) for n, s in found] == [
        (3, LogKind.LOG, 3, 1, 0),
        (3, LogKind.DELETES, 3, 0, 1),
        (5, LogKind.LOG, 5, 2, 0),
        (5, LogKind.DELETES, 5, 0, 1),
    ]
    deletes = native(storage, "3.deletes").read().to_pylist()
    assert [(row[RECORD_KEY], row["ts"]) for row in deletes] == [("b", 1), ("d", None), ("e", None)]
    assert native(storage, "5.log").read().column(RECORD_KEY).to_pylist() == ["c", "d"]
    assert native(storage, "5.deletes").read().to_pylist() == [{RECORD_KEY: "e", "ts": 2}]


def test_without_a_next_version_a_row_that_must_win_is_refused():
    storage = memory_storage()
    with pytest.raises(InvalidError, match=r"'b' must win.*version above 3.*found None"):
        write(storage, run(live("a", 1), live("b", 1, BARRIER)), version=10)
    assert list(storage.list()) == []


def test_flags_that_no_log_can_say_are_refused_by_key():
    with pytest.raises(InvalidError, match="key 'b' has the flags 5"):
        write(memory_storage(), run(live("a", 1), gone("b", 1, DELETED | OPEN)))


def test_native_logs_are_a_file_of_rows_and_a_file_of_deletes():
    storage = memory_storage()
    rows, deletes = write(
        storage,
        run(live("a", 1), gone("b", 9, COMMIT_TIME_DELETE), gone("c", 0), live("d", 4)),
        version=10,
    )
    assert (rows.rows, rows.deletes, rows.min_key, rows.max_key) == (2, 0, "a", "d")
    assert (deletes.rows, deletes.deletes, deletes.min_key, deletes.max_key) == (0, 2, "b", "c")
    for stats in (rows, deletes):
        assert stats.size_bytes == storage.head(stats.path).size
        assert stats.version == 3
    file = native(storage, "3.log")
    assert file.schema_arrow.names == [*META_COLUMNS, *SCHEMA.names]
    assert set(file.read().column("_hoodie_file_name").to_pylist()) == {FILE_ID}
    footer = footer_of(file)
    assert (footer.kind, footer.instant, footer.is_ordered) == (
        FooterKind.PARQUET_DATA,
        INSTANT,
        True,
    )
    assert avro_to_arrow(footer.schema).names == [*META_COLUMNS, *SCHEMA.names]
    assert not footer.is_partial
    file = native(storage, "3.deletes")
    assert file.schema_arrow.names == [RECORD_KEY, "ts"]
    assert [field.nullable for field in file.schema_arrow] == [False, True]
    assert file.read().to_pylist() == [{RECORD_KEY: "b", "ts": None}, {RECORD_KEY: "c", "ts": 0}]
    footer = footer_of(file)
    assert (footer.kind, footer.is_ordered) == (FooterKind.DELETE, True)
    assert avro_to_arrow(footer.schema).names == [*META_COLUMNS, *SCHEMA.names]


def test_native_deletes_hold_only_the_key_where_the_commit_time_decides():
    storage = memory_storage()
    (stats,) = write(storage, run(gone("a", 4)), version=10, ordering="")
    assert stats.path.endswith(f"_{INSTANT}_3.deletes.parquet")
    assert native(storage, "3.deletes").read().to_pylist() == [{RECORD_KEY: "a"}]


def test_native_deletes_without_ordering_values_have_their_columns_all_the_same():
    storage = memory_storage()
    only_key = pa.schema([SCHEMA.field("id")])
    batch = run(("a", COMMIT_TIME_DELETE), schema=only_key)
    write(storage, batch, schema=only_key, version=10, ordering="ts,v")
    found = native(storage, "3.deletes")
    assert found.schema_arrow.types == [pa.string(), pa.int64(), pa.int32()]
    assert found.read().to_pylist() == [{RECORD_KEY: "a", "ts": None, "v": None}]


@pytest.mark.parametrize("version", [9, 10])
def test_a_partial_run_says_which_columns_it_has(version):
    storage = memory_storage()
    some = pa.schema([SCHEMA.field("ts"), SCHEMA.field("v")])
    batch = run(("a", 0, 5, 7), ("b", DELETED, 6, None), schema=some)
    write(storage, batch, schema=some, version=version, partial=True)
    if version == 9:
        rows, deletes = blocks(storage)
        assert rows.headers[HeaderKey.IS_PARTIAL] == "true"
        assert HeaderKey.IS_PARTIAL not in deletes.headers
        text, whole = (block.headers[HeaderKey.SCHEMA] for block in (rows, deletes))
        file = table(rows.content)
    else:
        file = native(storage, "3.log")
        footer, of_deletes = footer_of(file), footer_of(native(storage, "3.deletes"))
        assert footer.is_partial
        assert not of_deletes.is_partial
        text, whole = footer.schema, of_deletes.schema
    assert avro_to_arrow(text).names == [*META_COLUMNS, "v", "ts"]
    assert json.loads(text)["name"] == "t_record"
    assert avro_to_arrow(whole).names == [*META_COLUMNS, *SCHEMA.names]
    assert file.schema_arrow.names == [*META_COLUMNS, "ts", "v"]
    assert file.read().select(["ts", "v"]).to_pylist() == [{"ts": 5, "v": 7}]


def test_a_partial_run_without_the_ordering_column_is_refused():
    some = pa.schema([SCHEMA.field("v")])
    with pytest.raises(SchemaError, match="expected the ordering column 'ts', found v"):
        write(memory_storage(), run(("a", 0, 1), schema=some), schema=some, partial=True)
    strange = pa.schema([SCHEMA.field("ts"), ("w", pa.int64())])
    with pytest.raises(SchemaError, match="'w': the table has no such column"):
        write(memory_storage(), run(("a", 0, 1, 1), schema=strange), schema=strange, partial=True)


def test_rows_that_lack_a_column_are_refused_and_not_filled_with_nulls():
    batch = run(live("a", 1)).drop_columns(["price"])
    with pytest.raises(SchemaError, match="expected the column 'price'"):
        write(memory_storage(), batch)
    with pytest.raises(SchemaError, match="deletes with an ordering value need the column 'ts'"):
        write(memory_storage(), run(gone("a", 1)).drop_columns(["ts"]))


def test_a_null_ordering_value_of_a_delete_is_refused_by_key():
    with pytest.raises(KeyValueError, match="'ts' is null for the delete of key 'b'"):
        write(memory_storage(), run(gone("a", 1), gone("b")))


def test_rows_carried_over_keep_their_commit_time_and_number():
    storage = memory_storage()
    batch = run(live("a", 1), live("b", 2))
    batch = batch.append_column(COMMIT_TIME, pa.array(["20230101000000000", None]))
    batch = batch.append_column(COMMIT_SEQNO, pa.array(["x_0_9", None]))
    write(storage, batch)
    found = table(blocks(storage)[0].content).read().to_pylist()
    assert (found[0][COMMIT_TIME], found[0][COMMIT_SEQNO]) == ("20230101000000000", "x_0_9")
    assert found[1][COMMIT_TIME] == INSTANT
    assert found[1][COMMIT_SEQNO].endswith("_1")


@pytest.mark.parametrize("version", [9, 10])
def test_nothing_to_write_writes_nothing(version):
    storage = memory_storage()
    assert write(storage, version=version) == []
    assert write(storage, run(), version=version) == []
    assert list(storage.list()) == []


@pytest.mark.parametrize("version", [9, 10])
def test_keys_out_of_order_are_refused_also_between_rows_and_deletes(version):
    storage = memory_storage()
    with pytest.raises(InvalidError, match=r"p/.*above 'b', found 'a'"):
        write(storage, run(live("b", 1)), run(gone("a", 1)), version=version)
    with pytest.raises(InvalidError, match="above 'b', found 'b'"):
        write(storage, run(live("b", 1), gone("b", 1)), version=version)
    assert list(storage.list()) == []


class Failing:
    """A storage on which the stream of one file fails when it is closed."""

    def __init__(self, storage, ending):
        self.storage, self.ending = storage, ending

    def open_write(self, path):
        stream = self.storage.open_write(path)
        if path.endswith(self.ending):

            def close():
                stream.abort()
                raise UnavailableError(f"{path}: gone")

            stream.close = close
        return stream

    def delete(self, path):
        self.storage.delete(path)


@pytest.mark.parametrize(
    ("version", "ending"), [(9, "0-1-2"), (10, ".log.parquet"), (10, ".deletes.parquet")]
)
def test_nothing_stays_of_a_log_of_which_one_file_failed(version, ending):
    storage = memory_storage()
    with pytest.raises(UnavailableError, match="gone"):
        write(Failing(storage, ending), run(live("a", 1), gone("b", 1)), version=version)
    assert list(storage.list()) == []


@pytest.mark.parametrize("version", [9, 10])
def test_nothing_is_visible_while_rows_come(version):
    storage = memory_storage()

    def batches():
        for start in range(0, 30_000, 10_000):
            yield run(*(live(f"k{n:05d}", n) for n in range(start, start + 10_000)))
            assert list(storage.list()) == []

    (stats,) = write(storage, *batches(), version=version)
    assert stats.rows == 30_000
    content = storage.read(stats.path) if version == 10 else blocks(storage)[0].content
    assert table(content).metadata.num_row_groups == 4


def test_many_deletes_make_several_blocks_in_bounded_memory():
    storage = memory_storage()
    kinds = itertools.cycle([DELETED, DELETED | BARRIER, COMMIT_TIME_DELETE])
    batches = [
        run(*(gone(f"k{n:05d}", n, next(kinds)) for n in range(start, start + 50)))
        for start in range(0, 500, 50)
    ]
    (stats,) = write(storage, *batches, run(live("z", 1)), memory_bytes=2000)
    assert (stats.rows, stats.deletes) == (1, 500)
    found = blocks(storage)
    assert len(found) > 5
    last = {}
    for block in found:
        if block.type is BlockType.DELETE:
            deletes = decode_deletes(block.content, [pa.int64()], "f")
            keys = deletes.keys.to_pylist()
            assert keys == sorted(set(keys))
            last.update(zip(keys, deletes.ordering[0].to_pylist(), strict=True))
    # A barrier stands before the delete that it makes win, never after it.
    assert last == {f"k{n:05d}": None if n % 3 == 2 else n for n in range(500)}


def test_a_block_too_large_for_memory_comes_out_whole():
    noise = np.random.default_rng(1).integers(0, 2**62, 20_000)
    storage = memory_storage()
    rows = run(*(live(f"k{n:05d}", int(ts)) for n, ts in enumerate(noise)))
    write(storage, rows, memory_bytes=1000)
    found = table(blocks(storage)[0].content).read()
    assert found.column("ts").to_pylist() == noise.tolist()
