"""A page whose header says that it is no page of data: pyarrow passes over it, and no read may."""

import io
import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakebed.errors import CorruptError, DamageWarning
from lakebed.format.names.meta_columns import COMMIT_SEQNO, COMMIT_TIME, META_COLUMNS, RECORD_KEY
from lakebed.model.clock import ManualClock
from lakebed.services.verify.findings import Mend, Severity
from lakebed.storage.local import LocalStorage
from lakebed.storage.objects import memory_storage
from lakebed.table.read.parquet_source import open_parquet
from support.tables import SCHEMA, batch, make, reopen, user_rows

A = batch(*((f"a{n}", n, 1, "A") for n in range(20)))
B = batch(*((f"b{n}", n, 1, "B") for n in range(20)))
KINDS = {
    "base": ({}, "L1"),
    "inline": ({}, "L0"),
    "native": ({"table_version": 10}, "L0"),
}
# What a read of rows takes from a file; the other columns only verify reads.
READ = {COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, *SCHEMA.names}


def loaded(storage, **changes):
    """Return a table of two partitions, each with a base file and a log."""
    properties = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
    settings = {"table_type": "MERGE_ON_READ", "buckets": 1, "properties": properties, **changes}
    table = make(storage, ManualClock(step_ms=1), **settings)
    table.bulk_insert(pa.concat_tables([A, B]))
    table.upsert(pa.concat_tables([A, B]))
    return table


def page_types(data):
    """Yield for each page header in a Parquet file, or a log with one, its column and type byte."""
    start, end = data.index(b"PAR1"), data.rindex(b"PAR1") + 4
    metadata = pq.ParquetFile(io.BytesIO(data[start:end])).metadata
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            for page in (chunk.dictionary_page_offset, chunk.data_page_offset):
                if page is not None:
                    assert data[start + page] == 0x15, "the first field is a number: the type"
                    yield chunk.path_in_schema, start + page + 1


def flip(storage, path, data, at, bit=2):
    storage.put(path, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])


def of_a(table, level):
    files = table.files().to_pylist()
    return next(f["path"] for f in files if f["partition"] == "A" and f["level"] == level)


@pytest.fixture(params=["memory", "disk"])
def storage(request, tmp_path):
    return memory_storage() if request.param == "memory" else LocalStorage(str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_goes_missing_when_a_page_is_passed_over(storage, kind):
    changes, level = KINDS[kind]
    table = loaded(storage, **changes)
    path = of_a(table, level)
    data = storage.read(path)
    intact = table.lookup([{"id": "a5", "dt": "A"}])
    places = list(page_types(data))
    assert {column for column, _ in places} >= READ
    for column, at in places:
        flip(storage, path, data, at)
        hurt = reopen(storage, table._clock)
        found = [f for f in hurt.verify() if f.severity is Severity.ERROR]
        assert [f.path for f in found] == [path], column
        steps = hurt.repair(dry_run=True, drop_lost=True).plan.steps
        assert [step.mend for step in steps] == [Mend.DROP_LOST], column
        if column not in READ:
            continue
        with pytest.raises(CorruptError, match=path):
            hurt.read(columns=[*META_COLUMNS, *SCHEMA.names]).read_all()
        if column in SCHEMA.names:
            with pytest.raises(CorruptError, match=path):
                hurt.read(columns=[column]).read_all()
            # The log's version stands, so most columns of the base file's need not be read.
            try:
                found = hurt.lookup([{"id": "a5", "dt": "A"}])
            except CorruptError as error:
                refused = str(error)
            else:
                assert kind == "base"
                assert column not in table.config.ordering_fields
                assert found.equals(intact), column
                refused = path
            assert path in refused
        with pytest.warns(DamageWarning, match="leaves out 1 damaged file slice"):
            rows = hurt.read(on_damage="skip").read_all()
        assert set(rows.column("dt").to_pylist()) == {"B"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_service_leaves_the_file_group_out_and_repair_ends_it(kind):
    changes, level = KINDS[kind]
    table = loaded(memory_storage(), **changes)
    storage, path = table._storage, of_a(table, level)
    data = storage.read(path)
    flip(storage, path, data, dict(page_types(data))["v"])
    hurt = reopen(storage, table._clock)
    [done] = hurt.compact("full")
    assert (done.full, len(done.damaged)) == (1, 1)
    assert path in done.damaged[0]
    [dropped] = hurt.repair(drop_lost=True).done.dropped
    assert path in str(dropped)
    assert {partition for partition, _ in user_rows(hurt)} == {"B"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hurt.count() == 20


def test_a_page_among_many_that_is_passed_over_is_found_in_every_column_and_row_group():
    rows = pa.table(
        {"a": range(400), "b": [str(n) for n in range(400)], "c": [[n] for n in range(400)]}
    )
    out = io.BytesIO()
    pq.write_table(
        rows, out, row_group_size=100, data_page_size=16, write_batch_size=10, use_dictionary=False
    )
    storage, data = memory_storage(), out.getvalue()
    for column, at in page_types(data):
        storage.put("f", data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        name = column.partition(".")[0]
        for columns in ([name], ["a", "b", "c"]):
            for batch_rows in (None, 7, 100):
                with (
                    open_parquet(storage, "f", "file f") as file,
                    pytest.raises(CorruptError, match="file f"),
                ):
                    list(file.read(columns, batch_rows=batch_rows))
        with open_parquet(storage, "f", "file f") as file:
            others = [other for other in "abc" if other != name]
            assert pa.Table.from_batches(file.read(others)) == rows.select(others)
            seen = file.row_groups_with("a", [0, 1, 2, 3], lambda _: True) if name != "a" else None
            assert seen in (None, [0, 1, 2, 3])
        if name == "a":
            with (
                open_parquet(storage, "f", "file f") as file,
                pytest.raises(CorruptError, match="found 90"),
            ):
                file.row_groups_with("a", [0, 1, 2, 3], lambda _: True)
