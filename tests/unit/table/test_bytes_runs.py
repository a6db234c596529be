"""Runs keyed by any column of bytes: written, read back, merged and looked up as others are."""

import json
from base64 import b64encode
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.errors import CorruptError, InvalidError, KeyValueError
from lakebed.format.files.footer import (
    FOOTER_IS_ORDERED,
    FOOTER_KEY_COLUMN,
    FOOTER_MAX_KEY,
    FOOTER_ROW_GROUP_KEY_BYTES,
    FOOTER_ROW_GROUP_KEYS,
)
from lakebed.format.names.meta_columns import RECORD_KEY
from lakebed.merge import tree
from lakebed.merge.passes import merge_in_passes
from lakebed.merge.rule import MergeRule
from lakebed.merge.run import DELETED, FLAGS, Run
from lakebed.merge.window import merge_runs
from lakebed.storage.objects import memory_storage
from lakebed.table.read.key_filter import KeyFilter
from lakebed.table.read.parquet_source import open_parquet
from lakebed.table.read.run_reader import Needs, open_run
from lakebed.table.read.run_source import RunKind, RunSource
from lakebed.table.read.sort_run import sort_batches
from lakebed.table.read.spill import Spills
from lakebed.table.store.run_writer import RunSizes, RunWriter
from support.runs import parquet
from support.sorted_rows import sort_rows

KEY = "_key"
SCHEMA = pa.schema([pa.field(KEY, pa.binary(), nullable=False), ("v", pa.int64())])
# More columns than are read along with the key: then the key column is looked at by itself first.
WIDE = pa.schema([*SCHEMA, *((f"c{n}", pa.int64()) for n in range(8))])
RULE = MergeRule(key=KEY)
LONG = b"\xfe" * 5_000
ODD = sorted(
    [
        b"",
        b"\0",
        b"\0\0",
        b"\0\xff",
        b"a",
        b"a\0b",
        b"a\xff\xff",
        b"\x7f",
        b"\x80",
        b"\xc3",
        b"\xc3\xa9",
    ]
)
ODD += [LONG, LONG + b"\0", b"\xff", b"\xff\xff", b"\xff\xff\0"]
keys = st.lists(st.binary(max_size=4) | st.sampled_from(ODD), unique=True).map(sorted)


def rows(values, number=0, schema=SCHEMA):
    columns = [pa.array(values, pa.binary())]
    columns += [pa.array([number] * len(values), pa.int64())] * (len(schema) - 1)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def written(storage, path, batch, row_group_rows=2):
    with RunWriter(
        storage.open_write(path), path, batch.schema, {}, sizes=RunSizes(row_group_rows), key=KEY
    ) as out:
        for start in range(0, batch.num_rows, 3):
            out.write(batch.slice(start, 3))
    return RunSource(path, RunKind.DATA, "1", ordered=True)


def needs(schema=SCHEMA, **asked):
    wanted = KeyFilter.of(**asked, column=KEY) if asked else None
    return Needs(tuple(schema), key_filter=wanted, key=schema.field(KEY))


def found(batches):
    return [key for batch in batches for key in batch.column(KEY).to_pylist()]


def looked_up(storage, source, schema=SCHEMA, **asked):
    return found(open_run(storage, source, needs(schema, **asked)).batches)


def groups(storage, source, **asked):
    with open_parquet(storage, source.path, "file") as file:
        return KeyFilter.of(**asked, column=KEY).row_groups(file, "file")


@pytest.fixture(params=[SCHEMA, WIDE], ids=["narrow", "wide"])
def odd(request):
    storage = memory_storage()
    return storage, written(storage, "odd", rows(ODD, schema=request.param)), request.param


def test_the_keys_of_these_tests_ascend():
    assert all(low < high for low, high in pairwise(ODD))


