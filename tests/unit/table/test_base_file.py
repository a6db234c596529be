"""Base files: written, read back, and Hudi's own."""

import gc
import io
import tarfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.errors import (
    CorruptError,
    InvalidError,
    KeyValueError,
    LakebedError,
    NotFoundError,
    SchemaError,
    UnavailableError,
)
from lakebed.format.avro.avro_schema import avro_to_arrow
from lakebed.format.names.meta_columns import META_COLUMNS, RECORD_KEY
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.table.config.schema import normalise
from lakebed.table.read.base_file import read_base_file, read_footer, sample_base_file
from lakebed.table.read.conform import conform
from lakebed.table.store.data_writer import DataFileWriter, NewDataFile

FIXTURES = Path(__file__).parents[2] / "golden" / "fixtures" / "hudi-1.2"
INSTANT = "20240101000000000"
PATH = "p/f1-0_0-0-0_20240101000000000.parquet"
NAME = PATH.rpartition("/")[2]
SIMPLE = pa.schema([("v", pa.int64())])

EVERY_TYPE = normalise(
    pa.schema(
        [
            pa.field("req", pa.int32(), nullable=False),
            ("b", pa.bool_()),
            ("i8", pa.int8()),
            ("i16", pa.int16()),
            ("i64", pa.int64()),
            ("f", pa.float32()),
            ("d", pa.float64()),
            ("dec", pa.decimal128(38, 10)),
            ("s", pa.string()),
            ("bin", pa.binary()),
            ("date", pa.date32()),
            ("ts", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("l", pa.list_(pa.int8())),
            ("ll", pa.list_(pa.list_(pa.struct([("x", pa.int16())])))),
            ("m", pa.map_(pa.string(), pa.int8())),
            ("st", pa.struct([("x", pa.int8()), ("y", pa.struct([("z", pa.string())]))])),
        ]
    )
)
EVERY_ROW = [
    {
        "req": 1,
        "b": True,
        "i8": -128,
        "i16": 32767,
        "i64": 2**63 - 1,
        "f": 1.5,
        "d": -2.25,
        "dec": Decimal("1234567890123456789012345678.0000000001"),
        "s": "grüße 日本 🎉",
        "bin": b"\x00\xff",
        "date": 0,
        "ts": 1_704_164_645_678_901,
        "ntz": -1,
        "l": [1, None],
        "ll": [[{"x": 1}, None], None, []],
        "m": [("a", 1), ("b", None)],
        "st": {"x": 7, "y": {"z": None}},
    },
    dict.fromkeys(EVERY_TYPE.names) | {"req": 2},
    dict.fromkeys(EVERY_TYPE.names)
    | {"req": 3, "l": [], "ll": [], "m": [], "s": "", "bin": b"", "st": {"x": None, "y": None}},
]


class RemoteReader(io.RawIOBase):
    def __init__(self, source, remote):
        self.source, self.remote = source, remote

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, at, whence=0):
        return self.source.seek(at, whence)

    def tell(self):
        return self.source.tell()

    def read(self, size=-1):
        if len(self.remote.reads) == self.remote.fail_after:
            raise UnavailableError("gone")
        self.remote.reads.append(size)
        return self.source.read(size)


class Remote:
    """A storage that notes each read, and goes away after some."""

    def __init__(self, storage, fail_after=None):
        self.storage, self.fail_after, self.reads = storage, fail_after, []

    def open_read(self, path):
        return pa.PythonFile(RemoteReader(self.storage.open_read(path), self), mode="r")

    def local_path(self, path):
        return None


@pytest.fixture(params=["local", "memory"])
def storage(request, tmp_path):
    return LocalStorage(str(tmp_path)) if request.param == "local" else memory_storage()


def writer(storage, schema=SIMPLE, **options):
    return DataFileWriter(
        storage.open_write(PATH), NewDataFile(PATH, schema, "t", INSTANT, **options)
    )


