"""Rows of a slice: runs of every spelling merged, deletes gone, only what is asked for read."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError, SchemaError, UnsupportedError
from lakebed.format.avro.avro_schema import arrow_to_avro
from lakebed.format.files.footer import FOOTER_MAX_KEY, FOOTER_ROW_GROUP_KEYS
from lakebed.format.logs.delete_block import OrderingKind
from lakebed.format.logs.log_block import BlockType
from lakebed.format.logs.native_footer import FooterKind
from lakebed.format.names.data_names import LogKind, parse_data_name
from lakebed.format.names.meta_columns import META_COLUMNS, RECORD_KEY
from lakebed.merge.run import COMMIT_TIME_DELETE, DELETED, FLAGS
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.table.config.merge_rule import merge_rule
from lakebed.table.files.file_group import LogFile
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.log_reader import slice_sources
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_reader import Needs, open_run, open_runs
from lakebed.table.read.slice_reader import read_slice
from lakebed.table.store.log_writer import LogRunWriter, NewLog
from support.delete_records import DeleteRecord, OrderingValue
from support.runs import (
    RECORD,
    SCHEMA,
    Slice,
    avro_block,
    block,
    config,
    data_block,
    delete_block,
    deletes_table,
    instant,
    marked,
    native,
    parquet,
    with_meta,
)

EVENT_TIME = config()
COMMIT_TIME = config(record_merge_mode="COMMIT_TIME_ORDERING")


@pytest.fixture(params=["local", "memory"])
def slice_(request, tmp_path):
    return Slice(LocalStorage(str(tmp_path)) if request.param == "local" else memory_storage())


def row(key, v, ts=0, **more):
    return {"id": key, "v": v, "ts": ts, **more}


def read(slice_, table=EVENT_TIME, columns=("id", "v"), schema=SCHEMA, rule=None, **options):
    view = slice_.view(table, schema, rule, options.pop("buffer_bytes", None))
    batches = list(read_slice(view, slice_.value, columns, **options))
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.names == list(columns)
    return [row for batch in batches for row in batch.to_pylist()]


def pairs(slice_, table=EVENT_TIME, **options):
    return {row["id"]: row["v"] for row in read(slice_, table, **options)}


def delete_at(key, ts):
    return DeleteRecord(key, "", OrderingValue(OrderingKind.LONG, ts))


def test_event_time_keeps_the_greatest_and_on_a_tie_the_newest(slice_):
    slice_.base(1, parquet(with_meta([row("a", 1, 5), row("b", 1, 5), row("c", 1, 5)])))
    slice_.inline(2, data_block(2, [row("a", 2, 4), row("b", 2, 5), row("c", 2, 6)]))
    assert pairs(slice_) == {"a": 1, "b": 2, "c": 2}
    assert pairs(slice_, COMMIT_TIME) == {"a": 2, "b": 2, "c": 2}


def test_rows_come_in_the_order_of_their_keys_bytes(slice_):
    keys = ["b", "Ａ", "😀", "a", "é"]
    slice_.inline(1, data_block(1, [row(key, 1) for key in keys]))
    assert [row["id"] for row in read(slice_)] == sorted(keys, key=str.encode)


def test_deletes_with_an_ordering_value_compete_and_without_one_they_win(slice_):
    slice_.base(1, parquet(with_meta([row(key, 1, 50) for key in "abcd"])))
    slice_.inline(2, delete_block(2, [delete_at("a", 49), delete_at("b", 50), "c"]))
    slice_.inline(3, data_block(3, [row("c", 3, 51)]))
    assert pairs(slice_) == {"a": 1, "c": 3, "d": 1}
    assert pairs(slice_, COMMIT_TIME) == {"c": 3, "d": 1}


def test_a_native_delete_file_means_the_same_and_null_is_no_ordering_value(slice_):
    slice_.base(1, parquet(with_meta([row(key, 1, 50) for key in "abcd"])))
    slice_.native(2, LogKind.DELETES, deletes_table([("a", 49), ("b", 50), ("c", None)]))
    slice_.native(3, LogKind.LOG, with_meta([row("c", 3, 51)]))
    assert pairs(slice_) == {"a": 1, "c": 3, "d": 1}
    assert pairs(slice_, COMMIT_TIME) == {"c": 3, "d": 1}


def test_logs_are_folded_before_they_meet_the_base_file_but_not_in_sorted_native_logs(slice_):
    slice_.base(1, parquet(with_meta([row("a", 1, 50), row("b", 1, 50)])))
    slice_.native(2, LogKind.DELETES, deletes_table([("a", None), ("b", None)]), ordered=True)
    slice_.native(3, LogKind.LOG, with_meta([row("a", 3, 1)]), ordered=True)
    assert pairs(slice_) == {"a": 1}, "as Hudi 1.2.0 and hudi-rs read it"
    native = config(10, table_initial_version="10", table_storage_layout="lsm_tree")
    assert pairs(slice_, native) == {"a": 3}, "as Hudi's reader of sorted native logs does"


def test_a_native_delete_file_of_keys_alone_beats_what_is_older(slice_):
    slice_.base(1, parquet(with_meta([row("a", 1, 50), row("b", 1, 50)])))
    slice_.native(2, LogKind.DELETES, deletes_table([("a", 1)]).select([RECORD_KEY]))
    assert pairs(slice_) == {"b": 1}


class TestRowsThatSayTheyAreDeleted:
    def marked_rows(self, slice_, name, kind, values):
        schema = SCHEMA.append(pa.field(name, kind))
        rows = [
            row(key, 2, ts, **{name: value})
            for key, ts, value in zip("abcd", (60, 40, 60, 60), values, strict=True)
        ]
        base = [row(key, 1, 50, **{name: values[0]}) for key in "abcd"]
        slice_.base(1, parquet(with_meta(base, schema)))
        content = parquet(with_meta(rows, schema))
        slice_.inline(2, block(BlockType.PARQUET_DATA, 2, content, SCHEMA=RECORD))
        return schema

    def test_by_hudis_own_column_in_logs_but_not_in_base_files(self, slice_):
        values = [True, True, False, None]
        schema = self.marked_rows(slice_, "_hoodie_is_deleted", pa.bool_(), values)
        # b's delete is late, and its base row counts although it says that it is deleted.
        assert pairs(slice_, schema=schema) == {"b": 1, "c": 2, "d": 2}
        assert pairs(slice_, COMMIT_TIME, schema=schema) == {"c": 2, "d": 2}

    def test_by_a_column_that_the_tables_schema_no_longer_has(self, slice_):
        self.marked_rows(slice_, "_hoodie_is_deleted", pa.bool_(), [True, True, False, None])
        assert pairs(slice_) == {"b": 1, "c": 2, "d": 2}

    def test_by_the_operation_column(self, slice_):
        self.marked_rows(slice_, "_hoodie_operation", pa.string(), ["D", "-U", "U", "I"])
        assert pairs(slice_) == {"b": 1, "c": 2, "d": 2}

    @pytest.mark.parametrize(
        ("kind", "values", "marker"),
        [(pa.string(), ["D", "D", "d", None], "D"), (pa.int32(), [9, 9, 1, None], "9")],
    )
    def test_by_the_tables_own_marker(self, slice_, kind, values, marker):
        prefix = "hoodie.record.merge.property.hoodie.payload.delete"
        properties = {
            **EVENT_TIME.properties,
            f"{prefix}.field": "op",
            f"{prefix}.marker": marker,
        }
        table = type(EVENT_TIME).parse(properties, "test")
        schema = self.marked_rows(slice_, "op", kind, values)
        assert pairs(slice_, table, schema=schema) == {"b": 1, "c": 2, "d": 2}
        assert pairs(slice_, EVENT_TIME, schema=schema) == {"a": 2, "b": 1, "c": 2, "d": 2}


class TestASliceOfABaseFileAlone:
    ROWS = (row("b", 1), row("a", 2), row("b", 3))

    def test_its_rows_come_as_they_lie(self, slice_):
        slice_.base(1, parquet(with_meta(self.ROWS)))
        assert [(r["id"], r["v"]) for r in read(slice_)] == [("b", 1), ("a", 2), ("b", 3)]

    def test_logs_without_a_visible_block_change_nothing(self, slice_):
        slice_.base(1, parquet(with_meta(self.ROWS)))
        slice_.inline(2)
        assert len(read(slice_)) == 3

    def test_columns_that_the_file_lacks_still_count_rows(self, slice_):
        slice_.base(1, parquet(with_meta(self.ROWS)))
        schema = SCHEMA.append(pa.field("new", pa.string()))
        assert read(slice_, columns=("new",), schema=schema) == [{"new": None}] * 3

    def test_it_needs_no_record_keys_unless_keys_are_asked_for(self, slice_):
        slice_.base(1, parquet(pa.Table.from_pylist(self.ROWS, schema=SCHEMA)))
        assert len(read(slice_)) == 3
        with pytest.raises(UnsupportedError, match="without a record key"):
            read(slice_, key_filter=KeyFilter.of(keys=["a"]))

    def test_keys_are_picked_without_reading_the_key_out(self, slice_):
        slice_.base(1, parquet(with_meta(self.ROWS)))
        found = read(slice_, columns=("v",), key_filter=KeyFilter.of(keys=["b", "x"]))
        assert found == [{"v": 1}, {"v": 3}]

    def test_without_base_and_logs_there_are_no_rows(self, slice_):
        assert read(slice_) == []


def test_merging_rows_without_record_keys_is_refused_by_name(slice_):
    slice_.base(1, parquet(pa.Table.from_pylist([row("a", 1)], schema=SCHEMA)))
    slice_.inline(2, data_block(2, [row("a", 2)]))
    with pytest.raises(UnsupportedError, match=r"base file .*\.parquet.*without a record key"):
        read(slice_)


def test_meta_columns_come_from_the_version_that_wins(slice_):
    old, new = row("a", 1, 1), row("a", 2, 2)
    slice_.base(1, parquet(with_meta([{**old, "_hoodie_commit_time": "old"}])))
    slice_.inline(2, data_block(2, [{**new, "_hoodie_commit_time": "new"}]))
    (found,) = read(slice_, columns=(*META_COLUMNS, "v"))
    assert (found["_hoodie_commit_time"], found["v"]) == ("new", 2)


def test_a_column_that_is_not_there_is_refused_and_one_that_a_file_lacks_is_null(slice_):
    slice_.base(1, parquet(with_meta([row("a", 1)])))
    slice_.inline(2, data_block(2, [row("b", 2)]))
    with pytest.raises(SchemaError, match="'zz'"):
        read(slice_, columns=("zz",))
    schema = SCHEMA.append(pa.field("new", pa.string()))
    assert [r["new"] for r in read(slice_, columns=("new",), schema=schema)] == [None, None]
    required = SCHEMA.append(pa.field("new", pa.string(), nullable=False))
    with pytest.raises(CorruptError, match="'new'"):
        read(slice_, columns=("new",), schema=required)


def test_narrower_types_of_older_files_are_cast_up(slice_):
    narrow = pa.schema([("id", pa.string()), ("v", pa.int32()), ("ts", pa.int32())])
    slice_.base(1, parquet(with_meta([row("a", 1, 9)], narrow)))
    slice_.inline(2, data_block(2, [row("a", 2, 8), row("b", 2, 8)]))
    assert pairs(slice_) == {"a": 1, "b": 2}


def test_a_partial_run_overlays_the_columns_that_it_has(slice_):
    slice_.base(1, parquet(with_meta([row("a", 1, 1), row("b", 1, 5)])))
    part = pa.schema([("id", pa.string()), ("ts", pa.int64())])
    content = parquet(with_meta([{"id": "a", "ts": 7}, {"id": "b", "ts": 4}], part))
    header = {"SCHEMA": RECORD, "IS_PARTIAL": "true"}
    slice_.inline(2, block(BlockType.PARQUET_DATA, 2, content, **header))
    found = read(slice_, columns=("id", "v", "ts"))
    assert found == [row("a", 1, 7), row("b", 1, 5)]


class TestUnorderedRuns:
    def test_equal_keys_stay_in_the_order_in_which_they_were_written(self, slice_):
        rows = [row("b", 1, 1), row("a", 1, 1), row("b", 2, 1), row("a", 2, 0)]
        slice_.inline(1, data_block(1, rows))
        assert pairs(slice_) == {"a": 1, "b": 2}
        assert pairs(slice_, COMMIT_TIME) == {"a": 2, "b": 2}

    def test_a_run_beyond_the_budget_is_sorted_through_temporary_files(self, slice_):
        noise = np.random.default_rng(3).permutation(2000)
        rows = [row(f"{i % 500:04d}", int(i)) for i in noise]
        slice_.inline(1, data_block(1, rows[:1000]), data_block(1, rows[1000:]))
        sources = slice_sources(slice_.view(EVENT_TIME), slice_.value)
        needs = Needs(tuple(SCHEMA), sort_bytes=2_000, max_rows=100)
        ((_, run),) = open_runs(slice_.storage, sources, needs)
        found = pa.Table.from_batches(run.batches)
        wanted = sorted(rows, key=lambda told: told["id"])
        assert found.column("v").to_pylist() == [told["v"] for told in wanted]

    def test_deletes_and_rows_without_order_are_sorted_as_one_run(self, slice_):
        slice_.inline(1, data_block(1, [row("b", 1), row("a", 1)]), delete_block(1, ["b"]))
        slice_.inline(2, avro_block(2, [row("c", 2), row("b", 2)]))
        slice_.inline(3, data_block(3, [row("d", 3)], ordered=True))
        sources = slice_sources(slice_.view(EVENT_TIME), slice_.value)
        opened = open_runs(slice_.storage, sources, Needs(tuple(SCHEMA)))
        assert [source.instant for source, _ in opened] == [instant(1), instant(3)]
        batch = pa.Table.from_batches(opened[0][1].batches).combine_chunks()
        assert batch.column(RECORD_KEY).to_pylist() == ["a", "b", "b", "b", "c"]
        assert batch.column(FLAGS).to_pylist() == [0, 0, COMMIT_TIME_DELETE, 0, 0]
        assert pairs(slice_) == {"a": 1, "b": 2, "c": 2, "d": 3}


class TestAvroBlocks:
    def test_rows_of_avro_and_parquet_blocks_are_merged(self, slice_):
        slice_.base(1, parquet(with_meta([row("a", 1, 1), row("b", 1, 5), row("c", 1, 1)])))
        slice_.inline(2, avro_block(2, [row("b", 2, 4), row("a", 2, 2)]))
        slice_.inline(3, data_block(3, [row("c", 3, 3)]))
        slice_.inline(4, avro_block(4, [row("c", 4, 2), row("d", 4, 0)], ordered=True))
        assert pairs(slice_) == {"a": 2, "b": 1, "c": 3, "d": 4}
        assert pairs(slice_, COMMIT_TIME) == {"a": 2, "b": 2, "c": 4, "d": 4}

    def test_a_partial_avro_block_overlays_the_columns_that_it_has(self, slice_):
        slice_.base(1, parquet(with_meta([row("a", 1, 1), row("b", 1, 5)])))
        part = pa.schema([("id", pa.string()), ("ts", pa.int64())])
        rows = [{"id": "b", "ts": 4}, {"id": "a", "ts": 7}]
        slice_.inline(2, avro_block(2, rows, schema=part, IS_PARTIAL="true"))
        assert read(slice_, columns=("id", "v", "ts")) == [row("a", 1, 7), row("b", 1, 5)]

    def test_a_block_marked_as_sorted_that_is_not_is_corrupt(self, slice_):
        name = slice_.inline(1, avro_block(1, [row("b", 1), row("a", 1)], ordered=True))
        with pytest.raises(CorruptError, match=f"{name}.*marked as sorted"):
            pairs(slice_)

    def test_a_block_without_a_schema_is_corrupt(self, slice_):
        name = slice_.inline(1, block(BlockType.AVRO_DATA, 1, b"x"))
        with pytest.raises(CorruptError, match=f"{name}.*without a header SCHEMA"):
            pairs(slice_)

    def test_a_row_that_says_that_it_is_deleted_is(self, slice_):
        marked_schema = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_())])
        slice_.base(1, parquet(with_meta([row("a", 1, 1), row("b", 1, 5)])))
        rows = [row("a", 2, 2, _hoodie_is_deleted=True), row("b", 2, 4, _hoodie_is_deleted=True)]
        slice_.inline(2, avro_block(2, rows, schema=marked_schema))
        assert pairs(slice_) == {"b": 1}


def test_a_table_without_meta_columns_is_merged_by_the_keys_that_its_rows_spell(slice_):
    bare = config(populate_meta_fields="false")
    null = dict.fromkeys(META_COLUMNS)
    slice_.base(1, parquet(with_meta([row("b", 1, 1, **null), row("a", 1, 5, **null)])))
    slice_.inline(2, avro_block(2, [row("a", 2, 4, **null), row("b", 2, 4, **null)]))
    found = read(slice_, bare, columns=(RECORD_KEY, "id", "v"))
    assert found == [
        {RECORD_KEY: None, "id": "a", "v": 1},
        {RECORD_KEY: None, "id": "b", "v": 2},
    ]


def test_one_writer_that_sorts_and_one_that_does_not_give_the_rows_of_a_map_based_merger(slice_):
    noise = np.random.default_rng(11)
    held: dict[str, tuple[int, int]] = {}
    for number in range(1, 9):
        keys = [f"k{i:03d}" for i in noise.choice(300, 120, replace=False)]
        rows = [row(key, number, int(noise.integers(0, 5))) for key in keys]
        for told in rows:
            if told["ts"] >= held.get(told["id"], (0, -1))[1]:
                held[told["id"]] = (number, told["ts"])
        if number % 3 == 0:
            slice_.inline(
                number, data_block(number, sorted(rows, key=lambda r: r["id"]), ordered=True)
            )
        elif number % 3 == 1:
            slice_.inline(number, avro_block(number, rows))
        else:
            slice_.inline(number, data_block(number, rows[:60]), avro_block(number, rows[60:]))
    assert pairs(slice_) == {key: v for key, (v, _) in held.items()}


def many(count):
    return with_meta([row(f"k{i:05d}", i, i % 7) for i in range(count)])


def test_batches_are_bounded_by_the_buffer_and_gathered(slice_):
    slice_.base(1, parquet(many(20_000), marked(True), row_group_rows=1000))
    slice_.inline(2, data_block(2, [row("k00005", -1, 9)], ordered=True))
    (source, _) = slice_sources(slice_.view(EVENT_TIME), slice_.value)
    for buffer_bytes in (50_000, 500_000):
        needs = Needs(tuple(SCHEMA), buffer_bytes=buffer_bytes)
        sizes = [b.nbytes for b in open_run(slice_.storage, source, needs).batches]
        # The estimate before the first batch is rough.
        assert max(sizes) < 2 * buffer_bytes
    view = slice_.view(EVENT_TIME, buffer_bytes=50_000)
    found = list(read_slice(view, slice_.value, ["v"]))
    assert sum(batch.num_rows for batch in found) == 20_000


def test_no_batch_has_more_rows_than_asked_for(slice_):
    slice_.base(1, parquet(many(20_000), marked(True), row_group_rows=5_000))
    slice_.inline(2, data_block(2, [row("k00005", -1, 9)], ordered=True))
    (source, _) = slice_sources(slice_.view(EVENT_TIME), slice_.value)
    needs = Needs(tuple(SCHEMA), max_rows=1_500)
    sizes = [batch.num_rows for batch in open_run(slice_.storage, source, needs).batches]
    assert sum(sizes) == 20_000
    assert max(sizes) == 1_500


def test_memory_does_not_grow_with_a_block_or_its_row_groups(slice_):
    noise = np.random.default_rng(7)  # what does not compress makes a large file
    schema = pa.schema([("id", pa.string()), ("v", pa.int64()), ("ts", pa.int64())])
    count = 300_000
    columns = [[f"k{i:06d}" for i in range(count)], *noise.integers(0, 2**62, (2, count))]
    plain = pa.table(columns, schema=schema)
    table = plain.add_column(0, RECORD_KEY, plain.column("id"))
    content = parquet(table, marked(True), row_group_rows=count, use_dictionary=False)
    del columns, plain, table
    slice_.inline(1, block(BlockType.PARQUET_DATA, 1, content, SCHEMA=RECORD))
    size_bytes = len(content)
    del content
    (source,) = slice_sources(slice_.view(EVENT_TIME), slice_.value)
    base, peak, seen = pa.total_allocated_bytes(), 0, 0
    needs = Needs(tuple(schema), buffer_bytes=200_000)
    for batch in open_run(slice_.storage, source, needs).batches:
        peak = max(peak, pa.total_allocated_bytes() - base)
        seen += batch.num_rows
    assert seen == count
    # A column chunk is larger than the buffer, and comes in pages.
    assert peak < size_bytes / 3


def test_a_reader_that_stops_early_leaves_no_file_open(slice_):
    slice_.base(1, parquet(many(5000), marked(True), row_group_rows=100))
    slice_.inline(2, data_block(2, [row("a", 1)]))
    rows = read_slice(slice_.view(COMMIT_TIME, buffer_bytes=2000), slice_.value, ["v"])
    next(rows)
    rows.close()


class TestKeyFilter:
    def groups(self, slice_, key_filter, *, index):
        table = many(1000)
        entries = marked(True)
        if index:
            firsts = table.column(RECORD_KEY).to_pylist()[::100]
            entries |= {FOOTER_ROW_GROUP_KEYS: json.dumps(firsts)}
        path = slice_.base(1, parquet(table, entries, row_group_rows=100))
        with open_parquet(slice_.storage, path, "file") as file:
            return key_filter.row_groups(file, "file")

    @pytest.mark.parametrize("index", [True, False])
    @pytest.mark.parametrize(
        ("asked", "wanted"),
        [
            ({"keys": ["k00150"]}, [1]),
            ({"keys": ["k00150", "k00950"]}, [1, 9]),
            ({"keys": ["a"]}, []),
            ({"keys": []}, []),
            ({"prefixes": ["k0015"]}, [1]),
            ({"prefixes": ["k005"]}, [5]),
            ({"prefixes": [""]}, list(range(10))),
            ({"prefixes": ["z"]}, []),
            ({"keys": ["k00150"], "prefixes": ["k003"]}, [1, 3]),
        ],
    )
    def test_only_row_groups_that_can_hold_a_key_are_read(self, slice_, asked, wanted, index):
        found = self.groups(slice_, KeyFilter.of(**asked), index=index)
        assert set(found) >= set(wanted)
        # A first key alone does not tell whether the row group before ends with the prefix too.
        assert len(found) <= len(wanted) + (index and "prefixes" in asked)

    @pytest.mark.parametrize("wide", [True, False])
    def test_a_key_on_both_sides_of_a_border_is_found_on_both(self, slice_, wide):
        rows = [row(key, number) for number, key in enumerate("abbcdd")]
        entries = {**marked(True), FOOTER_ROW_GROUP_KEYS: '["a","b","d"]'}
        table = with_meta(rows)
        slice_.base(
            1,
            parquet(
                table if wide else table.select([RECORD_KEY, "id", "v"]), entries, row_group_rows=2
            ),
        )
        found = read(slice_, key_filter=KeyFilter.of(keys=["b", "e"]))
        assert [r["v"] for r in found] == [1, 2]

    def test_a_key_behind_the_last_one_is_looked_for_nowhere(self, slice_):
        table = with_meta([row(key, 1) for key in "abcd"])
        entries = {**marked(True), FOOTER_ROW_GROUP_KEYS: '["a","c"]', FOOTER_MAX_KEY: "d"}
        path = slice_.base(1, parquet(table.select([RECORD_KEY]), entries, row_group_rows=2))
        with open_parquet(slice_.storage, path, "file") as file:
            assert KeyFilter.of(keys=["d"]).row_groups(file, "file") == [1]
            assert KeyFilter.of(keys=["e"]).row_groups(file, "file") == []
            assert KeyFilter.of(prefixes=["d"]).row_groups(file, "file") == [1]

    @pytest.mark.parametrize(
        "text", ["", "{}", "[1]", '["a"]', '["b","a"]', "[" * 5000, '["a","b"'], ids=repr
    )
    def test_a_bad_index_of_row_groups_is_corrupt_and_names_the_file(self, slice_, text):
        entries = {**marked(True), FOOTER_ROW_GROUP_KEYS: text}
        slice_.base(1, parquet(many(200), entries, row_group_rows=100))
        with pytest.raises(CorruptError, match=rf"base file .*\.parquet.*{FOOTER_ROW_GROUP_KEYS}"):
            read(slice_, key_filter=KeyFilter.of(keys=["a"]))
        assert len(read(slice_)) == 200

    def test_an_index_in_a_file_that_is_not_marked_as_sorted_is_not_believed(self, slice_):
        entries = {FOOTER_ROW_GROUP_KEYS: '["x","y"]'}
        slice_.base(1, parquet(many(200), entries, row_group_rows=100))
        assert len(read(slice_, key_filter=KeyFilter.of(keys=["k00001"]))) == 1

    @pytest.mark.parametrize("prefix", ["\ud7ff", "\U0010ffff", "a\U0010ffff", "", "é"])
    def test_prefixes_end_where_no_longer_key_begins_with_them(self, slice_, prefix):
        keys = ["", "a", "a\U0010ffff", "a\U0010ffffz", "b", "é", "\ud7ff", "\ud7ffz", "\ue000"]
        keys = sorted([*keys, "\U0010ffff", "\U0010ffffz"])
        table = with_meta([row(key, 1) for key in keys])
        slice_.base(1, parquet(table, row_group_rows=1))
        found = [r["id"] for r in read(slice_, key_filter=KeyFilter.of(prefixes=[prefix]))]
        assert found == [key for key in keys if key.startswith(prefix)]

    def test_a_filter_below_the_merge_never_brings_an_old_version_back(self, slice_):
        slice_.base(1, parquet(with_meta([row("a", 1, 1), row("b", 1, 1), row("c", 1, 1)])))
        slice_.inline(2, data_block(2, [row("b", 2, 2)]), delete_block(2, ["a"]))
        assert pairs(slice_, key_filter=KeyFilter.of(keys=["a", "b"])) == {"b": 2}

    @given(st.lists(st.text("ab\U0001f600\uff21", max_size=3)), st.lists(st.text("ab", max_size=2)))
    @settings(max_examples=80, deadline=None)
    def test_the_mask_is_what_python_says(self, keys, asked):
        array = pa.array(keys, pa.string())
        told = KeyFilter.of(keys=asked).mask(array)
        assert told.to_pylist() == [key in asked for key in keys]
        told = KeyFilter.of(prefixes=asked).mask(array)
        assert told.to_pylist() == [any(key.startswith(p) for p in asked) for key in keys]


class TestMergeRule:
    CUSTOM = config(record_merge_mode="CUSTOM", compaction_payload_class="org.x.OurPayload")

    def test_a_payload_of_somebodys_own_is_refused_by_name(self):
        with pytest.raises(UnsupportedError, match=r"org\.x\.OurPayload"):
            merge_rule(self.CUSTOM)
        table = config(record_merge_mode="CUSTOM", record_merge_strategy_id="5e-1")
        with pytest.raises(UnsupportedError, match=r"strategy\.id=5e-1"):
            merge_rule(table)

    def test_the_mode_decides_and_not_the_fields(self):
        assert merge_rule(EVENT_TIME).ordering_fields == ("ts",)
        assert merge_rule(COMMIT_TIME).ordering_fields == ()

    def test_a_merger_of_ones_own_sees_every_column(self, slice_):
        schema = SCHEMA.append(pa.field("w", pa.int64()))
        slice_.base(1, parquet(with_meta([row("a", 1, 9, w=8), row("b", 1, 9, w=8)], schema)))
        content = parquet(with_meta([row("a", 20, 1, w=0)], schema))
        slice_.inline(2, block(BlockType.PARQUET_DATA, 2, content, SCHEMA=RECORD))

        def add(older, newer):
            total = pc.add(older.column("v"), pc.add(newer.column("v"), older.column("w")))
            at = newer.schema.get_field_index("v")
            return newer.set_column(at, newer.schema.field(at), total)

        rule = merge_rule(self.CUSTOM, add)
        assert pairs(slice_, self.CUSTOM, rule=rule, schema=schema) == {"a": 29, "b": 1}


@pytest.mark.parametrize("version", [9, 10])
def test_what_our_writer_writes_is_ordered_and_reads_as_it_was_meant(slice_, version):
    table = config(version, table_storage_layout="lsm_tree")
    slice_.base(1, parquet(with_meta([row(f"k{i:04d}", 1, 5) for i in range(3000)]), marked(True)))
    count = 1000
    flags = np.zeros(count, dtype=np.uint8)
    flags[10], flags[20], flags[30] = COMMIT_TIME_DELETE, DELETED, DELETED
    times = np.full(count, 6)
    times[30] = 4  # too late to delete
    keys = pa.array([f"k{i * 3:04d}" for i in range(count)])
    batch = pa.record_batch(
        [keys, keys, pa.array(range(count)), pa.array(times), pa.array(flags)],
        names=[RECORD_KEY, *SCHEMA.names, FLAGS],
    )
    log = NewLog(
        storage=slice_.storage,
        config=table,
        group=slice_.value.group,
        write_token="0-0-0",
        version=1,
        instant=instant(2),
        schema=SCHEMA,
        table_schema_text=arrow_to_avro(SCHEMA, "t"),
    )
    for stats in LogRunWriter(log).write([batch]):
        slice_.logs.append(LogFile("", parse_data_name(stats.path), stats.size_bytes))
    sources = slice_sources(slice_.view(table), slice_.value)
    assert [str(source.kind) for source in sources][:3] == ["data", "data", "deletes"]
    assert all(source.ordered for source in sources)
    wanted = {f"k{i:04d}": 1 if i % 3 else i // 3 for i in range(3000)}
    del wanted["k0030"], wanted["k0060"]
    wanted["k0090"] = 1
    assert pairs(slice_, table) == wanted
    asked = KeyFilter.of(keys=["k0030", "k0033", "k0034", "k2997"])
    assert pairs(slice_, table, key_filter=asked) == {"k0033": 11, "k0034": 1, "k2997": 999}


KEYS = [f"k{number}" for number in range(6)]
CHANGE = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(0, 4)),
    st.tuples(st.just("delete"), st.sampled_from(KEYS), st.none() | st.integers(0, 4)),
)
SPELLINGS = ("sorted block", "block", "native", "parquet under an inline name")


def fold(history, event_time, with_base):
    """Merge one key after the other, as Hudi says it: the logs first, then the base file."""
    state = {}
    base = {key: (0, ts) for _, key, ts in history[0]} if with_base else {}
    for number, changes in enumerate(history):
        if number == 0 and with_base:
            continue
        puts = [change for change in changes if change[0] == "put"]
        for kind, key, ts in [*puts, *(change for change in changes if change[0] == "delete")]:
            old = state.get(key)
            bare = kind == "delete" and ts is None
            if event_time and kind == "delete" and old == (None, None):
                continue  # a delete without an ordering value stays
            if event_time and old is not None and not bare and old[1] is not None and ts < old[1]:
                continue
            state[key] = (None if kind == "delete" else number, ts)
    for key, (v, ts) in base.items():
        over = state.get(key)
        if over is None or (event_time and over[1] is not None and ts > over[1]):
            state[key] = (v, ts)
    return {key: v for key, (v, _) in state.items() if v is not None}


def write(slice_, number, changes, spelling):
    put = {key: row(key, number, ts) for kind, key, ts in changes if kind == "put"}
    gone = {key: ts for kind, key, ts in changes if kind == "delete"}
    ordered = spelling != "block"
    keys = sorted(put) if ordered else list(put)
    table = with_meta([put[key] for key in keys])
    gone_keys = sorted(gone) if ordered else list(gone)
    if "block" in spelling:
        records = [key if gone[key] is None else delete_at(key, gone[key]) for key in gone_keys]
        slice_.inline(
            number,
            data_block(number, [put[key] for key in keys], ordered=ordered),
            delete_block(number, records, ordered=ordered),
        )
        return
    deletes = deletes_table([(key, gone[key]) for key in gone_keys])
    if spelling == "native":
        slice_.native(number, LogKind.DELETES, deletes, ordered=True)
        slice_.native(number, LogKind.LOG, table, ordered=True)
        return
    name = f".f-0_{instant(number)}.log"
    slice_.log(f"{name}.1_0-0-0", native(number, FooterKind.PARQUET_DATA, table, ordered=True))
    slice_.log(f"{name}.2_0-0-0", native(number, FooterKind.DELETE, deletes, ordered=True))


def last_of_each(changes):
    return list({change[:2]: change for change in changes}.values())


@given(
    st.lists(
        st.tuples(st.lists(CHANGE, max_size=6).map(last_of_each), st.sampled_from(SPELLINGS)),
        min_size=1,
        max_size=5,
    ),
    st.booleans(),
    st.booleans(),
    st.none() | st.lists(st.sampled_from(KEYS)),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_history_reads_as_hudi_folds_it(runs, event_time, with_base, asked):
    slice_ = Slice(memory_storage())
    history = [changes for changes, _ in runs]
    for number, (changes, spelling) in enumerate(runs):
        if number == 0 and with_base:
            history[0] = [change for change in changes if change[0] == "put"]
            kept = {key: row(key, 0, ts) for _, key, ts in history[0]}
            slice_.base(0, parquet(with_meta([kept[key] for key in sorted(kept)]), marked(True)))
        else:
            write(slice_, number, changes, spelling)
    table = EVENT_TIME if event_time else COMMIT_TIME
    wanted = fold(history, event_time, with_base)
    key_filter = None
    if asked is not None:
        key_filter = KeyFilter.of(keys=asked)
        wanted = {key: v for key, v in wanted.items() if key in asked}
    found = read(slice_, table, key_filter=key_filter)
    assert {row["id"]: row["v"] for row in found} == wanted
    assert len(found) == len(wanted)