@given(values=keys, size=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_what_is_written_comes_back_in_order(values, size):
    storage = memory_storage()
    source = written(storage, "x", rows(values), size)
    assert looked_up(storage, source) == values


def test_a_file_says_by_which_column_it_is_sorted_and_nothing_of_record_keys(odd):
    storage, source, _ = odd
    with open_parquet(storage, source.path, "file") as file:
        entries = file.key_values
    assert entries[FOOTER_KEY_COLUMN] == KEY
    told = json.loads(entries[FOOTER_ROW_GROUP_KEY_BYTES])
    assert told == [b64encode(key).decode() for key in [*ODD[::2], ODD[-1]]]
    assert not {FOOTER_IS_ORDERED, FOOTER_MAX_KEY, FOOTER_ROW_GROUP_KEYS} & entries.keys()


@pytest.mark.parametrize("key", ODD, ids=lambda key: repr(key[:4]))
def test_a_key_is_found_and_only_row_groups_that_can_hold_it_are_read(odd, key):
    storage, source, schema = odd
    assert looked_up(storage, source, schema, keys=[key]) == [key]
    assert ODD.index(key) // 2 in groups(storage, source, keys=[key])
    # A key that begins a row group may have ended the one before.
    assert len(groups(storage, source, keys=[key])) <= 2
    assert looked_up(storage, source, schema, keys=[key + b"\0nowhere"]) == []


def test_a_key_behind_the_last_one_is_looked_for_nowhere(odd):
    storage, source, _ = odd
    assert groups(storage, source, keys=[ODD[-1] + b"\0"]) == []
    assert groups(storage, source, prefixes=[ODD[-1] + b"\0"]) == []


@given(
    values=keys,
    asked=st.lists(st.binary(max_size=3) | st.sampled_from(ODD), max_size=40),
    prefixes=st.lists(st.binary(max_size=2), max_size=3),
    ranges=st.lists(
        st.tuples(st.binary(max_size=2), st.none() | st.binary(max_size=2)), max_size=3
    ),
    schema=st.sampled_from([SCHEMA, WIDE]),
)
@settings(max_examples=150, deadline=None)
def test_a_lookup_finds_what_python_finds(values, asked, prefixes, ranges, schema):
    storage = memory_storage()
    source = written(storage, "x", rows(values, schema=schema))
    wanted = {"keys": asked, "prefixes": prefixes, "ranges": ranges}
    assert looked_up(storage, source, schema, **wanted) == [
        key
        for key in values
        if key in asked
        or key.startswith(tuple(prefixes))
        or any(low <= key and (end is None or key < end) for low, end in ranges)
    ]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ({"prefixes": [b"a"]}, [b"a", b"a\0b", b"a\xff\xff"]),
        ({"prefixes": [b"\xff"]}, ODD[-3:]),
        ({"prefixes": [b"\xff\xff"]}, ODD[-2:]),
        ({"prefixes": [b""]}, ODD),
        ({"prefixes": [LONG]}, [LONG, LONG + b"\0"]),
        ({"ranges": [(b"\x80", LONG)]}, [b"\x80", b"\xc3", b"\xc3\xa9"]),
        ({"ranges": [(b"", b"\0\0")]}, [b"", b"\0"]),
        ({"ranges": [(LONG + b"\0", None)]}, ODD[-4:]),
        ({"ranges": [(b"b", b"a"), (b"a", b"a")]}, []),
    ],
)
def test_prefixes_and_ranges_go_by_bytes(odd, asked, wanted):
    storage, source, schema = odd
    assert looked_up(storage, source, schema, **asked) == wanted
    assert len(groups(storage, source, **asked)) <= len(wanted) // 2 + 2


def test_keys_too_long_for_the_footer_are_found_by_statistics_or_everywhere():
    storage = memory_storage()
    many = [bytes([256 - 8 + n]) * (256 << 10) for n in range(8)]
    source = written(storage, "x", rows([b"a", b"b", *many]))
    with open_parquet(storage, "x", "file") as file:
        assert FOOTER_ROW_GROUP_KEY_BYTES not in file.key_values
    # Parquet keeps no bounds of values that long either.
    assert groups(storage, source, keys=[b"c"]) == [1, 2, 3, 4]
    assert looked_up(storage, source, keys=[b"b", many[3]]) == [b"b", many[3]]


