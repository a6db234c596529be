"""A moment that was cleaned away, or a file that is lost, is an error and not fewer rows."""

import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import CorruptError, InvalidError, LakebedError
from lakebed.storage.objects import memory_storage
from support.fixtures import unpack
from support.tables import batch, make, reopen, user_rows

ROWS = batch(("a", 1, 1, "p"), ("b", 1, 2, "q"))


@pytest.mark.parametrize("name", ["cow9_archive", "cow9_services"])
def test_as_of_an_instant_gives_all_its_rows_or_says_that_it_was_cleaned(name, tmp_path):
    table = lakebed.open_table(None, str(unpack(name, tmp_path)))
    refused = 0
    for row in table.history().to_pylist():
        if row["operation"] not in {"INSERT", "UPSERT", "BULK_INSERT"}:
            continue
        try:
            rows = table.read(as_of=row["instant"]).read_all().num_rows
        except InvalidError:
            refused += 1
        else:
            assert rows >= row["rows_written"] > 0
    assert refused


def test_as_of_before_the_first_commit_is_refused_and_names_it():
    table = make()
    first = table.insert(ROWS).instant
    with pytest.raises(InvalidError, match=f"the first commit of table 't' is {first}"):
        table.read(as_of="2000-01-01")


def test_a_base_file_that_is_gone_is_named():
    storage = memory_storage()
    make(storage).insert(ROWS)
    lost = next(entry.path for entry in storage.list() if entry.path.endswith(".parquet"))
    storage.delete(lost)
    with pytest.raises(CorruptError, match="is missing") as raised:
        user_rows(reopen(storage))
    assert lost in str(raised.value)


def test_no_flipped_byte_of_a_commit_loses_rows_in_silence():
    storage = memory_storage()
    table = make(storage)
    table.insert(ROWS)
    want = user_rows(table)
    [commit] = [entry.path for entry in storage.list() if entry.path.endswith(".commit")]
    data = storage.read(commit)
    # The record itself; the schema of the container before it comes with every Avro file.
    start = data.rindex(data[-16:], 0, len(data) - 16) + 16
    for at in range(start, len(data)):
        storage.put(commit, data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        try:
            got = user_rows(reopen(storage))
        except LakebedError:
            continue
        assert len(got) == len(want), at
    storage.put(commit, data)
    assert user_rows(reopen(storage)) == want


def test_a_table_below_this_one_keeps_its_files_to_itself():
    storage = memory_storage()
    table = make(storage)
    table.insert(ROWS)
    inner = (
        "archive/.hoodie/metadata/00000000-0000-0000-0000-000000000000-0_0-0-0_20000101000000000"
    )
    storage.put(f"{inner}.parquet", b"not ours")
    assert len(user_rows(reopen(storage))) == 2


def test_the_schema_of_a_table_without_one_comes_from_a_file_without_meta_columns():
    table = make()
    table.insert(ROWS)
    snapshot = table._snapshot(None)
    snapshot.__dict__["schema_text"] = None
    assert snapshot.schema.names == pa.schema(table.schema).names