def numbers(start, stop):
    return pa.record_batch([pa.array(range(start, stop), pa.int64())], schema=SIMPLE)


def keys(start, stop):
    return pa.array([f"k{i:08d}" for i in range(start, stop)])


def write_numbers(storage, count, **options):
    with writer(storage, **options) as out:
        out.write(numbers(0, count), keys(0, count))
    return out.close()


def rows(storage, schema=SIMPLE, columns=None, path=PATH, **options):
    batches = list(read_base_file(storage, path, schema, columns, **options))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


def put_parquet(storage, table, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    storage.put(PATH, sink.getvalue())


def test_every_type_comes_back_as_it_was_written(storage):
    batch = pa.RecordBatch.from_pylist(EVERY_ROW, EVERY_TYPE)
    with writer(storage, EVERY_TYPE) as out:
        out.write(batch, keys(0, 3))
    read = list(read_base_file(storage, PATH, EVERY_TYPE))
    assert pa.Table.from_batches(read).equals(pa.Table.from_batches([batch]))
    one = list(read_base_file(storage, PATH, EVERY_TYPE, ["m", "i8"], batch_rows=1))
    assert [b.num_rows for b in one] == [1, 1, 1]
    assert pa.Table.from_batches(one).equals(pa.Table.from_batches([batch.select(["m", "i8"])]))


def test_a_file_has_hudis_columns_and_footer(storage):
    stats = write_numbers(storage, 3, partition_path="p", task=4, metadata={"extra": "x"})
    assert (stats.path, stats.rows, stats.min_key, stats.max_key) == (
        PATH,
        3,
        "k00000000",
        "k00000002",
    )
    assert stats.size_bytes == storage.head(PATH).size
    file = pq.ParquetFile(io.BytesIO(storage.read(PATH)))
    assert file.schema_arrow.names == [*META_COLUMNS, "v"]
    assert set(file.schema_arrow.types[:5]) == {pa.string()}
    meta = file.read().to_pylist()[2]
    assert [meta[name] for name in META_COLUMNS] == [
        INSTANT,
        f"{INSTANT}_4_2",
        "k00000002",
        "p",
        NAME,
    ]
    footer = read_footer(storage, PATH)
    assert (footer.num_rows, footer.min_key, footer.max_key) == (3, "k00000000", "k00000002")
    assert footer.is_ordered
    assert footer.metadata["extra"] == "x"
    assert footer.metadata["hudi.log.is_ordered"] == "true"
    assert avro_to_arrow(footer.metadata["parquet.avro.schema"]).names == [*META_COLUMNS, "v"]


def test_narrow_integers_are_plain_int32_in_the_file(storage):
    with writer(storage, pa.schema([("a", pa.int8()), ("b", pa.int16())])) as out:
        out.write(
            pa.record_batch([pa.array([1], pa.int8()), pa.array([2], pa.int16())], ["a", "b"]),
            keys(0, 1),
        )
    assert read_footer(storage, PATH).schema.types[5:] == [pa.int32(), pa.int32()]


def test_rows_of_older_instants_keep_their_commit_time_and_number(storage):
    with writer(storage) as out:
        out.write(
            numbers(0, 2),
            keys(0, 2),
            commit_times=pa.array(["20230101000000000", "20230202000000000"]),
            commit_seqnos=pa.array(["a_0_1", "a_0_2"]),
        )
        out.write(numbers(2, 3), keys(2, 3))
    found = rows(storage, columns=["_hoodie_commit_time", "_hoodie_commit_seqno", "v"])
    assert [tuple(row.values()) for row in found] == [
        ("20230101000000000", "a_0_1", 0),
        ("20230202000000000", "a_0_2", 1),
        (INSTANT, f"{INSTANT}_0_2", 2),
    ]


def test_an_empty_file_is_a_file(storage):
    stats = write_numbers(storage, 0)
    assert (stats.rows, stats.min_key, stats.max_key) == (0, None, None)
    assert rows(storage) == []
    footer = read_footer(storage, PATH)
    assert (footer.num_rows, footer.min_key, footer.is_ordered) == (0, None, True)


def test_row_groups_gather_small_batches_and_cut_large_ones(storage):
    with writer(storage, row_group_rows=1000) as out:
        for start in range(0, 900, 100):
            out.write(numbers(start, start + 100), keys(start, start + 100))
        out.write(numbers(900, 5500), keys(900, 5500))
    metadata = pq.ParquetFile(io.BytesIO(storage.read(PATH))).metadata
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert groups == [1000] * 5 + [500]
    assert [row["v"] for row in rows(storage, batch_rows=700)] == list(range(5500))


def test_wide_rows_make_smaller_row_groups(storage):
    schema = pa.schema([("s", pa.string())])
    with writer(storage, schema, row_group_bytes=100_000) as out:
        out.write(pa.record_batch([pa.array(["x" * 10_000] * 35)], schema=schema), keys(0, 35))
    metadata = pq.ParquetFile(io.BytesIO(storage.read(PATH))).metadata
    groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert all(6 <= size <= 10 for size in groups[:-1])
    assert sum(groups) == 35


def test_a_row_larger_than_a_row_group_is_written_alone(storage):
    schema = pa.schema([("s", pa.string())])
    with writer(storage, schema, row_group_bytes=10) as out:
        out.write(pa.record_batch([pa.array(["x" * 1000] * 3)], schema=schema), keys(0, 3))
    assert len(rows(storage, schema)) == 3


def test_dictionaries_are_used_only_where_values_repeat(storage):
    schema = pa.schema([("few", pa.string()), ("many", pa.string()), ("l", pa.list_(pa.int64()))])
    batch = pa.record_batch(
        [
            pa.array([f"c{i % 3}" for i in range(1000)]),
            pa.array([f"u{i}" for i in range(1000)]),
            pa.array([[i % 4, i % 2] for i in range(1000)]),
        ],
        schema=schema,
    )
    with writer(storage, schema) as out:
        out.write(batch, keys(0, 1000))
    group = pq.ParquetFile(io.BytesIO(storage.read(PATH))).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert columns["few"].has_dictionary_page
    assert columns["l.list.element"].has_dictionary_page
    assert columns["_hoodie_file_name"].has_dictionary_page
    assert not columns["many"].has_dictionary_page
    assert "DELTA_BYTE_ARRAY" in columns[RECORD_KEY].encodings
    assert "DELTA_BYTE_ARRAY" in columns["_hoodie_commit_seqno"].encodings
    assert columns["many"].statistics.max == "u999"


@pytest.mark.parametrize(
    "bad", [["b", "a"], ["a", "a"], ["z", "é", "zz"], ["\U00010000", "\ufffd"]], ids=str
)
def test_keys_out_of_byte_order_are_refused_by_name(storage, bad):
    with (
        pytest.raises(InvalidError, match=f"above {bad[-2]!r}, found {bad[-1]!r}"),
        writer(storage) as out,
    ):
        out.write(numbers(0, len(bad)), pa.array(bad))
    assert list(storage.list()) == []


def test_order_is_checked_across_batches(storage):
    wanted = "above 'k00000001', found 'k00000001'"
    with pytest.raises(InvalidError, match=wanted), writer(storage) as out:
        out.write(numbers(0, 2), keys(0, 2))
        out.write(numbers(0, 0), keys(0, 0))
        out.write(numbers(1, 2), keys(1, 2))


def test_a_null_key_and_a_wrong_number_of_keys_are_refused(storage):
    with pytest.raises(KeyValueError, match="null"), writer(storage) as out:
        out.write(numbers(0, 2), pa.array(["a", None]))
    with (
        pytest.raises(InvalidError, match="expected 2 record keys, found 1"),
        writer(storage) as out,
    ):
        out.write(numbers(0, 2), pa.array(["a"]))


def test_a_null_in_a_required_column_is_refused_while_writing(storage):
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    with pytest.raises(SchemaError, match=r"'v'.*1 nulls"), writer(storage, schema) as out:
        out.write(pa.record_batch([pa.array([None], pa.int64())], ["v"]), keys(0, 1))


def test_nothing_is_visible_before_close_and_nothing_stays_after_abort(storage):
    out = writer(storage, row_group_rows=10)
    out.write(numbers(0, 100), keys(0, 100))
    assert list(storage.list()) == []
    out.abort()
    del out
    gc.collect()
    assert list(storage.list()) == []
    with pytest.raises(RuntimeError, match="stop"), writer(storage, row_group_rows=10) as failing:
        failing.write(numbers(0, 100), keys(0, 100))
        raise RuntimeError("stop")
    assert list(storage.list()) == []


def test_closing_twice_gives_the_same_and_abort_after_close_does_nothing(storage):
    out = writer(storage)
    out.write(numbers(0, 1), keys(0, 1))
    stats = out.close()
    out.abort()
    assert out.close() == stats
    assert rows(storage) == [{"v": 0}]


def test_key_ranges_that_java_orders_otherwise_are_left_out(storage):
    # Java compares UTF-16: U+10000 is below U+FFFD there and above it in UTF-8.
    with writer(storage) as out:
        out.write(numbers(0, 2), pa.array(["a\ufffd", "a\U00010000"]))
    assert out.close().max_key == "a\U00010000"
    footer = read_footer(storage, PATH)
    assert (footer.min_key, footer.max_key) == (None, None)
    assert "hoodie_min_record_key" not in footer.metadata


def test_hudis_base_file_of_every_type_is_read(storage):
    with tarfile.open(FIXTURES / "mor9_types.tar.gz") as archive:
        name = next(n for n in archive.getnames() if n.endswith(".parquet"))
        storage.put(PATH, archive.extractfile(name).read())
    footer = read_footer(storage, PATH)
    assert not footer.is_ordered
    assert (footer.min_key, footer.max_key) == ("k0", "k2")
    schema = avro_to_arrow(footer.metadata["parquet.avro.schema"])
    assert schema.field("arr").type == pa.list_(pa.field("element", pa.int32()))
    first = rows(storage, schema)[0]
    assert first["_hoodie_record_key"] == first["id"] == "k0"
    assert (first["arr"], first["mp"], first["st"]) == ([1, 2], [("a", 1)], {"x": 7, "y": "q"})
    assert (first["dec"], first["bin"]) == (Decimal("12.34"), b"\x00\xff")


def test_sparks_base_file_is_read(storage):
    with tarfile.open(FIXTURES / "cow9_nonpart_bulk.tar.gz") as archive:
        name = next(n for n in archive.getnames() if n.endswith(".parquet"))
        storage.put(PATH, archive.extractfile(name).read())
    found = rows(storage, pa.schema([("id", pa.string()), ("price", pa.float64())]), [RECORD_KEY])
    assert found
    assert all(row[RECORD_KEY].startswith("k") for row in found)


def test_older_narrower_types_are_cast_up_and_missing_columns_are_null(storage):
    old = pa.table(
        {
            "i": pa.array([1, None], pa.int32()),
            "f": pa.array([1.5, 2.5], pa.float32()),
            "dec": pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
            "st": pa.array([{"x": 1, "gone": "g"}, None]),
            "ms": pa.array([1, 2], pa.timestamp("ms", "UTC")),
        }
    )
    put_parquet(storage, old, store_schema=False)
    new = pa.schema(
        [
            ("added", pa.list_(pa.string())),
            ("i", pa.decimal128(12, 2)),
            ("f", pa.float64()),
            ("dec", pa.decimal128(9, 4)),
            ("st", pa.struct([("y", pa.string()), ("x", pa.int64())])),
            ("ms", pa.timestamp("us", "UTC")),
        ]
    )
    found = rows(storage, new)
    assert found[0]["ms"].microsecond == 1000
    assert [tuple(row.values())[:5] for row in found] == [
        (None, Decimal("1.00"), 1.5, Decimal("1.2500"), {"y": None, "x": 1}),
        (None, None, 2.5, None, None),
    ]


def test_int96_timestamps_are_read(storage):
    table = pa.table({"t": pa.array([1_704_164_645_678_901], pa.timestamp("us"))})
    put_parquet(storage, table, use_deprecated_int96_timestamps=True, store_schema=False)
    for t in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        batch = next(iter(read_base_file(storage, PATH, pa.schema([("t", t)]))))
        assert batch.column(0).cast(pa.int64()).to_pylist() == [1_704_164_645_678_901]


def test_avros_fixed_and_enum_columns_are_read_as_bytes_and_text(storage):
    table = pa.table({"f": pa.array([b"abc"], pa.binary(3)), "e": pa.array([b"RED"])})
    put_parquet(storage, table, store_schema=False)
    assert rows(storage, pa.schema([("f", pa.binary()), ("e", pa.string())])) == [
        {"f": b"abc", "e": "RED"}
    ]


def test_a_file_without_meta_columns_gives_them_as_null(storage):
    put_parquet(storage, pa.table({"v": pa.array([5], pa.int64())}))
    assert rows(storage, columns=["_hoodie_record_key", "v"]) == [
        {"_hoodie_record_key": None, "v": 5}
    ]
    footer = read_footer(storage, PATH)
    assert (footer.min_key, footer.is_ordered) == (None, False)


def test_columns_that_no_file_has_still_give_every_row(storage):
    write_numbers(storage, 2500, row_group_rows=1000)
    schema = pa.schema([("v", pa.int64()), ("new", pa.string())])
    batches = list(read_base_file(storage, PATH, schema, ["new"], batch_rows=600))
    assert sum(batch.num_rows for batch in batches) == 2500
    assert max(batch.num_rows for batch in batches) <= 600
    assert {batch.column(0).null_count == batch.num_rows for batch in batches} == {True}


def test_an_unknown_column_and_a_missing_file_are_the_callers_errors(storage):
    write_numbers(storage, 1)
    with pytest.raises(SchemaError, match="'zz'"):
        rows(storage, columns=["zz"])
    with pytest.raises(NotFoundError):
        rows(storage, path="nowhere.parquet")
    with pytest.raises(NotFoundError):
        read_footer(storage, "nowhere.parquet")


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" * 3, b"x" * 1000], ids=str)
def test_bytes_that_are_no_parquet_file_are_corrupt_and_name_the_file(storage, data):
    storage.put(PATH, data)
    with pytest.raises(CorruptError, match=NAME):
        rows(storage)
    with pytest.raises(CorruptError, match=NAME):
        read_footer(storage, PATH)


def test_types_and_nulls_that_the_table_cannot_have_are_corrupt(storage):
    put_parquet(storage, pa.table({"v": ["text"]}))
    with pytest.raises(CorruptError, match=f"{NAME}.*'v'.*expected int64, found string"):
        rows(storage)
    put_parquet(storage, pa.table({"v": pa.array([300], pa.int32())}))
    with pytest.raises(CorruptError, match="'v'"):
        rows(storage, pa.schema([("v", pa.int8())]))
    put_parquet(storage, pa.table({"v": pa.array([None], pa.int64())}))
    with pytest.raises(CorruptError, match="'v'"):
        rows(storage, pa.schema([pa.field("v", pa.int64(), nullable=False)]))


@pytest.fixture(scope="module")
def whole_file():
    storage = memory_storage()
    with writer(storage, EVERY_TYPE, row_group_rows=50) as out:
        batch = pa.RecordBatch.from_pylist(EVERY_ROW * 40, EVERY_TYPE)
        out.write(batch, keys(0, 120))
    return storage.read(PATH), [
        row for b in read_base_file(storage, PATH, EVERY_TYPE) for row in b.to_pylist()
    ]


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_truncated_file_is_corrupt(whole_file, data):
    cut = data.draw(st.integers(0, len(whole_file[0]) - 1))
    storage = memory_storage()
    storage.put(PATH, whole_file[0][:cut])
    with pytest.raises(CorruptError):
        rows(storage, EVERY_TYPE)


def test_a_flipped_bit_is_noticed_by_page_checksums_and_never_breaks_the_reader(whole_file):
    good, wanted = whole_file
    pages_end = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    silent = 0
    for at in range(4, len(good), 37):
        broken = bytearray(good)
        broken[at] ^= 1 << at % 8
        storage = memory_storage()
        storage.put(PATH, bytes(broken))
        try:
            found = rows(storage, EVERY_TYPE)
        except LakebedError:
            continue
        silent += found != wanted and at < pages_end
    # Parquet's checksums cover the pages but not their headers.
    assert silent <= 1


def test_memory_does_not_grow_with_the_file(tmp_path):
    storage = LocalStorage(str(tmp_path))
    schema = pa.schema([("v", pa.int64()), ("w", pa.int64())])
    noise = np.random.default_rng(7)  # what does not compress makes a large file
    step, count = 20_000, 120
    base = pa.total_allocated_bytes()
    peak = 0
    with writer(storage, schema) as out:
        for i in range(count):
            columns = [pa.array(noise.integers(0, 2**62, step)) for _ in schema]
            batch = pa.record_batch(columns, schema=schema)
            out.write(batch, keys(i * step, (i + 1) * step))
            peak = max(peak, pa.total_allocated_bytes() - base)
    # A few row groups, of which the file has 147: more of them wait where the encoder is late.
    bound = out.close().size_bytes / 3
    assert peak < bound
    peak = seen = 0
    for read in read_base_file(storage, PATH, schema, batch_rows=16_384):
        peak = max(peak, pa.total_allocated_bytes() - base)
        seen += read.num_rows
    assert seen == count * step
    assert peak < bound


def test_a_remote_file_is_read_in_few_requests_and_bounded_memory():
    storage = memory_storage()
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())])
    write_rows = 60_000
    column = pa.array(range(write_rows), pa.int64())
    with writer(storage, schema, row_group_rows=1000) as out:
        out.write(pa.record_batch([column] * 3, schema=schema), keys(0, write_rows))
    remote = Remote(storage)
    found = sum(b.num_rows for b in read_base_file(remote, PATH, schema))
    assert found == write_rows
    # 60 row groups of 3 columns: one request a column chunk would be 180.
    assert len(remote.reads) < 20