@given(made=st.lists(keys, min_size=1, max_size=5), gone=keys)
@settings(max_examples=40, deadline=None)
def test_a_merge_keeps_the_newest_of_each_key(made, gone):
    tree.warm_up()
    storage = memory_storage()
    runs = [
        open_run(storage, written(storage, str(n), rows(values, n)), needs())
        for n, values in enumerate(made)
    ]
    deletes = rows(gone, len(made)).append_column(
        pa.field(FLAGS, pa.uint8()), pa.array([DELETED] * len(gone), pa.uint8())
    )
    newest = {key: n for n, values in enumerate(made) for key in values}
    merged = merge_runs([*runs, Run("gone", [deletes])], RULE, SCHEMA)
    assert [tuple(row.values()) for batch in merged for row in batch.to_pylist()] == [
        (key, newest[key]) for key in sorted(newest.keys() - set(gone))
    ]


def test_more_runs_than_may_be_open_are_merged_in_passes():
    runs = [Run(str(n), [rows(ODD[n::3], n)]) for n in range(9)]
    with Spills() as spills:
        merged = list(merge_in_passes(runs, RULE, SCHEMA, spills.spill, max_fan_in=2))
    assert found(merged) == ODD


def test_rows_in_any_order_are_sorted_by_their_bytes():
    shuffled = rows(ODD[::2] + ODD[1::2])
    assert found([sort_rows(shuffled, RULE)]) == ODD
    pieces = [shuffled.slice(at, 2) for at in range(0, len(ODD), 2)]
    assert found(sort_batches(pieces, None, "x", sort_bytes=1, max_fan_in=2, key=KEY)) == ODD


def test_strings_are_looked_up_by_their_bytes_too():
    storage = memory_storage()
    schema = pa.schema([pa.field(KEY, pa.string(), nullable=False), ("v", pa.int64())])
    texts = ["", "a", "é", "\uff5e", "\U0001f600"]
    batch = pa.record_batch([pa.array(texts), pa.array(range(5))], schema=schema)
    source = written(storage, "x", batch)
    assert looked_up(storage, source, schema, keys=["é", b"a"]) == ["a", "é"]
    assert looked_up(storage, source, schema, ranges=[("\uff5e", None)]) == texts[3:]


@pytest.mark.parametrize(
    ("values", "error"),
    [([b"\x80", b"\x7f"], InvalidError), ([b"a", b"a"], InvalidError), ([None], KeyValueError)],
)
def test_keys_that_do_not_rise_are_not_written(values, error):
    storage = memory_storage()
    schema = pa.schema([pa.field(KEY, pa.binary())])
    with (
        pytest.raises(error, match=r"^x: expected a? ?record key"),
        RunWriter(storage.open_write("x"), "x", schema, {}, key=KEY) as out,
    ):
        for value in values:
            out.write(pa.record_batch([pa.array([value], pa.binary())], schema=schema))


@pytest.mark.parametrize(
    "text", ["", "{}", "[1]", '["YQ=="]', '["YQ==","YQ"]', '["YQ==","Yg==","YQ=="]', '["é",""]']
)
def test_a_bad_index_of_row_groups_is_corrupt_and_names_the_file(text):
    storage = memory_storage()
    entries = {FOOTER_KEY_COLUMN: KEY, FOOTER_ROW_GROUP_KEY_BYTES: text}
    table = pa.Table.from_batches([rows([b"a", b"b", b"c", b"d"])])
    storage.put_if_absent("x", parquet(table, entries, row_group_rows=2))
    with pytest.raises(CorruptError, match=rf"^file: {FOOTER_ROW_GROUP_KEY_BYTES}"):
        groups(storage, RunSource("x", RunKind.DATA, "1", ordered=True), keys=[b"a"])


def test_a_file_sorted_by_another_column_is_not_taken_for_sorted_by_this_one():
    storage = memory_storage()
    schema = pa.schema([*WIDE, pa.field(RECORD_KEY, pa.string())])
    batch = rows([b"a", b"b", b"c"], schema=WIDE).append_column(
        pa.field(RECORD_KEY, pa.string()), pa.array(["z", "y", "x"])
    )
    written(storage, "x", batch.select(schema.names))
    with open_parquet(storage, "x", "file") as file:
        assert KeyFilter.of(keys=["y"]).row_groups(file, "file") == [0]
