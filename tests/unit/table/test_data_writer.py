"""Data files: the key index of their footer, what rows say of their file, encoding behind the caller."""

import io
import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.errors import InvalidError, UnavailableError
from lakebed.format.files.footer import MAX_ROW_GROUP_KEYS_CHARS, encode_row_group_keys
from lakebed.format.names.meta_columns import FILE_NAME, META_COLUMNS, RECORD_KEY
from lakebed.storage.objects import memory_storage
from lakebed.storage.streams import WriteStream
from lakebed.table.store.avro_run_writer import AvroRunWriter
from lakebed.table.store.data_writer import DataFileWriter, NewDataFile
from lakebed.table.store.run_writer import RunWriter

INSTANT = "20240101000000000"
PATH = "p/f1-0_0-0-0_20240101000000000.parquet"
SCHEMA = pa.schema([("v", pa.int64())])


class Buffer(WriteStream):
    """A stream into memory that can fail, or wait for the test, at a write."""

    def __init__(self, fail_after=None, gate=None):
        super().__init__("buffer")
        self.data, self.events = io.BytesIO(), []
        self.fail_after, self.gate = fail_after, gate

    def _append(self, view):
        if self.gate is not None:
            assert self.gate.wait(20)
        if self.fail_after is not None and self.data.tell() > self.fail_after:
            raise UnavailableError("the disk is gone")
        self.data.write(view)

    def _publish(self):
        self.events.append("published")

    def _drop(self):
        self.events.append("dropped")


def writer(stream, **options):
    return DataFileWriter(stream, NewDataFile(PATH, SCHEMA, "t", INSTANT, **options))


def numbers(start, stop):
    return pa.record_batch([pa.array(range(start, stop), pa.int64())], schema=SCHEMA)


def keys(start, stop):
    return pa.array([f"k{i:08d}" for i in range(start, stop)])


def put(out, start, stop):
    out.write(numbers(start, stop), keys(start, stop))


def encoders():
    return [t for t in threading.enumerate() if t.name.startswith("lakebed-encode")]


def read(stream):
    return pq.ParquetFile(io.BytesIO(stream.data.getvalue()))


def test_the_footer_names_the_first_key_of_each_row_group():
    stream = Buffer()
    with writer(stream, row_group_rows=100) as out:
        put(out, 0, 250)
        put(out, 250, 310)
    file = read(stream)
    firsts = json.loads(file.metadata.metadata[b"lakebed.row_group_keys"])
    found = [file.read_row_group(i).column(RECORD_KEY)[0].as_py() for i in range(4)]
    assert firsts == found == ["k00000000", "k00000100", "k00000200", "k00000300"]
    assert file.metadata.num_row_groups == 4


def test_a_file_without_rows_has_an_empty_key_index():
    stream = Buffer()
    with writer(stream):
        pass
    assert read(stream).metadata.metadata[b"lakebed.row_group_keys"] == b"[]"


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_key_index_is_ascii_and_gives_its_keys_back(texts):
    encoded = encode_row_group_keys(texts)
    assert encoded.isascii()
    assert json.loads(encoded) == texts


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_a_key_index_that_is_too_long_is_left_out(character):
    spelled = len(json.dumps(character)) - 2
    fits = (MAX_ROW_GROUP_KEYS_CHARS - 4) // spelled
    assert encode_row_group_keys([character * fits]) is not None
    assert encode_row_group_keys([character * (fits + 1)]) is None


def test_rows_name_the_file_they_are_in_or_what_the_caller_says():
    for given_name, wanted in ((None, PATH.rpartition("/")[2]), ("f1-0", "f1-0")):
        stream = Buffer()
        with writer(stream, file_name=given_name) as out:
            put(out, 0, 3)
        assert read(stream).read().column(FILE_NAME).to_pylist() == [wanted] * 3


def test_what_the_caller_says_in_the_footer_goes_before_our_own():
    stream = Buffer()
    with writer(stream, metadata={"parquet.avro.schema": "theirs", "more": "m"}) as out:
        put(out, 0, 1)
    found = read(stream).metadata.metadata
    assert found[b"parquet.avro.schema"] == b"theirs"
    assert found[b"more"] == b"m"