def test_an_outage_while_reading_is_no_corruption():
    storage = memory_storage()
    write_numbers(storage, 20_000, row_group_rows=1000)
    with pytest.raises(UnavailableError, match="gone"):
        list(read_base_file(Remote(storage, fail_after=1), PATH, SIMPLE))
    with pytest.raises(UnavailableError, match="gone"):
        read_footer(Remote(storage, fail_after=0), PATH)


def test_batches_in_other_spellings_are_fitted_to_the_table(storage):
    schema = pa.schema([("v", pa.int64()), ("s", pa.string())])
    batch = pa.record_batch(
        [pa.array(["x"], pa.large_string()), pa.array([1], pa.int8())], ["S", "v"]
    )
    with writer(storage, schema) as out:
        out.write(batch, keys(0, 1))
    assert rows(storage, schema) == conform(batch, schema).to_pylist()


def test_a_base_file_without_rows_gives_a_sample_without_rows():
    storage = memory_storage()
    with DataFileWriter(
        storage.open_write(PATH), NewDataFile(PATH, SIMPLE, "t", INSTANT)
    ) as writer:
        writer.close()
    sample = list(sample_base_file(storage, PATH, SIMPLE, [RECORD_KEY, "v"]))
    assert sum(batch.num_rows for batch in sample) == 0