def test_write_returns_while_a_row_group_is_being_encoded():
    gate = threading.Event()
    stream = Buffer(gate=gate)
    with writer(stream, row_group_rows=10) as out:
        put(out, 0, 15)  # the first row group waits at the gate, and no call waits for it
        assert stream.tell() == 0
        gate.set()
    assert read(stream).metadata.num_rows == 15


def test_a_row_group_that_cannot_be_written_is_the_error_of_a_later_call():
    stream = Buffer(fail_after=0)
    with (
        pytest.raises(UnavailableError, match="the disk is gone"),
        writer(stream, row_group_rows=10) as out,
    ):
        for start in range(0, 1000, 10):
            put(out, start, start + 10)
    assert stream.events == ["dropped"]
    assert not encoders()


def test_the_last_row_group_that_cannot_be_written_is_the_error_of_close():
    stream = Buffer(fail_after=0)
    out = writer(stream)
    put(out, 0, 10)
    with pytest.raises(UnavailableError, match="the disk is gone"):
        out.close()
    out.abort()
    assert stream.events == ["dropped"]


@pytest.mark.parametrize("end", ["close", "abort"])
def test_no_thread_stays(end):
    out = writer(Buffer(), row_group_rows=10)
    put(out, 0, 100)
    assert encoders()
    getattr(out, end)()
    assert not encoders()


def test_an_aborted_file_is_not_closed_by_the_end_of_its_block():
    stream = Buffer()
    with writer(stream, row_group_rows=10) as out:
        put(out, 0, 100)
        out.abort()
        out.abort()
    assert stream.events == ["dropped"]
    with pytest.raises(InvalidError, match="close after abort"):
        out.close()


def test_a_file_that_cannot_be_closed_at_the_end_of_its_block_is_dropped():
    stream = Buffer(fail_after=0)
    with pytest.raises(UnavailableError, match="the disk is gone"), writer(stream) as out:
        put(out, 0, 10)
    assert stream.events == ["dropped"]
    assert not encoders()
    with pytest.raises(InvalidError, match="close after abort"):
        out.close()


AVRO = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": RECORD_KEY, "type": "string"}]}
)
KEYS = pa.schema([pa.field(RECORD_KEY, pa.string(), nullable=False)])


@pytest.mark.parametrize(
    "open_run",
    [lambda at: RunWriter(at, "x", KEYS, {}), lambda at: AvroRunWriter(at, "x", AVRO)],
    ids=["Parquet", "Avro"],
)
def test_a_run_is_published_once_and_then_stays(open_run):
    stream = Buffer()
    with open_run(stream) as out:
        out.write(pa.record_batch([[]], schema=KEYS))
        assert (out.rows, out.min_key, out.max_key) == (0, None, None)
        out.write(pa.record_batch([["a", "b"]], schema=KEYS))
        with pytest.raises(InvalidError, match="x: expected record keys above 'b', found 'b'"):
            out.write(pa.record_batch([["b"]], schema=KEYS))
        assert (out.rows, out.min_key, out.max_key) == (2, "a", "b")
    size_bytes = len(stream.data.getvalue())
    out.abort()
    assert out.close() == out.close() == size_bytes > 0
    assert stream.events == ["published"]


def test_rows_are_counted_while_they_come():
    with writer(Buffer()) as out:
        assert out.rows == 0
        put(out, 0, 7)
        assert out.rows == 7


def test_a_run_need_not_have_meta_columns_but_the_key():
    storage = memory_storage()
    schema = pa.schema([pa.field(RECORD_KEY, pa.string(), nullable=False), ("ts", pa.int64())])
    with RunWriter(storage.open_write("x"), "x", schema, {"a": "b"}) as out:
        out.write(pa.record_batch([["a", "b"], pa.array([1, None])], schema=schema))
        with pytest.raises(InvalidError, match="x: expected record keys above 'b', found 'a'"):
            out.write(pa.record_batch([["a"], pa.array([1])], schema=schema))
    file = pq.ParquetFile(io.BytesIO(storage.read("x")))
    assert file.read().to_pylist() == [{RECORD_KEY: "a", "ts": 1}, {RECORD_KEY: "b", "ts": None}]
    assert not file.schema_arrow.field(0).nullable
    assert not {*META_COLUMNS[:2]} & {*file.schema_arrow.names}
    assert out.close() == storage.head("x").size
